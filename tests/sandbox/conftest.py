"""A real cage on a real engine. After every test the engine holds nothing of ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import psutil
import pytest

from workers.sandbox.base import CageResult, Limits, Unprovable, Workspace
from workers.sandbox.confinement import FIRST_UID
from workers.sandbox.docker import DockerCage
from workers.sandbox.engine import connector
from workers.sandbox.leftovers import LABEL


class RunProgram(Protocol):
    """Run a Python program in the cage over some files."""

    def __call__(self, program: str, files: Workspace = ..., /, **limits: Any) -> CageResult: ...


@pytest.fixture(scope="session")
def client(docker_host: str) -> Iterator[Any]:
    """The engine as its own client sees it."""
    opened = connector(docker_host, {})()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def cage(docker_host: str) -> Iterator[DockerCage]:
    made = DockerCage(connector(docker_host, {}))
    refused = made.check()
    assert refused is None, refused
    yield made
    made.close()


@pytest.fixture
def run(cage: DockerCage) -> RunProgram:
    def program_in_cage(program: str, files: Workspace | None = None, /, **limits: Any) -> CageResult:
        # A busy machine may need seconds to start a container's interpreter.
        bounds = {"timeout_seconds": 30.0, **limits}
        result = cage.run(files or {}, ("python", "-c", program), Limits(**bounds))
        assert not isinstance(result, Unprovable), result
        return result

    return program_in_cage


@pytest.fixture(autouse=True)
def _nothing_is_left(client: Any) -> Iterator[None]:
    yield
    assert [found.name for found in client.containers.list(all=True, filters={"label": LABEL})] == []
    assert [found.name for found in client.volumes.list(filters={"label": LABEL})] == []
    until(lambda: not caged_processes(), "processes of a cage outlive it")


def caged_processes() -> list[psutil.Process]:
    """Processes on this machine that belong to a cage."""
    found = []
    for process in psutil.process_iter():
        try:
            if FIRST_UID <= process.uids().real < FIRST_UID + 1000:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def until(holds: Callable[[], bool], otherwise: str, *, seconds: float = 20) -> None:
    """Wait for another process. Fails with `otherwise`."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)
