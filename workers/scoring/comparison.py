"""A night's scoring beside that of the night before: which runs are new or gone, whose tier moved, and how Lucky
passes came about (AGENTLENS §8)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

#: Runs that are named in a comparison, of each kind; the counts are of all.
LISTED = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A run of one night. score, tier: of the profile that drives."""

    path: str
    trajectory_id: str
    model: str
    score: float
    tier: str | None
    mechanism: str | None


def compare(now: Sequence[Seen], before: Sequence[Seen], *, scoring_id: str, night: str) -> dict[str, object]:
    """What changed since `night`, whose scoring is `scoring_id`; copies are given in neither. Runs are the same if
    path and id are."""
    earlier, later = _by_name(before), _by_name(now)
    fresh = [run for name, run in later.items() if name not in earlier]
    gone = [run for name, run in earlier.items() if name not in later]
    both = [(earlier[name], run) for name, run in later.items() if name in earlier]
    moved = [(old, new) for old, new in both if old.tier != new.tier]
    return {
        "scoring_id": scoring_id,
        "night": night,
        "runs": {"now": len(later), "before": len(earlier)},
        "counts": {"new": len(fresh), "gone": len(gone), "moved": len(moved), "same": len(both) - len(moved)},
        "tiers": {"now": _tiers(later.values()), "before": _tiers(earlier.values())},
        "lucky_by_mechanism": {"now": _lucky(later.values()), "before": _lucky(earlier.values())},
        "moves": _moves(moved),
        "new": [_named(run) for run in fresh[:LISTED]],
        "gone": [_named(run) for run in gone[:LISTED]],
        "moved": [
            {**_named(new), "from": old.tier, "to": new.tier, "score_before": old.score}
            for old, new in sorted(
                moved, key=lambda pair: (-abs(pair[1].score - pair[0].score), pair[1].path)
            )[:LISTED]
        ],
    }


def _by_name(runs: Sequence[Seen]) -> dict[tuple[str, str], Seen]:
    ordered = sorted(runs, key=lambda run: (run.path, run.trajectory_id))
    return {(run.path, run.trajectory_id): run for run in ordered}


def _tiers(runs: Iterable[Seen]) -> dict[str, int]:
    return dict(sorted(Counter(run.tier for run in runs if run.tier is not None).items()))


def _lucky(runs: Iterable[Seen]) -> dict[str, int]:
    return dict(sorted(Counter(run.mechanism or "none" for run in runs if run.tier == "lucky").items()))


def _moves(moved: Sequence[tuple[Seen, Seen]]) -> list[dict[str, object]]:
    """How many runs went from which tier to which, the most first."""
    counts = Counter((old.tier, new.tier) for old, new in moved)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    return [{"from": old, "to": new, "runs": number} for (old, new), number in ordered]


def _named(run: Seen) -> dict[str, object]:
    return {
        "path": run.path,
        "trajectory_id": run.trajectory_id,
        "model": run.model,
        "score": run.score,
        "tier": run.tier,
        "mechanism": run.mechanism,
    }
