"""From a model's nearly-JSON text to one JSON object, and which rung of the ladder it took (DESIGN §4).

Rung 1 is `json.loads`, rung 2 `raw_decode` from a brace, rung 3 `json_repair`. What none of them
can save is for the caller to ask again. Every rung is bounded: a reply is somebody else's input. The first two
decode in C and are judged by the value they give; only the third needs its text looked at beforehand."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Collection
from enum import IntEnum
from typing import Any, NoReturn, SupportsIndex

import json_repair

from workers.errors import ConsensusError

#: A longer reply is refused before anything is parsed.
MAX_REPLY_CHARACTERS = 2_000_000
#: `json_repair` is careful, not fast: beyond this the reply is asked for again instead.
MAX_REPAIR_CHARACTERS = 200_000
#: How often `json_repair` may look at a character (about half a second). It looks back and ahead, and some
#: 20,000 characters of nonsense would keep it busy for minutes; an honest reply takes about ten looks a character.
MAX_REPAIR_LOOKS = 2_500_000
#: Deeper nesting than this is an attack on the parser's stack, not an answer.
MAX_DEPTH = 64
#: How many opening braces rung 2 tries before it gives up on prose.
MAX_STARTS = 200
#: How many fenced blocks, from the last, rung 3 tries before it turns to the whole text.
MAX_FENCES = 3


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
#: Where a JSON object may begin: code in the prose before the answer is full of other braces.
_START = re.compile(r'\{[ \t\r\n]*["}]')
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
    """`is_cut`: rung 3 closed what the text left open, so something may be missing; a router may well have
    called such a reply complete."""

    value: dict[str, Any]
    rung: Rung
    is_cut: bool = False


class _OutOfLooksError(Exception):
    """Rung 3 has spent its looks."""


class _Metered(str):
    """Text that counts how often it is looked at; parts and sums of it count on the same meter."""

    __slots__ = ("_looks",)
    _looks: list[int]

    @classmethod
    def of(cls, text: str, looks: list[int]) -> _Metered:
        metered = cls(text)
        metered._looks = looks
        return metered

    def __getitem__(self, index: SupportsIndex | slice) -> str:
        part = str.__getitem__(self, index)
        is_slice = isinstance(index, slice)
        self._looks[0] -= 1 + (len(part) >> 6 if is_slice else 0)
        if self._looks[0] < 0:
            raise _OutOfLooksError
        return _Metered.of(part, self._looks) if is_slice else part

    def __add__(self, other: str) -> str:
        return _Metered.of(str.__add__(self, other), self._looks)


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
    value = _loads(text)
    if _fits(value, expected_keys):
        return Repaired(value=value, rung=Rung.LOADS)
    value = _raw_decode(text, expected_keys)
    if value is not None:
        return Repaired(value=value, rung=Rung.RAW_DECODE)
    value = _repair(text, expected_keys)
    if value is not None:
        return Repaired(value=value, rung=Rung.REPAIRED, is_cut=_is_cut(text))
    if _nests_too_deeply(text):
        raise MalformedReplyError(f"the reply nests deeper than {MAX_DEPTH} levels")
    wanted = " or ".join(repr(key) for key in expected_keys)
    raise MalformedReplyError("no JSON object could be read" + (f" with the key {wanted}" if wanted else ""))


def _is_cut(text: str) -> bool:
    """Whether the text stops in the middle: it ends on no closing bracket, and brackets or a string are open."""
    if text.rstrip().removesuffix("```").rstrip().endswith(("}", "]")):
        return False
    depth = 0
    in_string = is_escaped = False
    for character in text:
        if is_escaped:
            is_escaped = False
        elif in_string:
            in_string = character != '"'
            is_escaped = character == "\\"
        elif character == '"':
            in_string = True
        else:
            depth += (character in "{[") - (character in "}]")
    return in_string or depth > 0


def _fits(value: object, expected_keys: Collection[str]) -> bool:
    return (
        isinstance(value, dict)
        and (not expected_keys or any(key in value for key in expected_keys))
        and _is_sound(value)
    )


def _loads(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _raw_decode(text: str, expected_keys: Collection[str]) -> dict[str, Any] | None:
    """The first object that fits, read from each opening brace in turn."""
    start = 0
    for _ in range(MAX_STARTS):
        opening = _START.search(text, start)
        if opening is None:
            return None
        try:
            value, start = _DECODER.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            start = opening.start() + 1
        else:
            if _fits(value, expected_keys):
                return dict(value)
    return None


def _repair(text: str, expected_keys: Collection[str]) -> dict[str, Any] | None:
    """The object that `json_repair` makes of the first fence, else of the text from its first brace."""
    if len(text) > MAX_REPAIR_CHARACTERS:
        return None
    bodies = [fence.group(1) for fence in _FENCE.finditer(text) if "{" in fence.group(1)][-MAX_FENCES:]
    looks = [MAX_REPAIR_LOOKS]
    for body in [*bodies, text]:
        start = body[body.index("{") :]
        if _nests_too_deeply(start):
            continue
        try:
            value = json_repair.loads(_Metered.of(start, looks), skip_json_loads=True)
        except _OutOfLooksError:
            return None
        except (ValueError, RecursionError, TypeError, IndexError):
            continue
        candidates: list[Any] = value if isinstance(value, list) else [value]
        for candidate in candidates:
            if candidate and _fits(candidate, expected_keys):
                found: dict[str, Any] = dict(candidate)
                return found
    return None


def _is_sound(value: object) -> bool:
    """Whether every number is finite (`1e999` reads as infinity) and nothing nests deeper than `MAX_DEPTH`."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        following: list[object] = []
        for item in level:
            if isinstance(item, float) and not math.isfinite(item):
                return False
            if isinstance(item, dict):
                following += item.values()
            elif isinstance(item, list):
                following += item
        if not following:
            return True
        level = following
    return False


def _nests_too_deeply(text: str) -> bool:
    """Whether brackets outside strings nest deeper than `MAX_DEPTH`; one pass, no recursion.

    A bracket closes only its like: `{]{]{]…` opens ever deeper, for `json_repair` as well.
    """
    expected: list[str] = []
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
            expected.append("}" if character == "{" else "]")
            if len(expected) > MAX_DEPTH:
                return True
        elif expected and character == expected[-1]:
            expected.pop()
    return False
