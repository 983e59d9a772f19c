"""`score`: how good the process of many runs was, here and now."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer
from rich.console import Console
from rich.markup import escape

from workers.cli.plain import plain
from workers.cli.stop import Stopped, stoppable
from workers.errors import InputError

if TYPE_CHECKING:
    from workers.agentlens.settings import ScoringSettings
    from workers.agentlens.tier import Tier
    from workers.cli.score_cohort import Progress, Request
    from workers.scoring.cohort import Cohort

EXIT_GATE = 1
EXIT_SKIPPED = 2
EXIT_CANCELLED = 4
# A slip of the finger must not compute for days.
_MOST_DRAWS = 1000
_FORMS = ("json", "html", "csv", "parquet")
_BINARY = ("html", "parquet")


def register(app: typer.Typer) -> None:
    app.command()(score)


def score(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="files or folders with trajectories")],
    labels: Annotated[
        Path | None,
        typer.Option(help="outcomes that win over those in the logs: JSON, JSONL, CSV or a grader's report"),
    ] = None,
    format_name: Annotated[
        str | None, typer.Option("--format", help="read every file as this format; default: find out")
    ] = None,
    profile: Annotated[
        str,
        typer.Option(help="paper or tuned: which score drives tiers, mechanisms, ranks, gates and export"),
    ] = "paper",
    donors: Annotated[int, typer.Option("--k", help="passing runs in one reference")] = 5,
    draws: Annotated[int, typer.Option(help="references drawn and averaged")] = 4,
    seed: Annotated[int, typer.Option(help="of the draws")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="everything, as one JSON object")] = False,
    as_html: Annotated[
        bool, typer.Option("--html", help="a report to look at, one self-contained file")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="one row a run")] = False,
    as_parquet: Annotated[bool, typer.Option("--parquet", help="one row a run, needs pyarrow")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="write to this file instead of standard output")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=256, help="processes; the result is the same")] = 1,
    fail_on: Annotated[
        str | None,
        typer.Option(metavar="TIERS", help="exit 1 if a run is of one of these tiers, for example lucky"),
    ] = None,
    min_score: Annotated[
        float | None, typer.Option(help="exit 1 if the score of a run is lower (0 to 100)")
    ] = None,
    export_sft: Annotated[
        str | None,
        typer.Option(
            metavar="TIERS", help="write the runs of these tiers to -o as training data, one a line"
        ),
    ] = None,
    remote: Annotated[
        bool,
        typer.Option("--remote", help="through the queue of a serving Consensus; the result is the same"),
    ] = False,
) -> int:
    """Score the process of agents' runs: how each got there, not only whether it passed.

    Runs of one problem are scored against references built from others of them that passed. Give many runs of
    a problem at once.

    Exit code: 0 fine; 1 a gate failed (--fail-on, --min-score); 2 some files were skipped; 3 usage, or
    nothing could be read; 4 somebody cancelled it (--remote); 129, 130 or 143 stopped by a signal. A failed gate
    comes before skipped files.
    """
    # The scorer's libraries take most of a second to load; `--help` must not wait for them.
    need("numpy", "scipy", extra="score", what="scoring")
    from workers.cli.score_cohort import Request
    from workers.cli.score_remote import CancelledScoringError

    if as_parquet:
        need("pyarrow", extra="parquet", what="--parquet")
    chosen = [name for name, on in zip(_FORMS, (as_json, as_html, as_csv, as_parquet), strict=True) if on]
    form = _form(chosen, output, is_export=export_sft is not None)
    settings = _settings(profile=profile, donors=donors, draws=draws, seed=seed)
    _check_format(format_name)
    gates = _tiers("--fail-on", fail_on)
    if min_score is not None and not 0 <= min_score <= 100:
        # Also what is no number at all: no score is ever under it, and the gate would let all pass.
        raise InputError(f"--min-score {min_score:g}: must be between 0 and 100")
    request = Request(
        paths=tuple(paths),
        labels=labels,
        format_name=format_name,
        settings=settings,
        keep=_tiers("--export-sft", export_sft),
        jobs=jobs,
        output=output,
    )
    say = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        with stoppable():
            if remote:
                cohort = _scored_remotely(request, form, output, is_export=export_sft is not None, say=say)
            else:
                cohort = _scored(request, form, output, is_export=export_sft is not None, say=say)
    except CancelledScoringError as error:
        say.print(f"{error}; no file was written", style="bold red")
        return EXIT_CANCELLED
    except Stopped as stop:
        say.print(f"stopped by {stop} before the end; no file was written", style="bold red")
        return stop.code
    return _exit_code(cohort, gates, min_score, say)


def _scored(
    request: Request, form: str | None, output: Path | None, *, is_export: bool, say: Console
) -> Cohort:
    """Score here and now, and write what was asked for."""
    from workers.cli.score_cohort import score_cohort
    from workers.scoring.page import write_html

    def make(spool: Path, progress: Progress) -> Cohort:
        return score_cohort(request, spool, progress)

    return _written(make, write_html, form, output, is_export=is_export, say=say)


def _scored_remotely(
    request: Request, form: str | None, output: Path | None, *, is_export: bool, say: Console
) -> Cohort:
    """Score through the queue, and write what was asked for."""
    from workers.cli.reach import connected
    from workers.cli.score_remote import RemoteScoring
    from workers.cli.scoring_client import ScoringClient
    from workers.settings import load

    key = load().api_key
    with connected(may_start=False) as known, ScoringClient(known.url, api_key=key) as client:
        remote = RemoteScoring(client, request)

        def write_page(_: Cohort, out: BinaryIO) -> None:
            remote.page(out)

        cohort = _written(remote.cohort, write_page, form, output, is_export=is_export, say=say)
    counts = remote.counts
    stale = (
        f", {counts['stale']:,} of these anew for a changed reference or version" if counts["stale"] else ""
    )
    say.print(
        f"[dim]{remote.scoring_id}: {counts['reused']:,} reused, {counts['computed']:,} computed{stale}[/]"
    )
    return cohort


def _written(
    make: Callable[[Path, Progress], Cohort],
    write_page: Callable[[Cohort, BinaryIO], None],
    form: str | None,
    output: Path | None,
    *,
    is_export: bool,
    say: Console,
) -> Cohort:
    from workers.cli.destination import destination
    from workers.cli.score_progress import shown

    with (
        destination(output) as out,
        tempfile.TemporaryDirectory(prefix="consensus-score-", ignore_cleanup_errors=True) as spool,
    ):
        with shown(Console(stderr=True)) as progress:
            cohort = make(Path(spool), progress)
        if is_export:
            _export(cohort, out, output, say)
        _report(cohort, form, None if is_export else out, write_page)
    if form is not None and output is not None and not is_export:
        say.print(f"[dim]{len(cohort.runs):,} runs scored, written to {escape(plain(str(output)))}[/]")
    if form is not None:
        _say_skipped(cohort, say)
    return cohort


def need(*libraries: str, extra: str, what: str) -> None:
    """Raise InputError with the command that installs what is missing."""
    missing = [name for name in libraries if find_spec(name) is None]
    if missing:
        raise InputError(f"{what} needs {' and '.join(missing)}: pip install 'consensus[{extra}]'")


def _form(chosen: list[str], output: Path | None, *, is_export: bool) -> str | None:
    """Which form the report takes; None for the table."""
    if len(chosen) > 1:
        raise InputError(f"{' and '.join(f'--{name}' for name in chosen)} exclude each other; choose one")
    if is_export:
        if output is None:
            raise InputError("--export-sft needs -o FILE, the file that the training data goes to")
    elif output is not None and not chosen:
        ending = output.suffix.lower().removeprefix(".")
        if ending == "parquet":
            need("pyarrow", extra="parquet", what="parquet")
        if ending not in _FORMS:
            raise InputError(f"-o {output}: name the form: {', '.join(f'--{name}' for name in _FORMS)}")
        return ending
    form = chosen[0] if chosen else None
    if form in _BINARY and (output is None or is_export) and Console().is_terminal:
        raise InputError(f"--{form} is not for a terminal; name a file with -o")
    return form


def _settings(*, profile: str, donors: int, draws: int, seed: int) -> ScoringSettings:
    from workers.agentlens.settings import ScoringSettings

    if profile not in ("paper", "tuned"):
        raise InputError(f"--profile {profile}: must be paper or tuned")
    if donors < 2:
        raise InputError(f"--k {donors}: a reference needs at least 2 passing runs")
    if draws < 1:
        raise InputError(f"--draws {draws}: at least 1 reference must be drawn")
    if draws > _MOST_DRAWS:
        raise InputError(f"--draws {draws}: at most {_MOST_DRAWS} references can be drawn")
    return ScoringSettings(profile=profile, donors=donors, draws=draws, seed=seed)


def _check_format(name: str | None) -> None:
    from workers.agentlens.formats import format_names

    known = format_names()
    if name is not None and name not in known:
        raise InputError(f"--format {name}: unknown; expected one of {', '.join(known)}")


def _tiers(option: str, names: str | None) -> frozenset[Tier]:
    from workers.agentlens.tier import Tier

    known = [tier.value for tier in Tier]
    found = [name.strip().lower().replace("-", "_") for name in (names or "").split(",") if name.strip()]
    if names is not None and (not found or set(found) - set(known)):
        raise InputError(f"{option} {names}: must name tiers, separated by commas: {', '.join(known)}")
    return frozenset(map(Tier, found))


def _report(
    cohort: Cohort,
    form: str | None,
    out: BinaryIO | None,
    write_page: Callable[[Cohort, BinaryIO], None],
) -> None:
    """Write the report in its form; `out` None stands for standard output beside an export."""
    from workers.cli.destination import destination
    from workers.scoring.forms import write_csv, write_json, write_parquet
    from workers.scoring.table import print_cohort

    if form is None:
        print_cohort(cohort, Console(highlight=False))
        return
    writers: dict[str, Callable[[Cohort, BinaryIO], None]] = {
        "json": write_json,
        "html": write_page,
        "csv": write_csv,
        "parquet": write_parquet,
    }
    if out is not None:
        writers[form](cohort, out)
    else:
        with destination(None) as standard:
            writers[form](cohort, standard)


def _export(cohort: Cohort, out: BinaryIO, output: Path | None, say: Console) -> None:
    from workers.scoring.forms import write_sft

    number = write_sft(cohort, out)
    say.print(f"[dim]{number:,} of {len(cohort.runs):,} runs exported to {escape(plain(str(output)))}[/]")


def _say_skipped(cohort: Cohort, say: Console) -> None:
    from workers.scoring.table import skipped

    if cohort.skipped:
        say.print(skipped(cohort), end="")


def _exit_code(cohort: Cohort, fail_on: frozenset[Tier], min_score: float | None, say: Console) -> int:
    counted = list(cohort.counted)
    caught = [run for run in counted if run.tier in fail_on]
    low = [run for run in counted if min_score is not None and run.score < min_score]
    names = " or ".join(sorted(tier.value for tier in fail_on))
    for runs, what in ((caught, f"{names} (--fail-on)"), (low, f"under {min_score} (--min-score)")):
        if runs:
            worst = min(runs, key=lambda run: (run.score, run.entry.path))
            say.print(
                f"[bold red]gate failed:[/] {len(runs):,} of {len(counted):,} runs {what}, "
                f"the lowest with {worst.score:.1f}: {escape(plain(worst.entry.path))}"
            )
    if caught or low:
        return EXIT_GATE
    return EXIT_SKIPPED if cohort.skipped else 0
