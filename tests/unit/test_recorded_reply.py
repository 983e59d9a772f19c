"""Which reply on record answers a question that is asked again."""

from __future__ import annotations

import json

from workers.core.answers import ProofAnswer, ReviewAnswer
from workers.provenance.repository.call_history import Recorded
from workers.stages.recorded_reply import usable

QUESTION = ("Review.", "The code.")


def reply(text: str, *, question: tuple[str, ...] = QUESTION) -> Recorded:
    return Recorded(
        provider="local",
        model="elm-1",
        family="elm",
        model_served="elm-1",
        is_simulated=False,
        rung=1,
        question=question,
        text=text,
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
