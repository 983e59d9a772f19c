"""The `consensus` command. Each family of commands has a module; every error becomes one sentence."""

from __future__ import annotations

import errno
import io
import sys

import typer
from rich.console import Console
from rich.markup import escape

from workers import settings
from workers.cli import (
    backup,
    demo,
    flower,
    inspect,
    keys,
    limits,
    provenance,
    prune,
    replay,
    results,
    run,
    sandbox,
    score,
    serve,
    simulate,
    status,
    submit,
    trajectories,
)
from workers.cli.plain import plain
from workers.errors import ConsensusError
from workers.key_text import hide_keys

#: Usage or refused input (DESIGN §7).
EXIT_REFUSED = 3
#: What a shell reports of a process that wrote to a closed pipe (128 + SIGPIPE).
EXIT_PIPE_CLOSED = 141
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

app = typer.Typer(
    name="consensus",
    help="A distributed job queue for work that several language models do together.",
    no_args_is_help=True,
    add_completion=False,
    # A paragraph of a docstring is broken where the terminal ends, not where the source line does.
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
run.register(app)
submit.register(app)
status.register(app)
inspect.register(app)
limits.register(app)
keys.register(app)
results.register(app)
score.register(app)
trajectories.register(app)
serve.register(app)
flower.register(app)
simulate.register(app)
demo.register(app)
sandbox.register(app)
replay.register(app)
provenance.register(app)
backup.register(app)
prune.register(app)


def main() -> None:
    """Run the command line and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal or pipe that knows few characters gets a mark for the others.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(execute())


def execute(arguments: list[str] | None = None) -> int:
    """The exit code of a command line. No error of ours, of the input or of the terminal ends in a traceback."""
    try:
        code = app(args=arguments, standalone_mode=False)
    except ConsensusError as error:
        return _refuse(str(error))
    except typer.TyperException as error:
        # No such command, a missing argument: their own sentence, with what would be right.
        sentence = getattr(error, "format_message", error.__str__)
        return _refuse(sentence().replace("Value error, ", ""))
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except (BrokenPipeError, SystemExit):
        # The reader of our output went away (`| head`): rich leaves by SystemExit then. Say nothing more.
        return EXIT_PIPE_CLOSED
    except Exception as error:
        if settings.load().log_level.upper() == "DEBUG":
            raise
        return _refuse(_unexpected(error))
    return code if isinstance(code, int) else 0


def _unexpected(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        return f"{error.strerror}: the rest could not be written; make room and run it again"
    return (
        f"unexpected {type(error).__name__}: {str(error)[:300]}; "
        "CONSENSUS_LOG_LEVEL=DEBUG shows where, please report it"
    )


def _refuse(message: str) -> int:
    # A sentence may quote what others wrote; it must not steer the terminal.
    harmless = "\n".join(map(plain, hide_keys(message).split("\n")))
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]consensus:[/] {escape(harmless)}")
    return EXIT_REFUSED


if __name__ == "__main__":
    main()
