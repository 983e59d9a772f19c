"""Results as one JSON object a line, and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from workers.sarif.results import Result

COLUMNS = (
    *(
        "run",
        "team",
        "outcome",
        "simulated",
        "claim",
        "state",
        "stands",
        "severity",
        "rule",
        "cwe",
        "category",
    ),
    *("path", "start", "end", "agreement", "weighted_agreement", "flagged_by", "families", "text", "why"),
)
#: A cell that begins with one of these is a formula to a spreadsheet, and the text comes from models and code.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def to_jsonl(results: Sequence[Result]) -> str:
    """One object a line, with evidence."""
    lines = []
    for item in results:
        evidence = [{"path": path, "line": line, "quote": text} for path, line, text in item.evidence]
        lines.append(json.dumps({**_row(item), "evidence": evidence}, ensure_ascii=False) + "\n")
    return "".join(lines)


def to_csv(results: Sequence[Result]) -> str:
    """A header and a line a result; lists are joined by blanks."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for item in results:
        row = _row(item)
        writer.writerow([cell(row[name]) for name in COLUMNS])
    return out.getvalue()


def _row(item: Result) -> dict[str, Any]:
    return {
        "run": item.run.run_id,
        "team": item.run.team,
        "outcome": item.run.outcome,
        "simulated": item.run.is_simulated,
        "claim": item.claim_id,
        "state": item.state,
        "stands": item.stands,
        "severity": item.severity,
        "rule": item.rule_id,
        "cwe": item.cwe,
        "category": item.category,
        "path": item.path,
        "start": item.start,
        "end": item.end,
        "agreement": item.agreement,
        "weighted_agreement": item.weighted_agreement,
        "flagged_by": list(item.flagged_by),
        "families": list(item.families),
        "text": item.text,
        "why": item.why,
    }


def cell(value: object) -> object:
    """A value as a cell of CSV that no spreadsheet takes for a formula; lists are joined by blanks."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        value = " ".join(map(str, value))
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return "" if value is None else value
