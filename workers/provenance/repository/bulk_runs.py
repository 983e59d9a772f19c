"""The runs of a batch, written by the hundred: what `runs.create` writes for one, in five statements for all.

A run is prepared while its line is checked and waits in a file until the whole batch is known to be good; what is
kept there (`as_record`) is all that the database is given later."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Self

import orjson
from sqlalchemy import Connection, text

from workers.core.budget import Amount, Budget
from workers.core.run import RunState
from workers.provenance import ledger, payload
from workers.provenance.digest import canonical, digest
from workers.provenance.repository.runs import NewRun, created_event, material_of, request_digest_of

#: Rows of one statement, and the most bytes of their bodies (one line may be larger than that alone).
CHUNK_RUNS = 500
CHUNK_BYTES = 4 * 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A checked line. `body` is the canonical form of its material, `metadata` of its metadata."""

    run_id: str
    position: int
    external_id: str | None
    team: str
    team_digest: str
    body: str
    input_digest: str
    request_digest: str
    priority: int
    metadata: str
    webhook_url: str | None
    budget: Budget
    lead_share: Amount | None  # None: neither the run nor its batch has a budget

    def as_record(self) -> bytes:
        """One line of JSON."""
        share = self.lead_share
        return orjson.dumps(
            [
                *(getattr(self, name) for name in _PLAIN_FIELDS),
                _plain(self.budget.usd),
                self.budget.tokens,
                None if share is None else [share.input_tokens, share.output_tokens, _plain(share.usd)],
            ],
            option=orjson.OPT_APPEND_NEWLINE,
        )

    @classmethod
    def of_record(cls, record: bytes) -> Self:
        *plain, usd, tokens, share = orjson.loads(record)
        return cls(
            **dict(zip(_PLAIN_FIELDS, plain, strict=True)),
            budget=Budget(usd=_decimal(usd), tokens=tokens),
            lead_share=None
            if share is None
            else Amount(input_tokens=share[0], output_tokens=share[1], usd=_decimal(share[2])),
        )


#: The fields that stand in a record as they are.
_PLAIN_FIELDS = tuple(
    field.name for field in dataclasses.fields(PreparedRun) if field.name not in {"budget", "lead_share"}
)


def _plain(usd: Decimal | None) -> str | None:
    return None if usd is None else str(usd)


def _decimal(usd: str | None) -> Decimal | None:
    return None if usd is None else Decimal(usd)


def prepare(new: NewRun, *, position: int, team_digest: str, lead_share: Amount | None) -> PreparedRun:
    """Everything about a run that can be worked out without the database."""
    body = canonical(material_of(new))
    input_digest = digest(body)
    return PreparedRun(
        run_id=new.run_id,
        position=position,
        external_id=new.external_id,
        team=new.team["name"],
        team_digest=team_digest,
        body=body.decode(),
        input_digest=input_digest,
        request_digest=request_digest_of(new, input_digest),
        priority=new.priority,
        metadata=canonical(dict(new.metadata)).decode(),
        webhook_url=new.webhook_url,
        budget=new.budget,
        lead_share=lead_share,
    )


def insert_all(
    connection: Connection, prepared: Iterable[PreparedRun], *, batch_id: str, tenant_id: str, at: dt.datetime
) -> int:
    """Write queued runs that wait for the dispatcher, each with the first event of its ledger; how many.

    The teams' payloads must be there. Memory is that of one chunk, however many runs there are.
    """
    count = 0
    for chunk in _chunks(prepared):
        _insert(connection, chunk, batch_id=batch_id, tenant_id=tenant_id, at=at)
        count += len(chunk)
    return count


def _chunks(prepared: Iterable[PreparedRun]) -> Iterator[list[PreparedRun]]:
    chunk: list[PreparedRun] = []
    size = 0
    for run in prepared:
        if chunk and (len(chunk) == CHUNK_RUNS or size + len(run.body) > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(run)
        size += len(run.body)
    if chunk:
        yield chunk


_INSERT = text(
    """
    INSERT INTO runs (
        run_id, tenant_id, batch_id, position, external_id, team, team_digest, input_digest, state, priority,
        budget_usd, budget_tokens, lead_share_usd, lead_share_tokens, metadata, request_digest,
        webhook_url, ledger_seq, ledger_head
    )
    SELECT
        run_id, :tenant_id, :batch_id, position, external_id, team, team_digest, input_digest, :state, priority,
        budget_usd, budget_tokens, lead_share_usd, lead_share_tokens, CAST(metadata AS jsonb), request_digest,
        webhook_url, 1, ledger_head
    FROM json_to_recordset(CAST(:rows AS json)) AS given (
        run_id text, position integer, external_id text, team text, team_digest text, input_digest text,
        priority smallint, budget_usd numeric, budget_tokens bigint, lead_share_usd numeric,
        lead_share_tokens integer, metadata text, request_digest text, webhook_url text,
        ledger_head text
    )
    """
)


def _insert(
    connection: Connection, chunk: Sequence[PreparedRun], *, batch_id: str, tenant_id: str, at: dt.datetime
) -> None:
    entries = [_created(run, tenant_id, at) for run in chunk]
    # In the order in which `runs.create` writes the same bodies, so that the two cannot lock each other out.
    payload.store_bodies(connection, {run.input_digest: run.body.encode() for run in chunk})
    connection.execute(
        _INSERT,
        {
            "tenant_id": tenant_id,
            "batch_id": batch_id,
            "state": RunState.QUEUED.value,
            # One text instead of an array a column, which takes psycopg three times as long to write.
            "rows": orjson.dumps(
                [_row(run, entry.hash) for run, entry in zip(chunk, entries, strict=True)]
            ).decode(),
        },
    )
    ledger.open_all(connection, entries)


def _row(run: PreparedRun, ledger_head: str) -> dict[str, str | int | None]:
    share = run.lead_share
    return {
        **{name: getattr(run, name) for name in _PLAIN_FIELDS if name != "body"},
        "budget_usd": _plain(run.budget.usd),
        "budget_tokens": run.budget.tokens,
        "lead_share_usd": None if share is None else _plain(share.usd),
        "lead_share_tokens": 0 if share is None else share.tokens,
        "ledger_head": ledger_head,
    }


def _created(run: PreparedRun, tenant_id: str, at: dt.datetime) -> ledger.FirstEntry:
    event = created_event(
        tenant_id=tenant_id,
        team=run.team,
        team_digest=run.team_digest,
        input_digest=run.input_digest,
        external_id=run.external_id,
        budget=run.budget,
    )
    return ledger.first_entry(run.run_id, "run.created", event, at=at)
