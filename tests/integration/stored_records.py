"""Runs whose record is whole: events, calls with prompts and replies, an end, a head that is signed."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

from tests.integration.stored_runs import AT, open_seats, run_of, seat_key, store_run
from workers.core.reply import Completion, FinishReason, Usage
from workers.core.run import Outcome
from workers.provenance import export, ledger
from workers.provenance.repository import call_records, calls, runs
from workers.provenance.session import Database
from workers.provenance.signing import Signer, read_signer


def signer(number: int = 1) -> Signer:
    """A key that is the same in every run of the tests."""
    return read_signer(base64.b64encode(bytes([number]) * 32).decode())


def completion(text: str) -> Completion:
    return Completion(
        text=text,
        reasoning="",
        model_served="birch-1-0613",
        finish_reason=FinishReason.STOP,
        usage=Usage(input_tokens=10, output_tokens=5),
        is_simulated=False,
    )


def store_ended(database: Database, run_id: str = "run_1", *, prompt: str = "look", **changes: Any) -> None:
    """A finished run: one call that answered, one that failed."""
    store_run(database, run_id, **changes)
    key = seat_key(run_id=run_id)
    open_seats(database, key)
    with database.begin() as connection:
        runs.start(connection, run_id)
        for number, words in enumerate((prompt, f"{prompt} again"), start=1):
            calls.sent(
                connection,
                calls.NewCall(
                    call_id=f"{run_id}_c{number}",
                    key=key,
                    link=0,
                    provider="local",
                    model="birch-1",
                    family="birch",
                    pass_number=number,
                    request={"messages": [{"content": words}], "max_tokens": 64},
                ),
            )
        calls.done(connection, f"{run_id}_c1", completion('{"ok": 1}'), rung=2, cost_usd=Decimal("0.25"))
        calls.failed(connection, f"{run_id}_c2", kind="overloaded", message="busy", usage=None)
    with database.begin() as connection, ledger.writer(connection, run_id) as log:
        log.append("review.arrived", {"seat": "left", "summary": f"{prompt}: fine"}, at=AT)
    with database.begin() as connection, ledger.writer(connection, run_id) as log:
        call_records.seal(connection, log, at=AT)
        verdict = log.append("run.finished", {"outcome": "accepted", "files": {"a.py": prompt}}, at=AT)
        runs.finish(connection, run_id, outcome=Outcome.ACCEPTED, verdict_digest=verdict)


def exported(database: Database, run_id: str = "run_1", by: Signer | None = None) -> export.Document:
    run = run_of(database, run_id)
    with database.begin() as connection:
        return export.document_of(connection, run, signer=by)
