"""How good the process of an agent's run was: the method of AGENTLENS, pure and deterministic.

    from workers.agentlens import Reference, assess_cohort, label, load, score

`load` reads a log's content (§1), `label` gives each step its intent (§2), `Reference.build` makes the prefix
tree of passing runs (§4), `score` compares a run with it (§5 to §8), `assess_cohort` scores many runs against
each other and sums them up (§9). Files and folders are read by `workers.trajectories`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.agentlens.assess import Assessment
    from workers.agentlens.cohort import assess_cohort
    from workers.agentlens.reference import Reference
    from workers.agentlens.scoring import label, load, score
    from workers.agentlens.settings import ScoringSettings
    from workers.agentlens.trajectory import State, Trajectory

__all__ = [
    "Assessment",
    "Reference",
    "ScoringSettings",
    "State",
    "Trajectory",
    "assess_cohort",
    "label",
    "load",
    "score",
]

_HOMES = {
    "Assessment": "assess",
    "Reference": "reference",
    "ScoringSettings": "settings",
    "State": "trajectory",
    "Trajectory": "trajectory",
    "assess_cohort": "cohort",
    "label": "scoring",
    "load": "scoring",
    "score": "scoring",
}


def __getattr__(name: str) -> object:
    # NumPy and SciPy take most of a second to load and are an extra: whoever reads logs does not need them.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
