"""What the work of a scoring is given."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable

from workers.provenance.session import Database


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScoringContext:
    """owner: names this process in leases. new_id: a new id with a prefix. max_file_bytes: what is read of a
    schedule's folder, a file."""

    database: Database
    owner: str
    lease_seconds: float
    heartbeat_seconds: float
    now: Callable[[], dt.datetime]
    new_id: Callable[[str], str]
    max_file_bytes: int
