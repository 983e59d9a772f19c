"""Claude Code: session files (JSONL, with sub-agents inside or in files beside) and its `stream-json`
output."""

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
    line_objects,
    number,
    refuse,
    seconds,
    whole,
)  # fmt: skip
from workers.agentlens.formats.chat import Conversation, Waiting
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.trajectory import Trajectory

_MARKS = frozenset(
    ("sessionId", "session_id", "parentUuid", "leafUuid", "isSidechain", "messageId", "parent_tool_use_id")
)
_TURNS = ("user", "assistant")
_SNIFFED = 50


def _is_record(value: Json) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    turn = value["type"] in _TURNS and isinstance(value.get("message"), dict)
    return turn or not _MARKS.isdisjoint(value)


def sniff(source: Source) -> bool:
    """JSONL records with a type, of which one is a turn or names its session."""
    return any(_is_record(value) for _, value in source.lines[:_SNIFFED])


def _root(folders: list[str]) -> str:
    """The folder that holds all working folders of the session, if it is one of them; else the first."""
    if not folders:
        return ""
    shortest = min(folders, key=len)
    return shortest if all(f"{folder}/".startswith(shortest + "/") for folder in folders) else folders[0]


def read(source: Source) -> Iterator[Trajectory]:
    """The file's one session."""
    records = line_objects(source)
    folders = [record["cwd"].rstrip("/") for _, record in records if isinstance(record.get("cwd"), str)]
    reader = _Session(source, StateBuilder(root=_root(folders)))
    reader.records(records)
    reader.finish()
    identifier = next(
        (
            record[name]
            for _, record in records
            for name in ("sessionId", "session_id")
            if isinstance(record.get(name), str)
        ),
        "",
    )
    yield Trajectory(
        trajectory_id=identifier or source.stem,
        path=source.path,
        format=FORMAT.name,
        model=reader.model,
        outcome=results.beside(source, None),
        states=tuple(reader.builder.states),
        cost_usd=reader.cost_usd,
        blind_signals=FORMAT.blind_signals,
        warnings=reader.builder.warnings,
    )


class _Session:
    """Reads records in order. A call is added when its result comes, so that parallel calls keep their
    results;
    the order of states is the order of calls."""

    def __init__(self, source: Source, builder: StateBuilder) -> None:
        self.source = source
        self.builder = builder
        self.conversation = Conversation(builder, source, "file")
        self.model: str | None = None
        self.cost_usd: float | None = None
        self.orphans = 0
        self.counted: set[str] = set()
        self.agents: set[str] = set()
        self.uuids: set[str] = set()

    def records(self, records: list[tuple[str, dict[str, Json]]]) -> None:
        for where, record in records:
            kind = record.get("type")
            if not isinstance(kind, str):
                raise refuse(self.source, f"{where}.type", "expected the record's type as a text")
            identity = record.get("uuid")
            if kind == "assistant" and isinstance(identity, str) and record.get("parentUuid") is not None:
                if identity in self.uuids:
                    continue
                self.uuids.add(identity)
            if kind == "assistant":
                self._assistant(record, where)
            elif kind == "user":
                self._user(record, where)
            elif kind == "result":
                self.cost_usd = number(record.get("total_cost_usd", record.get("cost_usd")))

    def finish(self) -> None:
        self.conversation.flush()
        if self.orphans:
            self.builder.notices.append(f"{self.orphans} results without their call")

    def _assistant(self, record: dict[str, Json], where: str) -> None:
        message = as_object(self.source, record.get("message"), f"{where}.message")
        model = message.get("model")
        if isinstance(model, str) and model != "<synthetic>":
            self.model = model
        content = message.get("content")
        if isinstance(content, str):
            return
        blocks = as_list(self.source, content, f"{where}.message.content")
        calls = any(isinstance(block, dict) and block.get("type") == "tool_use" for block in blocks)
        usage = self._usage(message) if calls else (None, None)
        if not self.conversation.waiting or all(call.answered for call in self.conversation.waiting):
            self.conversation.flush()
        thought = join_text(
            [block for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
        )
        for position, item in enumerate(blocks):
            at = f"{where}.message.content[{position}]"
            block = as_object(self.source, item, at)
            if block.get("type") == "tool_use":
                folder = record.get("cwd")
                seen = Seen(
                    directory=self.builder.path(folder) if isinstance(folder, str) else None,
                    thought=thought,
                    tokens_in=usage[0],
                    tokens_out=usage[1],
                    timestamp=seconds(record.get("timestamp")),
                )
                usage = (0, 0) if usage[0] is not None else usage
                name = as_text(self.source, block.get("name"), f"{at}.name")
                self.conversation.waiting.append(
                    Waiting(name, block.get("input"), str(block.get("id")), seen)
                )

    def _usage(self, message: dict[str, Json]) -> tuple[int | None, int | None]:
        """A message's tokens; it may be spread over several records that repeat them."""
        usage = inner(message.get("usage"))
        identity = str(message.get("id"))
        if not usage:
            return None, None
        if identity in self.counted:
            return 0, 0
        self.counted.add(identity)
        parts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        return sum(whole(usage.get(part)) or 0 for part in parts), whole(usage.get("output_tokens"))

    def _user(self, record: dict[str, Json], where: str) -> None:
        message = as_object(self.source, record.get("message"), f"{where}.message")
        content = message.get("content")
        if isinstance(content, str):
            return
        for position, item in enumerate(as_list(self.source, content, f"{where}.message.content")):
            block = as_object(self.source, item, f"{where}.message.content[{position}]")
            if block.get("type") != "tool_result":
                continue
            flag = block.get("is_error")
            found = self.conversation.result(
                join_text(block.get("content") or []),
                str(block.get("tool_use_id")),
                exit_code=None,
                is_error=flag if isinstance(flag, bool) else None,
            )
            self.orphans += not found
        agent = record.get("agentId") or inner(record.get("toolUseResult")).get("agentId")
        if isinstance(agent, str) and record.get("isSidechain") is not True:
            self._agent(agent)

    def _agent(self, agent: str) -> None:
        """The steps of a sub-agent that has a file of its own, after the call that started it."""
        if agent in self.agents:
            return
        self.agents.add(agent)
        for name in (
            f"{self.source.stem}/subagents/agent-{agent}.jsonl",
            f"subagents/agent-{agent}.jsonl",
            f"agent-{agent}.jsonl",
        ):
            data = self.source.beside(name)
            if data is None:
                continue
            self.conversation.flush()
            records = []
            for number_, line in enumerate(data.splitlines(), start=1):
                if line.strip():
                    at = f"{name}: line {number_}"
                    try:
                        value = self.source.decode(line)
                    except (ValueError, RecursionError) as error:
                        raise refuse(self.source, at, f"not JSON: {error}") from error
                    records.append((at, as_object(self.source, value, at)))
            self.records(records)
            self.conversation.flush()
            return


FORMAT = Format(
    name="claude-code",
    sniff=sniff,
    read=read,
    blind_signals=("exit codes of commands that succeed", "pass or fail of the run"),
)
