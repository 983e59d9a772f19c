from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.core.reply import CompletionRequest, Message
from workers.errors import SettingsError
from workers.providers.prices import cheapest, price_of
from workers.providers.registry import (
    PROVIDERS,
    ProviderConfig,
    ProviderSpec,
    bucket_key,
    cheap_model,
    enabled,
    how_to_enable,
)
from workers.providers.wire_provider import WIRES

KEYED = [spec for spec in PROVIDERS.values() if spec.needs_key]


def test_the_eleven_providers_are_there_in_order() -> None:
    assert list(PROVIDERS) == [
        *("openai", "anthropic", "mistral", "deepseek", "gemini", "openrouter"),
        *("groq", "xai", "ollama", "local", "simulator"),
    ]
    assert all(spec.wire in WIRES for spec in PROVIDERS.values())


@pytest.mark.parametrize("spec", KEYED, ids=lambda spec: spec.name)
def test_a_key_turns_a_provider_on_at_its_own_address(spec: ProviderSpec) -> None:
    configs = enabled({f"{spec.name.upper()}_API_KEY": " k \n", f"{spec.name.upper()}_MODEL": "m"})
    assert list(configs) == [spec.name]
    config = configs[spec.name]
    assert (config.base_url, config.api_key, config.model) == (spec.base_url, "k", "m")


def test_nothing_in_the_environment_turns_nothing_on() -> None:
    assert enabled({}) == {}
    assert enabled({"OPENAI_API_KEY": "  ", "OPENAI_BASE_URL": "http://x/v1", "OLLAMA_BASE_URL": ""}) == {}


def test_a_url_turns_on_what_needs_no_key() -> None:
    configs = enabled(
        {"OLLAMA_BASE_URL": "http://gpu:11434", "LOCAL_BASE_URL": "http://[::1]:9/api/", "LOCAL_API_KEY": "k"}
    )
    assert {name: (config.base_url, config.api_key) for name, config in configs.items()} == {
        "ollama": ("http://gpu:11434/v1", ""),
        "local": ("http://[::1]:9/api", "k"),
    }
    assert enabled({"LOCAL_API_KEY": "k", "OLLAMA_API_KEY": "k"}) == {}


def test_gemini_answers_to_googles_key_too() -> None:
    assert enabled({"GOOGLE_API_KEY": "g"})["gemini"].api_key == "g"
    assert enabled({"GOOGLE_API_KEY": "g", "GEMINI_API_KEY": "own"})["gemini"].api_key == "own"


@pytest.mark.parametrize(
    ("name", "stated", "base_url"),
    [
        ("OPENAI", "https://gate.example/v1/", "https://gate.example/v1"),
        ("OPENAI", "https://gate.example", "https://gate.example/v1"),
        ("GEMINI", "http://proxy:8080/", "http://proxy:8080/v1beta/openai"),
        ("ANTHROPIC", "https://gate.example/claude", "https://gate.example/claude/v1"),
        ("ANTHROPIC", "https://gate.example", "https://gate.example/v1"),
        ("ANTHROPIC", "https://gate.example/v1", "https://gate.example/v1"),
    ],
)
def test_base_urls_are_overridable_and_completed(name: str, stated: str, base_url: str) -> None:
    configs = enabled({f"{name}_API_KEY": "k", f"{name}_BASE_URL": stated})
    assert configs[name.lower()].base_url == base_url


def test_openais_own_habits_are_not_expected_of_another_host() -> None:
    own = enabled({"OPENAI_API_KEY": "k"})["openai"].compat
    other = enabled({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://vllm:8000/v1"})["openai"].compat
    assert (own.system_role, own.max_tokens_fields[0]) == ("developer", "max_completion_tokens")
    assert (other.system_role, other.max_tokens_fields[0]) == ("system", "max_tokens")


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("api.example.com/v1", "does not start with http"),
        ("ftp://x/v1", "does not start with http"),
        ("http://", "names no usable host"),
        ("http://ho st/v1", "names no usable host"),
        ("http://x:0/v1", "names no usable host"),
        ("http://x:port/v1", "not a URL that can be read"),
        ("http://[::1/v1", "not a URL that can be read"),
        ("http://x/v1?key=1", "after '\\?'"),
        ("http://me:hunter2@x/v1", "carries a user name"),
    ],
)
def test_a_bad_url_is_a_sentence_that_names_the_variable(url: str, fault: str) -> None:
    with pytest.raises(SettingsError, match=fault) as caught:
        enabled({"LOCAL_BASE_URL": url})
    assert str(caught.value).startswith("LOCAL_BASE_URL ")
    assert str(caught.value).endswith("a right one looks like http://localhost:8000/v1")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "sk-é", "tab\there"])
def test_a_spoilt_key_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(SettingsError, match="OPENAI_API_KEY holds") as caught:
        enabled({"OPENAI_API_KEY": key})
    assert key not in str(caught.value)


def test_keys_are_in_no_repr() -> None:
    config = enabled({"OPENAI_API_KEY": "sk-hush"})["openai"]
    assert "sk-hush" not in repr(config) + str(config) + f"{config}"


def test_a_bucket_is_a_providers_a_keys_and_a_familys() -> None:
    """BLAKE2b of "abc" begins ba80a53f (RFC 7693, appendix A)."""
    config = enabled({"OPENAI_API_KEY": "abc"})["openai"]
    assert config.key_digest == "ba80a53f"
    assert bucket_key(config, "gpt") == "openai:ba80a53f:gpt"
    assert bucket_key(enabled({"LOCAL_BASE_URL": "http://x"})["local"], "qwen") == "local:nokey:qwen"


def test_limits_are_handed_on() -> None:
    limits = (
        *("requests_per_minute", "input_tokens_per_minute", "output_tokens_per_minute"),
        *("requests_per_day", "concurrency"),
    )
    for spec in KEYED:
        config = enabled({spec.key_variables[0]: "k"})[spec.name]
        assert [getattr(config, name) for name in limits] == [getattr(spec, name) for name in limits]
        assert all(getattr(spec, name) is None or getattr(spec, name) > 0 for name in limits)


@pytest.mark.parametrize("spec", KEYED, ids=lambda spec: spec.name)
def test_a_cheap_model_is_the_cheapest_that_is_priced(spec: ProviderSpec) -> None:
    assert spec.cheap_model == cheapest(spec.name)


def configured(name: str, **environment: str) -> ProviderConfig:
    return enabled(environment)[name]


def test_a_cheap_model_stands_in_for_its_family() -> None:
    simulator = configured("simulator", CONSENSUS_SIMULATOR_URL="http://10.0.0.1:9000")
    assert cheap_model(simulator, "sim-birch") == "sim-birch-small"
    assert price_of("simulator", "sim-birch-small") is not None
    assert cheap_model(configured("openai", OPENAI_API_KEY="k"), "gpt") == "gpt-6-luna"
    elsewhere = configured("openai", OPENAI_API_KEY="k", OPENAI_BASE_URL="http://vllm:8000")
    assert cheap_model(elsewhere, "gpt") is None
    assert cheap_model(configured("local", LOCAL_BASE_URL="http://x"), "qwen") is None


@pytest.mark.parametrize(
    ("name", "model", "is_sent"),
    [
        ("openai", "gpt-5-mini", False),
        ("openai", "gpt-6-luna", False),
        ("openai", "o3", False),
        ("openai", "gpt-5-chat-latest", True),
        ("openai", "gpt-4.1", True),
        ("anthropic", "claude-sonnet-5-5", False),
        ("anthropic", "claude-haiku-4-5", True),
        ("mistral", "mistral-small-latest", True),
    ],
)
def test_models_that_think_are_sent_no_temperature(name: str, model: str, is_sent: bool) -> None:
    compat = enabled({f"{name.upper()}_API_KEY": "k"})[name].compat
    request = CompletionRequest(
        model=model, messages=(Message(role="user", content="x"),), max_tokens=9, temperature=0.5
    )
    body = WIRES[PROVIDERS[name].wire].encode(request, compat)
    assert ("temperature" in body) is is_sent
    assert ("max_completion_tokens" in body) is (name == "openai")


def test_the_simulator_is_never_mixed_with_real_ones() -> None:
    simulated = {"CONSENSUS_SIMULATOR_URL": "http://127.0.0.1:9000"}
    assert {name: config.base_url for name, config in enabled(simulated).items()} == {
        "simulator": "http://127.0.0.1:9000/v1"
    }
    assert list(enabled({**simulated, "XAI_API_KEY": "k"})) == ["xai"]
    assert list(enabled({**simulated, "LOCAL_BASE_URL": "http://x"})) == ["local"]


_variables = st.sampled_from(
    sorted(
        {
            variable
            for spec in PROVIDERS.values()
            for variable in (*spec.key_variables, spec.url_variable, spec.model_variable)
        }
    )
)


@given(st.dictionaries(_variables, st.text(max_size=30) | st.just("http://127.0.0.1:1")))
def test_any_environment_is_read_or_refused_in_a_sentence(environment: dict[str, str]) -> None:
    try:
        configs = enabled(environment)
    except SettingsError:
        return
    assert "simulator" not in configs or len(configs) == 1


def test_the_help_names_what_would_turn_one_on() -> None:
    assert how_to_enable().startswith("OPENAI_API_KEY, ANTHROPIC_API_KEY, ")
    assert how_to_enable().endswith("XAI_API_KEY, OLLAMA_BASE_URL or LOCAL_BASE_URL")
