"""Codex CLI: session rollouts (`~/.codex/sessions/…/rollout-*.jsonl`) and the events of `codex exec
--json`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from workers.agentlens.formats import results
from workers.agentlens.formats.base import (
    Format,
    Json,
    Source,
    as_object,
    as_text,
    inner,
    join_text,
    line_objects,
    refuse,
    seconds,
    whole,
)
from workers.agentlens.formats.chat import Conversation, Waiting
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.formats.tools import add_call
from workers.agentlens.trajectory import Operation, Trajectory

_ROLLOUT = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted"))
_EXEC = re.compile(r"(?:thread|turn|item)\.\w+$|error$")
# What Codex puts before a command's output; it holds the time taken, which differs from run to run.
_HEADER = re.compile(
    r"(?:(?:Exit code:|Chunk ID:|Wall time:|Original token count:|Total output lines:|Process exited with code"
    r"|Process running with session ID) .*(?:\n|\Z))+(?P<output>Output:(?:\n|\Z))?"
)
_EXITED = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)", re.MULTILINE)
_CALLS = frozenset(("function_call", "custom_tool_call", "local_shell_call"))
_OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output"))
_SILENT_ITEMS = frozenset(("message", "reasoning", "ghost_snapshot", "compaction", "other"))


def sniff_rollout(source: Source) -> bool:
    """JSONL of `{timestamp, type, payload}`."""
    return any(
        "payload" in inner(value) and str(value.get("type")) in _ROLLOUT for _, value in source.lines[:3]
    )


def read_rollout(source: Source) -> Iterator[Trajectory]:
    """The file's one session."""
    records = line_objects(source)
    meta = _first(source, records, "session_meta")
    context = _first(source, records, "turn_context")
    folder = meta.get("cwd") or context.get("cwd")
    session = _Session(source, folder if isinstance(folder, str) else "")
    for where, record in records:
        payload = as_object(source, record.get("payload"), f"{where}.payload")
        if record.get("type") == "response_item":
            session.item(payload, where, record)
        elif payload.get("type") == "token_count":
            session.spend(inner(inner(payload.get("info")).get("last_token_usage")))
    session.finish()
    identifier, model = meta.get("session_id") or meta.get("id"), context.get("model")
    yield Trajectory(
        trajectory_id=str(identifier or source.stem),
        path=source.path,
        format=ROLLOUT.name,
        model=model if isinstance(model, str) else None,
        outcome=results.beside(source, None),
        states=tuple(session.builder.states),
        blind_signals=ROLLOUT.blind_signals,
        warnings=session.builder.warnings,
    )


def _first(source: Source, records: list[tuple[str, dict[str, Json]]], kind: str) -> dict[str, Json]:
    found = ((where, record) for where, record in records if record.get("type") == kind)
    where, record = next(found, ("", {}))
    return as_object(source, record.get("payload"), f"{where}.payload") if record else {}


class _Session:
    """Follows the calls of a session until their outputs come."""

    def __init__(self, source: Source, folder: str) -> None:
        self.source = source
        self.builder = StateBuilder(root=folder, keeps_directory=False)
        self.conversation = Conversation(self.builder, source, "file")
        self.thought: list[str] = []
        self.orphans = 0

    def item(self, payload: dict[str, Json], where: str, record: dict[str, Json]) -> None:
        kind = as_text(self.source, payload.get("type"), f"{where}.payload.type")
        if kind in _CALLS:
            if all(call.answered for call in self.conversation.waiting):
                self.conversation.flush()
            self.conversation.waiting.append(
                _call(self.source, payload, where, record, "\n".join(self.thought))
            )
            self.thought = []
        elif kind in _OUTPUTS:
            text, code = _output(self.source, payload.get("output"))
            found = self.conversation.result(text, str(payload.get("call_id")), exit_code=code)
            self.orphans += not found
        elif kind == "web_search_call":
            seen = Seen(timestamp=seconds(record.get("timestamp")))
            search = Waiting("web_search", inner(payload.get("action")), None, seen, answered=True)
            self.conversation.waiting.append(search)
        elif kind == "reasoning":
            self.thought.append(join_text(payload.get("summary") or []))
        elif kind == "message" and payload.get("role") == "assistant":
            self.thought.append(join_text(payload.get("content") or []))
        elif kind not in _SILENT_ITEMS:
            raise refuse(self.source, f"{where}.payload.type", f"unknown response item {kind!r}")

    def spend(self, usage: dict[str, Json]) -> None:
        """The tokens of the last response belong to its first call."""
        for call in self.conversation.waiting:
            if call.seen.tokens_in is None:
                call.seen.tokens_in = whole(usage.get("input_tokens"))
                call.seen.tokens_out = whole(usage.get("output_tokens"))
                return

    def finish(self) -> None:
        self.conversation.flush()
        if self.orphans:
            self.builder.notices.append(f"{self.orphans} results without their call")


def _call(
    source: Source, payload: dict[str, Json], where: str, record: dict[str, Json], thought: str
) -> Waiting:
    seen = Seen(thought=thought, timestamp=seconds(record.get("timestamp")))
    call_id = str(payload.get("call_id") or payload.get("id"))
    if payload.get("type") == "local_shell_call":
        action = inner(payload.get("action"))
        return Waiting(
            "local_shell",
            {"command": action.get("command"), "workdir": action.get("working_directory")},
            call_id,
            seen,
        )
    name = as_text(source, payload.get("name"), f"{where}.payload.name")
    return Waiting(name, payload.get("arguments", payload.get("input")), call_id, seen)


def _output(source: Source, output: Json) -> tuple[str, int | None]:
    """An output's text and exit code: a text (plain, with a header, or JSON), or a list of text parts."""
    text = join_text(output) if output is not None else ""
    if text.startswith("{"):
        try:
            value = inner(source.decode(text))
        except (ValueError, RecursionError):
            value = {}
        if isinstance(value.get("output"), str):
            return value["output"], whole(inner(value.get("metadata")).get("exit_code"))
    header = _HEADER.match(text)
    if header is None:
        return text, None
    code = _EXITED.search(header[0])
    if code is None and header["output"] is None:
        return text, None
    return text[header.end() :], int(code[1]) if code else None


def sniff_exec(source: Source) -> bool:
    """JSONL of thread, turn and item events."""
    first = [value for _, value in source.lines[:3] if isinstance(value, dict)]
    return bool(first) and all(
        isinstance(value.get("type"), str) and _EXEC.match(value["type"]) for value in first
    )


def read_exec(source: Source) -> Iterator[Trajectory]:
    """The file's one thread."""
    builder = StateBuilder(keeps_directory=False)
    identifier = source.stem
    started: dict[str, tuple[str, dict[str, Json]]] = {}
    for where, record in line_objects(source):
        kind = as_text(source, record.get("type"), f"{where}.type")
        if kind == "thread.started" and isinstance(record.get("thread_id"), str):
            identifier = record["thread_id"]
        elif kind in ("item.started", "item.updated", "item.completed"):
            item = as_object(source, record.get("item"), f"{where}.item")
            started[str(item.get("id"))] = (where, item)
        elif not _EXEC.match(kind):
            raise refuse(source, f"{where}.type", f"unknown event {kind!r}")
    for where, item in started.values():
        _item(source, builder, item, where)
    yield Trajectory(
        trajectory_id=identifier,
        path=source.path,
        format=EXEC.name,
        outcome=results.beside(source, None),
        states=tuple(builder.states),
        blind_signals=EXEC.blind_signals,
        warnings=builder.warnings,
    )


def _item(source: Source, builder: StateBuilder, item: dict[str, Json], where: str) -> None:
    kind = item.get("type", item.get("item_type"))
    if kind == "command_execution":
        seen = Seen(
            text=as_text(source, item.get("aggregated_output"), f"{where}.item.aggregated_output"),
            exit_code=whole(item.get("exit_code")),
        )
        add_call(builder, "exec_command", {"command": item.get("command")}, seen)
    elif kind == "file_change":
        for change in item.get("changes") or []:
            part = inner(change)
            seen = Seen(is_error=item.get("status") == "failed")
            path = as_text(source, part.get("path"), f"{where}.item.changes.path")
            if part.get("kind") == "add":
                builder.create("file_change", path, "", seen)
            else:
                builder.replace("file_change", path, [("", "")], seen)
    elif kind == "mcp_tool_call":
        add_call(
            builder,
            str(item.get("tool")),
            item.get("arguments"),
            Seen(is_error=item.get("status") == "failed"),
        )
    elif kind == "web_search":
        builder.note("web_search", Operation.BROWSE, Seen(), str(item.get("query")))
    elif kind == "todo_list":
        builder.note("update_plan", Operation.PLAN, Seen())
    elif kind not in ("agent_message", "assistant_message", "reasoning", "error"):
        raise refuse(source, f"{where}.item.type", f"unknown item {kind!r}")


ROLLOUT = Format(
    name="codex-rollout", sniff=sniff_rollout, read=read_rollout, blind_signals=("pass or fail of the run",)
)
EXEC = Format(
    name="codex-exec",
    sniff=sniff_exec,
    read=read_exec,
    blind_signals=("pass or fail of the run", "texts of edits", "time stamps", "tokens of a step"),
)
