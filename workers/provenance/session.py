"""The one place that opens and commits transactions. None stays open while a model or a cage works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from workers.errors import UnavailableError


class Database:
    """A pool of connections to PostgreSQL and the scope of a transaction."""

    def __init__(self, url: str, *, pool_size: int = 16) -> None:
        self._engine = create_engine(
            url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=60,
            pool_pre_ping=True,
            connect_args={"connect_timeout": 5, "application_name": "consensus"},
        )

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """One transaction: committed when the block ends, rolled back when it raises.

        Raises: UnavailableError when the database cannot be reached.
        """
        try:
            with self._engine.begin() as connection:
                yield connection
        except (OperationalError, PoolTimeoutError) as error:
            raise UnavailableError(f"the database does not answer: {_first_line(error)}") from error
        except DBAPIError as error:
            if error.connection_invalidated:
                raise UnavailableError(f"the database broke off: {_first_line(error)}") from error
            raise

    def schema_revision(self) -> str | None:
        """The migration the database is at, None for an empty one."""
        with self.begin() as connection:
            exists = connection.scalar(text("SELECT to_regclass('alembic_version')"))
            return connection.scalar(text("SELECT version_num FROM alembic_version")) if exists else None

    def close(self) -> None:
        self._engine.dispose()


def _first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
