"""Results as a SARIF 2.1.0 log that code hosts accept (limits: reference/panel.md §5.5)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from workers.sarif.results import Result, RunFacts
from workers.sarif.rules import LEVELS, ORDER, RuleBook

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
#: GitHub takes this many results of a run.
MAX_RESULTS = 25_000

#: Bumped when what goes into a fingerprint changes; old and new must not be compared.
_FINGERPRINT = "consensusClaim/v1"


def to_sarif(
    results: Sequence[Result], runs: Sequence[tuple[RunFacts, Mapping[str, Any]]], *, version: str
) -> dict[str, Any]:
    """One SARIF run for any number of ours, given with their verdicts. `version` is this program's.

    Claims that were killed or dismissed are suppressed with their ground. What stands comes first, worst first; beyond
    `MAX_RESULTS` the rest is left out and a notification says how many.
    """
    ordered = sorted(results, key=lambda item: (not item.stands, item.is_suppressed, ORDER[item.severity]))
    kept = ordered[:MAX_RESULTS]
    book = RuleBook()
    for item in sorted(kept, key=lambda item: item.rule_id):
        book.index(item)
    seen: Counter[str] = Counter()
    notes = [told for facts, verdict in runs for told in notes_of(facts, verdict)]
    if len(ordered) > len(kept):
        notes.append(
            note("warning", f"{len(ordered) - len(kept)} further results are left out; {MAX_RESULTS} fit")
        )
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "Consensus", "semanticVersion": version, "rules": book.rules()}},
                "automationDetails": {"id": _category(runs)},
                "invocations": [
                    {
                        "executionSuccessful": all(facts.outcome != "degraded" for facts, _ in runs),
                        **_times(runs),
                        "toolExecutionNotifications": notes,
                    }
                ],
                "columnKind": "unicodeCodePoints",
                "results": [result_object(item, book.index(item), seen) for item in kept],
                "properties": {
                    "runs": [facts.run_id for facts, _ in runs],
                    "outcomes": [facts.outcome for facts, _ in runs],
                    "simulated": any(facts.is_simulated for facts, _ in runs),
                },
            }
        ],
    }


def result_object(item: Result, rule_index: int, seen: Counter[str]) -> dict[str, Any]:
    """A SARIF result. `seen` counts what the log holds already, so that equal places get fingerprints of their own."""
    key = _line_hash(item)
    seen[key] += 1
    flagged = (
        f"flagged by {len(item.flagged_by)} of the panel" if item.flagged_by else "flagged by no reviewer"
    )
    return {
        "ruleId": item.rule_id,
        "ruleIndex": rule_index,
        "kind": "fail",
        # What does not stand is told, and blocks nobody.
        "level": LEVELS[item.severity] if item.stands else "note",
        "message": {"text": f"{item.text} ({flagged}; {item.why})"},
        **({"locations": [_location(item)]} if item.path else {}),
        **({"codeFlows": [_code_flow(item)]} if item.flow else {}),
        "partialFingerprints": {**item.fingerprints, _FINGERPRINT: f"{key}:{seen[key]}"},
        "rank": round(100 * item.agreement, 1),
        **({"suppressions": [_suppression(item)]} if item.is_suppressed else {}),
        "properties": {
            "claim": item.claim_id,
            "run": item.run.run_id,
            "state": item.state,
            "severity": item.severity,
            "agreement": item.agreement,
            "weightedAgreement": item.weighted_agreement,
            "flaggedBy": list(item.flagged_by),
            "families": list(item.families),
            "simulated": item.run.is_simulated,
        },
    }


def _line_hash(item: Result) -> str:
    """Of the rule, the file and what stands there, not of where in the file: lines above may come and go."""
    text = item.snippet or item.text
    return hashlib.blake2b(
        "\0".join((item.rule_id, item.path, text)).encode("utf-8", "replace"), digest_size=16
    ).hexdigest()


def _code_flow(item: Result) -> dict[str, Any]:
    steps = [{"location": _place(span.path, span.start, span.end)} for span in item.flow]
    return {"threadFlows": [{"locations": steps}]}


def _place(path: str, start: int, end: int) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(path, safe="/"), "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": max(1, start), "endLine": max(1, start, end)},
        }
    }


def _location(item: Result) -> dict[str, Any]:
    return {
        **_place(item.path, item.start, item.end),
        **({"logicalLocations": [{"fullyQualifiedName": item.symbol}]} if item.symbol else {}),
    }


def _suppression(item: Result) -> dict[str, Any]:
    why = item.why if item.why.startswith(item.state) else f"{item.state}: {item.why}"
    return {"kind": "external", "status": "accepted", "justification": why}


def notes_of(facts: RunFacts, verdict: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Why a run is degraded, and the coverage receipt: what nobody looked at."""
    notes = [
        note("error", f"{facts.run_id}: {reason['code']}: {reason['detail']}")
        for reason in verdict.get("reasons", ())
    ]
    coverage = verdict.get("coverage", {})
    for name, words in (
        ("not_reviewed", "not reviewed"),
        ("thinly_reviewed", "seen by too few for a quorum"),
    ):
        notes += [
            note(
                "warning", f"{facts.run_id}: {words}: {span['path']}, lines {span['start']} to {span['end']}"
            )
            for span in coverage.get(name, ())
        ]
    notes += [
        note("note", f"{facts.run_id}: left out: {item['path']}: {item['reason']}")
        for item in coverage.get("left_out", ())
    ]
    notes += [
        note("warning", f"{facts.run_id}: {item['reviewer']} abstained: {item['cause']}")
        for item in coverage.get("abstained", ())
    ]
    return notes


def note(level: str, text: str) -> dict[str, Any]:
    """A SARIF notification."""
    return {"level": level, "message": {"text": text}}


def _category(runs: Sequence[tuple[RunFacts, Mapping[str, Any]]]) -> str:
    """`consensus/<team>/<run>`: hosts replace what came before under the same words up to the last slash."""
    if len(runs) == 1:
        return f"consensus/{runs[0][0].team}/{runs[0][0].run_id}"
    return "consensus/batch/"


def _times(runs: Sequence[tuple[RunFacts, Mapping[str, Any]]]) -> dict[str, str]:
    starts = [facts.started_at for facts, _ in runs if facts.started_at]
    ends = [facts.finished_at for facts, _ in runs if facts.finished_at]
    return {
        **({"startTimeUtc": min(starts)} if starts else {}),
        **({"endTimeUtc": max(ends)} if ends else {}),
    }
