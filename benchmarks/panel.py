"""What counting claims is worth: real reviewers' remarks replayed through our clustering and arithmetic.

    python benchmarks/panel.py [--data FILE] [--aacr FILE] [--panels N] [--freeze]

Without --data every parameter is chosen on three projects and tested on the fourth, each in turn. With it, the
parameters are those of the code, and the file is only tested. Ends with 1 if the bar is missed."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import panel_baseline
import panel_fit
import panel_weights
from panel_fit import Parameters
from panel_replay import (
    Change,
    Panel,
    counts,
    figures,
    judge,
    panels_of,
    read_changes,
    records_of,
    replay,
    reviewers_of,
)

from workers.core.probability import SCORECARD, SIGNS, signs_of
from workers.core.similarity import REMARK_RULE
from workers.core.weights import Record

HERE = Path(__file__).parent
DATA = HERE / "data" / "panel"
RECORDS = DATA / "records.json"
SIZES = (3, 5, 7)
#: The size at which the bar is set, and the least gain in strict F1 there.
BAR_SIZE, BAR_GAIN = 5, 0.04
DRAWS = 2000

#: Counts of every way of counting: panels × pull requests × what `counts` counts.
Tables = dict[str, np.ndarray]
OURS, VOTES, PLAIN, TUNED = "ours", "ours, two votes", "TF-IDF, two votes", "TF-IDF, best cut"


def main() -> int:
    arguments = _arguments()
    started = time.perf_counter()
    changes = read_changes(arguments.data or DATA / "martian.jsonl")
    if arguments.freeze:
        return _freeze(changes)
    chosen = _frozen(changes) if arguments.data else _held_out(changes)
    issues = np.array([len(change.issues) for change in changes])
    print(
        f"{len(changes)} pull requests of {len({c.project for c in changes})} projects, {issues.sum()} known issues, "
        f"{sum(len(c.matches) for c in changes)} remarks of {len(reviewers_of(changes))} reviewers"
    )
    print(
        "parameters: " + ("those of the code" if arguments.data else "chosen on the other projects, in turn")
    )
    _singles(changes, issues)
    is_met = False
    for size in SIZES:
        panels = panels_of(reviewers_of(changes), size, at_most=arguments.panels)
        if panels:
            tables = _replay(changes, panels, chosen)
            _table(tables, issues, size, len(panels))
            if size == BAR_SIZE:
                is_met = _bar(tables, issues)
                _by_project(tables, changes, issues)
                _calibration(changes, panels_of(reviewers_of(changes), size, at_most=24), chosen)
    panel_weights.report(arguments.aacr)
    print(f"\n{time.perf_counter() - started:.0f} s")
    return 0 if is_met else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="test the code's own parameters on this file")
    parser.add_argument("--aacr", type=Path, default=DATA / "aacr.jsonl", help="remarks judged by people")
    parser.add_argument("--panels", type=int, help="at most so many panels of each size (a fixed sample)")
    parser.add_argument("--freeze", action="store_true", help="fit on all projects and print the parameters")
    return parser.parse_args()


def _held_out(changes: Sequence[Change]) -> dict[str, Parameters]:
    """Parameters for each project, chosen on the others."""
    projects = sorted({change.project for change in changes})
    return {
        project: panel_fit.fit([change for change in changes if change.project != project])
        for project in projects
    }


def _frozen(changes: Sequence[Change]) -> dict[str, Parameters]:
    records = {
        name: Record(**record) for name, record in json.loads(RECORDS.read_text(encoding="utf-8")).items()
    }
    parameters = Parameters(rule=REMARK_RULE, scorecard=SCORECARD, records=records)
    return {change.project: parameters for change in changes}


def _freeze(changes: Sequence[Change]) -> int:
    parameters = panel_fit.fit(changes)
    print(parameters.rule)
    print(parameters.scorecard)
    print(dict(zip(SIGNS, parameters.scorecard.slopes, strict=True)))
    records = {
        name: {"upheld": record.upheld, "refuted": record.refuted}
        for name, record in records_of(changes).items()
    }
    RECORDS.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    return 0


def _replay(changes: Sequence[Change], panels: Sequence[Panel], chosen: dict[str, Parameters]) -> Tables:
    def ways(change: Change, panel: Panel) -> list[Sequence[Sequence[str]]]:
        return [*chosen[change.project].promote(change, panel), *panel_baseline.two_votes(change, panel)]

    return dict(zip((OURS, VOTES, PLAIN, TUNED), replay(changes, panels, ways), strict=True))


def _singles(changes: Sequence[Change], issues: np.ndarray) -> None:
    """Each reviewer alone: every remark is a claim."""
    print("\nEach reviewer alone          remarks  precision  recall  strict F1  lenient F1")
    found = {}
    for name in reviewers_of(changes):
        table = sum(
            counts(change, [(f.finding_id,) for f in change.reviews[name].findings])
            for change in changes
            if name in change.reviews
        )
        result = found[name] = figures(np.asarray(table), issues.sum())
        print(
            f"  {name:<26}{int(np.asarray(table)[0]):8}{result.precision:11.3f}{result.recall:8.3f}"
            f"{result.strict:11.3f}{result.lenient:12.3f}"
        )
    average = np.mean([[r.precision, r.recall, r.strict, r.lenient] for r in found.values()], axis=0)
    best = max(found, key=lambda name: float(found[name].strict))
    print("  {:<34}{:11.3f}{:8.3f}{:11.3f}{:12.3f}".format("average", *average))
    print(f"  best (known only afterwards): {best}, strict F1 {found[best].strict:.3f}")


def _table(tables: Tables, issues: np.ndarray, size: int, panels: int) -> None:
    print(
        f"\nPanels of {size} ({panels})        precision  recall  strict F1 mean  worst  lenient F1  once F1"
    )
    for name, table in tables.items():
        result = figures(table.sum(axis=1), issues.sum())
        print(
            f"  {name:<24}{result.precision.mean():11.3f}{result.recall.mean():8.3f}{result.strict.mean():16.3f}"
            f"{result.strict.min():7.3f}{result.lenient.mean():12.3f}{result.once.mean():9.3f}"
        )


def _bar(tables: Tables, issues: np.ndarray) -> bool:
    """The gain in strict F1 over the plain baseline, with a paired interval over pull requests."""
    draws = np.random.default_rng(0).multinomial(len(issues), np.full(len(issues), 1 / len(issues)), DRAWS)
    known = (draws @ issues)[:, None]

    def drawn(table: np.ndarray) -> np.ndarray:
        return figures(np.einsum("dc,pcx->dpx", draws, table, optimize=True), known).strict.mean(axis=1)

    def plain(table: np.ndarray) -> float:
        return float(figures(table.sum(axis=1), issues.sum()).strict.mean())

    met = False
    for name, against in ((OURS, PLAIN), (OURS, TUNED), (VOTES, PLAIN)):
        gain = plain(tables[name]) - plain(tables[against])
        low, high = np.percentile(drawn(tables[name]) - drawn(tables[against]), [2.5, 97.5])
        line = f"  {name} − {against}: {gain:+.3f} [{low:+.3f} {high:+.3f}]"
        if (name, against) == (OURS, PLAIN):
            met = gain >= BAR_GAIN and low > 0
            line += f"   bar ≥ +{BAR_GAIN:.3f}, interval above 0: {'ok' if met else 'MISSED'}"
        print(line)
    return met


def _by_project(tables: Tables, changes: Sequence[Change], issues: np.ndarray) -> None:
    print(f"  by project, {OURS} − {PLAIN}:", end="")
    for project in sorted({change.project for change in changes}):
        here = np.array([change.project == project for change in changes])
        ours, plain = (
            figures(tables[name][:, here].sum(axis=1), issues[here].sum()).strict.mean()
            for name in (OURS, PLAIN)
        )
        print(f"  {project} {ours - plain:+.3f}", end="")
    print()


def _calibration(
    changes: Sequence[Change], panels: Sequence[Panel], chosen: Mapping[str, Parameters]
) -> None:
    """How well a claim's probability tells the strictly right claims, over all claims of some panels."""
    rows = []
    for change in changes:
        parameters = chosen[change.project]
        for panel in panels:
            claims, reviews = parameters.counted(change, panel)
            for claim, signs in zip(claims, signs_of(claims, reviews, parameters.records), strict=True):
                is_right = judge(change, claim.finding_ids).found is not None
                rows.append((parameters.scorecard.probability(signs), float(is_right)))
    told, right = np.array(rows).T
    print(
        f"  a claim's probability, {len(rows)} claims: Brier {np.mean((told - right) ** 2):.3f}, "
        f"their common rate {np.mean((right.mean() - right) ** 2):.3f}"
    )
    bins = np.digitize(told, np.quantile(told, [0.2, 0.4, 0.6, 0.8]))
    fifths = [f"{told[bins == b].mean():.2f}→{right[bins == b].mean():.2f}" for b in range(5)]
    print("  told → came true, by fifths: " + "  ".join(fifths))


if __name__ == "__main__":
    sys.exit(main())
