"""Flower: what the workers are doing, task by task."""

from __future__ import annotations

import secrets
from typing import Annotated

import structlog
import typer
from rich.console import Console

from workers.cli.port import is_free
from workers.cli.serve import prepare
from workers.errors import SettingsError, UnavailableError
from workers.settings import Settings

log = structlog.get_logger(__name__)

#: Flower's own.
PORT = 5555


def register(app: typer.Typer) -> None:
    app.command()(flower)


def flower(
    port: Annotated[int, typer.Option(min=1, max=65535, help="TCP port")] = PORT,
    host: Annotated[str, typer.Option(help="the address to serve at")] = "127.0.0.1",
) -> None:
    """Serve Flower, to watch the workers and their tasks; who it lets in says the setting FLOWER_AUTH."""
    settings = prepare()
    given = credentials_of(settings)
    if settings.redis_url is None:
        raise SettingsError(
            "CONSENSUS_REDIS_URL is not set; `consensus up` starts Flower for its embedded broker itself"
        )
    if not is_free(port):
        raise UnavailableError(f"port {port} is in use; choose another with --port")
    from workers.celery_app import configure
    from workers.flower_server import serve

    credentials = given or made_credentials()
    log.info("flower.serving", address=f"http://{host}:{port}")
    if not given:
        Console(highlight=False, soft_wrap=True).print(
            f"[bold green]Flower lets in[/] {credentials}   (user:password; CONSENSUS_FLOWER_AUTH sets others)"
        )
    serve(configure(settings), host=host, port=port, credentials=credentials.split(","))


def credentials_of(settings: Settings) -> str | None:
    """`user:password`, several between commas, as they were set."""
    if settings.flower_auth is None:
        return None
    return ",".join(pair.strip() for pair in settings.flower_auth.get_secret_value().split(","))


def made_credentials() -> str:
    """New ones, good for as long as they are remembered."""
    return f"consensus:{secrets.token_urlsafe(12)}"
