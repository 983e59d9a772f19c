"""All signals of one run against all its references (AGENTLENS §5)."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from workers.agentlens.forest import Forest
from workers.agentlens.profiles import Profile
from workers.agentlens.signals.coherence import Coherence, coherence
from workers.agentlens.signals.coverage import coverage
from workers.agentlens.signals.edit_agreement import edit_agreement
from workers.agentlens.signals.structure import Alignment
from workers.agentlens.tier import rescale
from workers.agentlens.trace import Trace
from workers.agentlens.trajectory import Intent

# Bound once: looking a member up in its enum costs three times as much as a global.
_I, _V = Intent.I, Intent.V

_EXECUTED = frozenset({"check", "run"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signals:
    """The signals of one run. struct, cov, edit (0 to 100) and temp (0 to 1) have one value a draw; coherence
    needs no reference. recall, precision: of the donor in draw 0 whose path fits best. covered: nodes of draw
    0's tree that some state matches."""

    struct: tuple[float, ...]
    cov: tuple[float, ...]
    edit: tuple[float, ...]
    temp: tuple[float, ...]
    coherence: Coherence
    best_donor: int
    recall: float
    precision: float
    covered: int

    def per_draw(self) -> dict[str, tuple[float, ...]]:
        """Every signal on 0 to 100, one value a draw."""
        return {
            "struct": self.struct,
            "cov": self.cov,
            "edit": self.edit,
            "temp": tuple(100.0 * value for value in self.temp),
            "coh": (100.0 * self.coherence.value,) * len(self.struct),
        }

    def means(self) -> dict[str, float]:
        """Every signal averaged over the draws; coh and temp on 0 to 1, the others on 0 to 100."""
        draws = len(self.struct)
        return {
            "struct": sum(self.struct) / draws,
            "cov": sum(self.cov) / draws,
            "edit": sum(self.edit) / draws,
            "temp": sum(self.temp) / draws,
            "coh": self.coherence.value,
        }


def measure(
    trace: Trace, forest: Forest, alignment: Alignment, temporal: Sequence[float], *, blind_retries: int
) -> Signals:
    """Measure a run against the trees of all draws; `alignment` is to the forest's paths, `temporal` its Φtemp
    for each draw."""
    struct = alignment.struct.tolist()
    agreements = {
        donor.trace.sequence: edit_agreement(trace.region, donor.trace.region) for donor in forest.donors
    }
    starts = [0, *itertools.accumulate(forest.sizes[:-1])]
    covered: list[int] = np.add.reduceat(alignment.touched[forest.nodes], starts, dtype=np.intp).tolist()
    first = forest.trees[0]
    best_donor = max(range(len(first.rows)), key=lambda donor: (struct[first.rows[donor]], -donor))
    best_row = first.rows[best_donor]
    return Signals(
        struct=tuple(max(struct[row] for row in tree.rows) for tree in forest.trees),
        cov=tuple(coverage(count, size) for count, size in zip(covered, forest.sizes, strict=True)),
        edit=tuple(
            max(agreements[donor.trace.sequence] for donor in tree.reference.donors) for tree in forest.trees
        ),
        temp=tuple(temporal),
        coherence=coherence(trace.intents, blind_retries=blind_retries),
        best_donor=best_donor,
        recall=float(alignment.recall[best_row]),
        precision=float(alignment.precision[best_row]),
        covered=covered[0],
    )


def weigh(signals: Mapping[str, Sequence[float]], profile: Profile) -> tuple[float, float]:
    """A profile's score, averaged over the draws, and the standard deviation of the draws' scores; `signals`
    as from `Signals.per_draw`.

    The weighted sums are averaged before the rescaling map, so that the map changes no order of runs."""
    weights = [(weight, signals[name]) for name, weight in profile.weights.items()]
    draws = range(len(weights[0][1]))
    sums = [sum(weight * values[draw] for weight, values in weights) for draw in draws]
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
        if trace.intents[index] is _I:
            checks, has_edit = 0, True
        elif executed and has_edit:
            checks += trace.intents[index] is _V
        elif executed:
            reproduced = True
    return {
        "coh": 100.0 * coherence(trace.intents, blind_retries=blind_retries).value,
        "edited": 100.0 * bool(trace.edited),
        "checked": 100.0 * (1 - 0.5**checks) if trace.edited else 0.0,
        "reproduced": 100.0 * (reproduced and has_edit),
    }
