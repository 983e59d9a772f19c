"""Commands for the cage: build its image, try it, run something in it by hand, tidy up."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from workers import log
from workers.sandbox import recipe
from workers.sandbox.base import CageResult, Ending, Limits, Unprovable
from workers.sandbox.docker import DockerCage
from workers.sandbox.engine import connector
from workers.sandbox.workspace import from_folder
from workers.settings import Settings, environment, load

#: What timeout(1) answers, and a shell for a killed program.
_EXIT_TIMED_OUT, _EXIT_KILLED = 124, 137
_EXIT_NO_CAGE = 3


def register(app: typer.Typer) -> None:
    sandbox = typer.Typer(help="The cage for generated code: build, check, run, sweep.", no_args_is_help=True)
    sandbox.command(name="build")(build)
    sandbox.command(name="check")(check)
    sandbox.command(name="run")(run)
    sandbox.command(name="sweep")(sweep)
    app.add_typer(sandbox, name="sandbox")


def open_cage(settings: Settings) -> DockerCage:
    """The cage of these settings. Connects when it is first used."""
    return DockerCage(
        connector(settings.docker_host, environment()), image=settings.cage_image, parallel=settings.cages
    )


def build(
    base: Annotated[
        str | None, typer.Option(help="image with Python and pip to start from, instead of the public one")
    ] = None,
    network: Annotated[
        str | None, typer.Option(help="network during the build; `none` when the base brings the wheels")
    ] = None,
) -> int:
    """Build the image that generated code runs in."""
    settings = load()
    console = Console(highlight=False, soft_wrap=True)
    name = recipe.build(
        connector(settings.docker_host, environment()),
        base=base,
        network=network,
        say=lambda line: console.print(f"[dim]{escape(line)}[/]"),
    )
    console.print(f"[green]built[/] {name}")
    return 0


def check() -> int:
    """Look around inside a cage and say whether it holds. Exit 0 when it does, 3 otherwise."""
    log.configure("ERROR", as_json=False)
    cage = open_cage(load())
    try:
        refused = cage.check()
    finally:
        cage.close()
    console = Console(highlight=False, soft_wrap=True)
    if refused is not None:
        console.print(f"[bold red]missing[/] {escape(refused.sentence)}")
        return _EXIT_NO_CAGE
    console.print(f"[green]ok[/] a program in {cage.image} is confined")
    return 0


def run(
    command: Annotated[list[str], typer.Argument(help="program and arguments, after `--`")],
    code: Annotated[Path | None, typer.Option(help="folder that the program sees, read-only")] = None,
    timeout: Annotated[float, typer.Option(help="seconds until it is killed")] = 10.0,
) -> int:
    """Run a program in the cage. Its output and exit code are ours; 124 when it was killed for its time."""
    log.configure("ERROR", as_json=False)
    limits = Limits(timeout_seconds=timeout)
    cage = open_cage(load())
    try:
        result = cage.run(from_folder(code) if code else {}, command, limits)
    finally:
        cage.close()
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if isinstance(result, Unprovable):
        console.print(f"[bold red]consensus:[/] {escape(result.sentence)}")
        return _EXIT_NO_CAGE
    sys.stdout.write(result.stdout.text)
    sys.stderr.write(result.stderr.text)
    return _exit_code(result, console)


def _exit_code(result: CageResult, console: Console) -> int:
    for name, output in (("standard output", result.stdout), ("standard error", result.stderr)):
        if output.truncated:
            console.print(f"[dim]{name}: the last {len(output.tail)} of {output.size_bytes} bytes[/]")
    if result.ending is Ending.EXITED:
        return result.exit_code
    console.print(f"[yellow]{result.ending.value.replace('_', ' ')}[/] after {result.duration_seconds:.1f} s")
    return _EXIT_TIMED_OUT if result.timed_out else _EXIT_KILLED


def sweep() -> int:
    """Remove what killed workers left in the engine."""
    log.configure("ERROR", as_json=False)
    cage = open_cage(load())
    try:
        swept = cage.sweep()
    finally:
        cage.close()
    Console(highlight=False).print(f"removed {swept.containers} containers and {swept.volumes} volumes")
    return 0
