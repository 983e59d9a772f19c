"""An alarm is kept unless evidence against it is verified."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_review
from workers.core.alarm import Alarm, Judgement, Triage, triage
from workers.core.artefact import Span
from workers.core.finding import Evidence, Evidenced, Review, Severity
from workers.core.team import Policy

FILES = {"a.py": "NAME = 'x'\nrun(NAME)\n", "b.py": "def check(value): ...\n"}
PANEL = [
    make_review("left", family="birch"),
    make_review("right", family="cedar"),
    make_review("third", family="birch"),
]


def alarm(**changes: Any) -> Alarm:
    values: dict[str, Any] = {
        "alarm_id": "A1",
        "tool": "Bandit",
        "rule": "B602",
        "message": "shell",
        "severity": Severity.HIGH,
        "span": Span(path="a.py", start=2, end=2),
        "cwe": 78,
    }
    return Alarm(**{**values, **changes})


def says(
    reviewer: str,
    word: Any = "benign",
    quote: str | None = "NAME = 'x'",
    path: str = "a.py",
    alarm_id: str = "A1",
) -> Judgement:
    return Judgement(
        alarm_id=alarm_id,
        reviewer=reviewer,
        word=word,
        ground="reachability",
        reason="it is a constant",
        evidence=() if quote is None else (Evidence(path=path, line=1, quote=quote),),
    )


def fate(
    *judgements: Judgement,
    of: Alarm | None = None,
    never: tuple[int, ...] = (),
    panel: list[Review] | None = None,
) -> Triage:
    (one,) = triage(
        [of or alarm()],
        judgements,
        PANEL if panel is None else panel,
        Evidenced(FILES),
        policy=Policy(),
        never_dismiss=never,
    )
    return one


def test_two_families_with_verified_quotes_dismiss_and_the_ground_is_told() -> None:
    dismissed = fate(says("left"), says("right"))
    assert dismissed.is_dismissed
    assert dismissed.why == (
        "dismissed by 2 heads of 2 families, quotes verified: reachability: it is a constant [a.py:1: NAME = 'x']"
    )


KEPT = {
    "nobody answers": (),
    "one head alone": (says("left"),),
    "two heads of one family": (says("left"), says("third")),
    "a benign without a quote": (says("left"), says("right", quote=None)),
    "a quote that is not there": (says("left"), says("right", quote="NAME = 'y'")),
    "a quote that stands in any code": (says("left"), says("right", quote="run(")),
    "a quote of another file only": (says("left"), says("right", quote="def check(value): ...", path="b.py")),
    "a quote of no file": (says("left"), says("right", path="c.py")),
    "a doubt": (says("left"), says("right", "uncertain")),
    "a proof against it": (says("left"), says("right"), says("third", "exploitable", "run(NAME)")),
    "a head that says both": (says("left"), says("right"), says("right", "uncertain")),
    "a head that is not on the panel": (says("left"), says("ghost")),
    "judgements of another alarm": (says("left", alarm_id="A2"), says("right", alarm_id="A2")),
}


@pytest.mark.parametrize("case", KEPT)
def test_an_alarm_is_kept_for(case: str) -> None:
    kept = fate(*KEPT[case])
    assert not kept.is_dismissed
    assert kept.why.startswith("kept: ")


def test_an_accusation_without_a_quote_is_no_veto() -> None:
    assert fate(says("left"), says("right"), says("third", "exploitable", None)).is_dismissed


def test_a_listed_weakness_is_never_dismissed() -> None:
    assert fate(says("left"), says("right"), never=(78,)).why == "kept: no model may dismiss CWE-78"
    assert fate(says("left"), says("right"), never=(79,)).is_dismissed
    assert fate(says("left"), says("right"), of=alarm(cwe=None), never=(78,)).is_dismissed


def test_an_alarm_about_code_that_nobody_has_is_kept() -> None:
    elsewhere = alarm(span=Span(path="c.py", start=1, end=1))
    assert fate(says("left"), says("right"), of=elsewhere).why == "kept: its file was not submitted"


def test_its_claim_counts_who_calls_it_exploitable() -> None:
    claim = fate(says("left", "exploitable"), says("right", "exploitable", None)).claim
    assert (claim.claim_id, claim.category, claim.severity) == ("A1", "bandit/b602", Severity.HIGH)
    # Birch shares one unit among two heads: left weighs 0.25, right 0.5, of 1.0 in all.
    assert (claim.flagged_by, claim.agreement, claim.weighted_agreement) == (("left", "right"), 0.667, 0.75)


WORDS = st.sampled_from(["benign", "exploitable", "uncertain"])


@given(
    st.lists(
        st.tuples(st.sampled_from(["left", "right", "third", "ghost"]), WORDS, st.booleans()), max_size=6
    )
)
def test_the_order_of_answers_changes_nothing_and_silence_never_dismisses(
    said: list[tuple[str, str, bool]],
) -> None:
    judgements = [says(name, word, "NAME = 'x'" if quotes else None) for name, word, quotes in said]
    fates = {fate(*order).is_dismissed for order in itertools.islice(itertools.permutations(judgements), 24)}
    assert len(fates) == 1
    if fates == {True}:
        assert {"right"} <= {name for name, word, quotes in said if word == "benign" and quotes}
    assert not fate(*judgements, panel=[]).is_dismissed


def test_an_alarm_survives_as_data() -> None:
    one = alarm(flow=(Span(path="b.py", start=1, end=1),), fingerprints={"k": "v"})
    assert Alarm.of(one.as_data()) == one
