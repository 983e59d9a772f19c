"""An alarm is kept unless evidence against it is verified."""

from __future__ import annotations

import dataclasses
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
    policy: Policy | None = None,
) -> Triage:
    (one,) = triage(
        [of or alarm()],
        judgements,
        PANEL if panel is None else panel,
        Evidenced(FILES),
        policy=policy or Policy(),
        never_dismiss=never,
    )
    return one


def test_two_families_with_verified_quotes_dismiss_and_the_ground_is_told() -> None:
    dismissed = fate(says("left"), says("right"))
    assert dismissed.is_dismissed
    assert dismissed.why == (
        "dismissed by 2 heads of 2 families, quotes verified: reachability: it is a constant [a.py:1: NAME = 'x']"
    )


def test_the_ground_is_the_first_head_s_and_bounded() -> None:
    """300 characters of the reason, three quotes of 120 characters."""
    line = "y = " + "1" * 200
    quotes = tuple(Evidence(path="a.py", line=number, quote=line) for number in range(1, 5))
    first, second = (
        Judgement(
            alarm_id="A1",
            reviewer=name,
            word="benign",
            ground=name,
            reason=f"{name}:" + "r" * 400,
            evidence=quotes,
        )
        for name in ("left", "right")
    )
    (dismissed,) = triage([alarm()], [second, first], PANEL, Evidenced({"a.py": line}), policy=Policy())
    shown = "; ".join(f"a.py:{number}: y = {'1' * 116}" for number in (1, 2, 3))
    assert dismissed.why == (
        f"dismissed by 2 heads of 2 families, quotes verified: left: left:{'r' * 295} [{shown}]"
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


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((), "nobody judged it"),
        ((says("left"),), "1 of 1 call it benign with quotes that stand in the code"),
        (
            (says("left"), says("right", "uncertain")),
            "1 of 2 call it benign with quotes that stand in the code",
        ),
        (
            (says("left"), says("right", quote=None)),
            "1 of 2 call it benign with quotes that stand in the code, 1 without",
        ),
        (
            (says("left"), says("right", quote=None), says("third", "exploitable", None)),
            "1 of 3 call it benign with quotes that stand in the code, 1 without, 1 call it exploitable",
        ),
        (
            (says("left", "exploitable", None), says("right", "exploitable", None)),
            "0 of 2 call it benign with quotes that stand in the code, 2 call it exploitable",
        ),
        (
            (says("left"), says("right"), says("third", "exploitable")),
            "third shows that it is exploitable: it is a constant",
        ),
    ],
)
def test_what_an_alarm_is_kept_for_is_told(said: tuple[Judgement, ...], why: str) -> None:
    kept = fate(*said)
    assert (kept.is_dismissed, kept.why) == (False, f"kept: {why}")


def test_three_hundred_characters_of_a_proof_s_reason_are_told() -> None:
    proof = dataclasses.replace(says("left", "exploitable"), reason="r" * 400)
    assert fate(proof).why == f"kept: left shows that it is exploitable: {'r' * 300}"


@pytest.mark.parametrize(("threshold", "is_dismissed"), [(0.75, True), (0.751, False)])
def test_the_threshold_is_the_least_share_that_dismisses(threshold: float, is_dismissed: bool) -> None:
    """Left weighs 0.25 and right 0.5 of 1.0."""
    policy = Policy(threshold=threshold)
    assert fate(says("left"), says("right"), policy=policy).is_dismissed is is_dismissed


@pytest.mark.parametrize(("quote", "is_dismissed"), [("run(N", True), ("run(", False)])
def test_a_quote_of_five_characters_is_evidence_and_one_of_four_is_none(
    quote: str, is_dismissed: bool
) -> None:
    assert fate(says("left"), says("right", quote=quote)).is_dismissed is is_dismissed


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_head_that_says_the_same_twice_counts_at_its_more_careful_word_in_any_order(
    order: tuple[int, ...],
) -> None:
    benign = (says("left"), says("left", quote=None), says("right"))
    assert not fate(*(benign[at] for at in order)).is_dismissed
    accused = (says("left", "exploitable"), says("left", "exploitable", None), says("right"))
    assert fate(*(accused[at] for at in order)).why.startswith("kept: left shows")
    words = (says("left", quote=None), says("left", "uncertain"), says("left", "exploitable", None))
    assert fate(*(words[at] for at in order)).claim.flagged_by == ("left",)
    reasons = (says("left"), dataclasses.replace(says("left"), reason="another"), says("right"))
    assert fate(*(reasons[at] for at in order)).why == fate(*reasons).why


def test_an_accusation_without_a_quote_is_no_veto() -> None:
    assert fate(says("left"), says("right"), says("third", "exploitable", None)).is_dismissed


def test_a_listed_weakness_is_never_dismissed() -> None:
    kept = fate(says("left"), says("right"), never=(78,))
    assert (kept.is_dismissed, kept.why) == (False, "kept: no model may dismiss CWE-78")
    assert kept.claim == fate(says("left"), says("right")).claim
    assert fate(says("left"), says("right"), never=(79,)).is_dismissed
    assert fate(says("left"), says("right"), of=alarm(cwe=None), never=(78,)).is_dismissed


def test_an_alarm_about_code_that_nobody_has_is_kept() -> None:
    elsewhere = alarm(span=Span(path="c.py", start=1, end=1))
    kept = fate(says("left"), says("right"), of=elsewhere)
    assert (kept.is_dismissed, kept.why) == (False, "kept: its file was not submitted")
    assert (kept.claim.claim_id, kept.claim.span) == ("A1", elsewhere.span)


def test_its_claim_counts_who_calls_it_exploitable() -> None:
    claim = fate(says("left", "exploitable"), says("right", "exploitable", None)).claim
    assert (claim.claim_id, claim.category, claim.severity) == ("A1", "bandit/b602", Severity.HIGH)
    assert (claim.text, claim.span, claim.finding_ids) == ("shell", Span(path="a.py", start=2, end=2), ())
    assert claim.families == ("birch", "cedar")
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
    fates = {fate(*order) for order in itertools.islice(itertools.permutations(judgements), 24)}
    assert len(fates) == 1
    if fates.pop().is_dismissed:
        assert {"right"} <= {name for name, word, quotes in said if word == "benign" and quotes}
    assert not fate(*judgements, panel=[]).is_dismissed


def test_an_alarm_survives_as_data() -> None:
    one = alarm(flow=(Span(path="b.py", start=1, end=1),), fingerprints={"k": "v"})
    assert Alarm.of(one.as_data()) == one
