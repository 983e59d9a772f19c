"""The code under judgement: a handful of text files, and what may be one."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

#: More than this is not a reply but an accident; the whole artefact travels in every prompt.
MAX_FILES = 64
MAX_ARTEFACT_CHARACTERS = 1_000_000

#: Characters that some file system refuses, the mark of a drive (`C:`) among them, or that would break out of the
#: prompts' `path="…"`.
_RESERVED = frozenset('"<>|?*:')
_SURROGATE = re.compile("[\ud800-\udfff]")

#: Code under judgement, by relative path. Plain data, so that it goes to JSON as it is.
Files = Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Span:
    """A closed range of 1-based lines of one file."""

    path: str
    start: int
    end: int

    def overlaps(self, other: Span, *, slack: int = 0) -> bool:
        """Whether the ranges share a line, or lie at most `slack` lines apart, in the same file."""
        return self.path == other.path and self.start <= other.end + slack and other.start <= self.end + slack


def path_problem(path: str) -> str | None:
    """Why `path` may not name a file of an artefact, or None. Only plain relative paths may."""
    if not path or len(path) > 255:
        return "is empty or longer than 255 characters"
    if not path.isprintable():
        return "holds control or invisible characters"
    if _RESERVED & set(path):
        return f"holds one of {' '.join(sorted(_RESERVED))}"
    if "\\" in path or path.startswith(("/", "~")):
        return "is not a relative path with forward slashes"
    if any(part in {"", ".", ".."} for part in path.split("/")):
        return "has an empty, '.' or '..' part"
    return None


def files_problem(
    files: Files, *, most_files: int = MAX_FILES, most_characters: int = MAX_ARTEFACT_CHARACTERS
) -> str | None:
    """Why these files cannot be an artefact, in one sentence, or None."""
    if len(files) > most_files:
        return f"{len(files)} files; at most {most_files} are allowed"
    for path, text in files.items():
        problem = path_problem(path) or _folder_clash(path, files)
        if problem:
            return f"file path {path[:80]!r} {problem}"
        if "\x00" in text:
            return f"file {path!r} holds NUL bytes; only text can be judged"
        if _SURROGATE.search(text):
            return f"file {path!r} holds half of a surrogate pair; only text can be judged"
    total = sum(len(text) for text in files.values())
    if total > most_characters:
        return f"{total} characters in all; at most {most_characters} are allowed"
    return None


def _folder_clash(path: str, files: Files) -> str | None:
    parts = path.split("/")
    above = next((place for at in range(1, len(parts)) if (place := "/".join(parts[:at])) in files), None)
    return f"lies in {above[:80]!r}, which is a file itself" if above else None


def fold(text: str) -> str:
    """Text with every run of white space folded to one blank: how quotes are compared."""
    return " ".join(text.split())


def numbered(text: str) -> str:
    """The text with line numbers in front, as models are shown it so that they can point at lines."""
    lines = text.splitlines()
    width = len(str(len(lines)))
    return "\n".join(f"{number:>{width}} | {line}" for number, line in enumerate(lines, start=1))
