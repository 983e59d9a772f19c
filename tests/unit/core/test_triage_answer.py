"""What a reviewer of alarms answers becomes judgements; whatever is in doubt keeps the alarm."""

from __future__ import annotations

from typing import Any

import pytest

from workers.core.alarm import Judgement
from workers.core.answers import parse
from workers.core.finding import Evidence
from workers.core.triage_answer import TriageAnswer, to_judgements

PATHS = {"A1": "a.py", "A2": "b.py"}
WHOLE: dict[str, Any] = {
    "alarm": "A1",
    "verdict": "benign",
    "ground": " reachability ",
    "reason": "it is a constant",
    "evidence": [{"line": 1, "quote": "NAME = 1"}, {"path": "b.py", "line": 2, "quote": "x = 2"}],
}


def judgements(*items: dict[str, Any]) -> tuple[Judgement, ...]:
    return to_judgements(parse(TriageAnswer, {"judgements": list(items)}), reviewer="rigor", paths=PATHS)


def test_every_field_arrives_and_a_quote_without_a_file_is_of_the_alarm_s() -> None:
    assert judgements(WHOLE) == (
        Judgement(
            alarm_id="A1",
            reviewer="rigor",
            word="benign",
            ground="reachability",
            reason="it is a constant",
            evidence=(
                Evidence(path="a.py", line=1, quote="NAME = 1"),
                Evidence(path="b.py", line=2, quote="x = 2"),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("word", "counts_as"),
    [
        (" Benign ", "benign"),
        ("EXPLOITABLE", "exploitable"),
        ("uncertain", "uncertain"),
        ("harmless", "uncertain"),
        ("", "uncertain"),
        (None, "uncertain"),
        (True, "uncertain"),
        (["benign"], "uncertain"),
    ],
)
def test_a_word_that_is_none_of_the_three_is_a_doubt(word: object, counts_as: str) -> None:
    assert [item.word for item in judgements({**WHOLE, "verdict": word})] == [counts_as]


@pytest.mark.parametrize(
    ("ground", "shown"), [("", "unstated"), (" ", "unstated"), (None, "unstated"), ("g" * 41, "g" * 40)]
)
def test_a_ground_is_short_and_never_empty(ground: str | None, shown: str) -> None:
    assert [item.ground for item in judgements({**WHOLE, "ground": ground})] == [shown]


def test_an_alarm_that_nobody_asked_about_is_passed_over() -> None:
    asked = [item.alarm_id for item in judgements({**WHOLE, "alarm": "A3"}, {**WHOLE, "alarm": "A2"})]
    assert asked == ["A2"]
