"""The figures that the paper and the measurements of the released code print, to stand beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TIER_SHARES: Final[Mapping[str, float]] = {
    "ideal": 0.202,
    "solid": 0.691,
    "lucky": 0.107,
    "partial_failure": 0.549,
    "off_track": 0.451,
}
"""Shares of the passing (first three) and of the failing runs."""

MODELS: Final[Mapping[str, tuple[float, int, float, int, float]]] = {
    "opus-4.5": (0.879, 1, 66.2, 2, 0.005),
    "sonnet-4.5": (0.868, 2, 67.4, 1, 0.010),
    "opus-4.6": (0.773, 3, 56.7, 6, 0.187),
    "gpt-5.2-codex": (0.646, 4, 56.1, 7, 0.194),
    "gpt-4.1": (0.599, 5, 54.7, 8, 0.232),
    "gpt-5.3-codex": (0.459, 6, 58.3, 5, 0.153),
    "gemini-2.5-pro": (0.429, 7, 59.2, 4, 0.076),
    "gpt-4o": (0.349, 8, 63.4, 3, 0.041),
}
"""Pass rate, its rank, mean quality, its rank, share of Lucky among passes; over 47 problems."""

WASTE: Final[Mapping[str, tuple[float, float, float, float]]] = {
    "regression_loop": (0.387, 0.395, 15.5, 12.2),
    "blind_retry": (0.460, 0.449, 5.6, 7.7),
    "redundant_step": (0.507, 0.476, 3.7, 5.3),
    "unnecessary_exploration": (0.061, 0.096, 2.0, 1.9),
    "cyclic_pattern": (0.336, 0.445, 4.6, 7.8),
}
"""Share of passing and of failing runs that show it, and the mean wasted steps among those."""

MECHANISMS: Final[Mapping[str, int]] = {"C1": 19, "C2": 42, "C3": 41, "C4": 5, "C5": 15}
"""Of 122 Lucky runs."""

AUROC: Final = 0.766
RELEASED_AUROC: Final = (0.693, 0.717)
"""Eq. 1 of the released code re-run on 45 problems, pooled and within."""

RELEASED_MS_A_RUN: Final = 145.0
"""CPU time of the released code for matching, quality report and waste, reading of raw logs not included."""
