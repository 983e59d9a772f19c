"""Replies become values: lenient in form, strict in substance, and every refusal one sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_claim
from workers.core.answers import (
    MAX_FINDINGS,
    CoderAnswer,
    ConsensusAnswer,
    LeadAnswer,
    RefutationAnswer,
    ReviewAnswer,
    parse,
    to_proposals,
    to_refutation,
    to_review,
    to_rulings,
)
from workers.core.artefact import Span
from workers.core.consensus import Proposal
from workers.core.finding import Evidence, Finding, Review, Severity
from workers.core.judgement import Ruling
from workers.core.refutation import Refutation
from workers.core.reply_repair import MalformedReplyError

FINDING: dict[str, Any] = {
    "claim": "it crashes",
    "severity": "medium",
    "location": {"path": "a.py", "start": 3},
}


def finding_of(**changes: Any) -> Finding:
    answer = parse(ReviewAnswer, {"findings": [{**FINDING, **changes}]})
    review = to_review(answer, reviewer="rigor", model="m", family="f")
    return review.findings[0]


def refusal(model: type[Any], value: Any) -> str:
    with pytest.raises(MalformedReplyError) as caught:
        parse(model, value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "field", "expected"),
    [
        ({}, "span", Span(path="a.py", start=3, end=3)),
        ({"location": {"path": "a.py", "start": "3", "end": "5"}}, "span", Span(path="a.py", start=3, end=5)),
        ({"location": {"path": "a.py", "start": 3.0}}, "span", Span(path="a.py", start=3, end=3)),
        (
            {"location": {"path": "a.py", "start": 5, "end": 2}},
            "span",
            Span(path="a.py", start=5, end=5),
        ),
        ({"severity": " HIGH "}, "severity", Severity.HIGH),
        ({"cwe": "CWE-89"}, "cwe", 89),
        ({"cwe": 89}, "cwe", 89),
        ({"cwe": "none"}, "cwe", None),
        ({"cwe": "9" * 6000}, "cwe", None),
        ({"cwe": "CWE-99999"}, "cwe", 99_999),
        ({"cwe": "CWE-100000"}, "cwe", None),
        ({"confidence": "very"}, "confidence", None),
        ({"confidence": 7}, "confidence", None),
        ({"confidence": 0.5}, "confidence", 0.5),
        ({"confidence": 0}, "confidence", 0.0),
        ({"confidence": 1}, "confidence", 1.0),
        ({"confidence": 1.01}, "confidence", None),
        ({"confidence": -0.01}, "confidence", None),
        ({"category": 7}, "category", "7"),
        ({"category": " "}, "category", "correctness"),
        ({"category": None}, "category", "correctness"),
        ({"category": " Edge-Case "}, "category", "edge-case"),
        ({"claim": "  it crashes "}, "claim", "it crashes"),
        ({"agreement": 1.0, "flagged_by": ["everyone"]}, "claim", "it crashes"),  # unknown keys go
    ],
)
def test_form_is_forgiven(changes: dict[str, Any], field: str, expected: object) -> None:
    assert getattr(finding_of(**changes), field) == expected


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"claim": ""}, "findings.0.claim: "),
        ({"claim": " \n"}, "findings.0.claim: "),
        ({"claim": "x" * 4001}, "findings.0.claim: "),
        ({"claim": "\ud800"}, "findings.0.claim: "),
        ({"claim": ["a"]}, "findings.0.claim: "),
        ({"severity": "huge"}, "findings.0.severity: "),
        ({"severity": None}, "findings.0.severity: "),
        ({"location": None}, "findings.0.location: "),
        ({"location": {"path": "a.py"}}, "findings.0.location.start: "),
        ({"location": {"path": "a.py", "start": 3.5}}, "findings.0.location.start: "),
        ({"location": {"path": "a.py", "start": float("inf")}}, "findings.0.location.start: "),
        ({"evidence": [{"path": "a.py"}]}, "findings.0.evidence.0.quote: "),
        ({"evidence": [{"quote": "x"}] * 21}, "findings.0.evidence: "),
    ],
)
def test_substance_is_not(changes: dict[str, Any], place: str) -> None:
    assert refusal(ReviewAnswer, {"findings": [{**FINDING, **changes}]}).startswith(place)


@pytest.mark.parametrize(
    ("model", "value", "place"),
    [
        (ReviewAnswer, {}, "findings: "),
        (ReviewAnswer, {"findings": "none"}, "findings: "),
        (ReviewAnswer, {"findings": [], "summary": ["a"]}, "summary: "),
        (ConsensusAnswer, {"merges": [{"claims": []}]}, "merges.0.claims: "),
        (LeadAnswer, {"files": {"a.py": "x"}, "rulings": [{"claim": "C1", "ruling": "killed"}]}, "rulings.0"),
        (CoderAnswer, {"files": {}}, "files: "),
        (CoderAnswer, {"files": {"a.py": None}}, "files.a.py: "),
        (CoderAnswer, {"files": {"../a.py": "x"}}, "file path '../a.py' has an empty, '.' or '..' part"),
        (CoderAnswer, {"files": {"a.py": "x"}, "tests": {"/etc/x": "x"}}, "file path '/etc/x' is not a"),
        (CoderAnswer, {"files": {"a.py": "\ud800"}}, "file 'a.py' holds half of a surrogate pair"),
        (LeadAnswer, {"files": {"a.py": "\x00"}}, "file 'a.py' holds NUL bytes"),
    ],
)
def test_a_refusal_names_the_place(model: type[Any], value: dict[str, Any], place: str) -> None:
    assert refusal(model, value).startswith(place)


@pytest.mark.parametrize("key", ["a\x00b", "a\nb", "k" * 100_000, "\ud800"])
def test_a_refusal_is_short_and_storable_whatever_the_key(key: str) -> None:
    sentence = refusal(CoderAnswer, {"files": {key: 5}})
    assert len(sentence) < 300
    assert sentence.isprintable()
    sentence.encode()


def test_a_refusal_shows_eighty_characters_of_a_key_and_says_that_it_cut_it() -> None:
    assert refusal(CoderAnswer, {"files": {"k" * 80: 5}}).startswith(f"files.{'k' * 80}: ")
    assert refusal(CoderAnswer, {"files": {"k" * 81: 5}}).startswith(f"files.{'k' * 80}…: ")
    assert refusal(CoderAnswer, {"files": {"\n" * 81: 5}}).startswith("files." + "\\n" * 80 + "…: ")
    assert refusal(CoderAnswer, []).startswith("the object: ")


def test_a_reviewer_s_findings_beyond_the_limit_are_noise() -> None:
    answer = parse(ReviewAnswer, {"findings": [FINDING] * (MAX_FINDINGS + 5)})
    review = to_review(answer, reviewer="rigor", model="p/m", family="f", pass_number=2)
    assert len(review.findings) == MAX_FINDINGS
    assert review.findings[0].finding_id == "rigor/2/1"
    assert review.findings[-1].finding_id == f"rigor/2/{MAX_FINDINGS}"
    assert {finding.reviewer for finding in review.findings} == {"rigor"}


def test_evidence_without_a_path_is_of_the_finding_s_file() -> None:
    assert finding_of(evidence=[{"quote": "x"}]).evidence[0].path == "a.py"


def test_every_field_of_a_review_arrives_where_it_belongs() -> None:
    finding = {
        **FINDING,
        "category": "Security",
        "cwe": "CWE-22",
        "confidence": 0.25,
        "location": {"path": "a.py", "start": 3, "end": 4, "symbol": "f"},
        "evidence": [{"path": "b.py", "line": 7, "quote": "open(path)"}],
        "suggested_test": "assert f() == 1",
        "suggested_fix": "check the path",
    }
    answer = parse(ReviewAnswer, {"findings": [finding], "summary": "one hole"})

    assert to_review(answer, reviewer="rigor", model="p/m", family="f") == Review(
        reviewer="rigor",
        model="p/m",
        family="f",
        summary="one hole",
        findings=(
            Finding(
                finding_id="rigor/1/1",
                reviewer="rigor",
                pass_number=1,
                claim="it crashes",
                category="security",
                cwe=22,
                severity=Severity.MEDIUM,
                confidence=0.25,
                span=Span(path="a.py", start=3, end=4),
                symbol="f",
                evidence=(Evidence(path="b.py", line=7, quote="open(path)"),),
                suggested_test="assert f() == 1",
                suggested_fix="check the path",
            ),
        ),
    )


def test_every_field_of_a_refutation_arrives_and_a_quote_without_a_file_is_of_the_claim_s() -> None:
    quotes = [{"line": 2, "quote": "x = 1"}, {"path": "b.py", "line": 5, "quote": "y = 2"}]
    given_answer = {
        "verdict": " Killed",
        "ground": "INTENDED",
        "reason": "the spec says so",
        "evidence": quotes,
    }

    assert to_refutation(parse(RefutationAnswer, given_answer), make_claim("C4"), family="elm") == Refutation(
        claim_id="C4",
        word="killed",
        ground="intended",
        reason="the spec says so",
        evidence=(
            Evidence(path="a.py", line=2, quote="x = 1"),
            Evidence(path="b.py", line=5, quote="y = 2"),
        ),
        family="elm",
    )


def test_no_names_and_an_empty_list_of_names_are_told_apart() -> None:
    answer = parse(
        ConsensusAnswer,
        {"merges": [{"claims": ["C1"]}, {"claims": ["C2"], "text": "it leaks", "flagged_by": []}]},
    )
    assert to_proposals(answer) == (
        Proposal(claim_ids=("C1",), flagged_by=None),
        Proposal(claim_ids=("C2",), text="it leaks", flagged_by=()),
    )


def test_the_lead_s_last_word_on_a_claim_counts() -> None:
    rulings = [
        {"claim": "C1", "ruling": "Upheld"},
        {"claim": "C1", "ruling": "fixed", "changed": [{"path": "a.py", "start": 4, "end": None}]},
    ]
    (ruling,) = to_rulings(parse(LeadAnswer, {"files": {"a.py": "x"}, "rulings": rulings}))
    assert ruling.ruling == "fixed"
    assert ruling.changed == (Span(path="a.py", start=4, end=4),)


def test_every_field_of_a_ruling_arrives() -> None:
    changed = [{"path": "a.py", "start": 4, "end": 6}, {"path": "b.py", "start": 9, "end": 2}]
    item = {"claim": "C1", "ruling": "dismissed", "reason": "a joke", "override": True, "changed": changed}
    rulings = to_rulings(parse(LeadAnswer, {"files": {}, "rulings": [item, {**item, "claim": "C2"}]}))

    assert [ruling.claim_id for ruling in rulings] == ["C1", "C2"]
    assert rulings[0] == Ruling(
        claim_id="C1",
        ruling="dismissed",
        reason="a joke",
        override=True,
        changed=(Span(path="a.py", start=4, end=6), Span(path="b.py", start=9, end=9)),
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["files", "findings", "merges", "claim", "severity", "location", "path", "start"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(st.sampled_from([CoderAnswer, ReviewAnswer, ConsensusAnswer, LeadAnswer]), JSON)
def test_any_json_is_an_answer_or_one_error(model: type[Any], value: Any) -> None:
    try:
        answer = parse(model, value)
    except MalformedReplyError:
        return
    kept = answer.model_dump()
    assert json.loads(json.dumps(kept, allow_nan=False)) == kept
