from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.core.model_family import model_family
from workers.errors import ManifestError, SettingsError
from workers.providers.chain import Link, check_chain, default_models, parse_link, resolve_chain
from workers.providers.registry import ProviderConfig, enabled

SIMULATED = ("sim-alder-1", "sim-alder-2", "sim-birch-1", "sim-cedar-1")


@pytest.mark.parametrize(
    ("provider", "model", "family"),
    [
        ("anthropic", "claude-sonnet-5", "claude"),
        ("openrouter", "anthropic/claude-sonnet-5", "claude"),
        ("openai", "gpt-5-mini", "gpt"),
        ("openai", "o3", "gpt"),
        ("openrouter", "openai/o4-mini", "gpt"),
        ("openai", "ft:gpt-4o-mini:acme::abc", "gpt"),
        ("openai", "chatgpt-4o-latest", "gpt"),
        ("groq", "openai/gpt-oss-120b", "gpt"),
        ("gemini", "models/gemini-2.5-flash", "gemini"),
        ("mistral", "codestral-latest", "mistral"),
        ("mistral", "open-mixtral-8x7b", "mistral"),
        ("mistral", "Magistral-Medium", "mistral"),
        ("deepseek", "deepseek-chat", "deepseek"),
        ("ollama", "deepseek-r1:70b", "deepseek"),
        ("groq", "deepseek-r1-distill-llama-70b", "deepseek"),
        ("xai", "grok-4", "grok"),
        ("openrouter", "meta-llama/llama-4-scout", "llama"),
        ("ollama", "llama3.1:8b", "llama"),
        ("ollama", "qwen2.5-coder:7b", "qwen"),
        ("openrouter", "nvidia/llama-3.1-nemotron-70b", "llama"),
        ("simulator", "sim-alder-large", "sim-alder"),
        ("simulator", "sim-birch", "sim-birch"),
        ("simulator", "sim-cedar-2", "sim-cedar"),
        ("local", "Zephyr-7b", "zephyr"),
        ("local", "o3", "o"),
        ("local", "42", "42"),
    ],
)
def test_families_are_read_from_the_name_whoever_serves_it(provider: str, model: str, family: str) -> None:
    assert model_family(provider, model) == family


@given(st.text(max_size=20), st.text(max_size=40))
def test_every_name_has_a_family_in_lower_case(provider: str, model: str) -> None:
    family = model_family(provider, model)
    assert family == family.lower()


def on(*names: str, **models: str) -> dict[str, ProviderConfig]:
    keys = {f"{name.upper()}_API_KEY": "k" for name in names}
    return enabled({**keys, **{f"{name.upper()}_MODEL": model for name, model in models.items()}})


def names(links: tuple[Link, ...]) -> list[str]:
    return [f"{link.provider}/{link.model}" for link in links]


def test_links_whose_provider_is_off_are_left_out_in_order() -> None:
    chain = ("anthropic/claude-x", "openrouter/meta-llama/llama-4", "openai/gpt-x")
    links = resolve_chain(chain, on("openai", "openrouter"), {}, seat_index=5)
    assert links == (
        Link(provider="openrouter", model="meta-llama/llama-4", family="llama"),
        Link(provider="openai", model="gpt-x", family="gpt"),
    )


def test_a_seat_without_a_provider_falls_to_the_enabled_ones_by_its_number() -> None:
    configs = on("openai", "mistral", "xai", openai="gpt-x")
    defaults = {"openai": ("never used: a setting wins",), "mistral": ("small",), "xai": ("grok-x",)}
    starts = [names(resolve_chain(("anthropic/claude-x",), configs, defaults, seat)) for seat in range(4)]
    assert starts[0] == ["openai/gpt-x", "mistral/small", "xai/grok-x"]
    assert starts[1] == ["mistral/small", "xai/grok-x", "openai/gpt-x"]
    assert starts[2] == ["xai/grok-x", "openai/gpt-x", "mistral/small"]
    assert starts[3] == starts[0]


def test_three_simulated_seats_are_of_three_families() -> None:
    configs = enabled({"CONSENSUS_SIMULATOR_URL": "http://127.0.0.1:1"})
    defaults = {"simulator": default_models("simulator", SIMULATED)}
    first = [resolve_chain(("openai/gpt-x",), configs, defaults, seat)[0].family for seat in range(3)]
    assert first == ["sim-alder", "sim-birch", "sim-cedar"]


def test_nothing_enabled_says_what_would_help() -> None:
    with pytest.raises(SettingsError, match=r"OPENAI_API_KEY, .* or LOCAL_BASE_URL"):
        resolve_chain(("openai/gpt-x",), {}, {}, 0)


def test_an_enabled_provider_without_a_model_says_which_variable_names_one() -> None:
    with pytest.raises(
        SettingsError, match="openai, xai listed no model; name one in OPENAI_MODEL or XAI_MODEL"
    ):
        resolve_chain((), on("openai", "xai"), {"openai": ()}, 0)


@pytest.mark.parametrize("entry", ["gpt-x", "/gpt-x", "openai/", "", "  "])
def test_an_entry_without_provider_or_model_is_refused(entry: str) -> None:
    with pytest.raises(ManifestError, match="is not of the form provider/model"):
        parse_link(entry)


def test_a_misspelt_provider_is_found_when_a_team_is_checked() -> None:
    check_chain(("openai/gpt-x", "ollama/llama3"))
    with pytest.raises(ManifestError, match="'antropic'; known ones are openai, anthropic"):
        check_chain(("openai/gpt-x", "antropic/claude"))


def test_the_first_listed_model_that_chats_is_the_default() -> None:
    listed = (
        "text-embedding-3",
        "whisper-1",
        "dall-e-3",
        "gpt-4o-mini-tts",
        "omni-moderation",
        "gpt-x",
        "gpt-y",
    )
    assert default_models("openai", listed) == ("gpt-x",)
    assert default_models("local", ("bge-embed",)) == ("bge-embed",)
    assert default_models("openai", ()) == ()


_chain = st.lists(
    st.sampled_from(["openai/a", "mistral/b", "openrouter/c/d", "groq/e", "unknown/f"]), max_size=5
).map(tuple)


@given(
    _chain,
    st.sets(st.sampled_from(["openai", "mistral", "openrouter", "groq"]), min_size=1),
    st.integers(0, 1000),
)
def test_a_chain_is_never_empty_and_only_of_enabled_providers(
    chain: tuple[str, ...], providers: set[str], seat_index: int
) -> None:
    configs = on(*providers)
    links = resolve_chain(chain, configs, dict.fromkeys(providers, ("m",)), seat_index)
    assert links
    assert {link.provider for link in links} <= providers
    kept = [entry for entry in chain if entry.partition("/")[0] in providers]
    assert not kept or names(links) == kept
