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
Profile = npt.NDArray[np.float64]
"""Shape (3 thirds, 4 intents in the order E, I, V, O); each row sums to 1, or to 0 for an empty run."""


@functools.lru_cache(maxsize=1024)
def _shares(states: int) -> npt.NDArray[np.float64]:
    """How much of each state lies in each third, shape (3, states): state i covers [i/n, (i+1)/n)."""
    edges = np.arange(THIRDS + 1)[:, None] / THIRDS
    starts, ends = np.arange(states) / states, (np.arange(states) + 1) / states
    overlap = np.minimum(ends, edges[1:]) - np.maximum(starts, edges[:-1])
    shares: npt.NDArray[np.float64] = np.clip(overlap, 0.0, None) * THIRDS
    shares.setflags(write=False)
    return shares


def profile(intents: Sequence[Intent]) -> Profile:
    """The distribution of the stages over proportional thirds, O included."""
    if not intents:
        return np.zeros((THIRDS, len(_COLUMN)))
    one_hot = np.zeros((len(intents), len(_COLUMN)))
    one_hot[np.arange(len(intents)), [_COLUMN[intent] for intent in intents]] = 1.0
    return _shares(len(intents)) @ one_hot


def _plogp(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return p * np.log2(np.where(p > 0, p, 1.0))


def temporal(candidate: Profile, donors: Profile) -> npt.NDArray[np.float64]:
    """1 − the mean over the thirds of the base-2 Jensen-Shannon divergence.

    `donors` has shape (..., 3, 4), each the mean of one reference's donor profiles; the result has shape
    (...). 0·log 0 is 0, so no epsilon is needed; each divergence lies in 0 to 1."""
    middle = (candidate + donors) / 2
    divergence = (_plogp(candidate) / 2 + _plogp(donors) / 2 - _plogp(middle)).sum(axis=-1)
    value: npt.NDArray[np.float64] = np.clip(1.0 - divergence.mean(axis=-1), 0.0, 1.0)
    return value
