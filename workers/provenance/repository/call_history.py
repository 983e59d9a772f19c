"""What a seat has asked before: read when its work is taken up again, by another worker or after a wait."""

from __future__ import annotations

import dataclasses

from sqlalchemy import Connection, text

from workers.provenance.repository.stages import SeatKey


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was sent to one model: HTTP requests in all, and how the last call ended (None: well, or unknown
    because its worker died)."""

    requests: int
    error_kind: str | None
    error: str | None


_HISTORY = text(
    """
    SELECT DISTINCT ON (provider, model_asked)
        provider, model_asked, error_kind, error,
        -- An answer that asked for a tool was no failed try: its request does not count towards N+1.
        sum(http_requests - CASE WHEN finish_reason = 'tool_calls' THEN 1 ELSE 0 END)
            OVER (PARTITION BY provider, model_asked) AS requests
    FROM calls
    WHERE run_id = :run_id AND round = :round AND stage = :stage AND seat = :seat
    ORDER BY provider, model_asked, sent_at DESC, call_id DESC
    """
)


def asked_before(connection: Connection, key: SeatKey) -> dict[tuple[str, str], Asked]:
    """By (provider, model as asked for)."""
    rows = connection.execute(_HISTORY, dataclasses.asdict(key))
    return {
        (row.provider, row.model_asked): Asked(
            requests=int(row.requests), error_kind=row.error_kind, error=row.error
        )
        for row in rows
    }


_FAMILIES = text(
    """
    SELECT DISTINCT provider, family FROM calls
    WHERE sent_at > now() - make_interval(secs => :seconds)
    ORDER BY provider, family
    """
)


def families_asked(connection: Connection, *, within_seconds: float) -> list[tuple[str, str]]:
    """(provider, family) of the calls sent within that time."""
    rows = connection.execute(_FAMILIES, {"seconds": within_seconds})
    return [(row.provider, row.family) for row in rows]
