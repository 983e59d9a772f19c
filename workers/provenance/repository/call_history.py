"""What a seat has asked before: read when its work is taken up again, by another worker or after a wait."""

from __future__ import annotations

import dataclasses
import json

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A call on record that has ended. `question`: the first two messages of its request, the instructions and the
    material. `text` is its reply where that may be an answer, `rung` how it was read (0: not at all); `error_kind` and
    `error` say what came instead, if it was no reply."""

    provider: str
    model: str
    family: str
    model_served: str
    is_simulated: bool
    rung: int
    question: tuple[str, ...]
    text: str | None
    error_kind: str | None = None
    error: str | None = None


#: Redacted bodies are NULL. An answer that asked for a tool is neither an end nor a failure.
_RECORDED = text(
    """
    SELECT provider, model_asked, family, model_served, is_simulated, rung, error_kind, error, request.body AS request,
        CASE WHEN state = 'done' AND rung IS NOT NULL AND finish_reason <> 'length' THEN reply.body END AS reply
    FROM calls
    JOIN payloads AS request ON request.digest = calls.request_digest
    LEFT JOIN payloads AS reply ON reply.digest = calls.reply_digest
    WHERE run_id = :run_id AND round = :round AND stage = :stage AND seat = :seat
        AND state <> 'sent' AND finish_reason IS DISTINCT FROM 'tool_calls' AND request.body IS NOT NULL
    ORDER BY sent_at, call_id
    """
)


def recorded(connection: Connection, key: SeatKey) -> list[Recorded]:
    """The seat's calls that have ended, the oldest first."""
    return [
        Recorded(
            provider=row.provider,
            model=row.model_asked,
            family=row.family,
            model_served=row.model_served or row.model_asked,
            is_simulated=row.is_simulated,
            rung=row.rung or 0,
            question=tuple(message["content"] for message in json.loads(row.request)["messages"][:2]),
            text=None if row.reply is None else json.loads(row.reply)["text"],
            error_kind=row.error_kind,
            error=row.error,
        )
        for row in connection.execute(_RECORDED, dataclasses.asdict(key))
    ]


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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One finished call: what was asked of it and what it used."""

    model: str
    stage: str
    input_characters: int
    max_tokens: int
    input_tokens: int
    output_tokens: int


#: The newest calls of each model and stage: enough for a mean, few enough to read when a worker starts.
_LESSONS = text(
    """
    SELECT model_asked, stage, input_tokens - cached_input_tokens AS input_tokens, output_tokens, body
    FROM (
        SELECT *, row_number() OVER (PARTITION BY model_asked, stage ORDER BY ended_at DESC) AS place
        FROM calls
        WHERE state = 'done' AND NOT usage_is_estimated AND ended_at > now() - interval '7 days'
    ) AS recent
    JOIN payloads ON payloads.digest = recent.request_digest
    WHERE place <= :each AND body IS NOT NULL
    ORDER BY ended_at
    """
)


def lessons(connection: Connection, *, each: int = 16) -> list[Lesson]:
    """The newest `each` finished calls of each model and stage in the last week, the oldest first."""
    found = []
    for row in connection.execute(_LESSONS, {"each": each}):
        request = json.loads(row.body)
        found.append(
            Lesson(
                model=row.model_asked,
                stage=row.stage,
                input_characters=sum(len(message["content"]) for message in request["messages"]),
                max_tokens=request["max_tokens"],
                input_tokens=row.input_tokens,
                output_tokens=row.output_tokens,
            )
        )
    return found
