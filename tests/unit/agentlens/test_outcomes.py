"""How calls and runs ended."""

from __future__ import annotations

import json

import pytest

from workers.agentlens.formats import read, read_labels
from workers.agentlens.formats.outcomes import edit_outcome, exit_code_in, shell_outcome
from workers.agentlens.formats.results import from_report, from_trial, verdict
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.observation import text_digest
from workers.agentlens.shell import parse
from workers.agentlens.trajectory import Trajectory
from workers.errors import TrajectoryError


@pytest.mark.parametrize(
    ("line", "text", "expected"),
    [
        ("cat log.txt", "Traceback (most recent call last):\n", "ok"),
        ("cat nothing", "cat: nothing: No such file or directory", "error"),
        ("grep x f", "", "unknown"),
        ("pytest", "===== 3 passed in 0.1s =====", "ok"),
        ("pytest", "===== 1 failed, 3 passed in 0.1s =====", "error"),
        ("python -m unittest", "Ran 3 tests in 0.1s\n\nOK", "ok"),
        ("python tests/runtests.py", "FAILED (errors=1)", "error"),
        ("pytest", "collecting ...", "unknown"),
        ("python x.py", "Traceback (most recent call last):\n  File", "error"),
        ("python x.py", "ValueError: bad", "error"),
        ("python x.py", "all good", "unknown"),
        ("frobnicate", "bash: frobnicate: command not found", "error"),
    ],
)
def test_the_text_of_a_command_says_how_it_ended(line: str, text: str, expected: str) -> None:
    assert shell_outcome(parse(line), text) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x\n[The command completed with exit code 2.]", 2),
        ("<returncode>1</returncode>", 1),
        ("Exit code 127\nzsh: not found", 127),
        ("code 5", None),
        ("", None),
    ],
)
def test_an_exit_code_is_found_where_tools_write_it(text: str, code: int | None) -> None:
    assert exit_code_in(text) == code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "The file /a.py has been edited. Here's the result of running `cat -n` on a snippet: Error: x",
            "ok",
        ),
        ("File created successfully at: /a.py", "ok"),
        ("ERROR:\nNo replacement was performed, old_str `x` did not appear verbatim", "error"),
        ("Your proposed edit has introduced new syntax error(s).", "error"),
        ("[File: /a.py (3 lines total)]\n1:x", "ok"),
        ("", "unknown"),
    ],
)
def test_an_edit_tool_says_how_it_ended(text: str, expected: str) -> None:
    assert edit_outcome(text) == expected


def outcome_of(line: str, seen: Seen) -> str:
    builder = StateBuilder()
    builder.shell("bash", line, seen)
    return builder.states[0].outcome


def test_an_exit_code_wins_over_a_flag_and_a_flag_over_the_text() -> None:
    assert (
        outcome_of("python x.py", Seen(exit_code=0, is_error=True, text="Traceback (most recent call last)"))
        == "ok"
    )
    assert outcome_of("python x.py", Seen(exit_code=1, text="fine")) == "error"
    assert outcome_of("python x.py", Seen(is_error=False, text="Traceback (most recent call last)")) == "ok"
    assert outcome_of("python x.py", Seen(text="Traceback (most recent call last)")) == "error"


def test_a_pipe_does_not_hide_a_failing_check() -> None:
    assert outcome_of("pytest | tail -3", Seen(exit_code=0, text="1 failed, 2 passed")) == "error"


def test_a_digest_forgets_addresses_colours_and_durations() -> None:
    assert text_digest("<A at 0x7f01>\x1b[0m 1 passed in 0.12s") == text_digest(
        "<A at 0x99ff> 1 passed in 3.4s"
    )
    assert text_digest("line 3") != text_digest("line 4")
    assert text_digest("") == ""
    # 8 bytes in hexadecimal; a lone surrogate is text
    assert len(text_digest("\udc80")) == 16


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "passed"),
        (0, "failed"),
        (1.0, "passed"),
        ("Passed", "passed"),
        ("fail", "failed"),
        (None, "unknown"),
        ("?", "unknown"),
    ],
)
def test_a_verdict_is_read_in_any_spelling(value: object, expected: str) -> None:
    assert verdict(value) == expected


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ({"resolved": True}, "passed"),
        ({"report": {"resolved": False}}, "failed"),
        ({"test_result": {"report": {"resolved": True}}}, "passed"),
        ({"resolved_ids": ["p-1"], "unresolved_ids": []}, "passed"),
        ({"resolved_ids": [], "unresolved_ids": ["p-1"]}, "failed"),
        ({"resolved": [], "unresolved": ["p-1"]}, "failed"),
        ({"p-1": {"resolved": True}}, "passed"),
        ({"error_ids": ["p-1"], "unresolved_ids": ["p-1"]}, "unknown"),
        ({"resolved": False, "error_eval": True}, "unknown"),
        ({"resolved": False, "test_timeout": True}, "unknown"),
        ({"resolved_ids": ["p-2"]}, "unknown"),
        ([], "unknown"),
    ],
)
def test_a_graders_report_is_read_in_every_form(report: object, expected: str) -> None:
    assert from_report(report, "p-1") == expected


@pytest.mark.parametrize(
    ("trial", "expected"),
    [
        ({"verifier_result": {"rewards": {"reward": 1.0}}}, "passed"),
        ({"verifier_result": {"rewards": {"reward": 0.0}}}, "failed"),
        ({"verifier_result": {"rewards": {"reward": 0.0}}, "exception_info": {"type": "Timeout"}}, "unknown"),
        ({"verifier_result": None}, "unknown"),
    ],
)
def test_a_trial_that_broke_is_unknown_and_not_failed(trial: object, expected: str) -> None:
    assert from_trial(trial) == expected


ATIF = json.dumps({"schema_version": "ATIF-v1.6", "agent": {}, "steps": []}).encode()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"../result.json": b'{"task_name": "t", "verifier_result": {"rewards": {"reward": 1}}}'}, "passed"),
        ({"../verifier/reward.txt": b"0\n"}, "failed"),
        ({"../verifier/reward.json": b'{"reward": 1.0}'}, "passed"),
        ({"report.json": b'{"resolved": false}'}, "failed"),
        ({}, "unknown"),
    ],
)
def test_an_outcome_is_found_beside_the_log(files: dict[str, bytes], expected: str) -> None:
    (run,) = read("agent/trajectory.json", ATIF, beside=files.get)
    assert run.outcome == expected


def run(**fields: object) -> Trajectory:
    return Trajectory(**{"trajectory_id": "r", "path": "d/e/r.json", "format": "f", **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("l.jsonl", b'{"trajectory_id": "r", "passed": true}\n'),
        (
            "l.jsonl",
            b'{"path": "e/r.json", "task_id": "p", "resolved": true}\n'
            b'{"path": "x/r.json", "task_id": "p", "resolved": false}',
        ),
        ("l.json", b'{"r": true}'),
        ("l.json", b'[{"instance_id": "p", "resolved": 1}]'),
        ("l.json", b'{"resolved_ids": ["p"], "unresolved_ids": ["q"]}'),
        ("l.csv", b"id,outcome\nr,passed\n"),
    ],
)
def test_labels_are_read_in_every_form(name: str, data: bytes) -> None:
    labels = read_labels(name, data)
    assert labels.outcome_of(run(problem="p")) == "passed"
    assert labels.outcome_of(run(trajectory_id="z", path="z.json", problem="z")) is None


def test_a_label_without_a_run_is_refused_with_its_row() -> None:
    with pytest.raises(TrajectoryError, match=r"l\.csv: row 1: no run is named"):
        read_labels("l.csv", b"who,outcome\nr,passed\n")


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        ("1.0", "passed"),
        ("0.0", "failed"),
        ("0.5", "failed"),
        ("nan", "unknown"),
        (float("nan"), "unknown"),
        ("x", "unknown"),
    ],
)
def test_a_verdict_that_went_through_floats_is_understood(value: object, outcome: str) -> None:
    assert verdict(value) == outcome


@pytest.mark.parametrize(
    "table", [b"id,verdict\nr,passed\n", b"id, passed\nr, true\n", b"id,outcome\nr,good\n"]
)
def test_labels_without_a_verdict_say_so_and_not_that_they_name_no_run(table: bytes) -> None:
    with pytest.raises(TrajectoryError, match=r"l\.csv: no row has a verdict; expected passed or failed"):
        read_labels("l.csv", table)


def test_labels_nested_too_deeply_are_refused_in_a_sentence() -> None:
    with pytest.raises(TrajectoryError, match=r"l\.json: labels are neither"):
        read_labels("l.json", b'{"a":' * 100_000)


def test_a_number_too_long_for_a_float_is_a_verdict() -> None:
    assert verdict(10**400) == "passed"
    assert verdict(float("nan")) == "unknown"
