"""A run's ledger in sentences: what a page says when something arrives, and lists beside the hashes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from api.web.wording import excerpt, many, plain, words
from workers.core.run import Stage
from workers.provenance.ledger import Event

Payload = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event. `tone` is "", "good", "warn" or "bad"."""

    event: Event
    sentence: str
    tone: str


def story_of(events: Sequence[Event]) -> list[Entry]:
    return [Entry(event=event, sentence=sentence_of(event), tone=_tone(event.kind)) for event in events]


def sentence_of(event: Event) -> str:
    """What the event says, in one line; what cannot be read is said to be so."""
    if event.payload is None:
        return "redacted"
    try:
        return excerpt(_sentence(event.kind, event.payload), 200)
    except (KeyError, TypeError, ValueError, AttributeError):
        return "cannot be read"


def _tone(kind: str) -> str:
    if kind.endswith(".failed") or kind in {"run.cancelled", "budget.exhausted"}:
        return "bad"
    if kind in {"review.abstained", "seat.deferred", "seat.held", "tool.missing", "round.opened"}:
        return "warn"
    return "good" if kind == "run.finished" else ""


def _sentence(kind: str, payload: Payload) -> str:
    if kind.endswith(".failed"):
        return f"{_seat(kind.removesuffix('.failed'), payload['seat'])} gave up: {_why(payload)}"
    say = _SAYINGS.get(kind)
    return words(kind.replace(".", " ")) if say is None else say(payload)


def _seat(stage: object, seat: object) -> str:
    name = plain(seat)
    if str(stage) == name:
        return name
    if str(stage) == Stage.PANEL:
        return f"reviewer {name}"
    return f"{stage} {name.removeprefix('claim-')}"


def _why(payload: Payload) -> str:
    return f"{words(payload['cause'])}, {plain(payload['detail'])}"


def _files(payload: Payload) -> str:
    files = payload["files"]
    lines = sum(len(text.splitlines()) for text in files.values())
    named = ", ".join(map(plain, files)) if len(files) <= 3 else many(len(files), "file")
    return f"{named} ({many(lines, 'line')})"


def _opened(payload: Payload) -> str:
    stage, seats = payload["stage"], payload["seats"]
    if stage == Stage.PANEL:
        return f"{many(len(seats), 'reviewer')} asked: {', '.join(map(plain, seats))}"
    if stage in {Stage.REFUTE, Stage.GATE}:
        verb = "to be refuted" if stage == Stage.REFUTE else "to be tested"
        return f"{many(len(seats), 'claim')} {verb}"
    return f"{stage} asked"


def _counted(payload: Payload) -> str:
    thrown = len(payload["unsupported"])
    left = f"; {many(thrown, 'finding')} without evidence not counted" if thrown else ""
    return f"{many(len(payload['claims']), 'claim')} counted{left}"


def _refuted(payload: Payload) -> str:
    if payload["void"]:
        return f"{payload['claim']} survives: the kill is void, {payload['void']}"
    if payload["standing"] == "killed":
        return f"{payload['claim']} killed, {words(payload['ground'])}: {payload['reason']}"
    return f"{payload['claim']} {payload['standing']}: {payload['reason']}"


def _exhausted(payload: Payload) -> str:
    limit = f"${payload['budget']:g}" if payload["unit"] == "usd" else f"{payload['budget']:,} tokens"
    return (
        f"{_seat(payload['stage'], payload['seat'])}: the {payload['scope']}'s budget of {limit} is used up"
    )


def _signed(payload: Payload) -> str:
    verb = "sends the code back" if payload.get("decision") == "send_back" else "signs"
    return f"the lead {verb}: {payload['summary']}"


_SAYINGS: Mapping[str, Callable[[Payload], str]] = {
    "run.created": lambda it: f"submitted to {plain(it['team'])}",
    "run.started": lambda _: "started",
    "run.finished": lambda it: f"ended: {it['outcome']}",
    "run.cancelled": lambda _: "cancelled",
    "stage.opened": _opened,
    "candidate.written": lambda it: f"the code is there: {_files(it)}",
    "candidate.submitted": lambda it: f"code to be judged: {_files(it)}",
    "review.arrived": lambda it: f"review by {plain(it['seat'])}: {many(len(it['findings']), 'finding')}",
    "review.abstained": lambda it: f"{plain(it['seat'])} abstains: {_why(it)}",
    "consensus.counted": _counted,
    "claim.refuted": _refuted,
    "claim.tested": lambda it: f"{it['claim']} {words(it['proof'])}: {it['detail']}",
    "lead.signed": _signed,
    "round.opened": lambda it: f"round {it['round']}: sent back with {many(len(it['standing']), 'claim')}",
    "seat.deferred": lambda it: (
        f"{_seat(it['stage'], it['seat'])} waits {it['wait_seconds']:g} s: {it['detail']}"
    ),
    "seat.held": lambda it: (
        f"{_seat(it['stage'], it['seat'])} is held: the {it['scope']}'s budget is used up"
    ),
    "budget.exhausted": _exhausted,
    "tool.called": lambda it: f"{_seat(it['stage'], it['seat'])} called {it['server']}.{it['tool']}",
    "tool.missing": lambda it: (
        f"{_seat(it['stage'], it['seat'])} has no tools of {it['server']}: {it['cause']}"
    ),
}

#: Every kind that a page listens for.
KINDS = (*_SAYINGS, *(f"{stage}.failed" for stage in Stage if stage is not Stage.PANEL))
