"""Chat messages with tool calls: rows of public data sets, Harbor's trace export, plain message lists."""

from __future__ import annotations

import dataclasses
import re
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
    refuse,
    whole,
)
from workers.agentlens.formats.seen import Seen, count_once
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.formats.textcalls import calls_in, fenced_commands
from workers.agentlens.formats.tools import add_call
from workers.agentlens.trajectory import RunOutcome, Trajectory

_MESSAGE_COLUMNS = ("messages", "trajectory", "conversations", "conversation")
UPLOADED = re.compile(r"<uploaded_files>\s*(/\S+)\s*</uploaded_files>")
RETURNED = re.compile(r"<returncode>(-?\d+)</returncode>\s*(?:<output>\n?(.*?)\n?</output>)?", re.DOTALL)
_SWE_AGENT_PROMPT = "(Open file:"


@dataclasses.dataclass(slots=True)
class Waiting:
    """A call that waits for its result."""

    name: str
    arguments: Json
    call_id: str | None
    seen: Seen
    answered: bool = False


class Conversation:
    """Turns messages into states: results are paired by call id, else by order, else shared by a
    turn's calls."""

    def __init__(self, builder: StateBuilder, source: Source, where: str) -> None:
        self.builder = builder
        self.source = source
        self.where = where
        self.waiting: list[Waiting] = []

    def assistant(self, calls: list[Waiting]) -> None:
        """The next turn of the model begins: what still waits will get no result."""
        self.flush()
        self.waiting = calls

    def result(
        self, text: str, call_id: str | None, *, exit_code: int | None = None, is_error: bool | None = None
    ) -> bool:
        """A result came; False if nothing waits for it."""
        open_calls = [call for call in self.waiting if not call.answered]
        chosen = [call for call in open_calls if call_id is not None and call.call_id == call_id][:1]
        if not chosen:
            anonymous = [call for call in open_calls if call.call_id is None or call_id is None]
            chosen = anonymous[:1] if call_id is not None else anonymous
        for call in chosen:
            call.seen.text, call.seen.exit_code, call.seen.is_error = text, exit_code, is_error
            call.answered = True
        return bool(chosen)

    def flush(self) -> None:
        """Adds the states of the turn."""
        for call in self.waiting:
            self.add(call)
        self.waiting = []

    def add(self, call: Waiting) -> None:
        """Adds one call's state."""
        add_call(self.builder, call.name, call.arguments, call.seen)


class AciConversation(Conversation):
    """A conversation whose calls are SWE-agent's text commands."""

    def __init__(self, builder: StateBuilder, source: Source, where: str) -> None:
        super().__init__(builder, source, where)
        self.session = AciSession(builder)

    def add(self, call: Waiting) -> None:
        """Adds one command's state."""
        self.session.add(str(call.arguments), call.seen)


def read_messages(conversation: Conversation, messages: list[Json], *, fenced: bool = False) -> None:
    """Reads a list of `role`/`content` messages. With `fenced`, a turn without calls runs its fenced
    commands."""
    source, where = conversation.source, conversation.where
    orphans = 0
    for position, item in enumerate(messages):
        at = f"{where}[{position}]"
        message = as_object(source, item, at)
        role = message.get("role")
        if role in ("assistant", "ai"):
            calls = _calls(source, message, at, fenced)
            count_once([call.seen for call in calls])
            conversation.assistant(calls)
        elif role in ("tool", "function") or message.get("type") == "function_call_output":
            ids = message.get("tool_call_ids")
            call_id = message.get("tool_call_id") or (ids[0] if isinstance(ids, list) and ids else None)
            text = _content(message).removeprefix("OBSERVATION:\n")
            orphans += not conversation.result(text, call_id if isinstance(call_id, str) else None)
        elif role in ("user", "human", "environment"):
            _environment(conversation, message)
        elif role not in ("system", "developer", "exit"):
            raise refuse(source, f"{at}.role", f"expected system, user, assistant or tool, found {role!r}")
    conversation.flush()
    if orphans:
        conversation.builder.notices.append(f"{orphans} results without their call")


def _environment(conversation: Conversation, message: dict[str, Json]) -> None:
    content = message.get("content")
    if isinstance(content, list):
        blocks = [
            block for block in content if isinstance(block, dict) and block.get("type") == "tool_result"
        ]
        for block in blocks:
            conversation.result(
                join_text(block.get("content")), block.get("tool_use_id"), is_error=block.get("is_error")
            )
        if blocks:
            return
    if conversation.waiting:
        text = _content(message)
        match = RETURNED.search(text) if "<returncode>" in text else None
        if match:
            conversation.result(match[2] or "", None, exit_code=int(match[1]))
        else:
            conversation.result(text, None)


def _content(message: dict[str, Json]) -> str:
    content = message.get("content", message.get("text"))
    return join_text(content) if content is not None else ""


def _calls(source: Source, message: dict[str, Json], at: str, fenced: bool) -> list[Waiting]:
    text = _content(message)
    usage = inner(message.get("usage"))
    tokens_in, tokens_out = whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens"))

    def waiting(name: str, arguments: Json, call_id: Json = None) -> Waiting:
        seen = Seen(thought=text, tokens_in=tokens_in, tokens_out=tokens_out)
        return Waiting(name, arguments, call_id if isinstance(call_id, str) else None, seen)

    tool_calls = message.get("tool_calls")
    if tool_calls:
        found = []
        for position, item in enumerate(as_list(source, tool_calls, f"{at}.tool_calls")):
            call = as_object(source, item, f"{at}.tool_calls[{position}]")
            function = as_object(source, call.get("function", call), f"{at}.tool_calls[{position}].function")
            name = as_text(source, function.get("name"), f"{at}.tool_calls[{position}].function.name")
            found.append(waiting(name, function.get("arguments"), call.get("id")))
        return found
    content = message.get("content")
    if isinstance(content, list):
        blocks = [block for block in content if isinstance(block, dict) and block.get("type") == "tool_use"]
        if blocks:
            return [waiting(str(block.get("name")), block.get("input"), block.get("id")) for block in blocks]
    found = [waiting(name, arguments) for name, arguments in calls_in(text)]
    if not found and fenced:
        return [waiting("bash", {"command": command}) for command in fenced_commands(text)]
    return found


def repository_root(messages: list[Json]) -> str:
    """The repository's folder as the task text names it; "" if it does not."""
    for message in messages[:4]:
        if isinstance(message, dict):
            match = UPLOADED.search(_content(message))
            if match:
                return match[1].rstrip("/")
    return ""


def messages_of(row: Json) -> list[Json] | None:
    """The messages of a row, whichever column holds them (a text column holds their JSON)."""
    if not isinstance(row, dict):
        return None
    for name in _MESSAGE_COLUMNS:
        value = row.get(name)
        if isinstance(value, list) and (not value or (isinstance(value[0], dict) and "role" in value[0])):
            return value
    return None


def _decoded(source: Source, row: Json) -> Json:
    if isinstance(row, dict):
        for name in _MESSAGE_COLUMNS:
            value = row.get(name)
            if isinstance(value, str) and value.lstrip().startswith("[{"):
                try:
                    return {**row, name: source.decode(value)}
                except (ValueError, RecursionError):
                    return row
    return row


def is_run(record: Json) -> bool:
    """Whether a record has a column of messages, decoded or as text."""
    return messages_of(record) is not None or (
        isinstance(record, dict)
        and "role" not in record
        and any(isinstance(record.get(name), str) for name in _MESSAGE_COLUMNS)
    )


def _rows(source: Source) -> list[tuple[str, Json]]:
    """The rows of the file with their positions; a bare message list is one row."""
    if source.lines:
        records = [(f"line {number}", value) for number, value in source.lines]
        if all(isinstance(value, dict) and "role" in value for _, value in records):
            return [("file", {"messages": [value for _, value in records]})]
        return records
    document = source.document
    if isinstance(document, list):
        if document and all(isinstance(item, dict) and "role" in item for item in document):
            return [("file", {"messages": document})]
        return [(f"[{position}]", row) for position, row in enumerate(document)]
    return [("file" if source.row is None else f"row {source.row}", document)]


def sniff(source: Source) -> bool:
    """Rows (or one row, or a bare list) of messages with roles."""
    rows = _rows(source)
    return any(messages_of(_decoded(source, row)) for _, row in rows[:3])


def read(source: Source) -> Iterator[Trajectory]:
    """One run a row."""
    rows = _rows(source)
    for number, (position, item) in enumerate(rows):
        row = as_object(source, _decoded(source, item), position)
        messages = messages_of(row)
        if messages is None:
            raise refuse(
                source, position, f"no messages; expected one of the columns {', '.join(_MESSAGE_COLUMNS)}"
            )
        yield _run(source, row, messages, position, number if len(rows) > 1 else source.number)


def _run(
    source: Source, row: dict[str, Json], messages: list[Json], position: str, number: int | None
) -> Trajectory:
    builder = StateBuilder(root=repository_root(messages))
    if any(isinstance(item, dict) and _SWE_AGENT_PROMPT in _content(item) for item in messages[:4]):
        conversation: Conversation = AciConversation(builder, source, position)
        read_messages(conversation, [_with_action(item) for item in messages])
    else:
        conversation = Conversation(builder, source, position)
        read_messages(conversation, messages, fenced=True)
    identifier = next(
        (
            str(row[name])
            for name in ("trajectory_id", "traj_id", "run_id", "trial_name", "id")
            if row.get(name)
        ),
        None,
    )
    problem = next(
        (str(row[name]) for name in ("instance_id", "task", "task_id", "problem") if row.get(name)), None
    )
    model = next(
        (str(row[name]) for name in ("model", "model_name", "model_name_or_path") if row.get(name)), None
    )
    suffix = "" if number is None else f"#{number}"
    if identifier and number is not None and row.get("episode"):
        identifier = f"{identifier}#{row['episode']}"
    return Trajectory(
        trajectory_id=identifier or source.stem + suffix,
        path=source.path,
        format=FORMAT.name,
        problem=problem,
        model=model,
        outcome=_outcome(source, row, problem),
        states=tuple(builder.states),
        blind_signals=FORMAT.blind_signals,
        warnings=builder.warnings,
    )


def _with_action(message: Json) -> Json:
    """SWE-agent's text dialect: the last fenced block of a turn is its command."""
    if not isinstance(message, dict) or message.get("role") not in ("assistant", "ai"):
        return message
    blocks = fenced_commands(_content(message), any_language=True)
    if not blocks:
        return {"role": "assistant", "content": _content(message)}
    call = {"function": {"name": "swe_agent_action", "arguments": blocks[-1]}}
    return {"role": "assistant", "content": _content(message), "tool_calls": [call]}


def _outcome(source: Source, row: dict[str, Json], problem: str | None) -> RunOutcome:
    for name in ("resolved", "target", "passed", "outcome"):
        found = results.verdict(row.get(name))
        if found != "unknown":
            return found
    result = row.get("result")
    found = results.verdict(result) if not isinstance(result, dict) else results.from_trial(result)
    if found == "unknown":
        found = results.from_report(row, problem)
    return found if found != "unknown" else results.beside(source, problem)


FORMAT = Format(
    name="chat",
    sniff=sniff,
    read=read,
    is_run=is_run,
    blind_signals=("exit codes where the text does not show them", "time stamps"),
)
