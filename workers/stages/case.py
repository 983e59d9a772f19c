"""From what the stages of a run left to the verdict's input. The rows may come from the database or from the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workers.core.artefact import Span
from workers.core.consensus import tally
from workers.core.finding import Abstention
from workers.core.judgement import FixCheck, FixWord, Proved, Ruling, Spent
from workers.core.proof import Proof, to_prove
from workers.core.receipt import TestReceipt
from workers.core.refutation import claim_of, to_refute
from workers.core.run import SeatState, Stage
from workers.core.slices import LeftOut
from workers.core.team import Policy, Team
from workers.core.verdict import Case, StageFailure, judged_alarms
from workers.provenance.repository.stages import SeatRow
from workers.stages.consensus import reviews_of
from workers.stages.rounds import receipt
from workers.stages.seating import Results, is_submitted, killed_in, refuted_in, results_of
from workers.stages.shown import hidden_from
from workers.stages.tallied import tally_of
from workers.stages.triage import triaged


def case_of(team: Team, rounds: Sequence[Sequence[SeatRow]]) -> Case:
    """The case of a run from the rows of its rounds. A round whose coder gave nothing leaves the one
    before in force."""
    left = [results_of(rows) for rows in rounds]
    with_code = [at for at, results in enumerate(left) if (Stage.CODER, "coder") in results]
    at = with_code[-1] if with_code else len(rounds) - 1
    rows, results = rounds[at], left[at]
    reviews = reviews_of(results)
    candidate = results.get((Stage.CODER, "coder"))
    files = candidate["files"] if candidate else {}
    counted = results.get((Stage.CONSENSUS, "consensus"))
    signed = results.get((Stage.LEAD, "lead"))
    return Case(
        policy=team.policy,
        panel_size=len(team.reviewers),
        coder_model=f"{candidate['provider']}/{candidate['model']}"
        if candidate and candidate["model"]
        else None,
        candidate=files,
        signed=signed["files"] if signed else None,
        reviews=reviews,
        abstentions=tuple(
            Abstention(reviewer=row.key.seat, cause=row.cause or "unknown", detail=row.detail or "")
            for row in rows
            if row.state is SeatState.ABSTAINED and row.key.stage is Stage.PANEL
        ),
        is_submitted=is_submitted(candidate or {}),
        left_out=tuple(LeftOut(**item) for item in (candidate or {}).get("left_out", ())),
        hidden={
            seat: hidden_from(result) for (stage, seat), result in results.items() if stage is Stage.PANEL
        },
        judged=judged_alarms(triaged(results, reviews, team)) if (candidate or {}).get("alarms") else None,
        tally=tally_of(counted) if counted else tally(reviews, files),
        rulings=tuple(
            Ruling(**{**item, "changed": tuple(Span(**span) for span in item["changed"])})
            for item in (signed["rulings"] if signed else ())
        ),
        failures=tuple(
            StageFailure(stage=row.key.stage, cause=row.cause or "unknown", detail=row.detail or "")
            for row in sorted(rows, key=lambda row: list(Stage).index(row.key.stage))
            if row.state is SeatState.FAILED
        ),
        refuted=refuted_in(results),
        proved=proofs_of(rows),
        fixes=tuple(
            FixCheck(claim_id=item["claim_id"], word=FixWord(item["word"]), detail=item["detail"])
            for item in (signed or {}).get("fixes", ())
        ),
        spent=_spent(results),
        unanswered=_without_answer(rows, Stage.REFUTE),
        not_refuted=_left_out(Stage.REFUTE, rows, results, team.policy),
        not_tested=_left_out(Stage.GATE, rows, results, team.policy),
        tests=_tests((signed or {}).get("tests")),
        rounds=receipt(left, team),
    )


def proofs_of(rows: Sequence[SeatRow]) -> tuple[Proved, ...]:
    """What the gate said, claim by claim; a prover that gave nothing leaves its claim unprovable."""
    found = []
    for row in sorted(rows, key=lambda row: row.key):
        if row.key.stage is Stage.GATE and row.result is not None:
            found.append(
                Proved(
                    claim_id=row.result["claim"],
                    proof=Proof(row.result["proof"]),
                    reason=row.result["reason"],
                    detail=row.result["detail"],
                    guards=row.result.get("guards"),
                )
            )
        elif row.key.stage is Stage.GATE:
            found.append(
                Proved(
                    claim_id=claim_of(row.key.seat),
                    proof=Proof.UNPROVABLE,
                    reason=row.cause or "unknown",
                    detail=row.detail or "nobody answered",
                )
            )
    return tuple(found)


def _without_answer(rows: Sequence[SeatRow], stage: Stage) -> tuple[str, ...]:
    return tuple(claim_of(row.key.seat) for row in rows if row.key.stage is stage and row.result is None)


def _left_out(stage: Stage, rows: Sequence[SeatRow], results: Results, policy: Policy) -> tuple[str, ...]:
    """Claims above the team's number; none for a run from before the stage existed."""
    counted = results.get((Stage.CONSENSUS, "consensus"))
    if counted is None or not any(row.key.stage is stage for row in rows):
        return ()
    claims = tally_of(counted).claims
    if stage is Stage.GATE:
        return tuple(claim.claim_id for claim in to_prove(claims, killed_in(results), policy)[1])
    unbounded = policy.model_copy(update={"max_refutations": len(claims)})
    chosen = {claim.claim_id for claim in to_refute(claims, policy)}
    return tuple(claim.claim_id for claim in to_refute(claims, unbounded) if claim.claim_id not in chosen)


def _spent(results: Results) -> tuple[Spent, ...]:
    """What the refuters and the gate spent on each claim."""
    by_claim: dict[str, list[Mapping[str, Any]]] = {}
    for (stage, _), result in sorted(results.items()):
        if stage in {Stage.REFUTE, Stage.GATE}:
            by_claim.setdefault(result["claim"], []).append(result)
    return tuple(
        Spent(
            claim_id=claim_id,
            cost_usd=_cost(parts),
            seconds=round(sum(part["seconds"] for part in parts), 3),
            cage_seconds=round(sum(part.get("cage_seconds", 0.0) for part in parts), 3),
        )
        for claim_id, parts in sorted(by_claim.items())
    )


def _cost(parts: Sequence[Mapping[str, Any]]) -> float | None:
    """None when the price of a call is not known; what asked no model costs nothing."""
    asked = [part["usage"] for part in parts if part["usage"]["calls"]]
    if any(usage["cost_usd"] is None for usage in asked):
        return None
    return float(round(sum(usage["cost_usd"] for usage in asked), 6))


def _tests(found: Mapping[str, Any] | None) -> TestReceipt | None:
    if found is None:
        return None
    return TestReceipt(
        green_before=tuple(found["green_before"]),
        green_after=tuple(found["green_after"]),
        red_after=tuple(found["red_after"]),
        red_submitted=tuple(found["red_submitted"]),
        is_rewrite_discarded=found["is_rewrite_discarded"],
        problem=found["problem"],
    )
