"""Which simulated model answers for a name: its own, or, in a rehearsal of a real team file, a stand-in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping

from workers.core.model_family import model_family
from workers.providers.simulator.problem import MODELS, family
from workers.providers.simulator.wire_error import RequestError

#: From the model asked for to the one that answers. Raises: RequestError (404).
Resolve = Callable[[str], str]

#: Words by which makers name their cheaper models. Whole words: `gemini` is no mini.
_SMALL_WORDS = frozenset(
    {"mini", "nano", "small", "haiku", "flash", "lite", "tiny", "fast", "8b", "7b", "3b"}
)
_FAMILIES = tuple(dict.fromkeys(family(model) for model in MODELS))
#: Families that sit in one panel get different stand-ins; the others are spread by their name.
_STAND_IN_BY_FAMILY: Mapping[str, str] = dict(
    zip(("gpt", "claude", "gemini", "mistral", "deepseek", "grok"), 2 * _FAMILIES, strict=True)
)

#: US dollars per million input and output tokens, so that a budget can be rehearsed; simulated as all else.
_PRICES = {"large": (3.0, 15.0), "small": (0.25, 1.25)}


def known_model(model: str) -> str:
    """Only the simulator's own models. Raises: RequestError."""
    if model in MODELS:
        return model
    raise RequestError(
        f"The model {model[:100]!r} does not exist here; there are {', '.join(MODELS)}. "
        "Started with --any-model the simulator has one of them stand in for any name.",
        status=404,
        kind="not_found_error",
        param="model",
        code="model_not_found",
    )


def any_model(model: str) -> str:
    """The model itself, or a simulated one of about its size; the same for the same name."""
    if model in MODELS:
        return model
    name = model.lower()
    size = "small" if _SMALL_WORDS.intersection(re.findall(r"[a-z0-9]+", name)) else "large"
    asked_family = model_family("openai", name)
    number = hashlib.blake2b(asked_family.encode("utf-8", "surrogatepass"), digest_size=1).digest()[0]
    stand_in = _STAND_IN_BY_FAMILY.get(asked_family, _FAMILIES[number % len(_FAMILIES)])
    return f"{stand_in}-{size}"


def cost_usd(model: str, *, input_tokens: int, output_tokens: int) -> float:
    """What a simulated model's call would cost."""
    input_price, output_price = _PRICES[model.rpartition("-")[2]]
    return (input_tokens * input_price + output_tokens * output_price) / 1e6
