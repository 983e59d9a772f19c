"""The runs of a batch in a file: one JSON object a line, CSV with one row a run, or SARIF with its claims."""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from api.routers.results import Format, facts_of, utc
from workers.core.alarm import Alarm
from workers.provenance.repository.batch_results import BatchRun, Reviewed
from workers.provenance.repository.usage import usd_number
from workers.sarif.results import Result, results_of
from workers.sarif.stream import SarifStream
from workers.sarif.tables import cell

#: The columns of CSV; `reasons` are codes with their causes, `standing` counts claims.
COLUMNS = (
    *("line", "id", "external_id", "team", "state", "outcome", "simulated", "reasons"),
    *("claims", "standing", "worst_standing", "files", "cost_usd", "input_tokens", "output_tokens"),
    *("estimated", "started_at", "finished_at"),
)
_SEVERITIES = ("low", "medium", "high", "critical")
#: A file of SARIF notes up to this size stays in memory.
_NOTES_BYTES = 1024 * 1024

_PIECE_BYTES = 64 * 1024

Pages = Iterator[list[BatchRun]]


def written(
    format: Format, batch_id: str, pages: Pages, review_of: Callable[[str], Reviewed]
) -> Iterator[bytes]:
    """The file in pieces: a line a run; in CSV and SARIF one before them, in SARIF one behind them too.

    `review_of` gives what a run's reviewers saw and found; it is asked only for SARIF, and only of runs with claims.
    """
    if format is Format.SARIF:
        return _gathered(_sarif(batch_id, pages, review_of))
    return _gathered(_csv(pages) if format is Format.CSV else _jsonl(pages))


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces: each costs the server a hop between threads."""
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        if len(gathered) >= _PIECE_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


def _jsonl(pages: Pages) -> Iterator[bytes]:
    for page in pages:
        for run in page:
            yield (json.dumps(as_data(run), ensure_ascii=False) + "\n").encode("utf-8", "replace")


def as_data(run: BatchRun) -> dict[str, Any]:
    """A run as its line says it. `files` is the verdict's code and `reasons` its reasons, which `verdict` then lacks;
    all three are empty for a run without a verdict."""
    verdict = dict(run.verdict or {})
    return {
        "id": run.run_id,
        "external_id": run.external_id,
        "line": run.position,
        "team": run.team,
        "state": run.state,
        "outcome": run.outcome,
        "reasons": verdict.pop("reasons", []),
        "files": verdict.pop("files", {}),
        "verdict": verdict or None,
        "simulated": run.is_simulated,
        "cost_usd": usd_number(run.cost_usd),
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "has_estimates": run.has_estimates,
        "started_at": utc(run.started_at),
        "finished_at": utc(run.finished_at),
    }


def _csv(pages: Pages) -> Iterator[bytes]:
    yield _line(COLUMNS)
    for page in pages:
        yield b"".join(_line([cell(value) for value in _row(run)]) for run in page)


def _row(run: BatchRun) -> list[object]:
    verdict = run.verdict or {}
    claims = verdict.get("claims", ())
    standing = [item["claim"]["severity"] for item in claims if item["stands"]]
    reasons = "; ".join(f"{item['code']} ({item['cause']})" for item in verdict.get("reasons", ()))
    return [
        *(run.position, run.run_id, run.external_id, run.team, run.state, run.outcome),
        *(run.is_simulated, reasons, len(claims), len(standing)),
        max(standing, key=_SEVERITIES.index) if standing else None,
        len(verdict.get("files", ())),
        *(run.cost_usd, run.input_tokens, run.output_tokens, run.has_estimates),
        *(utc(run.started_at), utc(run.finished_at)),
    ]


def _line(values: Any) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerow(values)
    return out.getvalue().encode("utf-8", "replace")


def _sarif(batch_id: str, pages: Pages, review_of: Callable[[str], Reviewed]) -> Iterator[bytes]:
    version = importlib.metadata.version("consensus")
    with tempfile.SpooledTemporaryFile(max_size=_NOTES_BYTES) as notes:
        log = SarifStream(batch_id, version=version, notes=notes)
        yield log.begin()
        for page in pages:
            for run in page:
                yield from log.add(_results(run, review_of), facts_of(run), run.verdict or {})
        yield from log.end()


def _results(run: BatchRun, review_of: Callable[[str], Reviewed]) -> tuple[Result, ...]:
    if not (run.verdict or {}).get("claims"):
        return ()
    seen = review_of(run.run_id)
    return results_of(
        facts_of(run),
        run.verdict or {},
        candidate=seen.files,
        findings=seen.findings,
        alarms=map(Alarm.of, seen.alarms),
        proofs=seen.proofs,
    )
