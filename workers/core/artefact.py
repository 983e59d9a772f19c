"""The code under judgement: a handful of text files, and which of their lines a rewrite changed."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

#: More than this is not a reply but an accident; the whole artefact travels in every prompt.
MAX_FILES = 64
MAX_ARTEFACT_CHARACTERS = 1_000_000

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
    if any(ord(character) < 32 or ord(character) == 127 for character in path):
        return "holds control characters"
    if "\\" in path or path.startswith(("/", "~")) or re.match(r"^[A-Za-z]:", path):
        return "is not a relative path with forward slashes"
    if any(part in {"", ".", ".."} for part in path.split("/")):
        return "has an empty, '.' or '..' part"
    return None


def files_problem(files: Files) -> str | None:
    """Why these files cannot be an artefact, in one sentence, or None."""
    if len(files) > MAX_FILES:
        return f"{len(files)} files; at most {MAX_FILES} are allowed"
    for path, text in files.items():
        problem = path_problem(path)
        if problem:
            return f"file path {path[:80]!r} {problem}"
        if "\x00" in text:
            return f"file {path!r} holds NUL bytes; only text can be judged"
    total = sum(len(text) for text in files.values())
    if total > MAX_ARTEFACT_CHARACTERS:
        return f"{total} characters in all; at most {MAX_ARTEFACT_CHARACTERS} are allowed"
    return None


def fold(text: str) -> str:
    """Text with every run of white space folded to one blank: how quotes are compared."""
    return " ".join(text.split())


def numbered(text: str) -> str:
    """The text with line numbers in front, as models are shown it so that they can point at lines."""
    lines = text.splitlines()
    width = len(str(len(lines)))
    return "\n".join(f"{number:>{width}} | {line}" for number, line in enumerate(lines, start=1))


def changed_spans(before: Files, after: Files) -> tuple[Span, ...]:
    """Line ranges of `after` whose meaning differs from `before`.

    Blank lines, white space and lines that are only a comment do not count as change. A deletion is a
    change of the two lines around the gap. Files that vanished have no lines to point at.
    """
    spans: list[Span] = []
    for path in sorted(after):
        old, new = _lines(before.get(path, ""), path), _lines(after[path], path)
        matcher = difflib.SequenceMatcher(
            a=[text for _, text in old], b=[text for _, text in new], autojunk=False
        )
        last = max(1, len(after[path].splitlines()))
        for tag, _, _, start, end in matcher.get_opcodes():
            if tag == "equal":
                continue
            if start < end:
                spans.append(Span(path=path, start=new[start][0], end=new[end - 1][0]))
            else:
                before_gap = new[start - 1][0] if start else 1
                after_gap = new[start][0] if start < len(new) else last
                spans.append(Span(path=path, start=before_gap, end=after_gap))
    return tuple(spans)


def _lines(text: str, path: str) -> list[tuple[int, str]]:
    marks = ("//",) if PurePosixPath(path).suffix in {".js", ".ts", ".go", ".c", ".java", ".rs"} else ("#",)
    folded = ((number, fold(line)) for number, line in enumerate(text.splitlines(), start=1))
    return [(number, line) for number, line in folded if line and not line.startswith(marks)]
