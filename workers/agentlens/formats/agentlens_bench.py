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
    refuse,
    seconds,
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
    for key, state in states.items():
        entry = as_object(source, state, f"states.{key}").get("log_entry")
        if entry is not None:
            _call(
                builder,
                source,
                key,
                as_object(source, entry, f"states.{key}.log_entry"),
                state.get("metadata"),
            )
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


def _call(builder: StateBuilder, source: Source, key: str, entry: dict[str, Json], about: Json) -> None:
    where = f"states.{key}.log_entry"
    tool = as_text(source, entry.get("tool"), f"{where}.tool")
    arguments = as_object(source, entry.get("args"), f"{where}.args")
    text = as_text(source, entry.get("response_preview"), f"{where}.response_preview")
    turn = about if isinstance(about, dict) else {}
    seen = Seen(
        text=text.removeprefix(_EDITED),
        thought=as_text(source, arguments.get("thought"), f"{where}.args.thought"),
        tokens_in=whole(turn.get("input_tokens")),
        tokens_out=whole(turn.get("output_tokens")),
        timestamp=seconds(turn.get("timestamp")),
    )
    if tool == "run_in_terminal":
        command = arguments.get("command")
        if command is None:
            builder.python(tool, as_text(source, arguments.get("code"), f"{where}.args.code"), seen)
        elif arguments.get("is_input") is True or not command:
            builder.keys(tool, as_text(source, command, f"{where}.args.command"), seen)
        else:
            builder.shell(tool, as_text(source, command, f"{where}.args.command"), seen)
        return
    if tool == "think":
        builder.note(tool, Operation.THINK, seen)
        return
    raw_path = as_text(source, arguments.get("filePath"), f"{where}.args.filePath")
    path = raw_path if raw_path.startswith(_ABSOLUTE) else raw_path.lstrip("/")
    if tool == "read_file":
        start, end = whole(arguments.get("startLine")), whole(arguments.get("endLine"))
        builder.view(tool, path, seen, (start, -1 if end is None else end) if start is not None else None)
    elif tool == "list_dir":
        builder.listing(tool, path, seen)
    elif tool == "create_file":
        builder.create(tool, path, as_text(source, arguments.get("content"), f"{where}.args.content"), seen)
    elif tool == "replace_string_in_file":
        _edit(builder, source, where, path, arguments=arguments, seen=seen)
    else:
        raise refuse(
            source,
            f"{where}.tool",
            f"unknown tool {tool!r}; expected one of the six tools of AgentLens-Bench",
        )


def _edit(
    builder: StateBuilder, source: Source, where: str, path: str, *, arguments: dict[str, Json], seen: Seen
) -> None:
    tool = "replace_string_in_file"
    operation = arguments.get("command")
    old = as_text(source, arguments.get("oldString"), f"{where}.args.oldString")
    new = as_text(source, arguments.get("newString"), f"{where}.args.newString")
    if operation == "undo_edit":
        builder.undo(tool, path, seen)
    elif operation == "insert":
        builder.insert(tool, path, whole(arguments.get("insert_line")), new, seen)
    elif operation == "str_replace":
        builder.replace(tool, path, [(old, new)], seen)
    else:
        raise refuse(
            source,
            f"{where}.args.command",
            f"unknown edit {operation!r}; expected str_replace, insert or undo_edit",
        )


FORMAT = Format(
    name="agentlens-bench",
    sniff=sniff,
    read=read,
    blind_signals=("exit codes", "observations beyond 500 characters", "file contents"),
)
