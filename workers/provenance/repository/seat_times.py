"""When each seat of a run was asked, began and ended: what a page shows while the ledger is silent."""

from __future__ import annotations

import dataclasses
import datetime as dt

from sqlalchemy import Connection, select

from workers.core.run import SeatState, Stage
from workers.provenance.models import stages


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeatTime:
    """One stage row without its result. `not_before`: it gave its worker back and is asked again then."""

    round: int
    stage: Stage
    seat: str
    state: SeatState
    enqueued_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None
    not_before: dt.datetime | None
    rescues: int


def of_run(connection: Connection, run_id: str) -> list[SeatTime]:
    """Every seat of every round, in the order in which they were opened."""
    columns = [stages.c[field.name] for field in dataclasses.fields(SeatTime)]
    rows = connection.execute(
        select(*columns)
        .where(stages.c.run_id == run_id)
        .order_by(stages.c.round, stages.c.enqueued_at, stages.c.stage, stages.c.seat)
    )
    return [
        SeatTime(**{**row._asdict(), "stage": Stage(row.stage), "state": SeatState(row.state)})
        for row in rows
    ]
