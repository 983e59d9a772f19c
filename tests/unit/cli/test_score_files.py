"""The forms in which scores leave, and that none appears half-written."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import threading
from pathlib import Path

import pytest

from tests.recorded_runs import LOOK, write_cohort, write_run
from tests.unit.cli.scoring import scored
from workers.agentlens.assess import assess_problem, prepare
from workers.agentlens.cohort import summarise
from workers.agentlens.intents import label
from workers.agentlens.report import assessment_document, report_document, to_bytes
from workers.agentlens.settings import DEFAULT_SETTINGS
from workers.agentlens.tier import Tier
from workers.cli.destination import destination
from workers.errors import InputError, TrajectoryError
from workers.scoring import forms as score_files
from workers.scoring.forms import COLUMNS
from workers.scoring.page import write_html
from workers.trajectories import load


def test_the_json_is_the_reports_own_form_byte_for_byte(tmp_path: Path) -> None:
    file = write_run(tmp_path / "runs/a_pta.json", LOOK)
    (tmp_path / "runs/bad.json").write_text("{")
    cohort = scored(tmp_path / "runs", tmp_path / "spool")
    out = io.BytesIO()
    score_files.write_json(cohort, out)
    (run,) = load(file)
    (assessment,) = assess_problem([prepare(dataclasses.replace(run, states=label(run.states)))])
    expected = report_document(
        [assessment_document(assessment)],
        cohort=summarise([cohort.runs[0].row]),
        settings=DEFAULT_SETTINGS,
        skipped=[("bad.json", cohort.skipped[0].error)],
    )
    assert out.getvalue() == to_bytes(expected) + b"\n"


def test_the_json_holds_every_run_in_the_order_of_paths(tmp_path: Path) -> None:
    cohort = scored(write_cohort(tmp_path / "runs"), tmp_path / "spool")
    out = io.BytesIO()
    score_files.write_json(cohort, out)
    report = json.loads(out.getvalue())
    paths = [entry["path"] for entry in report["assessments"]]
    assert len(paths) == 10
    assert paths == sorted(paths)
    assert report["profile"] == "paper"
    assert report["cohort"]["runs"] == 10


def test_a_csv_row_says_what_the_json_says(tmp_path: Path) -> None:
    cohort = scored(write_cohort(tmp_path / "runs"), tmp_path / "spool")
    text, document = io.BytesIO(), io.BytesIO()
    score_files.write_csv(cohort, text)
    score_files.write_json(cohort, document)
    rows = list(csv.DictReader(io.StringIO(text.getvalue().decode())))
    entries = json.loads(document.getvalue())["assessments"]
    assert list(rows[0]) == list(COLUMNS)
    for row, entry in zip(rows, entries, strict=True):
        driving = entry["scores"][entry["profile"]]
        assert (row["path"], row["outcome"], row["tier"]) == (
            entry["path"],
            entry["outcome"],
            driving["tier"] or "",
        )
        assert float(row["score"]) == driving["score"]
        assert int(row["waste_steps"]) == len(entry["waste"]["steps"])
    lucky = next(row for row in rows if row["path"] == "1/lucky_pta.json")
    assert (lucky["tier"], lucky["mechanism"], lucky["donors"]) == ("lucky", "C1", "4")
    alone = next(row for row in rows if row["path"] == "3/unknown_pta.json")
    assert (alone["profile"], alone["paper"], alone["donors"]) == ("unreferenced", "", "")


def test_parquet_has_the_columns_of_the_csv_with_types(tmp_path: Path) -> None:
    from pyarrow.parquet import read_table

    cohort = scored(write_cohort(tmp_path / "runs"), tmp_path / "spool")
    out = io.BytesIO()
    score_files.write_parquet(cohort, out)
    table = read_table(io.BytesIO(out.getvalue()))
    assert table.schema.names == list(COLUMNS)
    assert {str(table.schema.field(name).type) for name in ("steps", "waste_steps")} == {"int64"}
    assert table.to_pylist() == list(score_files.table_rows(cohort.runs))


def test_the_export_holds_observations_and_scores_of_the_tiers_asked_for(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    cohort = scored(folder, tmp_path / "spool", keep=frozenset({Tier.IDEAL, Tier.SOLID}))
    out = io.BytesIO()
    number = score_files.write_sft(cohort, out)
    records = [json.loads(line) for line in out.getvalue().splitlines()]
    kept = [run for run in cohort.runs if run.tier in (Tier.IDEAL, Tier.SOLID)]
    assert 0 < number == len(records) == len(kept) < 10
    assert {record["tier"] for record in records} <= {"ideal", "solid"}
    for record, run in zip(records, kept, strict=True):
        assert record["scores"][run.row.profile] == pytest.approx(run.score, abs=1e-6)
        assert record["messages"][0]["content"] == "thinking of step 1"
        assert record["messages"][1]["content"] == "done"


def test_a_file_that_changed_under_the_export_is_told(tmp_path: Path) -> None:
    file = write_run(tmp_path / "runs/a_pta.json", LOOK, passed=False)
    cohort = scored(tmp_path / "runs", tmp_path / "spool", keep=frozenset(Tier))
    file.rename(file.with_name("b_pta.json"))
    file.write_text(json.dumps({"trajectory": []}))
    with pytest.raises(TrajectoryError, match=r"a_pta\.json"):
        score_files.write_sft(cohort, io.BytesIO())


def _fail_half_way(target: Path) -> None:
    with destination(target) as out:
        out.write(b"half")
        assert target.read_text() == "the old one"
        raise RuntimeError


def test_a_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("the old one")
    with pytest.raises(RuntimeError):
        _fail_half_way(target)
    assert target.read_text() == "the old one"
    with target.open() as reader:
        with destination(target) as out:
            out.write(b"whole")
        assert reader.read() == "the old one"  # replaced in one go, not overwritten
    assert target.read_text() == "whole"
    assert os.listdir(tmp_path) == ["report.json"]  # noqa: PTH208 - hidden drafts count too


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "report.json"
    link.symlink_to(tmp_path / "real/report.json")
    with destination(link) as out:
        out.write(b"whole")
    assert link.is_symlink()
    assert (tmp_path / "real/report.json").read_text() == "whole"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with destination(pipe) as out:
        out.write(b"whole")
    reader.join(timeout=10)
    assert read == [b"whole"]
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere/report.json", r"-o .*nowhere/report\.json: cannot be written: No such file or directory"),
        ("folder", "-o .*folder: is a folder; give the name of a file"),
        ("file/report.json", "cannot be written: Not a directory"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, name: str, sentence: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=sentence), destination(tmp_path / name):
        pytest.fail("the work began")


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("＝1+1", "'＝1+1"),
        ("-7.5", "-7.5"),
        ("+1e3", "+1e3"),
        (-7.5, -7.5),
        (None, None),
        ("django__django-1", "django__django-1"),
        ("", ""),
    ],
)
def test_no_cell_of_the_csv_is_a_formula_and_numbers_stay_numbers(cell: object, written: object) -> None:
    assert score_files.harmless(cell) == written


def test_names_from_a_log_are_no_formulas_in_the_csv(tmp_path: Path) -> None:
    evil = '=cmd|"/C calc"!A0'
    write_run(tmp_path / "runs/-x_pta.json", LOOK, model=evil, problem="@p")
    cohort = scored(tmp_path / "runs", tmp_path / "spool")
    out = io.BytesIO()
    score_files.write_csv(cohort, out)
    (row,) = csv.DictReader(io.StringIO(out.getvalue().decode()))
    assert (row["model"], row["problem"], row["path"], row["trajectory_id"]) == (
        f"'{evil}",
        "'@p",
        "'-x_pta.json",
        "'-x",
    )
    assert float(row["score"]) == pytest.approx(cohort.runs[0].score, abs=1e-6)


def test_text_that_is_no_unicode_leaves_in_every_form(tmp_path: Path) -> None:
    write_run(tmp_path / "runs/a_pta.json", LOOK, model="half \ud83d", passed=False)
    cohort = scored(tmp_path / "runs", tmp_path / "spool", keep=frozenset(Tier))
    for writer in (
        score_files.write_json,
        score_files.write_csv,
        score_files.write_parquet,
        score_files.write_sft,
        write_html,
    ):
        out = io.BytesIO()
        writer(cohort, out)
        assert "half �".encode() in out.getvalue()
