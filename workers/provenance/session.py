"""The one place that opens and commits transactions. None stays open while a model or a cage works."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry

from workers.errors import DeadlockError, UnavailableError
from workers.provenance.signing import Signer

#: A pooled connection idle for longer is tried before it is used.
IDLE_SECONDS = 2.0

#: When each side takes the other for gone if the line between them is dead: idle, then so many probes so far apart;
#: and how long what was sent may stay unacknowledged. By default that is two hours, and a quarter of one.
_PROBE_AFTER_SECONDS, _PROBE_EVERY_SECONDS, _PROBES, _UNACKNOWLEDGED_SECONDS = 10, 3, 3, 20
#: A transaction whose client stands still, frozen or cut off, gives back its locks. No transaction here waits for
#: anything but the database, so a living client never comes near it.
_IDLE_IN_TRANSACTION_SECONDS = 60

CLIENT_LIVENESS: dict[str, Any] = {
    "keepalives": 1,
    "keepalives_idle": _PROBE_AFTER_SECONDS,
    "keepalives_interval": _PROBE_EVERY_SECONDS,
    "keepalives_count": _PROBES,
    "tcp_user_timeout": _UNACKNOWLEDGED_SECONDS * 1000,
}
_SERVER_LIVENESS = {
    "idle_in_transaction_session_timeout": f"{_IDLE_IN_TRANSACTION_SECONDS}s",
    "tcp_keepalives_idle": f"{_PROBE_AFTER_SECONDS}s",
    "tcp_keepalives_interval": f"{_PROBE_EVERY_SECONDS}s",
    "tcp_keepalives_count": str(_PROBES),
    "tcp_user_timeout": f"{_UNACKNOWLEDGED_SECONDS}s",
}

_IMPATIENT = ("idle_in_transaction_session_timeout", "tcp_user_timeout")


class _Impatient(psycopg.Connection):
    """Does not wait for ever for a server whose kernel answers while it does not: stopped, or out of disk."""

    patience_seconds = 0.0

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        patience = self.patience_seconds if timeout is None else timeout
        began = time.monotonic()
        try:
            return super().wait(gen, interval, patience)
        except psycopg.OperationalError as error:
            if timeout is not None or time.monotonic() - began < patience:
                raise
            # What it was doing is unknown, and so is this connection from now on.
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer to a statement within {patience:g} s") from error


def _connect(
    patience_seconds: float, _dialect: Any, _record: Any, arguments: Any, named: Any
) -> psycopg.Connection:
    connection = _Impatient.connect(*arguments, **named)
    connection.patience_seconds = patience_seconds
    return connection


class Database:
    """A pool of connections to PostgreSQL and the scope of a transaction."""

    def __init__(self, url: str, *, pool_size: int = 16, patience_seconds: float | None = None) -> None:
        """`patience_seconds`: how long one statement may take before the database is taken for away; None: for ever,
        as long as the line to it lives."""
        self._engine = create_engine(
            url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=60,
            # What a statement carries is what users and models wrote: no part of an error's text, and so of no log.
            hide_parameters=True,
            connect_args={"connect_timeout": 5, "application_name": "consensus", **CLIENT_LIVENESS},
        )
        self._autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        if patience_seconds is not None:
            event.listen(self._engine, "do_connect", partial(_connect, patience_seconds))
        event.listen(self._engine, "connect", _bound_silence)
        event.listen(self._engine, "checkout", _ping_if_idle)
        event.listen(self._engine, "checkin", _note_checkin)
        event.listen(self._engine, "checkin", self._close_if_late)
        self._is_closed = False

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """One transaction: committed when the block ends, rolled back when it raises.

        Raises: UnavailableError when the database cannot be reached.
        """
        with _translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def single(self) -> Iterator[Connection]:
        """A transaction of one statement: PostgreSQL commits it by itself, two round trips fewer.

        Raises: UnavailableError when the database cannot be reached.
        """
        with _translated(), self._autocommit.connect() as connection:
            yield connection

    def sign_with(self, signer: Signer | None) -> None:
        """Sign the heads of ledgers that are written from now on; None: they stay unsigned, which `verify` says."""
        for engine in (self._engine, self._autocommit):
            engine.update_execution_options(signer=signer)

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A transaction that reads everything as it is now and changes nothing, however long the block takes.

        Raises: UnavailableError when the database cannot be reached.
        """
        frozen = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with _translated(), frozen.connect() as connection, connection.begin():
            wait_for_client(connection)
            yield connection

    def schema_revision(self) -> str | None:
        """The migration the database is at, None for an empty one."""
        with self.begin() as connection:
            exists = connection.scalar(text("SELECT to_regclass('alembic_version')"))
            return connection.scalar(text("SELECT version_num FROM alembic_version")) if exists else None

    def close(self) -> None:
        """Close what is idle now, and what threads still use as soon as they give it back."""
        self._is_closed = True
        self._engine.dispose()

    def _close_if_late(self, connection: Any, record: ConnectionPoolEntry) -> None:
        # The pool that it came from is forgotten: nobody else would ever close it.
        if self._is_closed and connection is not None:
            record.invalidate()


def wait_for_client(connection: Connection) -> None:
    """Until this transaction ends, its client may be as slow as the disk or the pipe at its other end."""
    chosen = ", ".join(f"set_config('{name}', '0', true)" for name in _IMPATIENT)
    connection.execute(text(f"SELECT {chosen}"))


def _first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (OperationalError, PoolTimeoutError) as error:
        if isinstance(getattr(error, "orig", None), psycopg.errors.DeadlockDetected):
            raise DeadlockError("two transactions waited for each other; try again") from error
        if isinstance(getattr(error, "orig", None), psycopg.errors.LockNotAvailable):
            raise DeadlockError("others held what this transaction needs for too long; try again") from error
        raise UnavailableError(f"the database does not answer: {_first_line(error)}") from error
    except psycopg.OperationalError as error:
        # From a statement that went past SQLAlchemy, as COPY does.
        raise UnavailableError(f"the database broke off: {_first_line(error)}") from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise UnavailableError(f"the database broke off: {_first_line(error)}") from error
        raise


def _bound_silence(connection: Any, _: ConnectionPoolEntry) -> None:
    chosen = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SERVER_LIVENESS.items())
    try:
        connection.execute(f"SELECT {chosen}")
        connection.commit()
    except psycopg.Error:
        # The pool has not got it yet, and would leave it open.
        connection.close()
        raise


def _note_checkin(_: Any, record: ConnectionPoolEntry) -> None:
    record.info["idle_since"] = time.monotonic()


def _ping_if_idle(connection: Any, record: ConnectionPoolEntry, _: Any) -> None:
    """A connection that lay idle is tried before use, so that a restarted database costs nobody an error; one
    that was used a moment ago is not, which saves a round trip a transaction."""
    idle_since = record.info.get("idle_since")
    if idle_since is None or time.monotonic() - idle_since < IDLE_SECONDS:
        return
    try:
        connection.execute("SELECT 1")
        connection.rollback()
    except psycopg.Error as error:
        raise DisconnectionError from error
