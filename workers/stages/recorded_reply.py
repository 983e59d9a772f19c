"""The reply that a seat already has: work that is delivered again pays no model for the same answer twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from workers.core.answers import Answer, parse
from workers.core.reply_repair import MalformedReplyError, repair
from workers.provenance.repository.call_history import Recorded
from workers.providers.chain import Link
from workers.providers.fallback import Failure

_Answer = TypeVar("_Answer", bound=Answer)


def usable(
    recorded: Sequence[Recorded], answer_type: type[_Answer], *, question: tuple[str, str], earlier: int = 0
) -> tuple[_Answer, Recorded, tuple[Failure, ...]] | None:
    """The whole answer to this very question that `earlier` others came before, or None. A seat may have asked other
    questions as well (the gate asks for a test and for a control), and the same one several times (a reviewer in
    passes); what follows the material in a request (a persona, a hint, calls of tools) makes it no other question.

    With it come its call and what became of the links that were asked the same before it, in the order in which they
    first failed; of links that were passed over unasked there is no record.
    """
    failed: dict[Link, Failure] = {}
    for call in recorded:
        if call.question != question:
            continue
        answer = _answer(call, answer_type)
        if answer is None:
            failure = _failure(call)
            failed[failure.link] = failure
        elif earlier:
            earlier -= 1
        else:
            return answer, call, tuple(failure for link, failure in failed.items() if link != _link(call))
    return None


def _failure(call: Recorded) -> Failure:
    if call.error_kind is None:
        return Failure(link=_link(call), kind="torn", detail="its reply could not be used")
    return Failure(link=_link(call), kind=call.error_kind, detail=call.error or "")


def _link(call: Recorded) -> Link:
    return Link(provider=call.provider, model=call.model, family=call.family)


def _answer(call: Recorded, answer_type: type[_Answer]) -> _Answer | None:
    if call.text is None:
        return None
    try:
        repaired = repair(call.text, expected_keys=tuple(answer_type.model_fields)[:1])
        return None if repaired.is_cut else parse(answer_type, repaired.value)
    except MalformedReplyError:
        return None
