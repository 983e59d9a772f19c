"""Anchors: heads of ledgers, exported to where the database's owner cannot change them.

An anchor is one line of canonical JSON that names the one before it by digest, signed where there is a key. A file of
them only grows; a ledger that is shorter or other than its anchor says was cut off or rewritten."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, func, select, text
from sqlalchemy.dialects.postgresql import insert

from workers.errors import InputError
from workers.provenance.check import Anchored
from workers.provenance.digest import GENESIS, canonical, digest
from workers.provenance.ledger import stamp
from workers.provenance.models import anchors
from workers.provenance.signing import ANCHOR, Signature, Signer, is_good

FORMAT = "consensus-anchor/1"
#: One line has at most so many heads: some 1.2 MB.
MOST_HEADS = 10_000

_ALONE = text("SELECT pg_advisory_xact_lock(hashtextextended('consensus anchor', 0))")
_UNANCHORED = text(
    """
    SELECT run_id, seq, head FROM ledger_heads WHERE anchor IS NULL
    ORDER BY at, run_id, seq LIMIT :most FOR UPDATE
    """
)
_MARK = text(
    """
    UPDATE ledger_heads SET anchor = :number
    FROM unnest(CAST(:run_ids AS text[]), CAST(:seqs AS integer[])) AS given (run_id, seq)
    WHERE ledger_heads.run_id = given.run_id AND ledger_heads.seq = given.seq
    """
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One line. `heads`: (run, number of events, hash)."""

    number: int
    at: str
    previous: str
    heads: tuple[tuple[str, int, str], ...]
    signature: Signature | None
    body: bytes


def make(connection: Connection, *, signer: Signer | None, at: dt.datetime, most: int = MOST_HEADS) -> int:
    """Anchor the heads that no anchor has yet; how many there were. 0: there is nothing new, and no new anchor."""
    connection.execute(_ALONE)
    rows = connection.execute(_UNANCHORED, {"most": most}).all()
    if not rows:
        return 0
    last = connection.execute(select(anchors).order_by(anchors.c.number.desc()).limit(1)).one_or_none()
    value = {
        "format": FORMAT,
        "number": 1 if last is None else last.number + 1,
        "at": stamp(at),
        "previous": GENESIS if last is None else digest(last.body),
        "heads": [[row.run_id, row.seq, row.head] for row in rows],
    }
    signature = None if signer is None else dataclasses.asdict(signer.sign(ANCHOR, value))
    body = canonical({**value, "signature": signature})
    connection.execute(insert(anchors).values(number=value["number"], at=at, body=body))
    connection.execute(
        _MARK,
        {
            "number": value["number"],
            "run_ids": [row.run_id for row in rows],
            "seqs": [row.seq for row in rows],
        },
    )
    return len(rows)


def newest(connection: Connection) -> int:
    """The number of the last anchor, 0 for none."""
    return int(connection.scalar(select(func.max(anchors.c.number))) or 0)


def bodies_after(connection: Connection, number: int) -> list[tuple[int, bytes]]:
    """The anchors behind a number, as they were made."""
    rows = connection.execute(
        select(anchors.c.number, anchors.c.body).where(anchors.c.number > number).order_by(anchors.c.number)
    )
    return [(row.number, bytes(row.body)) for row in rows]


def body_of(connection: Connection, number: int) -> bytes | None:
    """One anchor as it was made, None if it is not in this database."""
    found = connection.scalar(select(anchors.c.body).where(anchors.c.number == number))
    return None if found is None else bytes(found)


def read(raw: bytes, *, name: str) -> list[Anchor]:
    """The anchors in a file. Raises: InputError for what is none, with the line."""
    found = []
    for number, line in enumerate(raw.splitlines(), start=1):
        try:
            value = json.loads(line)
            if value.pop("format") != FORMAT:
                raise ValueError("another format")
            signature = value.pop("signature")
            anchor = Anchor(
                **{**value, "heads": tuple((run, seq, head) for run, seq, head in value["heads"])},
                signature=None if signature is None else Signature(**signature),
                body=line,
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise InputError(
                f"{name}: line {number} is no anchor; give a file that `consensus provenance anchor` wrote"
            ) from None
        found.append(anchor)
    return found


def fault_in(found: Sequence[Anchor], *, trusted: Mapping[str, bytes]) -> str | None:
    """Why a file's anchors are not those that were written, in a sentence, or None."""
    previous, number = GENESIS, 0
    for anchor in found:
        if anchor.number != number + 1 or anchor.previous != previous:
            return f"anchor {anchor.number} does not follow from anchor {number}: lines are missing or were changed"
        value = {
            "format": FORMAT,
            "number": anchor.number,
            "at": anchor.at,
            "previous": anchor.previous,
            "heads": [list(head) for head in anchor.heads],
        }
        signed = None if anchor.signature is None else dataclasses.asdict(anchor.signature)
        if canonical({**value, "signature": signed}) != anchor.body:
            return f"anchor {anchor.number} was written anew by something else"
        if anchor.signature is not None and is_good(anchor.signature, ANCHOR, value, trusted) is False:
            return f"the signature of anchor {anchor.number} is not that of key {anchor.signature.key_id}"
        previous, number = digest(anchor.body), anchor.number
    return None


def heads_of(found: Sequence[Anchor]) -> dict[str, list[Anchored]]:
    """What a file's anchors say of each run."""
    said: dict[str, list[Anchored]] = {}
    for anchor in found:
        for run_id, seq, head in anchor.heads:
            said.setdefault(run_id, []).append(
                Anchored(number=anchor.number, at=anchor.at, seq=seq, head=head)
            )
    return said
