"""A run as its page shows it, folded from the ledger, the stage rows and the usage. Pure: no clock, no database.

The ledger is read with care: an entry that is redacted, or that somebody changed, costs its own line and no other."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from workers.core.run import SeatState, Stage
from workers.provenance.ledger import Event
from workers.provenance.repository.seat_times import SeatTime

SEVERITIES = ("critical", "high", "medium", "low")

#: A seat's state in the page's words.
_WORDS = {
    SeatState.PENDING: "waiting",
    SeatState.RUNNING: "thinking",
    SeatState.DONE: "done",
    SeatState.ABSTAINED: "abstained",
    SeatState.FAILED: "failed",
    SeatState.CANCELLED: "cancelled",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A reviewer's finding. `place` is `path:line`; `unsupported` says why it was not counted, or is empty."""

    text: str
    severity: str
    path: str
    line: int
    cwe: int | None
    quotes: tuple[str, ...]
    suggested_test: str
    suggested_fix: str
    unsupported: str


@dataclasses.dataclass(slots=True, kw_only=True)
class Seat:
    """One seat in one round. `state`: expected, waiting, thinking, done, abstained, failed or cancelled; `since` is
    when that began, `seconds` how long its work took."""

    stage: Stage
    name: str
    state: str = "expected"
    since: dt.datetime | None = None
    seconds: float | None = None
    rescues: int = 0
    note: str = ""
    cause: str = ""
    detail: str = ""
    result: Mapping[str, Any] | None = None
    remarks: tuple[Remark, ...] = ()

    @property
    def model(self) -> str:
        told = self.result or {}
        return str(
            told.get("model_served") or told.get("model") or told.get("prover", {}).get("model_served", "")
        )

    @property
    def provider(self) -> str:
        told = self.result or {}
        return str(told.get("provider") or told.get("prover", {}).get("provider", ""))

    @property
    def has_ended(self) -> bool:
        return self.state in {"done", "abstained", "failed", "cancelled"}


@dataclasses.dataclass(slots=True, kw_only=True)
class ClaimRow:
    """A claim with everything that became of it. `end` is the verdict's line on it, once there is one."""

    claim: Mapping[str, Any]
    refutation: Seat | None = None
    proof: Seat | None = None
    ruling: Mapping[str, Any] | None = None
    end: Mapping[str, Any] | None = None

    @property
    def claim_id(self) -> str:
        return str(self.claim["claim_id"])

    @property
    def state(self) -> str:
        """Where it is, in one word."""
        if self.end is not None:
            return str(self.end["state"])
        if self.proof is not None and self.proof.result is not None:
            return str(self.proof.result["proof"])
        if self.refutation is not None and self.refutation.result is not None:
            return str(self.refutation.result["standing"])
        return "proposed"


@dataclasses.dataclass(slots=True, kw_only=True)
class Round:
    """One pass from coder to lead."""

    number: int
    seats: dict[tuple[Stage, str], Seat] = dataclasses.field(default_factory=dict)
    claims: list[ClaimRow] = dataclasses.field(default_factory=list)

    def of(self, stage: Stage) -> list[Seat]:
        return [seat for (at, _), seat in self.seats.items() if at is stage]

    def one(self, stage: Stage) -> Seat | None:
        return next(iter(self.of(stage)), None)

    def seat(self, stage: Stage, name: str) -> Seat:
        return self.seats.setdefault((stage, name), Seat(stage=stage, name=name))

    @property
    def files(self) -> Mapping[str, str]:
        """The code under review; empty until there is any."""
        coder = self.one(Stage.CODER)
        return {} if coder is None or coder.result is None else dict(coder.result.get("files", {}))

    def stage_state(self, stage: Stage) -> str:
        """expected, waiting, thinking, done, partly (some seat gave nothing), failed or passed over."""
        seats = self.of(stage)
        if not seats:
            order = list(Stage)
            later = [seat for following in order[order.index(stage) + 1 :] for seat in self.of(following)]
            return "passed over" if any(seat.state != "expected" for seat in later) else "expected"
        states = {seat.state for seat in seats}
        for word in ("thinking", "waiting", "expected"):
            if word in states:
                return word
        if states == {"done"}:
            return "done"
        return "partly" if "done" in states else "failed"


@dataclasses.dataclass(slots=True, kw_only=True)
class RunView:
    """All rounds, the last of them under way or the one that decided; the verdict, once there is one."""

    rounds: list[Round]
    verdict: Mapping[str, Any] | None = None

    @property
    def latest(self) -> Round:
        return self.rounds[-1]


def fold(
    events: Sequence[Event],
    times: Sequence[SeatTime],
    *,
    reviewers: Sequence[str],
    verdict: Mapping[str, Any] | None,
) -> RunView:
    """The run so far. `reviewers` are the team's, shown as expected until they are asked."""
    view = RunView(rounds=[Round(number=1)], verdict=verdict)
    for event in events:
        try:
            _apply(view, event.kind, event.payload)
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
    numbered = {each.number: each for each in view.rounds}
    for time in times:
        if (held := numbered.get(time.round)) is not None:
            _time(held.seat(time.stage, time.seat), time)
    _expect(view.latest, reviewers)
    places = {name: place for place, name in enumerate(reviewers)}
    for each in view.rounds:
        # A reviewer's column stays where the team's file has it.
        each.seats = dict(sorted(each.seats.items(), key=lambda item: places.get(item[0][1], -1)))
        _join(each)
    if verdict is not None:
        ends = {item["claim"]["claim_id"]: item for item in verdict.get("claims", ())}
        for row in view.latest.claims:
            row.end = ends.pop(row.claim_id, None)
        view.latest.claims += [ClaimRow(claim=item["claim"], end=item) for item in ends.values()]
    return view


def _apply(view: RunView, kind: str, payload: Mapping[str, Any]) -> None:
    latest = view.latest
    if kind == "round.opened":
        view.rounds.append(Round(number=int(payload["round"])))
    elif kind == "stage.opened":
        for name in payload["seats"]:
            latest.seat(Stage(payload["stage"]), str(name)).state = "waiting"
    elif kind in _RESULTS:
        _result(latest, _RESULTS[kind], payload)
    elif kind == "review.abstained":
        _gave_up(latest.seat(Stage.PANEL, str(payload["seat"])), payload, "abstained")
    elif kind.endswith(".failed"):
        stage = Stage(kind.removesuffix(".failed"))
        state = "abstained" if stage in {Stage.REFUTE, Stage.GATE} else "failed"
        _gave_up(latest.seat(stage, str(payload["seat"])), payload, state)
    elif kind in _NOTES:
        latest.seat(Stage(payload["stage"]), str(payload["seat"])).note = _NOTES[kind].format(**payload)


_RESULTS = {
    "candidate.written": Stage.CODER,
    "candidate.submitted": Stage.CODER,
    "review.arrived": Stage.PANEL,
    "consensus.counted": Stage.CONSENSUS,
    "claim.refuted": Stage.REFUTE,
    "claim.tested": Stage.GATE,
    "lead.signed": Stage.LEAD,
}

_NOTES = {
    "seat.deferred": "waits {wait_seconds:g} s for its provider",
    "seat.held": "held: the {scope}'s budget is used up",
    "tool.called": "called {server}.{tool}",
    "tool.missing": "has no tools of {server}: {cause}",
}


def _result(held: Round, stage: Stage, payload: Mapping[str, Any]) -> None:
    seat = held.seat(stage, str(payload["seat"]))
    seat.state, seat.result, seat.note = "done", payload, _detours(payload)
    if stage is Stage.PANEL:
        seat.remarks = tuple(_remark(item) for item in payload["findings"])
    elif stage is Stage.CONSENSUS:
        held.claims = [ClaimRow(claim=claim) for claim in payload["claims"]]
        _mark_unsupported(held, payload)


def _gave_up(seat: Seat, payload: Mapping[str, Any], state: str) -> None:
    seat.state, seat.note = state, ""
    seat.cause, seat.detail = str(payload["cause"]), str(payload["detail"])


def _detours(payload: Mapping[str, Any]) -> str:
    """Which models failed before this one answered, and whether the cheap ones had to go first."""
    tried = ", ".join(f"{item['model']} ({item['cause']})" for item in payload.get("fallback", ()))
    parts = [f"after {tried}"] if tried else []
    return "; ".join(parts + (["quota is low"] if payload.get("low_quota") else []))


def _remark(item: Mapping[str, Any], unsupported: str = "") -> Remark:
    return Remark(
        text=str(item["claim"]),
        severity=str(item["severity"]),
        path=str(item["span"]["path"]),
        line=int(item["span"]["start"]),
        cwe=item.get("cwe"),
        quotes=tuple(str(quote["quote"]) for quote in item.get("evidence", ())),
        suggested_test=str(item.get("suggested_test") or ""),
        suggested_fix=str(item.get("suggested_fix") or ""),
        unsupported=unsupported,
    )


def _mark_unsupported(held: Round, payload: Mapping[str, Any]) -> None:
    reasons = {item["finding_id"]: str(item["reason"]) for item in payload.get("unsupported", ())}
    for seat in held.of(Stage.PANEL):
        found = (seat.result or {}).get("findings", ())
        seat.remarks = tuple(_remark(item, reasons.get(item["finding_id"], "")) for item in found)


def _time(seat: Seat, time: SeatTime) -> None:
    """The row knows first what the ledger does not say at all: whether somebody is at work on it."""
    seat.rescues = time.rescues
    if not seat.has_ended:
        seat.state = _WORDS[time.state]
        seat.since = time.started_at if time.state is SeatState.RUNNING else time.enqueued_at
    if time.started_at is not None and time.finished_at is not None:
        seat.seconds = max(0.0, (time.finished_at - time.started_at).total_seconds())


def _expect(held: Round, reviewers: Sequence[str]) -> None:
    if not held.of(Stage.PANEL) and not any(held.of(stage) for stage in (Stage.CONSENSUS, Stage.LEAD)):
        for name in reviewers:
            held.seat(Stage.PANEL, name)


def _join(held: Round) -> None:
    """Each claim with the seats that worked on it and what the lead said of it."""
    rows = {row.claim_id: row for row in held.claims}
    for seat in held.of(Stage.REFUTE):
        if (row := rows.get(seat.name.removeprefix("claim-"))) is not None:
            row.refutation = seat
    for seat in held.of(Stage.GATE):
        if (row := rows.get(seat.name.removeprefix("claim-"))) is not None:
            row.proof = seat
    lead = held.one(Stage.LEAD)
    for ruling in (lead.result or {}).get("rulings", ()) if lead is not None else ():
        if (row := rows.get(str(ruling["claim_id"]))) is not None:
            row.ruling = ruling
