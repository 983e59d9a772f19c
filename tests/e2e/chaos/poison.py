"""A run that is the death of every worker that takes it up. It must not take them all with it, one after the other."""

from __future__ import annotations

import dataclasses
import time

from tests.e2e.chaos.site import Site, answers
from tests.e2e.chaos.watch import Watch
from workers.cli.client import Client

_LOOK_SECONDS = 0.01


@dataclasses.dataclass(frozen=True, slots=True)
class Poison:
    """How it ended: its outcome, the codes and causes of its reasons, and the workers it cost."""

    outcome: str
    reasons: tuple[tuple[str, str], ...]
    workers_killed: int

    def __str__(self) -> str:
        reasons = ", ".join(f"{code} ({cause})" for code, cause in self.reasons)
        return f"{self.outcome}: {reasons}, after {self.workers_killed} killed workers"


def chase(site: Site, watch: Watch, *, seconds: float) -> Poison:
    """Submit a run and kill whichever worker has a seat of it, until it ends. Raises: AssertionError if it does not."""
    # The last fault of the play may have been the API's end.
    site.until(lambda: answers(f"{site.url}/readyz"), "the API does not answer", seconds=seconds)
    with Client(site.url) as client:
        run_id = client.create_run({"spec": "The death of workers.", "team": "chaos"})["id"]
        killed = 0
        deadline = time.monotonic() + seconds
        while not (run := client.run(run_id))["outcome"]:
            assert time.monotonic() < deadline, f"the poison run {run_id} has not ended: {run}"
            for seat in watch.held():
                worker = site.worker_of(seat.owner) if seat.run_id == run_id else None
                if worker is not None:
                    site.kill(worker)
                    killed += 1
                    break
            time.sleep(_LOOK_SECONDS)
    reasons = tuple((reason["code"], reason.get("cause") or "") for reason in run["verdict"]["reasons"])
    return Poison(run["outcome"], reasons, killed)
