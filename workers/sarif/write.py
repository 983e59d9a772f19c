"""Results as a SARIF 2.1.0 log that code hosts accept (limits: reference/panel.md §5.5)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from workers.sarif.results import Result, RunFacts

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
#: GitHub takes this many results of a run, and this many tags of a rule.
MAX_RESULTS, MAX_TAGS = 25_000, 20

_LEVELS = {"critical": "error", "high": "error", "medium": "warning", "low": "note"}
_ORDER = {"critical": 0, "high": 1, "medium": 2, "low": 3}
#: The middle of each band of GitHub's scale.
_SCORES = {"critical": "9.5", "high": "8.0", "medium": "5.5", "low": "2.0"}
#: Bumped when what goes into a fingerprint changes; old and new must not be compared.
_FINGERPRINT = "consensusClaim/v1"


def to_sarif(
    results: Sequence[Result], runs: Sequence[tuple[RunFacts, Mapping[str, Any]]], *, version: str
) -> dict[str, Any]:
    """One SARIF run for any number of ours, given with their verdicts. `version` is this program's.

    Claims that were killed or dismissed are suppressed with their ground. What stands comes first, worst first; beyond
    `MAX_RESULTS` the rest is left out and a notification says how many.
    """
    ordered = sorted(results, key=lambda item: (not item.stands, item.is_suppressed, _ORDER[item.severity]))
    kept = ordered[:MAX_RESULTS]
    rules = _rules(kept)
    index = {rule["id"]: number for number, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    notes = [note for facts, verdict in runs for note in _notes(facts, verdict)]
    if len(ordered) > len(kept):
        notes.append(
            _note("warning", f"{len(ordered) - len(kept)} further results are left out; {MAX_RESULTS} fit")
        )
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "Consensus", "semanticVersion": version, "rules": rules}},
                "automationDetails": {"id": _category(runs)},
                "invocations": [
                    {
                        "executionSuccessful": all(facts.outcome != "degraded" for facts, _ in runs),
                        **_times(runs),
                        "toolExecutionNotifications": notes,
                    }
                ],
                "columnKind": "unicodeCodePoints",
                "results": [_result(item, index[item.rule_id], seen) for item in kept],
                "properties": {
                    "runs": [facts.run_id for facts, _ in runs],
                    "outcomes": [facts.outcome for facts, _ in runs],
                    "simulated": any(facts.is_simulated for facts, _ in runs),
                },
            }
        ],
    }


def _rules(results: Sequence[Result]) -> list[dict[str, Any]]:
    by_id: dict[str, list[Result]] = {}
    for item in results:
        by_id.setdefault(item.rule_id, []).append(item)
    return [_rule(rule_id, items) for rule_id, items in sorted(by_id.items())]


def _rule(rule_id: str, results: Sequence[Result]) -> dict[str, Any]:
    worst = min((item.severity for item in results), key=_ORDER.__getitem__)
    weaknesses = sorted({item.cwe for item in results if item.cwe})
    categories = sorted({item.category for item in results})
    is_security = bool(weaknesses) or "security" in categories
    tags = [*(["security"] if is_security else []), *(f"external/cwe/cwe-{cwe:03d}" for cwe in weaknesses)]
    tags += [category for category in categories if category not in tags]
    what = f"CWE-{weaknesses[0]}" if len(weaknesses) == 1 else rule_id
    return {
        "id": rule_id,
        "shortDescription": {"text": f"{what}: {', '.join(categories)[:200]}"},
        "defaultConfiguration": {"level": _LEVELS[worst]},
        **(
            {"helpUri": f"https://cwe.mitre.org/data/definitions/{weaknesses[0]}.html"}
            if len(weaknesses) == 1
            else {}
        ),
        "properties": {
            "tags": tags[:MAX_TAGS],
            **({"security-severity": _SCORES[worst]} if is_security else {}),
        },
    }


def _result(item: Result, rule_index: int, seen: Counter[str]) -> dict[str, Any]:
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
        "level": _LEVELS[item.severity] if item.stands else "note",
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


def _notes(facts: RunFacts, verdict: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Why a run is degraded, and the coverage receipt: what nobody looked at."""
    notes = [
        _note("error", f"{facts.run_id}: {reason['code']}: {reason['detail']}")
        for reason in verdict.get("reasons", ())
    ]
    coverage = verdict.get("coverage", {})
    for name, words in (
        ("not_reviewed", "not reviewed"),
        ("thinly_reviewed", "seen by too few for a quorum"),
    ):
        notes += [
            _note(
                "warning", f"{facts.run_id}: {words}: {span['path']}, lines {span['start']} to {span['end']}"
            )
            for span in coverage.get(name, ())
        ]
    notes += [
        _note("note", f"{facts.run_id}: left out: {item['path']}: {item['reason']}")
        for item in coverage.get("left_out", ())
    ]
    notes += [
        _note("warning", f"{facts.run_id}: {item['reviewer']} abstained: {item['cause']}")
        for item in coverage.get("abstained", ())
    ]
    return notes


def _note(level: str, text: str) -> dict[str, Any]:
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
