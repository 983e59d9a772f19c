"""Φstruct: does the run take the steps of one known solution, in its order (AGENTLENS §5)."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alignment:
    """One candidate against each path: Φstruct in 0 to 100, ordered recall and unordered precision in 0 to 1,
    each of shape (paths,)."""

    struct: Floats
    recall: Floats
    precision: Floats


def align(confidences: Floats, paths: npt.NDArray[np.intp], lengths: Floats) -> Alignment:
    """Ordered recall: heaviest common subsequence, weighted by confidence, over the path's length. Unordered
    precision: share of candidate states equivalent to any node of the path. Φstruct: their harmonic mean.

    confidences has shape (states, node columns + 1), its last column 0; paths has shape (longest, paths).
    One dynamic-programming column per path advances by one candidate state at a time; the running maximum
    along the path replaces the inner loop of the textbook recurrence."""
    on_paths = confidences[:, paths]
    matched = np.logical_or.reduce(on_paths > 0, axis=1)
    states = confidences.shape[0]
    best = np.zeros((paths.shape[0] + 1, paths.shape[1]))
    extended = np.empty(paths.shape)
    for weights in on_paths[matched.any(axis=-1)]:
        np.add(best[:-1], weights, out=extended)
        np.maximum(extended, best[1:], out=extended)
        np.maximum.accumulate(extended, axis=0, out=best[1:])
    recall = best[-1] / lengths
    precision = matched.sum(axis=0) / states if states else np.zeros(len(lengths))
    total = recall + precision
    struct = np.divide(200.0 * recall * precision, total, out=np.zeros_like(total), where=total > 0)
    return Alignment(struct=struct, recall=recall, precision=precision)
