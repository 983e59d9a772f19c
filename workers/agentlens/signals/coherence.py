"""Φcoh: does the run move forward from exploring to implementing to verifying (AGENTLENS §5)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Final

from workers.agentlens.trajectory import Intent

# Bound once: looking a member up in its enum costs three times as much as a global.
_E, _I, _V, _O = Intent

_RANK: Final = {Intent.E: 0, Intent.I: 1, Intent.V: 2}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Coherence:
    """Φcoh in 0 to 1 with what it was made of. `verified` is the verified factor."""

    value: float
    forward: int
    backward: int
    blind_retries: int
    verified: float


def coherence(intents: Sequence[Intent], *, blind_retries: int) -> Coherence:
    """forward/(forward+backward) × (1 − blind retries/states) × verified factor.

    O is no rank: it is skipped, so leaving a `think` is no step back. The verified factor is ½ if an E
    precedes the first I plus ½ if a V follows the last I. Without an I, or without any move, Φcoh is 0."""
    acting = [intent for intent in intents if intent is not _O]
    forward = backward = 0
    for before, after in itertools.pairwise(acting):
        step = _RANK[after] - _RANK[before]
        forward += step > 0
        backward += step < 0
    verified = 0.0
    if _I in acting:
        first = acting.index(_I)
        last = len(acting) - 1 - acting[::-1].index(_I)
        verified = 0.5 * (_E in acting[:first]) + 0.5 * (_V in acting[last:])
    flow = forward / max(1, forward + backward)
    calm = 1 - blind_retries / max(1, len(intents))
    return Coherence(
        value=flow * calm * verified,
        forward=forward,
        backward=backward,
        blind_retries=blind_retries,
        verified=verified,
    )
