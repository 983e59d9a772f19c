"""A labelled run as bytes and back, without the long texts of its states, which nothing reads once it is labelled."""

from __future__ import annotations

import copyreg
import io
import operator
import pickle
from collections.abc import Callable
from typing import Any, Final

from workers.agentlens.assess import Run
from workers.agentlens.shell import Command
from workers.agentlens.trajectory import Intent, Lines, Operation, State, StateOutcome, make_state, with_label
from workers.errors import TrajectoryError

_KEPT = operator.attrgetter(
    "index",
    "tool",
    "operation",
    "path",
    "lines",
    "scope",
    "content_digest",
    "command",
    "outcome",
    "exit_code",
    "tokens_in",
    "tokens_out",
    "timestamp",
    "intent",
    "rule",
)


def _reduce(state: State) -> tuple[Callable[..., State], tuple[Any, ...]]:
    return _restore, _KEPT(state)


def _restore(
    index: int,
    tool: str,
    operation: Operation,
    path: str | None,
    lines: Lines | None,
    scope: str | None,
    content_digest: str,
    command: Command | None,
    outcome: StateOutcome,
    exit_code: int | None,
    tokens_in: int | None,
    tokens_out: int | None,
    timestamp: float | None,
    intent: Intent,
    rule: int,
) -> State:
    state = make_state(
        index,
        tool,
        operation,
        path,
        lines,
        scope,
        content_digest,
        command,
        (),
        outcome,
        exit_code,
        "",
        "",
        tokens_in,
        tokens_out,
        timestamp,
    )
    return with_label(state, intent, rule)


def packed(run: Run) -> bytes:
    """A run without the long texts of its states, which nothing reads once it is labelled."""
    packed = io.BytesIO()
    pickler = pickle.Pickler(packed, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = copyreg.dispatch_table | {State: _reduce}
    pickler.dump(run)
    return packed.getvalue()


_TYPES: Final = frozenset(
    (
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.numeric", "_frombuffer"),
        ("workers.agentlens.assess", "Run"),
        ("workers.agentlens.equivalence", "Signature"),
        ("workers.agentlens.shell.command", "Command"),
        ("workers.agentlens.shell.command", "Group"),
        ("workers.agentlens.shell.command", "Segment"),
        ("workers.agentlens.trace", "Trace"),
        ("workers.agentlens.trajectory", "Intent"),
        ("workers.agentlens.trajectory", "Lines"),
        ("workers.agentlens.trajectory", "Operation"),
        ("workers.agentlens.trajectory", "Trajectory"),
        ("workers.agentlens.waste.finding", "Finding"),
        ("workers.scoring.packing", "_restore"),
    )
)
"""All that a packed run is made of."""


class _Reader(pickle.Unpickler):
    """Makes values of the scorer's own types and no others: whoever can write bytes where runs wait must not thereby
    be able to run code here."""

    def find_class(self, module: str, name: str) -> Any:
        """Raises: TrajectoryError for a type that no packed run has."""
        if (module, name) not in _TYPES:
            raise TrajectoryError(f"a packed run holds {module}.{name}, which none has; it is not ours")
        return super().find_class(module, name)


def unpacked(data: bytes) -> Run:
    """A run that was packed. Raises: TrajectoryError for bytes that are none."""
    try:
        run = _Reader(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, AttributeError, TypeError, IndexError, KeyError):
        run = None
    if not isinstance(run, Run):
        raise TrajectoryError("what was stored of a run cannot be read; upload it again")
    return run
