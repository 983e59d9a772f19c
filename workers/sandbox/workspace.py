"""A workspace becomes an archive in memory. No file of the worker's machine is written, and none is followed.

Names come from models. They are checked here, before any engine sees them: an engine would resolve what we let
through inside the cage only, but a refusal with a sentence is better than a file that is silently elsewhere.
"""

from __future__ import annotations

import dataclasses
import io
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

from workers.errors import InputError
from workers.sandbox.base import MIB, Workspace

MAX_FILES = 5_000
MAX_FILE_BYTES = 16 * MIB
MAX_TOTAL_BYTES = 64 * MIB
#: Above that no common file system takes a name.
_MAX_NAME_BYTES = 255
_MAX_PATH_BYTES = 1024


@dataclasses.dataclass(slots=True)
class _Room:
    """What is left of the bounds while files are counted."""

    files: int = 0
    total_bytes: int = 0

    def take(self, path: str, size_bytes: int) -> None:
        """Raises: InputError when the file, or with it the workspace, is too large."""
        self.files += 1
        self.total_bytes += size_bytes
        if self.files > MAX_FILES:
            raise InputError(f"the workspace has more than {MAX_FILES} files; leave some out")
        if size_bytes > MAX_FILE_BYTES:
            raise InputError(
                f"workspace file {path!r} has {size_bytes} bytes; {MAX_FILE_BYTES} are the most for one"
            )
        if self.total_bytes > MAX_TOTAL_BYTES:
            raise InputError(f"the workspace has more than {MAX_TOTAL_BYTES} bytes; leave files out")


def checked_parts(path: str) -> tuple[str, ...]:
    """The parts of a safe relative path. Raises: InputError for any other."""
    parts = tuple(path.split("/"))
    wrong = (
        not path
        or len(path.encode("utf-8", errors="replace")) > _MAX_PATH_BYTES
        or not path.isprintable()  # NUL, line ends and lone surrogates among others
        or "\\" in path
        or any(part in {"", ".", ".."} or len(part.encode()) > _MAX_NAME_BYTES for part in parts)
    )
    if wrong:
        raise InputError(
            f"workspace path {path[:100]!r} is refused; it must be relative, with plain names between slashes"
        )
    return parts


def pack(workspace: Workspace) -> bytes:
    """The workspace as an uncompressed tar: regular files (0644) and their folders (0755), owned by root.

    The same files give the same bytes. Raises: InputError for an unsafe path, a file that is also a folder, or too
    many or too large files.
    """
    contents: dict[str, bytes] = {}
    folders: set[str] = set()
    room = _Room()
    for path, content in workspace.items():
        parts = checked_parts(path)
        contents[path] = content.encode("utf-8", errors="replace") if isinstance(content, str) else content
        room.take(path, len(contents[path]))
        folders |= {"/".join(parts[:depth]) for depth in range(1, len(parts))}
    both = sorted(folders & contents.keys())
    if both:
        raise InputError(f"workspace path {both[0]!r} is a file and a folder at once; rename one")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder in sorted(folders):
            archive.addfile(_entry(folder, tarfile.DIRTYPE, mode=0o755))
        for path in sorted(contents):
            entry = _entry(path, tarfile.REGTYPE, mode=0o644)
            entry.size = len(contents[path])
            archive.addfile(entry, io.BytesIO(contents[path]))
    return buffer.getvalue()


def _entry(path: str, kind: bytes, *, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.type = kind
    entry.mode = mode
    return entry


def from_folder(root: Path) -> dict[str, bytes]:
    """The files under a folder of this machine, hidden ones and bytecode left out.

    Raises: InputError for a symbolic link or a device (what they lead to was not asked for), an unreadable file, or
    too much of it.
    """
    if not root.is_dir():
        raise InputError(f"{root} is not a folder")
    files: dict[str, bytes] = {}
    room = _Room()
    try:
        for path in _regular_files(root):
            name = path.relative_to(root).as_posix()
            checked_parts(name)
            room.take(name, path.stat().st_size)
            files[name] = path.read_bytes()
    except OSError as error:
        raise InputError(f"{error.filename or root} cannot be read: {error.strerror}") from None
    return files


def _regular_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name == "__pycache__":
            continue
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            yield from _regular_files(path)
        elif stat.S_ISREG(mode):
            yield path
        else:
            kind = "a symbolic link" if stat.S_ISLNK(mode) else "no regular file"
            raise InputError(f"{path} is {kind}; a workspace takes regular files only")
