"""Results leave as SARIF that its schema and code hosts accept, as JSON lines and as CSV."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from workers.core.alarm import Alarm
from workers.core.artefact import Span
from workers.core.finding import Severity
from workers.core.proof import TEST_PATH
from workers.sarif import write
from workers.sarif.read import read_sarif
from workers.sarif.results import Result, RunFacts, results_of
from workers.sarif.rules import MAX_TAGS
from workers.sarif.tables import COLUMNS, to_csv, to_jsonl
from workers.sarif.write import to_sarif

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "data" / "sarif" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8")
)
VALID = Draft4Validator(SCHEMA)
RUN = RunFacts(
    run_id="run_1",
    team="small",
    outcome="rejected",
    is_simulated=True,
    started_at="2026-01-02T03:04:05Z",
    finished_at="2026-01-02T03:05:05Z",
)
CODE = {"src/a b.py": "import os\nos.system(name)\nprint(1)\n"}


def judged(number: int = 1, **changes: Any) -> dict[str, Any]:
    claim = {
        "claim_id": f"C{number}",
        "text": "The name goes into a shell.",
        "category": "security",
        "severity": "high",
        "span": {"path": "src/a b.py", "start": 2, "end": 2},
        "finding_ids": ["left/1/1"],
        "flagged_by": ["left", "right"],
        "families": ["birch", "cedar"],
        "agreement": 0.667,
        "weighted_agreement": 0.5,
    }
    item = {"state": "upheld", "stands": True, "why": "agreed and not fixed", "ruling_reason": ""}
    return {
        **item,
        **{key: value for key, value in changes.items() if key in item},
        "claim": {**claim, **{key: value for key, value in changes.items() if key in claim}},
    }


FINDING = {
    "finding_id": "left/1/1",
    "cwe": 78,
    "symbol": "ping",
    "evidence": [{"path": "src/a b.py", "line": 2, "quote": "os.system(name)"}],
}


def made(
    *claims: dict[str, Any], code: dict[str, str] = CODE, **changes: Any
) -> tuple[dict[str, Any], tuple[Result, ...]]:
    verdict = {"claims": list(claims), "reasons": [], "coverage": {}, **changes}
    found = results_of(RUN, verdict, candidate=code, findings=[FINDING])
    log = to_sarif(found, [(RUN, verdict)], version="1.2.3")
    assert [error.message for error in VALID.iter_errors(log)] == []
    return log, found


def test_a_claim_becomes_a_result_with_its_rule_place_and_rank() -> None:
    log, _ = made(judged())
    (run,) = log["runs"]
    (rule,) = run["tool"]["driver"]["rules"]
    assert (rule["id"], rule["defaultConfiguration"]["level"]) == ("CWE-78", "error")
    assert rule["properties"] == {"tags": ["security", "external/cwe/cwe-078"], "security-severity": "8.0"}
    (result,) = run["results"]
    assert (result["ruleId"], result["level"], result["rank"]) == ("CWE-78", "error", 66.7)
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "src/a%20b.py"
    assert physical["region"] == {"startLine": 2, "endLine": 2}
    assert "suppressions" not in result
    assert run["automationDetails"]["id"] == "consensus/small/run_1"
    assert run["properties"]["simulated"] is True


@pytest.mark.parametrize("state", ["killed", "dismissed"])
def test_what_was_killed_or_dismissed_is_suppressed_with_its_ground(state: str) -> None:
    log, _ = made(judged(state=state, stands=False, why="reachability: nobody calls it"))
    (result,) = log["runs"][0]["results"]
    assert result["suppressions"] == [
        {"kind": "external", "status": "accepted", "justification": f"{state}: reachability: nobody calls it"}
    ]


def test_a_ground_that_begins_with_the_state_does_not_name_it_twice() -> None:
    log, _ = made(judged(state="killed", stands=False, why="killed by its refuter on intended"))
    (result,) = log["runs"][0]["results"]
    assert result["suppressions"][0]["justification"] == "killed by its refuter on intended"


@pytest.mark.parametrize("state", ["advisory", "fixed", "unprovable"])
def test_what_does_not_stand_is_a_note_and_not_suppressed(state: str) -> None:
    log, _ = made(judged(state=state, stands=False, ruling_reason="I changed it"))
    (result,) = log["runs"][0]["results"]
    assert (result["level"], "suppressions" in result) == ("note", False)
    assert result["message"]["text"].endswith("agreed and not fixed; the lead: I changed it)")


def prints(code: dict[str, str], *spans: tuple[int, int]) -> list[str]:
    claims = [
        judged(number, span={"path": "src/a b.py", "start": start, "end": end})
        for number, (start, end) in enumerate(spans, start=1)
    ]
    log, _ = made(*claims, code=code)
    return [result["partialFingerprints"]["consensusClaim/v1"] for result in log["runs"][0]["results"]]


def test_a_fingerprint_survives_lines_that_move_and_new_indentation_and_not_another_line() -> None:
    (before,) = prints(CODE, (2, 2))
    (moved,) = prints(
        {"src/a b.py": "\n# more\n" + CODE["src/a b.py"].replace("os.system", "    os.system")}, (4, 4)
    )
    (other,) = prints(CODE, (3, 3))
    assert before == moved
    assert other != before


def test_the_same_line_twice_has_two_fingerprints() -> None:
    first, second = prints({"src/a b.py": "x\nsame\nsame\n"}, (2, 2), (3, 3))
    assert first != second
    assert first.rpartition(":")[0] == second.rpartition(":")[0]


def test_the_receipt_and_the_reasons_are_notifications() -> None:
    log, _ = made(
        judged(),
        reasons=[{"code": "lead_missing", "cause": "timeout", "detail": "no answer"}],
        coverage={
            "not_reviewed": [{"path": "a.py", "start": 3, "end": 9}],
            "thinly_reviewed": [{"path": "b.py", "start": 1, "end": 2}],
            "left_out": [{"path": "logo.png", "reason": "binary"}],
            "abstained": [{"reviewer": "left", "cause": "timeout", "detail": "x"}],
        },
    )
    notes = [
        note["message"]["text"] for note in log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    ]
    assert notes == [
        "run_1: lead_missing: no answer",
        "run_1: not reviewed: a.py, lines 3 to 9",
        "run_1: seen by too few for a quorum: b.py, lines 1 to 2",
        "run_1: left out: logo.png: binary",
        "run_1: left abstained: timeout",
    ]


def test_no_more_results_than_hosts_take_and_the_worst_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "MAX_RESULTS", 2)
    log, _ = made(
        judged(1, severity="low"),
        judged(2, severity="critical", state="dismissed", stands=False),
        judged(3, severity="medium"),
    )
    (run,) = log["runs"]
    assert [result["properties"]["claim"] for result in run["results"]] == ["C3", "C1"]
    assert run["invocations"][0]["toolExecutionNotifications"][-1]["message"]["text"] == (
        "1 further results are left out; 2 fit"
    )


def test_a_rule_has_no_more_tags_than_hosts_take() -> None:
    log, _ = made(*(judged(number, category=f"kind {number}") for number in range(1, 40)))
    (rule,) = log["runs"][0]["tool"]["driver"]["rules"]
    assert len(rule["properties"]["tags"]) == MAX_TAGS
    assert rule["properties"]["tags"][:2] == ["security", "external/cwe/cwe-078"]


def test_an_alarm_keeps_its_rule_and_its_tool_s_fingerprints() -> None:
    alarm = Alarm(
        alarm_id="A1",
        tool="Bandit",
        rule="B605",
        message="m",
        severity=Severity.HIGH,
        span=Span(path="src/a b.py", start=2, end=2),
        cwe=78,
        fingerprints={"theirs": "abc"},
    )
    verdict = {"claims": [judged(claim_id="A1", finding_ids=[], category="bandit/b605")]}
    found = results_of(RUN, verdict, candidate=CODE, alarms=[alarm])
    (result,) = to_sarif(found, [(RUN, verdict)], version="1")["runs"][0]["results"]
    assert (result["ruleId"], result["partialFingerprints"]["theirs"]) == ("B605", "abc")


def test_what_we_write_we_read() -> None:
    log, _ = made(judged(1), judged(2, state="dismissed", stands=False))
    read = read_sarif(log, paths=CODE)
    (alarm,) = read.alarms
    assert (alarm.cwe, alarm.severity, alarm.span.path, read.skipped) == (78, Severity.HIGH, "src/a b.py", 1)


def test_a_claim_without_a_place_has_no_location() -> None:
    log, _ = made(judged(span={"path": "", "start": 0, "end": 0}))
    assert "locations" not in log["runs"][0]["results"][0]


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    st.text(max_size=30),
    st.text(max_size=20),
    st.text(min_size=1, max_size=20).filter(lambda path: path < "\ud800" or path > "\udfff"),
    st.integers(0, 9),
)
def test_whatever_models_write_is_valid(text: str, category: str, path: str, line: int) -> None:
    made(judged(text=text or "x", category=category, span={"path": path, "start": line, "end": line}))


def test_tables_hold_every_claim_and_no_formula() -> None:
    _, found = made(judged(text="=HYPERLINK(1)"), judged(2, stands=False, finding_ids=[]))
    rows = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert tuple(rows[0]) == COLUMNS
    assert rows[0]["text"] == "'=HYPERLINK(1)"
    assert (rows[0]["flagged_by"], rows[0]["stands"], rows[0]["cwe"]) == ("left right", "true", "78")
    assert (rows[1]["rule"], rows[1]["cwe"], rows[1]["stands"]) == ("security", "", "false")
    lines = [json.loads(line) for line in to_jsonl(found).splitlines()]
    assert lines[0]["evidence"] == [{"path": "src/a b.py", "line": 2, "quote": "os.system(name)"}]
    assert lines[0]["text"] == "=HYPERLINK(1)"


def proof(*cases: dict[str, Any], word: str = "reproduced") -> dict[str, Any]:
    return {"proof": word, "runs": [{"files": {TEST_PATH: [{"cases": list(cases)}]}}]}


def test_the_way_of_a_reproduced_error_through_the_code_is_a_code_flow() -> None:
    trace = [[TEST_PATH, 4], ["src/a b.py", 2], ["src/a b.py", 1]]
    found = results_of(
        RUN,
        {"claims": [judged(1), judged(2), judged(3)]},
        candidate=CODE,
        proofs={
            "C1": proof({"trace": []}, {"trace": trace}),
            # The test itself complained, and a test that reproduced nothing.
            "C2": proof({"trace": [[TEST_PATH, 4]]}),
            "C3": proof({"trace": trace}, word="inconclusive"),
        },
    )
    log = to_sarif(found, [(RUN, {})], version="1.0.0")

    VALID.validate(log)
    first, *others = log["runs"][0]["results"]
    steps = [
        step["location"]["physicalLocation"] for step in first["codeFlows"][0]["threadFlows"][0]["locations"]
    ]
    assert [(step["artifactLocation"]["uri"], step["region"]["startLine"]) for step in steps] == [
        ("src/a%20b.py", 2),
        ("src/a%20b.py", 1),
    ]
    assert not any("codeFlows" in other for other in others)


def test_a_scanner_s_own_flow_is_given_back() -> None:
    alarm = Alarm(
        alarm_id="C1",
        tool="T",
        rule="R",
        message="m",
        severity=Severity.HIGH,
        span=Span(path="src/a b.py", start=2, end=2),
        flow=(Span(path="src/a b.py", start=1, end=2),),
    )
    log = to_sarif(
        results_of(RUN, {"claims": [judged(1)]}, candidate=CODE, alarms=[alarm]), [(RUN, {})], version="1"
    )

    (written,) = read_sarif(log, paths=CODE).alarms
    assert written.flow == alarm.flow
