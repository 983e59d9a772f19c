"""The forms in which a scored cohort leaves: JSON, CSV, parquet and training data. All are written run by run."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final

import orjson

from workers.agentlens.curation import sft_record
from workers.agentlens.report import as_json, report_document, to_bytes
from workers.errors import TrajectoryError
from workers.scoring.cohort import Cohort
from workers.scoring.rows import assessment_of
from workers.scoring.spool import InputFile, Scored, fetch
from workers.trajectories import Skipped

_ROWS_AT_ONCE = 1000
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""How a formula begins (OWASP, "CSV Injection"), also in the wide forms that spreadsheets take for the same."""

TEXT, WHOLE, REAL = "text", "whole", "real"
COLUMNS: Final[dict[str, str]] = {
    "path": TEXT,
    "trajectory_id": TEXT,
    "problem": TEXT,
    "model": TEXT,
    "outcome": TEXT,
    "steps": WHOLE,
    "profile": TEXT,
    "score": REAL,
    "tier": TEXT,
    "paper": REAL,
    "paper_tier": TEXT,
    "paper_spread": REAL,
    "tuned": REAL,
    "tuned_tier": TEXT,
    "tuned_spread": REAL,
    "unreferenced": REAL,
    "unreferenced_tier": TEXT,
    "struct": REAL,
    "cov": REAL,
    "edit": REAL,
    "coh": REAL,
    "temp": REAL,
    "mechanism": TEXT,
    "divergence_step": WHOLE,
    "divergence_kind": TEXT,
    "waste_steps": WHOLE,
    "waste_severity": REAL,
    "waste_tokens": WHOLE,
    "donors": WHOLE,
    "tokens": WHOLE,
    "cost_usd": REAL,
    "duplicate_of": TEXT,
    "warnings": TEXT,
}
"""The columns of CSV and parquet, one row a run; signals as in the JSON form, warnings joined by "; "."""


def json_frame(cohort: Cohort) -> tuple[bytes, bytes]:
    """What stands before the first assessment and behind the last one in the JSON form. A cohort that was compared
    with the night before says so in `night_before`."""
    empty = report_document(
        [],
        cohort=cohort.summary,
        settings=cohort.settings,
        skipped=[(item.path, item.error) for item in cohort.skipped],
    )
    if cohort.comparison is not None:
        empty |= {"night_before": as_json(cohort.comparison)}
    head, opening, tail = to_bytes(empty).partition(b'"assessments":[')
    return head + opening, tail + b"\n"


def write_json(cohort: Cohort, out: BinaryIO) -> None:
    """The report's fixed JSON form (AGENTLENS §9), the same bytes as if it were made in memory."""
    head, tail = json_frame(cohort)
    out.write(head)
    for number, run in enumerate(cohort.runs):
        out.write(b"," if number else b"")
        out.write(fetch(run.document))
    out.write(tail)


def write_csv(cohort: Cohort, out: BinaryIO) -> None:
    """One row a run, in UTF-8. A text that a spreadsheet would run as a formula has an apostrophe before it."""
    for rows in _batches(table_rows(cohort.runs), header=True):
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows([harmless(cell) for cell in row] for row in rows)
        out.write(text.getvalue().encode("utf-8", "replace"))


def harmless(cell: object) -> object:
    """A cell as a spreadsheet may open it: names come from logs, and a spreadsheet runs what begins like a
    formula. Numbers, also those in text, stay what they are."""
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return "'" + cell
    return cell


def _batches(rows: Iterable[dict[str, object]], *, header: bool) -> Iterator[list[list[object]]]:
    lines: Iterable[list[object]] = (list(row.values()) for row in rows)
    if header:
        lines = itertools.chain([list(COLUMNS)], lines)
    remaining = iter(lines)
    while batch := list(itertools.islice(remaining, _ROWS_AT_ONCE)):
        yield batch


def write_parquet(cohort: Cohort, out: BinaryIO) -> None:
    """One row a run. Needs pyarrow."""
    import pyarrow as arrow
    from pyarrow.parquet import ParquetWriter

    types = {TEXT: arrow.string(), WHOLE: arrow.int64(), REAL: arrow.float64()}
    schema = arrow.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
    with ParquetWriter(out, schema) as writer:
        for rows in _batches(table_rows(cohort.runs), header=False):
            columns = [
                arrow.array(values, type=field.type)
                for values, field in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            writer.write_table(arrow.Table.from_arrays(columns, schema=schema))


def table_rows(runs: Iterable[Scored]) -> Iterator[dict[str, object]]:
    """Each run as one flat row with the keys of `COLUMNS`; what a run has not is None."""
    for run in runs:
        yield table_row(orjson.loads(fetch(run.document)))


def table_row(document: dict[str, Any]) -> dict[str, object]:
    """An assessment's JSON form as one flat row."""
    scores = document["scores"]
    signals: dict[str, object] = {}
    for score in scores.values():
        signals.update({key: value for key, value in score.items() if key not in ("score", "tier", "spread")})
    flat: dict[str, object] = dict(document) | signals
    driving = scores[document["profile"]]
    flat |= {"score": driving["score"], "tier": driving["tier"]}
    for name, score in scores.items():
        flat |= {name: score["score"], f"{name}_tier": score["tier"], f"{name}_spread": score["spread"]}
    divergence, waste, reference = document["divergence"], document["waste"], document["reference"]
    original = document["duplicate_of"]
    if divergence is not None:
        flat |= {"divergence_step": divergence["step"], "divergence_kind": divergence["kind"]}
    flat |= {
        "waste_steps": len(waste["steps"]),
        "waste_severity": waste["severity"],
        "waste_tokens": waste["tokens"],
        "donors": None if reference is None else reference["k"],
        "duplicate_of": None if original is None else original["path"],
        "warnings": "; ".join(document["warnings"]),
    }
    return {name: flat.get(name) for name in COLUMNS}


def write_sft(cohort: Cohort, out: BinaryIO) -> int:
    """The kept runs as training data, one JSON object a line, and how many. Their files are read once more,
    because observations and thoughts were not spooled.

    Raises: TrajectoryError if a file is not what it was."""
    written = 0
    wanted = sorted(
        (run for run in cohort.runs if run.is_kept),
        key=lambda run: (run.entry.number, run.entry.position),
    )
    for number, runs in itertools.groupby(wanted, key=lambda run: run.entry.number):
        written += _export(cohort.files[number], list(runs), out)
    return written


def _export(file: InputFile, runs: list[Scored], out: BinaryIO) -> int:
    by_position = {run.entry.position: run for run in runs}
    written = 0
    for position, trajectory in enumerate(file.runs()):
        run = by_position.get(position)
        if isinstance(trajectory, Skipped):
            continue
        if run is not None and run.is_kept and trajectory.trajectory_id == run.entry.trajectory_id:
            assessment = assessment_of(orjson.loads(fetch(run.document)))
            assert assessment.tier is not None  # noqa: S101 - runs are kept by tier
            record = sft_record(trajectory, assessment, {assessment.tier})
            out.write(to_bytes(record or {}) + b"\n")
            written += 1
        if written == len(runs):
            return written
    raise TrajectoryError(f"{file.name}: has changed while it was scored")
