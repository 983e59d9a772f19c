"""What came back from a call, and the digest by which calls are compared."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b

from workers.agentlens.formats.outcomes import edit_outcome
from workers.agentlens.trajectory import StateOutcome

OBSERVATION_LIMIT = 20_000
observation_limit: ContextVar[int] = ContextVar("observation_limit", default=OBSERVATION_LIMIT)
"""At how many characters readers cut an observation."""


@contextmanager
def whole_observations() -> Iterator[None]:
    """Within it, readers cut no observation. For showing a run: labels and scores are of cut ones."""
    before = observation_limit.set(sys.maxsize)
    try:
        yield
    finally:
        observation_limit.reset(before)


@dataclasses.dataclass(slots=True, kw_only=True)
class Seen:
    """What came back from a call, and what is known about the turn it belongs to.

    `directory` is where the call ran, in the form of the run's paths, where the log says so."""

    text: str = ""
    exit_code: int | None = None
    is_error: bool | None = None
    thought: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    timestamp: float | None = None
    directory: str | None = None


def count_once(calls: Sequence[Seen]) -> None:
    """The tokens of one response are those of its first call; the calls beside it spent none of their own."""
    for seen in calls[1:]:
        seen.tokens_in = None if seen.tokens_in is None else 0
        seen.tokens_out = None if seen.tokens_out is None else 0


def digest(*parts: object) -> str:
    """A short stable digest of a call's canonical payload."""
    return blake2b("\x00".join(map(str, parts)).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def look_ending(seen: Seen) -> StateOutcome:
    """How a look ended: the tool's flag, else how its answer begins."""
    if seen.is_error is not None:
        return "error" if seen.is_error else "ok"
    if not seen.text:
        return "unknown"
    head = seen.text[:200]
    return "error" if head.startswith(("ERROR", "Error", "<tool_use_error>", "Invalid `")) else "ok"


def edit_ending(seen: Seen) -> StateOutcome:
    """How an edit ended: the tool's flag, else what it said."""
    if seen.is_error is not None:
        return "error" if seen.is_error else "ok"
    return edit_outcome(seen.text)
