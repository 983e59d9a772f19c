"""Code as a page shows it: numbered lines in coloured pieces, excerpts of long files, differences.

Pieces are plain text with the name of a colour; the template escapes them like everything else that a model wrote."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.token import Token
from pygments.util import ClassNotFound

from api.web.wording import plain

#: A longer text is shown without colours: taking one apart costs some five microseconds a letter.
MOST_COLOURED = 60_000
#: A file of more lines is shown around what is said of it.
MOST_LINES = 400
_AROUND = 6
#: Longer files are said to have changed, not compared.
MOST_COMPARED_LINES = 4000

#: A piece of a line: the class that colours it, and its text.
Piece = tuple[str, str]

_COLOURS: tuple[tuple[Any, str], ...] = (
    (Token.Comment, "c"),
    (Token.Literal.String, "s"),
    (Token.Literal.Number, "n"),
    (Token.Keyword, "k"),
    (Token.Operator.Word, "k"),
    (Token.Name.Decorator, "d"),
    (Token.Name.Function, "f"),
    (Token.Name.Class, "f"),
    (Token.Name.Tag, "k"),
    (Token.Name.Builtin, "b"),
    (Token.Name.Exception, "b"),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line. `mark` is "", "claimed", "added", "removed" or "gap"; `pins` are the claims that begin on it."""

    number: int | None
    pieces: tuple[Piece, ...]
    mark: str = ""
    pins: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileView:
    """A file, or as much of it as is worth showing. `note` says what is missing."""

    path: str
    count: int
    lines: tuple[Line, ...]
    note: str = ""
    added: int = 0
    removed: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A claim's place in the code."""

    claim_id: str
    path: str
    start: int
    end: int


def file_view(path: str, text: str, pins: Sequence[Pin] = (), *, has_colours: bool = True) -> FileView:
    """The file with its claims marked; a long one in excerpts around them."""
    here = [pin for pin in pins if pin.path == path]
    coloured = _coloured(path, plain(text)) if has_colours else _uncoloured(plain(text))
    shown = _shown(len(coloured), here)
    lines = []
    previous = 0
    for number in shown:
        if number != previous + 1:
            lines.append(_gap(number - previous - 1))
        lines.append(
            Line(
                number=number,
                pieces=coloured[number - 1],
                mark="claimed" if any(pin.start <= number <= pin.end for pin in here) else "",
                pins=tuple(pin.claim_id for pin in here if pin.start == number),
            )
        )
        previous = number
    if previous < len(coloured):
        lines.append(_gap(len(coloured) - previous))
    note = "" if len(shown) == len(coloured) else f"{len(shown):,} of its {len(coloured):,} lines"
    return FileView(path=path, count=len(coloured), lines=tuple(lines), note=note)


def _gap(lines: int) -> Line:
    return Line(
        number=None, pieces=(("", f"{lines:,} line{'' if lines == 1 else 's'} not shown"),), mark="gap"
    )


def _shown(count: int, pins: Iterable[Pin]) -> list[int]:
    if count <= MOST_LINES:
        return list(range(1, count + 1))
    wanted = set(range(1, 2 * _AROUND + 1))
    for pin in pins:
        last = min(pin.end, pin.start + MOST_LINES)
        wanted |= set(range(max(1, pin.start - _AROUND), min(count, last + _AROUND) + 1))
    return sorted(wanted)


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> list[FileView]:
    """What changed from one version of the code to the other, file by file; unchanged files are left out."""
    paths = sorted({*before, *after})
    return [
        _changed(path, before.get(path, ""), after.get(path, ""))
        for path in paths
        if before.get(path) != after.get(path)
    ]


def _changed(path: str, before: str, after: str) -> FileView:
    old, new = _coloured(path, plain(before)), _coloured(path, plain(after))
    if len(old) + len(new) > MOST_COMPARED_LINES:
        return FileView(path=path, count=len(new), lines=(), note="changed; too long to be compared here")
    lines = tuple(_hunks(old, new))
    return FileView(
        path=path,
        count=len(new),
        lines=lines,
        added=sum(line.mark == "added" for line in lines),
        removed=sum(line.mark == "removed" for line in lines),
    )


def _hunks(old: Sequence[tuple[Piece, ...]], new: Sequence[tuple[Piece, ...]]) -> Iterator[Line]:
    # Lines that stand everywhere, such as empty ones, are no landmarks; with them it takes the square of the lines.
    matcher = difflib.SequenceMatcher(None, _texts(old), _texts(new), autojunk=True)
    end = 0
    for group in matcher.get_grouped_opcodes(3):
        start = group[0][3]
        if start > end:
            yield _gap(start - end)
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from (Line(number=n + 1, pieces=new[n]) for n in range(new_from, new_to))
                continue
            yield from (Line(number=None, pieces=old[n], mark="removed") for n in range(old_from, old_to))
            yield from (Line(number=n + 1, pieces=new[n], mark="added") for n in range(new_from, new_to))
        end = group[-1][4]
    if end < len(new):
        yield _gap(len(new) - end)


def _texts(lines: Sequence[tuple[Piece, ...]]) -> list[str]:
    return ["".join(text for _, text in line) for line in lines]


@lru_cache(maxsize=64)
def _coloured(path: str, text: str) -> tuple[tuple[Piece, ...], ...]:
    """Every line as pieces; together they are the text, letter by letter."""
    if len(text) > MOST_COLOURED:
        return _uncoloured(text)
    text = text.removesuffix("\n")
    lines: list[list[Piece]] = [[]]
    for kind, value in _lexer(path).get_tokens(text):
        colour = next((name for token, name in _COLOURS if kind in token), "")
        for place, part in enumerate(value.split("\n")):
            if place:
                lines.append([])
            if not part:
                continue
            line = lines[-1]
            if line and line[-1][0] == colour:
                line[-1] = (colour, line[-1][1] + part)
            else:
                line.append((colour, part))
    return tuple(map(tuple, lines))


def _uncoloured(text: str) -> tuple[tuple[Piece, ...], ...]:
    return tuple((("", line),) for line in text.removesuffix("\n").split("\n"))


def _lexer(path: str) -> Lexer:
    options = {"stripnl": False, "ensurenl": False}
    try:
        return get_lexer_for_filename(path, **options)
    except ClassNotFound:
        return TextLexer(**options)
