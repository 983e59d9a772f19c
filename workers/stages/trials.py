"""Runs of tests in the cage as stages ask for them: the team's limits, one more try, and what is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from workers.core.artefact import Files, Span
from workers.core.proof import CageRun, guards
from workers.core.run import Stage
from workers.core.team import Team
from workers.errors import CageError, InputError
from workers.sandbox.base import MIB, CageResult, Limits, Unprovable
from workers.sandbox.trial import run_tests
from workers.stages.context import Context
from workers.stages.seat import Work

#: How often a program is tried (PANEL §4), each time in a fresh cage.
CAGES = 2
#: Of what a run wrote, this much is kept.
_TAIL_CHARACTERS = 400


class NoCageError(Exception):
    """There is no cage, or it failed twice. `reason` is a closed word."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The runs over one version of the code, and what the ledger keeps of them."""

    runs: tuple[CageRun, ...]
    kept: tuple[dict[str, Any], ...]

    @property
    def seconds(self) -> float:
        return float(round(sum(item["duration_seconds"] for item in self.kept), 3))


def limits_of(team: Team, *, patience: int = 1) -> Limits:
    """`patience`: that many times the team's own time."""
    return Limits(
        timeout_seconds=team.sandbox.timeout_seconds * patience,
        memory_bytes=team.sandbox.memory_mb * MIB,
    )


def try_out(
    work: Work,
    name: str,
    code: Files,
    tests: Mapping[str, str],
    *,
    watch: Span | None = None,
    cages: int = CAGES,
    patience: int = 1,
) -> Trial:
    """Run the tests over the code in `cages` fresh cages. `name` says in the record what the code was.

    Raises: NoCageError.
    """
    limits = limits_of(work.team, patience=patience)
    done = [_once(work.context, code, tests, limits, watch) for _ in range(cages)]
    return Trial(
        runs=tuple(run for run, _ in done), kept=tuple(_kept(name, run, result) for run, result in done)
    )


def _once(
    context: Context, code: Files, tests: Mapping[str, str], limits: Limits, watch: Span | None
) -> tuple[CageRun, CageResult]:
    failure = ""
    for _ in range(2):
        try:
            tried = run_tests(context.cage, code, tests, limits, watch=watch)
        except InputError as error:
            raise NoCageError("unfit_workspace", str(error)) from error
        except CageError as error:
            failure = str(error)
            continue
        if isinstance(tried, Unprovable):
            raise NoCageError("no_sandbox", tried.sentence)
        return tried
    raise NoCageError("cage_failed", failure)


def _kept(name: str, run: CageRun, result: CageResult) -> dict[str, Any]:
    return {
        "on": name,
        "image_digest": result.image_digest,
        "limits": result.limits.as_data(),
        "ending": result.ending,
        "exit_code": result.exit_code,
        "duration_seconds": round(result.duration_seconds, 3),
        "stdout": {"sha256": result.stdout.sha256, "size_bytes": result.stdout.size_bytes},
        "stderr": {
            "sha256": result.stderr.sha256,
            "size_bytes": result.stderr.size_bytes,
            "tail": result.stderr.text[-_TAIL_CHARACTERS:],
        },
        "problem": run.problem,
        "files": {path: [dataclasses.asdict(repeat) for repeat in runs] for path, runs in run.files.items()},
    }


def guard_tests(work: Work) -> dict[str, str]:
    """The submitted and the coder's tests: what must stay green."""
    return guards(work.results[Stage.CODER, "coder"]["tests"], work.material.tests)
