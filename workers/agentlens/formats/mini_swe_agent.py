"""mini-swe-agent: trajectory formats 1 and 1.1, and the bare message lists of its early files. Every command
runs in a fresh shell, so a `cd` does not last."""

from __future__ import annotations

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
    join_text,
    number,
    refuse,
    seconds,
    whole,
)  # fmt: skip
from workers.agentlens.formats.chat import RETURNED
from workers.agentlens.formats.seen import Seen, count_once
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.formats.textcalls import fenced_commands
from workers.agentlens.trajectory import Operation, Trajectory

_SENTINELS = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")


def sniff(source: Source) -> bool:
    """An object that names the format, or a message list with this agent's fenced commands and return
    codes."""
    document = source.document
    if isinstance(document, dict):
        return str(document.get("trajectory_format", "")).startswith("mini-swe-agent")
    if not isinstance(document, list):
        return False
    texts = [
        item["content"]
        for item in document[:6]
        if isinstance(item, dict) and isinstance(item.get("content"), str)
    ]
    return any("<returncode>" in text or "mswea_bash_command" in text for text in texts)


def read(source: Source) -> Iterator[Trajectory]:
    """The file's one run."""
    document = source.document
    if isinstance(document, list):
        document = {"messages": document}
    document = as_object(source, document, "file")
    messages = as_list(source, document.get("messages"), "messages")
    info = inner(document.get("info"))
    config = inner(info.get("config"))
    folder = inner(config.get("environment")).get("cwd")
    reader = _Reader(
        source, StateBuilder(root=folder if isinstance(folder, str) else "", keeps_directory=False)
    )
    for position, item in enumerate(messages):
        reader.message(as_object(source, item, f"messages[{position}]"), f"messages[{position}]")
    reader.flush()
    problem = as_text(source, document.get("instance_id"), "instance_id") or None
    model = inner(config.get("model")).get("model_name")
    yield Trajectory(
        trajectory_id=source.stem,
        path=source.path,
        format=FORMAT.name,
        problem=problem,
        model=model if isinstance(model, str) else None,
        outcome=results.beside(source, problem),
        states=tuple(reader.builder.states),
        cost_usd=number(inner(info.get("model_stats")).get("instance_cost")),
        blind_signals=FORMAT.blind_signals,
        warnings=reader.builder.warnings,
    )


class _Reader:
    def __init__(self, source: Source, builder: StateBuilder) -> None:
        self.source = source
        self.builder = builder
        self.waiting: list[tuple[str, str | None, Seen]] = []

    def message(self, message: dict[str, Json], where: str) -> None:
        role = message.get("role")
        if role == "assistant" or message.get("object") == "response":
            self.flush()
            self._turn(message, where)
        elif role == "tool" or message.get("type") == "function_call_output":
            self._result(message)
        elif role == "user":
            self._answer(join_text(message.get("content")), message)
        elif role not in ("system", "exit"):
            raise refuse(
                self.source,
                f"{where}.role",
                f"expected system, user, assistant, tool or exit, found {role!r}",
            )

    def flush(self) -> None:
        for command, _, seen in self.waiting:
            if any(sentinel in command for sentinel in _SENTINELS):
                self.builder.note("bash", Operation.FINISH, seen)
            else:
                self.builder.shell("bash", command, seen)
        self.waiting = []

    def _turn(self, message: dict[str, Json], where: str) -> None:
        extra = inner(message.get("extra"))
        response = inner(extra.get("response")) or message
        usage = inner(response.get("usage"))
        text = join_text(message.get("content") or [])
        for command, call_id in self._commands(message, extra, text, where):
            seen = Seen(
                thought=text,
                tokens_in=whole(usage.get("prompt_tokens", usage.get("input_tokens"))),
                tokens_out=whole(usage.get("completion_tokens", usage.get("output_tokens"))),
                timestamp=seconds(extra.get("timestamp", response.get("created"))),
            )
            self.waiting.append((command, call_id, seen))
        count_once([seen for _, _, seen in self.waiting])

    def _commands(
        self, message: dict[str, Json], extra: dict[str, Json], text: str, where: str
    ) -> list[tuple[str, str | None]]:
        actions = extra.get("actions")
        if isinstance(actions, list):
            found = []
            for position, item in enumerate(actions):
                action = as_object(self.source, item, f"{where}.extra.actions[{position}]")
                command = as_text(
                    self.source, action.get("command"), f"{where}.extra.actions[{position}].command"
                )
                call_id = action.get("tool_call_id")
                found.append((command, call_id if isinstance(call_id, str) else None))
            return found
        calls = message.get("tool_calls") or [
            item
            for item in message.get("output") or []
            if isinstance(item, dict) and item.get("type") == "function_call"
        ]
        found = []
        for position, item in enumerate(as_list(self.source, calls, f"{where}.tool_calls")):
            call = as_object(self.source, item, f"{where}.tool_calls[{position}]")
            function = as_object(
                self.source, call.get("function", call), f"{where}.tool_calls[{position}].function"
            )
            try:
                arguments = self.source.decode(function.get("arguments") or "{}")
            except (ValueError, TypeError, RecursionError):
                arguments = {}
            text_given = inner(arguments).get("command")
            call_id = call.get("id") or call.get("call_id")
            found.append(
                (
                    text_given if isinstance(text_given, str) else "",
                    call_id if isinstance(call_id, str) else None,
                )
            )
        return found or [(command, None) for command in fenced_commands(text)[:1]]

    def _result(self, message: dict[str, Json]) -> None:
        extra = inner(message.get("extra"))
        call_id = message.get("tool_call_id") or message.get("call_id")
        text = join_text(message.get("content") or message.get("output") or [])
        raw = extra.get("raw_output")
        code = whole(extra.get("returncode"))
        for _, waiting_id, seen in self.waiting:
            if waiting_id == call_id:
                seen.text, seen.exit_code = (raw if isinstance(raw, str) else text), code
                seen.is_error = True if extra.get("exception_info") else None
                if code is None:
                    _take_return_code(seen, text)
                return

    def _answer(self, text: str, message: dict[str, Json]) -> None:
        if self.waiting and not inner(message.get("extra")).get("interrupt_type"):
            _take_return_code(self.waiting[0][2], text)


def _take_return_code(seen: Seen, text: str) -> None:
    match = RETURNED.search(text) if "<returncode>" in text else None
    if match:
        seen.text, seen.exit_code = match[2] or "", int(match[1])
    else:
        seen.text = text


FORMAT = Format(name="mini-swe-agent", sniff=sniff, read=read, blind_signals=("structured edits",))
