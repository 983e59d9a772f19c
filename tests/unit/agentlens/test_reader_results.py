"""Where outcomes stand beside a log, which of them counts, and the labels that a user hands in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.agentlens.logs import files
from workers.agentlens.formats import read_labels
from workers.agentlens.formats.base import Source
from workers.agentlens.formats.results import beside, from_report, from_trial, verdict
from workers.agentlens.trajectory import Trajectory
from workers.errors import TrajectoryError

PASSED, FAILED = {"resolved": True}, {"resolved": False}
TRIAL = {"verifier_result": {"reward": 1}}


@pytest.mark.parametrize("word", ["passed", "pass", "true", "resolved", "1", "yes", "success"])
def test_a_word_for_success_is_read_in_any_case(word: str) -> None:
    assert verdict(f" {word.upper()} ") == "passed"


@pytest.mark.parametrize("word", ["failed", "fail", "false", "unresolved", "0", "no", "failure"])
def test_a_word_for_failure_is_read_in_any_case(word: str) -> None:
    assert verdict(f" {word.upper()} ") == "failed"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(False, "failed"), (0.99, "failed"), (2, "passed"), (-1, "failed"), ([], "unknown"), ("2.5", "passed")],
)
def test_a_number_is_a_success_from_one_on(value: Any, expected: str) -> None:
    assert verdict(value) == expected


@pytest.mark.parametrize(
    ("trial", "expected"),
    [
        (5, "unknown"),
        ({}, "unknown"),
        ({"verifier_result": 5}, "unknown"),
        ({"verifier_result": {}}, "unknown"),
        ({"verifier_result": {"reward": 1}}, "passed"),
        ({"verifier_result": {"reward": 0.5}}, "failed"),
        ({"verifier_result": {"reward": True}}, "unknown"),
        ({"verifier_result": {"rewards": {}}}, "unknown"),
        ({"verifier_result": {"rewards": {"tests": 1, "style": 0}}}, "passed"),
        ({"verifier_result": {"rewards": {"tests": 0, "reward": 1}}}, "passed"),
        ({"verifier_result": {"rewards": 5, "reward": 1}}, "passed"),
        ({"verifier_result": {"reward": 1}, "exception_info": {"a": 1}}, "passed"),
        ({"verifier_result": {"reward": 0}, "exception_info": {}}, "failed"),
        ({"verifier_result": {"reward": 0}, "exception_info": {"a": 1}}, "unknown"),
    ],
)
def test_a_trial_passed_with_the_whole_reward(trial: Any, expected: str) -> None:
    assert from_trial(trial) == expected


@pytest.mark.parametrize(
    ("report", "instance", "expected"),
    [
        (5, "p", "unknown"),
        ({"resolved": 1}, None, "passed"),
        ({"resolved": "yes"}, None, "unknown"),
        ({"resolved": True, "error_eval": True}, None, "unknown"),
        ({"resolved": True, "test_timeout": True}, None, "unknown"),
        ({"resolved": True, "test_timeout": "no"}, None, "passed"),
        ({"p": PASSED}, "p", "passed"),
        ({"p": PASSED}, None, "unknown"),
        ({"p": {"p": PASSED}}, "p", "unknown"),
        ({"report": {"p": FAILED}}, "p", "failed"),
        ({"report": {"resolved_ids": ["p"]}}, "p", "passed"),
        ({"test_result": {"report": {"p": PASSED}}}, "p", "passed"),
        ({"report": FAILED, "test_result": PASSED}, "p", "failed"),
        ({None: PASSED}, None, "unknown"),
        ({"incomplete_ids": ["p"], "resolved_ids": ["p"]}, "p", "unknown"),
        ({"resolved_ids": "p"}, "p", "unknown"),
        ({"empty_patch_ids": ["p"]}, "p", "failed"),
        ({"unresolved_ids": ["p"]}, "p", "failed"),
        ({"resolved_ids": [None]}, None, "unknown"),
    ],
)
def test_a_report_says_it_of_this_instance(report: Any, instance: str | None, expected: str) -> None:
    assert from_report(report, instance) == expected


def found(instance: str | None = "p", /, **written: Any) -> str:
    names = {
        "near": "result.json",
        "up": "../result.json",
        "text_up": "../verifier/reward.txt",
        "text": "verifier/reward.txt",
        "json_up": "../verifier/reward.json",
        "json": "verifier/reward.json",
        "report": "report.json",
        "results": "results.json",
        "report_up": "../report.json",
        "results_up": "../results.json",
        "output": "output.report.json",
        "own": "eval_outputs/p/report.json",
    }
    by_name = {names[key]: value for key, value in written.items()}
    return beside(Source(path="d/x.json", beside=files(by_name)), instance)


def test_each_file_beside_a_log_may_say_how_the_run_ended() -> None:
    assert found() == "unknown"
    assert found(near=TRIAL) == found(up=TRIAL) == "passed"
    assert found(text=b"1") == found(text_up=b" 1.0\n") == found(json={"reward": 1}) == "passed"
    assert found(text=b"0.5") == found(json_up={"reward": 0.5}) == "failed"
    assert found(text=b"x") == found(json={"reward": "1"}) == found(json=[]) == found(json=b"{") == "unknown"
    for name in ("report", "results", "report_up", "results_up", "output", "own"):
        assert found(**{name: PASSED}) == found(**{name: {"resolved_ids": ["p"]}}) == "passed"
        assert found(**{name: b"["}) == found(**{name: b"[" * 100_000}) == "unknown"
    assert found(None, own=PASSED) == "unknown"
    assert found(None, report=PASSED) == "passed"


def test_the_nearer_and_the_more_particular_file_counts() -> None:
    lost = {"verifier_result": {"reward": 0}}
    assert found(near=lost, up=TRIAL) == "failed"
    assert found(near={}, up=TRIAL, text_up=b"0") == "passed"
    assert found(text_up=b"0", text=b"1", json_up={"reward": 1}) == "failed"
    assert found(text_up=b"x", text=b"0", json_up={"reward": 1}) == "failed"
    assert found(json_up={}, json={"reward": 1}, report=FAILED) == "passed"
    assert found(json_up={"reward": 0}, json={"reward": 1}) == "failed"
    assert found(report=FAILED, results=PASSED) == "failed"
    assert found(report={}, own=PASSED) == "passed"


def outcome(text: bytes, name: str = "l.csv", **fields: Any) -> str | None:
    run = {"trajectory_id": "t", "path": "d/e/x.json", "format": "f", "problem": "p", **fields}
    return read_labels(name, text).outcome_of(Trajectory(**run))


@pytest.mark.parametrize(
    "key", ["trajectory_id", "path", "file", "name", "id", "instance_id", "task_id", "traj_id"]
)
@pytest.mark.parametrize(
    "column", ["outcome", "resolved", "passed", "pass", "label", "target", "pass_fail_status", "result"]
)
def test_a_label_has_many_names(key: str, column: str) -> None:
    assert outcome(f"{key},{column}\nt,yes\n".encode()) == "passed"
    assert outcome(f'[{{"{key}": "t", "{column}": false}}]'.encode()) == "failed"
    assert outcome(f'{{"{key}": "t", "{column}": 1}}'.encode()) == "passed"


def test_a_run_is_looked_up_by_id_then_by_path_then_by_problem() -> None:
    for name in ("t", "d/e/x.json", "e/x.json", "x.json", "p"):
        assert outcome(f"id,outcome\n{name},passed\n".encode()) == "passed"
    assert outcome(b"id,outcome\nx.json,passed\n", path="d\\e\\x.json") == "passed"
    assert outcome(b"id,outcome\np,passed\n", problem=None) is None
    assert outcome(b"id,outcome\nt,failed\nx.json,passed\n") == "failed"
    assert outcome(b"id,outcome\nx.json,passed\ne/x.json,failed\n") == "failed"
    assert outcome(b"id,outcome\np,passed\nx.json,failed\n") == "failed"


def test_a_row_may_name_a_run_twice_and_say_nothing() -> None:
    rows = b"id,path,outcome\nother,x.json,passed\nt,,maybe\n"
    assert outcome(rows) == "passed"
    assert outcome(b"id,outcome,passed\nt,,yes\n") == "passed"
    assert outcome(b'\n [{"id": "t", "passed": 1}]') == "passed"
    assert outcome(b"") is None
    assert outcome(b"[]") is None


def test_an_object_holds_verdicts_reports_or_lists_of_ids() -> None:
    assert outcome(b'{"t": "yes", "x": 5}') == "passed"
    assert outcome(b'{"t": {"resolved": false}}') == "failed"
    assert outcome(b'{"t": "maybe"}') is None
    assert outcome(b'{"resolved_ids": ["t"], "error_ids": [5]}') == "passed"
    assert outcome(b'{"resolved_ids": ["t"], "error_ids": ["t"]}') == "unknown"
    assert outcome(b'{"resolved_ids": ["t"], "unresolved_ids": ["t"]}') == "passed"
    assert outcome(b'{"unresolved": ["t"], "t": true}') == "failed"
    assert outcome(b'{"resolved_ids": [], "t": true}') == "passed"
    assert outcome(b'\xef\xbb\xbf {"t": true}') == "passed"


KEYS = "trajectory_id, path, file, name, id, instance_id, task_id, traj_id"
VERDICTS = "outcome, resolved, passed, pass, label, target, pass_fail_status, result"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\xff", "byte 0: labels must be UTF-8 text"),
        (b"who,outcome\nt,passed\n", f"row 1: no run is named; expected one of {KEYS}"),
        (b'[{"id": "t", "passed": 1}, 5]', f"row 2: no run is named; expected one of {KEYS}"),
        (
            b"id,outcome\nt,maybe\n",
            "no row has a verdict; expected passed or failed, true or false, 1 or 0, in one of the columns "
            + VERDICTS,
        ),
        (
            b"[x]",
            "labels are neither JSON, JSONL nor CSV: Expecting value: line 1 column 2 (char 1)",
        ),
        (
            b'{"id": "t", "passed": 1}\n\n{x',
            "labels are neither JSON, JSONL nor CSV: "
            "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
    ],
)
def test_labels_that_say_nothing_are_refused(data: bytes, sentence: str) -> None:
    with pytest.raises(TrajectoryError) as raised:
        read_labels("l.csv", data)
    assert str(raised.value) == f"l.csv: {sentence}"
