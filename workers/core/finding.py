"""What one reviewer remarks, and whether the code bears it out (PANEL §1, §2.1)."""

from __future__ import annotations

import dataclasses
from enum import IntEnum

from workers.core.artefact import Files, Span, fold


class Severity(IntEnum):
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4

    @property
    def word(self) -> str:
        return self.name.lower()


#: The place of a remark that names none. No artefact holds it, so where there is code it is unsupported.
NOWHERE = Span(path="", start=0, end=0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A line of the artefact, quoted. White space is folded when it is looked up."""

    path: str
    line: int
    quote: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One reviewer's remark. `confidence` is what the model says of itself: stored, never a gate."""

    finding_id: str
    reviewer: str
    pass_number: int
    claim: str
    category: str
    severity: Severity
    span: Span
    cwe: int | None = None
    symbol: str | None = None
    confidence: float | None = None
    evidence: tuple[Evidence, ...] = ()
    suggested_test: str | None = None
    suggested_fix: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One reviewer's valid answer, over all its passes. `family` is the model family that gave it."""

    reviewer: str
    model: str
    family: str
    findings: tuple[Finding, ...] = ()
    summary: str = ""
    passes: int = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Abstention:
    """A seat that gave no usable review, and why; it leaves the denominator."""

    reviewer: str
    cause: str
    detail: str


#: A quote shorter than this, white space folded, stands in any code and is no evidence against anything.
LEAST_QUOTE_CHARACTERS = 5


class Evidenced:
    """An artefact that findings are checked against; each file is counted and folded once, not per quote."""

    def __init__(self, files: Files) -> None:
        self.line_counts = {path: len(text.splitlines()) for path, text in files.items()}
        self.folded = {path: fold(text) for path, text in files.items()}


def unsupported_reason(finding: Finding, artefact: Evidenced) -> str | None:
    """Why the artefact does not bear the finding out, or None if it does (PANEL §2.1).

    A finding must name a file of the artefact, lines inside it, and quote only what stands there. One that
    quotes nothing is held to its place alone.
    """
    count = artefact.line_counts.get(finding.span.path)
    if count is None:
        return f"there is no file {finding.span.path!r}"
    if not 1 <= finding.span.start <= finding.span.end <= count:
        return f"lines {finding.span.start}-{finding.span.end} are outside the file's {count}"
    for item in finding.evidence:
        text = artefact.folded.get(item.path)
        if text is None:
            return f"evidence names {item.path!r}, which does not exist"
        quote = fold(item.quote)
        if not quote or quote not in text:
            return f"the quote is not found in {item.path!r}"
    return None
