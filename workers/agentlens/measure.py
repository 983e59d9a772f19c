"""All signals of one run against all its references (AGENTLENS §5)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from workers.agentlens.forest import Forest
from workers.agentlens.profiles import Profile
from workers.agentlens.score import rescale
from workers.agentlens.signals.coherence import Coherence, coherence
from workers.agentlens.signals.coverage import coverage
from workers.agentlens.signals.edit_agreement import edit_agreement
from workers.agentlens.signals.structure import Alignment
from workers.agentlens.signals.temporal import temporal
from workers.agentlens.trace import Trace
from workers.agentlens.trajectory import Intent

Floats = npt.NDArray[np.float64]
_EXECUTED = frozenset({"check", "run"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signals:
    """The signals of one run. struct, cov, edit (0 to 100) and temp (0 to 1) have one value a draw; coherence
    needs no reference. alignment: of every path. touched: which node columns some state matches. best_donor:
    whose path in draw 0 fits best."""

    struct: Floats
    cov: Floats
    edit: Floats
    temp: Floats
    coherence: Coherence
    alignment: Alignment
    touched: npt.NDArray[np.bool_]
    best_donor: int

    def per_draw(self) -> dict[str, Floats]:
        """Every signal on 0 to 100, shape (draws,)."""
        return {
            "struct": self.struct,
            "cov": self.cov,
            "edit": self.edit,
            "temp": 100.0 * self.temp,
            "coh": np.full(len(self.struct), 100.0 * self.coherence.value),
        }

    def means(self) -> dict[str, float]:
        """Every signal averaged over the draws; coh and temp on 0 to 1, the others on 0 to 100."""
        draws = len(self.struct)
        return {
            "struct": float(self.struct.sum()) / draws,
            "cov": float(self.cov.sum()) / draws,
            "edit": float(self.edit.sum()) / draws,
            "temp": float(self.temp.sum()) / draws,
            "coh": self.coherence.value,
        }


def measure(
    trace: Trace, forest: Forest, confidences: Floats, alignment: Alignment, *, blind_retries: int
) -> Signals:
    """Measure a run against the trees of all draws.

    confidences: of each acting state to each node column. alignment: to the forest's paths."""
    touched = np.logical_or.reduce(confidences > 0, axis=0)
    regions = [[donor.trace.region for donor in tree.reference.donors] for tree in forest.trees]
    first = forest.rows[0]
    return Signals(
        struct=np.array([alignment.struct[rows].max() for rows in forest.rows]),
        cov=np.array([coverage(touched, tree.columns) for tree in forest.trees]),
        edit=np.array([edit_agreement(trace.region, donors) for donors in regions]),
        temp=temporal(trace.profile, forest.profiles),
        coherence=coherence(trace.intents, blind_retries=blind_retries),
        alignment=alignment,
        touched=touched,
        best_donor=int(alignment.struct[first].argmax()),
    )


def weigh(signals: Mapping[str, Floats], profile: Profile) -> tuple[float, float]:
    """A profile's score, averaged over the draws, and the standard deviation of the draws' scores; `signals`
    as from `Signals.per_draw`.

    The weighted sums are averaged before the rescaling map, so that the map changes no order of runs."""
    weighted = [weight * signals[name] for name, weight in profile.weights.items()]
    sums = np.add.reduce(weighted).tolist()
    scores = [rescale(value, profile.knots) for value in sums]
    mean = sum(scores) / len(scores)
    spread = math.sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))
    return rescale(sum(sums) / len(sums), profile.knots), spread


def process_signals(trace: Trace, *, blind_retries: int) -> dict[str, float]:
    """What can be said without any reference, each on 0 to 100: coherence, whether a source was edited, the
    executed checks after the last edit (1 gives 50, 2 give 75, …), and whether something was executed before
    the first edit, which mostly means that the problem was reproduced."""
    checks = 0
    reproduced = has_edit = False
    for position, index in enumerate(trace.acting):
        executed = trace.signatures[position].kind in _EXECUTED
        if trace.intents[index] is Intent.I:
            checks, has_edit = 0, True
        elif executed and has_edit:
            checks += trace.intents[index] is Intent.V
        elif executed:
            reproduced = True
    return {
        "coh": 100.0 * coherence(trace.intents, blind_retries=blind_retries).value,
        "edited": 100.0 * bool(trace.edited),
        "checked": 100.0 * (1 - 0.5**checks) if trace.edited else 0.0,
        "reproduced": 100.0 * (reproduced and has_edit),
    }
