"""Cages for tests that need none: one that is not there, and one that computes reports instead of running anything."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from workers.sandbox.base import (
    CageResult,
    Ending,
    Limits,
    Output,
    Reason,
    Unprovable,
    Workspace,
)

#: (workspace, path of a file of tests) → the cases of one repeat, as the keeper reports them.
Runs = Callable[[Workspace, str], dict[str, Any]]


class NoCage:
    """There is no engine."""

    def run(self, workspace: Workspace, command: Sequence[str], limits: Limits) -> CageResult | Unprovable:
        return self.check()

    def check(self) -> Unprovable:
        return Unprovable(reason=Reason.NO_ENGINE, sentence="no sandbox: no Docker engine answers")


@dataclasses.dataclass
class TestsCage:
    """A cage in memory: `runs` says how each file of tests ends over a workspace. Remembers every workspace."""

    __test__ = False

    runs: Runs
    seen: list[Workspace] = dataclasses.field(default_factory=list)

    def run(self, workspace: Workspace, command: Sequence[str], limits: Limits) -> CageResult | Unprovable:
        self.seen.append(workspace)
        plan = json.loads(command[-1])
        report = {
            path: [self.runs(workspace, path) for _ in range(repeats)]
            for path, repeats in plan["repeats"].items()
        }
        return result(json.dumps(report).encode(), limits)

    def check(self) -> Unprovable | None:
        return None


def result(
    stdout: bytes, limits: Limits, *, exit_code: int = 0, ending: Ending = Ending.EXITED
) -> CageResult:
    return CageResult(
        ending=ending,
        exit_code=exit_code,
        oom_killed=False,
        duration_seconds=0.01,
        stdout=_output(stdout),
        stderr=_output(b""),
        image_digest="sha256:none",
        limits=limits,
    )


def _output(data: bytes) -> Output:
    return Output(tail=data, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def passed(*names: str) -> dict[str, Any]:
    return {
        "told": "reported",
        "cases": [{"name": name, "outcome": "passed"} for name in names],
        "has_reached": True,
    }


def failed(*names: str, message: str = "assert 1 == 2") -> dict[str, Any]:
    cases = [
        {
            "name": name,
            "outcome": "failed",
            "error": "AssertionError",
            "message": message,
            "raised_in": "consensus_gate/test_claim.py",
        }
        for name in names
    ]
    return {"told": "reported", "cases": cases, "has_reached": True}
