import dataclasses
import json
import math

from tests.unit.agentlens.steps import edit, run, shell, view
from workers.agentlens import cohort
from workers.agentlens.assess import Assessment, assess_problem
from workers.agentlens.duplicates import Original
from workers.agentlens.mechanisms import Mechanism
from workers.agentlens.reference import Reference
from workers.agentlens.report import (
    as_json,
    assessment_document,
    reference_document,
    report_document,
    to_bytes,
)
from workers.agentlens.settings import SCORING_VERSION, ScoringSettings
from workers.agentlens.tier import Tier
from workers.agentlens.trajectory import Intent

ROUTES = [
    (view("a.py"), edit("a.py", "x", "y"), shell("pytest t")),
    (view("b.py"), edit("a.py", "x", "z"), shell("pytest u")),
    (view("c.py"), edit("c.py", "p", "q"), shell("tox")),
]


def assessed() -> list[Assessment]:
    return list(assess_problem([run(*route, name=f"run-{n}", model="m") for n, route in enumerate(ROUTES)]))


def test_an_assessment_has_the_fixed_keys() -> None:
    document = assessment_document(assessed()[0])
    fixed = [
        "trajectory_id",
        "path",
        "problem",
        "model",
        "outcome",
        "steps",
        "scores",
        "mechanism",
        "divergence",
        "waste",
        "labels",
        "reference",
        "warnings",
    ]
    also = [
        "profile",
        "mechanism_meaning",
        "matched",
        "temporal_disorder",
        "evidence",
        "tokens",
        "cost_usd",
        "duplicate_of",
    ]
    assert set(document) == {*fixed, *also}
    assert set(document["waste"]) == {"steps", "severity", "tokens", "findings"}  # type: ignore[call-overload]
    assert document["reference"]["match_threshold"] == 0.7  # type: ignore[index]
    paper = document["scores"]["paper"]  # type: ignore[index]
    assert set(paper) == {"score", "tier", "struct", "cov", "coh", "temp", "spread"}
    assert set(document["scores"]["tuned"]) == {*paper, "edit"}  # type: ignore[index]
    assert document["labels"][0] == {"intent": "E", "rule": 1}  # type: ignore[index]
    assert (document["trajectory_id"], document["outcome"], document["profile"]) == (
        "run-0",
        "passed",
        "paper",
    )


def test_an_assessment_says_what_it_found_in_plain_values() -> None:
    early = (shell("pytest t"), edit("q.py", "1", "2"), view("a.py"))
    found = list(
        assess_problem([*(run(*route, name=str(n)) for n, route in enumerate(ROUTES)), run(*early)])
    )[-1]
    named = dataclasses.replace(found, mechanism=Mechanism.BRUTE_FORCE, cost_usd=0.5, tokens=7)
    original = Original(path="first.json", trajectory_id="first")
    document = assessment_document(named, duplicate_of=original)
    assert (document["mechanism"], document["mechanism_meaning"]) == (
        "C2",
        "brute-force convergence: much of the run is waste",
    )
    assert (document["cost_usd"], document["tokens"], document["steps"]) == (0.5, 7, 3)
    assert document["duplicate_of"] == {"path": "first.json", "trajectory_id": "first"}
    assert document["temporal_disorder"] == [{"kind": "verification_before_implementation", "steps": [0]}]
    assert document["matched"] == [{"step": step, "node": node} for step, node in found.matched]
    assert found.divergence is not None
    assert document["divergence"]["step"] == found.divergence.step  # type: ignore[index]
    plain = assessment_document(dataclasses.replace(found, mechanism=None))
    assert (plain["mechanism_meaning"], plain["duplicate_of"]) == (None, None)


def test_a_report_has_the_fixed_keys_and_sorted_parts() -> None:
    found = assessed()
    documents = [assessment_document(a) for a in found]
    report = report_document(
        documents[::-1],
        cohort=cohort.summarise([cohort.row(a) for a in found]),
        settings=ScoringSettings(seed=7),
        skipped=[("z.json", "not JSON"), ("b.json", "empty")],
    )
    assert set(report) == {"scoring_version", "profile", "settings", "assessments", "cohort", "skipped"}
    assert report["assessments"] == documents
    assert report["scoring_version"] == SCORING_VERSION
    assert report["settings"]["seed"] == 7  # type: ignore[index]
    assert report["skipped"] == [
        {"path": "b.json", "error": "empty"},
        {"path": "z.json", "error": "not JSON"},
    ]
    assert json.loads(to_bytes(report)) == report


def test_a_reference_is_written_with_its_donors_and_nodes() -> None:
    first, second = (view("a.py", (1, 9)), shell("pytest t")), (view("a.py", (1, 9)), edit("a.py"))
    tree = Reference.build([run(*first, name="one", model="m").donor, run(*second, name="two").donor])
    document = reference_document(tree, ScoringSettings())
    assert json.loads(to_bytes(document)) == document
    donors = document["donors"]
    assert sorted(d["id"] for d in donors) == ["one", "two"]  # type: ignore[attr-defined]
    root, *rest = document["nodes"]  # type: ignore[misc]
    assert (root["parent"], root["support"], root["intent"], root["lines"]) == (
        -1,
        2,
        "E",
        {"start": 1, "end": 9},
    )
    assert [(n["parent"], n["support"], n["ends"]) for n in rest] == [(0, 1, 1), (0, 1, 1)]
    assert {n["command"] for n in rest} == {None, "pytest t"}
    assert root == {
        "index": 0,
        "parent": -1,
        "depth": 0,
        "intent": "E",
        "action": "view|a.py",
        "tool": "read",
        "path": "a.py",
        "lines": {"start": 1, "end": 9},
        "command": None,
        "support": 2,
        "ends": 0,
    }
    assert {d["id"]: (d["model"], len(d["path"])) for d in donors} == {"one": ("m", 2), "two": ("", 2)}  # type: ignore[attr-defined]
    assert document["scoring_version"] == SCORING_VERSION
    assert document["settings"] == as_json(ScoringSettings())


def test_plain_values_are_rounded_and_nan_is_null() -> None:
    assert as_json({"a": 1 / 3, "b": float("nan"), "c": (1, True, None), "d": Tier.IDEAL}) == {
        "a": 0.333333,
        "b": None,
        "c": [1, True, None],
        "d": "ideal",
    }
    assert as_json(Intent.E) == "E"


def test_halves_of_surrogate_pairs_are_written_so_that_every_parser_reads_them() -> None:
    assert to_bytes({"path": "a\udc80"}) == '{"path":"a\ufffd"}'.encode()
    assert to_bytes({"path": "\ud83d\ude00"}) == '{"path":"😀"}'.encode()  # two halves make a whole


def test_what_json_has_no_number_for_is_null() -> None:
    assert as_json([math.nan, math.inf, -math.inf, 0.5]) == [None, None, None, 0.5]
