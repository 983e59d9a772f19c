"""Files by the SHA-256 of their bytes, compressed, once a tenant."""

from __future__ import annotations

import dataclasses
import hashlib
import zlib
from collections.abc import Collection, Iterator
from typing import BinaryIO, Final

from sqlalchemy import Boolean, Connection, func, insert, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from workers.errors import NotFoundError
from workers.provenance.models import tenants
from workers.provenance.scoring_models import trajectory_blobs, trajectory_chunks

CHUNK_BYTES: Final = 4 << 20
"""Of a file's bytes in one row. Each row is compressed by itself."""
_LEVEL: Final = 6
_MOST_AT_ONCE: Final = 10_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A file's bytes in the store. is_new: whether this call brought them."""

    digest: str
    size_bytes: int
    is_new: bool


def digest_of(file: BinaryIO) -> tuple[str, int]:
    """SHA-256 (hexadecimal) and size of a file from its beginning; it stands at its beginning afterwards."""
    digest, size = hashlib.sha256(), 0
    file.seek(0)
    while piece := file.read(CHUNK_BYTES):
        digest.update(piece)
        size += len(piece)
    file.seek(0)
    return digest.hexdigest(), size


def store(connection: Connection, file: BinaryIO, *, tenant_id: str) -> Stored:
    """Keep a file's bytes unless they are there. Two who store the same at once store it once.

    What is there counts as stored now: nobody drops it for its age before this transaction has ended."""
    digest, size = digest_of(file)
    connection.execute(upsert(tenants).values(tenant_id=tenant_id, name=tenant_id).on_conflict_do_nothing())
    row = connection.execute(
        upsert(trajectory_blobs)
        .values(tenant_id=tenant_id, digest=digest, size_bytes=size, stored_bytes=0)
        .on_conflict_do_update(index_elements=["tenant_id", "digest"], set_={"created_at": func.now()})
        # A row that this statement made was never locked by one that updates it.
        .returning(literal_column("xmax = 0", Boolean).label("is_new"))
    ).one()
    if not row.is_new:
        return Stored(digest=digest, size_bytes=size, is_new=False)
    stored, number = 0, 0
    while piece := file.read(CHUNK_BYTES):
        body = zlib.compress(piece, _LEVEL)
        stored += len(body)
        connection.execute(
            insert(trajectory_chunks).values(tenant_id=tenant_id, digest=digest, number=number, body=body)
        )
        number += 1
    connection.execute(
        update(trajectory_blobs)
        .where(trajectory_blobs.c.tenant_id == tenant_id, trajectory_blobs.c.digest == digest)
        .values(stored_bytes=stored)
    )
    return Stored(digest=digest, size_bytes=size, is_new=True)


def present(connection: Connection, digests: Collection[str], *, tenant_id: str) -> set[str]:
    """Those of the digests whose bytes are there."""
    wanted = list(digests)
    found: set[str] = set()
    for start in range(0, len(wanted), _MOST_AT_ONCE):
        rows = connection.execute(
            select(trajectory_blobs.c.digest).where(
                trajectory_blobs.c.tenant_id == tenant_id,
                trajectory_blobs.c.digest.in_(wanted[start : start + _MOST_AT_ONCE]),
            )
        )
        found |= {row.digest for row in rows}
    return found


def pieces(connection: Connection, digest: str, *, tenant_id: str) -> Iterator[bytes]:
    """A file's bytes, piece by piece. Raises: NotFoundError."""
    known = connection.scalar(
        select(trajectory_blobs.c.size_bytes).where(
            trajectory_blobs.c.tenant_id == tenant_id, trajectory_blobs.c.digest == digest
        )
    )
    if known is None:
        raise NotFoundError(f"there are no stored bytes with the digest {digest[:80]!r}")
    number = 0
    while True:
        body = connection.scalar(
            select(trajectory_chunks.c.body).where(
                trajectory_chunks.c.tenant_id == tenant_id,
                trajectory_chunks.c.digest == digest,
                trajectory_chunks.c.number == number,
            )
        )
        if body is None:
            return
        yield zlib.decompress(body)
        number += 1


def content(connection: Connection, digest: str, *, tenant_id: str) -> bytes:
    """A file's bytes. Raises: NotFoundError."""
    return b"".join(pieces(connection, digest, tenant_id=tenant_id))
