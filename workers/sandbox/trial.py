"""One run of tests in a cage: which files go in, and what their report says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from workers.core.artefact import Files, Span
from workers.core.proof import GATE_FOLDER, TEST_PATH, CageRun, FileRun, TestCase, Told
from workers.sandbox.base import Cage, CageResult, Ending, Limits, Unprovable

#: A test that fails one time in two ends the same way in all of two cages and this many repeats in one case of 16,384.
REPEATS = 4
#: What the keeper needs beside the tests themselves.
_KEEPER_SECONDS = 3.0


def _text(name: str) -> str:
    return files("workers.sandbox").joinpath(name).read_text(encoding="utf-8")


#: In the cage there is no package of ours: the keeper brings the one module that it imports.
_KEEPER = f"""import sys, types
seal = sys.modules["workers.sandbox.caged_seal"] = types.ModuleType("workers.sandbox.caged_seal")
exec(compile({_text("caged_seal.py")!r}, "/opt/cage/seal.py", "exec"), vars(seal))
exec(compile({_text("caged_pytest.py")!r}, "/opt/cage/keeper.py", "exec"))
"""

Short = Annotated[str, Field(max_length=4000)]


class _Case(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Short
    outcome: Literal["passed", "failed", "error", "skipped"]
    error: Short = ""
    message: Short = ""
    raised_in: Short = ""
    trace: tuple[tuple[Short, int], ...] = ()


class _Run(BaseModel):
    model_config = ConfigDict(extra="forbid")

    told: Told
    cases: list[_Case] = []
    has_reached: bool | None = None


def run_tests(
    cage: Cage,
    code: Files,
    tests: Mapping[str, str],
    limits: Limits,
    *,
    watch: Span | None = None,
) -> tuple[CageRun, CageResult] | Unprovable:
    """Run files of tests over the code in one fresh cage: deciding tests `REPEATS` times, guard tests once.

    The code may bring no file of the tests' names: theirs are on top. `watch`: lines of which the deciding test says
    whether it reached them. Raises: InputError, CageError, as the cage does.
    """
    repeats = {path: REPEATS if path.startswith(GATE_FOLDER) else 1 for path in tests}
    plan = {
        "repeats": repeats,
        # Every repeat of every file could hang; the cage's own limit comes after all of them.
        "seconds": round(max(0.5, (limits.timeout_seconds - _KEEPER_SECONDS) / sum(repeats.values())), 2),
        "watch": None if watch is None else {"path": watch.path, "start": watch.start, "end": watch.end},
        "watched_by": TEST_PATH,
    }
    result = cage.run({**_tested(code), **tests}, ("python", "-P", "-c", _KEEPER, json.dumps(plan)), limits)
    if isinstance(result, Unprovable):
        return result
    return read_report(result, repeats), result


def _tested(code: Files) -> dict[str, str]:
    """The code without what an interpreter would take for its own compilation of something else."""
    return {
        path: text
        for path, text in code.items()
        if not path.startswith(GATE_FOLDER) and not path.endswith((".pyc", ".so"))
    }


def read_report(result: CageResult, repeats: Mapping[str, int]) -> CageRun:
    """What the keeper said. Anything but its one whole line, with an exit code of 0, is no report."""
    if result.ending is not Ending.EXITED:
        return CageRun(problem=f"the cage ended with {result.ending.value.replace('_', ' ')}")
    if result.exit_code != 0 or result.stdout.truncated:
        return CageRun(problem=f"the keeper of the tests ended with exit code {result.exit_code}")
    try:
        runs = _whole(json.loads(result.stdout.tail), repeats)
    except (ValueError, KeyError, TypeError):
        runs = None
    return CageRun(files=runs) if runs else CageRun(problem="what the cage wrote is not its keeper's report")


def _whole(report: Any, repeats: Mapping[str, int]) -> dict[str, tuple[FileRun, ...]] | None:
    """Every file with every repeat and nothing else. Raises: ValueError, KeyError, TypeError for another shape."""
    runs = {path: tuple(_file_run(_Run.model_validate(item)) for item in report[path]) for path in repeats}
    is_whole = set(report) == set(repeats) and all(len(runs[path]) == repeats[path] for path in repeats)
    return runs if is_whole else None


def _file_run(run: _Run) -> FileRun:
    return FileRun(
        told=run.told,
        cases=tuple(TestCase(**case.model_dump()) for case in run.cases),
        has_reached=run.has_reached,
    )
