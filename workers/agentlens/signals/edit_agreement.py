"""Φedit: did the run change the lines that a donor changed (AGENTLENS §5). Reported by itself: it lies near
the outcome and punishes a valid fix in another place. The best donor of a draw counts."""

from __future__ import annotations

from workers.agentlens.edit_region import Line


def edit_agreement(candidate: frozenset[Line], donor: frozenset[Line]) -> float:
    """100 times the F1 of two regions; two empty regions agree on nothing and give 0."""
    shared = len(candidate & donor)
    return 200.0 * shared / (len(candidate) + len(donor)) if shared else 0.0
