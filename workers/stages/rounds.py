"""Further rounds: what a round left behind, and the step into the next one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from workers.core.artefact import fold
from workers.core.claim import Claim
from workers.core.judgement import FixWord
from workers.core.proof import Proof
from workers.core.receipt import RoundsReceipt
from workers.core.rounds import Round, stopped
from workers.core.run import Stage
from workers.core.team import Team
from workers.provenance import ledger
from workers.provenance.digest import canonical, digest
from workers.provenance.repository import runs, stages
from workers.stages.context import Context
from workers.stages.seating import Results, is_submitted, refuted_in, results_of, tally_at


def open_another(context: Context, connection: Connection, entries: ledger.Writer, team: Team) -> bool:
    """Move the run into its next round, if the lead wants one and may have it."""
    if team.policy.rounds <= 1:
        return False
    ledger.flush(connection, entries)
    left = [
        results_of(stages.rows_of(connection, entries.run_id, number))
        for number in range(1, entries.round + 1)
    ]
    if Stage.LEAD not in {stage for stage, _ in left[-1]} or stopped(list(map(round_of, left)), team.policy):
        return False
    entries.round += 1
    runs.enter_round(connection, entries.run_id, entries.round)
    entries.append(
        "round.opened",
        {
            "round": entries.round,
            "standing": [claim.text for claim, _ in standing_in(left[-1])],
            "killed": [item["claim"] for item in killed_digest(left[-1])],
        },
        at=context.now(),
    )
    return True


def receipt(left: Sequence[Results], team: Team) -> RoundsReceipt | None:
    """How many rounds there were and why no other followed; None for a team that has one round only."""
    if team.policy.rounds <= 1 or not left:
        return None
    if (Stage.CODER, "coder") not in left[-1]:
        return RoundsReceipt(count=len(left), stopped="coder_missing")
    if (Stage.LEAD, "lead") not in left[-1]:
        return RoundsReceipt(count=len(left), stopped="signed")
    why = stopped(list(map(round_of, left)), team.policy)
    return RoundsReceipt(count=len(left), stopped=why or "signed")


def round_of(results: Results) -> Round:
    candidate, signed = results[Stage.CODER, "coder"], results.get((Stage.LEAD, "lead"), {})
    return Round(
        code_digest=digest(canonical(candidate["files"])),
        standing=frozenset(
            f"{claim.span.path}:{fold(claim.text).lower()}" for claim, _ in standing_in(results)
        ),
        wants_another=signed.get("decision") == "send_back",
        has_coder=not is_submitted(candidate),
    )


def standing_in(results: Results) -> list[tuple[Claim, Mapping[str, Any]]]:
    """The claims that a test reproduced and that the lead's code does not mend, each with its gate's result."""
    counted = tally_at(results)
    signed = results.get((Stage.LEAD, "lead"), {})
    mended = {item["claim_id"] for item in signed.get("fixes", ()) if item["word"] == FixWord.FIXED}
    proofs = {
        result["claim"]: result
        for (stage, _), result in results.items()
        if stage is Stage.GATE and result["proof"] == Proof.REPRODUCED
    }
    return [
        (claim, proofs[claim.claim_id])
        for claim in (counted.claims if counted else ())
        if claim.claim_id in proofs and claim.claim_id not in mended
    ]


def killed_digest(results: Results) -> list[dict[str, Any]]:
    """What the refuters killed, in few words: reviewers of the next round need not propose it again."""
    counted = tally_at(results)
    texts = {claim.claim_id: claim.text for claim in (counted.claims if counted else ())}
    return [
        {"claim": texts[item.claim_id], "ground": item.ground, "reason": item.reason}
        for item in refuted_in(results)
        if item.standing == "killed"
    ]


def standing_lines(results: Results) -> str:
    """What the coder is given to mend: claim, place, and the test that failed, one JSON object a line."""
    return "\n".join(
        json.dumps(
            {
                "id": claim.claim_id,
                "claim": claim.text,
                "path": claim.span.path,
                "lines": [claim.span.start, claim.span.end],
                "gate": Proof.REPRODUCED,
                "failed_with": proof["detail"],
                "test": proof["test"],
            },
            ensure_ascii=False,
        )
        for claim, proof in standing_in(results)
    )
