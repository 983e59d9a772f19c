"""Φcov: how much of the whole reference the run has touched, in any order (AGENTLENS §5)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def coverage(touched: npt.NDArray[np.bool_], columns: npt.NDArray[np.intp]) -> float:
    """100 times the share of a tree's nodes that some candidate state matches, many to many.

    touched: by node column. columns: of the tree's nodes."""
    return 100.0 * np.count_nonzero(touched[columns]) / len(columns)
