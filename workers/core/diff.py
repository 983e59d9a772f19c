"""A unified diff as code under review: what is known of each file as it is after the change, and what was removed.

The files keep their true line numbers: lines that the diff does not show are blank, and no reviewer is shown them."""

from __future__ import annotations

import codecs
import dataclasses
import re
from collections.abc import Mapping, Sequence

from workers.core.artefact import Span, path_problem
from workers.core.slices import LeftOut, Removed, merge
from workers.errors import SpecError

#: A change below this line is left out: the blank lines above it would be all there is of the file.
MAX_LINE = 200_000

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_HEADER = re.compile(r'diff --git (?:"?a/)')
_RENAMED = re.compile(r"(?:rename|copy) to (.+)")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    files: Mapping[str, str]
    parts: Mapping[str, tuple[Span, ...]]
    removed: Mapping[str, tuple[Removed, ...]]
    left_out: tuple[LeftOut, ...]


def looks_like_diff(text: str) -> bool:
    """Whether a text begins like `git diff` or `diff -u` output."""
    return re.search(r"^(?:diff --git |--- [^\n]+\n\+\+\+ )", text[:20_000], re.MULTILINE) is not None


def parse_diff(text: str) -> Diff:
    """The changed files. Raises: SpecError, with the line, for what is no unified diff."""
    reader = _Reader(text.removesuffix("\n").split("\n"))
    reader.read()
    if not reader.parts and not reader.left_out:
        raise SpecError("the diff changes no file; give the output of `git diff` or `diff -u`")
    return Diff(
        files={path: _sparse(lines) for path, lines in reader.lines.items()},
        parts={path: merge(spans) for path, spans in reader.parts.items()},
        removed={path: tuple(items) for path, items in reader.removed.items() if items},
        left_out=tuple(reader.left_out),
    )


class _Reader:
    def __init__(self, lines: Sequence[str]) -> None:
        self.input = [line.removesuffix("\r") for line in lines]
        self.at = 0
        self.lines: dict[str, dict[int, str]] = {}
        self.parts: dict[str, list[Span]] = {}
        self.removed: dict[str, list[Removed]] = {}
        self.left_out: list[LeftOut] = []
        self.path: str | None = None

    def read(self) -> None:
        named = ""
        while self.at < len(self.input):
            line = self.input[self.at]
            renamed = _RENAMED.fullmatch(line)
            if line.startswith("@@@"):
                raise self._problem("is a combined diff of a merge; give the diff against one parent")
            if line.startswith("@@ "):
                self._hunk()
                continue
            if _HEADER.match(line):
                named, self.path = _second_name(line), None
            elif renamed and self._next_is_header():
                self._leave_out(_unquoted(renamed[1]), "renamed without a change")
            elif line.startswith("--- ") and self._next().startswith("+++ "):
                self._open(line, self._next())
                self.at += 1
            elif line.startswith(("Binary files ", "GIT binary patch")):
                self._leave_out(named or _binary_name(line), "binary")
            self.at += 1

    def _open(self, before: str, after: str) -> None:
        old, new = _name(before), _name(after)
        self.path = None
        if new == "/dev/null":
            self._leave_out(old, "deleted by the change")
            return
        problem = path_problem(new)
        if problem:
            self._leave_out(new, f"its path {problem}")
            return
        self.path = new
        self.lines.setdefault(new, {})
        self.parts.setdefault(new, [])
        self.removed.setdefault(new, [])

    def _hunk(self) -> None:
        match = _HUNK.match(self.input[self.at])
        if match is None:
            raise self._problem("does not read `@@ -line,count +line,count @@`")
        header = self.at
        old, new = int(match[2] or 1), int(match[4] or 1)
        number = int(match[3]) + (new == 0)
        if number == 0:
            raise self._problem("puts lines at line 0; lines count from 1")
        first, gone = number, []
        kept: dict[int, str] = {}
        taken: list[Removed] = []
        self.at += 1
        while old > 0 or new > 0:
            line = self.input[self.at] if self.at < len(self.input) else None
            if line is None or line[:1] not in {" ", "+", "-", "\\", ""}:
                self.at = header
                raise self._problem("announces more lines than follow it")
            mark, body = line[:1] or " ", line[1:]
            self.at += 1
            if mark == "-":
                gone.append(body)
                old -= 1
            elif mark in {" ", "+"}:
                if gone:
                    taken.append(Removed(before=number, text="\n".join(gone)))
                    gone = []
                kept[number] = body
                number, new, old = number + 1, new - 1, old - (mark == " ")
        if gone:
            taken.append(Removed(before=number, text="\n".join(gone)))
        self._keep(header, first, number - 1, kept, taken)

    def _keep(
        self, header: int, first: int, last: int, kept: Mapping[int, str], taken: list[Removed]
    ) -> None:
        if self.path is None:
            return
        if last > MAX_LINE:
            self.left_out.append(
                LeftOut(path=self.path, reason=f"the change at line {first} lies below line {MAX_LINE}")
            )
            return
        above = self.parts[self.path]
        if above and first <= above[-1].end and kept:
            self.at = header
            raise self._problem(f"changes lines of {self.path!r} that an earlier hunk has")
        self.lines[self.path].update(kept)
        # A hunk that only removes has no line of its own; it is shown at the line above.
        start, end = (first, last) if kept else (max(1, first - 1), max(1, first - 1))
        self.lines[self.path].setdefault(start, "")
        above.append(Span(path=self.path, start=start, end=end))
        self.removed[self.path] += taken

    def _leave_out(self, path: str, reason: str) -> None:
        shown = path if path.isprintable() else repr(path)[1:-1]
        self.left_out.append(LeftOut(path=shown[:255] or "(unnamed)", reason=reason))

    def _next(self) -> str:
        return self.input[self.at + 1] if self.at + 1 < len(self.input) else ""

    def _next_is_header(self) -> bool:
        following = self._next()
        return not following or _HEADER.match(following) is not None

    def _problem(self, what: str) -> SpecError:
        return SpecError(f"the diff, line {self.at + 1}: {self.input[self.at][:60]!r} {what}")


def _name(line: str) -> str:
    """The path of a `--- a/x` or `+++ b/x` line, without the time stamp that `diff -u` adds."""
    return re.sub(r"^[ab]/", "", _unquoted(line[4:].partition("\t")[0].strip()))


def _second_name(header: str) -> str:
    """`y` of `diff --git a/x b/y`."""
    match = re.search(r' ("?b/.+)$', header)
    return re.sub(r"^b/", "", _unquoted(match[1])) if match else ""


def _binary_name(line: str) -> str:
    match = re.fullmatch(r"Binary files .+ and (?:b/)?(.+) differ", line)
    return match[1] if match else ""


def _unquoted(name: str) -> str:
    """Git writes unusual names in double quotes with octal escapes."""
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):
        return name
    try:
        return codecs.escape_decode(name[1:-1].encode())[0].decode("utf-8", "replace")
    except ValueError:
        return name[1:-1]


def _sparse(lines: Mapping[int, str]) -> str:
    """A text with these lines at their numbers and blank ones between."""
    # A form feed inside a line would begin another line for `str.splitlines`.
    text = {number: " ".join(f"{line} ".splitlines())[:-1] for number, line in lines.items()}
    return "".join(f"{text.get(number, '')}\n" for number in range(1, max(text, default=0) + 1))
