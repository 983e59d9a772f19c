"""Whole lines of a text, found and replaced without regard to how far they are indented."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

#: Lines as a reader writes them: the first one begins at the margin, the others are indented from there.
Block = tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a block stands: `start` counts lines from 0, `indent` is what precedes its first line."""

    start: int
    indent: str


def find_all(lines: Sequence[str], block: Block) -> list[Place]:
    """Every place where the block stands, whole lines only, under whatever indentation."""
    found = []
    for start in range(len(lines) - len(block) + 1):
        indent = lines[start].removesuffix(block[0])
        if len(indent) + len(block[0]) != len(lines[start]) or indent.strip():
            continue
        if all(lines[start + offset] == _indented(line, indent) for offset, line in enumerate(block)):
            found.append(Place(start=start, indent=indent))
    return found


def replace_block(text: str, before: Block, after: Block) -> str | None:
    """The text with the only occurrence of `before` replaced by `after`; None if there is none or several."""
    lines = text.split("\n")
    places = find_all(lines, before)
    if len(places) != 1:
        return None
    place = places[0]
    lines[place.start : place.start + len(before)] = [_indented(line, place.indent) for line in after]
    return "\n".join(lines)


def line_range(text: str, block: Block) -> tuple[int, int] | None:
    """First and last line, from 1, of the block's first occurrence; None if it does not stand there."""
    places = find_all(text.split("\n"), block)
    if not places:
        return None
    return places[0].start + 1, places[0].start + len(block)


def _indented(line: str, indent: str) -> str:
    return indent + line if line else ""
