"""The runs of AgentLens-Bench, read, labelled and scored problem by problem, for the scripts beside."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from workers.agentlens import statistics
from workers.agentlens.assess import Run, assess_problem, prepare
from workers.agentlens.cohort import Row, row
from workers.agentlens.formats import read
from workers.agentlens.intents import label
from workers.agentlens.settings import DEFAULT_SETTINGS, ScoringSettings
from workers.agentlens.trajectory import State, Trajectory

Labeler = Callable[[Iterable[State]], tuple[State, ...]]


def problem_folders(root: Path) -> list[Path]:
    """The folders below `root` that hold runs, one a problem. Raises SystemExit if there are none."""
    folders = sorted({path.parent for path in root.rglob("*_pta.json")})
    if not folders:
        raise SystemExit(f"{root} holds no *_pta.json: unpack trajectories.tar.xz there first")
    return folders


def load(folder: Path, labeler: Labeler = label) -> list[Trajectory]:
    """The labelled runs of one problem."""
    return [
        dataclasses.replace(trajectory, states=labeler(trajectory.states))
        for path in sorted(folder.glob("*_pta.json"))
        for trajectory in read(str(path), path.read_bytes())
    ]


def prepared(folders: Sequence[Path], labeler: Labeler = label) -> list[list[Run]]:
    """The prepared runs of each problem."""
    return [[prepare(trajectory) for trajectory in load(folder, labeler)] for folder in folders]


def rows(problems: Iterable[Sequence[Run]], settings: ScoringSettings = DEFAULT_SETTINGS) -> list[Row]:
    """Every run scored against the others of its problem; runs without a recorded outcome are left out."""
    scored = (row(assessment) for runs in problems for assessment in assess_problem(runs, settings))
    return [r for r in scored if r.outcome != "unknown"]


def auroc(scored: Sequence[Row], values: Sequence[float]) -> tuple[float, float]:
    """AUROC pooled and within problems of any value of the rows."""
    counts = statistics.pair_counts(
        np.asarray(values, dtype=float), outcomes(scored), problem_numbers(scored)
    )
    ones = np.ones(len(counts.passes))
    return float(counts.pooled(ones)), float(counts.within(ones))


def outcomes(scored: Sequence[Row]) -> statistics.Bools:
    """Which rows passed."""
    return np.array([r.outcome == "passed" for r in scored])


def problem_numbers(scored: Sequence[Row]) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """The rows' problems as numbers from 0."""
    names = {name: number for number, name in enumerate(sorted({r.problem for r in scored}))}
    return np.array([names[r.problem] for r in scored], dtype=np.intp)


def held_out(numbers: Iterable[int]) -> Iterator[tuple[int, np.ndarray[tuple[int], np.dtype[np.bool_]]]]:
    """Each problem with the mask of its rows."""
    listed = np.array(list(numbers))
    for number in np.unique(listed):
        yield int(number), listed == number
