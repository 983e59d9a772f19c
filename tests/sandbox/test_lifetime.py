"""What a cage leaves behind, who may take it away, and how many there are at once."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.conftest import until
from workers.errors import InputError
from workers.sandbox.base import CageResult, Ending, Limits, Reason, Unprovable
from workers.sandbox.confinement import FIRST_UID
from workers.sandbox.docker import DockerCage
from workers.sandbox.engine import connector
from workers.sandbox.leftovers import LABEL
from workers.sandbox.recipe import default_image
from workers.sandbox.sweeper import Sweeper

pytestmark = pytest.mark.cage

ROOT = Path(__file__).parents[2]

#: A worker of its own: runs a sleeping program over one file.
WORKER = """
import sys
from workers.sandbox.base import Limits
from workers.sandbox.docker import DockerCage
from workers.sandbox.engine import connector
cage = DockerCage(connector(sys.argv[1], {}))
result = cage.run({"a.py": "x = 1"}, ("python", "-c", sys.argv[2]), Limits(timeout_seconds=float(sys.argv[3])))
print(result.ending, result.stdout.text)
"""


@pytest.fixture
def open_cage(docker_host: str) -> Iterator[Callable[..., DockerCage]]:
    opened: list[DockerCage] = []

    def make(**options: Any) -> DockerCage:
        opened.append(DockerCage(connector(docker_host, {}), **options))
        return opened[-1]

    yield make
    for cage in opened:
        cage.close()


def sleeping(client: Any) -> list[Any]:
    """Our containers that run something else than a canary."""
    found = client.containers.list(filters={"label": LABEL}, ignore_removed=True)
    return [container for container in found if "sleep" in str(container.attrs["Config"]["Cmd"])]


def start_worker(docker_host: str, *, timeout_seconds: float) -> subprocess.Popen[str]:
    program = "import time; time.sleep(3600)"
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, docker_host, program, str(timeout_seconds)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
    )


def kill_when_running(worker: subprocess.Popen[str], client: Any) -> Any:
    """kill -9 in mid-run; the container that it leaves."""
    until(lambda: bool(sleeping(client)), "the worker runs nothing")
    (container,) = sleeping(client)
    worker.send_signal(signal.SIGKILL)
    worker.communicate(timeout=20)
    return container


def test_a_killed_workers_leftovers_are_swept_by_the_next_one_at_once(
    docker_host: str, client: Any, open_cage: Callable[..., DockerCage]
) -> None:
    container = kill_when_running(start_worker(docker_host, timeout_seconds=3000), client)
    assert container in client.containers.list()

    swept = open_cage().sweep()

    assert (swept.containers, swept.volumes) == (1, 1)


def test_a_killed_workers_leftovers_go_without_a_new_worker_or_a_missed_slot(
    docker_host: str, client: Any, open_cage: Callable[..., DockerCage]
) -> None:
    sweeper = Sweeper(open_cage().sweep, every_seconds=0.2)
    sweeper.start()
    kill_when_running(start_worker(docker_host, timeout_seconds=3000), client)

    until(lambda: not sleeping(client), "nobody sweeps")
    sweeper.close()


def test_a_leftover_ends_by_itself_when_nobody_sweeps(
    docker_host: str, client: Any, open_cage: Callable[..., DockerCage]
) -> None:
    container = kill_when_running(start_worker(docker_host, timeout_seconds=1), client)

    assert container.wait(timeout=20)["StatusCode"] == 128 + signal.SIGKILL
    open_cage().sweep()


def test_a_slot_that_a_killed_worker_holds_is_freed_by_whoever_needs_it(
    docker_host: str, client: Any, open_cage: Callable[..., DockerCage]
) -> None:
    kill_when_running(start_worker(docker_host, timeout_seconds=3000), client)

    result = open_cage(parallel=1).run({}, ("echo", "free"), Limits(timeout_seconds=30))

    assert isinstance(result, CageResult)
    assert result.stdout.text == "free\n"
    open_cage().sweep()


def test_a_sweep_leaves_living_workers_their_cages(
    client: Any, cage: DockerCage, open_cage: Callable[..., DockerCage]
) -> None:
    with ThreadPoolExecutor(1) as pool:
        program = "import time; time.sleep(2); print('undisturbed')"
        running = pool.submit(cage.run, {"a.py": ""}, ("python", "-c", program), Limits(timeout_seconds=30))
        until(lambda: bool(sleeping(client)), "nothing runs")

        swept = open_cage().sweep()

        result = running.result(timeout=60)
    assert (swept.containers, swept.volumes) == (0, 0)
    assert isinstance(result, CageResult)
    assert result.stdout.text == "undisturbed\n"


def test_cages_at_once_are_bounded_and_each_has_a_uid_of_its_own(
    open_cage: Callable[..., DockerCage],
) -> None:
    program = (
        "import os, time; print(os.getuid(), t := time.monotonic()); time.sleep(0.5); print(time.monotonic())"
    )
    # Two workers that know nothing of each other, two slots, six programs.
    cages = [open_cage(parallel=2), open_cage(parallel=2)]
    barrier = threading.Barrier(6)

    def one(number: int) -> tuple[int, float, float]:
        barrier.wait(timeout=20)
        result = cages[number % 2].run({}, ("python", "-c", program), Limits(timeout_seconds=30))
        assert isinstance(result, CageResult)
        uid, began, ended = result.stdout.text.split()
        return int(uid), float(began), float(ended)

    with ThreadPoolExecutor(6) as pool:
        ran = list(pool.map(one, range(6)))

    assert {uid for uid, _, _ in ran} == {FIRST_UID, FIRST_UID + 1}
    for _, began, _ in ran:
        at_once = [uid for uid, start, end in ran if start <= began < end]
        assert len(at_once) <= 2
        assert len(set(at_once)) == len(at_once)


def test_an_image_that_lets_everything_through_is_found_out(
    client: Any, open_cage: Callable[..., DockerCage]
) -> None:
    recipe = (
        f"FROM {default_image()}\nUSER root\n"
        "RUN echo 'import os,sys; os.execvp(sys.argv[1], sys.argv[1:])' > /opt/cage/launch.py\n"
    )
    client.images.build(
        fileobj=io.BytesIO(recipe.encode()), tag="consensus-cage-test:open", network_mode="none", rm=True
    )
    try:
        result = open_cage(image="consensus-cage-test:open").run({}, ("true",), Limits())
    finally:
        client.images.remove("consensus-cage-test:open", force=True)

    assert isinstance(result, Unprovable)
    assert result.reason is Reason.NOT_CONFINED
    assert result.sentence.endswith("is not confined: the launcher's filter is missing")


def test_without_the_image_nothing_runs(open_cage: Callable[..., DockerCage]) -> None:
    result = open_cage(image="consensus-cage:never-built").run({}, ("true",), Limits())

    assert isinstance(result, Unprovable)
    assert result.reason is Reason.NO_IMAGE
    assert "`consensus sandbox build`" in result.sentence


def test_more_cores_than_there_are_is_as_many_as_there_are(cage: DockerCage, client: Any) -> None:
    result = cage.run({}, ("true",), Limits(cpus=64, timeout_seconds=30))

    assert isinstance(result, CageResult)
    assert (result.ending, result.limits.cpus) == (Ending.EXITED, client.info()["NCPU"])


def test_a_path_out_of_the_workspace_is_refused_before_the_engine_sees_it(cage: DockerCage) -> None:
    with pytest.raises(InputError, match=r"'\.\./escape' is refused"):
        cage.run({"../escape": "x"}, ("true",), Limits())


def test_a_worker_that_is_itself_in_a_container_has_its_files_in_the_cage(
    docker_host: str, client: Any
) -> None:
    """The worker's container has the engine's socket and our code, and shares no folder with the cage."""
    libraries = Path(pytest.__file__).parents[1]
    socket = docker_host.removeprefix("unix://")
    worker = client.containers.create(
        default_image(),
        command=["python", "-c", WORKER, docker_host, "print(open('/workspace/a.py').read())", "30"],
        user="0:0",
        network_disabled=True,
        environment={"PYTHONPATH": "/code:/libraries"},
        volumes=[f"{socket}:{socket}", f"{ROOT}/workers:/code/workers:ro", f"{libraries}:/libraries:ro"],
    )
    try:
        worker.start()
        status = worker.wait(timeout=60)["StatusCode"]
        said = worker.logs().decode()
    finally:
        worker.remove(force=True, v=True)

    assert status == 0, said
    assert said.endswith("exited x = 1\n\n")


def test_the_files_of_a_workspace_arrive_as_plain_files_of_root(cage: DockerCage) -> None:
    program = """
import json, os, stat
seen = {}
for folder, _, names in os.walk("/workspace"):
    for name in names:
        path = os.path.join(folder, name)
        info = os.lstat(path)
        seen[path] = [stat.filemode(info.st_mode), info.st_uid, open(path, encoding="utf-8").read()]
print(json.dumps(seen))
"""
    files = {"a.py": "x = 'é'\n", "pkg/mod.py": b"y = 2", "- odd name": ""}

    result = cage.run(files, ("python", "-c", program), Limits(timeout_seconds=30))

    assert isinstance(result, CageResult)
    assert json.loads(result.stdout.tail) == {
        "/workspace/a.py": ["-rw-r--r--", 0, "x = 'é'\n"],
        "/workspace/pkg/mod.py": ["-rw-r--r--", 0, "y = 2"],
        "/workspace/- odd name": ["-rw-r--r--", 0, ""],
    }
