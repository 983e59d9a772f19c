"""Φcov: how much of the whole reference the run has touched, in any order (AGENTLENS §5)."""

from __future__ import annotations


def coverage(matched: int, nodes: int) -> float:
    """100 times the share of a tree's nodes that some candidate state matches, many to many."""
    return 100.0 * matched / nodes
