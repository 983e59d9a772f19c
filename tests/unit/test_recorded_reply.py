"""Which reply on record answers a question that is asked again."""

from __future__ import annotations

import json

from workers.core.answers import ProofAnswer, ReviewAnswer
from workers.provenance.repository.call_history import Recorded
from workers.stages.recorded_reply import usable

QUESTION = ("Review.", "The code.")


def reply(
    text: str | None, *, question: tuple[str, ...] = QUESTION, model: str = "elm-1", error: str | None = None
) -> Recorded:
    return Recorded(
        provider="local",
        model=model,
        family=model.partition("-")[0],
        model_served=model,
        is_simulated=False,
        rung=1,
        question=question,
        text=text,
        error_kind=error,
        error=None if error is None else f"it ended with {error}",
    )


def review(summary: str) -> str:
    return json.dumps({"findings": [], "summary": summary})


def test_each_pass_of_a_reviewer_gets_its_own_reply_and_the_next_one_is_asked() -> None:
    replies = [reply(review("first")), reply(review("second"))]
    answers = [usable(replies, ReviewAnswer, question=QUESTION, earlier=number) for number in range(3)]

    assert [answer and answer[0].summary for answer in answers] == ["first", "second", None]


def test_a_reply_to_another_question_or_in_another_form_is_none() -> None:
    replies = [
        reply(review("of another code"), question=("Review.", "Other code.")),
        reply("not JSON at all"),
        reply(review("cut")[:-12]),
    ]

    assert usable(replies, ReviewAnswer, question=QUESTION) is None
    assert usable([reply(review("no proof"))], ProofAnswer, question=QUESTION) is None


def test_an_answer_comes_with_the_links_that_failed_before_it() -> None:
    calls = [
        reply(None, error="timeout", model="ash-1"),
        reply("not JSON at all", model="oak-1"),
        reply(None, error="server", model="ash-1"),
        reply(None, error="server", model="fir-1", question=("Review.", "Other code.")),
        reply("torn at first"),  # the link that answers in the end has not failed
        reply(review("whole")),
        reply(None, error="quota", model="yew-1"),
    ]

    found = usable(calls, ReviewAnswer, question=QUESTION)

    assert found is not None
    assert found[0].summary == "whole"
    assert [(failure.link.model, failure.kind, failure.detail) for failure in found[2]] == [
        ("ash-1", "server", "it ended with server"),
        ("oak-1", "torn", "its reply could not be used"),
    ]
