"""Which family a model belongs to, whoever serves it."""

from __future__ import annotations

import pytest

from workers.core.model_family import model_family


@pytest.mark.parametrize(
    ("provider", "model", "family"),
    [
        ("anthropic", "claude-x-5", "claude"),
        ("router", "anthropic/Claude-X", "claude"),
        ("openai", "gpt-5", "gpt"),
        ("openai", "o3-mini", "gpt"),
        ("router", "openai/o1", "gpt"),
        ("OpenAI", "O3", "gpt"),
        ("local", "o3-mini", "o"),  # somebody else's model of that name
        ("openai", "davinci-2", "davinci"),
        ("openai", "whisper-gpt-1", "gpt"),
        ("mistral", "codestral-25", "mistral"),
        ("deepseek", "deepseek-r1-distill-llama-70b", "deepseek"),
        ("local", "sim-gpt", "sim-gpt"),  # the simulator's families are its own
        ("local", "sim-birch-2", "sim-birch"),
        ("local", "my-sim-gpt", "gpt"),
        ("local", "alder-1", "alder"),
        ("local", "new_model.llama", "llama"),
        ("local", "4711", "4711"),
        ("local", "a/b/4711", "4711"),
    ],
)
def test_a_model_s_family_is_read_from_its_name(provider: str, model: str, family: str) -> None:
    assert model_family(provider, model) == family
