"""Runs of agents as files, small enough to see through: problems, models and outcomes are what a test asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LOOK = ("read_file", {"filePath": "/testbed/pkg/core.py", "startLine": 1, "endLine": 40})
FIX = (
    "replace_string_in_file",
    {
        "command": "str_replace",
        "filePath": "/testbed/pkg/core.py",
        "oldString": "a = 1",
        "newString": "a = 2",
    },
)
CHECK = ("run_in_terminal", {"command": "cd /testbed && pytest tests/test_core.py"})


def search(pattern: str) -> tuple[str, dict[str, Any]]:
    """A step that looks for something; different patterns make different runs."""
    return ("run_in_terminal", {"command": f"grep -rn {pattern} /testbed/pkg"})


def document(
    *steps: tuple[str, dict[str, Any]],
    problem: str | None = "p1",
    model: str | None = "alpha",
    passed: bool | None = True,
    seen: str = "done",
) -> dict[str, Any]:
    """One run in the form of AgentLens-Bench."""
    states: dict[str, Any] = {"state_0": {"log_entry": None}}
    for number, (tool, arguments) in enumerate(steps, start=1):
        thought = {"thought": f"thinking of step {number}"}
        entry = {"tool": tool, "args": arguments | thought, "response_preview": seen}
        tokens = {"input_tokens": 100 * number, "output_tokens": number}
        states[f"state_{number}"] = {"log_entry": entry, "metadata": tokens}
    status = {True: "passed", False: "failed", None: None}[passed]
    metadata = {"task_name": problem, "model_name": model, "pass_fail_status": status}
    return {"initial_state": "state_0", "metadata": metadata, "states": states}


def write_run(path: Path, *steps: tuple[str, dict[str, Any]], **about: Any) -> Path:
    """Write one run; `path` should end in `_pta.json`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document(*steps, **about)))
    return path


def write_cohort(folder: Path) -> Path:
    """Nine runs of two problems and one of none. In p1 four sound passes, a pass that only edits (Lucky) and
    a failure that only looks; in p2 two passes and a failure, scattered over the same folders."""
    for number, (model, pattern) in enumerate(
        [("alpha", "alpha_one"), ("alpha", "alpha_two"), ("beta", "beta_one"), ("beta", "beta_two")]
    ):
        write_run(folder / f"{number}/sound_pta.json", search(pattern), LOOK, FIX, CHECK, model=model)
    write_run(folder / "1/lucky_pta.json", FIX, model="beta")
    write_run(folder / "2/lost_pta.json", LOOK, search("nothing"), model="beta", passed=False)
    for number, model in enumerate(("alpha", "beta")):
        steps = (search(f"second_{number}"), LOOK, FIX, CHECK)
        write_run(folder / f"{number}/second_pta.json", *steps, problem="p2", model=model)
    write_run(folder / "3/second_lost_pta.json", LOOK, problem="p2", passed=False)
    write_run(folder / "3/unknown_pta.json", LOOK, FIX, problem=None, model=None, passed=None)
    return folder
