"""Φtemp: are the stages spread over the run as in the donors' runs (AGENTLENS §5)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from workers.agentlens.trajectory import Intent

THIRDS: Final = 3
_COLUMN: Final = {Intent.E: 0, Intent.I: 1, Intent.V: 2, Intent.O: 3}
_ONE_HOT: Final = np.eye(len(_COLUMN))
Profile = npt.NDArray[np.float64]
"""Shape (3 thirds, 4 intents in the order E, I, V, O); each row sums to 1, or to 0 for an empty run."""


@functools.lru_cache(maxsize=1024)
def _shares(states: int) -> npt.NDArray[np.float64]:
    """How much of each state lies in each third, shape (3, states): state i covers [i/n, (i+1)/n)."""
    edges = np.arange(THIRDS + 1)[:, None] / THIRDS
    starts, ends = np.arange(states) / states, (np.arange(states) + 1) / states
    overlap = np.minimum(ends, edges[1:]) - np.maximum(starts, edges[:-1])
    shares: npt.NDArray[np.float64] = np.clip(overlap, 0.0, None) * THIRDS
    return shares


def profile(intents: Sequence[Intent]) -> Profile:
    """The distribution of the stages over proportional thirds, O included."""
    if not intents:
        return np.zeros((THIRDS, len(_COLUMN)))
    return _shares(len(intents)) @ _ONE_HOT.take([_COLUMN[intent] for intent in intents], axis=0)


def temporal(candidates: Profile, donors: Profile) -> npt.NDArray[np.float64]:
    """1 − the mean over the thirds of the base-2 Jensen-Shannon divergence, shape (…, draws).

    `candidates` has shape (…, 3, 4); `donors` (…, draws, 3, 4), each the mean of one reference's donor
    profiles. Each divergence lies in 0 to 1."""
    middle = _negative_entropy((candidates[..., None, :, :] + donors) / 2)
    own, theirs = _negative_entropy(candidates)[..., None], _negative_entropy(donors)
    value: npt.NDArray[np.float64] = 1.0 - ((own + theirs) / 2 - middle) / THIRDS
    return np.minimum(1.0, np.maximum(0.0, value))


def _negative_entropy(profiles: Profile) -> npt.NDArray[np.float64]:
    """Σ p·log₂ p over the last two axes; 0·log 0 is 0, so no epsilon is needed."""
    terms = profiles * np.log2(np.where(profiles > 0, profiles, 1.0))
    total: npt.NDArray[np.float64] = terms.reshape(*profiles.shape[:-2], -1).sum(axis=-1)
    return total
