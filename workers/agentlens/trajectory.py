"""The one internal form of an agent's run: a trajectory is an ordered column of states, one a tool call
(AGENTLENS §1). Readers (`formats/`) produce it, everything else consumes it. No field carries the
pass/fail label except `Trajectory.outcome`, and nothing that scores may read that field."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import Any, Literal

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


class _Draft:
    """A state that is still being filled in: the same slots, not yet locked.

    A frozen class sets each field through a checking setter, which costs more than all else where a folder of
    runs becomes millions of states. A draft takes its fields at once and then becomes a `State`."""

    __slots__ = State.__slots__


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
    draft: Any = _Draft()
    draft.index = index
    draft.tool = tool
    draft.operation = operation
    draft.path = path
    draft.lines = lines
    draft.scope = scope
    draft.content_digest = content_digest
    draft.command = command
    draft.edits = edits
    draft.outcome = outcome
    draft.exit_code = exit_code
    draft.observation = observation
    draft.thought = thought
    draft.tokens_in = tokens_in
    draft.tokens_out = tokens_out
    draft.timestamp = timestamp
    draft.intent = None
    draft.rule = 0
    return _finished(draft)


def with_label(state: State, intent: Intent, rule: int) -> State:
    """A copy of the state with its label."""
    draft: Any = _Draft()
    draft.index = state.index
    draft.tool = state.tool
    draft.operation = state.operation
    draft.path = state.path
    draft.lines = state.lines
    draft.scope = state.scope
    draft.content_digest = state.content_digest
    draft.command = state.command
    draft.edits = state.edits
    draft.outcome = state.outcome
    draft.exit_code = state.exit_code
    draft.observation = state.observation
    draft.thought = state.thought
    draft.tokens_in = state.tokens_in
    draft.tokens_out = state.tokens_out
    draft.timestamp = state.timestamp
    draft.intent = intent
    draft.rule = rule
    return _finished(draft)


def _finished(draft: Any) -> State:
    draft.__class__ = State
    state: State = draft
    return state
