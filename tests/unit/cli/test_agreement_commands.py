"""`trajectories sample` and `trajectories agreement`."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.recorded_runs import CHECK, FIX, LOOK, search, write_run
from workers.agentlens.settings import SCORING_VERSION
from workers.cli.main import execute

Captured = pytest.CaptureFixture[str]


def runs(folder: Path, *, passed: bool | None = True) -> Path:
    """Three runs of four steps, all different: 12 steps, of which the labeler calls E, E, I, V each time."""
    for name in ("one", "two", "three"):
        look = ("read_file", {"filePath": f"/testbed/pkg/{name}.py", "startLine": 1, "endLine": 40})
        write_run(folder / f"{name}_pta.json", search(name), look, FIX, CHECK, passed=passed)
    return folder


def sampled(folder: Path, sheet: Path, *more: str) -> int:
    return execute(["trajectories", "sample", str(folder), "--rate", "-o", str(sheet), *more])


def table(sheet: Path) -> list[dict[str, str]]:
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def key_of(sheet: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(sheet.with_name(f"{sheet.stem}.key.json").read_text())
    return document


def fill(
    sheet: Path, to: Path, rate: Callable[[int, str], str] = lambda _, answer: answer, *, separator: str = ","
) -> Path:
    """A copy of a sheet, rated by what `rate` makes of a row's position and the labeler's answer."""
    answers = {step["step"]: step["intent"] for step in key_of(sheet)["steps"]}
    rows = table(sheet)
    with to.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
        writer.writeheader()
        for position, row in enumerate(rows):
            writer.writerow(row | {"rating": rate(position, answers[row["step"]])})
    return to


def rewrite(
    path: Path, change: Callable[[list[list[str]]], list[list[str]]], *, separator: str = ","
) -> Path:
    """The sheet with other rows."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter=separator))
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=separator).writerows(change(rows))
    return path


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    path = tmp_path / "sheet.csv"
    assert sampled(runs(tmp_path / "runs"), path) == 0
    return path


def refused(sheet: Path, *sheets: Path | str) -> int:
    key = sheet.with_name("sheet.key.json")
    return execute(["trajectories", "agreement", *map(str, sheets), "--key", str(key)])


def test_a_blind_sheet_has_a_row_a_step_and_nothing_in_rating(sheet: Path) -> None:
    rows = table(sheet)
    assert len(rows) == 12
    assert list(rows[0]) == [
        *("row", "step", "tool", "number", "changes so far", "just before", "action", "observation"),
        *("rating", "remark"),
    ]
    assert {row["rating"] + row["remark"] for row in rows} == {""}
    assert [row["row"] for row in rows] == [str(number) for number in range(1, 13)]


def test_the_key_holds_the_answers_in_the_order_of_the_sheet(sheet: Path) -> None:
    steps = key_of(sheet)["steps"]
    assert [step["step"] for step in steps] == [row["step"] for row in table(sheet)]
    answers = sorted((step["state"], step["intent"], step["rule"]) for step in steps)
    assert answers == sorted([(0, "E", 6), (1, "E", 6), (2, "I", 2), (3, "V", 4)] * 3)


def test_a_guide_lies_beside_the_sheet(sheet: Path) -> None:
    guide = sheet.with_name("sheet.guide.md").read_text(encoding="utf-8")
    assert all(f"| **{letter}** |" in guide for letter in "EIVO")


def test_the_outcome_of_a_run_changes_no_byte_of_a_blind_sheet(tmp_path: Path, sheet: Path) -> None:
    again = tmp_path / "again.csv"
    assert sampled(runs(tmp_path / "other" / "runs", passed=False), again) == 0
    assert again.read_bytes() == sheet.read_bytes()


def test_a_blind_sheet_names_no_file(sheet: Path) -> None:
    assert "_pta" not in sheet.read_text(encoding="utf-8")


def test_the_seed_decides_what_is_drawn(tmp_path: Path) -> None:
    folder, found = runs(tmp_path / "runs"), []
    for number, seed in enumerate("001"):
        path = tmp_path / f"{number}.csv"
        assert sampled(folder, path, "--n", "4", "--seed", seed) == 0
        found.append(path.read_bytes())
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("gone", ["sheet.csv", "sheet.key.json"])
def test_neither_a_sheet_nor_the_key_of_one_is_overwritten(
    tmp_path: Path, sheet: Path, capsys: Captured, gone: str
) -> None:
    (tmp_path / gone).unlink()
    (left,) = {"sheet.csv", "sheet.key.json"} - {gone}
    before = (tmp_path / left).read_bytes()
    assert sampled(tmp_path / "runs", sheet, "--seed", "1") == 3
    assert f"{left} exists; ratings may be in it or need it" in capsys.readouterr().err
    assert (tmp_path / left).read_bytes() == before
    assert not (tmp_path / gone).exists()


def test_without_rate_the_sheet_shows_the_labels_and_there_is_no_key(tmp_path: Path) -> None:
    path = tmp_path / "open.csv"
    assert execute(["trajectories", "sample", str(runs(tmp_path / "runs")), "-o", str(path)]) == 0
    rows = table(path)
    assert sorted(row["intent"] + row["rule"] for row in rows) == sorted(["E6", "E6", "I2", "V4"] * 3)
    assert {row["file"] for row in rows} == {f"runs/{name}_pta.json" for name in ("one", "two", "three")}
    assert not path.with_name("open.key.json").exists()


def test_what_an_agent_typed_is_no_formula_in_a_spreadsheet(tmp_path: Path) -> None:
    commands = ["=HYPERLINK(1)", "+1", "-1", "@x", "\tls"]
    steps = [("run_in_terminal", {"command": command}) for command in commands]
    write_run(tmp_path / "runs" / "a_pta.json", *steps, seen="=1+1\x1b[31m")
    path = tmp_path / "sheet.csv"
    assert sampled(tmp_path / "runs", path) == 0
    for row in table(path):
        assert row["action"][0] in "'l"
        assert row["observation"] == "'=1+1�[31m"
    assert "'=HYPERLINK(1)" in {row["action"] for row in table(path)}


def test_sample_skips_what_it_cannot_read_and_says_so_with_2(tmp_path: Path, capsys: Captured) -> None:
    folder = runs(tmp_path / "runs")
    (folder / "bad.json").write_text("{")
    assert sampled(folder, tmp_path / "sheet.csv", "--n", "5") == 2
    err = capsys.readouterr().err
    assert "skipped: bad.json: not JSON" in err
    assert "5 of 5 steps written" in err


def test_sample_of_nothing_readable_writes_nothing(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "bad.json").write_text("{")
    assert sampled(tmp_path / "bad.json", tmp_path / "sheet.csv") == 3
    assert "bad.json: not JSON" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.json"]


def test_sample_refuses_folders_whose_files_would_be_called_the_same(
    tmp_path: Path, capsys: Captured
) -> None:
    first, second = runs(tmp_path / "a" / "runs"), runs(tmp_path / "b" / "runs")
    command = ["trajectories", "sample", str(first), str(second), "--rate", "-o", str(tmp_path / "s.csv")]
    assert execute(command) == 3
    assert "would both be called runs/one_pta.json" in capsys.readouterr().err


def test_agreement_of_two_raters_by_hand(sheet: Path, tmp_path: Path, capsysbinary: Any) -> None:
    first = fill(sheet, tmp_path / "anna.csv")
    # The other rater calls every V an I: 3 of 12 apart.
    second = fill(sheet, tmp_path / "ben.csv", lambda _, answer: "I" if answer == "V" else answer)
    command = ["trajectories", "agreement", str(first), str(second), "--json"]
    assert execute([*command, "--key", str(tmp_path / "sheet.key.json")]) == 0
    found = json.loads(capsysbinary.readouterr().out)
    assert (found["raters"], found["steps"]) == (["anna", "ben"], 12)
    # P̄ = 9/12; E 12, I 9, V 3 of 24: P̄e = (144 + 81 + 9)/576; κ = (432 − 234)/(576 − 234) = 198/342.
    assert found["among_raters"]["raw"] == 0.75
    assert found["among_raters"]["kappa"]["value"] == pytest.approx(198 / 342, abs=1e-6)
    labeler = found["labeler"]
    assert labeler["by_rater"]["anna"]["kappa"]["value"] == 1.0
    # E 6·6, I 6·3, V 0·3 of 144: chance 54/144; same 108/144; κ = 54/90.
    assert labeler["by_rater"]["ben"]["kappa"]["value"] == pytest.approx(54 / 90)
    assert labeler["undecided"] == 3
    assert labeler["confusion"]["counts"] == [[6, 0, 0, 0], [0, 3, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert labeler["classes"]["V"] == {"precision": None, "recall": None, "rated": 0, "labeled": 0}
    assert [(item["labeler"], item["rule"], item["ratings"]) for item in found["disputes"]] == [
        ("V", 4, {"anna": "V", "ben": "I"})
    ] * 3


def test_the_table_shows_kappa_confusion_and_the_steps_to_look_at(
    sheet: Path, tmp_path: Path, capsys: Captured
) -> None:
    sheets = [
        fill(sheet, tmp_path / f"{name}.csv", lambda _, a: "I" if a == "V" else a) for name in ("anna", "ben")
    ]
    assert refused(sheet, *sheets) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert all(len(line) <= 80 for line in lines)
    assert f"12 steps, 2 raters, rules {SCORING_VERSION}" in lines
    assert "raters with each other, Fleiss 1.000 1.000 to 1.000 100.0 % 12" in lines
    assert any(line.startswith("majority with the labeler, Cohen 0.600") for line in lines)
    # Row I: three steps that both call I, and three that the labeler calls V.
    assert "I 0 3 3 0 6 1.000 0.500" in lines
    assert any("I I V 4 cd /testbed && pytest" in line for line in lines)


def test_one_sheet_is_compared_with_the_labeler_alone(sheet: Path, tmp_path: Path, capsys: Captured) -> None:
    assert refused(sheet, fill(sheet, tmp_path / "anna.csv")) == 0
    out = capsys.readouterr().out
    assert "one sheet says nothing about the agreement of raters" in out
    assert "Fleiss" not in out


def test_the_key_beside_the_sheet_is_found(sheet: Path, capsys: Captured) -> None:
    fill(sheet, sheet)
    assert execute(["trajectories", "agreement", str(sheet)]) == 0
    assert "12 steps, 1 rater" in capsys.readouterr().out


def test_small_letters_blanks_semicolons_and_sorted_rows_are_fine(
    sheet: Path, tmp_path: Path, capsys: Captured
) -> None:
    path = fill(sheet, tmp_path / "anna.csv", lambda _, answer: f" {answer.lower()} ", separator=";")
    rewrite(path, lambda rows: [rows[0], *reversed(rows[1:]), []], separator=";")
    assert refused(sheet, path) == 0
    assert "anna with the labeler, Cohen  1.000" in capsys.readouterr().out


def test_an_unrated_row_is_named(sheet: Path, tmp_path: Path, capsys: Captured) -> None:
    path = fill(sheet, tmp_path / "anna.csv", lambda position, answer: "" if position in (3, 7) else answer)
    assert refused(sheet, path) == 3
    # Row 1 is the header.
    assert "anna.csv: row 5: no rating (and 1 more); give E, I, V or O" in capsys.readouterr().err


def test_an_unknown_rating_is_named(sheet: Path, tmp_path: Path, capsys: Captured) -> None:
    path = fill(sheet, tmp_path / "anna.csv", lambda position, answer: "X" if position == 1 else answer)
    assert refused(sheet, path) == 3
    assert "anna.csv: row 3: rating 'X' is unknown; give E, I, V or O" in capsys.readouterr().err


def test_a_missing_row_is_named(sheet: Path, tmp_path: Path, capsys: Captured) -> None:
    path = rewrite(fill(sheet, tmp_path / "anna.csv"), lambda rows: rows[:-2])
    assert refused(sheet, path) == 3
    missing = key_of(sheet)["steps"][-2]["step"]
    assert f"anna.csv: the row of step {missing} is missing and 1 more" in capsys.readouterr().err


def test_a_row_that_is_there_twice_is_named(sheet: Path, tmp_path: Path, capsys: Captured) -> None:
    path = rewrite(fill(sheet, tmp_path / "anna.csv"), lambda rows: [*rows, rows[2]])
    assert refused(sheet, path) == 3
    assert "anna.csv: row 14: step " in (err := capsys.readouterr().err)
    assert "is in row 3 already" in err


def test_sheets_of_different_samples_do_not_mix(sheet: Path, tmp_path: Path, capsys: Captured) -> None:
    other = tmp_path / "other.csv"
    write_run(tmp_path / "more" / "x_pta.json", LOOK, FIX)
    assert sampled(tmp_path / "more", other) == 0
    assert refused(sheet, fill(sheet, tmp_path / "anna.csv"), fill(other, other)) == 3
    assert "other.csv: row 2: step 's" in (err := capsys.readouterr().err)
    assert "is not in the key" in err


def test_a_sheet_given_twice_is_refused(sheet: Path, tmp_path: Path, capsys: Captured) -> None:
    path = fill(sheet, tmp_path / "anna.csv")
    assert refused(sheet, path, path) == 3
    assert "anna.csv: given twice" in capsys.readouterr().err


def test_two_raters_whose_sheets_are_named_alike_are_told_apart(
    sheet: Path, tmp_path: Path, capsysbinary: Any
) -> None:
    paths = []
    for name in ("anna", "ben"):
        (tmp_path / name).mkdir()
        paths.append(str(fill(sheet, tmp_path / name / "rated.csv")))
    key = str(tmp_path / "sheet.key.json")
    assert execute(["trajectories", "agreement", *paths, "--key", key, "--json"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["raters"] == paths


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,b\n1,2\n", "row 1: no column 'step'"),
        ("step,b\n1,2\n", "row 1: no column 'rating'"),
        ("", "row 1: no column 'step'"),
        ("step,rating\ns1,E\n", "row 2: step 's1' is not in the key"),
        (f"step,rating\n{'x' * 200_000},E\n", "after row 1: not CSV"),
    ],
)
def test_what_is_no_sheet_is_refused_with_a_sentence(
    sheet: Path, tmp_path: Path, capsys: Captured, content: str, sentence: str
) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text(content)
    assert refused(sheet, path) == 3
    assert f"wrong.csv: {sentence}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "the key cannot be opened"),
        ("{", "not JSON"),
        ("[]", "no key of a rating sheet"),
        ('{"kind": "consensus-rating-key", "steps": [{"step": "s"}]}', "step 0: KeyError 'file'"),
        ('{"kind": "consensus-rating-key", "steps": {"a": 1}}', "step 0: TypeError"),
    ],
)
def test_what_is_no_key_is_refused_with_a_sentence(
    sheet: Path, tmp_path: Path, capsys: Captured, content: str | None, sentence: str
) -> None:
    key = tmp_path / "wrong.json"
    if content is not None:
        key.write_text(content)
    assert execute(["trajectories", "agreement", str(sheet), "--key", str(key)]) == 3
    assert f"wrong.json: {sentence}" in capsys.readouterr().err


def test_relabel_takes_todays_labels_even_if_the_folder_has_moved(
    sheet: Path, tmp_path: Path, capsysbinary: Any
) -> None:
    rated = fill(sheet, tmp_path / "anna.csv")
    key = tmp_path / "sheet.key.json"
    document = key_of(sheet)
    for step in document["steps"]:
        step["intent"] = "O"  # as if the labeler had said so when the sheet was drawn
    key.write_text(json.dumps(document))
    moved = shutil.move(tmp_path / "runs", tmp_path / "elsewhere" / "runs")
    command = ["trajectories", "agreement", str(rated), "--key", str(key), "--json"]
    assert execute(command) == 0
    assert json.loads(capsysbinary.readouterr().out)["labeler"]["by_rater"]["anna"]["raw"] == 0.0
    assert execute([*command, "--relabel", str(moved)]) == 0
    found = json.loads(capsysbinary.readouterr().out)
    assert found["labeler"]["by_rater"]["anna"]["raw"] == 1.0
    assert found["left_out"] == []


def test_relabel_leaves_out_a_step_that_is_another_now_and_exits_2(
    sheet: Path, tmp_path: Path, capsys: Captured
) -> None:
    rated = fill(sheet, tmp_path / "anna.csv")
    (tmp_path / "runs" / "one_pta.json").unlink()
    write_run(tmp_path / "runs" / "two_pta.json", LOOK, LOOK, FIX, CHECK)  # was another search and look
    key = str(tmp_path / "sheet.key.json")
    command = ["trajectories", "agreement", str(rated), "--key", key, "--relabel", str(tmp_path / "runs")]
    assert execute(command) == 2
    out, err = capsys.readouterr()
    assert "6 steps, 1 rater" in out  # 12 without the 4 of one and the first 2 of two
    assert "left out: 1 more" in err
    assert "runs/two_pta.json, run 0, state 1) is another action than the one that was rated" in err
    assert "runs/one_pta.json, run 0, state 0) is not there or cannot be read" in err


def test_relabel_with_the_wrong_folder_is_refused(sheet: Path, tmp_path: Path, capsys: Captured) -> None:
    rated = fill(sheet, tmp_path / "anna.csv")
    write_run(tmp_path / "wrong" / "x_pta.json", LOOK)
    key = str(tmp_path / "sheet.key.json")
    command = ["trajectories", "agreement", str(rated), "--key", key, "--relabel", str(tmp_path / "wrong")]
    assert execute(command) == 3
    assert "none of the 12 steps is there" in capsys.readouterr().err
