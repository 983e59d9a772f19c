"""Φstruct: does the run take the steps of one known solution, in its order (AGENTLENS §5)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

_TOGETHER: Final = 64
"""How many candidates advance together: enough to share the loop's cost, few enough for the cache."""
_WIDE: Final = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """One run to align. rows: of the confidence table, one for each acting state, in order. paths: shape
    (longest, paths), node columns from first to last step, padded with an empty column. lengths: of them."""

    rows: Sequence[int]
    paths: Ints
    lengths: Floats


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alignment:
    """One candidate against each of its paths: Φstruct in 0 to 100, ordered recall and unordered precision in
    0 to 1, each of shape (paths,). touched: which node columns some state matches, on any path or none."""

    struct: Floats
    recall: Floats
    precision: Floats
    touched: npt.NDArray[np.bool_]


def align(table: npt.NDArray[np.float32], candidates: Sequence[Candidate]) -> list[Alignment]:
    """Ordered recall: heaviest common subsequence, weighted by confidence, over the path's length. Unordered
    precision: share of candidate states equivalent to any node of the path. Φstruct: their harmonic mean.

    table: confidences, shape (different states, node columns), its last column 0. All candidates advance
    together, each by its next state; one column of the dynamic programme belongs to one candidate and path,
    and the running maximum along the path replaces the inner loop of the textbook recurrence. Steps of a path
    that a candidate matches nowhere cannot be in a common subsequence and are left out."""
    positive = table > 0
    is_matched = (np.count_nonzero(positive, axis=1) > 0).tolist()
    useful = [[row for row in candidate.rows if is_matched[row]] for candidate in candidates]
    touched = [np.logical_or.reduce(positive[candidate.rows], axis=0) for candidate in candidates]
    order = sorted(range(len(candidates)), key=lambda number: -len(useful[number]))
    alignments: dict[int, Alignment] = {}
    for start in range(0, len(order), _TOGETHER):
        batch = order[start : start + _TOGETHER]
        steps = [_matched_steps(candidates[n].paths, touched[n], table.shape[1] - 1) for n in batch]
        heaviest, matched = _heaviest([useful[n] for n in batch], steps, table)
        widths = [len(candidates[n].lengths) for n in batch]
        recall = heaviest / np.concatenate([candidates[n].lengths for n in batch])
        precision = matched / np.repeat([max(1, len(candidates[n].rows)) for n in batch], widths)
        total = recall + precision
        struct = np.divide(200.0 * recall * precision, total, out=np.zeros_like(total), where=total > 0)
        front = 0
        for number, width in zip(batch, widths, strict=True):
            mine = slice(front, front + width)
            front += width
            alignments[number] = Alignment(
                struct=struct[mine], recall=recall[mine], precision=precision[mine], touched=touched[number]
            )
    return [alignments[number] for number in range(len(candidates))]


def _matched_steps(paths: Ints, touched: npt.NDArray[np.bool_], empty: int) -> Ints:
    """The paths of a candidate without the steps that it does not match, padded with the empty column."""
    of_path, step = np.nonzero(touched[paths].T)
    counts = np.bincount(of_path, minlength=paths.shape[1])
    steps = np.full((int(counts.max(initial=0)), paths.shape[1]), empty, dtype=np.intp)
    steps[np.arange(len(step)) - (np.cumsum(counts) - counts)[of_path], of_path] = paths[step, of_path]
    return steps


def _heaviest(
    useful: Sequence[Sequence[int]], steps: Sequence[Ints], table: npt.NDArray[np.float32]
) -> tuple[Floats, Floats]:
    """For each path of each candidate, the weight of the heaviest common subsequence and the number of
    candidate states that match some step. The candidates come longest first: as they end, the front
    shrinks."""
    widths = [paths.shape[1] for paths in steps]
    longest = max(paths.shape[0] for paths in steps)
    joined = np.full((longest, sum(widths)), table.shape[1] - 1, dtype=np.intp)
    start = 0
    for paths in steps:
        joined[: paths.shape[0], start : start + paths.shape[1]] = paths
        start += paths.shape[1]
    best = np.zeros((longest + 1, start), dtype=np.float32)
    matched = np.zeros(start)
    flat, stride = table.ravel(), table.shape[1]
    active = len(useful)
    for step in range(len(useful[0])):
        while len(useful[active - 1]) <= step:
            active -= 1
        bases = np.repeat([rows[step] * stride for rows in useful[:active]], widths[:active])
        front = len(bases)
        weights = flat.take(joined[:, :front] + bases)
        matched[:front] += weights.max(axis=0, initial=0.0) > 0
        weights += best[:-1, :front]
        np.maximum(weights, best[1:, :front], out=weights)
        _running_maximum(weights, best[:, :front])
    return best[-1].astype(np.float64), matched


def _running_maximum(values: npt.NDArray[np.float32], out: npt.NDArray[np.float32]) -> None:
    """The maximum of everything above and at each place, into `out` from its second row on.

    NumPy's accumulate walks column by column, which is slow for many short columns."""
    if values.shape[1] < _WIDE:
        np.maximum.accumulate(values, axis=0, out=out[1:])
        return
    above = out[0]
    for row, below in zip(values, out[1:], strict=True):
        np.maximum(row, above, out=below)
        above = below
