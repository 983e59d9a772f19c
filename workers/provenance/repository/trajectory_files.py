"""Under which names trajectories were uploaded, and the manifests that scorings are made from."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Select, func, select, text
from sqlalchemy.dialects.postgresql import insert

from workers.errors import InputError, NotFoundError
from workers.provenance.models import DEFAULT_TENANT
from workers.provenance.repository import blobs
from workers.provenance.scoring_models import trajectory_blobs, trajectory_files

ROLES: Final = ("run", "beside")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A name for bytes that are stored."""

    file_id: str
    upload_set: str
    path: str
    digest: str
    prefix: str = ""
    role: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A row of the listing."""

    file_id: str
    upload_set: str
    prefix: str
    path: str
    role: str | None
    digest: str
    size_bytes: int
    stored_bytes: int
    created_at: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A file as a scoring sees it. folder: what it lies in with those that are read beside it, never shown."""

    folder: str
    prefix: str
    path: str
    digest: str
    role: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which uploaded files: of one upload set, uploaded since a moment, with these ids, or all."""

    upload_set: str | None = None
    since: dt.datetime | None = None
    ids: tuple[str, ...] | None = None


#: Not the beginning of an upload's transaction: a night that was started meanwhile has not seen it, and the next one
#: looks at what came after that night.
_UPLOADED_AT = func.clock_timestamp()


def hold(connection: Connection) -> None:
    """Wait for the uploads that are just being written, and keep further ones waiting until the transaction ends."""
    connection.execute(text("LOCK TABLE trajectory_files IN SHARE MODE"))


def link(connection: Connection, files: Sequence[NewFile], *, tenant_id: str) -> None:
    """Give stored bytes their names. A name that is there already names the new bytes from then on."""
    if not files:
        return
    statement = insert(trajectory_files)
    # One statement cannot touch a row twice: of two files with one name in one upload the last counts.
    unique = {(file.upload_set, file.prefix, file.path): file for file in files}
    connection.execute(
        statement.values(
            # In one order, or two uploads of the same names would wait for each other.
            [
                {"tenant_id": tenant_id, "created_at": _UPLOADED_AT, **dataclasses.asdict(unique[name])}
                for name in sorted(unique)
            ]
        ).on_conflict_do_update(
            index_elements=["tenant_id", "upload_set", "prefix", "path"],
            set_={
                "digest": statement.excluded.digest,
                "role": statement.excluded.role,
                "created_at": _UPLOADED_AT,
            },
            where=(trajectory_files.c.digest != statement.excluded.digest)
            | trajectory_files.c.role.is_distinct_from(statement.excluded.role),
        )
    )


def page(
    connection: Connection,
    *,
    tenant_id: str = DEFAULT_TENANT,
    before: str | None = None,
    limit: int = 50,
    upload_set: str | None = None,
    since: dt.datetime | None = None,
    path: str | None = None,
) -> list[StoredFile]:
    """Uploaded files, newest first. path: the beginning of their path."""
    files = trajectory_files
    query = select(files, trajectory_blobs.c.size_bytes, trajectory_blobs.c.stored_bytes).join(
        trajectory_blobs,
        (trajectory_blobs.c.tenant_id == files.c.tenant_id) & (trajectory_blobs.c.digest == files.c.digest),
    )
    query = query.where(files.c.tenant_id == tenant_id)
    if before is not None:
        query = query.where(files.c.file_id < before)
    if upload_set is not None:
        query = query.where(files.c.upload_set == upload_set)
    if since is not None:
        query = query.where(files.c.created_at >= since)
    if path is not None:
        query = query.where(files.c.path.startswith(path, autoescape=True))
    rows = connection.execute(query.order_by(files.c.file_id.desc()).limit(limit))
    names = [field.name for field in dataclasses.fields(StoredFile)]
    return [StoredFile(**{name: getattr(row, name) for name in names}) for row in rows]


def get(connection: Connection, file_id: str, *, tenant_id: str) -> StoredFile:
    """An uploaded file. Raises: NotFoundError."""
    files = trajectory_files
    row = (
        None
        if "\x00" in file_id
        else connection.execute(
            select(files, trajectory_blobs.c.size_bytes, trajectory_blobs.c.stored_bytes)
            .join(
                trajectory_blobs,
                (trajectory_blobs.c.tenant_id == files.c.tenant_id)
                & (trajectory_blobs.c.digest == files.c.digest),
            )
            .where(files.c.tenant_id == tenant_id, files.c.file_id == file_id)
        ).one_or_none()
    )
    if row is None:
        raise NotFoundError(f"there is no uploaded trajectory {file_id[:80]!r}")
    return StoredFile(**{field.name: getattr(row, field.name) for field in dataclasses.fields(StoredFile)})


def find_id(connection: Connection, *, upload_set: str, prefix: str, path: str, tenant_id: str) -> str | None:
    """The id of the file with this name, if it was uploaded."""
    files = trajectory_files.c
    return connection.scalar(
        select(files.file_id).where(
            files.tenant_id == tenant_id,
            files.upload_set == upload_set,
            files.prefix == prefix,
            files.path == path,
        )
    )


def folder_state(connection: Connection, *, upload_set: str, prefix: str, tenant_id: str) -> tuple[int, str]:
    """Changes with every upload into a folder: how many files there are, and when the last of them came."""
    files = trajectory_files.c
    count, newest = connection.execute(
        select(func.count(), func.max(files.created_at)).where(
            files.tenant_id == tenant_id, files.upload_set == upload_set, files.prefix == prefix
        )
    ).one()
    return count, str(newest)


def of_folder(connection: Connection, *, upload_set: str, prefix: str, tenant_id: str) -> list[ManifestFile]:
    """The files that lie in one folder: those that a reader may find beside each other."""
    files = trajectory_files.c
    rows = connection.execute(
        select(files.path, files.digest, files.role)
        .where(files.tenant_id == tenant_id, files.upload_set == upload_set, files.prefix == prefix)
        .order_by(files.path)
    )
    return [
        ManifestFile(folder=upload_set, prefix=prefix, path=row.path, digest=row.digest, role=row.role)
        for row in rows
    ]


def sets(connection: Connection, *, tenant_id: str, limit: int = 50) -> list[tuple[str, int, dt.datetime]]:
    """Upload sets with the number of their files and when the last of them came, the newest first."""
    files = trajectory_files.c
    newest = func.max(files.created_at)
    rows = connection.execute(
        select(files.upload_set, func.count(), newest)
        .where(files.tenant_id == tenant_id)
        .group_by(files.upload_set)
        .order_by(newest.desc())
        .limit(limit)
    )
    return [(row[0], row[1], row[2]) for row in rows]


def select_files(connection: Connection, selection: Selection, *, tenant_id: str) -> list[ManifestFile]:
    """The files that a selection names now, each name with the same bytes once, in the order of their names.

    Raises: InputError if it names none, or an id that is not there."""
    rows = connection.execute(_selected(selection, tenant_id)).all()
    if selection.ids is not None and len(rows) < len(set(selection.ids)):
        missing = sorted(set(selection.ids) - {row.file_id for row in rows})
        raise InputError(
            f"there is no uploaded trajectory {missing[0][:80]!r}; GET /v1/trajectories lists them"
        )
    if not rows:
        raise InputError("no uploaded trajectory is selected; upload some with POST /v1/trajectories")
    found: dict[tuple[str, str, str, str | None], ManifestFile] = {}
    for row in rows:
        file = ManifestFile(
            folder=row.upload_set, prefix=row.prefix, path=row.path, digest=row.digest, role=row.role
        )
        found.setdefault((file.prefix, file.path, file.digest, file.role), file)
    return list(found.values())


def _selected(selection: Selection, tenant_id: str) -> Select[Any]:
    files = trajectory_files.c
    query = select(files.file_id, files.upload_set, files.prefix, files.path, files.digest, files.role).where(
        files.tenant_id == tenant_id
    )
    if selection.upload_set is not None:
        query = query.where(files.upload_set == selection.upload_set)
    if selection.since is not None:
        query = query.where(files.created_at >= selection.since)
    if selection.ids is not None:
        query = query.where(files.file_id.in_(selection.ids))
    return query.order_by(files.prefix, files.path, files.upload_set)


def store_manifest(connection: Connection, files: Iterable[ManifestFile], *, tenant_id: str) -> str:
    """Keep a list of files under its digest: the same files give the same digest."""
    rows = [[file.folder, file.prefix, file.path, file.digest, file.role] for file in files]
    body = json.dumps(rows, separators=(",", ":")).encode("ascii")
    return blobs.store(connection, io.BytesIO(body), tenant_id=tenant_id).digest


def load_manifest(connection: Connection, digest: str, *, tenant_id: str) -> list[ManifestFile]:
    """Raises: NotFoundError."""
    rows = json.loads(blobs.content(connection, digest, tenant_id=tenant_id))
    return [
        ManifestFile(folder=folder, prefix=prefix, path=path, digest=of, role=role)
        for folder, prefix, path, of, role in rows
    ]
