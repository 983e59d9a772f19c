"""Commands that serve: everything at once, or one process each."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from workers import log, tracing
from workers.address_guard import is_loopback
from workers.cli.port import is_free
from workers.cli.reach import running_url
from workers.errors import SettingsError, UnavailableError
from workers.queues import Queue
from workers.settings import Settings, environment, load, secret_values

if TYPE_CHECKING:
    from celery import Celery

Port = Annotated[int, typer.Option(min=1, max=65535, help="TCP port on 127.0.0.1")]
HeartbeatFile = Annotated[
    Path | None,
    typer.Option(help="a file to touch whenever the broker has carried something, for health checks"),
]


def register(app: typer.Typer) -> None:
    app.command()(up)
    app.command(name="migrate")(migrate_command)
    app.command()(worker)
    app.command()(api)
    app.command()(beat)


def up(port: Port = 8000) -> None:
    """Start everything and keep it running, embedded or against the URLs in the environment."""
    from workers.cli.stack import Stack

    settings = load()
    console = Console(highlight=False)
    serving = running_url(settings.home)
    if serving:
        raise UnavailableError(
            f"already serving at {serving}; stop that first, or set CONSENSUS_HOME to another folder"
        )
    # A shell starts background commands with interrupts ignored; stopping must work there too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    stack = Stack(settings, port=port, with_flower=True, say=lambda line: console.print(f"[dim]{line}[/]"))
    try:
        stack.start()
        console.print(f"[bold green]Consensus is serving at[/] {stack.url}   (interface: /docs there)")
        if stack.flower is not None:
            address, credentials = stack.flower
            console.print(
                f"[bold green]Flower is at[/] {address}   (user:password {credentials})", soft_wrap=True
            )
        if stack.uses_simulator:
            console.print(
                "No model provider is set: answers are [magenta]simulated[/]. "
                "Set a key, for example OPENAI_API_KEY or ANTHROPIC_API_KEY, for real ones."
            )
        console.print(f"[dim]logs: {stack.logs}   Ctrl-C stops it[/]")
        while True:
            time.sleep(1)
            stack.tend()
    except KeyboardInterrupt:
        console.print("[dim]stopping …[/]")
    finally:
        stack.stop()
    console.print("[dim]stopped[/]")


def migrate_command() -> None:
    """Bring the database to the schema that this version needs."""
    from workers.provenance.migrate import migrate
    from workers.provenance.session import Database

    settings = load()
    if settings.database_url is None:
        raise SettingsError(
            "CONSENSUS_DATABASE_URL is not set; `consensus up` migrates its embedded database itself"
        )
    database = Database(settings.database_url, pool_size=2)
    try:
        before, now = migrate(database)
    finally:
        database.close()
    state = "was there already" if before == now else f"now there, before: {before or 'empty'}"
    Console(highlight=False).print(f"schema {now}: {state}")


def worker(
    queues: Annotated[str, typer.Option(help="queues to serve, separated by commas")] = "llm,sandbox,control",
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2000,
            # The settings without their prefix, which would be cut off in a terminal of 80 columns.
            help="threads, for scoring processes; default: the setting LLM_CONCURRENCY, SANDBOX_CONCURRENCY "
            "(sandbox alone) or SCORING_PROCESSES",
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="what Flower calls this worker; one name a process")] = "llm",
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="serves its metrics there; 0: not; default: the setting METRICS_PORT"
        ),
    ] = None,
    heartbeat: HeartbeatFile = None,
) -> None:
    """Serve queues with one process: threads that wait, one event loop that talks to the models. The queue
    `scoring`, served alone, has processes that compute instead, one a core."""
    settings = prepare()
    wanted = [name.strip() for name in queues.split(",") if name.strip()]
    unknown = sorted(set(wanted) - {queue.value for queue in Queue})
    if unknown or not wanted:
        known = ", ".join(queue.value for queue in Queue)
        raise SettingsError(f"--queues {queues!r}: known queues are {known}")
    if metrics_port is not None:
        settings = settings.model_copy(update={"metrics_port": metrics_port})
    if Queue.SCORING.value in wanted:
        _score(settings, wanted, concurrency, name, heartbeat)
        return
    from workers.celery_app import app, configure
    from workers.tasks import dispatch, pipeline, rescue, scoring, webhooks  # noqa: F401 - registers the tasks
    from workers.wiring import close_runtime, runtime

    configure(settings)
    tracing.configure(environment(), instance=f"{name}@{socket.gethostname()}")
    runtime()
    only_cages = wanted == [Queue.SANDBOX.value]
    threads = concurrency or (settings.sandbox_concurrency if only_cages else settings.llm_concurrency)
    try:
        _serve(settings, app, name=name, pool="threads", slots=threads, queues=wanted, heartbeat=heartbeat)
    finally:
        close_runtime()
        tracing.close()


def _serve(
    settings: Settings,
    app: Celery,
    *,
    name: str,
    pool: str,
    slots: int,
    queues: list[str],
    heartbeat: Path | None,
) -> None:
    """Run a worker until it is told to stop, with its metrics on a port if there is to be one."""
    with _metrics(settings, queues=",".join(queues), slots=slots), _heartbeat(app, name, heartbeat):
        app.worker_main(
            [
                *_quiet(settings),
                "worker",
                f"--pool={pool}",
                f"--concurrency={slots}",
                f"--queues={','.join(queues)}",
                f"--hostname={name}@%h",
                "--without-gossip",
                "--without-mingle",
                f"--loglevel={settings.log_level}",
            ]
        )


@contextmanager
def _heartbeat(app: Celery, name: str, file: Path | None) -> Iterator[None]:
    if file is None:
        yield
        return
    from celery.signals import worker_ready

    from workers.worker_health import Heartbeat

    file.unlink(missing_ok=True)
    heartbeat = Heartbeat(app, node=f"{name}@{socket.gethostname()}", file=file)
    # Not before: nobody would answer, and the pool's processes are made meanwhile.
    worker_ready.connect(lambda **_: heartbeat.start(), weak=False)
    try:
        yield
    finally:
        heartbeat.close()


def _quiet(settings: Settings) -> list[str]:
    """Without the banner, which is no JSON."""
    return ["--quiet"] if settings.log_json else []


@contextmanager
def _metrics(settings: Settings, *, queues: str, slots: int) -> Iterator[None]:
    """Raises: UnavailableError for an address that cannot be had."""
    if not settings.metrics_port:
        yield
        return
    from prometheus_client import ProcessCollector

    from workers.metrics import REGISTRY
    from workers.metrics_port import MetricsPort
    from workers.worker_load import WorkerLoad

    REGISTRY.register(WorkerLoad(queues=queues, slots=slots))
    ProcessCollector(registry=REGISTRY)
    token = settings.metrics_token
    port = MetricsPort(
        REGISTRY,
        host=settings.metrics_host,
        port=settings.metrics_port,
        token=token.get_secret_value() if token else None,
    )
    try:
        yield
    finally:
        port.close()


def _score(
    settings: Settings, wanted: list[str], concurrency: int | None, name: str, heartbeat: Path | None
) -> None:
    """Serve the scoring queue with processes."""
    from workers.cli.score import need

    if wanted != [Queue.SCORING.value]:
        raise SettingsError(
            "--queues: `scoring` computes in processes of its own; serve it with a worker of its own"
        )
    need("numpy", "scipy", extra="score", what="a scoring worker")
    from workers.celery_app import app, configure
    from workers.scoring import work  # noqa: F401 - loaded once, before the processes part
    from workers.tasks import scoring  # noqa: F401 - registers the tasks

    configure(settings)
    processes = concurrency or settings.scoring_processes or len(os.sched_getaffinity(0))
    _serve(settings, app, name=name, pool="prefork", slots=processes, queues=wanted, heartbeat=heartbeat)


def api(
    port: Annotated[int, typer.Option(min=1, max=65535, help="TCP port")] = 8000,
    host: Annotated[
        str, typer.Option(help="address to listen on; any but a loopback one is open to the network")
    ] = "127.0.0.1",
) -> None:
    """Serve the HTTP interface. Beyond this machine it serves nobody without an API key."""
    settings = prepare()
    if not is_free(port):
        raise UnavailableError(f"port {port} is in use; choose another with --port")
    is_reachable = not is_loopback(host)
    if is_reachable or settings.require_keys:
        _warn_without_keys(settings, host)
    import uvicorn

    uvicorn.run(
        "api.app:from_environment" if is_reachable else "api.app:on_loopback",
        factory=True,
        host=host,
        port=port,
        log_config=None,
        log_level=settings.log_level.lower(),
        timeout_graceful_shutdown=3,
    )


def _warn_without_keys(settings: Settings, host: str) -> None:
    """Whether keys are asked for is settled; that nobody has one yet is worth a word, and no reason to be away."""
    from workers.cli.database import opened
    from workers.provenance.repository import api_keys

    with contextlib.suppress(UnavailableError), opened(settings) as database, database.begin() as connection:
        if not api_keys.is_any_usable(connection, at=dt.datetime.now(dt.UTC)):
            Console(stderr=True, soft_wrap=True).print(
                f"[yellow]the API asks for keys at {escape(host)}, and there is none that can be used: nobody comes in "
                "until `consensus keys create NAME` has made one[/]"
            )


def beat(
    heartbeat: HeartbeatFile = None,
) -> None:
    """Send the periodic tasks (one process per installation)."""
    settings = prepare()
    from workers.celery_app import configure

    app = configure(settings)
    if heartbeat is not None:
        heartbeat.unlink(missing_ok=True)
    app.conf.update(heartbeat_file=heartbeat)
    with tempfile.TemporaryDirectory(prefix="consensus-beat-") as folder:
        app.start(
            [
                *_quiet(settings),
                "beat",
                f"--schedule={Path(folder) / 'schedule'}",
                "--pidfile=",
                f"--loglevel={settings.log_level}",
            ]
        )


def prepare(*, linger_seconds: float = 0.0) -> Settings:
    """Settings and logs of a serving process, which ends with the process that started it, if that asks for it.

    `linger_seconds`: how much longer it serves then, for those who end at the same moment and still need it."""
    settings = load()
    log.configure(settings.log_level, as_json=settings.log_json, secrets=secret_values())
    if environment().get("CONSENSUS_STOP_WITH_STDIN") == "1":
        threading.Thread(target=_stop_with_stdin, args=(linger_seconds,), daemon=True).start()
    return settings


def _stop_with_stdin(linger_seconds: float) -> None:
    """A parent that was killed cannot stop its children; its end of the pipe closes all the same."""
    # The bare descriptor: a reader object's lock would trip the interpreter on its way out.
    while os.read(0, 1024):
        pass
    time.sleep(linger_seconds)
    os.kill(os.getpid(), signal.SIGTERM)
