"""The HTML report: one file that needs nothing else. Trajectories are hostile text, so every value goes
through the template's escaping, and the page forbids itself the network."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, BinaryIO, Final

import orjson
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from workers.agentlens.forest import DonorPool
from workers.agentlens.mechanisms import MEANING
from workers.agentlens.profiles import PROFILES
from workers.agentlens.report import as_json
from workers.agentlens.settings import SCORING_VERSION
from workers.agentlens.tier import Tier
from workers.plain import plain
from workers.scoring import pictures
from workers.scoring.cohort import Cohort
from workers.scoring.spool import Scored, fetch, problem_pool, spooled_run
from workers.scoring.table import changes, notes, what_was_skipped

DETAILED: Final = 48
"""How many runs are shown step by step; a page with thousands would be of no use."""
_SKIPPED_SHOWN = 200
_EXPECTED_SHOWN = 3
_WARNINGS_SHOWN = 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """A run that is shown step by step, and why. tree: None without a reference. actual, expected: the step that
    left the reference, and the steps that it had there, each with how many donors took it."""

    reason: str
    document: Mapping[str, Any]
    signals: Mapping[str, float]
    timeline: pictures.Timeline
    tree: pictures.Tree | None
    actual: str
    expected: Sequence[tuple[str, int]]


def _lowest(run: Scored) -> tuple[float, str]:
    return run.score, run.entry.path


def _highest(run: Scored) -> tuple[float, str]:
    return -run.score, run.entry.path


def _wasteful(run: Scored) -> tuple[float, str]:
    return -run.row.severity, run.entry.path


REASONS: Final[Mapping[str, tuple[Callable[[Scored], bool], Callable[[Scored], tuple[float, str]]]]] = {
    "Lucky pass": (lambda run: run.tier is Tier.LUCKY, _lowest),
    "failed with a good process": (lambda run: run.tier is Tier.PARTIAL_FAILURE, _highest),
    "most waste": (lambda run: run.row.severity > 0, _wasteful),
    "best process": (lambda run: run.tier is not Tier.PARTIAL_FAILURE, _highest),
    "weakest process": (lambda run: run.tier is not Tier.LUCKY, _lowest),
}
"""Why a run is shown: which runs qualify, and which of them come first."""


def select(runs: Sequence[Scored], limit: int = DETAILED) -> list[tuple[str, Scored]]:
    """At most `limit` runs, each once, with the reason: the reasons take turns until none has more."""
    queues = [
        (reason, iter(sorted(filter(qualifies, runs), key=order)))
        for reason, (qualifies, order) in REASONS.items()
    ]
    chosen: dict[int, tuple[str, Scored]] = {}
    while queues and len(chosen) < limit:
        for entry in list(queues):
            reason, queue = entry
            fresh = next((run for run in queue if id(run) not in chosen), None)
            if fresh is None:
                queues.remove(entry)
            elif len(chosen) < limit:
                chosen[id(fresh)] = (reason, fresh)
    order = list(REASONS)
    return sorted(chosen.values(), key=lambda pair: order.index(pair[0]))


def write_html(cohort: Cohort, out: BinaryIO) -> None:
    """The report as one page. Only the selected runs' pictures are in memory, one problem after the other."""
    chosen = select(list(cohort.counted))
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"plain": plain, "percent": percent, "words": words}
    page = environment.from_string(_packaged("page.html")).stream(
        **_context(cohort),
        details=_details(cohort, chosen),
        reasons=Counter(reason for reason, _ in chosen),
        css=Markup(_packaged("page.css")),  # noqa: S704 # nosec B704 # our own file
        script=Markup(_packaged("page.js")),  # noqa: S704 # nosec B704 # our own file
    )
    page.enable_buffering(64)
    page.dump(out, encoding="utf-8", errors="replace")


def _packaged(name: str) -> str:
    return resources.files("workers.scoring").joinpath(name).read_text(encoding="utf-8")


def percent(share: float | None) -> str:
    """A share as whole percent."""
    return "–" if share is None else f"{100 * share:.0f} %"


def words(name: str) -> str:
    """A key as words."""
    return name.replace("_", " ")


def _context(cohort: Cohort) -> dict[str, Any]:
    summary = as_json(cohort.summary)
    assert isinstance(summary, dict)  # noqa: S101 - for the type checker: `as_json` keeps a mapping one
    profile = cohort.settings.profile
    runs = list(cohort.counted)
    judged = [run for run in runs if run.row.outcome != "unknown"]
    passed = [run for run in judged if run.row.outcome == "passed"]
    scores = [run.score for run in runs]
    warnings = Counter(_warnings(cohort))
    bins = pictures.histogram((run.score, run.row.outcome) for run in runs)
    return {
        "summary": summary,
        "profile": profile,
        "settings": cohort.settings,
        "version": SCORING_VERSION,
        "cuts": (PROFILES[profile].lucky_cut, PROFILES[profile].ideal_cut),
        "runs": len(runs),
        "pass_rate": len(passed) / len(judged) if judged else None,
        "mean_score": sum(scores) / len(scores),
        "lucky_share": sum(run.tier is Tier.LUCKY for run in passed) / len(passed) if passed else None,
        "slope": pictures.slope(summary["models"]),
        "bins": bins,
        "highest": max(max(part.passed, part.failed) for part in bins),
        "tier_bars": tier_bars(runs, [entry["model"] for entry in summary["models"]]),
        "tier_names": [tier.value for tier in Tier],
        "meaning": {mechanism.value: text for mechanism, text in MEANING.items()},
        "notes": notes(cohort),
        "changes": changes(cohort.comparison),
        "warnings": warnings.most_common(_WARNINGS_SHOWN),
        "more_warnings": max(0, len(warnings) - _WARNINGS_SHOWN),
        "skipped": cohort.skipped[:_SKIPPED_SHOWN],
        "skipped_total": len(cohort.skipped),
        "what_was_skipped": what_was_skipped(cohort.skipped),
        "steps_shown": pictures.STEPS_SHOWN,
        "models_shown": pictures.MODELS_SHOWN,
    }


def _warnings(cohort: Cohort) -> Iterator[str]:
    for run in cohort.counted:
        yield from orjson.loads(fetch(run.document))["warnings"]


def tier_bars(
    runs: Sequence[Scored], models: Sequence[str]
) -> list[tuple[str, int, list[tuple[str, int, float]]]]:
    """For each model its runs with a tier, and of each tier the count and the share."""
    counts = Counter((run.row.model, run.tier) for run in runs)
    bars = []
    for model in models[: pictures.MODELS_SHOWN]:
        total = sum(counts[model, tier] for tier in Tier)
        if total:
            parts = [(tier.value, counts[model, tier], counts[model, tier] / total) for tier in Tier]
            bars.append((model, total, parts))
    return bars


def _details(cohort: Cohort, chosen: Sequence[tuple[str, Scored]]) -> Iterator[Detail]:
    """The chosen runs' pictures, reason by reason. The references of a problem are drawn once more."""
    found: dict[int, Detail] = {}
    by_problem = sorted(chosen, key=lambda pair: pair[1].entry.problem or "")
    for problem, pairs in itertools.groupby(by_problem, key=lambda pair: pair[1].entry.problem):
        donors = problem_pool(cohort.problem(problem) if problem is not None else [], cohort.settings)
        for reason, scored in pairs:
            found[id(scored)] = _detail(reason, scored, donors)
    for _, scored in chosen:
        yield found[id(scored)]


def _detail(reason: str, scored: Scored, donors: DonorPool) -> Detail:
    run = spooled_run(scored.entry)
    states = run.trajectory.states
    document = orjson.loads(fetch(scored.document))
    forest = donors.forest(run.trace)
    reference = None if forest is None else forest.trees[0].reference
    divergence = document["divergence"] if reference is not None else None
    return Detail(
        reason=reason,
        document=document,
        signals=_signals(document),
        timeline=pictures.timeline(document, states),
        tree=None if reference is None else pictures.tree(document, reference),
        actual=""
        if divergence is None or divergence["step"] >= len(states)
        else pictures.action(states[divergence["step"]]),
        expected=[]
        if divergence is None or reference is None
        else [
            (pictures.action(reference.node(item["node"]).state), item["support"])
            for item in divergence["expected"][:_EXPECTED_SHOWN]
        ],
    )


def _signals(document: Mapping[str, Any]) -> dict[str, float]:
    """All signals on 0 to 1."""
    found: dict[str, float] = {}
    for score in document["scores"].values():
        for name, value in score.items():
            if name not in ("score", "tier", "spread"):
                found[name] = value / 100 if name in ("struct", "cov", "edit") else value
    return found
