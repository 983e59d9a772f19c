"""A run's verdict once more, from its ledger alone: no database, no model, no cage (PANEL §5).

The ledger holds what every seat answered; the arithmetic is asked again and must give the same bytes."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workers.core.run import GIVE_UP, SeatState, Stage
from workers.core.team import EquippedTeam
from workers.core.verdict import decide
from workers.provenance.digest import GENESIS, canonical, digest
from workers.provenance.ledger import Event, verify
from workers.provenance.repository.stages import SeatKey, SeatRow
from workers.stages.broken import broken_verdict
from workers.stages.case import case_of

#: Events that bring a seat's result.
_RESULT_OF = {
    "candidate.written": Stage.CODER,
    "candidate.submitted": Stage.CODER,
    "review.arrived": Stage.PANEL,
    "consensus.counted": Stage.CONSENSUS,
    "claim.refuted": Stage.REFUTE,
    "claim.tested": Stage.GATE,
    "lead.signed": Stage.LEAD,
}
_FAILURE_OF = {"review.abstained": Stage.PANEL, **{f"{stage}.failed": stage for stage in Stage}}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """`problem`: why the verdict is not confirmed, in one sentence, or None; `is_compared`: false where there was
    nothing to compare, so that nothing differs either. `digest` is of the recomputed verdict with
    the spending that was recorded beside it: the payload digest of the event `run.finished`."""

    problem: str | None
    is_compared: bool = True
    outcome: str = ""
    digest: str = ""
    events: int = 0


def events_of(document: Mapping[str, Any]) -> list[Event]:
    """The events of a provenance document, as `GET /v1/runs/{id}/provenance` gives it."""
    return [
        Event(
            run_id=document["run_id"],
            **{**item, "at": dt.datetime.fromisoformat(item["at"].replace("Z", "+00:00"))},
        )
        for item in document["events"]
    ]


def replay(document: Mapping[str, Any]) -> Replayed:
    """Check the chain, compute the verdict again and compare it with the recorded one, byte for byte.

    Raises: KeyError, TypeError, ValueError for what is no provenance document.
    """
    entries = events_of(document)
    fault = verify(entries, run_id=document["run_id"], head=document["head"], genesis=GENESIS)
    if fault is not None:
        return Replayed(problem=fault)
    if any(entry.payload is None for entry in entries) or document["team"] is None:
        why = document.get("gone") or "part of the run's material was redacted"
        return Replayed(problem=f"{why}, so its verdict cannot be computed again", is_compared=False)
    created = entries[0].payload["team_digest"] if entries else ""
    if digest(canonical(document["team"])) != created:
        return Replayed(problem="the team is not the one that the run was submitted with")
    recorded = next((entry for entry in entries if entry.kind == "run.finished"), None)
    if recorded is None:
        return Replayed(
            problem="the run has no verdict: it has not ended, or it was cancelled", is_compared=False
        )
    return _compare(document["team"], entries, recorded)


def _compare(team: Mapping[str, Any], entries: Sequence[Event], recorded: Event) -> Replayed:
    rounds = rows_by_round(entries)
    reasons = recorded.payload["reasons"]
    if any(reason["code"] == "internal_error" for reason in reasons):
        verdict = broken_verdict(rounds[-1], reasons[0]["detail"])
    else:
        verdict = decide(case_of(EquippedTeam.model_validate(team), rounds))
    # What the run cost is measured, not concluded: it is taken over.
    again = {**verdict.as_data(), "spending": recorded.payload["spending"]}
    found = digest(canonical(again))
    problem = None
    if found != recorded.payload_digest:
        differing = sorted(
            key for key in {*again, *recorded.payload} if _differs(again, recorded.payload, key)
        )
        problem = f"the recomputed verdict differs in {', '.join(differing)}"
    return Replayed(problem=problem, outcome=verdict.outcome, digest=found, events=len(entries))


def _differs(one: Mapping[str, Any], other: Mapping[str, Any], key: str) -> bool:
    return key not in one or key not in other or canonical(one[key]) != canonical(other[key])


def rows_by_round(entries: Iterable[Event]) -> list[list[SeatRow]]:
    """The stage rows of every round as the events tell them, in order."""
    rounds: list[dict[tuple[Stage, str], SeatRow]] = [{}]
    for entry in entries:
        value = entry.payload
        if entry.kind == "round.opened":
            rounds.append({})
        elif entry.kind == "stage.opened":
            for seat in value["seats"]:
                _put(rounds, entry.run_id, Stage(value["stage"]), seat, SeatState.PENDING)
        elif entry.kind in _RESULT_OF:
            _put(rounds, entry.run_id, _RESULT_OF[entry.kind], value["seat"], SeatState.DONE, result=value)
        elif entry.kind in _FAILURE_OF:
            stage = _FAILURE_OF[entry.kind]
            _put(
                rounds,
                entry.run_id,
                stage,
                value["seat"],
                GIVE_UP[stage],
                cause=value["cause"],
                detail=value["detail"],
            )
    return [list(rows.values()) for rows in rounds]


def _put(
    rounds: list[dict[tuple[Stage, str], SeatRow]],
    run_id: str,
    stage: Stage,
    seat: str,
    state: SeatState,
    **values: Any,
) -> None:
    key = SeatKey(run_id=run_id, round=len(rounds), stage=stage, seat=seat)
    absent = {"cause": None, "detail": None, "result": None}
    rounds[-1][stage, seat] = SeatRow(
        key=key, state=state, rescues=0, started_at=None, finished_at=None, **{**absent, **values}
    )
