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


@lru_cache(maxsize=256)
def pattern(glob: str) -> re.Pattern[str]:
    """The expression that a whole relative path with '/' must match."""
    parts = []
    for piece in re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", glob.removeprefix("./")):
        parts.append(
            {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece) or re.escape(piece)
        )
    return re.compile("".join(parts))


def matches(path: str, globs: tuple[str, ...]) -> bool:
    return any(pattern(glob).fullmatch(path) for glob in globs)


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
            if not is_hidden and pattern(glob).fullmatch(path) and not (here / name).is_symlink():
                yield path


def _fixed_parts(glob: str) -> list[str]:
    """The folders that the pattern begins with, free of wild cards."""
    parts = glob.removeprefix("./").split("/")[:-1]
    return list(takewhile(lambda part: not re.search(r"[*?]", part), parts))
