"""From a model's nearly-JSON text to one JSON object, and which rung of the ladder it took (DESIGN §4).

Rung 1 is `json.loads`, rung 2 `raw_decode` from a brace, rung 3 `json_repair`. What none of them
can save is for the caller to ask again. Every rung is bounded: a reply is somebody else's input."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Collection
from enum import IntEnum
from typing import Any, NoReturn

import json_repair

from workers.errors import ConsensusError

#: A longer reply is refused before anything is parsed.
MAX_REPLY_CHARACTERS = 2_000_000
#: `json_repair` is careful, not fast: beyond this the reply is asked for again instead.
MAX_REPAIR_CHARACTERS = 200_000
#: Deeper nesting than this is an attack on the parser's stack, not an answer.
MAX_DEPTH = 64
#: How many opening braces rung 2 tries before it gives up on prose.
MAX_STARTS = 50


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_FENCE = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\r?\n(.*?)(?:\r?\n```|\Z)", re.DOTALL)


class Rung(IntEnum):
    """How much help the text needed."""

    LOADS = 1
    RAW_DECODE = 2
    REPAIRED = 3


class MalformedReplyError(ConsensusError):
    """No rung found a JSON object; the message is fit to be shown to the model that wrote it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    value: dict[str, Any]
    rung: Rung


def repair(text: str, *, expected_keys: Collection[str] = ()) -> Repaired:
    """The JSON object in `text` and the rung that found it.

    `expected_keys`: an object counts only if it has one of them, so that a brace in the prose before the
    answer, or a first object that only thinks aloud, is passed over. Raises: MalformedReplyError.
    """
    if len(text) > MAX_REPLY_CHARACTERS:
        raise MalformedReplyError(
            f"the reply has {len(text)} characters; at most {MAX_REPLY_CHARACTERS} are read"
        )
    text = text.lstrip("\ufeff \t\r\n")
    if not text:
        raise MalformedReplyError("the reply is empty; one JSON object was expected")
    if "{" not in text:
        raise MalformedReplyError("the reply holds no JSON object")
    if _too_deep(text):
        raise MalformedReplyError(f"the reply nests deeper than {MAX_DEPTH} levels")
    value = _loads(text)
    if _fits(value, expected_keys):
        return Repaired(value=value, rung=Rung.LOADS)
    value = _raw_decode(text, expected_keys)
    if value is not None:
        return Repaired(value=value, rung=Rung.RAW_DECODE)
    value = _repair(text, expected_keys)
    if value is not None:
        return Repaired(value=value, rung=Rung.REPAIRED)
    wanted = " or ".join(repr(key) for key in expected_keys)
    raise MalformedReplyError("no JSON object could be read" + (f" with the key {wanted}" if wanted else ""))


def _fits(value: object, expected_keys: Collection[str]) -> bool:
    return isinstance(value, dict) and (not expected_keys or any(key in value for key in expected_keys))


def _loads(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _raw_decode(text: str, expected_keys: Collection[str]) -> dict[str, Any] | None:
    """The first object that fits, read from each opening brace in turn."""
    start = text.find("{")
    for _ in range(MAX_STARTS):
        if start < 0:
            return None
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            if _fits(value, expected_keys):
                return dict(value)
        start = text.find("{", end)
    return None


def _repair(text: str, expected_keys: Collection[str]) -> dict[str, Any] | None:
    """The object that `json_repair` makes of the first fence, else of the text from its first brace."""
    if len(text) > MAX_REPAIR_CHARACTERS:
        return None
    fence = _FENCE.search(text)
    bodies = [fence.group(1)] if fence and "{" in fence.group(1) else []
    bodies.append(text)
    for body in bodies:
        try:
            value = json_repair.loads(body[body.index("{") :], skip_json_loads=True)
        except (ValueError, RecursionError, TypeError, IndexError):
            continue
        candidates: list[Any] = value if isinstance(value, list) else [value]
        for candidate in candidates:
            if _fits(candidate, expected_keys) and candidate and _is_finite(candidate):
                found: dict[str, Any] = dict(candidate)
                return found
    return None


def _is_finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_is_finite(item) for item in value.values())
    if isinstance(value, list):
        return all(_is_finite(item) for item in value)
    return True


def _too_deep(text: str) -> bool:
    """Whether brackets outside strings nest deeper than `MAX_DEPTH`; one pass, no recursion."""
    depth = 0
    in_string = is_escaped = False
    for character in text:
        if in_string:
            if is_escaped:
                is_escaped = False
            elif character == "\\":
                is_escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "{[":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif character in "}]":
            depth = max(0, depth - 1)
    return False
