"""The `_pta.json` runs of AgentLens-Bench. Only raw tool arguments and observations are read: the labels that
its own tool left beside them (stages, hashes, scopes, effects) are somebody's output."""

from __future__ import annotations

from collections.abc import Iterator

from workers.agentlens.formats.base import (
    Format,
    Json,
    Source,
    as_object,
    as_text,
    inner,
    object_at,
    refuse,
    seconds,
    text_at,
    whole,
)
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.trajectory import Operation, RunOutcome, Trajectory

_OUTCOMES: dict[Json, RunOutcome] = {"passed": "passed", "failed": "failed"}
_EDITED = "The file was edited successfully. "
# The log's writer cut the repository's own prefix off tool paths and kept these.
_ABSOLUTE = tuple(
    f"/{name}/"
    for name in ("agent", "tmp", "workspace", "opt", "usr", "home", "root", "var", "etc", "testbed")
)


def sniff(source: Source) -> bool:
    """A document with states keyed by name, transitions and the run's metadata."""
    document = source.document
    return (
        isinstance(document, dict)
        and "initial_state" in document
        and isinstance(document.get("states"), dict)
    )


def read(source: Source) -> Iterator[Trajectory]:
    """The file's one run."""
    document = as_object(source, source.document, "file")
    metadata = as_object(source, document.get("metadata"), "metadata")
    states = as_object(source, document.get("states"), "states")
    builder = StateBuilder(root="/testbed")
    for key in states:
        state = object_at(source, states, key, ("states",))
        if state.get("log_entry") is not None:
            _call(builder, source, key, state)
    yield Trajectory(
        trajectory_id=source.stem,
        path=source.path,
        format=FORMAT.name,
        problem=as_text(source, metadata.get("task_name"), "metadata.task_name") or None,
        model=as_text(source, metadata.get("model_name"), "metadata.model_name") or None,
        outcome=_OUTCOMES.get(metadata.get("pass_fail_status"), "unknown"),
        states=tuple(builder.states),
        blind_signals=FORMAT.blind_signals,
    )


def _call(builder: StateBuilder, source: Source, key: str, state: dict[str, Json]) -> None:
    entry = object_at(source, state, "log_entry", ("states", key))
    where = ("states", key, "log_entry")
    tool = text_at(source, entry, "tool", where)
    arguments = object_at(source, entry, "args", where)
    inside = ("states", key, "log_entry", "args")
    turn = inner(state.get("metadata"))
    seen = Seen(
        text=text_at(source, entry, "response_preview", where).removeprefix(_EDITED),
        thought=text_at(source, arguments, "thought", inside),
        tokens_in=whole(turn.get("input_tokens")),
        tokens_out=whole(turn.get("output_tokens")),
        timestamp=seconds(turn.get("timestamp")),
    )
    if tool == "run_in_terminal":
        if "command" not in arguments:
            builder.python(tool, text_at(source, arguments, "code", inside), seen)
            return
        command = text_at(source, arguments, "command", inside)
        if arguments.get("is_input") is True or not command:
            builder.keys(tool, command, seen)
        else:
            builder.shell(tool, command, seen)
    elif tool == "think":
        builder.note(tool, Operation.THINK, seen)
    else:
        _file(builder, source, key, tool, arguments=arguments, seen=seen)


def _file(
    builder: StateBuilder, source: Source, key: str, tool: str, *, arguments: dict[str, Json], seen: Seen
) -> None:
    where = ("states", key, "log_entry", "args")
    raw_path = text_at(source, arguments, "filePath", where)
    path = raw_path if raw_path.startswith(_ABSOLUTE) else raw_path.lstrip("/")
    if tool == "read_file":
        start, end = whole(arguments.get("startLine")), whole(arguments.get("endLine"))
        builder.view(tool, path, seen, (start, -1 if end is None else end) if start is not None else None)
    elif tool == "list_dir":
        builder.listing(tool, path, seen)
    elif tool == "create_file":
        builder.create(tool, path, text_at(source, arguments, "content", where), seen)
    elif tool == "replace_string_in_file":
        _edit(builder, source, where, path, arguments=arguments, seen=seen)
    else:
        expected = "expected one of the six tools of AgentLens-Bench"
        raise refuse(source, f"states.{key}.log_entry.tool", f"unknown tool {tool!r}; {expected}")


def _edit(
    builder: StateBuilder,
    source: Source,
    where: tuple[str, ...],
    path: str,
    *,
    arguments: dict[str, Json],
    seen: Seen,
) -> None:
    tool = "replace_string_in_file"
    operation = arguments.get("command")
    old = text_at(source, arguments, "oldString", where)
    new = text_at(source, arguments, "newString", where)
    if operation == "undo_edit":
        builder.undo(tool, path, seen)
    elif operation == "insert":
        builder.insert(tool, path, whole(arguments.get("insert_line")), new, seen)
    elif operation == "str_replace":
        builder.replace(tool, path, [(old, new)], seen)
    else:
        raise refuse(
            source,
            ".".join((*where, "command")),
            f"unknown edit {operation!r}; expected str_replace, insert or undo_edit",
        )


FORMAT = Format(
    name="agentlens-bench",
    sniff=sniff,
    read=read,
    blind_signals=("exit codes", "observations beyond 500 characters", "file contents"),
)
