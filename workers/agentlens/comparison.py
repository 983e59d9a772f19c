"""Two runs side by side: which steps of one are steps of the other, in order (AGENTLENS §3, §5)."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from workers.agentlens.equivalence import Codebook, confidence_matrix
from workers.agentlens.settings import DEFAULT_SETTINGS, ScoringSettings
from workers.agentlens.signals.temporal import Profile
from workers.agentlens.trace import Trace


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """State indices of two steps that are one step, with the confidence 0.70 to 1."""

    left: int
    right: int
    confidence: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """pairs: the matching steps of the heaviest common subsequence, in order. shared_left, shared_right:
    share of each run's acting steps that have an equivalent anywhere in the other. edit_agreement: F1 of the
    changed lines, 0 to 1, None if neither changed any. profiles: stages over thirds of each run."""

    pairs: tuple[Pair, ...]
    shared_left: float
    shared_right: float
    edit_agreement: float | None
    profiles: tuple[Profile, Profile]
    is_same: bool


def compare(left: Trace, right: Trace, settings: ScoringSettings = DEFAULT_SETTINGS) -> Comparison:
    """Align two runs. Of all ordered matchings it takes one with the greatest sum of confidences."""
    book = Codebook()
    table = confidence_matrix(
        book.encode(left.signatures),
        book.encode(right.signatures),
        threshold=settings.match_threshold,
        line_overlap=settings.line_overlap,
    )
    changed = len(left.region) + len(right.region)
    return Comparison(
        pairs=tuple(
            Pair(left=left.acting[i], right=right.acting[j], confidence=float(table[i, j]))
            for i, j in _heaviest(table)
        ),
        shared_left=_share(table, axis=1),
        shared_right=_share(table, axis=0),
        edit_agreement=2 * len(left.region & right.region) / changed if changed else None,
        profiles=(left.profile, right.profile),
        is_same=left.sequence == right.sequence,
    )


def _share(table: npt.NDArray[np.float32], *, axis: int) -> float:
    return float((table > 0).any(axis=axis).mean()) if table.size else 0.0


def _heaviest(table: npt.NDArray[np.float32]) -> list[tuple[int, int]]:
    """The pairs of a heaviest common subsequence: sums are filled in row by row, then walked back."""
    rows, columns = table.shape
    sums = np.zeros((rows + 1, columns + 1))
    for i in range(rows):
        taken = np.maximum(sums[i, 1:], sums[i, :-1] + table[i])
        sums[i + 1, 1:] = np.maximum.accumulate(taken)
    pairs: list[tuple[int, int]] = []
    i, j = rows, columns
    while i and j:
        if sums[i, j] == sums[i - 1, j]:
            i -= 1
        elif sums[i, j] == sums[i, j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((i, j))
    return pairs[::-1]
