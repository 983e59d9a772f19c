"""Which models a seat asks, in which order (DESIGN §4). Pure: what is on, and its models, are passed in."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from workers.core.model_family import model_family
from workers.errors import ManifestError, SettingsError
from workers.providers.registry import PROVIDERS, SIMULATOR, ProviderConfig, how_to_enable


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One model of a seat's fallback chain."""

    provider: str
    model: str
    family: str


#: Lists of models are full of things that do not chat.
_NOT_CHAT = re.compile(
    r"embed|whisper|tts|speech|audio|realtime|transcri|voice|dall-e|image|imagen|veo\b|sora|video|"
    r"moderation|guard|rerank|ocr|aqa|davinci|babbage|3\.5-turbo-instruct|computer-use|search-",
    re.IGNORECASE,
)


def parse_link(entry: str) -> Link:
    """`provider/model`, cut at the first slash: the models of OpenRouter hold slashes themselves.

    Raises: ManifestError.
    """
    provider, _, model = entry.strip().partition("/")
    if not provider or not model:
        raise ManifestError(
            f"the chain entry {entry!r} is not of the form provider/model, for instance openai/gpt-5-mini"
        )
    return Link(provider=provider, model=model, family=model_family(provider, model))


def check_chain(chain: Sequence[str]) -> None:
    """For whoever validates a team file: raises ManifestError when an entry names no provider we know."""
    for entry in chain:
        provider = parse_link(entry).provider
        if provider not in PROVIDERS:
            raise ManifestError(
                f"the chain entry {entry!r} names the provider {provider!r}; "
                f"known ones are {', '.join(PROVIDERS)}"
            )


def default_models(provider: str, listed: Sequence[str]) -> tuple[str, ...]:
    """Of what `GET /models` lists: the first that chats, or the first at all, or none.

    The simulator gives one model of each family, so that a panel of simulated seats has something to
    disagree about. A real provider does not: its list holds hundreds, and the user has chosen none of them.
    """
    chatting = [model for model in listed if not _NOT_CHAT.search(model)] or list(listed)
    if provider != SIMULATOR:
        return tuple(chatting[:1])
    by_family: dict[str, str] = {}
    for model in chatting:
        by_family.setdefault(model_family(provider, model), model)
    return tuple(by_family.values())


def resolve_chain(
    chain: Sequence[str],
    enabled: Mapping[str, ProviderConfig],
    defaults: Mapping[str, Sequence[str]],
    seat_index: int,
) -> tuple[Link, ...]:
    """The links of `chain` whose provider is on. If none is: every enabled (provider, model) pair, starting
    at the seat's own number, so that neighbours at the table start with different ones.

    `defaults` gives the models of an enabled provider without a `<PROVIDER>_MODEL` setting (see
    `default_models`). Never empty. Raises: ManifestError (an entry cannot be read); SettingsError (nothing
    is on, or nothing that is on has a model), naming the variables that would help.
    """
    wanted = tuple(link for link in map(parse_link, chain) if link.provider in enabled)
    if wanted:
        return wanted
    if not enabled:
        raise SettingsError(f"no model provider is on; set one of {how_to_enable()}")
    pairs = [
        Link(provider=name, model=model, family=model_family(name, model))
        for name, config in enabled.items()
        for model in ([config.model] if config.model else defaults.get(name, ()))
    ]
    if not pairs:
        variables = " or ".join(PROVIDERS[name].model_variable for name in enabled if name in PROVIDERS)
        raise SettingsError(f"{', '.join(enabled)} listed no model; name one in {variables}")
    start = seat_index % len(pairs)
    return (*pairs[start:], *pairs[:start])
