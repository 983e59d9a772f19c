"""The window through which batches reach the broker (`core.shares` says who is next)."""

from __future__ import annotations

import dataclasses
from collections.abc import Set

import structlog
from sqlalchemy import Connection

from workers.core.run import Stage
from workers.core.shares import Load, Room, shares
from workers.governor.accounts import Outlook, outlook
from workers.provenance.repository import accounts, batch_control, dispatch, runs
from workers.provenance.repository.dispatch import OpenBatch
from workers.stages.context import Context
from workers.stages.seat import team_of

log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How much may be under way, and the accounts (provider, digest of its key) that the work would be sent to."""

    room: Room
    own_accounts: Set[tuple[str, str]]


def tick(context: Context, window: Window) -> tuple[str, ...]:
    """Close the batches that are done, and take the next runs: their ids, each to be sent its first message."""
    with context.database.begin() as connection:
        if not dispatch.is_alone(connection):
            return ()
        batch_control.finish_ended(connection)
        return _take(connection, window)


def run_ended(context: Context, run_id: str, window: Window) -> tuple[str, ...]:
    """`tick`, as soon as a run of a batch has ended; nothing for a run of its own.

    While another dispatcher is at it nothing is taken: it, or the next tick, sees the same rows.
    """
    with context.database.begin() as connection:
        batch_id = runs.batch_of(connection, run_id)
        if batch_id is None:
            return ()
        batch_control.finish_ended(connection, batch_id)
        return _take(connection, window) if dispatch.is_alone(connection) else ()


#: One in so many seats may be deferred before no further run is sent: each costs a claim and an event now and then.
#: What those of a batch with a budget wait for may be room in it, which is nobody else's: they hold up it alone.
DEFERRED_OF = 16

#: Runs ended in one transaction: long enough to be quick, short enough that nobody waits for it.
SWEEP_CHUNK = 500


def sweep(context: Context, batch_id: str) -> int:
    """End the runs of a cancelled batch, chunk by chunk; how many. Whoever takes up a sweep that died finds the rows
    that are left; of two at the same time one stops."""
    total = 0
    while True:
        with context.database.begin() as connection:
            ended = batch_control.sweep(connection, batch_id, at=context.now(), most=SWEEP_CHUNK)
        if not ended:
            log.info("batch.swept", batch=batch_id, runs=total)
            return total
        total += ended


def _take(connection: Connection, window: Window) -> tuple[str, ...]:
    batches = dispatch.open_batches(connection, most=window.room.runs)
    if not any(batch.waiting for batch in batches):
        return ()
    deferred = dispatch.deferred_seats(connection)
    if _are_too_many(sum(of.count for of in deferred if not of.has_budget), window):
        return ()
    held = {of.batch_id for of in deferred if _are_too_many(of.count, window)}
    room = _room(connection, window)
    if room is None:
        return ()
    batches = [
        dataclasses.replace(batch, waiting=0) if batch.batch_id in held else batch for batch in batches
    ]
    taken: list[str] = []
    for batch_id, count in sorted(shares([_load(connection, batch) for batch in batches], room).items()):
        taken += dispatch.take(connection, batch_id, count)
    if taken:
        log.info("batch.dispatched", runs=len(taken))
    return tuple(taken)


def _are_too_many(deferred: int, window: Window) -> bool:
    """Providers are so slow to give slots, or a budget is so full, that seats come and go without having asked."""
    return deferred * DEFERRED_OF > window.room.seats


def _room(connection: Connection, window: Window) -> Room | None:
    """The room there is, None while there is none for anybody: every provider is away. When the first provider may be
    tried again, one run tries: all others would only be told to come back."""
    states = [word.state for word in accounts.published(connection)]
    found = outlook(states, window.own_accounts)
    if found is Outlook.AWAY:
        return None
    return window.room if found is Outlook.GOOD else dataclasses.replace(window.room, runs=1)


def _load(connection: Connection, batch: OpenBatch) -> Load:
    return Load(
        batch_id=batch.batch_id,
        priority=batch.priority,
        waiting=batch.waiting,
        under_way=sum(batch.under_way.values()),
        seats_under_way=sum(count * _width(connection, team) for team, count in batch.under_way.items()),
        width=1 if batch.next_team is None else _width(connection, batch.next_team),
        served_order=batch.served_order,
        concurrency=batch.concurrency,
    )


def _width(connection: Connection, team_digest: str) -> int:
    """How many seats a run of the team opens at once, at most: the panel. Refuters and provers are as many as there
    are contested claims, rarely more."""
    return len(team_of(connection, team_digest).seat_names(Stage.PANEL))
