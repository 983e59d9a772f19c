"""What the cage costs beside a bare `docker run` of the same image.

    python benchmarks/cage.py [--runs 20] [--host unix:///var/run/docker.sock]

Rows are measured in turn, one run of each after the other, so that a busy machine slows all of them alike: the ratio
means something there, absolute times do not. The engine must have the image of `consensus sandbox build`.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from rich.console import Console
from rich.table import Table

from workers import log
from workers.sandbox.base import PYTEST, CageResult, Limits, Workspace
from workers.sandbox.docker import DockerCage
from workers.sandbox.engine import connector
from workers.sandbox.recipe import default_image
from workers.settings import environment, load

NOTHING = ("python", "-c", "pass")
FILES = {"code.py": "def add(a, b):\n    return a + b\n", "test_code.py": "def test_it():\n    assert True\n"}
TESTS = (*PYTEST, "-q", "test_code.py")
LIMITS = Limits(timeout_seconds=60)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20, help="how often each row is measured")
    parser.add_argument(
        "--host", help="the engine; default: CONSENSUS_DOCKER_HOST, DOCKER_HOST or the local socket"
    )
    options = parser.parse_args()
    log.configure("ERROR", as_json=False)
    host = options.host or load().docker_host
    cage = DockerCage(connector(host, environment()))
    refused = cage.check()
    if refused is not None:
        sys.exit(refused.sentence)
    rows = _rows(cage, host)
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(options.runs):
        for name, once in rows.items():
            began = time.perf_counter()
            once()
            seconds[name].append(time.perf_counter() - began)
    _print(seconds, cage, options.runs)
    cage.close()
    return 0


def _rows(cage: DockerCage, host: str | None) -> dict[str, Callable[[], object]]:
    rows: dict[str, Callable[[], object]] = {}
    docker = shutil.which("docker")
    if docker is not None:
        where = ["--host", host] if host else []
        bare = [docker, *where, "run", "--rm", "--network", "none", default_image(), *NOTHING]
        rows["docker run, python -c pass"] = lambda: subprocess.run(bare, check=True)
    rows["cage, python -c pass"] = lambda: _run(cage, {}, NOTHING)
    rows["cage, two files, python -c pass"] = lambda: _run(cage, FILES, NOTHING)
    rows["cage, two files, pytest"] = lambda: _run(cage, FILES, TESTS)
    return rows


def _run(cage: DockerCage, files: Workspace, command: tuple[str, ...]) -> None:
    result = cage.run(files, command, LIMITS)
    assert isinstance(result, CageResult)
    assert result.exit_code == 0, result.stdout.text + result.stderr.text


def _print(seconds: dict[str, list[float]], cage: DockerCage, runs: int) -> None:
    base = statistics.median(next(iter(seconds.values())))
    table = Table("measurement", "median", "slowest", "ratio", title=f"{runs} runs each, one at a time")
    for name, measured in seconds.items():
        median = statistics.median(measured)
        table.add_row(
            name, f"{median * 1000:.0f} ms", f"{max(measured) * 1000:.0f} ms", f"{median / base:.2f}"
        )
    console = Console()
    console.print(table)
    for at_once in (1, 2, 4):
        began = time.perf_counter()
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(lambda _: _run(cage, FILES, TESTS), range(8)))
        console.print(
            f"pytest, {at_once} asked for at once: {8 / (time.perf_counter() - began):.2f} runs a second"
        )


if __name__ == "__main__":
    sys.exit(main())
