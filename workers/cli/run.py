"""`run`: one spec, from submission to verdict."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax

from workers.cli.client import Client
from workers.cli.code import read_alarms, read_code, read_tests
from workers.cli.follow import follow_one
from workers.cli.money import usage_line
from workers.cli.reach import connected
from workers.cli.verdict_panel import verdict_panel
from workers.cli.view import RunView, clean
from workers.core.budget import MOST_BUDGET_TOKENS, MOST_USD
from workers.core.submission import MAX_SPEC_BYTES, decode_spec
from workers.errors import InputError

#: DESIGN §7.
EXIT_CODES = {"accepted": 0, "rejected": 1, "degraded": 2, "cancelled": 4}

#: The spec of a run that was given alarms and no spec of its own.
TRIAGE_SPEC = "Judge every alarm of the scanner on the code: a weakness that can do harm, or a false alarm?"

AsJson = Annotated[bool, typer.Option("--json", help="print the result as one JSON object, nothing else")]


def register(app: typer.Typer) -> None:
    app.command()(run)


def run(
    spec: Annotated[
        str | None,
        typer.Argument(help="a file with the spec, or - for standard input; optional with --sarif"),
    ] = None,
    team: Annotated[
        str | None, typer.Option(help="which team works on it; default: consensus, with --sarif sast-triage")
    ] = None,
    code: Annotated[
        Path | None,
        typer.Option(help="existing code to review: a folder, a file, a unified diff, or - for a diff"),
    ] = None,
    tests: Annotated[
        Path | None,
        typer.Option(
            help="existing pytest tests, a file or a folder; a team that runs tests keeps them green"
        ),
    ] = None,
    sarif: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="a scanner's alarms about --code (SARIF 2.1.0), to judge one by one"
        ),
    ] = None,
    budget_usd: Annotated[
        float | None, typer.Option(metavar="USD", help="spend no more than this, retries included")
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="use no more tokens than this, in and out together")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="only say what it will cost; nothing is sent")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Submit one spec, follow it live, print the verdict.

    Exit code: 0 accepted (or a dry run), 1 rejected, 2 degraded, 3 usage or refused input, 4 cancelled.
    """
    if spec is None and sarif is None:
        raise InputError("Missing argument 'SPEC'; give a file with the spec, or -")
    body: dict[str, Any] = {
        "spec": TRIAGE_SPEC if spec is None else read_spec(spec),
        "team": team or ("sast-triage" if sarif else "consensus"),
        **budget_fields(budget_usd, budget_tokens),
    }
    if code is not None:
        if spec == str(code) == "-":
            raise InputError("SPEC and --code are both -; only one of them can come from standard input")
        body |= read_code(code)
    if tests is not None:
        body["tests"] = read_tests(tests)
    if sarif is not None:
        if code is None:
            raise InputError(f"--sarif {sarif}: give with --code the code that the alarms are about")
        body["sarif"] = read_alarms(sarif, body)
    if dry_run:
        return _dry_run(body, as_json=as_json)
    console = Console(stderr=as_json, highlight=False)
    with connected(may_start=True) as client:
        created = client.create_run(body)
        view = RunView(title=clean(_title(body["spec"])), run_id=created["id"])
        try:
            follow_one(client, view, console)
        except KeyboardInterrupt:
            with contextlib.suppress(KeyboardInterrupt):
                _cancel_on_interrupt(client, created["id"], console)
                follow_one(client, view, console)
        detail = client.run(created["id"])
    if as_json:
        print_json(detail)
    else:
        print_verdict(view, detail, console)
    return EXIT_CODES.get(detail["outcome"] or detail["state"], 2)


def budget_fields(usd: float | None, tokens: int | None) -> dict[str, Any]:
    """The budget's fields of a request body. Raises: InputError."""
    # Rounded to what a budget is counted in: a smaller one would be none.
    rounded = None if usd is None else round(usd, 6)
    if rounded is not None and not 0 < rounded <= MOST_USD:
        raise InputError(
            f"--budget-usd is {usd:g}; give US dollars from 0.000001 to {MOST_USD:,}, for instance 0.50"
        )
    if tokens is not None and not 0 < tokens <= MOST_BUDGET_TOKENS:
        raise InputError(
            f"--budget-tokens is {tokens}; give from 1 to {MOST_BUDGET_TOKENS} tokens, for instance 50000"
        )
    fields = {"budget_usd": rounded, "budget_tokens": tokens}
    return {name: value for name, value in fields.items() if value is not None}


def _dry_run(body: dict[str, Any], *, as_json: bool) -> int:
    from workers.cli.dry_run import estimated, print_estimate

    estimate = estimated(body)
    if as_json:
        print_json(estimate)
    else:
        print_estimate(estimate, Console(highlight=False))
    return 0


def _cancel_on_interrupt(client: Client, run_id: str, console: Console) -> None:
    console.print("[dim]cancelling the run …[/]")
    client.cancel(run_id)


def read_spec(place: str) -> str:
    """The text of a spec file or of standard input. Raises: InputError."""
    if place == "-":
        return decode_spec(sys.stdin.buffer.read(MAX_SPEC_BYTES + 1))
    try:
        with Path(place).open("rb") as source:
            return decode_spec(source.read(MAX_SPEC_BYTES + 1))
    except OSError as error:
        raise InputError(
            f"{place}: cannot be read: {error.strerror}; give a text file with the spec, or -"
        ) from None


def print_json(value: object) -> None:
    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


def _title(spec: str) -> str:
    first = next((line.strip("# \t") for line in spec.splitlines() if line.strip("# \t")), "spec")
    return first if len(first) <= 60 else first[:59] + "…"


def _files_to_print(verdict: dict[str, Any]) -> list[tuple[str, str]]:
    """The code that the run wrote: of a folder under review only what the lead changed."""
    files = verdict["files"]
    changed = verdict["changed_files"] if "code_submitted" in verdict.get("notes", ()) else files
    return [(path, files[path]) for path in changed]


def print_code(path: str, text: str, console: Console) -> None:
    """Line for line as it is: a terminal folds by itself, and what is copied or piped must still run."""
    if not console.is_terminal:
        console.file.write(text if text.endswith("\n") else f"{text}\n")
        return
    lexer = Syntax.guess_lexer(path, text)
    syntax = Syntax(text, lexer, theme="ansi_dark", background_color="default")
    console.print(syntax.highlight(text), soft_wrap=True)


def print_verdict(view: RunView, detail: dict[str, Any], console: Console) -> None:
    """What a run that has ended came to: its code, its claims, what it used."""
    verdict = clean(detail["verdict"]) or {"files": {}}
    for path, text in _files_to_print(verdict):
        console.rule(escape(path), style="dim", align="left")
        print_code(path, text, console)
    console.print(verdict_panel(view))
    simulated = " · [magenta]simulated[/]" if detail["simulated"] else ""
    console.print(f"[dim]{usage_line(detail)}[/]{simulated}")
