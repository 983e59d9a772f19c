"""What scoring work needs, made from settings: one a process, on first use, so that each process of a pool opens its
own connections."""

from __future__ import annotations

import os
import secrets
import socket
import threading

from workers.errors import UnavailableError
from workers.provenance.session import Database
from workers.scoring.context import ScoringContext
from workers.settings import Settings, settings
from workers.wiring import new_id, now

#: The work and its heartbeat.
_CONNECTIONS = 3

_lock = threading.Lock()
_contexts: dict[int, ScoringContext] = {}


def scoring_context() -> ScoringContext:
    """This process's context. Raises: UnavailableError without a database."""
    with _lock:
        found = _contexts.get(os.getpid())
        if found is None:
            _contexts.clear()
            found = _contexts[os.getpid()] = make_context(settings())
        return found


def make_context(config: Settings) -> ScoringContext:
    """A context of these settings. Raises: UnavailableError without a database."""
    if config.database_url is None:
        raise UnavailableError("a worker needs CONSENSUS_DATABASE_URL; `consensus up` sets it")
    return ScoringContext(
        database=Database(config.database_url, pool_size=_CONNECTIONS),
        owner=f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}",
        lease_seconds=config.lease_seconds,
        heartbeat_seconds=config.heartbeat_seconds,
        now=now,
        new_id=new_id,
        max_file_bytes=config.max_trajectory_bytes,
    )
