"""Steps and runs of agents in one line each, for the tests beside this file."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable

from workers.agentlens.assess import Run, prepare
from workers.agentlens.shell import Command, Group, Segment, parse
from workers.agentlens.trajectory import (
    Edit,
    Intent,
    Lines,
    Operation,
    RunOutcome,
    State,
    StateOutcome,
    Trajectory,
)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def view(
    path: str, lines: tuple[int, int] | None = None, *, intent: Intent = Intent.E, **more: object
) -> State:
    return _state(
        "read",
        Operation.VIEW,
        intent,
        digest=_digest("view", path, lines),
        path=path,
        lines=None if lines is None else Lines(start=lines[0], end=lines[1]),
        **more,
    )


def listing(path: str, *, intent: Intent = Intent.E) -> State:
    return _state("list", Operation.LIST, intent, digest=_digest("list", path), path=path)


def edit(
    path: str,
    old: str = "a",
    new: str = "b",
    *,
    at: tuple[int, int] | None = None,
    intent: Intent = Intent.I,
    operation: Operation = Operation.REPLACE,
    outcome: StateOutcome = "ok",
    **more: object,
) -> State:
    anchor = None if at is None else Lines(start=at[0], end=at[1])
    return _state(
        "edit",
        operation,
        intent,
        digest=_digest("edit", path, old, new),
        path=path,
        edits=(Edit(old=old, new=new, anchor=anchor),),
        outcome=outcome,
        **more,
    )


def patch(*changes: tuple[str, str, str], outcome: StateOutcome = "ok", **more: object) -> State:
    """One patch over several files, each change as (path, old, new)."""
    paths = tuple(dict.fromkeys(path for path, _, _ in changes))
    segment = Segment(program="apply_patch", group=Group.WRITE, writes=paths)
    return _state(
        "patch",
        Operation.PATCH,
        Intent.I,
        digest=_digest("patch", *(part for change in changes for part in change)),
        path=paths[0],
        command=Command(text="apply_patch", normal="apply_patch", segments=(segment,), strongest=segment),
        edits=tuple(Edit(old=old, new=new, path=path) for path, old, new in changes),
        outcome=outcome,
        **more,
    )


def undo(path: str) -> State:
    return _state("edit", Operation.UNDO, Intent.I, digest=_digest("undo", path), path=path, outcome="ok")


def shell(
    line: str, *, intent: Intent = Intent.V, outcome: StateOutcome = "ok", seen: str = "", **more: object
) -> State:
    command = parse(line)
    return _state(
        "bash",
        Operation.SHELL,
        intent,
        digest=_digest("shell", command.normal),
        command=command,
        outcome=outcome,
        observation=seen,
        **more,
    )


def think() -> State:
    return _state("think", Operation.THINK, Intent.O, digest=_digest("think"))


def finish() -> State:
    return _state("finish", Operation.FINISH, Intent.O, digest=_digest("finish"))


def _state(tool: str, operation: Operation, intent: Intent, *, digest: str, **more: object) -> State:
    fields: dict[str, object] = {"outcome": "ok", **more}
    return State(
        index=0, tool=tool, operation=operation, content_digest=digest, intent=intent, rule=1, **fields
    )  # type: ignore[arg-type]


def trajectory(
    *states: State,
    name: str = "run",
    outcome: RunOutcome = "passed",
    model: str | None = None,
    problem: str | None = "problem",
) -> Trajectory:
    return Trajectory(
        trajectory_id=name,
        path=f"runs/{name}.json",
        format="test",
        problem=problem,
        model=model,
        outcome=outcome,
        states=tuple(dataclasses.replace(state, index=index) for index, state in enumerate(states)),
    )


def run(*states: State, **more: object) -> Run:
    return prepare(trajectory(*states, **more))  # type: ignore[arg-type]


def intents(letters: str) -> list[Intent]:
    return [Intent(letter) for letter in letters]


def donors(*runs: Iterable[State]) -> list[Run]:
    return [run(*states, name=f"donor-{number}") for number, states in enumerate(runs)]
