"""`trajectories inspect`, `trajectories compare` and `reference build`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.recorded_runs import CHECK, FIX, LOOK, search, write_cohort, write_run
from workers.cli.main import execute


def test_inspect_shows_every_step_with_its_intent_and_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_run(tmp_path / "a_pta.json", LOOK, FIX, CHECK)
    assert execute(["trajectories", "inspect", str(file)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "0 E 6 view pkg/core.py:1-40 ok" in lines
    assert any(line.startswith("1 I 2 replace pkg/core.py") for line in lines)
    assert any(line.startswith("2 V 4 cd /testbed && pytest tests/test_core.py") for line in lines)
    assert any(line.startswith("this format has no exit codes") for line in lines)


def test_inspect_as_json_keeps_labels_and_blind_signals(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = write_run(tmp_path / "a_pta.json", LOOK, FIX, CHECK)
    assert execute(["trajectories", "inspect", str(file), "--json"]) == 0
    (run,) = json.loads(capsysbinary.readouterr().out)["runs"]
    assert [(s["intent"], s["rule"]) for s in run["states"]] == [("E", 6), ("I", 2), ("V", 4)]
    assert "exit codes" in run["blind_signals"]
    assert run["states"][0]["lines"] == {"start": 1, "end": 40}


def test_inspect_of_a_folder_shows_what_it_can_and_exits_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "a_pta.json", LOOK)
    (tmp_path / "bad.json").write_text("{")
    assert execute(["trajectories", "inspect", str(tmp_path)]) == 2
    assert "skipped: bad.json: not JSON" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["inspect", "compare"])
def test_an_unreadable_file_is_one_sentence_and_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (tmp_path / "bad.json").write_text("[]")
    bad = str(tmp_path / "bad.json")
    assert execute(["trajectories", command, bad, *([bad] if command == "compare" else [])]) == 3
    assert "bad.json: no known trajectory format" in capsys.readouterr().err


def test_compare_puts_equal_steps_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = write_run(tmp_path / "left_pta.json", search("one"), LOOK, FIX, CHECK)
    right = write_run(tmp_path / "right_pta.json", LOOK, FIX, search("other"), CHECK)
    assert execute(["trajectories", "compare", str(left), str(right)]) == 0
    out = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "0 grep -rn one /testbed/pkg" in lines  # A alone
    assert any(line.startswith("1 view pkg/core.py:1-40 1.00 0 view") for line in lines)
    assert any("1.00 3 cd /testbed && pytest" in line for line in lines)
    assert "75 % of A's steps are in B, 75 % of B's in A" in " ".join(out.split())


def test_compare_as_json_holds_the_pairs(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    file = str(write_run(tmp_path / "a_pta.json", LOOK, FIX))
    assert execute(["trajectories", "compare", file, file, "--json"]) == 0
    found = json.loads(capsysbinary.readouterr().out)
    assert [(p["left"], p["right"], p["confidence"]) for p in found["pairs"]] == [(0, 0, 1.0), (1, 1, 1.0)]
    assert found["is_same"] is True


def test_a_reference_is_built_from_the_passing_runs_of_the_problem(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    out = tmp_path / "ref.json"
    assert execute(["reference", "build", str(folder), "--problem", "p1", "--k", "3", "-o", str(out)]) == 0
    reference = json.loads(out.read_text())
    assert reference["problem"] == "p1"
    assert len(reference["donors"]) == 3
    assert {node["intent"] for node in reference["nodes"]} == {"E", "I", "V"}
    assert all("lost" not in donor["id"] for donor in reference["donors"])
    again = tmp_path / "again.json"
    execute(["reference", "build", str(folder), "--problem", "p1", "--k", "3", "-o", str(again)])
    assert again.read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "holds runs of several problems; name one with --problem: p1"),
        (["--problem", "p9"], "no run of problem p9 could be read"),
        (
            ["--problem", "p2", "--labels", "{}/labels.json"],
            "1 different passing runs of p2; a reference needs",
        ),
        (["--problem", "p1", "--k", "1"], "--k 1: a reference needs at least 2 passing runs"),
    ],
)
def test_a_reference_that_cannot_be_built_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    folder = write_cohort(tmp_path / "runs")
    (tmp_path / "labels.json").write_text('{"0/second_pta.json": false}')
    out = tmp_path / "ref.json"
    given = [argument.format(tmp_path) for argument in arguments]
    assert execute(["reference", "build", str(folder), *given, "-o", str(out)]) == 3
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert len(captured.err.splitlines()) == 1
    assert not out.exists()
