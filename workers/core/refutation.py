"""Kill mandates (PANEL §3): which claims are sent to a refuter, who may be one, and when a kill counts.

A refuter is told to destroy one bare claim. Its word alone kills nothing: every line that it quotes must stand in the
code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Literal

from workers.core.artefact import fold
from workers.core.claim import Claim, ClaimState, route
from workers.core.finding import LEAST_QUOTE_CHARACTERS, Evidence, Evidenced
from workers.core.team import Policy, Seat, Team, family_of

#: What a refuter may write where the team has no seat for it.
REFUTER_MAX_TOKENS = 2048

RefutationWord = Literal["killed", "survives", "cannot_tell"]
Ground = Literal["correctness", "reachability", "exploitability", "duplicate", "intended"]


class Standing(StrEnum):
    """What became of a claim under its mandate. `unrefuted`: nobody could be asked, it stays as it was."""

    KILLED = "killed"
    SURVIVED = "survived"
    UNREFUTED = "unrefuted"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refutation:
    """One refuter's answer. `family` is the model family that gave it. `least_quote_characters`: shorter quotes are no
    evidence; 0 in runs from before that was asked for."""

    claim_id: str
    word: RefutationWord
    ground: Ground | None
    reason: str
    evidence: tuple[Evidence, ...]
    family: str
    least_quote_characters: int = LEAST_QUOTE_CHARACTERS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refuted:
    """A refutation as it counts. `void` says why a kill does not, and is empty otherwise. `is_same_family`: the
    refuter shares its blind spots with those who proposed the claim, so its silence proves little."""

    claim_id: str
    standing: Standing
    ground: Ground | None
    reason: str
    void: str
    is_same_family: bool


def seat_of(claim_id: str) -> str:
    """The seat at which a claim is refuted or proved."""
    return f"claim-{claim_id}"


def claim_of(seat: str) -> str:
    return seat.removeprefix("claim-")


def to_refute(claims: Iterable[Claim], policy: Policy) -> tuple[Claim, ...]:
    """The contested claims, worst and most agreed first, at most as many as allowed."""
    if not policy.refute:
        return ()
    routed = [claim for claim in claims if route(claim, has_refuter=True) is ClaimState.CONTESTED]
    return tuple(sorted(routed, key=_urgency)[: policy.max_refutations])


def _urgency(claim: Claim) -> tuple[int, float, int]:
    return (-claim.severity, -claim.weighted_agreement, int(claim.claim_id[1:]))


def chain_of_other_families(
    seats: Sequence[Seat], families: Iterable[str], *, max_tokens: int, timeout_seconds: float
) -> Seat:
    """A seat whose models are those of the seats that are of none of `families`, first seat first; if there is no such
    model, all of them: what then answers is of one family with them and is marked so."""
    avoided = frozenset(families)
    links = list(dict.fromkeys(link for seat in seats for link in seat.models))
    others = [link for link in links if family_of(link) not in avoided]
    return Seat(
        models=tuple((others or links)[:20]),
        persona=seats[0].persona if len(seats) == 1 else "",
        temperature=seats[0].temperature if len(seats) == 1 else None,
        max_tokens=seats[0].max_tokens if len(seats) == 1 else max_tokens,
        timeout_seconds=timeout_seconds,
    )


def refuter_for(claim: Claim, team: Team, *, coder_family: str) -> Seat:
    """Who is told to kill the claim: the team's refuter, else its reviewers' models, of another family than those who
    proposed it, and than the one whose code it blames where there is a choice."""
    seats = [team.refuter] if team.refuter else list(team.reviewers.values())
    families = {family_of(link) for seat in seats for link in seat.models}
    avoided = {*claim.families, coder_family}
    return chain_of_other_families(
        seats,
        avoided if families - avoided else claim.families,
        max_tokens=REFUTER_MAX_TOKENS,
        timeout_seconds=seats[0].timeout_seconds,
    )


def weigh(refutation: Refutation, claim: Claim, artefact: Evidenced) -> Refuted:
    """What the refuter's answer is worth: a kill needs a ground and quotes that all stand in the code."""
    void = "" if refutation.word != "killed" else _void(refutation, artefact)
    is_kill = refutation.word == "killed" and not void
    return Refuted(
        claim_id=claim.claim_id,
        standing=Standing.KILLED if is_kill else Standing.SURVIVED,
        ground=refutation.ground if refutation.word == "killed" else None,
        reason=refutation.reason,
        void=void,
        is_same_family=refutation.family in claim.families,
    )


def _void(refutation: Refutation, artefact: Evidenced) -> str:
    if refutation.ground is None:
        return "the kill names no ground"
    if not refutation.evidence:
        return "the kill quotes nothing"
    for item in refutation.evidence:
        quote = fold(item.quote)
        if not quote or quote not in artefact.folded.get(item.path, ""):
            return f"the quote is not found in {item.path!r}"
        if len(quote) < refutation.least_quote_characters:
            return f"the quote {quote!r} is too short to show anything"
    return ""
