"""A run's claims as results, whatever format they leave in."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workers.core.alarm import Alarm
from workers.core.artefact import Files, Span, fold
from workers.core.proof import TEST_PATH, Proof

#: Lines of a claim's place that its fingerprint reads.
FINGERPRINT_LINES = 5
#: States of a claim that is not to bother anybody again.
SUPPRESSED = frozenset({"killed", "dismissed"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What a reader must know of the run that results come from. Times are ISO 8601, in UTC."""

    run_id: str
    team: str
    outcome: str
    is_simulated: bool
    started_at: str | None = None
    finished_at: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One claim. `path` is empty where it names no place; lines are 1-based. `snippet` is its first lines, folded."""

    run: RunFacts
    claim_id: str
    rule_id: str
    cwe: int | None
    category: str
    severity: str
    text: str
    path: str
    start: int
    end: int
    symbol: str | None
    snippet: str
    state: str
    stands: bool
    why: str
    agreement: float
    weighted_agreement: float
    flagged_by: tuple[str, ...]
    families: tuple[str, ...]
    #: (path, line, quote), as the reviewers gave it.
    evidence: tuple[tuple[str, int, str], ...] = ()
    fingerprints: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: The way to the place, first step first: where an error of the gate's test came through, or the tool's own flow.
    flow: tuple[Span, ...] = ()

    @property
    def is_suppressed(self) -> bool:
        return self.state in SUPPRESSED


def results_of(
    run: RunFacts,
    verdict: Mapping[str, Any],
    *,
    candidate: Files,
    findings: Iterable[Mapping[str, Any]] = (),
    alarms: Iterable[Alarm] = (),
    proofs: Mapping[str, Mapping[str, Any]] | None = None,
) -> tuple[Result, ...]:
    """The verdict's claims in its order. `findings` are the reviewers', from which a claim's weakness is taken;
    `proofs` what the gate recorded of each claim."""
    by_id = {str(finding["finding_id"]): finding for finding in findings}
    by_alarm = {alarm.alarm_id: alarm for alarm in alarms}
    return tuple(
        _result(
            run,
            judged,
            candidate,
            [by_id[name] for name in judged["claim"]["finding_ids"] if name in by_id],
            by_alarm.get(judged["claim"]["claim_id"]),
            _trace((proofs or {}).get(judged["claim"]["claim_id"], {}), candidate),
        )
        for judged in verdict.get("claims", ())
    )


def _result(
    run: RunFacts,
    judged: Mapping[str, Any],
    candidate: Files,
    findings: Sequence[Mapping[str, Any]],
    alarm: Alarm | None,
    trace: tuple[Span, ...],
) -> Result:
    claim = judged["claim"]
    span = claim["span"]
    # The weakness that most of the claim's findings name; the smaller number where they are even.
    named = Counter(sorted(finding["cwe"] for finding in findings if finding.get("cwe")))
    cwe = alarm.cwe if alarm else named.most_common(1)[0][0] if named else None
    category = str(claim["category"])
    lines = candidate.get(span["path"], "").splitlines()
    return Result(
        run=run,
        claim_id=claim["claim_id"],
        rule_id=alarm.rule if alarm else f"CWE-{cwe}" if cwe else _slug(category),
        cwe=cwe,
        category=category,
        severity=claim["severity"],
        text=claim["text"],
        path=span["path"],
        start=span["start"],
        end=span["end"],
        symbol=next((str(finding["symbol"]) for finding in findings if finding.get("symbol")), None),
        snippet=fold("\n".join(lines[max(0, span["start"] - 1) : span["end"]][:FINGERPRINT_LINES])),
        state=judged["state"],
        stands=bool(judged["stands"]),
        why=_why(judged),
        agreement=claim["agreement"],
        weighted_agreement=claim["weighted_agreement"],
        flagged_by=tuple(claim["flagged_by"]),
        families=tuple(claim["families"]),
        evidence=tuple(
            (item["path"], item["line"], item["quote"])
            for finding in findings
            for item in finding.get("evidence", ())
        ),
        fingerprints=alarm.fingerprints if alarm else {},
        flow=trace or (alarm.flow if alarm else ()),
    )


def _trace(proof: Mapping[str, Any], candidate: Files) -> tuple[Span, ...]:
    """Where the error of a reproduced claim's test came through the code; empty where the test itself complained."""
    if proof.get("proof") != Proof.REPRODUCED:
        return ()
    repeats = proof["runs"][0]["files"].get(TEST_PATH) or [{}]
    traces = (case.get("trace", ()) for case in repeats[0].get("cases", ()))
    steps = next((trace for trace in traces if trace), ())
    return tuple(Span(path=path, start=line, end=line) for path, line in steps if path in candidate)


def _why(judged: Mapping[str, Any]) -> str:
    said = judged.get("ruling_reason")
    return f"{judged['why']}; the lead: {said}" if said else str(judged["why"])


def _slug(category: str) -> str:
    """A rule's id from a reviewer's word for the kind of defect."""
    words = "".join(character if character.isalnum() else "-" for character in category.lower())
    return "-".join(part for part in words.split("-") if part)[:60] or "claim"
