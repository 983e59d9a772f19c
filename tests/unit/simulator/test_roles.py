"""What the simulated models answer, and what they never pretend to know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.simulator.rehearsal import ask, example_specs, material, review_of
from workers.core.answers import ReviewAnswer, to_review
from workers.core.artefact import numbered
from workers.core.finding import Evidenced, unsupported_reason
from workers.providers.simulator.catalogue import load_catalogue
from workers.providers.simulator.problem import MODELS, Variant
from workers.providers.simulator.roles import PLACEHOLDER_PATH, answer

SPECS = example_specs()
ROMAN = {problem.name: problem for problem in load_catalogue().by_digest.values()}["roman"]
LOOSE = {"roman.py": ROMAN.code_of(Variant(name="", bugs=("loose-grammar",)))}
GOOD = {"roman.py": ROMAN.solution}
UNKNOWN = "Write a function that greets people.\nIt takes a name."


def asked(role: str, user: str, *, model: str = "sim-birch-large", seed: int = 0) -> dict[str, Any]:
    value = json.loads(ask(role, user, model=model, seed=seed))
    assert isinstance(value, dict)
    return value


def reviewed(
    files: Mapping[str, str], *, spec: str = SPECS["roman"], model: str = "sim-birch-large"
) -> list[Any]:
    shown = {path: numbered(text) for path, text in files.items()}
    findings = asked("reviewer", material(spec, files=shown), model=model)["findings"]
    assert isinstance(findings, list)
    return findings


def claim_line(claim: str, *, claim_id: str = "C1", flagged_by: tuple[str, ...] = ("rigor",)) -> str:
    return json.dumps({"id": claim_id, "claim": claim, "path": "roman.py", "flagged_by": list(flagged_by)})


@pytest.mark.parametrize("model", MODELS)
def test_a_coder_says_of_an_unknown_spec_that_it_writes_a_placeholder(model: str) -> None:
    written = asked("coder", material(UNKNOWN), model=model)
    assert list(written["files"]) == [PLACEHOLDER_PATH]
    text = written["files"][PLACEHOLDER_PATH]
    compile(text, PLACEHOLDER_PATH, "exec")
    assert "simulated placeholder for an unknown spec" in text
    assert model in text
    assert "does not know this specification" in written["notes"]


def test_a_coder_keeps_the_files_it_was_given_beside_its_placeholder() -> None:
    written = asked("coder", material(UNKNOWN, files={"mine.py": "x = 1\n"}))
    assert written["files"]["mine.py"] == "x = 1\n"
    assert PLACEHOLDER_PATH in written["files"]


def test_the_other_roles_say_that_they_do_not_know_an_unknown_spec_and_change_nothing() -> None:
    files = {"roman.py": LOOSE["roman.py"]}
    review = asked("reviewer", material(UNKNOWN, files=files))
    consensus = asked("consensus", material(UNKNOWN, files=files, claims=claim_line("x")))
    lead = asked("lead", material(UNKNOWN, files=files, claims=claim_line("x")))
    assert (review["findings"], consensus["merges"], lead["files"]) == ([], [], {})
    assert [(item["claim"], item["ruling"]) for item in lead["rulings"]] == [("C1", "upheld")]
    for said in (review, consensus, lead):
        assert "does not know this specification" in said["summary"]


def test_a_spec_is_known_whatever_its_white_space_and_only_whole() -> None:
    spec = SPECS["roman"]
    other_white_space = "  " + spec.replace("\n", "\r\n\t ") + "\n\n"
    assert "roman.py" in asked("coder", material(other_white_space))["files"]
    title = spec.splitlines()[0]
    for other in (
        title,
        f"{title}\nBut count in base 7.",
        f"{spec}\nAnd print them.",
        spec.replace("3999", "4999"),
        f"{spec}\n</spec>\nAnd print them.",
        spec.upper(),
    ):
        assert list(asked("coder", material(other))["files"]) == [PLACEHOLDER_PATH], other[:60]


def test_two_models_and_two_seeds_write_different_variants_of_one_spec() -> None:
    user = material(SPECS["roman"])
    by_model = {asked("coder", user, model=model)["files"]["roman.py"] for model in MODELS}
    by_seed = {asked("coder", user, seed=seed)["files"]["roman.py"] for seed in range(20)}
    assert len(by_model) == len(by_seed) == len(ROMAN.variants)


def test_a_reviewer_reports_a_bug_with_the_line_where_its_quote_stands() -> None:
    (finding,) = reviewed(LOOSE)
    line = finding["evidence"][0]["line"]
    assert finding["evidence"][0]["quote"] == LOOSE["roman.py"].splitlines()[line - 1].strip()
    assert (finding["location"]["start"], finding["location"]["end"]) == (line, line)
    moved = {"src/r.py": "# moved\n\n" + LOOSE["roman.py"]}
    (finding_moved,) = reviewed(moved)
    assert finding_moved["location"] == {
        "path": "src/r.py",
        "start": line + 2,
        "end": line + 2,
        "symbol": "from_roman",
    }
    assert 0.55 <= finding["confidence"] <= 0.95


def test_a_reviewer_says_nothing_of_fixed_or_other_code_or_of_what_it_cannot_see() -> None:
    assert reviewed(GOOD) == []
    assert reviewed({"roman.py": "def to_roman(number):\n    return str(number)\n"}) == []
    assert reviewed({}) == []
    assert reviewed(LOOSE, model="sim-birch-small") == []
    assert reviewed(LOOSE, spec=SPECS["duration"]) == []


def test_an_invention_needs_its_line_in_the_file() -> None:
    assert (
        len(review_of("craft", SPECS["word-wrap"], {"word_wrap.py": 'line = f"{line} {piece}"'}).findings)
        == 1
    )
    assert review_of("craft", SPECS["word-wrap"], {"word_wrap.py": "x = 1"}).findings == ()


def test_consensus_merges_only_claims_that_word_one_defect() -> None:
    words = ROMAN.bugs["loose-grammar"].wordings
    claims = "\n".join(
        (
            claim_line(words["sim-birch"], claim_id="C1", flagged_by=("rigor",)),
            claim_line(ROMAN.bugs["zero"].wordings["sim-cedar"], claim_id="C2", flagged_by=("edges",)),
            claim_line(words["sim-cedar"], claim_id="C3", flagged_by=("spec", "rigor")),
            claim_line("Somebody else's words.", claim_id="C4"),
        )
    )
    said = asked("consensus", material(SPECS["roman"], files=LOOSE, claims=claims))
    assert said["merges"] == [
        {
            "claims": ["C1", "C3"],
            "text": ROMAN.bugs["loose-grammar"].agreed,
            "flagged_by": ["rigor", "spec"],
        }
    ]


def test_a_lead_fixes_the_code_that_it_was_shown_and_points_at_the_lines() -> None:
    shown = {"roman.py": "# ours\n" + LOOSE["roman.py"], "notes.md": "untouched"}
    words = ROMAN.bugs["loose-grammar"].agreed
    lead = asked("lead", material(SPECS["roman"], files=shown, claims=claim_line(words)))
    assert lead["files"] == {"roman.py": "# ours\n" + GOOD["roman.py"], "notes.md": "untouched"}
    (ruling,) = lead["rulings"]
    (changed,) = ruling["changed"]
    line = lead["files"]["roman.py"].splitlines()[changed["start"] - 1].strip()
    assert ruling["ruling"] == "fixed"
    assert line == ROMAN.bugs["loose-grammar"].good[0]
    assert changed["end"] == changed["start"]


def test_a_lead_rules_only_on_the_claims_listed_and_knows_only_its_own_problems() -> None:
    lead = asked("lead", material(SPECS["roman"], files=LOOSE))
    assert (lead["files"], lead["rulings"]) == (LOOSE, [])
    lead = asked("lead", material(SPECS["roman"], files=LOOSE, claims=claim_line("Somebody else's words.")))
    assert lead["files"] == LOOSE
    assert [item["ruling"] for item in lead["rulings"]] == ["upheld"]


def test_a_lead_that_cannot_find_the_lines_does_not_say_fixed() -> None:
    claims = claim_line(ROMAN.bugs["loose-grammar"].agreed)
    lead = asked("lead", material(SPECS["roman"], files=GOOD, claims=claims))
    assert lead["files"] == GOOD
    assert (lead["rulings"][0]["ruling"], lead["rulings"][0]["changed"]) == ("upheld", [])


def test_a_lead_without_consensus_acts_on_the_raw_reviews() -> None:
    said = ROMAN.bugs["loose-grammar"].wordings["sim-cedar"]
    reviews = json.dumps({"reviewer": "spec", "findings": [{"claim": said, "severity": "medium"}]})
    lead = asked("lead", material(SPECS["roman"], files=LOOSE, reviews=reviews))
    assert (lead["files"], lead["rulings"]) == (GOOD, [])


@pytest.mark.parametrize(
    "claims",
    [
        '{"id": 7, "claim": "x"}',
        '{"id": "C1"}',
        '{"id": "C1", "claim": [1], "flagged_by": "rigor"}',
        "[]",
        "{",
    ],
)
def test_odd_claims_are_survived(claims: str) -> None:
    for role in ("consensus", "lead"):
        assert isinstance(asked(role, material(SPECS["roman"], files=LOOSE, claims=claims)), dict)
    reviews = '{"findings": 3}\n{"findings": [4, {"claim": 5}]}'
    assert asked("lead", material(SPECS["roman"], files=LOOSE, reviews=reviews))["files"] == LOOSE


def test_without_a_known_role_the_model_says_what_it_is() -> None:
    for system in ("", "# Role: poet"):
        text = answer(system, "hello", model=MODELS[0], seed=0, catalogue=load_catalogue())
        assert text.startswith("This is sim-alder-large, a simulated model.")


@pytest.mark.parametrize("model", MODELS)
def test_every_reviewer_says_that_a_placeholder_fulfils_nothing(model: str) -> None:
    files = asked("coder", material(UNKNOWN))["files"]
    shown = {path: numbered(text) for path, text in files.items()}

    answer = ReviewAnswer(**asked("reviewer", material(UNKNOWN, files=shown), model=model))

    review = to_review(answer, reviewer="rigor", model=model, family="f")
    assert [finding.severity.word for finding in review.findings] == ["medium"]
    assert unsupported_reason(review.findings[0], Evidenced(files)) is None
