"""OpenHands before 1.0: the event stream (a list, `history` or `trajectory`, or pairs of action and
observation),
and the lines of its `output.jsonl`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from workers.agentlens.formats import results
from workers.agentlens.formats.base import (
    Format,
    Json,
    Source,
    as_list,
    as_object,
    as_text,
    inner,
    number,
    refuse,
    seconds,
    whole,
)
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.formats.tools import add_call
from workers.agentlens.trajectory import Operation, Trajectory

_UPLOADED = re.compile(r"<uploaded_files>\s*(/\S+)\s*</uploaded_files>")
_SILENT = frozenset(
    [
        "system",
        "message",
        "recall",
        "condensation",
        "condensation_request",
        "change_agent_state",
        "null",
        "pause",
        "resume",
        "stop",
        "loop_recovery",
        "start",
        "initialize",
        "user_rejected",
        "agent_state_changed",
    ]
)
_NOTES = {
    "think": Operation.THINK,
    "finish": Operation.FINISH,
    "reject": Operation.FINISH,
    "task_tracking": Operation.PLAN,
    "browse": Operation.BROWSE,
    "browse_interactive": Operation.BROWSE,
    "delegate": Operation.DELEGATE,
}


def is_event(value: Json) -> bool:
    """Whether a value is an event of this stream."""
    return (
        isinstance(value, dict)
        and ("action" in value or "observation" in value)
        and ("args" in value or "source" in value)
    )


def sniff(source: Source) -> bool:
    """Events, or lines of a benchmark output whose history holds events."""
    rows = [value for _, value in source.lines[:3]] if source.lines else [source.document]
    return any(_events_of(row) is not None for row in rows)


def _events_of(row: Json) -> list[Json] | None:
    if isinstance(row, dict):
        row = row.get("history", row.get("trajectory", [row] if is_event(row) else None))
    if not isinstance(row, list):
        return None
    for item in row[:5]:
        if is_event(item) and "kind" not in item:
            return row
        if isinstance(item, list) and item and is_event(item[0]):
            return row
    return None


def read(source: Source) -> Iterator[Trajectory]:
    """One run a file, or one a line of `output.jsonl`."""
    if source.lines and all(is_event(value) for _, value in source.lines):
        yield _run(source, {}, [value for _, value in source.lines], "file", source.stem)
    elif source.lines:
        for line, value in source.lines:
            row = as_object(source, value, f"line {line}")
            yield _row(source, row, f"line {line}: ", len(source.lines) > 1 or source.number is not None)
    elif isinstance(source.document, list):
        yield _run(source, {}, source.document, "file", source.stem)
    else:
        yield _row(source, as_object(source, source.document, "file"), "", several=False)


def _row(source: Source, row: dict[str, Json], prefix: str, several: bool) -> Trajectory:
    name = "history" if "history" in row else "trajectory"
    if "history" not in row and "trajectory" not in row and is_event(row):
        return _run(source, {}, [row], "file", source.stem)
    events = as_list(source, row.get(name), f"{prefix}{name}")
    instance = row.get("instance_id")
    attempt = whole(row.get("attempt"))
    identifier = (
        f"{instance}#{attempt}" if attempt is not None else str(instance) if instance else source.stem
    )
    return _run(source, row, events, f"{prefix}{name}", identifier if several or instance else source.stem)


def _run(source: Source, row: dict[str, Json], items: list[Json], where: str, identifier: str) -> Trajectory:
    events = list(_flat(source, items, where))
    reader = _Reader(source, StateBuilder(root=_root(row, events)))
    answers: dict[int, tuple[str, dict[str, Json]]] = {}
    for position, event in events:
        if "observation" in event and whole(event.get("cause")) is not None:
            answers.setdefault(int(event["cause"]), (position, event))
    following = [event for _, event in events[1:]] + [{}]
    for (position, event), after in zip(events, following, strict=True):
        if "action" in event:
            reader.action(event, position, _answer(event, after, answers))
    metadata, instance = inner(row.get("metadata")), row.get("instance_id")
    problem = instance if isinstance(instance, str) else None
    model = inner(metadata.get("llm_config")).get("model") or reader.model
    outcome = results.from_report(row, problem)
    return Trajectory(
        trajectory_id=identifier,
        path=source.path,
        format=FORMAT.name,
        problem=problem,
        model=model if isinstance(model, str) else None,
        outcome=outcome if outcome != "unknown" else results.beside(source, problem),
        states=tuple(reader.builder.states),
        cost_usd=number(inner(row.get("metrics")).get("accumulated_cost")),
        blind_signals=FORMAT.blind_signals,
        warnings=reader.builder.warnings,
    )


def _flat(source: Source, items: list[Json], where: str) -> Iterator[tuple[str, dict[str, Json]]]:
    """The events in order; logs before 2025 hold [action, observation] pairs without ids."""
    for number_, item in enumerate(items):
        position = f"{where}[{number_}]"
        if isinstance(item, list):
            for part, event in enumerate(item[:2]):
                yield f"{position}[{part}]", as_object(source, event, f"{position}[{part}]")
        else:
            event = as_object(source, item, position)
            if "action" not in event and "observation" not in event and "message" not in event:
                raise refuse(source, position, "expected an event with an action or an observation")
            yield position, event


def _answer(
    event: dict[str, Json], after: dict[str, Json], answers: dict[int, tuple[str, dict[str, Json]]]
) -> dict[str, Json]:
    own = whole(event.get("id"))
    if own is not None and own in answers:
        return answers[own][1]
    return after if "observation" in after and whole(after.get("cause")) is None else {}


def _root(row: dict[str, Json], events: list[tuple[str, dict[str, Json]]]) -> str:
    texts = [row.get("instruction"), *(event.get("message") for _, event in events[:4])]
    for text in texts:
        match = _UPLOADED.search(text) if isinstance(text, str) else None
        if match:
            return match[1].rstrip("/")
    return "/workspace" if not row else ""


class _Reader:
    def __init__(self, source: Source, builder: StateBuilder) -> None:
        self.source = source
        self.builder = builder
        self.model: str | None = None
        self.spent = (0, 0)
        self.counted: set[str] = set()

    def action(self, event: dict[str, Json], position: str, answer: dict[str, Json]) -> None:
        kind = as_text(self.source, event.get("action"), f"{position}.action")
        arguments = inner(event.get("args"))
        if (
            kind in _SILENT
            or arguments.get("hidden") is True
            or event.get("source") in ("user", "environment")
        ):
            return
        seen = self._seen(event, arguments, answer, position)
        if kind == "run":
            command = as_text(self.source, arguments.get("command"), f"{position}.args.command")
            name = "execute_bash"
            if arguments.get("is_input") is True or not command.strip():
                self.builder.keys(name, command, seen)
            else:
                self.builder.shell(name, command, seen)
        elif kind == "run_ipython":
            self.builder.python(
                kind, as_text(self.source, arguments.get("code"), f"{position}.args.code"), seen
            )
        elif kind in ("read", "edit", "write"):
            self._file(kind, arguments, answer, seen, position)
        elif kind in _NOTES:
            self.builder.note(kind, _NOTES[kind], seen, str(arguments.get("url", "")))
        elif kind == "call_tool_mcp":
            add_call(self.builder, str(arguments.get("name")), arguments.get("arguments"), seen)
        else:
            self.builder.other(kind, "", seen)

    def _seen(
        self, event: dict[str, Json], arguments: dict[str, Json], answer: dict[str, Json], position: str
    ) -> Seen:
        extras = inner(answer.get("extras"))
        code = whole(inner(extras.get("metadata")).get("exit_code", extras.get("exit_code")))
        response = inner(inner(event.get("tool_call_metadata")).get("model_response"))
        if isinstance(response.get("model"), str):
            self.model = response["model"]
        usage = inner(response.get("usage"))
        tokens_in, tokens_out = whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens"))
        if tokens_in is not None and isinstance(response.get("id"), str):
            if response["id"] in self.counted:  # one of several calls of a response, which each repeat it
                tokens_in, tokens_out = 0, 0
            self.counted.add(response["id"])
        total = inner(inner(event.get("llm_metrics")).get("accumulated_token_usage"))
        if tokens_in is None and total:
            spent = whole(total.get("prompt_tokens")) or 0, whole(total.get("completion_tokens")) or 0
            tokens_in, tokens_out = max(spent[0] - self.spent[0], 0), max(spent[1] - self.spent[1], 0)
            self.spent = spent
        thought = arguments.get("thought")
        return Seen(
            text=as_text(self.source, answer.get("content"), f"{position}: its observation's content"),
            exit_code=code if code is not None and code >= 0 else None,
            is_error=True if answer.get("observation") == "error" else None,
            thought=thought if isinstance(thought, str) else "",
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            timestamp=seconds(event.get("timestamp")),
        )

    def _file(
        self, kind: str, arguments: dict[str, Json], answer: dict[str, Json], seen: Seen, position: str
    ) -> None:
        path = as_text(self.source, arguments.get("path"), f"{position}.args.path")
        extras = inner(answer.get("extras"))
        said = extras.get("formatted_output_and_error")
        if isinstance(said, str) and seen.is_error is None:
            seen.text = said
        given = arguments if arguments.get("command") else {**arguments, **_editor_arguments(arguments)}
        command = given.get("command")
        if kind == "read" or command == "view":
            span, start = given.get("view_range"), whole(given.get("start"))
            if span is None and start is not None and start > 1:
                span = [start, given.get("end")]
            add_call(self.builder, "read_file", {"path": path, "view_range": span}, seen)
        elif kind == "write" or command in (None, "create"):
            self.builder.create(kind, path, _written(given, extras), seen)
        elif command in ("str_replace", "insert", "undo_edit"):
            add_call(self.builder, "str_replace_editor", given, seen)
        else:
            raise refuse(self.source, f"{position}.args.command", f"unknown edit {command!r}")


def _written(given: dict[str, Json], extras: dict[str, Json]) -> str:
    candidates = (given.get("file_text"), given.get("content") or None, extras.get("new_content"))
    return next((value for value in candidates if isinstance(value, str)), "")


_HIDDEN_CALL = re.compile(r"file_editor\(\*\*(\{.*\})\)", re.DOTALL)


def _editor_arguments(arguments: dict[str, Json]) -> dict[str, Json]:
    """Early logs kept the editor's arguments only as the Python call they were translated to."""
    code = arguments.get("translated_ipython_code")
    match = _HIDDEN_CALL.search(code) if isinstance(code, str) else None
    if match is None:
        return {}
    try:
        return inner(ast.literal_eval(match[1]))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {}


def is_run(record: Json) -> bool:
    """Whether a record is a line of `output.jsonl`."""
    return isinstance(record, dict) and ("history" in record or "trajectory" in record)


FORMAT = Format(name="openhands-v0", sniff=sniff, read=read, is_run=is_run)
