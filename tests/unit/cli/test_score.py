"""The command: its exit codes, its sentences, its table."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests.recorded_runs import CHECK, FIX, LOOK, search, write_cohort, write_run
from tests.unit.cli.scoring import scored
from workers.cli.main import execute
from workers.scoring import table as score_table


def score(*arguments: object) -> int:
    return execute(["score", *map(str, arguments)])


def test_all_is_well_is_0_and_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score(write_cohort(tmp_path)) == 0
    out = capsys.readouterr().out
    for words in (
        "10 runs of 2 problems and of none that is named",
        "Leaderboard",
        "Tiers",
        "1 Lucky pass",
        "Deployment risk",
    ):
        assert words in out
    assert "does not replace them" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_a_lucky_run_fails_the_gate_that_asks_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_cohort(tmp_path)
    assert score(folder, "--fail-on", "lucky") == 1
    assert "gate failed: 1 of 10 runs lucky (--fail-on)" in capsys.readouterr().err
    (folder / "1/lucky_pta.json").unlink()
    assert score(folder, "--fail-on", "lucky") == 0


def test_the_gate_follows_the_profile(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path)
    for path in folder.rglob("*_pta.json"):
        if path.name != "sound_pta.json":
            path.unlink()
    report = tmp_path / "report.json"
    tiers = {}
    for profile in ("paper", "tuned"):
        score(folder, "--profile", profile, "-o", report)
        assessments = json.loads(report.read_text())["assessments"]
        tiers[profile] = {entry["scores"][profile]["tier"] for entry in assessments}
        assert {entry["profile"] for entry in assessments} == {profile}
        report.unlink()
        assert score(folder, "--profile", profile, "--fail-on", ",".join(tiers[profile])) == 1


def test_a_score_under_the_floor_fails_the_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_cohort(tmp_path)
    assert score(folder, "--min-score", "0") == 0
    assert score(folder, "--min-score", "99.5") == 1
    assert "10 of 10 runs under 99.5 (--min-score)" in capsys.readouterr().err


def test_skipped_files_are_2_and_a_failed_gate_comes_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_cohort(tmp_path)
    (folder / "bad.json").write_text("{")
    assert score(folder) == 2
    assert "skipped 1 file" in capsys.readouterr().out
    assert score(folder, "--json") == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["skipped"][0]["path"] == "bad.json"
    assert "skipped 1 file" in captured.err
    assert score(folder, "--fail-on", "lucky") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{}/nowhere"], "nowhere: no such file or folder"),
        (["{}/empty"], "empty: holds no file of trajectories"),
        (["{}/text"], "no trajectory could be read: list.json"),
        (["{}/runs", "--format", "tape"], "--format tape: unknown; expected one of agentlens-bench, atif"),
        (["{}/runs", "--json", "--html"], "--json and --html exclude each other; choose one"),
        (["{}/runs", "--labels", "{}/nowhere"], "nowhere: cannot be opened: No such file"),
        (
            ["{}/runs", "--labels", "{}/text/notes.md"],
            "notes.md: names none of the 1 runs by id, path or problem",
        ),
        (["{}/runs", "--labels", "{}/text/list.json"], "list.json: row 1: no run is named"),
        (["{}/runs", "--json", "-o", "{}/nowhere/x"], "cannot be written: No such file or directory"),
        (["{}/runs", "-o", "{}/x.txt"], "x.txt: name the form: --json, --html, --csv, --parquet"),
        (["{}/runs", "--profile", "best"], "--profile best: must be paper or tuned"),
        (["{}/runs", "--k", "1"], "--k 1: a reference needs at least 2 passing runs"),
        (["{}/runs", "--draws", "0"], "--draws 0: at least 1 reference must be drawn"),
        (["{}/runs", "--draws", "1001"], "--draws 1001: at most 1000 references can be drawn"),
        (["{}/runs", "--json", "-o", "{}/loop"], "loop: is a link to itself; give another name"),
        (["{}/runs", "--labels", "{}/pipe"], "pipe: a folder, pipe or device; labels must be in a file"),
        (["{}/runs", "--labels", "{}/empty"], "empty: a folder, pipe or device; labels must be in a file"),
        (["{}/runs", "--fail-on", "bad"], "--fail-on bad: must name tiers, separated by commas: ideal"),
        (["{}/runs", "--fail-on", ""], "--fail-on : must name tiers"),
        (["{}/runs", "--export-sft", "ideal"], "--export-sft needs -o FILE"),
        (["{}/runs", "--min-score", "high"], "Invalid value for '--min-score'"),
        (["{}/runs", "--jobs", "0"], "Invalid value for '--jobs'"),
        ([], "Missing argument 'PATH…'"),
    ],
)
def test_wrong_input_is_one_sentence_and_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    write_run(tmp_path / "runs/a_pta.json", LOOK)
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text/notes.md").write_text("just words\n")
    (tmp_path / "text/list.json").write_text("[{}]")
    before = sorted(tmp_path.rglob("*"))
    assert score(*(argument.format(tmp_path) for argument in arguments)) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert sentence in captured.err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("ending", "start"), [("json", b"{"), ("csv", b"path,"), ("html", b"<!doctype html>")]
)
def test_the_ending_of_the_output_names_the_form(tmp_path: Path, ending: str, start: bytes) -> None:
    folder = write_cohort(tmp_path / "runs")
    assert score(folder, "-o", tmp_path / f"report.{ending}") == 0
    assert (tmp_path / f"report.{ending}").read_bytes().lstrip().startswith(start)


def test_the_export_goes_to_the_file_and_the_report_to_standard_output(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    folder = write_cohort(tmp_path / "runs")
    assert score(folder, "--export-sft", "ideal,solid", "--json", "-o", tmp_path / "train.jsonl") == 0
    captured = capsysbinary.readouterr()
    wanted = {
        entry["trajectory_id"]
        for entry in json.loads(captured.out)["assessments"]
        if entry["scores"][entry["profile"]]["tier"] in ("ideal", "solid")
    }
    lines = (tmp_path / "train.jsonl").read_text().splitlines()
    assert {json.loads(line)["trajectory_id"] for line in lines} == wanted


def test_the_table_fits_and_no_name_can_move_the_cursor(tmp_path: Path) -> None:
    for number in range(4):
        steps = (search(f"name_{number}"), LOOK, FIX, CHECK)
        write_run(tmp_path / f"runs/{number}_pta.json", *steps, model="evil\x1b[2J[bold]" + "x" * 90)
    console = Console(file=io.StringIO(), width=72)
    score_table.print_cohort(scored(tmp_path / "runs", tmp_path / "spool"), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b" not in text
    assert "evil�[2J[bold]" in text
    assert max(map(len, text.splitlines())) <= 72


def test_runs_without_outcomes_ask_for_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "a_pta.json", LOOK, passed=None)
    assert score(tmp_path) == 0
    assert "name a --labels file" in capsys.readouterr().out


def test_the_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert score("--help") == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "0 fine; 1 a gate failed (--fail-on, --min-score); 2 some files were skipped; 3 usage" in words


def test_a_paragraph_of_help_is_broken_only_where_the_terminal_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    assert score("--help") == 0
    assert "others of them that passed. Give many runs of a problem at once." in capsys.readouterr().out


ROW = '{"instance_id": "p", "messages": [{"role": "assistant", "content": "```bash\\nls\\n```"}], "resolved": true}'


def test_one_bad_line_is_listed_the_others_are_scored_and_the_code_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.jsonl").write_text(f"{ROW}\n{{\n{ROW.replace('ls', 'pwd')}\n")
    assert score(tmp_path, "--json") == 2
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert [entry["trajectory_id"] for entry in report["assessments"]] == ["rows#0", "rows#2"]
    (skipped,) = report["skipped"]
    assert skipped["path"] == "rows.jsonl"
    assert skipped["error"].startswith("rows.jsonl: line 2: not JSON")
    assert "skipped 1 record that could not be read" in captured.err
    assert score(tmp_path, "--export-sft", "ideal,solid,lucky", "-o", tmp_path / "train.jsonl") == 2
    lines = (tmp_path / "train.jsonl").read_text().splitlines()
    assert [json.loads(line)["trajectory_id"] for line in lines] == ["rows#0", "rows#2"]


def test_copies_pass_a_gate_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_cohort(tmp_path / "runs")
    shutil.copy(folder / "1/lucky_pta.json", folder / "1/lucky_again_pta.json")
    assert score(folder, "--fail-on", "lucky") == 1
    captured = capsys.readouterr()
    assert "gate failed: 1 of 10 runs lucky (--fail-on)" in captured.err
    assert "1 run given again, counted once: lucky_again in 1/lucky_again_pta.json" in " ".join(
        captured.out.split()
    )


@pytest.mark.parametrize("name", ["evil\x1b[2J.json", "evil\u202e.json"])
def test_a_sentence_about_a_file_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).write_text("[]")
    assert score(tmp_path / name) == 3
    assert execute(["trajectories", "inspect", str(tmp_path / name)]) == 3
    assert score(tmp_path / f"no{name}") == 3
    captured = capsys.readouterr()
    assert captured.out + captured.err == "".join(
        c for c in captured.out + captured.err if c.isprintable() or c == "\n"
    )


def test_what_a_run_typed_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ("run_in_terminal", {"command": "echo \x1b]0;owned\x07 \u202e [red]x[/]"})
    file = write_run(tmp_path / "a_pta.json", typed, model="m\x1b[31m", problem="p\x9b1m")
    assert execute(["trajectories", "inspect", str(file)]) == 0
    assert execute(["trajectories", "compare", str(file), str(file)]) == 0
    assert score(tmp_path) == 0
    out = capsys.readouterr().out
    assert all(c.isprintable() or c == "\n" for c in out)
    assert "echo �]0;owned� � [red]x[/]" in out


@pytest.mark.parametrize("floor", ["nan", "inf", "-1", "100.5"])
def test_a_floor_that_no_score_can_be_measured_by_is_no_gate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], floor: str
) -> None:
    assert score(write_cohort(tmp_path), "--min-score", floor) == 3
    assert f"--min-score {floor}: must be between 0 and 100" in capsys.readouterr().err


def test_formats_that_are_always_refused_are_not_offered(capsys: pytest.CaptureFixture[str]) -> None:
    assert score("runs", "--format", "cursor") == 3
    offered = capsys.readouterr().err.partition("expected one of ")[2]
    assert offered.startswith("agentlens-bench, atif, openhands-v1")
    assert "cursor" not in offered


@pytest.mark.parametrize("form", ["codex-rollout", "codex-exec", "claude-code"])
def test_a_document_forced_to_be_a_log_of_lines_is_no_run_without_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    write_run(tmp_path / "a_pta.json", LOOK)
    assert score(tmp_path, "--format", form) == 3
    assert "a_pta.json: file: expected JSON lines, found one document" in capsys.readouterr().err


def test_the_labels_may_lie_among_the_runs(tmp_path: Path) -> None:
    write_run(tmp_path / "a_pta.json", LOOK, passed=None)
    (tmp_path / "verdicts.json").write_text('{"a_pta.json": "passed"}')
    assert score(tmp_path, "--labels", tmp_path / "verdicts.json", "-o", tmp_path / "scores.csv") == 0
    assert execute(["score", str(tmp_path), "--labels", str(tmp_path / "verdicts.json")]) == 0


def test_no_run_and_no_label_is_overwritten_by_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "runs/a_pta.json", LOOK)
    write_run(tmp_path / "runs/b_pta.json", FIX)
    labels = tmp_path / "verdicts.json"
    labels.write_text('{"a_pta.json": "failed"}')
    before = {path: path.read_bytes() for path in (run, labels)}
    for arguments in ([tmp_path / "runs"], [run], [run, tmp_path / "runs/b_pta.json"]):
        assert score(*arguments, "-o", run) == 3
        assert "a_pta.json: would replace a run that is to be read" in capsys.readouterr().err
    assert execute(["reference", "build", str(tmp_path / "runs"), "-o", str(run)]) == 3
    assert score(tmp_path / "runs", "--labels", labels, "-o", labels) == 3
    assert "verdicts.json: would replace the labels" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (run, labels)} == before


def test_earlier_outputs_beside_the_runs_are_no_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_cohort(tmp_path)
    export = ("--export-sft", "ideal,solid,lucky", "--json", "-o", folder / "train.jsonl")
    for _ in range(2):
        assert score(folder, *export) == 0
    assert score(folder, "-o", folder / "scores.json") == 2
    capsys.readouterr()
    assert score(folder, "--json") == 2
    report = json.loads(capsys.readouterr().out)
    assert len(report["assessments"]) == 10
    assert [item["path"] for item in report["skipped"]] == ["scores.json", "train.jsonl"]
    assert all("made from runs is no run" in item["error"] for item in report["skipped"])


def test_a_folder_with_nothing_but_the_output_says_that_it_holds_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scores.json").write_text("{}")
    assert score(tmp_path, "-o", tmp_path / "scores.json") == 3
    assert "holds no file of trajectories" in capsys.readouterr().err


def test_a_full_disk_is_said_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score(write_cohort(tmp_path), "--json", "-o", "/dev/full") == 3
    assert "No space left on device: the rest could not be written" in capsys.readouterr().err


def test_a_long_model_name_cuts_no_number(tmp_path: Path) -> None:
    for number in range(4):
        steps = (search(f"name_{number}"), LOOK, FIX, CHECK)
        write_run(tmp_path / f"runs/{number}_pta.json", *steps, model="claude-3-7-sonnet-20250219" + "x" * 90)
    console = Console(file=io.StringIO(), width=72)
    score_table.print_cohort(scored(tmp_path / "runs", tmp_path / "spool"), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    (heads, row) = text.partition("Leaderboard")[2].splitlines()[1:3]
    assert " ".join(heads.split()) == "model runs passed by pass quality by quality shift lucky"
    assert row.count("…") == 1
    assert "100 %" in row


def test_a_terminal_that_knows_few_characters_gets_marks_for_the_others(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "workers.cli.main", "score", str(write_cohort(tmp_path))],
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == ""
    assert "interval. ?: ranks" in " ".join(done.stdout.split())
