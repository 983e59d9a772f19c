"""A batch as SARIF, written while it is read."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from workers.core.finding import Severity
from workers.sarif.results import Result, RunFacts
from workers.sarif.stream import SarifStream
from workers.sarif.write import to_sarif

VALID = Draft4Validator(
    json.loads(
        (Path(__file__).parents[2] / "data" / "sarif" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8")
    )
)
VERDICT = {
    "reasons": [{"code": "lead_missing", "detail": "no lead signed"}],
    "coverage": {"left_out": [{"path": "big.bin", "reason": "binary"}]},
}


def facts(number: int = 1, outcome: str = "rejected", **changes: Any) -> RunFacts:
    times = {"started_at": f"2026-01-02T03:04:0{number}Z", "finished_at": f"2026-01-02T03:05:0{number}Z"}
    given = {"run_id": f"run_{number}", "team": "small", "outcome": outcome, "is_simulated": False}
    return RunFacts(**{**given, **times, **changes})


def result(run: RunFacts, number: int = 1, **changes: Any) -> Result:
    values: dict[str, Any] = {
        "run": run,
        "claim_id": f"C{number}",
        "rule_id": "CWE-79",
        "cwe": 79,
        "category": "security",
        "severity": "high",
        "text": f"claim {number}",
        "path": "a.py",
        "start": number,
        "end": number,
        "symbol": None,
        "snippet": f"line {number}",
        "state": "upheld",
        "stands": True,
        "why": "agreed",
        "agreement": 0.667,
        "weighted_agreement": 0.5,
        "flagged_by": ("left", "right"),
        "families": ("birch", "cedar"),
    }
    return Result(**{**values, **changes})


def written(*runs: tuple[RunFacts, list[Result]], verdict: Any = None, most_results: int = 25_000) -> bytes:
    log = SarifStream("batch_1", version="1.2.3", notes=io.BytesIO(), most_results=most_results)
    body = log.begin()
    for run, results in runs:
        body += b"".join(log.add(results, run, verdict or {}))
    return body + b"".join(log.end())


def test_a_result_reads_as_in_a_log_that_is_written_at_once() -> None:
    run = facts()
    results = [result(run, number) for number in (1, 2)]
    streamed = json.loads(written((run, results), verdict=VERDICT))["runs"][0]
    whole = to_sarif(results, [(run, VERDICT)], version="1.2.3")["runs"][0]
    for part in ("results", "tool", "invocations", "columnKind"):
        assert streamed[part] == whole[part]


def test_an_empty_batch_is_a_valid_log() -> None:
    VALID.validate(json.loads(written()))


def test_a_full_sarif_run_is_closed_and_the_next_has_words_of_its_own() -> None:
    runs = [(facts(number), [result(facts(number), 1), result(facts(number), 2)]) for number in (1, 2, 3)]
    log = json.loads(written(*runs, verdict=VERDICT, most_results=4))
    VALID.validate(log)
    first, second = log["runs"]
    # Two runs of two results fit into four, the third does not any more.
    assert [len(part["results"]) for part in (first, second)] == [4, 2]
    assert [part["automationDetails"]["id"] for part in (first, second)] == [
        "consensus/batch/",
        "consensus/batch/2/",
    ]
    assert [part["properties"]["outcomes"] for part in (first, second)] == [{"rejected": 2}, {"rejected": 1}]
    # Each note is in the SARIF run with its run's results: a reason and a file left out.
    notes = [part["invocations"][0]["toolExecutionNotifications"] for part in (first, second)]
    assert [len(told) for told in notes] == [4, 2]
    assert first["invocations"][0]["startTimeUtc"] == "2026-01-02T03:04:01Z"
    assert first["invocations"][0]["endTimeUtc"] == "2026-01-02T03:05:02Z"


def test_equal_places_in_two_runs_have_fingerprints_of_their_own() -> None:
    one, two = facts(1), facts(2)
    log = json.loads(written((one, [result(one)]), (two, [result(two)])))
    prints = [item["partialFingerprints"]["consensusClaim/v1"] for item in log["runs"][0]["results"]]
    assert [mark.rpartition(":")[2] for mark in prints] == ["1", "2"]
    assert len({mark.rpartition(":")[0] for mark in prints}) == 1


def test_a_degraded_run_makes_the_invocation_no_success() -> None:
    log = json.loads(written((facts(outcome="degraded", is_simulated=True), [])))
    assert log["runs"][0]["invocations"][0]["executionSuccessful"] is False
    assert log["runs"][0]["properties"]["simulated"] is True


def test_a_line_of_the_log_is_a_run() -> None:
    runs = [(facts(number), [result(facts(number), 1, text="two\nlines")] * number) for number in (1, 2, 3)]
    lines = written(*runs, (facts(4), [])).splitlines()
    # One before, one a run, one behind.
    assert len(lines) == 6
    assert [line.count(b'"ruleId"') for line in lines] == [0, 1, 2, 3, 0, 0]


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 4), max_size=8),
    texts=st.text(max_size=20),
    severity=st.sampled_from([item.name.lower() for item in Severity]),
    rule=st.text(min_size=1, max_size=8),
    most=st.integers(1, 5),
)
def test_whatever_the_runs_hold_the_log_is_valid_and_complete(
    sizes: list[int], texts: str, severity: str, rule: str, most: int
) -> None:
    runs = []
    for number, size in enumerate(sizes):
        run = facts(number % 10)
        changes = {"text": texts, "severity": severity, "rule_id": rule, "category": texts}
        runs.append((run, [result(run, place + 1, **changes) for place in range(size)]))
    log = json.loads(written(*runs, verdict=VERDICT, most_results=most))
    VALID.validate(log)
    assert sum(len(part["results"]) for part in log["runs"]) == sum(sizes)
    for part in log["runs"]:
        rules = part["tool"]["driver"]["rules"]
        assert all(rules[item["ruleIndex"]]["id"] == item["ruleId"] for item in part["results"])
