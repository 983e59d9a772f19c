"""`consensus simulate-llm`: the simulated provider as a server, to rehearse a batch without paying for it."""

from __future__ import annotations

import shlex
import signal
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from workers.cli.serve import prepare
from workers.errors import InputError

if TYPE_CHECKING:
    from workers.providers.simulator.latency import Latency

_SPEED = "Speed"
_LIMITS = "Limits of each key and model family (default: none)"
_FAULTS = "Faults and models"
#: What stands for a key in a rehearsal: anything does, and this cannot be taken for a real one.
_REHEARSAL_KEY = "simulated"

Rate = Annotated[float | None, typer.Option(min=1, rich_help_panel=_LIMITS)]


#: When a killed `up` takes all its processes with it, its workers end the calls they have begun. Were the simulator
#: gone before them, they would write those down as failed, and the run as degraded.
LINGER_SECONDS = 4.0


def register(app: typer.Typer) -> None:
    app.command(name="simulate-llm")(simulate_llm)


def simulate_llm(
    port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port; 0 takes a free one")] = 8001,
    host: Annotated[
        str, typer.Option(help="address to listen on; any but a loopback one is open to the network")
    ] = "127.0.0.1",
    seed: Annotated[int, typer.Option(help="another seed: other answers, latencies and chance")] = 0,
    latency_seconds: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=600,
            help="every answer takes this long, or, with a 95th percentile, the median does; "
            "default: a spread from 0.2 to 1.2 s",
            rich_help_panel=_SPEED,
        ),
    ] = None,
    latency_p95_seconds: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=600,
            help="95th percentile; latencies are then lognormal around --latency-seconds",
            rich_help_panel=_SPEED,
        ),
    ] = None,
    first_piece_seconds: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=600,
            help="time to a stream's first piece; default: half of its latency",
            rich_help_panel=_SPEED,
        ),
    ] = None,
    first_piece_p95_seconds: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=600,
            help="its 95th percentile; the time is then lognormal around --first-piece-seconds",
            rich_help_panel=_SPEED,
        ),
    ] = None,
    requests_per_minute: Rate = None,
    input_tokens_per_minute: Rate = None,
    output_tokens_per_minute: Rate = None,
    requests_per_day: Annotated[int | None, typer.Option(min=1, rich_help_panel=_LIMITS)] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="calls in flight", rich_help_panel=_LIMITS)
    ] = None,
    burst_seconds: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=60,
            help="how much of a minute's limit may be used at once: 60 all of it, 1 a sixtieth",
            rich_help_panel=_LIMITS,
        ),
    ] = 60.0,
    overload_above: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="calls in flight, of all keys, beyond which answers are 503 and 529",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    allowance_tokens: Annotated[
        int | None,
        typer.Option(min=0, help="tokens after which a key has no quota left", rich_help_panel=_LIMITS),
    ] = None,
    allowance_usd: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="the same in simulated dollars: 3 and 15 a million tokens for large models, 0.25 and 1.25 "
            "for small ones",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="a fault script (docs/simulator.md), or rough-night, rate-limited, outage, empty-purse",
            rich_help_panel=_FAULTS,
        ),
    ] = None,
    any_model: Annotated[
        bool,
        typer.Option(
            "--any-model",
            help="a simulated model stands in for any name, so that a team file for real models can be "
            "rehearsed; default: 404 for a model that is not the simulator's",
            rich_help_panel=_FAULTS,
        ),
    ] = False,
) -> None:
    """Serve simulated models in both wire formats: OpenAI's chat completions and Anthropic's messages.

    Every reply says that it is simulated, and so does every result that was made with it.

    GET /simulator/stats and /simulator/arrivals tell what reached it; docs/simulator.md has the rest.
    """
    prepare(linger_seconds=LINGER_SECONDS)
    from workers.providers.simulator.app import create_app
    from workers.providers.simulator.faults.rule import refused_windows
    from workers.providers.simulator.faults.script import load_faults
    from workers.providers.simulator.limits import Limits
    from workers.providers.simulator.server import serve

    rules = load_faults(faults) if faults is not None else ()
    app = create_app(
        seed=seed,
        latency=_latency(latency_seconds, latency_p95_seconds, option="--latency"),
        first_piece=_latency(first_piece_seconds, first_piece_p95_seconds, option="--first-piece"),
        limits=Limits(
            requests_per_minute=requests_per_minute,
            input_tokens_per_minute=input_tokens_per_minute,
            output_tokens_per_minute=output_tokens_per_minute,
            requests_per_day=requests_per_day,
            concurrency=concurrency,
            burst_seconds=burst_seconds,
            overload_above=overload_above,
            allowance_tokens=allowance_tokens,
            allowance_usd=allowance_usd,
        ),
        faults=rules,
        accepts_any_model=any_model,
    )
    serve(
        app,
        host,
        port,
        refused_windows=refused_windows(rules),
        on_listening=lambda url: _begin(url, any_model=any_model),
    )


def _begin(url: str, *, any_model: bool) -> None:
    # A shell starts background commands with interrupts ignored; and a stop is no failure, whoever asks for it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    _say_how_to_use(url, any_model=any_model)


def _latency(median_seconds: float | None, p95_seconds: float | None, *, option: str) -> Latency | None:
    """Raises: InputError (a 95th percentile without a median)."""
    from workers.providers.simulator.latency import fixed_latency, lognormal_latency

    if p95_seconds is None:
        return None if median_seconds is None else fixed_latency(median_seconds)
    if median_seconds is None:
        raise InputError(f"{option}-p95-seconds needs the median as well: give {option}-seconds")
    return lognormal_latency(median_seconds=median_seconds, p95_seconds=p95_seconds)


def _say_how_to_use(url: str, *, any_model: bool) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[magenta]Simulated[/] models are served at {url}   [dim]Ctrl-C stops it[/]")
    console.print(f"[dim]OpenAI's format: {url}/chat/completions   Anthropic's: {url}/messages[/]")
    if any_model:
        console.print("To rehearse a team file for real models, for free:")
        variables = {
            "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": _REHEARSAL_KEY,
            "ANTHROPIC_BASE_URL": url.removesuffix("/v1"),
            "ANTHROPIC_API_KEY": _REHEARSAL_KEY,
        }
    else:
        console.print(
            "To use these models (a team file that names real ones needs --any-model here, and then "
            "OPENAI_BASE_URL and the like):"
        )
        variables = {"CONSENSUS_SIMULATOR_URL": url}
    for name, value in variables.items():
        console.print(f"  export {name}={shlex.quote(value)}", markup=False)
    console.print("[dim]Answers stay marked as simulated, whichever way they are asked for.[/]")
