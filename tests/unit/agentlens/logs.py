"""What a reader made of a log, written down in full: every field that says something, and refusals."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from workers.agentlens.formats import read
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.formats.tools import add_call
from workers.agentlens.shell import Command
from workers.agentlens.trajectory import Edit, Lines, State, Trajectory
from workers.errors import TrajectoryError


def told(state: State) -> dict[str, Any]:
    """The fields of a state that are not at their default, without its place and its digest. Of a command the
    text, lines as a pair, edits as old and new text, anchor and path."""
    return {
        field.name: _plain(getattr(state, field.name))
        for field in dataclasses.fields(state)
        if field.name not in ("index", "content_digest") and getattr(state, field.name) != field.default
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Lines):
        return (value.start, value.end)
    if isinstance(value, Command):
        return value.text
    if isinstance(value, tuple):
        return [_edit(part) if isinstance(part, Edit) else part for part in value]
    return value


def _edit(edit: Edit) -> tuple[Any, ...]:
    whole = (edit.old, edit.new, edit.anchor and (edit.anchor.start, edit.anchor.end), edit.path)
    return whole if edit.path else whole[:3] if edit.anchor else whole[:2]


def about(run: Trajectory) -> dict[str, Any]:
    """What a run says beside its states, without what is at its default."""
    return {
        field.name: getattr(run, field.name)
        for field in dataclasses.fields(run)
        if field.name not in ("states", "blind_signals") and getattr(run, field.name) != field.default
    }


def pinned(*parts: str) -> str:
    """The digest of a call as kept references have it: BLAKE2b, 8 bytes, parts split by NUL."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def files(beside: Mapping[str, Any]) -> Any:
    """The files beside a log, by name relative to it: bytes, or a value to write as JSON."""
    written = {
        name: value if isinstance(value, bytes) else json.dumps(value).encode()
        for name, value in beside.items()
    }
    return written.get


def runs(
    document: Any,
    name: str = "x.json",
    *,
    format_name: str | None = None,
    beside: Mapping[str, Any] | None = None,
) -> list[Trajectory]:
    """The runs of a file with this content; records make JSON lines if its name says so."""
    if isinstance(document, str):
        data = document.encode()
    elif name.endswith(".jsonl"):
        data = "\n".join(json.dumps(record) for record in document).encode()
    else:
        data = json.dumps(document).encode()
    return list(read(name, data, format_name, beside=files(beside or {})))


def one_run(document: Any, name: str = "x.json", **more: Any) -> Trajectory:
    """The only run of a file with this content."""
    (run,) = runs(document, name, **more)
    return run


def refusal(document: Any, name: str = "x.json", **more: Any) -> str:
    """The sentence by which a file with this content is refused; "" if it is not."""
    try:
        runs(document, name, **more)
    except TrajectoryError as error:
        return str(error)
    return ""


def only(name: str, arguments: Any, *, root: str = "/r", **seen: Any) -> State:
    """The state of a single call."""
    builder = StateBuilder(root=root)
    add_call(builder, name, arguments, Seen(**seen))
    (state,) = builder.states
    assert state.index == 0
    return state
