"""Paths by pattern, the same for files on a disk and files that were submitted: `*` within a name, `**` any folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

#: Entries of a folder tree that are looked at for one pattern.
MAX_ENTRIES = 20_000


_TOKEN = re.compile(r"\*\*/|\*\*|.", re.DOTALL)


@lru_cache(maxsize=256)
def _tokens(glob: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(glob.removeprefix("./")))


def fits(path: str, glob: str) -> bool:
    """Whether the whole relative path with '/' matches.

    All ways through the pattern are followed at once, one character of the path after the other: an expression that
    tries them in turn takes longer than anybody waits for some patterns and names, and names come from anywhere.
    """
    tokens = _tokens(glob)
    # A place is (token that is next, whether inside a folder's name that a `**/` takes).
    places = _reached({(0, False)}, tokens)
    for character in path:
        places = _reached({place for before in places for place in _after(before, character, tokens)}, tokens)
        if not places:
            return False
    return (len(tokens), False) in places


_Place = tuple[int, bool]


def _reached(places: set[_Place], tokens: tuple[str, ...]) -> set[_Place]:
    """These places and those behind tokens that may stand for nothing."""
    found = set(places)
    for first, is_inside in places:
        number = first
        while not is_inside and number < len(tokens) and tokens[number] in {"**/", "**", "*"}:
            number += 1
            found.add((number, False))
    return found


def _after(place: _Place, character: str, tokens: tuple[str, ...]) -> Iterator[_Place]:
    number, is_inside = place
    if number == len(tokens):
        return
    piece = tokens[number]
    if piece == "**/":
        if character != "/":
            yield number, True
        elif is_inside:
            yield number, False
    elif piece == "**" or (piece == "*" and character != "/"):
        yield number, False
    elif (piece == "?" and character != "/") or (piece == character and piece != "*"):
        yield number + 1, False


def matches(path: str, globs: tuple[str, ...]) -> bool:
    return any(fits(path, glob) for glob in globs)


def walk(root: Path, glob: str) -> Iterator[str]:
    """The files below `root` that match, as relative paths in order. Links are never followed, and hidden names
    count only where the pattern names them. Raises: ValueError when the tree is too large."""
    start = root
    for part in _fixed_parts(glob):
        start = start / part
        if start.is_symlink():
            return
    looked_at = 0
    for folder, folders, names in os.walk(start, followlinks=False):
        here = Path(folder)
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and not (here / name).is_symlink()
        )
        looked_at += len(folders) + len(names)
        if looked_at > MAX_ENTRIES:
            raise ValueError(
                f"{glob!r} looks through more than {MAX_ENTRIES:,} files; begin it with a folder"
            )
        for name in sorted(names):
            path = (here / name).relative_to(root).as_posix()
            is_hidden = name.startswith(".") and "/." not in f"/{glob}"
            if not is_hidden and fits(path, glob) and not (here / name).is_symlink():
                yield path


def _fixed_parts(glob: str) -> list[str]:
    """The folders that the pattern begins with, free of wild cards."""
    parts = glob.removeprefix("./").split("/")[:-1]
    return list(takewhile(lambda part: not re.search(r"[*?]", part), parts))
