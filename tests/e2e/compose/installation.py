"""The compose file as it stands, with images made on this machine, on an engine that no registry is reachable from."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from workers.settings import environment

ROOT = Path(__file__).parents[3]
COMPOSE_FILE = ROOT / "docker-compose.yml"
#: What the Dockerfile installs besides the dependencies.
EXTRAS = ("score", "parquet", "otel")
PYTHON_BASE, POSTGRES, REDIS = (
    "consensus-python-base:local",
    "consensus-postgres:local",
    "consensus-redis:local",
)
HEALTHY_SECONDS = 240.0

#: In a process of its own, since only a process can be where the engine publishes ports.
_GET = """
import sys, httpx
url, authorization = sys.argv[1:]
answer = httpx.get(url, headers={"Authorization": authorization} if authorization else {}, timeout=15)
print(answer.status_code)
print(answer.text)
"""


class BrokenError(Exception):
    """A command failed, or something did not become what it should; the message says which and how."""


class Installation:
    """One project of the compose file. Leaving takes it down with its volumes.

    `socket`: the engine's, whose folder has `docker.pid` where `.ci/docker-engine` started it. `folder` is for what
    has to lie in files.
    """

    def __init__(self, socket: Path, folder: Path) -> None:
        self.socket, self._folder = socket, folder
        self.project = f"consensus-proof-{os.getpid()}"
        self.flower_auth = f"operator:{secrets.token_hex(12)}"
        #: Shown to the API by `consensus`; made once it is up.
        self.key = ""
        pid = socket.with_name("docker.pid")
        #: What starts a program where the engine publishes ports.
        self.at = (
            ("nsenter", f"--net=/proc/{pid.read_text(encoding='ascii').strip()}/ns/net")
            if pid.exists()
            else ()
        )
        self.environment = plain_environment() | {
            "DOCKER_HOST": f"unix://{socket}",
            "DOCKER_CONFIG": str(folder / "docker"),
        }
        self.variables = {
            "POSTGRES_PASSWORD": secrets.token_hex(16),
            "REDIS_PASSWORD": secrets.token_hex(16),
            "CONSENSUS_FLOWER_AUTH": self.flower_auth,
            "DOCKER_GID": str(socket.stat().st_gid),
            "DOCKER_SOCKET": str(socket),
            "COMPOSE_PROFILES": "simulator",
            "CONSENSUS_SIMULATOR_URL": "http://simulator:8001/v1",
            "CONSENSUS_IMAGE": f"{self.project}:local",
            "BASE_IMAGE": PYTHON_BASE,
            "POSTGRES_IMAGE": POSTGRES,
            "REDIS_IMAGE": REDIS,
            "BUILD_NETWORK": "none",
            "CAGE_BUILD_OPTIONS": f"--base {PYTHON_BASE} --network none",
        }

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        lines = (f"{name}={value}\n" for name, value in self.variables.items())
        (self._folder / "env").write_text("".join(lines), encoding="utf-8")
        self.run(str(ROOT / ".ci/compose-plugin"), str(self._folder / "docker"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.compose("down", "--volumes", "--timeout", "20", check=False)
        self.run("docker", "image", "rm", self.variables["CONSENSUS_IMAGE"], check=False)

    def build_bases(self) -> None:
        """What the public images are elsewhere."""
        self.run(str(ROOT / ".ci/server-images"), POSTGRES, REDIS)
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        wanted = [*project["dependencies"]]
        for extra in EXTRAS:
            wanted += project["optional-dependencies"][extra]
        build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
        # Debian's own Python is older than this one may be, and needs what newer ones have in themselves.
        wanted += [*build["requires"], "async-timeout"]
        self.run(
            *(str(ROOT / ".ci/python-base"), PYTHON_BASE, sys.executable),
            *("--requirement", str(ROOT / "workers/sandbox/image/requirements.txt")),
            *("--constraint", str(ROOT / "constraints.txt"), *wanted),
        )

    def compose(self, *arguments: str, check: bool = True) -> str:
        return self.run(
            *("docker", "compose", "--file", str(COMPOSE_FILE), "--project-name", self.project),
            *("--env-file", str(self._folder / "env"), *arguments),
            check=check,
        )

    def containers(self) -> dict[str, dict[str, Any]]:
        """Every container of the project by service, as `docker inspect` tells."""
        label = f"label=com.docker.compose.project={self.project}"
        ids = self.run("docker", "ps", "--all", "--quiet", "--filter", label).split()
        found = json.loads(self.run("docker", "inspect", *ids)) if ids else []
        return {entry["Config"]["Labels"]["com.docker.compose.service"]: entry for entry in found}

    def wait_until_healthy(self) -> None:
        """Raises: BrokenError when a container ends, restarts or never passes its check."""

        def unready() -> dict[str, str]:
            return {
                service: described
                for service, entry in self.containers().items()
                if (described := describe(entry)) not in {"healthy", "exited 0"}
            }

        until(
            lambda: not unready(), lambda: f"not ready: {unready()}\n{self.logs()}", seconds=HEALTHY_SECONDS
        )

    def logs(self) -> str:
        return self.compose("logs", "--no-color", "--tail", "5", check=False)

    def consensus(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command line of this checkout against the API's published port."""
        return subprocess.run(
            [*self.at, sys.executable, "-m", "workers.cli.main", *arguments],
            env=self.environment
            | {
                "CONSENSUS_URL": "http://127.0.0.1:8000",
                "PYTHONPATH": str(ROOT),
                "CONSENSUS_API_KEY": self.key,
            },
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def get(self, url: str, *, authorization: str = "") -> tuple[int, str]:
        """(status, body) of a published port."""
        answer = self.run(*self.at, sys.executable, "-c", _GET, url, authorization)
        status, _, body = answer.partition("\n")
        return int(status), body

    def leftovers(self) -> list[str]:
        """Containers, volumes and networks of the project, and of cages."""
        found = []
        for label in (f"label=com.docker.compose.project={self.project}", "label=consensus.cage"):
            for kind, all_ in (("container", ["--all"]), ("volume", []), ("network", [])):
                found += self.run("docker", kind, "ls", *all_, "--quiet", "--filter", label).split()
        return found

    def run(self, *command: str, check: bool = True) -> str:
        """Its standard output. Raises: BrokenError with the end of what it said."""
        done = subprocess.run(
            command, env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
        )
        if check and done.returncode != 0:
            said = (done.stdout + done.stderr).strip()[-4000:]
            raise BrokenError(f"{' '.join(command)[:200]} ended with code {done.returncode}:\n{said}")
        return done.stdout


def plain_environment() -> dict[str, str]:
    """Ours without any setting or key: what a compose file reads must come from the file it was given."""
    kept = ("PATH", "HOME", "LANG", "PIP_CONFIG_FILE", "PIP_CERT", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    ours = environment()
    return {name: ours[name] for name in kept if name in ours}


def describe(entry: dict[str, Any]) -> str:
    """A container's state in a word or two: `healthy`, `exited 0`, `restarting`."""
    state = entry["State"]
    if state["Status"] == "exited":
        return f"exited {state['ExitCode']}"
    if state["Status"] != "running":
        return str(state["Status"])
    return str(state["Health"]["Status"]) if "Health" in state else "running"


def until(condition: Callable[[], bool], what: Callable[[], str], *, seconds: float) -> None:
    """Raises: BrokenError."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise BrokenError(what())
        time.sleep(0.5)
