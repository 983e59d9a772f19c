"""How well and how fast the scorer works on AgentLens-Bench, each figure beside its bar or published value.

    python benchmarks/agentlens.py FOLDER_WITH_PTA_FILES [--ablations]

The pass/fail label decides which *other* runs may be donors and how the result is judged, and never enters a
run's own score. `tuned` is judged twice: with the stored weights, and with weights fitted without the problem
that is scored. Ends with 1 if a bar is missed."""

from __future__ import annotations

import argparse
import dataclasses
import gc
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

import bench_runs
import fit_tuned
import numpy as np
import orjson
import published

from workers.agentlens import cohort, statistics
from workers.agentlens.assess import Run, assess_problem, prepare
from workers.agentlens.cohort import Row
from workers.agentlens.formats import read
from workers.agentlens.intents import label
from workers.agentlens.profiles import PAPER, TUNED
from workers.agentlens.settings import DEFAULT_SETTINGS, ScoringSettings
from workers.agentlens.shell import Group
from workers.agentlens.trajectory import Intent, Operation, State

BARS = {"paper": (0.80, 0.84), "tuned": (0.87, 0.90)}
TIME_RATIO_BAR = 5.0
READING_RATIO_BAR = 2.0
LINEARITY_BAR = 1.25
ROUNDS = 5


class Table:
    """Prints lines with their bars and remembers whether all were met."""

    def __init__(self) -> None:
        self.ok = True

    def bar(self, name: str, value: float, bar: float, *, at_most: bool = False) -> None:
        met = value <= bar if at_most else value >= bar
        self.ok &= met
        sign = "≤" if at_most else "≥"
        print(f"  {name:<44}{value:9.3f}   bar {sign} {bar:<6.3f} {'ok' if met else 'MISSED'}")


@dataclasses.dataclass(slots=True)
class Seconds:
    """CPU seconds of this process (user and system) by stage."""

    json: float = 0.0
    reading: float = 0.0
    labelling: float = 0.0
    scoring: float = 0.0


def timed(folders: Sequence[Path]) -> tuple[Seconds, int]:
    """Read, label and score problem by problem, with `json.loads` of the same bytes measured in between by the
    same clock: `ROUNDS` passes over the whole, and of each problem and stage the median.

    Reading decodes with orjson, as the command does. More shell lines lie between two readings of one problem
    than the parser remembers, so that no pass profits from the one before."""
    rounds = [[one_problem(folder) for folder in folders] for _ in range(ROUNDS)]
    spent = Seconds()
    for problems in zip(*rounds, strict=True):
        for field in dataclasses.fields(spent):
            middle = median(getattr(seconds, field.name) for seconds, _ in problems)
            setattr(spent, field.name, getattr(spent, field.name) + middle)
    return spent, sum(runs for _, runs in rounds[0])


def one_problem(folder: Path) -> tuple[Seconds, int]:
    """What the runs of one problem cost, and how many they are."""
    files = [(str(path), path.read_bytes()) for path in sorted(folder.glob("*_pta.json"))]
    marks = [time.process_time()]
    for _, data in files:
        json.loads(data)
    marks.append(time.process_time())
    trajectories = [t for path, data in files for t in read(path, data, decode=orjson.loads)]
    marks.append(time.process_time())
    labelled = [dataclasses.replace(t, states=label(t.states)) for t in trajectories]
    marks.append(time.process_time())
    list(assess_problem([prepare(t) for t in labelled]))
    marks.append(time.process_time())
    return Seconds(*(end - start for start, end in itertools.pairwise(marks))), len(labelled)


def speed(table: Table, folders: Sequence[Path]) -> None:
    one_problem(folders[0])  # imports, caches and regular expressions are paid once a process
    # What a process that scores many files should do after its imports: the modules' objects never die, and
    # looking at them again and again costs a tenth of the run.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    spent, runs = timed(folders)
    total = spent.reading + spent.labelling + spent.scoring
    draws, k = DEFAULT_SETTINGS.draws, DEFAULT_SETTINGS.donors
    print(
        f"\nSpeed: CPU time of this process for both sides, one core, median of {ROUNDS} passes that alternate "
        f"problem\n  by problem; {runs} runs, {draws} draws, k = {k}"
    )
    for field in dataclasses.fields(spent):
        seconds = getattr(spent, field.name)
        print(
            f"  {field.name:<12}{1000 * seconds / runs:8.3f} ms a run{seconds / spent.json:8.2f} × json.loads"
        )
    table.bar("reading / json.loads", spent.reading / spent.json, READING_RATIO_BAR, at_most=True)
    table.bar("reading + labelling + scoring / json.loads", total / spent.json, TIME_RATIO_BAR, at_most=True)
    ours = 1000 * (spent.labelling + spent.scoring) / runs
    table.bar("times faster than the released code", published.RELEASED_MS_A_RUN / ours, 25.0)
    half, few = timed(folders[::2])
    growth = ((total / runs) / ((half.reading + half.labelling + half.scoring) / few)) * (
        (half.json / few) / (spent.json / runs)
    )
    table.bar(f"cost a run at {runs} / at {few} runs", growth, LINEARITY_BAR, at_most=True)


def quality(table: Table, rows: Sequence[Row]) -> None:
    passed, numbers = bench_runs.outcomes(rows), bench_runs.problem_numbers(rows)
    print(f"\nAUROC against pass/fail, {len(rows)} runs (published {published.AUROC}; the released Eq. 1 ")
    print("  re-run: {:.3f} pooled, {:.3f} within)".format(*published.RELEASED_AUROC))
    names = list(TUNED.weights)
    signals = np.array([[r.signals[name] for name in names] for r in rows]) / 100.0
    start = np.array([fit_tuned.STARTS["tuned"][name] for name in names])
    scores = {
        "paper": np.array([r.scores["paper"] for r in rows]),
        "tuned": np.array([r.scores["tuned"] for r in rows]),
        "tuned, problem held out": fit_tuned.held_out_scores(signals, passed, numbers, start),
    }
    for name, values in scores.items():
        measured = statistics.discrimination(values, passed, numbers, seed=0)
        classified = statistics.held_out_classification(values, passed, numbers)
        if measured is None or classified is None:
            raise SystemExit("the folder needs passing and failing runs of at least two problems")
        bars = BARS[name.partition(",")[0]]
        for kind, got, bar in zip(
            ("pooled", "within"), (measured.pooled, measured.within), bars, strict=True
        ):
            table.bar(f"{name}, {kind} [{got.low:.3f} {got.high:.3f}]", got.value, bar)
        distance = statistics.kolmogorov_smirnov(values, passed) or (0.0, 1.0)
        print(
            f"    Youden's J, problem held out: accuracy {classified.accuracy:.3f}, F1 {classified.f1:.3f}, "
            f"KS {distance[0]:.3f}, p {distance[1]:.1e}"
        )
    for name in ("tuned", "tuned, problem held out"):
        differences = statistics.paired_difference(scores[name], scores["paper"], passed, numbers, seed=0)
        for kind, gain in zip(("pooled", "within"), differences, strict=True):
            table.bar(f"{name} − paper, {kind}, lower end (gain {gain.value:.3f})", gain.low, 0.0)
    print("\nSignals (pooled, within, p)")
    for name in sorted(rows[0].signals):
        one = statistics.discrimination(np.array([r.signals[name] for r in rows]), passed, numbers, seed=0)
        if one is not None:
            print(f"  {name:<8}{one.pooled.value:.3f}  {one.within.value:.3f}  {one.p:.1e}")


def tables(rows: Sequence[Row]) -> None:
    print("\nTiers: share of passes (first three) and of fails; published, paper, tuned")
    for tier, share in published.TIER_SHARES.items():
        outcome = "passed" if tier in ("ideal", "solid", "lucky") else "failed"
        of = [r for r in rows if r.outcome == outcome]
        ours = [sum(r.tiers[name] == tier for r in of) / len(of) for name in ("paper", "tuned")]
        print(f"  {tier:<17}{share:7.1%}{ours[0]:9.1%}{ours[1]:9.1%}")
    for profile in ("paper", "tuned"):
        print(f"\nModels under `{profile}`: pass rate, rank | quality, rank | Lucky; each published → ours")
        driven = [dataclasses.replace(r, profile=profile) for r in rows]
        for entry in cohort.models(driven, seed=0):
            old = published.MODELS.get(str(entry["model"]))
            if old is not None:
                print(
                    f"  {entry['model']:<16}{old[0]:6.1%} → {entry['pass_rate']:5.1%}  {old[1]} → "
                    f"{entry['rank_by_pass_rate']} |{old[2]:6.1f} → {quality_of(entry):4.1f}  {old[3]} → "
                    f"{entry['rank_by_quality']} |{old[4]:6.1%} → {entry['lucky_rate']:5.1%}"
                )
    print("\nWaste: share of passes, of fails | mean steps in passes, in fails; each published → ours")
    for category, old_waste in published.WASTE.items():
        cells = []
        for outcome in ("passed", "failed"):
            of = [r for r in rows if r.outcome == outcome]
            steps = [r.wasted[category] for r in of if r.wasted.get(category)]
            cells.append((len(steps) / len(of), sum(steps) / max(1, len(steps))))
        shares = "  ".join(f"{o:6.1%} → {c[0]:5.1%}" for o, c in zip(old_waste[:2], cells, strict=True))
        means = "  ".join(f"{o:5.1f} → {c[1]:4.1f}" for o, c in zip(old_waste[2:], cells, strict=True))
        print(f"  {category:<25}{shares} | {means}")
    lucky = [r for r in rows if r.tiers["paper"] == "lucky"]
    counts = {c: sum(r.mechanism == c for r in lucky) for c in published.MECHANISMS}
    print(
        f"\nMechanisms of {len(lucky)} Lucky runs under `paper`: {counts}\n"
        f"  published for 122: {dict(published.MECHANISMS)}"
    )


def quality_of(entry: Mapping[str, object]) -> float:
    """The mean score of a model's entry."""
    quality = entry["quality"]
    return float(quality["value"]) if isinstance(quality, dict) else float("nan")


def tool_only(states: Iterable[State]) -> tuple[State, ...]:
    """Labels by the tool alone, without any history: the naïve labeler of the ablation."""
    looking = {Operation.VIEW, Operation.LIST, Operation.SEARCH}
    editing = {Operation.CREATE, Operation.REPLACE, Operation.INSERT, Operation.UNDO, Operation.PATCH}
    of_group = {
        Group.WRITE: Intent.I,
        Group.TEST: Intent.V,
        Group.EXECUTE: Intent.V,
        Group.ENVIRONMENT: Intent.O,
    }

    def intent(state: State) -> Intent:
        if state.operation in looking:
            return Intent.E
        if state.operation in editing:
            return Intent.I
        if state.operation is Operation.SHELL and state.command is not None:
            return of_group.get(state.command.kind, Intent.E)
        return Intent.O

    return tuple(dataclasses.replace(state, intent=intent(state)) for state in states)


def ablations(folders: Sequence[Path], problems: Sequence[Sequence[Run]], rows: Sequence[Row]) -> None:
    print("\nAblations: paper pooled, within | tuned pooled, within")

    def line(name: str, of: Sequence[Row], score: Callable[[Row, str], float]) -> None:
        cells = [bench_runs.auroc(of, [score(r, p) for r in of]) for p in ("paper", "tuned")]
        print(f"  {name:<34}" + " | ".join(f"{pooled:.3f}  {within:.3f}" for pooled, within in cells))

    def stored(r: Row, profile: str) -> float:
        return r.scores[profile]

    line("as is", rows, stored)
    weights = {"paper": PAPER.weights, "tuned": TUNED.weights}
    for dropped in ("struct", "cov", "edit", "coh", "temp"):

        def without(r: Row, profile: str, dropped: str = dropped) -> float:
            return sum(w * r.signals[name] for name, w in weights[profile].items() if name != dropped)

        line(f"without {dropped}", rows, without)

    def edit_for_cov(r: Row, profile: str) -> float:
        return sum(w * r.signals["edit" if name == "cov" else name] for name, w in weights[profile].items())

    line("Φedit in Φcov's place", rows, edit_for_cov)
    line("labels by tool alone", bench_runs.rows(bench_runs.prepared(folders, tool_only)), stored)
    line("one draw", bench_runs.rows(problems, ScoringSettings(draws=1)), stored)
    for k in range(2, 11):
        line(f"k = {k}", bench_runs.rows(problems, ScoringSettings(donors=k)), stored)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ablations", action="store_true", help="also print what each part contributes")
    options = parser.parse_args(arguments)
    folders = bench_runs.problem_folders(options.folder)
    table = Table()
    speed(table, folders)
    problems = bench_runs.prepared(folders)
    rows = bench_runs.rows(problems)
    quality(table, rows)
    tables(rows)
    if options.ablations:
        ablations(folders, problems, rows)
    return 0 if table.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
