"""`--code PATH`: existing code as the fields of a request: a folder, a file, or a unified diff."""

from __future__ import annotations

import dataclasses
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from workers.cli.ignore import Rule, is_ignored, read_rules
from workers.core.artefact import files_problem, path_problem
from workers.core.diff import looks_like_diff, parse_diff
from workers.core.submission import MAX_LEFT_OUT, MAX_REVIEWED_CHARACTERS, MAX_REVIEWED_FILES
from workers.errors import InputError, SarifError, SpecError
from workers.sarif.read import alarms_in

#: What a folder given as code holds besides code.
SKIPPED_FOLDERS = frozenset(
    (
        *(
            ".git",
            ".hg",
            ".svn",
            ".venv",
            "venv",
            "node_modules",
            "__pycache__",
            ".mypy_cache",
            ".ruff_cache",
        ),
        *(".pytest_cache", ".hypothesis", ".tox", ".idea", "dist", "build", ".eggs"),
    )
)
#: Of these nobody needs to be told.
_SILENT_FOLDERS = frozenset({".git", ".hg", ".svn", "__pycache__"})
#: A larger file is data or was made by a machine.
MAX_FILE_BYTES = 400_000
MAX_DIFF_BYTES = 8 * 1024 * 1024
_DIFF_SUFFIXES = frozenset({".diff", ".patch"})


@dataclasses.dataclass(slots=True)
class _Folder:
    root: Path
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    left_out: list[dict[str, str]] = dataclasses.field(default_factory=list)
    more: int = 0

    def leave_out(self, path: str, reason: str) -> None:
        shown = path if path.isprintable() else repr(path)[1:-1]
        if len(self.left_out) < MAX_LEFT_OUT - 1:
            self.left_out.append({"path": shown[:255], "reason": reason})
        else:
            self.more += 1


def read_code(place: Path) -> dict[str, Any]:
    """The request's fields `review`, `files`, `left_out` or `diff`. Raises: InputError, with one sentence."""
    if str(place) == "-":
        return _diff(_decoded(sys.stdin.buffer.read(MAX_DIFF_BYTES + 1), "-"), "-")
    if place.is_dir():
        return _read_folder(place)
    if not place.exists():
        raise InputError(f"--code {place}: no such file or folder")
    try:
        with place.open("rb") as source:
            body = source.read(MAX_DIFF_BYTES + 1)
    except OSError as error:
        raise InputError(f"--code {place}: cannot be read: {error.strerror}") from None
    text = _decoded(body, str(place))
    if place.suffix in _DIFF_SUFFIXES or looks_like_diff(text):
        return _diff(text, str(place))
    return _fields(place, {place.name: text}, [])


def read_tests(place: Path) -> dict[str, str]:
    """The request's field `tests`: the text files of a folder, or one file. Raises: InputError."""
    try:
        fields = read_code(place)
    except InputError as error:
        raise InputError(str(error).replace("--code ", "--tests ", 1)) from None
    if "diff" in fields:
        raise InputError(f"--tests {place}: is a diff; give a file or a folder of tests")
    return dict(fields["files"])


def read_alarms(place: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """A SARIF file as it came, once it is known that alarms about the code can be read from it. Raises: InputError."""
    try:
        with place.open("rb") as source:
            body = source.read(MAX_DIFF_BYTES + 1)
    except OSError as error:
        raise InputError(f"--sarif {place}: cannot be read: {error.strerror}") from None
    if len(body) > MAX_DIFF_BYTES:
        raise InputError(f"--sarif {place}: is larger than {MAX_DIFF_BYTES:,} bytes; split it by folder")
    try:
        value = orjson.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise InputError(
            f"--sarif {place}: is no JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    paths = parse_diff(fields["diff"]).files if "diff" in fields else fields["files"]
    try:
        alarms_in(value, paths)
    except SarifError as error:
        raise InputError(f"--sarif {place}: {error}") from None
    return dict(value)


def _decoded(body: bytes, place: str) -> str:
    if len(body) > MAX_DIFF_BYTES:
        raise InputError(
            f"--code {place}: is larger than {MAX_DIFF_BYTES:,} bytes; give a smaller diff or file"
        )
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"--code {place}: not UTF-8 text") from None


def _diff(text: str, place: str) -> dict[str, Any]:
    try:
        parse_diff(text)
    except SpecError as error:
        raise InputError(f"--code {place}: {error}") from None
    return {"diff": text, "review": True}


def _read_folder(root: Path) -> dict[str, Any]:
    folder = _Folder(root)
    for path in _walk(folder, "", []):
        _read_file(folder, path)
        if len(folder.files) > MAX_REVIEWED_FILES:
            raise InputError(
                f"--code {root}: holds more than {MAX_REVIEWED_FILES:,} files; give a folder inside it, or a diff"
            )
    if folder.more:
        folder.left_out.append({"path": "(more)", "reason": f"{folder.more} more files left out"})
    return _fields(root, folder.files, folder.left_out)


def _walk(folder: _Folder, inside: str, rules: list[Rule]) -> Iterator[str]:
    """Paths of the files that are code, in order; what is not is noted."""
    here = folder.root / inside
    try:
        entries = sorted(os.scandir(here), key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"--code {here}: cannot be read: {error.strerror}") from None
    if any(entry.name == ".gitignore" and entry.is_file(follow_symlinks=False) for entry in entries):
        text = (here / ".gitignore").read_text(encoding="utf-8", errors="replace")
        rules = [*rules, *read_rules(text, inside)]
    for entry in entries:
        path = f"{inside}/{entry.name}" if inside else entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        reason = _why_not(entry, path, rules)
        if reason is None and is_folder:
            yield from _walk(folder, path, rules)
        elif reason is None:
            yield path
        elif reason:
            folder.leave_out(f"{path}/" if is_folder else path, reason)


def _why_not(entry: os.DirEntry[str], path: str, rules: list[Rule]) -> str | None:
    """Why an entry is no code: "" where nobody needs to be told, None if it is code."""
    if entry.is_symlink():
        return "a symbolic link"
    is_folder = entry.is_dir(follow_symlinks=False)
    if is_folder and entry.name in SKIPPED_FOLDERS:
        return "" if entry.name in _SILENT_FOLDERS else "not your own code"
    if is_ignored(path, rules, is_folder=is_folder):
        return "ignored by .gitignore"
    return None if is_folder else _why_no_text(entry.stat(follow_symlinks=False), path)


def _why_no_text(status: os.stat_result, path: str) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    if status.st_size > MAX_FILE_BYTES:
        return f"larger than {MAX_FILE_BYTES:,} bytes"
    problem = path_problem(path)
    return None if problem is None else f"its path {problem}"


def _read_file(folder: _Folder, path: str) -> None:
    try:
        body = (folder.root / path).read_bytes()
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        folder.leave_out(path, "binary or not UTF-8")
    except OSError as error:
        raise InputError(f"--code {folder.root / path}: cannot be read: {error.strerror}") from None
    else:
        if "\x00" in text:
            folder.leave_out(path, "binary or not UTF-8")
        else:
            folder.files[path] = text


def _fields(place: Path, files: dict[str, str], left_out: list[dict[str, str]]) -> dict[str, Any]:
    if not files:
        raise InputError(f"--code {place}: holds no text file")
    problem = files_problem(files, most_files=MAX_REVIEWED_FILES, most_characters=MAX_REVIEWED_CHARACTERS)
    if problem:
        raise InputError(f"--code {place}: {problem}; give a part of it, or a diff")
    return {"files": files, "review": True, **({"left_out": left_out} if left_out else {})}
