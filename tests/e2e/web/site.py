"""The real stack behind the browser: `consensus up`, two teams of its own, and a simulator whose reviewers answer one
after the other."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.e2e.conftest import DEADLINE_SECONDS, ROOT, Installation, make_installation, until
from workers.cli.port import free_port

#: What the default team's reviewers wait, by the model that each asks: they arrive in this order.
WAITS = {
    "sim-birch-large": 0.7,
    "sim-cedar-large": 1.4,
    "sim-birch-small": 2.1,
    "sim-cedar-small": 2.8,
    "sim-alder-small": 3.5,
}
#: A reviewer of the team `patient`: while it thinks there is time to do something else.
LONG_SECONDS = 8.0

#: The same reviewers by name, in the order of their arrival.
ARRIVALS = ["rigor", "edges", "safety", "spec", "craft"]

_FAULTS = "rules:\n" + "".join(
    f"  - {{fault: silence, seconds: {seconds}, when: {{model: {model}, role: reviewer}}}}\n"
    for model, seconds in {**WAITS, "sim-alder-large": LONG_SECONDS}.items()
)

#: A team whose third reviewer and whose lead ask a model that nobody has.
FRAGILE = """\
name: fragile
description: a panel with a dead seat and a dead stage
coder: {models: [simulator/sim-alder-large]}
reviewers:
  left: {models: [simulator/sim-birch-large]}
  right: {models: [simulator/sim-cedar-large]}
  ghost: {models: [simulator/no-such-model]}
consensus: {models: [simulator/sim-birch-large]}
lead: {models: [simulator/no-such-model]}
policy: {quorum: {heads: 2, families: 2}}
"""
PATIENT = """\
name: patient
description: a panel of which one takes long
coder: {models: [simulator/sim-cedar-small]}
reviewers:
  left: {models: [simulator/sim-birch-large]}
  right: {models: [simulator/sim-cedar-large]}
  slow: {models: [simulator/sim-alder-large]}
consensus: {models: [simulator/sim-birch-large]}
lead: {models: [simulator/sim-cedar-large]}
policy: {quorum: {heads: 2, families: 2}}
"""
WRONG = FRAGILE.replace("name: fragile", "name: wrong\ncolour: blue").replace("heads: 2", "heads: many")

SPECS = {
    line["id"]: line["spec"]
    for line in map(json.loads, (ROOT / "examples/specs.jsonl").read_text(encoding="utf-8").splitlines())
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A stack that serves."""

    url: str
    installation: Installation

    def submit(self, **body: Any) -> str:
        """A run; its id."""
        answer = httpx.post(f"{self.url}/v1/runs", json=body, timeout=DEADLINE_SECONDS)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def submit_lines(self, lines: list[dict[str, Any]], **options: Any) -> str:
        """A batch; its id."""
        answer = httpx.post(
            f"{self.url}/v1/batches",
            params=options,
            content="\n".join(map(json.dumps, lines)),
            headers={"Content-Type": "application/jsonl"},
            timeout=DEADLINE_SECONDS,
        )
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def cancel(self, run_id: str) -> None:
        httpx.post(f"{self.url}/v1/runs/{run_id}/cancel", timeout=DEADLINE_SECONDS).raise_for_status()

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.url}{path}", timeout=DEADLINE_SECONDS).json()

    def ended(self, path: str) -> None:
        """Wait until the run or batch at `/v1/…` has ended."""
        until(lambda: self.get(path)["finished_at"] is not None, f"{path} does not end")


@contextlib.contextmanager
def serving(**environment: str) -> Iterator[Site]:
    with (
        tempfile.TemporaryDirectory(prefix="consensus-web-", dir="/var/tmp") as folder,
        contextlib.ExitStack() as stack,
    ):
        home = Path(folder)
        (home / "teams").mkdir()
        (home / "teams/fragile.yaml").write_text(FRAGILE, encoding="utf-8")
        (home / "teams/patient.yaml").write_text(PATIENT, encoding="utf-8")
        (home / "teams/wrong.yaml").write_text(WRONG, encoding="utf-8")
        (home / "faults.yaml").write_text(_FAULTS, encoding="utf-8")
        simulator, port = free_port(), free_port()
        made = make_installation(
            home,
            CONSENSUS_TEAMS=str(home / "teams"),
            CONSENSUS_SIMULATOR_URL=f"http://127.0.0.1:{simulator}/v1",
            **environment,
        )
        stack.callback(_end, made)
        speed = ("--latency-seconds", "0.1", "--faults", str(home / "faults.yaml"))
        _start(made, stack, "simulate-llm", "--port", str(simulator), *speed)
        up = _start(made, stack, "up", "--port", str(port))
        until(lambda: "is serving at" in made.output() or up.poll() is not None, "`up` does not serve")
        assert up.poll() is None, made.output()
        yield Site(url=f"http://127.0.0.1:{port}", installation=made)


def _start(made: Installation, stack: contextlib.ExitStack, *arguments: str) -> subprocess.Popen[bytes]:
    process = made.start(*arguments)
    stack.callback(process.wait, timeout=DEADLINE_SECONDS)
    # At once: nobody reads what a clean stop would keep.
    stack.callback(process.kill)
    return process


def _end(made: Installation) -> None:
    """Whatever the killed ones had started."""
    for process in made.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
