"""Φstruct: does the run take the steps of one known solution, in its order (AGENTLENS §5)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


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
    0 to 1, each of shape (paths,)."""

    struct: Floats
    recall: Floats
    precision: Floats


def align(table: Floats, candidates: Sequence[Candidate]) -> list[Alignment]:
    """Ordered recall: heaviest common subsequence, weighted by confidence, over the path's length. Unordered
    precision: share of candidate states equivalent to any node of the path. Φstruct: their harmonic mean.

    table: confidences, shape (different states, node columns), its last column 0. All candidates advance
    together, each by its next state; one column of the dynamic programme belongs to one candidate and path,
    and the running maximum along the path replaces the inner loop of the textbook recurrence. Steps of a path
    that a candidate matches nowhere cannot be in a common subsequence and are left out."""
    is_matched = (np.count_nonzero(table, axis=1) > 0).tolist()
    useful = [[row for row in candidate.rows if is_matched[row]] for candidate in candidates]
    order = sorted(range(len(candidates)), key=lambda number: -len(useful[number]))
    paths, widths = _matched_steps(table, [candidates[n] for n in order], [useful[n] for n in order])
    ends = np.cumsum([0, *widths])
    weight, matched = _heaviest([useful[n] for n in order], widths, paths, table)
    alignments: dict[int, Alignment] = {}
    for position, number in enumerate(order):
        mine = slice(int(ends[position]), int(ends[position + 1]))
        candidate = candidates[number]
        recall = weight[mine] / candidate.lengths
        precision = matched[mine] / max(1, len(candidate.rows))
        total = recall + precision
        struct = np.divide(200.0 * recall * precision, total, out=np.zeros_like(total), where=total > 0)
        alignments[number] = Alignment(struct=struct, recall=recall, precision=precision)
    return [alignments[number] for number in range(len(candidates))]


def _matched_steps(
    table: Floats, candidates: Sequence[Candidate], useful: Sequence[Sequence[int]]
) -> tuple[Ints, list[int]]:
    """The paths of all candidates side by side, each without the steps that its candidate does not match;
    and how many paths each candidate has."""
    widths = [candidate.paths.shape[1] for candidate in candidates]
    kept: list[Ints] = []
    for candidate, rows in zip(candidates, useful, strict=True):
        touched = np.logical_or.reduce(table[rows] > 0, axis=0)
        mask = touched[candidate.paths]
        counts = mask.sum(axis=0)
        steps = np.full((int(counts.max(initial=0)), mask.shape[1]), table.shape[1] - 1, dtype=np.intp)
        of_path, step = np.nonzero(mask.T)
        starts = np.cumsum(counts) - counts
        steps[np.arange(len(step)) - starts[of_path], of_path] = candidate.paths[step, of_path]
        kept.append(steps)
    longest = max((steps.shape[0] for steps in kept), default=0)
    joined = np.full((longest, sum(widths)), table.shape[1] - 1, dtype=np.intp)
    start = 0
    for steps in kept:
        joined[: steps.shape[0], start : start + steps.shape[1]] = steps
        start += steps.shape[1]
    return joined, widths


def _heaviest(
    useful: Sequence[Sequence[int]], widths: Sequence[int], paths: Ints, table: Floats
) -> tuple[Floats, Floats]:
    """For each candidate and path, the weight of the heaviest common subsequence and the number of candidate
    states that match some step. `useful` is sorted, longest first: as candidates end, the front shrinks."""
    best = np.zeros((paths.shape[0] + 1, paths.shape[1]))
    matched = np.zeros(paths.shape[1])
    flat, stride = table.ravel(), table.shape[1]
    active = len(useful)
    for step in range(len(useful[0]) if useful else 0):
        while len(useful[active - 1]) <= step:
            active -= 1
        bases = np.repeat([rows[step] * stride for rows in useful[:active]], widths[:active])
        front = len(bases)
        weights = flat.take(paths[:, :front] + bases)
        matched[:front] += weights.max(axis=0, initial=0.0) > 0
        weights += best[:-1, :front]
        np.maximum(weights, best[1:, :front], out=weights)
        np.maximum.accumulate(weights, axis=0, out=best[1:, :front])
    return best[-1], matched
