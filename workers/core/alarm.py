"""An alarm of a scanner, what a panel says of it, and when it may be dismissed (PANEL §6, sast-triage).

An alarm is kept unless evidence against it is verified: enough reviewers of enough families must call it benign, each
with quotes that stand in the code, and none may show with a verified quote that it is not. Silence, doubt, a budget
that ran out and a lost reviewer all keep it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from workers.core.artefact import Span, fold
from workers.core.claim import Claim
from workers.core.finding import LEAST_QUOTE_CHARACTERS, Evidence, Evidenced, Review, Severity
from workers.core.team import Policy
from workers.core.weights import agreement, effective_weights, weighted_agreement

#: More alarms than this of one file of alarms are kept without being judged.
MAX_JUDGED = 400

Word = Literal["benign", "exploitable", "uncertain"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One result of a tool. `flow` are further places on the way that the tool reports."""

    alarm_id: str
    tool: str
    rule: str
    message: str
    severity: Severity
    span: Span
    cwe: int | None = None
    flow: tuple[Span, ...] = ()
    #: The tool's own fingerprints, given back as they came.
    fingerprints: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        return {
            **dataclasses.asdict(self),
            "severity": self.severity.word,
            "flow": list(map(_span, self.flow)),
        }

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Alarm:
        return cls(
            **{
                **value,
                "severity": Severity[value["severity"].upper()],
                "span": Span(**value["span"]),
                "flow": tuple(Span(**span) for span in value["flow"]),
            }
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one reviewer says of one alarm."""

    alarm_id: str
    reviewer: str
    word: Word
    ground: str
    reason: str
    evidence: tuple[Evidence, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Triage:
    """The fate of one alarm. `why` holds the ground and the quotes that dismissed it, or what it was kept for."""

    claim: Claim
    is_dismissed: bool
    why: str


def triage(
    alarms: Sequence[Alarm],
    judgements: Sequence[Judgement],
    reviews: Sequence[Review],
    artefact: Evidenced,
    *,
    policy: Policy,
    never_dismiss: Collection[int] = (),
) -> tuple[Triage, ...]:
    """The alarms in order. Pure, and independent of the order of judgements."""
    said: dict[str, dict[str, Judgement]] = {}
    for judgement in judgements:
        # A reviewer has one word an alarm; where it said two things, the more careful one counts.
        have = said.setdefault(judgement.alarm_id, {})
        known = have.get(judgement.reviewer)
        if known is None or _care(judgement, artefact) > _care(known, artefact):
            have[judgement.reviewer] = judgement
    return tuple(
        _fate(alarm, list(said.get(alarm.alarm_id, {}).values()), reviews, artefact, policy, never_dismiss)
        for alarm in alarms
    )


def is_verified(judgement: Judgement, artefact: Evidenced) -> bool:
    """Whether it quotes something, and everything that it quotes stands in the file that it names."""
    return bool(judgement.evidence) and all(
        len(quote := fold(item.quote)) >= LEAST_QUOTE_CHARACTERS
        and quote in artefact.folded.get(item.path, "")
        for item in judgement.evidence
    )


def _fate(
    alarm: Alarm,
    said: Sequence[Judgement],
    reviews: Sequence[Review],
    artefact: Evidenced,
    policy: Policy,
    never_dismiss: Collection[int],
) -> Triage:
    family = {review.reviewer: review.family for review in reviews}
    said = sorted((item for item in said if item.reviewer in family), key=lambda item: item.reviewer)
    shown = [item for item in said if is_verified(item, artefact)]
    # A quote from elsewhere may explain; one from the alarm's own file must be among them.
    benign = [
        item
        for item in shown
        if item.word == "benign" and any(quote.path == alarm.span.path for quote in item.evidence)
    ]
    against = [item.reviewer for item in said if item.word == "exploitable"]
    proven = [item for item in shown if item.word == "exploitable"]
    effective = effective_weights(reviews, {})
    share = weighted_agreement([item.reviewer for item in benign], effective)
    families = {family[item.reviewer] for item in benign}
    is_enough = (
        len(benign) >= policy.quorum.heads
        and len(families) >= policy.quorum.families
        and share >= policy.threshold
    )
    claim = Claim(
        claim_id=alarm.alarm_id,
        text=alarm.message,
        category=f"{alarm.tool}/{alarm.rule}".lower(),
        severity=alarm.severity,
        span=alarm.span,
        finding_ids=(),
        flagged_by=tuple(against),
        families=tuple(sorted({family[name] for name in against})),
        agreement=agreement(against, len(reviews)),
        weighted_agreement=weighted_agreement(against, effective),
    )
    if alarm.span.path not in artefact.line_counts:
        return Triage(claim=claim, is_dismissed=False, why="kept: its file was not submitted")
    if alarm.cwe is not None and alarm.cwe in never_dismiss:
        return Triage(claim=claim, is_dismissed=False, why=f"kept: no model may dismiss CWE-{alarm.cwe}")
    if is_enough and not proven:
        return Triage(claim=claim, is_dismissed=True, why=_ground(benign, len(families)))
    return Triage(claim=claim, is_dismissed=False, why=_kept(said, benign, proven, against))


def _ground(benign: Sequence[Judgement], families: int) -> str:
    first = benign[0]
    quotes = "; ".join(f"{item.path}:{item.line}: {fold(item.quote)[:120]}" for item in first.evidence[:3])
    return (
        f"dismissed by {len(benign)} heads of {families} families, quotes verified: {first.ground}: "
        f"{fold(first.reason)[:300]} [{quotes}]"
    )


def _kept(
    said: Sequence[Judgement],
    benign: Sequence[Judgement],
    proven: Sequence[Judgement],
    against: Sequence[str],
) -> str:
    if not said:
        return "kept: nobody judged it"
    if proven:
        return f"kept: {proven[0].reviewer} shows that it is exploitable: {fold(proven[0].reason)[:300]}"
    unverified = sum(item.word == "benign" for item in said) - len(benign)
    parts = [f"{len(benign)} of {len(said)} call it benign with quotes that stand in the code"]
    parts += [f"{unverified} without"] if unverified else []
    parts += [f"{len(against)} call it exploitable"] if against else []
    return f"kept: {', '.join(parts)}"


def _care(judgement: Judgement, artefact: Evidenced) -> tuple[int, bool, str]:
    """How much a word keeps the alarm: a quote that stands gives weight to an accusation, and its lack to a doubt.
    Between equals it is the text that decides, so that none counts for having come first."""
    is_accusation = judgement.word == "exploitable"
    word = ("benign", "uncertain", "exploitable").index(judgement.word)
    return word, is_verified(judgement, artefact) is is_accusation, repr(judgement)


def _span(span: Span) -> dict[str, Any]:
    return dataclasses.asdict(span)
