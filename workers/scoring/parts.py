"""How the work of a scoring is taken, kept, ended and gone on with. The database is the truth: a part that is
delivered twice writes once, and whoever ends the last part of a stage opens the next one."""

from __future__ import annotations

import contextvars
import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import structlog
from sqlalchemy import Connection
from structlog.contextvars import bound_contextvars

from workers.core.scoring import (
    OPEN_PARTS,
    PartKey,
    PartState,
    ScoringStage,
    ScoringState,
    following,
    has_failed,
)
from workers.errors import ConsensusError, UnavailableError
from workers.provenance.repository import scoring_parts, scorings
from workers.provenance.repository.scoring_parts import NewPart, Part
from workers.scoring.context import ScoringContext

log = structlog.get_logger(__name__)

#: At most this many of each kind in one sweep.
SWEEP_LIMIT: Final = 200
#: Stages that are opened with one part; the parts of the others are written by the stage before.
_SINGLE: Final = (ScoringStage.GROUP, ScoringStage.MERGE)


class LostPartError(ConsensusError):
    """The part is no longer ours: its scoring was cancelled, or its lease ran out."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A part that this process works on. `check` raises LostPartError once it is somebody else's; work asks between
    two pieces."""

    context: ScoringContext
    part: Part
    check: Callable[[], None]

    def done(self, connection: Connection, *, computed_count: int = 0) -> None:
        """Write the part's end in the transaction of its results. Raises: LostPartError, and nothing is written."""
        if not scoring_parts.settle(
            connection,
            self.part.key,
            owner=self.context.owner,
            state=PartState.DONE,
            computed_count=computed_count,
        ):
            raise LostPartError(f"{self.part.key} is no longer ours")


Work = Callable[[Held], None]


def run_part(context: ScoringContext, key: PartKey, work: Mapping[ScoringStage, Work]) -> list[PartKey]:
    """Do a part's work if nobody else does or did; the parts to send next.

    What breaks in it is written down and ends this part alone; only an unreachable database is left to the
    rescue."""
    with bound_contextvars(scoring=key.scoring_id, stage=key.stage.value, part=key.number):
        return _run_part(context, key, work)


def _run_part(context: ScoringContext, key: PartKey, work: Mapping[ScoringStage, Work]) -> list[PartKey]:
    with context.database.begin() as connection:
        part = scoring_parts.claim(connection, key, owner=context.owner, lease_seconds=context.lease_seconds)
    if part is not None:
        try:
            with _kept(context, key) as check:
                work[key.stage](Held(context=context, part=part, check=check))
        except LostPartError:
            log.info("scoring.part_lost")
            return []
        except UnavailableError:
            raise
        except (Exception, MemoryError) as error:
            log.warning("scoring.part_broke", exc_info=error)
            _fail(context, key, error)
    return advance(context, key.scoring_id)


@contextmanager
def _kept(context: ScoringContext, key: PartKey) -> Iterator[Callable[[], None]]:
    """Prolongs the lease while the block works."""
    over, lost = threading.Event(), threading.Event()

    def beat() -> None:
        while not over.wait(context.heartbeat_seconds):
            try:
                with context.database.begin() as connection:
                    held = scoring_parts.keep(
                        connection, key, owner=context.owner, lease_seconds=context.lease_seconds
                    )
            except UnavailableError as error:
                log.warning("scoring.heartbeat_missed", error=str(error))
                continue
            if not held:
                lost.set()
                return

    def check() -> None:
        if lost.is_set():
            raise LostPartError(f"{key} is no longer ours")

    heart = threading.Thread(
        # It logs as the part that it beats for.
        target=contextvars.copy_context().run,
        args=(beat,),
        name="scoring-heartbeat",
        daemon=True,
    )
    heart.start()
    try:
        yield check
    finally:
        over.set()
        heart.join()


def _fail(context: ScoringContext, key: PartKey, error: BaseException) -> None:
    detail = str(error) if isinstance(error, ConsensusError) else f"{type(error).__name__}: {error}"
    with context.database.begin() as connection:
        scoring_parts.settle(
            connection, key, owner=context.owner, state=PartState.FAILED, detail=detail[:2000]
        )


def advance(context: ScoringContext, scoring_id: str) -> list[PartKey]:
    """Open the next stage if every part of this one has ended; what is to be sent for it. Does nothing otherwise,
    so that everybody may call it at any time."""
    with context.database.begin() as connection:
        scoring = scorings.lock(connection, scoring_id)
        stage = None if scoring is None else scoring.stage
        while stage is not None:
            states = [part.state for part in scoring_parts.of_stage(connection, scoring_id, stage)]
            if any(state in OPEN_PARTS for state in states):
                return []
            if has_failed(stage, states):
                _give_up(connection, scoring_id, stage)
                return []
            stage = following(stage)
            if stage is None:
                return []
            scorings.change(connection, scoring_id, stage=stage)
            if stage in _SINGLE:
                scoring_parts.open_parts(connection, scoring_id, stage, [NewPart(number=0)])
            waiting = [
                part.key
                for part in scoring_parts.of_stage(connection, scoring_id, stage)
                if part.state is PartState.PENDING
            ]
            if waiting:
                scoring_parts.mark_sent(connection, waiting)
                return waiting
    return []


def _give_up(connection: Connection, scoring_id: str, stage: ScoringStage) -> None:
    part = scoring_parts.of_stage(connection, scoring_id, stage)[0]
    error = part.detail or f"the stage {stage} broke"
    scorings.end(connection, scoring_id, state=ScoringState.FAILED, error=error)


def rescue(
    context: ScoringContext, *, pending_seconds: float, stalled_seconds: float, max_rescues: int
) -> list[PartKey]:
    """One sweep over what a lost worker, message or broker left behind; the parts to send again."""
    with context.database.begin() as connection:
        again, lost = scoring_parts.take_overdue(
            connection, pending_seconds=pending_seconds, max_rescues=max_rescues, limit=SWEEP_LIMIT
        )
        stalled = scoring_parts.stalled(connection, idle_seconds=stalled_seconds, limit=SWEEP_LIMIT)
    for key in again:
        log.warning("scoring.part_rescued", scoring=key.scoring_id, stage=key.stage.value, part=key.number)
    found = list(again)
    for scoring_id in sorted({key.scoring_id for key in lost} | set(stalled)):
        found += advance(context, scoring_id)
    return found
