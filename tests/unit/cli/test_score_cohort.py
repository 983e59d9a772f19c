"""Two passes over a spool say what one pass in memory says."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recorded_runs import CHECK, FIX, LOOK, search, write_cohort, write_run
from tests.unit.cli.scoring import scored
from workers.agentlens.cohort import assess_cohort
from workers.agentlens.intents import label
from workers.agentlens.report import assessment_document, to_bytes
from workers.agentlens.settings import ScoringSettings
from workers.agentlens.tier import Tier
from workers.cli.score_cohort import find_files
from workers.errors import InputError, TrajectoryError
from workers.scoring.spool import fetch, spooled_run
from workers.trajectories import Skipped, load_all


def in_memory(folder: Path, settings: ScoringSettings) -> tuple[list[bytes], dict[str, object]]:
    labelled = [
        dataclasses.replace(run, states=label(run.states))
        for run in load_all(folder)
        if not isinstance(run, Skipped)
    ]
    assessments, summary = assess_cohort(labelled, settings)
    ordered = sorted(assessments, key=lambda a: (a.path, a.trajectory_id))
    return [to_bytes(assessment_document(a)) for a in ordered], summary


@pytest.mark.parametrize("profile", ["paper", "tuned"])
def test_the_spool_changes_no_byte_of_an_assessment(tmp_path: Path, profile: str) -> None:
    folder = write_cohort(tmp_path / "runs")
    settings = ScoringSettings(profile=profile, seed=7)
    cohort = scored(folder, tmp_path / "spool", settings=settings)
    documents, summary = in_memory(folder, settings)
    assert len(documents) == 10
    assert [fetch(run.document) for run in cohort.runs] == documents
    assert cohort.summary == summary


def test_a_copy_is_answered_and_counted_once(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    before = scored(folder, tmp_path / "spool0")
    shutil.copy(folder / "0/sound_pta.json", folder / "0/sound_again_pta.json")
    cohort = scored(folder, tmp_path / "spool", keep=frozenset(Tier))
    documents, summary = in_memory(folder, ScoringSettings())
    assert cohort.summary == summary
    assert summary["duplicates"] == [
        {
            "path": "0/sound_again_pta.json",
            "trajectory_id": "sound_again",
            "of": {"path": "0/sound_pta.json", "trajectory_id": "sound"},
        }
    ]
    assert {**summary, "duplicates": []} == before.summary
    found = {run.entry.path: json.loads(fetch(run.document)) for run in cohort.runs}
    assert len(found) == 11
    copy, counted = found["0/sound_again_pta.json"], found["0/sound_pta.json"]
    assert copy["duplicate_of"] == {"path": "0/sound_pta.json", "trajectory_id": "sound"}
    assert counted["duplicate_of"] is None
    assert copy["scores"] == counted["scores"]
    # In references, too, it counts once; and it is no training data twice.
    assert [{**json.loads(d), "duplicate_of": None} for d in documents] == [
        {**document, "duplicate_of": None} for document in found.values()
    ]
    assert [run.entry.path for run in cohort.runs if not run.is_kept and run.tier] == [
        "0/sound_again_pta.json"
    ]


def test_more_runs_of_a_problem_than_are_taken_at_once_are_all_scored(tmp_path: Path) -> None:
    for number in range(70):
        write_run(tmp_path / f"runs/{number}_pta.json", search(f"name_{number}"), LOOK, FIX, CHECK)
        write_run(tmp_path / f"runs/alone_{number}_pta.json", search(f"name_{number}"), problem=None)
    cohort = scored(tmp_path / "runs", tmp_path / "spool")
    assert [fetch(run.document) for run in cohort.runs] == in_memory(tmp_path / "runs", ScoringSettings())[0]


def test_observations_and_thoughts_are_not_spooled(tmp_path: Path) -> None:
    write_run(tmp_path / "runs/a_pta.json", LOOK, FIX, CHECK, seen="a very long observation")
    (run,) = scored(tmp_path / "runs", tmp_path / "spool").runs
    spooled = fetch(run.entry.place)
    assert b"a very long observation" not in spooled
    assert b"thinking of" not in spooled
    states = spooled_run(run.entry).trajectory.states
    assert [(s.tool, s.path, s.intent, s.rule) for s in states[:2]] == [
        ("read_file", "pkg/core.py", "E", 6),
        ("replace_string_in_file", "pkg/core.py", "I", 2),
    ]


def test_only_the_tiers_asked_for_are_kept(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    cohort = scored(folder, tmp_path / "spool", keep=frozenset({Tier.LUCKY}))
    assert [run.entry.path for run in cohort.runs if run.is_kept] == ["1/lucky_pta.json"]


def test_a_bad_file_is_listed_and_changes_no_score(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    before = [fetch(run.document) for run in scored(folder, tmp_path / "spool").runs]
    (folder / "0/bad.json").write_text("{")
    cohort = scored(folder, tmp_path / "spool2")
    assert [item.path for item in cohort.skipped] == ["0/bad.json"]
    assert cohort.skipped[0].error.startswith("0/bad.json: not JSON")
    assert [fetch(run.document) for run in cohort.runs] == before


def test_the_labels_file_wins_over_the_logs(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    (tmp_path / "outcomes.json").write_text(json.dumps({"lucky": False}))
    cohort = scored(folder, tmp_path / "spool", labels=tmp_path / "outcomes.json")
    outcomes = {run.entry.path: run.entry.outcome for run in cohort.runs}
    assert outcomes["1/lucky_pta.json"] == "failed"
    assert outcomes["0/sound_pta.json"] == "passed"


def test_labels_that_name_no_run_are_a_mistake(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    (tmp_path / "outcomes.json").write_text(json.dumps({"somebody_else": True}))
    with pytest.raises(InputError, match="names none of the 10 runs by id, path or problem"):
        scored(folder, tmp_path / "spool", labels=tmp_path / "outcomes.json")


def test_files_of_several_roots_keep_their_roots_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/x_pta.json", "b/x_pta.json", "y_pta.json"):
        write_run(Path(name), LOOK)
    files, _ = find_files([Path("b"), Path("a"), Path("y_pta.json")])
    assert [file.name for file in files] == ["a/x_pta.json", "b/x_pta.json", "y_pta.json"]
    Path("b/bad.json").write_text("{")
    cohort = scored(Path(), tmp_path / "spool", paths=[Path("b"), Path("a")])
    assert [(item.path, item.error[:20]) for item in cohort.skipped] == [
        ("b/bad.json", "b/bad.json: not JSON")
    ]
    assert [run.entry.path for run in cohort.runs] == ["a/x_pta.json", "b/x_pta.json"]


def test_a_file_named_twice_is_scored_once(tmp_path: Path) -> None:
    file = write_run(tmp_path / "x_pta.json", LOOK)
    assert len(find_files([tmp_path, file, tmp_path])[0]) == 1


def test_the_output_is_never_an_input(tmp_path: Path) -> None:
    write_run(tmp_path / "x_pta.json", LOOK)
    (tmp_path / "scores.json").write_text("{}")
    (file,), _ = find_files([tmp_path], output=tmp_path / "scores.json")
    assert file.name == "x_pta.json"


def test_what_holds_nothing_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryError, match="nowhere: no such file or folder"):
        find_files([tmp_path / "nowhere"])
    with pytest.raises(InputError, match="holds no file of trajectories"):
        find_files([tmp_path])
    for number in range(5):
        (tmp_path / f"{number}.json").write_text("[]")
    with pytest.raises(InputError, match=r"no trajectory could be read: 0\.json: .*; and 2 more$"):
        scored(tmp_path, tmp_path / "spool")


def test_a_folder_that_may_not_be_opened_is_listed_and_the_others_are_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "runs/open/x_pta.json", LOOK)
    (tmp_path / "runs/shut").mkdir()
    listed = Path.iterdir

    def closed(self: Path) -> Iterator[Path]:
        if self.name == "shut":
            raise PermissionError(13, os.strerror(13), str(self))
        return listed(self)

    monkeypatch.setattr(Path, "iterdir", closed)
    cohort = scored(tmp_path / "runs", tmp_path / "spool")
    assert [(item.path, item.error) for item in cohort.skipped] == [
        ("shut", "shut: cannot be opened: Permission denied")
    ]
    assert [run.entry.path for run in cohort.runs] == ["open/x_pta.json"]
    file = write_run(tmp_path / "y_pta.json", LOOK)
    cohort = scored(tmp_path, tmp_path / "spool2", paths=[tmp_path / "runs", file])
    assert [item.error for item in cohort.skipped] == [
        f"{tmp_path}/runs/shut: cannot be opened: Permission denied"
    ]
    with pytest.raises(InputError, match="shut: cannot be opened: Permission denied"):
        find_files([tmp_path / "runs/shut"])
