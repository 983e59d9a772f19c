"""What of an artefact fits into one prompt: cut by file and by function, chosen by a budget of tokens, and told.

Whole files that fit come first, then functions and hunks of those that do not. Whatever is left out is named to the
line, so that the verdict's receipt can say what nobody looked at."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from workers.core.artefact import Files, Span

#: Tokens that a budget is taken to be where neither the models' windows nor the team's policy says one.
DEFAULT_CONTEXT_TOKENS = 100_000
#: Code has more tokens a character than prose; a budget that is a window must not be overrun.
_BYTES_PER_TOKEN = 3.0
#: `1234 | ` and the line break.
_NUMBER_BYTES = 8
#: The tags around a file.
_FILE_TOKENS = 40

_PROSE = frozenset({".md", ".rst", ".txt", ".adoc"})
_DATA = frozenset(
    {
        ".json",
        ".yaml",
        ".yml",
        ".toml",
        ".csv",
        ".tsv",
        ".xml",
        ".svg",
        ".ini",
        ".cfg",
        ".lock",
        ".html",
        ".css",
    }
)
_DEFINITION = re.compile(
    r"(?: {0,4}|\t)(?:@|(?:(?:export|default|public|private|protected|internal|static|abstract|final|async|unsafe"
    r"|pub(?:\(\w+\))?) +)*(?:def|class|function|func|fn|fun|interface|struct|enum|trait|impl|module|namespace|sub)\b)"
)
#: Longer comments are text of their own.
_MOST_ATTACHED_LINES = 21
_ATTACHED = re.compile(r"\s*(?:@|#|//|/\*|\*|--)")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A file that nobody is shown, and why."""

    path: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Lines that a change took out, before line `before` of the file as it is now."""

    before: int
    text: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Closed line ranges by path, and what did not fit. A file without lines is shown as it is."""

    shown: Mapping[str, tuple[Span, ...]]
    left_out: tuple[Span, ...]

    def is_whole(self, path: str, text: str) -> bool:
        """Whether every line of the file is shown."""
        count = len(text.splitlines())
        spans = self.shown.get(path)
        return spans is not None and (count == 0 or spans == (Span(path=path, start=1, end=count),))


def choose(
    files: Files,
    budget_tokens: int,
    *,
    parts: Mapping[str, Sequence[Span]] | None = None,
    first: Sequence[Span] = (),
) -> Selection:
    """The lines that fit into the budget. `parts`: all that is known of a file (the hunks of a change); lines around
    `first` have precedence."""
    left = budget_tokens
    shown: dict[str, list[Span]] = {}
    rest: list[str] = []
    known = {path: tuple((parts or {}).get(path) or _whole(path, text)) for path, text in files.items()}
    lines = {path: text.splitlines() for path, text in files.items()}
    wanted = {span.path for span in first}
    for path in sorted(files, key=lambda path: (path not in wanted, _rank(path), path)):
        tokens = _FILE_TOKENS + sum(_tokens(lines[path], span) for span in known[path])
        if tokens <= left:
            left -= tokens
            shown[path] = list(known[path])
        else:
            rest.append(path)
    for path in rest:
        left -= _FILE_TOKENS
        pieces = [piece for span in known[path] for piece in cut(lines[path], span, most_tokens=max(1, left))]
        near = [any(piece.overlaps(span) for span in first) for piece in pieces]
        taken: list[Span] = []
        for piece, _ in sorted(zip(pieces, near, strict=True), key=lambda pair: (not pair[1], pair[0])):
            tokens = _tokens(lines[path], piece)
            if tokens <= left:
                left -= tokens
                taken.append(piece)
        if taken:
            shown[path] = taken
        else:
            left += _FILE_TOKENS
    merged = {path: merge(spans) for path, spans in shown.items()}
    return Selection(
        shown=merged,
        left_out=tuple(
            gap for path in sorted(files) for gap in _without(known[path], merged.get(path, ()), path)
        ),
    )


def cut(lines: Sequence[str], span: Span, *, most_tokens: int) -> list[Span]:
    """The span in pieces that begin where a definition does; one above `most_tokens` is cut between lines."""
    starts = [span.start, *_boundaries(lines, span), span.end + 1]
    pieces: list[Span] = []
    for start, end in itertools.pairwise(starts):
        whole = Span(path=span.path, start=start, end=end - 1)
        fits = _tokens(lines, whole) <= most_tokens
        pieces += [whole] if fits else _chunks(lines, whole, most_tokens)
    return pieces


def view(text: str, spans: Sequence[Span], removed: Sequence[Removed] = ()) -> str:
    """The lines with their numbers, as models are shown them, with a note for every gap.

    A file that is shown whole looks like `artefact.numbered`. Lines that a change removed stand, marked `-`, where
    they stood.
    """
    lines = text.splitlines()
    width = len(str(len(lines)))
    gone: dict[int, list[str]] = {}
    for item in removed:
        gone.setdefault(item.before, []).extend(item.text.splitlines())
    out: list[str] = []
    at = 1
    for span in merge(spans):
        out += _gap(at, span.start - 1, width)
        for number in range(span.start, span.end + 1):
            out += [f"{'-':>{width}} | {line}" for line in gone.pop(number, [])]
            out.append(f"{number:>{width}} | {lines[number - 1]}")
        out += [f"{'-':>{width}} | {line}" for line in gone.pop(span.end + 1, [])]
        at = span.end + 1
    out += _gap(at, len(lines), width)
    return "\n".join(out)


def merge(spans: Sequence[Span]) -> tuple[Span, ...]:
    """The same lines in as few spans as there can be, in order."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and merged[-1].path == span.path and span.start <= merged[-1].end + 1:
            merged[-1] = dataclasses.replace(merged[-1], end=max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return tuple(merged)


def unseen(left_out: Sequence[Sequence[Span]], *, heads: int) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Lines that no reviewer was shown, and lines that fewer than `heads` were. One entry a valid review."""
    changes: dict[str, dict[int, int]] = {}
    for spans in left_out:
        for span in merge(spans):
            steps = changes.setdefault(span.path, {})
            steps[span.start] = steps.get(span.start, 0) + 1
            steps[span.end + 1] = steps.get(span.end + 1, 0) - 1
    nobody: list[Span] = []
    few: list[Span] = []
    for path in sorted(changes):
        steps, blind = changes[path], 0
        lines = sorted(steps)
        for start, end in itertools.pairwise(lines):
            blind += steps[start]
            sighted = len(left_out) - blind
            span = Span(path=path, start=start, end=end - 1)
            if blind and sighted == 0:
                nobody.append(span)
            elif blind and sighted < heads:
                few.append(span)
    return merge(nobody), merge(few)


def _whole(path: str, text: str) -> tuple[Span, ...]:
    count = len(text.splitlines())
    return (Span(path=path, start=1, end=count),) if count else ()


def _rank(path: str) -> int:
    """Code before data before prose: what is left out should be what matters least."""
    suffix = PurePosixPath(path).suffix.lower()
    return 2 if suffix in _PROSE else 1 if suffix in _DATA else 0


def _tokens(lines: Sequence[str], span: Span) -> int:
    size = sum(
        len(line.encode("utf-8", "replace")) + _NUMBER_BYTES for line in lines[span.start - 1 : span.end]
    )
    return math.ceil(size / _BYTES_PER_TOKEN)


def _boundaries(lines: Sequence[str], span: Span) -> Iterator[int]:
    """Line numbers at which a new piece begins: definitions with what is attached above them, and paragraphs of
    unindented code."""
    for number in range(span.start + 1, span.end + 1):
        line, above = lines[number - 1], lines[number - 2]
        if _ATTACHED.match(above) and (_ATTACHED.match(line) or _DEFINITION.match(line)):
            continue  # goes with the decorator or comment above it, where the piece began
        begins_paragraph = line[:1] not in {"", " ", "\t", ")", "}", "]"} and not above.strip()
        if begins_paragraph or _DEFINITION.match(line) or _leads_to_definition(lines, number, span.end):
            yield number


def _leads_to_definition(lines: Sequence[str], number: int, last: int) -> bool:
    """Whether the line begins the decorators and comments directly above a definition."""
    at = number
    while at < min(last + 1, number + _MOST_ATTACHED_LINES) and _ATTACHED.match(lines[at - 1]):
        at += 1
    return number < at <= last and _DEFINITION.match(lines[at - 1]) is not None


def _chunks(lines: Sequence[str], span: Span, most_tokens: int) -> Iterator[Span]:
    start, used = span.start, 0
    for number in range(span.start, span.end + 1):
        tokens = _tokens(lines, Span(path=span.path, start=number, end=number))
        if number > start and used + tokens > most_tokens:
            yield Span(path=span.path, start=start, end=number - 1)
            start, used = number, 0
        used += tokens
    yield Span(path=span.path, start=start, end=span.end)


def _without(known: Sequence[Span], shown: Sequence[Span], path: str) -> Iterator[Span]:
    """The lines of `known` that are not in `shown`; both in order and merged."""
    for span in known:
        at = span.start
        for item in shown:
            if item.end < at or item.start > span.end:
                continue
            if item.start > at:
                yield Span(path=path, start=at, end=item.start - 1)
            at = item.end + 1
        if at <= span.end:
            yield Span(path=path, start=at, end=span.end)


def _gap(start: int, end: int, width: int) -> list[str]:
    if start > end:
        return []
    lines = f"line {start} is" if start == end else f"lines {start} to {end} are"
    return [f"{'…':>{width}} | {lines} not shown"]
