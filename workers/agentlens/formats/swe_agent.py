"""SWE-agent's `.traj`: steps of action and observation, with the state as an object (1.x) or JSON text (0.x).
A file with only a `history` (a demonstration) is read from its messages."""

from __future__ import annotations

from collections.abc import Iterator

from workers.agentlens.formats import results
from workers.agentlens.formats.aci import AciSession
from workers.agentlens.formats.base import (
    Format,
    Json,
    Source,
    as_list,
    as_object,
    as_text,
    inner,
    join_text,
    number,
)
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.trajectory import Trajectory


def sniff(source: Source) -> bool:
    """An object with `trajectory` steps that have actions, or only SWE-agent's `history`."""
    document = source.document
    if not isinstance(document, dict):
        return False
    steps = document.get("trajectory")
    if isinstance(steps, list):
        return "info" in document and all(isinstance(step, dict) and "action" in step for step in steps[:1])
    history = document.get("history")
    return isinstance(history, list) and any(
        isinstance(item, dict) and "agent" in item for item in history[:3]
    )


def read(source: Source) -> Iterator[Trajectory]:
    """The file's one run."""
    document = as_object(source, source.document, "file")
    steps = document.get("trajectory")
    if steps is None:
        pairs = list(_history(source, as_list(source, document.get("history"), "history")))
    else:
        pairs = list(_steps(source, as_list(source, steps, "trajectory")))
    root = next((folder for _, _, _, folder in pairs if folder), "")
    builder = StateBuilder(root=root)
    session = AciSession(builder)
    for action, seen, open_file, _ in pairs:
        session.add(action, seen, open_file)
    info = inner(document.get("info"))
    stats = inner(info.get("model_stats"))
    problem = source.stem
    yield Trajectory(
        trajectory_id=source.stem,
        path=source.path,
        format=FORMAT.name,
        problem=problem,
        outcome=results.beside(source, problem),
        states=tuple(builder.states),
        cost_usd=number(stats.get("instance_cost")),
        blind_signals=FORMAT.blind_signals,
        warnings=builder.warnings,
    )


Step = tuple[str, Seen, str, str]


def _steps(source: Source, steps: list[Json]) -> Iterator[Step]:
    for position, item in enumerate(steps):
        where = f"trajectory[{position}]"
        step = as_object(source, item, where)
        action = as_text(source, step.get("action"), f"{where}.action")
        seen = Seen(
            text=as_text(source, step.get("observation"), f"{where}.observation"),
            thought=as_text(source, step.get("thought"), f"{where}.thought"),
        )
        state = step.get("state")
        if isinstance(state, str):
            try:
                state = source.decode(state) if state.strip() else {}
            except (ValueError, RecursionError):
                state = {}
        state = state if isinstance(state, dict) else {}
        open_file, folder = state.get("open_file"), state.get("working_dir")
        yield (
            action,
            seen,
            open_file if isinstance(open_file, str) else "",
            folder if isinstance(folder, str) else "",
        )


def _history(source: Source, history: list[Json]) -> Iterator[Step]:
    waiting: tuple[str, str] | None = None
    for position, item in enumerate(history):
        message = as_object(source, item, f"history[{position}]")
        if message.get("is_demo") is True:
            continue
        if message.get("role") == "assistant":
            if waiting is not None:
                yield waiting[0], Seen(thought=waiting[1]), "", ""
            action = as_text(source, message.get("action"), f"history[{position}].action")
            waiting = (action, as_text(source, message.get("thought"), f"history[{position}].thought"))
        elif waiting is not None:
            text = join_text(message.get("content"))
            folder = (
                text.rpartition("(Current directory: ")[2].partition(")")[0]
                if "(Current directory: " in text
                else ""
            )
            yield waiting[0], Seen(text=text, thought=waiting[1]), "", folder
            waiting = None
    if waiting is not None:
        yield waiting[0], Seen(thought=waiting[1]), "", ""


FORMAT = Format(
    name="swe-agent", sniff=sniff, read=read, blind_signals=("exit codes", "time stamps", "tokens of a step")
)
