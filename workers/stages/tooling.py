"""A seat's tools while it is asked: calls are made, recorded in the ledger, and shown to the model as data."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from typing import Any

from workers.core.reply import Completion, Message, ToolCall, ToolSpec
from workers.provenance import ledger
from workers.provenance.digest import canonical, digest
from workers.stages.seat import Work
from workers.tools.briefing import INFORMED
from workers.tools.toolbox import OpenTools, ToolResult

_CLOSING_TAG = "</tool_result"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tooling:
    """`tools` is None for a seat without any."""

    work: Work
    tools: OpenTools | None = None

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(self.tools.specs) if self.tools else ()

    @property
    def may_call(self) -> bool:
        return self.tools is not None and self.tools.calls_left > 0

    def answered(self, completion: Completion) -> tuple[Message, ...]:
        """The model's turn that asked for calls, and the answers to all of them."""
        asked = Message(
            role="assistant",
            content=completion.text,
            reasoning=completion.reasoning,
            tool_calls=completion.tool_calls,
        )
        return asked, *(self._answer(call) for call in completion.tool_calls)

    def _answer(self, call: ToolCall) -> Message:
        assert self.tools is not None  # noqa: S101 - for the type checker: calls were offered
        started = time.monotonic()
        result = self.tools.call(call)
        self._record(call, result, duration_seconds=time.monotonic() - started)
        # A result that closes its own fence would speak from outside of it.
        text = result.text.replace(_CLOSING_TAG, "<\\/tool_result")
        shown = self.work.context.render("tool_result.md", tool=call.name[:100], text=text)
        return Message(role="tool", content=shown, call_id=call.call_id, is_error=result.is_error)

    def _record(self, call: ToolCall, result: ToolResult, *, duration_seconds: float) -> None:
        _append(
            self.work,
            "tool.called",
            {
                "server": result.server,
                "tool": result.tool,
                "arguments_digest": digest(canonical(call.arguments)),
                "result_digest": digest(canonical(result.text)),
                "characters": len(result.text),
                "is_error": result.is_error,
                "duration_seconds": round(duration_seconds, 3),
            },
        )


@contextlib.contextmanager
def tooling(work: Work, role: str) -> Iterator[Tooling]:
    """The team's tools for a seat of this role; the ledger says which of them could not be had."""
    if role not in INFORMED or not work.team.mcp:
        yield Tooling(work=work)
        return
    with work.context.toolbox.open(work.team.mcp) as tools:
        for missing in tools.missing:
            _append(work, "tool.missing", {"server": missing.server, "cause": missing.cause})
        yield Tooling(work=work, tools=tools if tools.specs else None)


def _append(work: Work, kind: str, values: dict[str, Any]) -> None:
    key = work.key
    with work.context.database.begin() as connection, ledger.writer(connection, key.run_id) as entries:
        entries.append(kind, {"stage": key.stage, "seat": key.seat, **values}, at=work.context.now())
