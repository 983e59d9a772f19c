"""The providers, as data: adding one is one entry here. Facts and traps of each: reference/panel.md §5.3.

Limits are what a first paid tier allows, or less, as far as it is published; they only shape the start, since
headers, a 429 or a setting correct them. None means that the provider states no limit of that kind, or none that
holds for all its models. Tokens that a provider counts together stand as input."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from workers.errors import SettingsError
from workers.governor.base import Limits
from workers.providers.compat import Compat

WireName = Literal["openai", "anthropic"]

SIMULATOR = "simulator"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSpec:
    """What we know of a provider before looking at the environment.

    `key_variables`: the first that is set is used. `needs_key`: off without a key; the others are on when
    `url_variable` is set. `compat_elsewhere`: used when the base URL points to another host, where the
    provider's own habits may not hold. `cheap_model`: the model for the bulk of the work while quota is low, with
    `{family}` for the family of the model it stands in for; None where only the user knows one.
    """

    name: str
    base_url: str
    url_variable: str
    key_variables: tuple[str, ...]
    model_variable: str
    wire: WireName = "openai"
    needs_key: bool = True
    compat: Compat = dataclasses.field(default_factory=Compat)
    compat_elsewhere: Compat | None = None
    requests_per_minute: float | None = None
    input_tokens_per_minute: float | None = None
    output_tokens_per_minute: float | None = None
    requests_per_day: int | None = None
    concurrency: int | None = None
    cheap_model: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConfig:
    """A provider that is on. `model` is the `<PROVIDER>_MODEL` setting, or None. No repr shows the key."""

    name: str
    wire: WireName
    base_url: str
    compat: Compat
    api_key: str = dataclasses.field(default="", repr=False)
    model: str | None = None
    requests_per_minute: float | None = None
    input_tokens_per_minute: float | None = None
    output_tokens_per_minute: float | None = None
    requests_per_day: int | None = None
    concurrency: int | None = None
    cheap_model: str | None = None

    @property
    def limits(self) -> Limits:
        """What the provider is known to allow for each model family."""
        return Limits(
            requests_per_minute=self.requests_per_minute,
            input_tokens_per_minute=self.input_tokens_per_minute,
            output_tokens_per_minute=self.output_tokens_per_minute,
            requests_per_day=self.requests_per_day,
            concurrency=self.concurrency,
        )

    @property
    def key_digest(self) -> str:
        """Tells keys apart without showing them: the first 8 hex digits of their BLAKE2b; "nokey" for none."""
        return hashlib.blake2b(self.api_key.encode()).hexdigest()[:8] if self.api_key else "nokey"


_SPECS = (
    ProviderSpec(
        name="openai",
        base_url="https://api.openai.com/v1",
        url_variable="OPENAI_BASE_URL",
        key_variables=("OPENAI_API_KEY",),
        model_variable="OPENAI_MODEL",
        # Reasoning models take only this name for the limit, and call the instructions "developer".
        compat=Compat(
            max_tokens_fields=("max_completion_tokens", "max_tokens"),
            system_role="developer",
            fixed_temperature_models=re.compile(r"o[1-9]|gpt-[5-9](?!.*chat)|codex"),
        ),
        compat_elsewhere=Compat(),
        requests_per_minute=500,
        concurrency=64,
        cheap_model="gpt-6-luna",
    ),
    ProviderSpec(
        name="anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com/v1",
        url_variable="ANTHROPIC_BASE_URL",
        key_variables=("ANTHROPIC_API_KEY",),
        model_variable="ANTHROPIC_MODEL",
        # From generation 5 on, a temperature other than the default is refused.
        compat=Compat(
            max_temperature=1.0,
            has_json_mode=False,
            fixed_temperature_models=re.compile(r"claude-[a-z]+-[5-9]"),
        ),
        # The Start tier, per model family (its rate-limits page on 2026-10-17).
        requests_per_minute=1_000,
        input_tokens_per_minute=500_000,
        output_tokens_per_minute=100_000,
        concurrency=16,
        cheap_model="claude-haiku-5-5",
    ),
    ProviderSpec(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        url_variable="MISTRAL_BASE_URL",
        key_variables=("MISTRAL_API_KEY",),
        model_variable="MISTRAL_MODEL",
        # 422 to every unknown field; usage comes in the stream without asking.
        compat=Compat(max_tokens_fields=("max_tokens",), max_temperature=1.0, has_stream_usage_option=False),
        requests_per_minute=60,
        input_tokens_per_minute=500_000,
        concurrency=16,
        cheap_model="mistral-small-latest",
    ),
    ProviderSpec(
        name="deepseek",
        base_url="https://api.deepseek.com/v1",
        url_variable="DEEPSEEK_BASE_URL",
        key_variables=("DEEPSEEK_API_KEY",),
        model_variable="DEEPSEEK_MODEL",
        # Its JSON mode answers with nothing now and then; asking in the prompt works.
        compat=Compat(max_tokens_fields=("max_tokens",), has_json_mode=False, wants_reasoning_back=True),
        concurrency=32,
        cheap_model="deepseek-flash",
    ),
    ProviderSpec(
        name="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        url_variable="GEMINI_BASE_URL",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        model_variable="GEMINI_MODEL",
        requests_per_minute=60,
        # Tier 1 of the Pro model (Google's forum, 2025); the project's own figures are shown in AI Studio only.
        input_tokens_per_minute=2_000_000,
        requests_per_day=10_000,
        concurrency=16,
        cheap_model="gemini-2.5-flash-lite",
    ),
    ProviderSpec(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        url_variable="OPENROUTER_BASE_URL",
        key_variables=("OPENROUTER_API_KEY",),
        model_variable="OPENROUTER_MODEL",
        requests_per_minute=60,
        concurrency=32,
        cheap_model="openai/gpt-oss-20b",
    ),
    ProviderSpec(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        url_variable="GROQ_BASE_URL",
        key_variables=("GROQ_API_KEY",),
        model_variable="GROQ_MODEL",
        # Its headers count the day's requests and the minute's tokens exactly, per plan.
        requests_per_minute=30,
        concurrency=8,
        cheap_model="openai/gpt-oss-20b",
    ),
    ProviderSpec(
        name="xai",
        base_url="https://api.x.ai/v1",
        url_variable="XAI_BASE_URL",
        key_variables=("XAI_API_KEY",),
        model_variable="XAI_MODEL",
        requests_per_minute=60,
        input_tokens_per_minute=2_000_000,
        concurrency=16,
        cheap_model="grok-4.3",
    ),
    ProviderSpec(
        name="ollama",
        base_url="http://localhost:11434/v1",
        url_variable="OLLAMA_BASE_URL",
        key_variables=("OLLAMA_API_KEY",),
        model_variable="OLLAMA_MODEL",
        needs_key=False,
        # One graphics card, a short queue.
        concurrency=4,
    ),
    ProviderSpec(
        name="local",
        base_url="http://localhost:8000/v1",
        url_variable="LOCAL_BASE_URL",
        key_variables=("LOCAL_API_KEY",),
        model_variable="LOCAL_MODEL",
        needs_key=False,
        concurrency=32,
    ),
    ProviderSpec(
        name=SIMULATOR,
        base_url="http://127.0.0.1:8001/v1",
        url_variable="CONSENSUS_SIMULATOR_URL",
        key_variables=(),
        model_variable="SIMULATOR_MODEL",
        needs_key=False,
        cheap_model="{family}-small",
    ),
)

PROVIDERS: Mapping[str, ProviderSpec] = {spec.name: spec for spec in _SPECS}


def enabled(environment: Mapping[str, str]) -> dict[str, ProviderConfig]:
    """The providers that the environment turns on, in the registry's order.

    The simulator is on only where no other provider is: its answers never stand beside real ones.
    Raises: SettingsError naming the variable, what is wrong with it and what would be right.
    """
    configs = {
        spec.name: _configure(spec, environment)
        for spec in _SPECS
        if spec.name != SIMULATOR and _is_on(spec, environment)
    }
    simulator = PROVIDERS[SIMULATOR]
    if not configs and _is_on(simulator, environment):
        configs[SIMULATOR] = _configure(simulator, environment)
    return configs


def bucket_key(config: ProviderConfig, family: str) -> str:
    """The governor's bucket: limits are counted per provider, key and model family."""
    return f"{config.name}:{config.key_digest}:{family}"


def cheap_model(config: ProviderConfig, family: str) -> str | None:
    """The model that stands in for one of `family` while quota is low, or None: keep the model."""
    return None if config.cheap_model is None else config.cheap_model.replace("{family}", family)


def how_to_enable() -> str:
    """The variables of which any one turns a provider on, for a message."""
    names = [
        variable
        for spec in _SPECS
        if spec.name != SIMULATOR
        for variable in (spec.key_variables[:1] if spec.needs_key else (spec.url_variable,))
    ]
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _is_on(spec: ProviderSpec, environment: Mapping[str, str]) -> bool:
    variables = spec.key_variables if spec.needs_key else (spec.url_variable,)
    return any(environment.get(variable, "").strip() for variable in variables)


def _configure(spec: ProviderSpec, environment: Mapping[str, str]) -> ProviderConfig:
    stated_url = environment.get(spec.url_variable, "").strip()
    base_url = _base_url(spec, stated_url) if stated_url else spec.base_url
    is_elsewhere = urlsplit(base_url).hostname != urlsplit(spec.base_url).hostname
    return ProviderConfig(
        name=spec.name,
        wire=spec.wire,
        base_url=base_url,
        compat=spec.compat_elsewhere if is_elsewhere and spec.compat_elsewhere is not None else spec.compat,
        api_key=_api_key(spec, environment),
        model=environment.get(spec.model_variable, "").strip() or None,
        requests_per_minute=spec.requests_per_minute,
        input_tokens_per_minute=spec.input_tokens_per_minute,
        output_tokens_per_minute=spec.output_tokens_per_minute,
        requests_per_day=spec.requests_per_day,
        concurrency=spec.concurrency,
        # Another host may serve anything, and little of it under the provider's own names.
        cheap_model=None if is_elsewhere and spec.name != SIMULATOR else spec.cheap_model,
    )


def _api_key(spec: ProviderSpec, environment: Mapping[str, str]) -> str:
    for variable in spec.key_variables:
        key = environment.get(variable, "").strip()
        if not key:
            continue
        if not (key.isascii() and key.isprintable()) or " " in key:
            # The value itself stays out of the message: it is a secret, if a spoilt one.
            raise SettingsError(
                f"{variable} holds a space, a line break or a character that no key has; "
                f"set it to the key alone, as {spec.name} shows it"
            )
        return key
    return ""


def _base_url(spec: ProviderSpec, stated: str) -> str:
    """`stated`, checked and completed: without a path it gets the provider's own; the Anthropic format is
    accepted with and without `/v1`, because Anthropic's own tools write it without."""
    fault = _url_fault(stated)
    if fault:
        raise SettingsError(f"{spec.url_variable} {fault}; a right one looks like {spec.base_url}")
    url = stated.rstrip("/")
    path = urlsplit(url).path
    if not path:
        return url + urlsplit(spec.base_url).path
    if spec.wire == "anthropic" and not path.endswith("/v1"):
        return url + "/v1"
    return url


def _url_fault(stated: str) -> str | None:
    """What is wrong with a base URL. The value is shown only once it is known to hold no password."""
    try:
        parts = urlsplit(stated)
        port_is_usable = parts.port is None or parts.port > 0
    except ValueError:
        return "is not a URL that can be read (check the port and the brackets)"
    if parts.username is not None or parts.password is not None:
        return "carries a user name or password before the host; a key belongs in its own variable"
    if parts.scheme not in ("http", "https"):
        return f"is {stated!r}, which does not start with http:// or https://"
    if not parts.hostname or not port_is_usable or any(character.isspace() for character in stated):
        return f"is {stated!r}, which names no usable host"
    if parts.query or parts.fragment:
        return "has a part after '?' or '#', and paths are appended to it"
    return None
