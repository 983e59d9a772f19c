"""What each seat is asked to answer, and how its JSON becomes values.

The border is lenient in form (a severity in capitals, a line number as text) and strict in substance: what
cannot be understood is refused with a sentence that goes back to the model as a hint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from workers.core.artefact import Span, files_problem
from workers.core.claim import Claim
from workers.core.consensus import Proposal
from workers.core.finding import Evidence, Finding, Review, Severity
from workers.core.judgement import Ruling
from workers.core.refutation import Refutation
from workers.core.reply_repair import MalformedReplyError

#: More findings than this from one reviewer are noise; the first ones count.
MAX_FINDINGS = 40

_Answer = TypeVar("_Answer", bound="Answer")


def _text(value: object) -> object:
    return "" if value is None else str(value) if isinstance(value, (int, float)) else value


def _word(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _cwe(value: object) -> object:
    """CWE numbers come as 89, "89", "CWE-89" or nothing."""
    digits = "".join(character for character in str(value or "") if character.isdecimal())
    return int(digits) if digits and len(digits) <= 5 else None


def _confidence(value: object) -> object:
    return value if isinstance(value, (int, float)) and 0 <= value <= 1 else None


def _printable(part: str) -> str:
    """A key of the reply, fit for a sentence that is stored and sent back: short and without controls."""
    return repr(part)[1:-1] if len(part) <= 80 else repr(part[:80])[1:-1] + "…"


Text = Annotated[str, BeforeValidator(_text)]
SeverityWord = Annotated[Literal["low", "medium", "high", "critical"], BeforeValidator(_word)]


class Answer(BaseModel):
    """A model's reply: unknown keys are ignored, missing optional ones have defaults."""

    model_config = ConfigDict(extra="ignore")


class CoderAnswer(Answer):
    files: dict[str, str] = Field(min_length=1)
    tests: dict[str, str] = Field(default_factory=dict)
    notes: Text = ""


class _Location(Answer):
    path: str
    start: int
    end: int | None = None
    symbol: str | None = None


class _Evidence(Answer):
    path: str | None = None
    line: int = 0
    quote: str


class _Finding(Answer):
    claim: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000)]
    category: Text = "correctness"
    cwe: Annotated[int | None, BeforeValidator(_cwe)] = None
    severity: SeverityWord
    confidence: Annotated[float | None, BeforeValidator(_confidence)] = None
    location: _Location
    evidence: list[_Evidence] = Field(default_factory=list, max_length=20)
    suggested_test: str | None = None
    suggested_fix: str | None = None


class ReviewAnswer(Answer):
    findings: list[_Finding]
    summary: Text = ""


class _Merge(Answer):
    claims: list[str] = Field(min_length=1)
    text: Text = ""
    flagged_by: list[str] | None = None


class ConsensusAnswer(Answer):
    merges: list[_Merge]
    summary: Text = ""


class _Changed(Answer):
    path: str
    start: int
    end: int | None = None


class _Ruling(Answer):
    claim: str
    ruling: Annotated[Literal["fixed", "upheld", "dismissed"], BeforeValidator(_word)]
    reason: Text = ""
    changed: list[_Changed] = Field(default_factory=list)
    override: bool = False


class LeadAnswer(Answer):
    #: The files that it changes; one that it leaves out stays as it was.
    files: dict[str, str]
    rulings: list[_Ruling] = Field(default_factory=list)
    decision: Annotated[Literal["sign", "send_back"], BeforeValidator(_word)] = "sign"
    summary: Text = ""


class RefutationAnswer(Answer):
    verdict: Annotated[Literal["killed", "survives", "cannot_tell"], BeforeValidator(_word)]
    ground: Annotated[
        Literal["correctness", "reachability", "exploitability", "duplicate", "intended"] | None,
        BeforeValidator(_word),
    ] = None
    reason: Text = ""
    evidence: list[_Evidence] = Field(default_factory=list, max_length=20)


class ProofAnswer(Answer):
    test: Annotated[str, StringConstraints(min_length=1, max_length=100_000)]
    spec_quote: Text = ""
    reason: Text = ""


class ControlAnswer(Answer):
    files: dict[str, str] = Field(min_length=1)
    reason: Text = ""


def parse(model: type[_Answer], value: Mapping[str, Any]) -> _Answer:
    """The answer as a value. Raises: MalformedReplyError, with a sentence fit for the model."""
    try:
        answer = model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(_printable(str(part)) for part in first["loc"]) or "the object"
        raise MalformedReplyError(f"{place}: {first['msg']}") from None
    for files in (getattr(answer, "files", None), getattr(answer, "tests", None)):
        problem = files_problem(files) if files else None
        if problem:
            raise MalformedReplyError(problem)
    return answer


def to_review(
    answer: ReviewAnswer, *, reviewer: str, model: str, family: str, pass_number: int = 1
) -> Review:
    """The review as the arithmetic counts it; finding ids are `reviewer/pass/number`."""
    findings = tuple(
        Finding(
            finding_id=f"{reviewer}/{pass_number}/{number}",
            reviewer=reviewer,
            pass_number=pass_number,
            claim=item.claim,
            category=item.category.strip().lower() or "correctness",
            cwe=item.cwe,
            severity=Severity[item.severity.upper()],
            confidence=item.confidence,
            span=Span(
                path=item.location.path,
                start=item.location.start,
                end=max(item.location.start, item.location.end or item.location.start),
            ),
            symbol=item.location.symbol,
            evidence=tuple(
                Evidence(path=quote.path or item.location.path, line=quote.line, quote=quote.quote)
                for quote in item.evidence
            ),
            suggested_test=item.suggested_test,
            suggested_fix=item.suggested_fix,
        )
        for number, item in enumerate(answer.findings[:MAX_FINDINGS], start=1)
    )
    return Review(reviewer=reviewer, model=model, family=family, findings=findings, summary=answer.summary)


def to_refutation(answer: RefutationAnswer, claim: Claim, *, family: str) -> Refutation:
    """The refuter's answer about a claim; evidence that names no file is looked for in the claim's own."""
    return Refutation(
        claim_id=claim.claim_id,
        word=answer.verdict,
        ground=answer.ground,
        reason=answer.reason,
        evidence=tuple(
            Evidence(path=item.path or claim.span.path, line=item.line, quote=item.quote)
            for item in answer.evidence
        ),
        family=family,
    )


def to_proposals(answer: ConsensusAnswer) -> tuple[Proposal, ...]:
    return tuple(
        Proposal(
            claim_ids=tuple(merge.claims),
            text=merge.text,
            flagged_by=None if merge.flagged_by is None else tuple(merge.flagged_by),
        )
        for merge in answer.merges
    )


def to_rulings(answer: LeadAnswer) -> tuple[Ruling, ...]:
    """One ruling a claim: the lead's last word on it counts."""
    rulings = {
        item.claim: Ruling(
            claim_id=item.claim,
            ruling=item.ruling,
            reason=item.reason,
            override=item.override,
            changed=tuple(
                Span(path=span.path, start=span.start, end=max(span.start, span.end or span.start))
                for span in item.changed
            ),
        )
        for item in answer.rulings
    }
    return tuple(rulings.values())
