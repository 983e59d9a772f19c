"""Takes trajectories in: line by line or file by file, a few in memory at a time."""

from __future__ import annotations

import base64
import binascii
import codecs
import dataclasses
import io
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import PurePosixPath
from typing import BinaryIO, Final

import orjson
from pydantic import ValidationError
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from api.errors import sentence_of
from api.json_size import has_too_many_values
from api.scoring_schemas import UploadedItem, UploadLine, UploadOut
from workers.errors import BodyTooLargeError, InputError
from workers.provenance.repository import blobs, trajectory_files
from workers.provenance.repository.trajectory_files import NewFile
from workers.provenance.session import Database

MAX_LINE_BYTES: Final = 64 << 20
#: Of one body: each is answered by itself, and what is refused takes ten times its place in memory.
MAX_LINES: Final = 100_000
_LINES_AT_ONCE: Final = 200
_BYTES_AT_ONCE: Final = 8 << 20
_PARSED_AT_ONCE_BYTES: Final = 1 << 20
#: Of one line, in which nothing nests. As many as fit would take thirty times its bytes.
_MOST_VALUES: Final = 1000
_LONGEST_PATH: Final = 1024
_LONGEST_NAME: Final = 255


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A file of an upload: its bytes, or the digest of bytes that should be there."""

    path: str
    prefix: str = ""
    role: str | None = None
    file: BinaryIO | None = None
    digest: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """Stores what is given into an upload set of a tenant."""

    database: Database
    tenant_id: str
    upload_set: str
    max_file_bytes: int
    new_id: Callable[[], str]

    def take(self, given: Sequence[Given | UploadedItem]) -> list[UploadedItem]:
        """Store files, in one transaction; what was refused before passes through."""
        items: list[UploadedItem] = []
        named: list[NewFile] = []
        with self.database.begin() as connection:
            digests = [item.digest for item in given if isinstance(item, Given) and item.digest]
            there = blobs.present(connection, digests, tenant_id=self.tenant_id)
            stored = self._stored(connection, given)
            for number, item in enumerate(given):
                if isinstance(item, UploadedItem):
                    items.append(item)
                    continue
                problem = self._problem(item)
                if problem is not None:
                    items.append(UploadedItem(path=item.path, status="refused", problem=problem))
                    continue
                digest, status = item.digest, "present"
                if item.file is not None:
                    digest, status = stored[number].digest, "stored" if stored[number].is_new else "present"
                elif digest not in there:
                    items.append(UploadedItem(path=item.path, status="missing", digest=digest))
                    continue
                assert digest is not None  # noqa: S101 - either given or just made
                named.append(
                    NewFile(
                        file_id=self.new_id(),
                        upload_set=self.upload_set,
                        path=item.path,
                        digest=digest,
                        prefix=item.prefix,
                        role=item.role,
                    )
                )
                items.append(
                    UploadedItem.model_validate({"path": item.path, "status": status, "digest": digest})
                )
            trajectory_files.link(connection, named, tenant_id=self.tenant_id)
        return items

    def _stored(
        self, connection: Connection, given: Sequence[Given | UploadedItem]
    ) -> dict[int, blobs.Stored]:
        """The bytes that may be kept, by their place in the upload. In the order of their digests: two uploads of the
        same files in another order would wait for each other."""
        files = [
            (blobs.digest_of(item.file), number, item.file)
            for number, item in enumerate(given)
            if isinstance(item, Given) and item.file is not None and self._problem(item) is None
        ]
        return {
            number: blobs.store(connection, file, tenant_id=self.tenant_id)
            for _, number, file in sorted(files, key=lambda of: of[:2])
        }

    def _problem(self, item: Given) -> str | None:
        return path_problem(item.path) or self._size_problem(item)

    def _size_problem(self, item: Given) -> str | None:
        if item.file is None:
            return None
        size = item.file.seek(0, io.SEEK_END)
        item.file.seek(0)
        if size > self.max_file_bytes:
            return (
                f"has {size:,} bytes, more than the {self.max_file_bytes:,} of CONSENSUS_MAX_TRAJECTORY_BYTES"
            )
        return None

    def answer(self, items: Sequence[UploadedItem]) -> UploadOut:
        """What became of an upload."""
        counts = {
            name: sum(item.status == name for item in items)
            for name in ("stored", "present", "missing", "refused")
        }
        return UploadOut(upload_set=self.upload_set, items=list(items), **counts)


def path_problem(path: str) -> str | None:
    """Why a path cannot name a trajectory, in a sentence; None if it can."""
    if not path or path != path.strip("/") or not path.isprintable():
        return f"the path {path[:80]!r} must be relative, of printable characters, and name a file"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return f"the path {path[:80]!r} must not hold empty parts, . or .."
    if (
        len(path) > _LONGEST_PATH
        or max(len(part.encode()) for part in PurePosixPath(path).parts) > _LONGEST_NAME
    ):
        return f"the path {path[:80]!r}… is longer than {_LONGEST_PATH} characters or {_LONGEST_NAME} bytes a part"
    return None


async def lines_of(body: AsyncIterator[bytes]) -> AsyncIterator[list[Given | UploadedItem]]:
    """The files in a body of JSON lines, some at a time."""
    batch: list[Given | UploadedItem] = []
    number, taken, held = 0, 0, 0
    async for line in _lines(body):
        number += 1
        if not line.strip():
            continue
        taken += 1
        if taken > MAX_LINES:
            raise BodyTooLargeError(
                f"the body has more than {MAX_LINES:,} lines; send the rest by itself, what came before is kept"
            )
        # A long one takes a while.
        is_long = len(line) > _PARSED_AT_ONCE_BYTES
        batch.append(await run_in_threadpool(_parsed, line, number) if is_long else _parsed(line, number))
        held += len(line)
        if len(batch) >= _LINES_AT_ONCE or held >= _BYTES_AT_ONCE:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


async def _lines(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = bytearray()
    async for piece in body:
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            rest += piece[start:end]
            yield bytes(rest)
            rest.clear()
            start = end + 1
        rest += piece[start:]
        if len(rest) > MAX_LINE_BYTES:
            raise InputError(
                f"a line has more than {MAX_LINE_BYTES:,} bytes; send a file of that size as multipart/form-data"
            )
    yield bytes(rest)


def _parsed(line: bytes, number: int) -> Given | UploadedItem:
    text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    if has_too_many_values(line, _MOST_VALUES):
        return _refused(number, f"has more than {_MOST_VALUES:,} JSON values; a line is one flat object")
    try:
        read = UploadLine.model_validate(orjson.loads(text))
        data = _data(read)
    except orjson.JSONDecodeError as error:
        return _refused(number, f"not JSON: {error}")
    except ValidationError as error:
        return _refused(number, sentence_of(error.errors(include_url=False)))
    except InputError as error:
        return _refused(number, str(error))
    return Given(
        path=read.path,
        prefix=read.prefix,
        role=read.role,
        file=None if data is None else io.BytesIO(data),
        digest=read.digest if data is None else None,
    )


def _data(line: UploadLine) -> bytes | None:
    given = [value for value in (line.content, line.content_base64) if value is not None]
    if len(given) > 1 or (not given and line.digest is None):
        raise InputError("give one of content, content_base64 and digest")
    if line.content is not None:
        return line.content.encode("utf-8", "surrogatepass")
    if line.content_base64 is not None:
        try:
            return base64.b64decode(line.content_base64, validate=True)
        except (binascii.Error, ValueError):
            raise InputError("content_base64: is not base64") from None
    return None


def _refused(number: int, problem: str) -> UploadedItem:
    return UploadedItem(path="", status="refused", problem=f"line {number}: {problem}")


def files_of(
    values: Sequence[UploadFile | str], *, prefix: str, role: str | None
) -> list[Given | UploadedItem]:
    """The files of a form; what is no file is refused."""
    found: list[Given | UploadedItem] = []
    for number, value in enumerate(values, start=1):
        if isinstance(value, str) or not value.filename:
            problem = f"part {number}: is no file; its filename says the path"
            found.append(UploadedItem(path="", status="refused", problem=problem))
        else:
            found.append(Given(path=value.filename, prefix=prefix, role=role, file=value.file))
    return found
