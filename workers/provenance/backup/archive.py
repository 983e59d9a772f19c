"""The file of a backup, written and read as a stream.

Unpacked (gzip) it is lines: a JSON object that says what it is; for each table a JSON object with its name and
columns, the rows as PostgreSQL's `COPY` writes them in its text format, and the line that ends such rows; at the end
a JSON object with the number of all rows and the SHA-256 of every byte before that line. The text format is the one
that PostgreSQL keeps between its versions."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from workers.errors import InputError

FORMAT: Final = "consensus-backup"
VERSION: Final = 1
#: Fast: nearly as small as the best level on rows of compressible text, at a fifth of its time.
_LEVEL: Final = 3
#: No row begins so: a backslash in a value is written as two.
_END_OF_ROWS: Final = b"\\.\n"
#: The first line says little; whatever is longer is another kind of file.
_LONGEST_HEAD_BYTES: Final = 1 << 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a backup is of. `server`: PostgreSQL's version; `at`: ISO 8601, the moment that it shows."""

    revision: str
    server: str
    at: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableHead:
    """A table whose rows come next."""

    name: str
    columns: tuple[str, ...]


class ArchiveWriter:
    """Writes a backup. Nothing is whole before `close`."""

    def __init__(self, file: BinaryIO, head: Head) -> None:
        # Without a name and a time in its header: the same rows give the same bytes.
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0)
        self._digest = hashlib.sha256()
        self._rows = 0
        self._line({"format": FORMAT, "version": VERSION, **dataclasses.asdict(head)})

    def begin_table(self, table: TableHead) -> None:
        self._line({"table": table.name, "columns": list(table.columns)})

    def write_rows(self, data: bytes) -> None:
        """Whole or broken rows, as COPY gives them."""
        self._rows += data.count(b"\n")
        self._write(data)

    def end_table(self) -> None:
        self._write(_END_OF_ROWS)

    def close(self) -> int:
        """Write the end; the number of rows in all."""
        self._line({"rows": self._rows, "sha256": self._digest.hexdigest()})
        self._gzip.close()
        return self._rows

    def _line(self, value: dict[str, Any]) -> None:
        self._write(json.dumps(value).encode("ascii") + b"\n")

    def _write(self, data: bytes) -> None:
        self._digest.update(data)
        self._gzip.write(data)


class ArchiveReader:
    """Reads a backup in its order: `tables`, and of each its `rows` before the next.

    Every method raises InputError for what is no whole backup; that the bytes are those that were written is known
    only when `tables` has ended."""

    def __init__(self, file: BinaryIO) -> None:
        self._gzip = gzip.GzipFile(fileobj=file, mode="rb")
        self._digest = hashlib.sha256()
        #: Rows read so far.
        self.count = 0
        self.head = self._read_head()

    def _read_head(self) -> Head:
        try:
            value = json.loads(self._line(_LONGEST_HEAD_BYTES))
            kind, version = value["format"], value["version"]
        except (InputError, ValueError, TypeError, KeyError, RecursionError):
            kind, version, value = None, None, {}
        if kind != FORMAT:
            raise InputError("is no backup; give a file that `consensus backup` wrote")
        if version != VERSION:
            raise InputError(
                f"is a backup in form {version!r}, this version reads form {VERSION}; use the version that wrote it"
            )
        return Head(**{field.name: str(value.get(field.name)) for field in dataclasses.fields(Head)})

    def tables(self) -> Iterator[TableHead]:
        """The tables; when they have ended, the file was whole and unchanged."""
        while True:
            before = self._digest.hexdigest()
            value = self._object()
            if "sha256" in value:
                return self._check_end(value, before)
            try:
                table = TableHead(name=str(value["table"]), columns=tuple(map(str, value["columns"])))
            except (KeyError, TypeError):
                raise _damaged("a line between its tables says nothing known") from None
            yield table

    def rows(self) -> Iterator[bytes]:
        """The rows of the table that `tables` gave last, each with its end of line."""
        while (line := self._line()) != _END_OF_ROWS:
            self.count += 1
            yield line

    def _check_end(self, value: dict[str, Any], digest: str) -> None:
        if value["sha256"] != digest or value.get("rows") != self.count:
            raise _damaged("its digest is not that of its content")
        if self._read(1):
            raise _damaged("something follows its end")

    def _object(self) -> dict[str, Any]:
        line = self._line(_LONGEST_HEAD_BYTES)
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise _damaged("a line between its tables cannot be read")
        return value

    def _line(self, most_bytes: int = -1) -> bytes:
        try:
            line = self._gzip.readline(most_bytes)
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(str(error) or type(error).__name__) from None
        if not line.endswith(b"\n"):
            raise _damaged("it is cut off")
        self._digest.update(line)
        return line

    def _read(self, size: int) -> bytes:
        try:
            return self._gzip.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(str(error) or type(error).__name__) from None


def _damaged(how: str) -> InputError:
    return InputError(f"is damaged ({how}); nothing of it was restored, use another copy")
