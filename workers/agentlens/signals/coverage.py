"""Φcov: how much of the whole reference the run has touched, in any order (AGENTLENS §5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def coverage(confidences: npt.NDArray[np.float64], tree_nodes: Sequence[npt.NDArray[np.intp]]) -> list[float]:
    """100 times the share of each tree's nodes that some candidate state matches, many to many."""
    touched = np.count_nonzero(confidences, axis=0) > 0
    return [100.0 * float(touched[nodes].mean()) for nodes in tree_nodes]
