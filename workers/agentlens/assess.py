"""One run against its problem's donors: from a labelled trajectory to an assessment, as a column of steps.

prepare ─ forest ─ confidences ─ measure ─ weigh ─ walk ─ charge ─ mechanism
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from workers.agentlens import disorder, divergence, waste
from workers.agentlens.forest import DonorPool, Forest
from workers.agentlens.measure import Signals, measure, process_signals, weigh
from workers.agentlens.mechanisms import Mechanism, mechanism
from workers.agentlens.profiles import PAPER, PROFILES, TUNED, UNREFERENCED
from workers.agentlens.reference import Donor
from workers.agentlens.settings import DEFAULT_SETTINGS, SCORING_VERSION, ScoringSettings
from workers.agentlens.signals.structure import Candidate, align
from workers.agentlens.signals.temporal import temporal
from workers.agentlens.tier import Tier, composite, tier
from workers.agentlens.trace import Trace, trace
from workers.agentlens.trajectory import Intent, RunOutcome, Trajectory
from workers.agentlens.waste import Waste
from workers.agentlens.waste.finding import Finding

_CELLS: Final = 2_000_000
"""Pairs of steps that are compared at once: bounds the memory of a problem, whatever its runs' length."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """A labelled trajectory, prepared once and then used as candidate and, if it passed, as donor."""

    trajectory: Trajectory
    trace: Trace
    findings: tuple[Finding, ...]

    @property
    def donor(self) -> Donor:
        """This run as a donor."""
        return Donor(
            donor_id=self.trajectory.trajectory_id,
            trace=self.trace,
            model=self.trajectory.model or "",
            findings=self.findings,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProfileScore:
    """One profile's view of a run. signals: its signals, struct, cov and edit on 0 to 100, coh and temp on
    0 to 1, averaged over the draws. spread: standard deviation of the score over the draws."""

    score: float
    tier: Tier | None
    signals: Mapping[str, float]
    spread: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceUsed:
    """Against what a run was scored. k: donors of draw 0, fewer than asked for if there were not enough.
    donors: their ids, in tree order. donors_drawn: different ones over all draws. nodes: of draw 0's tree."""

    k: int
    donors: tuple[str, ...]
    donors_drawn: int
    draws: int
    nodes: int
    match_threshold: float
    scoring_version: str = SCORING_VERSION


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """Everything the scorer says about one run (AGENTLENS §9)."""

    trajectory_id: str
    path: str
    problem: str | None
    model: str | None
    outcome: RunOutcome
    steps: int
    profile: str
    scores: Mapping[str, ProfileScore]
    mechanism: Mechanism | None
    divergence: divergence.Divergence | None
    matched: tuple[tuple[int, int], ...]
    waste: Waste
    disorder: tuple[disorder.Disorder, ...]
    intents: tuple[Intent, ...]
    rules: tuple[int, ...]
    evidence: Mapping[str, object]
    reference: ReferenceUsed | None
    tokens: int | None
    cost_usd: float | None
    warnings: tuple[str, ...]
    scoring_version: str = SCORING_VERSION

    @property
    def score(self) -> float:
        """The score of the profile that drives the tier."""
        return self.scores[self.profile].score

    @property
    def tier(self) -> Tier | None:
        """The tier under the driving profile."""
        return self.scores[self.profile].tier


def prepare(trajectory: Trajectory) -> Run:
    """Make a labelled trajectory ready for scoring. Raises ValueError if it is not labelled."""
    prepared = trace(trajectory)
    return Run(trajectory=trajectory, trace=prepared, findings=waste.scan(prepared))


def pool(runs: Iterable[Run], settings: ScoringSettings = DEFAULT_SETTINGS) -> DonorPool:
    """The donors among the runs of one problem: those that passed. The outcome of a run decides whether
    *others* may be compared with it and never enters its own score."""
    return DonorPool([run.donor for run in runs if run.trajectory.outcome == "passed"], settings)


def assess_problem(runs: Sequence[Run], settings: ScoringSettings = DEFAULT_SETTINGS) -> Iterator[Assessment]:
    """Assess the runs of one problem against each other, in the order given."""
    return assess_all(runs, pool(runs, settings))


def assess_all(runs: Sequence[Run], donors: DonorPool) -> Iterator[Assessment]:
    """Assess runs against the pool of their problem, some at a time: they share the comparisons of the steps
    that they have in common."""
    for batch in _batches(runs, donors.columns):
        forests = [donors.forest(run.trace) for run in batch]
        referenced = [(run, forest) for run, forest in zip(batch, forests, strict=True) if forest is not None]
        judged = _judge(referenced, donors)
        for run, forest in zip(batch, forests, strict=True):
            yield _assessment(run, _judge_alone(run, donors) if forest is None else next(judged))


def _batches(runs: Iterable[Run], columns: int) -> Iterator[list[Run]]:
    """Neighbouring runs that together compare at most `_CELLS` pairs of steps, at least one run at a time."""
    batch: list[Run] = []
    cells = 0
    for run in runs:
        more = len(run.trace.acting) * columns
        if batch and cells + more > _CELLS:
            yield batch
            batch, cells = [], 0
        batch.append(run)
        cells += more
    if batch:
        yield batch


def assess(run: Run, donors: DonorPool) -> Assessment:
    """Assess one run against the pool of its problem, leaving itself out of every reference."""
    return next(assess_all([run], donors))


def _assessment(run: Run, judged: _Judgement) -> Assessment:
    trajectory = run.trajectory
    spent = [
        (state.tokens_in or 0) + (state.tokens_out or 0)
        for state in trajectory.states
        if state.tokens_in is not None or state.tokens_out is not None
    ]
    return Assessment(
        trajectory_id=trajectory.trajectory_id,
        path=trajectory.path,
        problem=trajectory.problem,
        model=trajectory.model,
        outcome=trajectory.outcome,
        steps=len(trajectory.states),
        profile=judged.profile,
        scores=judged.scores,
        mechanism=judged.mechanism,
        divergence=judged.divergence,
        matched=judged.matched,
        waste=judged.waste,
        disorder=disorder.find(run.trace),
        intents=run.trace.intents,
        rules=tuple([state.rule for state in trajectory.states]),
        evidence=judged.evidence,
        reference=judged.reference,
        tokens=sum(spent) if spent else None,
        cost_usd=trajectory.cost_usd,
        warnings=(
            *trajectory.warnings,
            *(f"this log's format has no {signal}" for signal in trajectory.blind_signals),
            *judged.warnings,
        ),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Judgement:
    """The part of an assessment that depends on whether there is a reference."""

    profile: str
    scores: Mapping[str, ProfileScore]
    mechanism: Mechanism | None
    divergence: divergence.Divergence | None
    matched: tuple[tuple[int, int], ...]
    waste: Waste
    evidence: Mapping[str, object]
    reference: ReferenceUsed | None
    warnings: tuple[str, ...]


def _judge(runs: Sequence[tuple[Run, Forest]], donors: DonorPool) -> Iterator[_Judgement]:
    if not runs:
        return
    compared = donors.compare([run.trace for run, _ in runs])
    alignments = align(
        compared.table,
        [
            Candidate(rows=rows, paths=forest.paths, lengths=forest.lengths)
            for (_, forest), rows in zip(runs, compared.rows, strict=True)
        ],
    )
    temp = temporal(
        np.array([run.trace.profile for run, _ in runs]), np.array([forest.profiles for _, forest in runs])
    ).tolist()
    for position, (run, forest) in enumerate(runs):
        rows, columns = compared.rows[position], forest.trees[0].columns
        signals = measure(
            run.trace,
            forest,
            alignments[position],
            temp[position],
            blind_retries=waste.blind_retries(run.findings),
        )
        yield _judge_one(
            run, donors.settings, forest, signals, compared.table.take(rows, axis=0).take(columns, axis=1)
        )


def _judge_one(
    run: Run,
    settings: ScoringSettings,
    forest: Forest,
    signals: Signals,
    confidences: npt.NDArray[np.float32],
) -> _Judgement:
    """Judge a run; `confidences` are those of its acting states to the nodes of draw 0's tree."""
    tree = forest.trees[0].reference
    scores = _scores(run, signals, settings)
    matches = _matches(confidences)
    way = divergence.walk(run.trace, tree, matches, settings)
    wasted = waste.charge(
        run.trace,
        run.findings,
        donors=[donor.findings for donor in tree.donors],
        matched=frozenset(step for step, match in zip(run.trace.acting, matches, strict=True) if match),
    )
    return _Judgement(
        profile=settings.profile,
        scores=scores,
        mechanism=_mechanism(run, wasted, scores[settings.profile], tree.donors, settings),
        divergence=way.divergence,
        matched=way.path,
        waste=wasted,
        evidence=_evidence(run.trace, signals, forest),
        reference=ReferenceUsed(
            k=len(tree.donors),
            donors=tuple(donor.donor_id for donor in tree.donors),
            donors_drawn=len(forest.donors),
            draws=settings.draws,
            nodes=len(tree),
            match_threshold=settings.match_threshold,
        ),
        warnings=_warnings(run, scores, len(tree.donors), settings),
    )


def _judge_alone(run: Run, pool: DonorPool) -> _Judgement:
    scores = _process_score(run)
    wasted = waste.charge(run.trace, run.findings)
    usable = sum(donor.trace.sequence != run.trace.sequence for donor in pool.donors)
    return _Judgement(
        profile=UNREFERENCED.name,
        scores=scores,
        mechanism=_mechanism(run, wasted, scores[UNREFERENCED.name], (), pool.settings),
        divergence=None,
        matched=(),
        waste=wasted,
        evidence={},
        reference=None,
        warnings=(
            f"{usable} other passing runs of this problem, 2 are needed: scored without a reference, "
            "with low confidence",
        ),
    )


def _mechanism(
    run: Run, wasted: Waste, score: ProfileScore, donors: Sequence[Donor], settings: ScoringSettings
) -> Mechanism | None:
    if score.tier is not Tier.LUCKY:
        return None
    return mechanism(run.trace, wasted, [donor.trace for donor in donors], settings)


def _scores(run: Run, signals: Signals, settings: ScoringSettings) -> dict[str, ProfileScore]:
    values = signals.means()
    edit = values.pop("edit")
    draws = signals.per_draw()
    scores: dict[str, ProfileScore] = {}
    for profile in (PAPER, TUNED):
        score, spread = weigh(draws, profile)
        scores[profile.name] = ProfileScore(
            score=score,
            tier=tier(score, run.trajectory.outcome, profile),
            signals=values | {"edit": edit} if "edit" in profile.weights else values,
            spread=spread,
        )
    if settings.profile == UNREFERENCED.name:
        scores |= _process_score(run)
    return scores


def _process_score(run: Run) -> dict[str, ProfileScore]:
    signals = process_signals(run.trace, blind_retries=waste.blind_retries(run.findings))
    score = composite(signals, UNREFERENCED)
    return {
        UNREFERENCED.name: ProfileScore(
            score=score,
            tier=tier(score, run.trajectory.outcome, UNREFERENCED),
            signals={name: value / 100.0 for name, value in signals.items()},
            spread=0.0,
        )
    }


def _evidence(trace: Trace, signals: Signals, forest: Forest) -> dict[str, object]:
    first = forest.trees[0]
    coherence = signals.coherence
    return {
        "struct": {
            "donor": first.reference.donors[signals.best_donor].donor_id,
            "ordered_recall": signals.recall,
            "unordered_precision": signals.precision,
        },
        "cov": {"matched_nodes": signals.covered, "nodes": len(first.columns)},
        "coh": {
            "forward": coherence.forward,
            "backward": coherence.backward,
            "blind_retries": coherence.blind_retries,
            "verified": coherence.verified,
        },
        "temp": {"run": trace.profile, "reference": first.profile},
        "edit": {"lines_changed": len(trace.region)},
    }


def _matches(confidences: npt.NDArray[np.float32]) -> list[dict[int, float]]:
    """For each acting state its confidence to each tree node that it matches."""
    matches: list[dict[int, float]] = [{} for _ in range(len(confidences))]
    states, nodes = np.nonzero(confidences > 0)
    values = confidences[states, nodes]
    for state, node, value in zip(states.tolist(), nodes.tolist(), values.tolist(), strict=True):
        matches[state][node] = value
    return matches


def _warnings(
    run: Run, scores: Mapping[str, ProfileScore], donors: int, settings: ScoringSettings
) -> tuple[str, ...]:
    warnings: list[str] = []
    if donors < settings.donors:
        warnings.append(f"the reference has {donors} donors instead of {settings.donors}")
    if (
        run.trajectory.outcome == "passed"
        and scores[TUNED.name].signals["edit"] < settings.edit_agreement_little
        and scores[PAPER.name].score >= PROFILES[PAPER.name].lucky_cut
    ):
        warnings.append("little edit agreement with a good process: a divergent but valid fix (C5) is likely")
    return tuple(warnings)
