"""The reply that a seat already has: work that is delivered again pays no model for the same answer twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from workers.core.answers import Answer, parse
from workers.core.reply_repair import MalformedReplyError, repair
from workers.provenance.repository.call_history import Recorded

_Answer = TypeVar("_Answer", bound=Answer)


def usable(
    recorded: Sequence[Recorded], answer_type: type[_Answer], *, question: tuple[str, str], earlier: int = 0
) -> tuple[_Answer, Recorded] | None:
    """The whole answer to this very question that `earlier` others came before, or None. A seat may have asked other
    questions as well (the gate asks for a test and for a control), and the same one several times (a reviewer in
    passes); what follows the material in a request (a persona, a hint, calls of tools) makes it no other question."""
    found = [
        (answer, call)
        for call in recorded
        if call.question == question and (answer := _answer(call, answer_type)) is not None
    ]
    return found[earlier] if earlier < len(found) else None


def _answer(call: Recorded, answer_type: type[_Answer]) -> _Answer | None:
    try:
        repaired = repair(call.text, expected_keys=tuple(answer_type.model_fields)[:1])
        return None if repaired.is_cut else parse(answer_type, repaired.value)
    except MalformedReplyError:
        return None
