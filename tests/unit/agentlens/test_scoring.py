"""The scorer as a program or a notebook uses it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import workers.agentlens
from tests.unit.agentlens.steps import edit, shell, trajectory, view
from workers.agentlens import Reference, ScoringSettings, Trajectory, assess_cohort, label, load, score
from workers.agentlens.scoring import labelled
from workers.errors import InputError, TrajectoryError

RUN: dict[str, Any] = {
    "messages": [{"role": "assistant", "content": "```bash\npytest -q\n```"}],
    "instance_id": "p",
    "resolved": True,
}


def passing(count: int) -> list[Trajectory]:
    return [
        trajectory(view("a.py"), edit("a.py", "x", str(n)), shell(f"pytest tests/{n}.py"), name=str(n))
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (json.dumps(RUN).encode(), "a.json"),
        (json.dumps(RUN), "a.json"),
        (json.dumps(RUN) + "\n", "a.jsonl"),
        (RUN, "a.json"),
        ([RUN], "a.json"),
    ],
)
def test_a_log_is_loaded_from_bytes_text_or_a_record(content: Any, name: str) -> None:
    (run,) = load(content, name)
    assert (run.trajectory_id, run.problem, run.outcome, len(run.states)) == ("a", "p", "passed", 1)
    assert [(state.intent, state.rule) for state in run.states] == [(None, 0)]
    assert [(state.intent, state.rule) for state in label(run).states] == [("V", 4)]


@pytest.mark.parametrize("wrong", ["runs/a.json", Path("runs/a.json"), 3, None])
def test_a_path_is_sent_to_where_files_are_read(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"is no log; to read a file use workers\.trajectories\.load"):
        load(wrong)


def test_a_log_is_read_with_the_reader_and_the_neighbours_that_it_is_given() -> None:
    unresolved = {key: RUN[key] for key in ("messages", "instance_id")}
    forms = (json.dumps(unresolved).encode(), json.dumps(unresolved), unresolved)
    for content in forms:
        asked: list[str] = []
        (run,) = load(content, "a.json", beside=asked.append)  # type: ignore[arg-type]
        assert (run.trajectory_id, run.outcome) == ("a", "unknown")
        assert asked
        with pytest.raises(InputError, match="no such reader"):
            load(content, "a.json", "no such reader")


def test_of_a_text_that_is_no_log_the_beginning_is_shown() -> None:
    with pytest.raises(InputError, match=f"^'{'x' * 200}' is no log"):
        load("x" * 201)


def test_a_record_without_a_name_is_called_run() -> None:
    assert [run.trajectory_id for run in load(RUN)] == ["run"]


def test_a_text_of_several_lines_is_a_log_that_a_reader_must_judge() -> None:
    with pytest.raises(TrajectoryError):
        load("no json\nat all", "a.json")
    odd = json.dumps({**RUN, "instance_id": "\udc80"}, ensure_ascii=False)
    assert [run.problem for run in load(odd, "a.json")] == ["\udc80"]


def test_a_labelled_run_keeps_the_labels_it_has() -> None:
    (run,) = passing(1)
    assert labelled(run) is run
    bare = dataclasses.replace(run, states=tuple(dataclasses.replace(s, intent=None) for s in run.states))
    assert labelled(bare) == label(bare)


def test_what_no_reader_reads_names_file_position_and_field() -> None:
    with pytest.raises(TrajectoryError, match=r"b\.json: file\[1\]\.role: .* found 'judge'"):
        load([RUN["messages"][0], {"role": "judge"}], "b.json")
    with pytest.raises(TrajectoryError, match=r"b\.jsonl: line 2: not JSON"):
        load(json.dumps(RUN) + "\n{", "b.jsonl")


def test_a_run_is_scored_against_a_reference_or_against_other_runs_alike() -> None:
    runs = passing(4)
    by_reference = score(runs[0], Reference.build(runs[1:]))
    # k = 3 takes all that are left without the run itself, so every draw is the same tree
    by_runs = score(runs[0], runs, ScoringSettings(donors=3))
    assert by_reference.scores["paper"].signals == by_runs.scores["paper"].signals
    assert by_reference.reference is not None
    assert sorted(by_reference.reference.donors) == ["1", "2", "3"]
    assert by_reference.reference.draws == 1


def test_a_run_is_never_scored_against_itself() -> None:
    runs = passing(4)
    found = score(runs[0], Reference.build(runs))
    assert found.reference is not None
    assert sorted(found.reference.donors) == ["1", "2", "3"]


def test_failed_runs_are_no_donors_and_too_few_give_no_reference() -> None:
    runs = [*passing(2), *(dataclasses.replace(run, outcome="failed") for run in passing(4)[2:])]
    found = score(runs[0], runs)
    assert (found.profile, found.reference) == ("unreferenced", None)
    assert any("donor" in warning or "passing" in warning for warning in found.warnings)


def test_labelling_comes_first_where_it_was_forgotten() -> None:
    runs = passing(3)
    bare = [
        dataclasses.replace(
            run, states=tuple(dataclasses.replace(state, intent=None, rule=0) for state in run.states)
        )
        for run in runs
    ]
    relabelled = [label(run) for run in bare]
    assert score(bare[0], bare).scores == score(relabelled[0], relabelled).scores
    assert assess_cohort(bare)[1] == assess_cohort(relabelled)[1]


def test_everything_public_has_a_docstring_that_names_its_section() -> None:
    for name in ("load", "label", "score", "assess_cohort"):
        assert "AGENTLENS §" in (getattr(workers.agentlens, name).__doc__ or "")
    assert "AGENTLENS §4" in (Reference.build.__doc__ or "")
    assert set(workers.agentlens.__all__) <= set(dir(workers.agentlens))
    with pytest.raises(AttributeError, match="has no attribute 'scores'"):
        workers.agentlens.scores  # noqa: B018


def test_reading_needs_neither_numpy_nor_scipy() -> None:
    program = (
        "import sys, workers.agentlens, workers.trajectories; print({'numpy', 'scipy'} & set(sys.modules))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert ended.stdout.strip() == "set()"
