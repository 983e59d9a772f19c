"""Commands that look closely: one run's steps and labels, two runs side by side, a problem's reference."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from workers.cli.agreement import agreement, sample
from workers.cli.plain import plain
from workers.cli.score import need
from workers.errors import InputError

if TYPE_CHECKING:
    from workers.agentlens.assess import Run
    from workers.agentlens.comparison import Comparison
    from workers.agentlens.trajectory import State

EXIT_SKIPPED = 2
FormatName = Annotated[str | None, typer.Option("--format", help="read as this format; default: find out")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, nothing else")]
_PROBLEMS_SHOWN = 5


def register(app: typer.Typer) -> None:
    trajectories = typer.Typer(help="Trajectories: inspect, compare, rate by hand.", no_args_is_help=True)
    trajectories.command()(inspect)
    trajectories.command()(compare)
    trajectories.command()(sample)
    trajectories.command()(agreement)
    app.add_typer(trajectories, name="trajectories")
    reference = typer.Typer(help="References of problems.", no_args_is_help=True)
    reference.command()(build)
    # A group of one command would otherwise swallow the command's name.
    reference.callback()(lambda: None)
    app.add_typer(reference, name="reference")


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a file with one or more runs")],
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> int:
    """Show how a file is understood: every step with its intent and the rule that gave it.

    Exit code: 0 fine, 2 some files of a folder were skipped, 3 usage, or nothing could be read."""
    need("numpy", "scipy", extra="score", what="scoring")
    from workers.agentlens.report import as_json as plain_values

    console = Console(highlight=False)
    runs, skipped = _readable(file, format_name)
    if as_json:
        document = {"runs": [plain_values(_described(run)) for run in runs], "skipped": skipped}
        _print_json(document)
    else:
        for run in runs:
            _print_run(run, console)
        for error in skipped:
            Console(stderr=True, soft_wrap=True).print(Text(plain(f"skipped: {error}"), "yellow"))
    return EXIT_SKIPPED if skipped else 0


def compare(
    left: Annotated[Path, typer.Argument(metavar="A", help="a file with one run")],
    right: Annotated[Path, typer.Argument(metavar="B", help="a file with another run")],
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> int:
    """Show two runs side by side: which steps they share, and where each goes its own way."""
    need("numpy", "scipy", extra="score", what="scoring")
    from workers.agentlens.comparison import compare as compare_traces
    from workers.agentlens.report import as_json as plain_values

    runs = [_single(left, format_name), _single(right, format_name)]
    found = compare_traces(runs[0].trace, runs[1].trace)
    if as_json:
        described = [
            {"trajectory_id": run.trajectory.trajectory_id, "steps": len(run.trajectory.states)}
            for run in runs
        ]
        _print_json({"a": described[0], "b": described[1], **_as_object(plain_values(found))})
        return 0
    _print_comparison(runs, found, Console(highlight=False))
    return 0


def build(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="runs of one problem")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="write to this file instead of standard output")
    ] = None,
    problem: Annotated[str | None, typer.Option(help="which problem, if DIR holds several")] = None,
    labels: Annotated[Path | None, typer.Option(help="outcomes that win over those in the logs")] = None,
    format_name: FormatName = None,
    donors: Annotated[int, typer.Option("--k", help="how many passing runs to draw")] = 5,
    seed: Annotated[int, typer.Option(help="of the draw")] = 0,
) -> int:
    """Build the reference of a problem from its passing runs and write it as JSON.

    Exit code: 0 fine, 2 some files were skipped, 3 usage, or fewer than 2 different passing runs."""
    need("numpy", "scipy", extra="score", what="scoring")
    from workers.agentlens.reference import Reference, distinct, draw, lots
    from workers.agentlens.report import reference_document, to_bytes
    from workers.agentlens.settings import ScoringSettings
    from workers.cli.destination import destination

    if donors < 2:
        raise InputError(f"--k {donors}: a reference needs at least 2 passing runs")
    settings = ScoringSettings(donors=donors, seed=seed)
    say = Console(stderr=True, highlight=False, soft_wrap=True)
    with destination(output) as out:
        runs, skipped = _passing(folder, problem, labels, format_name, output)
        usable = distinct(run.donor for run in runs)
        if len(usable) < 2:
            raise InputError(
                f"{folder}: {len(usable)} different passing runs{f' of {problem}' if problem else ''}; "
                "a reference needs at least 2"
            )
        tree = Reference.build(draw(lots(usable, number=0, seed=seed), count=donors), settings)
        document = {"problem": runs[0].trajectory.problem, **reference_document(tree, settings)}
        out.write(to_bytes(document) + b"\n")
    for error in skipped:
        say.print(Text(plain(f"skipped: {error}"), "yellow"))
    if output is not None:
        say.print(Text(f"{len(tree)} steps of {len(tree.donors)} runs, written to {output}", "dim"))
    return EXIT_SKIPPED if skipped else 0


def _runs(
    path: Path, format_name: str | None, labels: Path | None = None, output: Path | None = None
) -> Iterator[Run | str]:
    """The runs below a path, labelled; the sentence instead for what cannot be read."""
    from workers.agentlens.assess import prepare
    from workers.agentlens.intents import label
    from workers.cli.score_cohort import find_files
    from workers.trajectories import Skipped, load_labels

    outcomes = None if labels is None else load_labels(labels)
    files, unopened = find_files([path], format_name=format_name, output=output, labels=labels)
    for item in itertools.chain(unopened, *(file.runs(outcomes) for file in files)):
        if isinstance(item, Skipped):
            yield item.error
        else:
            yield prepare(dataclasses.replace(item, states=label(item.states)))


def _readable(path: Path, format_name: str | None) -> tuple[list[Run], list[str]]:
    found = list(_runs(path, format_name))
    errors = [item for item in found if isinstance(item, str)]
    runs = [item for item in found if not isinstance(item, str)]
    if not runs:
        raise InputError(errors[0] if errors else f"{path}: holds no run")
    return runs, errors


def _single(path: Path, format_name: str | None) -> Run:
    runs, errors = _readable(path, format_name)
    if errors:
        raise InputError(errors[0])
    if len(runs) > 1:
        raise InputError(f"{path}: holds {len(runs)} runs; give files with one run each")
    return runs[0]


def _passing(
    folder: Path, problem: str | None, labels: Path | None, format_name: str | None, output: Path | None
) -> tuple[list[Run], list[str]]:
    """The passing runs of the problem, or of the only one there is. Runs that name none count as of one."""
    by_problem: dict[str | None, list[Run]] = {}
    skipped: list[str] = []
    for item in _runs(folder, format_name, labels, output):
        if isinstance(item, str):
            skipped.append(item)
        elif problem is None or item.trajectory.problem == problem:
            of = by_problem.setdefault(item.trajectory.problem, [])
            if item.trajectory.outcome == "passed":
                of.append(item)
            if len(by_problem) > _PROBLEMS_SHOWN:
                break
    if len(by_problem) > 1:
        names = sorted(name for name in by_problem if name is not None)
        listed = (
            ", ".join(names) if len(names) <= _PROBLEMS_SHOWN else f"{', '.join(names[:_PROBLEMS_SHOWN])}, …"
        )
        raise InputError(f"{folder}: holds runs of several problems; name one with --problem: {listed}")
    if not by_problem:
        named = f"of problem {problem} " if problem is not None else ""
        raise InputError(f"{folder}: no run {named}could be read" + (f": {skipped[0]}" if skipped else ""))
    return next(iter(by_problem.values())), skipped


def _described(run: Run) -> dict[str, Any]:
    from workers.scoring.pictures import action, compared_as

    trajectory = run.trajectory
    return {
        "trajectory_id": trajectory.trajectory_id,
        "path": trajectory.path,
        "format": trajectory.format,
        "problem": trajectory.problem,
        "model": trajectory.model,
        "outcome": trajectory.outcome,
        "blind_signals": trajectory.blind_signals,
        "warnings": trajectory.warnings,
        "states": [
            {
                "index": state.index,
                "intent": state.intent,
                "rule": state.rule,
                "tool": state.tool,
                "operation": state.operation,
                "path": state.path,
                "lines": state.lines,
                "scope": state.scope,
                "action": action(state),
                "compared_as": compared_as(state) or None,
                "outcome": state.outcome,
                "exit_code": state.exit_code,
            }
            for state in trajectory.states
        ],
        "waste": run.findings,
    }


def _print_run(run: Run, console: Console) -> None:
    from workers.scoring.table import INTENT_STYLE

    trajectory = run.trajectory
    counts = ", ".join(f"{sum(i.value == letter for i in run.trace.intents)} {letter}" for letter in "EIVO")
    console.print(Text(plain(trajectory.trajectory_id), "bold"))
    facts = [
        trajectory.format,
        f"problem {trajectory.problem or 'unknown'}",
        trajectory.model or "unknown model",
    ]
    facts += [trajectory.outcome, f"{len(trajectory.states)} steps: {counts}"]
    console.print(Text(plain(" · ".join(facts)), "dim"))
    wasted = {step: finding.category for finding in reversed(run.findings) for step in finding.steps}
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("step", justify="right", no_wrap=True, min_width=4)
    table.add_column("", no_wrap=True, min_width=1)
    table.add_column("rule", justify="right", no_wrap=True, min_width=4)
    table.add_column("what", ratio=1, overflow="ellipsis", no_wrap=True)
    table.add_column("ended", no_wrap=True, min_width=7)
    table.add_column("waste", no_wrap=True, min_width=max(map(len, wasted.values()), default=0))
    for position, state in enumerate(trajectory.states):
        intent = "" if state.intent is None else state.intent.value
        table.add_row(
            str(state.index),
            Text(intent, INTENT_STYLE[intent]),
            str(state.rule),
            Text(_what(state)),
            state.outcome,
            Text(wasted.get(position, "").replace("_", " "), "red"),
        )
    console.print(table)
    if trajectory.blind_signals:
        console.print(Text(f"this format has no {', no '.join(trajectory.blind_signals)}", "yellow"))
    for warning in trajectory.warnings:
        console.print(Text(plain(warning), "yellow"))
    console.print()


def _what(state: State) -> str:
    from workers.scoring.pictures import action

    return action(state)


def _print_comparison(runs: Sequence[Run], found: Comparison, console: Console) -> None:
    from workers.scoring.table import INTENT_STYLE

    table = Table(box=None, pad_edge=False, expand=True)
    for number, run in enumerate(runs):
        table.add_column("", justify="right", no_wrap=True)
        table.add_column(
            Text(plain(run.trajectory.trajectory_id)), ratio=1, overflow="ellipsis", no_wrap=True
        )
        if number == 0:
            table.add_column("same", justify="center", no_wrap=True)
    for left, sure, right in _aligned(runs, found):
        cells = []
        for state in (left, right):
            style = "" if state is None or state.intent is None else INTENT_STYLE[state.intent.value]
            if sure is None and state is not None:
                style = f"{style} bold"
            cells.append(Text("" if state is None else str(state.index), "dim"))
            cells.append(Text("" if state is None else _what(state), style))
        table.add_row(cells[0], cells[1], "" if sure is None else f"{sure:.2f}", cells[2], cells[3])
    console.print(table)
    edit = "neither changed a line" if found.edit_agreement is None else f"{100 * found.edit_agreement:.0f} %"
    console.print(
        f"\n{len(found.pairs)} steps in common, in order; {100 * found.shared_left:.0f} % of A's steps are in B, "
        f"{100 * found.shared_right:.0f} % of B's in A; agreement of the edit regions: {edit}"
    )
    if found.is_same:
        console.print("[yellow]the two did exactly the same; in a reference they count as one run[/]")


def _aligned(
    runs: Sequence[Run], found: Comparison
) -> Iterator[tuple[State | None, float | None, State | None]]:
    """Rows: first what A does alone, then what B does alone, then the step they share."""
    left, right = (run.trajectory.states for run in runs)
    i = j = 0
    for pair in found.pairs:
        yield from ((state, None, None) for state in left[i : pair.left])
        yield from ((None, None, state) for state in right[j : pair.right])
        yield left[pair.left], pair.confidence, right[pair.right]
        i, j = pair.left + 1, pair.right + 1
    yield from ((state, None, None) for state in left[i:])
    yield from ((None, None, state) for state in right[j:])


def _as_object(value: object) -> dict[str, Any]:
    assert isinstance(value, dict)  # noqa: S101 - for the type checker
    return value


def _print_json(document: dict[str, Any]) -> None:
    from workers.agentlens.report import to_bytes

    sys.stdout.buffer.write(to_bytes(document) + b"\n")
    sys.stdout.buffer.flush()
