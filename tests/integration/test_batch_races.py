"""Whoever changes a batch at the same moment as others: it ends once, and its end is told once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.desk import Desk, chain_team, desk, providers_at
from tests.integration.model_server import ModelServer
from tests.integration.stored_batches import batch_row, store_batch
from tests.integration.stored_runs import AT, events_of, run_of
from workers.core.batch import BatchState
from workers.core.budget import Budget
from workers.core.shares import Room
from workers.errors import StateError
from workers.provenance import ledger
from workers.provenance.digest import GENESIS
from workers.provenance.repository import batch_control, runs
from workers.provenance.session import Database
from workers.stages import dispatch
from workers.stages.dispatch import Window
from workers.stages.rescue import rescue

WINDOW = Window(room=Room(runs=10, seats=100), own_accounts=frozenset())
URL = "https://example.org/hook"


@pytest.fixture
def opened(database: Database, redis_url: str, models: ModelServer) -> Iterator[Desk]:
    with desk(database, redis_url, providers_at(models)) as at:
        yield at


def told(database: Database) -> dict[str, int]:
    with database.begin() as connection:
        rows = connection.exec_driver_sql("SELECT event, count(*) FROM webhook_deliveries GROUP BY event")
        return {row.event: row.count for row in rows}


def rush(*commands: Callable[[], Any]) -> list[BaseException]:
    """All of them at once; what they raised that is no plain refusal."""
    start, wrong = threading.Barrier(len(commands)), list[BaseException]()

    def go(command: Callable[[], Any]) -> None:
        start.wait(10)
        try:
            command()
        except StateError:
            return
        except Exception as error:  # noqa: BLE001 - every other one is the finding
            wrong.append(error)

    threads = [threading.Thread(target=go, args=(command,)) for command in commands]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return wrong


@pytest.mark.parametrize("seed", range(4))
def test_everything_at_once_ends_a_batch_once_and_tells_it_once(seed: int, opened: Desk) -> None:
    database, context = opened.context.database, opened.context
    run_ids = store_batch(
        database, count=4, team=chain_team(["openai/gpt-5"]), webhook_url=URL, budget_tokens=10**9
    )

    def changing(change: Callable[..., Any], **more: Any) -> Callable[[], None]:
        def go() -> None:
            with database.begin() as connection:
                change(connection, "batch_1", tenant_id="default", **more)

        return go

    def cancel_run() -> None:
        with database.begin() as connection:
            runs.cancel(connection, run_ids[0], tenant_id="default", at=AT)

    commands: list[Callable[[], Any]] = [
        *(lambda run_id=run_id: opened.play(run_id) for run_id in run_ids),
        *[changing(batch_control.pause)] * 3,
        *[changing(batch_control.resume)] * 3,
        changing(batch_control.resume, budget=Budget(tokens=2 * 10**9)),
        *[cancel_run] * 2,
        *[lambda: dispatch.tick(context, WINDOW)] * 3,
        *[lambda: dispatch.run_ended(context, run_ids[1], WINDOW)] * 2,
        lambda: rescue(context, pending_seconds=0, stalled_seconds=0, max_rescues=9),
    ]
    if seed % 2:
        commands += [changing(batch_control.cancel)] * 2
        commands += [lambda: dispatch.sweep(context, "batch_1")] * 2
    random.Random(seed).shuffle(commands)

    assert rush(*commands) == []

    dispatch.sweep(context, "batch_1")
    while not all(run_of(database, run_id).has_ended for run_id in run_ids):
        for run_id in run_ids:
            opened.play(run_id)
        # A seat whose message somebody took and dropped.
        for key in rescue(context, pending_seconds=0, stalled_seconds=0, max_rescues=99).seats:
            opened.work(key)
    dispatch.tick(context, WINDOW)
    dispatch.sweep(context, "batch_1")
    row = batch_row(database)
    ended = BatchState(row.state)
    assert row.finished_at is not None
    events = told(database)
    assert events.get("batch.finished", 0) + events.get("batch.cancelled", 0) == 1
    assert events.get(f"batch.{ended}") == 1
    for run_id in run_ids:
        run, entries = run_of(database, run_id), events_of(database, run_id)
        assert run.has_ended
        assert sum(entry.kind in {"run.finished", "run.cancelled"} for entry in entries) == 1
        assert ledger.verify(entries, run_id=run_id, head=run.ledger_head, genesis=GENESIS) is None
