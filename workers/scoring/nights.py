"""Starts the scorings that are due tonight, each once, whoever asks and how often."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import structlog
from sqlalchemy import Connection

from workers.core.schedule import Night, Schedule, due
from workers.core.scoring import UPLOADED, UPLOADED_SINCE, PartKey
from workers.errors import InputError, UnavailableError
from workers.provenance.models import DEFAULT_TENANT
from workers.provenance.repository import blobs, nights, scorings, trajectory_files
from workers.provenance.repository.scorings import NewScoring
from workers.provenance.repository.trajectory_files import Selection
from workers.scoring.context import ScoringContext

log = structlog.get_logger(__name__)


def start_due(context: ScoringContext, schedules: Iterable[Schedule]) -> list[PartKey]:
    """Make the scorings of the nights whose time has come; what to send for them.

    A schedule that cannot be started (nothing uploaded yet, no labels file) is logged, and tried again at the next
    call."""
    found: list[PartKey] = []
    for schedule in schedules:
        try:
            with context.database.begin() as connection:
                scoring_id = _start(context, connection, schedule)
        except InputError as error:
            log.warning("schedule.not_started", schedule=schedule.name, error=str(error))
            continue
        except UnavailableError:
            raise
        except Exception:
            # One schedule that cannot be read must not keep all others from their nights.
            log.exception("schedule.broke", schedule=schedule.name)
            continue
        if scoring_id is not None:
            log.info("schedule.started", schedule=schedule.name, scoring=scoring_id)
            found.append(scorings.first_part(scoring_id))
    return found


def _start(context: ScoringContext, connection: Connection, schedule: Schedule) -> str | None:
    now = context.now()
    seen = nights.first_seen(connection, schedule.name, at=now)
    night = due(schedule, now, first_seen_at=seen)
    if night is None or nights.is_started(connection, schedule.name, night.date.isoformat()):
        return None
    nights.hold(connection, schedule.name)
    # Somebody else may have started it until the schedule was ours.
    if nights.is_started(connection, schedule.name, night.date.isoformat()):
        return None
    new = _new(context, connection, schedule, night)
    scoring, _ = scorings.create(connection, new)
    nights.note(connection, schedule.name, night.date.isoformat(), scoring_id=scoring.scoring_id)
    return scoring.scoring_id


def _new(context: ScoringContext, connection: Connection, schedule: Schedule, night: Night) -> NewScoring:
    return NewScoring(
        scoring_id=context.new_id("scoring"),
        settings={
            "profile": schedule.profile,
            "donors": schedule.donors,
            "draws": schedule.draws,
            "seed": schedule.seed,
        },
        manifest_digest=_manifest(connection, schedule, night),
        folder=None if schedule.source in (UPLOADED, UPLOADED_SINCE) else schedule.source,
        labels_digest=_labels(connection, schedule),
        labels_name=None if schedule.labels is None else Path(schedule.labels).name,
        format_name=schedule.format_name,
        schedule=schedule.name,
        night=night.date.isoformat(),
    )


def _manifest(connection: Connection, schedule: Schedule, night: Night) -> str | None:
    if schedule.source not in (UPLOADED, UPLOADED_SINCE):
        return None
    since = None
    if schedule.source == UPLOADED_SINCE:
        since = nights.before(connection, schedule.name, night.date.isoformat())
        # Whatever this night does not see is of the next one.
        trajectory_files.hold(connection)
    files = trajectory_files.select_files(connection, Selection(since=since), tenant_id=DEFAULT_TENANT)
    return trajectory_files.store_manifest(connection, files, tenant_id=DEFAULT_TENANT)


def _labels(connection: Connection, schedule: Schedule) -> str | None:
    if schedule.labels is None:
        return None
    path = Path(schedule.labels)
    try:
        # A pipe or a device would be read for ever.
        if path.exists() and not path.is_file():
            raise InputError(f"{schedule.labels}: is no file; labels are one file")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{schedule.labels}: cannot be opened: {error.strerror or error}") from None
    return blobs.store(connection, io.BytesIO(data), tenant_id=DEFAULT_TENANT).digest
