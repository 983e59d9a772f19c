"""Flower over our Celery application: to watch. Whatever changes a run goes through the API, which knows the rows."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Sequence
from types import FrameType
from typing import Any, NoReturn

from celery import Celery
from flower.app import Flower
from flower.options import options
from flower.urls import settings
from flower.views.monitor import Healthcheck, Metrics
from tornado.web import HTTPError

from workers.errors import UnavailableError

#: Tasks kept in memory, about a kilobyte each; history is in the database.
MOST_TASKS = 10_000
#: A worker that has been away for so long is forgotten.
FORGET_SECONDS = 3600


def _authenticated(handler: Any) -> None:
    """Flower's own check, for the two pages that it leaves open to everybody. Raises: HTTPError 401."""
    if not handler.current_user:
        raise HTTPError(401)


def serve(app: Celery, *, host: str, port: int, credentials: Sequence[str]) -> NoReturn:
    """Serve until the process is told to stop, and end it. credentials: `user:password` each, at least one.

    Raises: UnavailableError for an address that cannot be had.
    """
    options.address = host
    options.port = port
    options.basic_auth = list(credentials)
    options.max_tasks = MOST_TASKS
    options.purge_offline_workers = FORGET_SECONDS
    options.read_only = True
    options.tasks_columns = "name,uuid,state,received,started,runtime,worker"
    for page in (Metrics, Healthcheck):
        page.prepare = _authenticated
    logging.getLogger("tornado.access").setLevel(logging.ERROR)
    flower = Flower(capp=app, options=options, **settings)
    try:
        flower.start_http_server()
    except OSError as error:
        raise UnavailableError(
            f"Flower cannot serve at {host}:{port}: {error.strerror}; choose another port with --port"
        ) from None

    def stop(_number: int, _frame: FrameType | None) -> None:
        flower.io_loop.add_callback_from_signal(flower.stop)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    flower.start()
    # Its threads wait for a broker that is away for as long as it is, and the interpreter would wait for them.
    logging.shutdown()
    os._exit(0)
