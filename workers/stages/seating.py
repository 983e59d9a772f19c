"""Who sits at a stage. Most seats are the team's; refuters and provers get one for each claim routed to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from workers.core.claim import Claim
from workers.core.consensus import Tally
from workers.core.finding import Evidence, Evidenced
from workers.core.proof import PROVER_MAX_TOKENS, to_prove
from workers.core.refutation import (
    Refutation,
    Refuted,
    Standing,
    chain_of_other_families,
    claim_of,
    refuter_for,
    seat_of,
    to_refute,
    weigh,
)
from workers.core.run import SeatsOf, Stage
from workers.core.team import Seat, SeatAt, Team
from workers.provenance import ledger
from workers.provenance.repository import stages
from workers.stages.tallied import tally_of

#: Results by (stage, seat).
Results = Mapping[tuple[Stage, str], Any]


def seats_of(connection: Connection, entries: ledger.Writer, team: Team) -> SeatsOf:
    """Seats as the rows of the round have them. Results are read only when a claim's seats are asked for; the last one
    may just have been appended to the ledger."""
    read: list[Results] = []

    def seats(stage: Stage) -> Sequence[str]:
        if stage not in {Stage.REFUTE, Stage.GATE}:
            return team.seat_names(stage)
        if not read:
            ledger.flush(connection, entries)
            read.append(results_of(stages.rows_of(connection, entries.run_id, entries.round)))
        return [seat_of(claim.claim_id) for claim in routed(stage, read[0], team)]

    return seats


def results_of(rows: Sequence[stages.SeatRow]) -> Results:
    return {(row.key.stage, row.key.seat): row.result for row in rows if row.result is not None}


def routed(stage: Stage, results: Results, team: Team) -> tuple[Claim, ...]:
    """The claims that are refuted or proved. Without a consensus there are none: the run is degraded already.

    A scanner's alarms go nowhere: their fate is settled by the panel's judgements and evidence.
    """
    counted = tally_at(results)
    if counted is None or results[Stage.CODER, "coder"].get("alarms"):
        return ()
    if stage is Stage.REFUTE:
        return to_refute(counted.claims, team.policy)
    return to_prove(counted.claims, killed_in(results), team.policy)[0]


def is_submitted(candidate: Mapping[str, Any]) -> bool:
    """Whether the coder's result is code that was submitted to be judged, which nobody wrote here."""
    return "left_out" in candidate


def tally_at(results: Results) -> Tally | None:
    counted = results.get((Stage.CONSENSUS, "consensus"))
    return tally_of(counted) if counted else None


def claim_at(seat: str, results: Results) -> Claim:
    """The claim that the seat was opened for. Raises: KeyError; seats come from our own rows."""
    counted = tally_at(results)
    for claim in counted.claims if counted else ():
        if claim.claim_id == claim_of(seat):
            return claim
    raise KeyError(seat)


def refuted_in(results: Results) -> tuple[Refuted, ...]:
    """What the refuters' answers are worth, claim by claim."""
    counted = tally_at(results)
    if counted is None:
        return ()
    artefact = Evidenced(results[Stage.CODER, "coder"]["files"])
    claims = {claim.claim_id: claim for claim in counted.claims}
    return tuple(
        weigh(_refutation(result), claims[result["claim"]], artefact)
        for (stage, _), result in sorted(results.items())
        if stage is Stage.REFUTE
    )


def killed_in(results: Results) -> frozenset[str]:
    return frozenset(item.claim_id for item in refuted_in(results) if item.standing is Standing.KILLED)


def _refutation(result: Mapping[str, Any]) -> Refutation:
    return Refutation(
        claim_id=result["claim"],
        word=result["verdict"],
        ground=result["ground"],
        reason=result["reason"],
        evidence=tuple(Evidence(**item) for item in result["evidence"]),
        family=result["family"],
        least_quote_characters=result.get("least_quote_characters", 0),
    )


def place_of(team: Team, stage: Stage, seat: str, results: Results) -> SeatAt:
    """The seat of that name with its chain of models. Raises: KeyError."""
    if stage not in {Stage.REFUTE, Stage.GATE}:
        return team.place(stage, seat)
    claim = claim_at(seat, results)
    coder_family = results[Stage.CODER, "coder"]["family"]
    chain = (
        refuter_for(claim, team, coder_family=coder_family)
        if stage is Stage.REFUTE
        else prover_for(team, coder_family)
    )
    # Claims are spread over providers like any neighbours at the table.
    return SeatAt(index=int(claim.claim_id[1:]), stage=stage, name=seat, seat=chain)


def prover_for(team: Team, coder_family: str) -> Seat:
    """The team's prover, else reviewers' models of another family than the one that wrote the code."""
    if team.prover:
        return team.prover
    return chain_of_other_families(
        list(team.reviewers.values()),
        [coder_family],
        max_tokens=PROVER_MAX_TOKENS,
        timeout_seconds=180,
    )


def control_for(team: Team, prover_family: str) -> Seat:
    """Who mends the code: the team's control seat, else the coder's and the reviewers' models, of another family."""
    seats = [team.control] if team.control else [team.coder, *team.reviewers.values()]
    return chain_of_other_families(
        seats,
        [prover_family],
        max_tokens=max(seat.max_tokens for seat in seats),
        timeout_seconds=max(seat.timeout_seconds for seat in seats),
    )
