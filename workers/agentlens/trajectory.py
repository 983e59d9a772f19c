"""The one internal form of an agent's run: a trajectory is an ordered column of states, one a tool call
(AGENTLENS §1). Readers (`formats/`) produce it, everything else consumes it. No field carries the
pass/fail label except `Trajectory.outcome`, and nothing that scores may read that field."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import Literal

from workers.agentlens.observation import text_digest
from workers.agentlens.shell import Command


class Operation(StrEnum):
    """What a tool call does, whatever the tool is called."""

    VIEW = "view"
    LIST = "list"
    SEARCH = "search"
    CREATE = "create"
    REPLACE = "replace"
    INSERT = "insert"
    UNDO = "undo"
    PATCH = "patch"
    SHELL = "shell"
    THINK = "think"
    PLAN = "plan"
    MESSAGE = "message"
    FINISH = "finish"
    BROWSE = "browse"
    DELEGATE = "delegate"


class Intent(StrEnum):
    """Exploration, implementation, verification, orchestration."""

    E = "E"
    I = "I"  # noqa: E741 - the paper's letter
    V = "V"
    O = "O"  # noqa: E741 - the paper's letter


StateOutcome = Literal["ok", "error", "unknown"]
RunOutcome = Literal["passed", "failed", "unknown"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """A closed range of 1-based line numbers."""

    start: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What an edit changed: the text before and after, and where it stood if the log says so. `path` names the
    file where one call edits several, as a patch does; None is the state's own file."""

    old: str
    new: str
    anchor: Lines | None = None
    path: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One tool call. Paths are repository-relative ("" is the repository's root); outside the repository
    `ext:…`, temporary `scratch:…`. For a shell line `path` and `lines` are those of its strongest segment.
    A range that runs to the end of a file ends at line 1,000,000,000.

    `intent` and `rule` are filled by `intents.label`; readers leave them at None and 0.
    `observation` is the observation's text as the log has it, cut by the reader at 20,000 characters.
    """

    index: int
    tool: str
    operation: Operation
    path: str | None = None
    lines: Lines | None = None
    scope: str | None = None
    content_digest: str
    command: Command | None = None
    edits: tuple[Edit, ...] = ()
    outcome: StateOutcome = "unknown"
    exit_code: int | None = None
    observation: str = ""
    thought: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    timestamp: float | None = None
    intent: Intent | None = None
    rule: int = 0

    @property
    def observation_digest(self) -> str:
        """The digest of the observation; two answers of one digest said the same. Few are ever compared, so it
        is worked out when asked for."""
        return text_digest(self.observation)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One run of an agent on one problem. `blind_signals` names what this log's format cannot feed
    (for example "line ranges", "exit codes"); the report repeats it."""

    trajectory_id: str
    path: str
    format: str
    problem: str | None = None
    model: str | None = None
    outcome: RunOutcome = "unknown"
    states: tuple[State, ...] = ()
    cost_usd: float | None = None
    blind_signals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


# A frozen class sets each field through a checking setter, which costs more than all else where a folder of
# runs becomes millions of states. These set the slots themselves, in the order of the fields.
(
    _index,
    _tool,
    _operation,
    _path,
    _lines,
    _scope,
    _content_digest,
    _command,
    _edits,
    _outcome,
    _exit_code,
    _observation,
    _thought,
    _tokens_in,
    _tokens_out,
    _timestamp,
    _intent,
    _rule,
) = (getattr(State, field.name).__set__ for field in dataclasses.fields(State))


def make_state(
    index: int,
    tool: str,
    operation: Operation,
    path: str | None,
    lines: Lines | None,
    scope: str | None,
    content_digest: str,
    command: Command | None,
    edits: tuple[Edit, ...],
    outcome: StateOutcome,
    exit_code: int | None,
    observation: str,
    thought: str,
    tokens_in: int | None,
    tokens_out: int | None,
    timestamp: float | None,
) -> State:
    """The state with these values and no label yet; everybody but the readers uses `State(…)`."""
    state = object.__new__(State)
    _index(state, index)
    _tool(state, tool)
    _operation(state, operation)
    _path(state, path)
    _lines(state, lines)
    _scope(state, scope)
    _content_digest(state, content_digest)
    _command(state, command)
    _edits(state, edits)
    _outcome(state, outcome)
    _exit_code(state, exit_code)
    _observation(state, observation)
    _thought(state, thought)
    _tokens_in(state, tokens_in)
    _tokens_out(state, tokens_out)
    _timestamp(state, timestamp)
    _intent(state, None)
    _rule(state, 0)
    return state


def with_label(state: State, intent: Intent, rule: int) -> State:
    """A copy of the state with its label."""
    copy = object.__new__(State)
    _index(copy, state.index)
    _tool(copy, state.tool)
    _operation(copy, state.operation)
    _path(copy, state.path)
    _lines(copy, state.lines)
    _scope(copy, state.scope)
    _content_digest(copy, state.content_digest)
    _command(copy, state.command)
    _edits(copy, state.edits)
    _outcome(copy, state.outcome)
    _exit_code(copy, state.exit_code)
    _observation(copy, state.observation)
    _thought(copy, state.thought)
    _tokens_in(copy, state.tokens_in)
    _tokens_out(copy, state.tokens_out)
    _timestamp(copy, state.timestamp)
    _intent(copy, intent)
    _rule(copy, rule)
    return copy
