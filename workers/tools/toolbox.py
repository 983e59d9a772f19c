"""What a seat needs of tool servers, whatever they speak: tools on offer, bounded calls, and who is missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from workers.core.equipment import McpServer
from workers.core.reply import ToolCall, ToolSpec


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What came of a call. `text` is bounded; `is_error`: the tool, its server or our bounds said no."""

    server: str
    tool: str
    text: str
    is_error: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A server, or one tool of it, that the team asks for and that is not there; `cause` is a sentence."""

    server: str
    cause: str


class OpenTools(Protocol):
    """The tools of one seat while it works."""

    @property
    def specs(self) -> Sequence[ToolSpec]: ...

    @property
    def missing(self) -> Sequence[Missing]: ...

    @property
    def calls_left(self) -> int:
        """How many more calls may be made, over all servers."""
        ...

    def call(self, call: ToolCall) -> ToolResult:
        """Make a call and wait for it. Never raises for what a model or server did."""
        ...


class Toolbox(Protocol):
    """Opens a team's servers for one seat, and closes them when it is done."""

    def open(self, servers: Sequence[McpServer]) -> AbstractContextManager[OpenTools]: ...
