"""`provenance`: a run's record shown, verified, exported, redacted; heads anchored; keys made."""

from __future__ import annotations

import dataclasses
import datetime as dt
import getpass
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from workers.cli.destination import destination
from workers.cli.reach import connected
from workers.cli.run import AsJson, print_json
from workers.errors import InputError, NotFoundError
from workers.settings import Settings, load

if TYPE_CHECKING:
    from workers.provenance.check import Anchored, Report
    from workers.provenance.redaction import Redacted

RunId = Annotated[str, typer.Argument(metavar="RUN", help="a run's id")]
RunOrFile = Annotated[
    str, typer.Argument(metavar="RUN|FILE", help="a run's id, or a file that `export` wrote")
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="The record of a run: shown, verified, exported, redacted, anchored.", no_args_is_help=True
    )
    group.command()(show)
    group.command()(verify)
    group.command()(export)
    group.command()(redact)
    group.command()(anchor)
    group.command()(keys)
    group.command()(keygen)
    app.add_typer(group, name="provenance")


def show(run: RunOrFile, as_json: AsJson = False) -> int:
    """Print what a run's record holds: events, model calls, heads and signatures."""
    from workers.cli.inspect import table_console
    from workers.cli.provenance_view import print_record

    _, document = _record(run)
    if other := _fault_of_id(run, document):
        raise InputError(other)
    if as_json:
        print_json(document)
    else:
        print_record(document, table_console())
    return 0


def verify(
    run: RunOrFile,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="a public key (ed25519:…, or a file) that must have signed the end"),
    ] = None,
    anchor: Annotated[
        Path | None, typer.Option("--anchor", metavar="FILE", help="a file that `anchor` wrote")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check a run's record here, whatever its server says of it; a file needs no server and no database.

    Exit code: 0 it is what was written, 1 it was changed or cut off, 3 there is none or the input is refused.
    """
    from workers.provenance.check import examine_file

    named = _public_keys(key or [])
    trusted = named or load().trusted
    anchors = None if anchor is None else _read_anchors(anchor, trusted)
    try:
        raw, document = _record(run)
    except NotFoundError:
        said = [] if anchors is None else anchors.heads.get(run, [])
        if not said:
            raise
        report = _gone(said[-1])
    else:
        said = [] if anchors is None else anchors.heads.get(_run_id_of(document), [])
        report = examine_file(raw, document, trusted=trusted, must_be_trusted=bool(named), anchored=said)
        if other := _fault_of_id(run, document):
            report = dataclasses.replace(report, problems=(other, *report.problems))
    if anchors is not None:
        report = anchors.judged(report, is_named=bool(said))
    if as_json:
        print_json({"verified": not report.problems, **dataclasses.asdict(report)})
    else:
        _print_report(run, report)
    return 1 if report.problems else 0


def export(
    run: RunId,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="default: standard output")
    ] = None,
) -> int:
    """Write a run's whole record as one file that verifies anywhere."""
    from workers.provenance.export import read_file

    with connected(may_start=True) as client:
        raw = client.provenance_export(run)
    if other := _fault_of_id(run, read_file(raw, name=run)):
        raise InputError(other)
    with destination(output) as file:
        file.write(raw)
    return 0


def redact(
    run: RunId,
    why: Annotated[str, typer.Option(help="the reason; it stays in the ledger for everybody to read")],
    event: Annotated[list[int] | None, typer.Option(metavar="N", help="the payload of this event")] = None,
    call: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="prompt and reply of this call")
    ] = None,
    containing: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="whatever holds this text; - reads it from standard input"),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="everything but the team")] = False,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="also from other runs that hold the same payloads")
    ] = False,
    who: Annotated[str | None, typer.Option("--by", metavar="NAME", help="default: your login name")] = None,
) -> int:
    """Take payloads of an ended run away, for good. Digests stay, so the chain still verifies."""
    from workers.cli.database import opened
    from workers.provenance.redaction import Selection
    from workers.provenance.redaction import redact as take_away

    text = sys.stdin.read().strip("\n") if containing == "-" else containing
    selection = Selection(
        events=tuple(event or ()), calls=tuple(call or ()), containing=text or None, everything=everything
    )
    if selection == Selection():
        raise InputError("name what is to go: --event, --call, --containing or --all")
    settings, console = load(), Console(highlight=False, soft_wrap=True)
    name, now = who or getpass.getuser(), dt.datetime.now(dt.UTC)
    with opened(settings) as database:
        database.sign_with(settings.signer)
        with database.begin() as connection:
            gone = take_away(connection, run, selection, who=name, why=why, at=now)
        _print_redacted(run, gone, console)
        others = sorted({holder for held in gone.shared.values() for holder in held})
        for other in others if everywhere else ():
            same = Selection(digests=tuple(key for key, held in gone.shared.items() if other in held))
            with database.begin() as connection:
                also = take_away(connection, other, same, who=name, why=why, at=now)
            _print_redacted(other, also, console)
    if others and not everywhere:
        console.print(
            f"[yellow]note:[/] {len(gone.shared)} of them stay in the database, because {len(others)} other "
            f"run(s) hold the same: {', '.join(others[:5])}; --everywhere takes them from those as well"
        )
    return 0


def anchor(
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="append the new lines to this file")
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="send them there, signed as webhooks are")
    ] = None,
    since: Annotated[
        int | None, typer.Option("--from", min=1, metavar="N", help="send again from this anchor on")
    ] = None,
) -> int:
    """Export the heads of all ledgers that ended or grew since the last anchor: to a file that only grows, to a URL, or
    to standard output. Keep them where the database's owner cannot change them."""
    from workers.cli.database import opened
    from workers.provenance import anchor as anchoring

    settings = load()
    if url is not None:
        _check_receiver(settings, url)
    with opened(settings) as database:
        last = _last_number(database, file)
        heads = 0
        with database.begin() as connection:
            newest = anchoring.newest(connection)
        while True:
            with database.begin() as connection:
                made = anchoring.make(connection, signer=settings.signer, at=dt.datetime.now(dt.UTC))
            if not made:
                break
            heads += made
        after = last if file is not None else newest
        with database.begin() as connection:
            lines = anchoring.bodies_after(connection, after)
            to_tell = anchoring.bodies_after(connection, newest if since is None else since - 1)
    if file is not None:
        from workers.cli.anchor_file import append

        append(file, [body for _, body in lines])
    elif url is None:
        for _, body in lines:
            sys.stdout.write(body.decode() + "\n")
    if url is not None:
        _tell(settings, url, to_tell)
    signed = "" if settings.signer else ", [yellow]unsigned[/]: CONSENSUS_SIGNING_KEY is not set"
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"anchored {heads} heads{signed}")
    return 0


def keys() -> int:
    """Print the public keys of this installation: whoever verifies its exports needs one of them."""
    from workers.provenance.signing import public_text

    signer = load().signer
    if signer is None:
        raise InputError("CONSENSUS_SIGNING_KEY is not set; make a key with `consensus provenance keygen`")
    for name, public in signer.trusted.items():
        use = "signs" if name == signer.key_id else "verifies"
        Console(highlight=False, soft_wrap=True).print(f"{public_text(public)}  {name}  {use}")
    return 0


def keygen(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="a file that is not there yet")
    ],
) -> int:
    """Make an Ed25519 key: the private half goes to a file that only you can read, the public half is printed."""
    from workers.provenance.signing import key_id, new_private_key, public_text

    pem, public = new_private_key()
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InputError(f"-o {output}: cannot be made: {error.strerror}; give a name that is free") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(pem)
    Console(highlight=False, soft_wrap=True).print(
        f"{public_text(public)}  {key_id(public)}\nset CONSENSUS_SIGNING_KEY_FILE={output} for API and workers"
    )
    return 0


def _record(run: str) -> tuple[bytes, dict[str, Any]]:
    """The record of a file, or of a run by its id."""
    from workers.provenance.export import read_file

    path = Path(run)
    if path.is_file():
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        return raw, read_file(raw, name=run)
    if path.suffix or len(path.parts) > 1:
        raise InputError(f"{run}: no such file; give a run's id, or a file that `export` wrote")
    with connected(may_start=True) as client:
        raw = client.provenance_export(run)
    return raw, read_file(raw, name=run)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Anchors:
    """A file of anchors: what it says of each run, and what is wrong with the file itself."""

    path: Path
    heads: dict[str, list[Anchored]]
    fault: str | None

    def judged(self, report: Report, *, is_named: bool) -> Report:
        """The report, with what the file adds to it."""
        notes, problems = report.notes, report.problems
        if not is_named:
            note = "no anchor in that file names this run: it is younger than the last one, or of elsewhere"
            notes = (*notes, note)
        if self.fault is not None:
            problems = (f"{self.path}: {self.fault}", *problems)
        return dataclasses.replace(report, notes=notes, problems=problems)


def _read_anchors(path: Path, trusted: dict[str, bytes]) -> _Anchors:
    from workers.cli.anchor_file import anchors_in
    from workers.provenance.anchor import fault_in, heads_of

    lines = anchors_in(path)
    if not lines:
        raise InputError(f"--anchor {path}: holds no anchor; `consensus provenance anchor` writes one")
    return _Anchors(path=path, heads=heads_of(lines), fault=fault_in(lines, trusted=trusted))


def _gone(last: Anchored) -> Report:
    from workers.provenance.check import Report

    sentence = f"the run is gone: anchor {last.number} of {last.at} has its ledger with {last.seq} events"
    return Report(problems=(sentence,))


def _run_id_of(document: dict[str, Any]) -> str:
    facts = document.get("run")
    return str(facts.get("run_id")) if isinstance(facts, dict) else ""


def _fault_of_id(run: str, document: dict[str, Any]) -> str | None:
    """Why a record is not of the run that was asked for: a server may hand out another's, which is whole and signed.
    A file is what it says it is."""
    found = _run_id_of(document)
    if Path(run).is_file() or found == run:
        return None
    return f"the server gave the record of run {found[:80]!r} for {run}"


def _public_keys(named: list[str]) -> dict[str, bytes]:
    from workers.provenance.signing import read_public_keys

    found: dict[str, bytes] = {}
    for name in named:
        try:
            words = Path(name).read_text(encoding="utf-8") if Path(name).is_file() else name
            found |= read_public_keys(words)
        except (InputError, OSError, UnicodeDecodeError) as error:
            raise InputError(f"--key {name[:80]}: {error}") from None
    return found


def _print_report(run: str, report: Report) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for problem in report.problems[:20]:
        console.print(f"[bold red]broken[/] {escape(problem)}")
    if not report.problems:
        signed = f", signed by {', '.join(report.signed_by)}" if report.signed_by else ", [yellow]unsigned[/]"
        console.print(f"[green]holds[/] {escape(run)}: {report.events} events{signed}")
    for note in report.notes:
        console.print(f"[yellow]note:[/] {escape(note)}")


def _print_redacted(run: str, gone: Redacted, console: Console) -> None:
    count = len(gone.calls) + gone.beside
    beside = f" and {count} texts beside them" if count else ""
    console.print(
        f"[green]redacted[/] {len(gone.digests)} payloads{beside} of {escape(run)}; its ledger says so"
    )


def _check_receiver(settings: Settings, url: str) -> None:
    from workers.webhooks.policy import WebhookPolicy

    policy = WebhookPolicy(
        has_secret=bool(settings.webhook_keys), allow_private=settings.webhook_allow_private
    )
    policy.check(url, "--url")


def _last_number(database: Any, file: Path | None) -> int:
    """The number of a file's last anchor. Raises: InputError for a file that does not belong to this database."""
    from workers.cli.anchor_file import anchors_in
    from workers.provenance import anchor as anchoring

    lines = [] if file is None else anchors_in(file)
    if not lines:
        return 0
    with database.begin() as connection:
        known = anchoring.body_of(connection, lines[-1].number)
    if known != lines[-1].body:
        raise InputError(
            f"--file {file}: its last anchor, {lines[-1].number}, is not in this database: the database is another, "
            "was set back or was rewritten; keep the file, and begin another one"
        )
    return lines[-1].number


def _tell(settings: Settings, url: str, lines: list[tuple[int, bytes]]) -> None:
    from workers.webhooks.anchors import tell

    if not lines:
        return
    arrived, answer = tell(
        url,
        settings.webhook_keys,
        lines,
        allow_private=settings.webhook_allow_private,
        now_epoch_seconds=dt.datetime.now(dt.UTC).timestamp(),
    )
    if arrived < len(lines):
        raise InputError(
            f"--url: anchor {lines[arrived][0]} did not arrive ({answer.problem}); it is made, so send it again with "
            f"--from {lines[arrived][0]}"
        )
