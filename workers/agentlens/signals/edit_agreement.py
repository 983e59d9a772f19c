"""Φedit: did the run change the lines that a donor changed (AGENTLENS §5). Reported by itself: it lies near
the outcome and punishes a valid fix in another place."""

from __future__ import annotations

from collections.abc import Sequence

from workers.agentlens.edit_region import Line, agreement


def edit_agreement(candidate: frozenset[Line], donors: Sequence[frozenset[Line]]) -> float:
    """100 times the best F1 over the donors' regions."""
    return 100.0 * max((agreement(candidate, donor) for donor in donors), default=0.0)
