"""Joining of POSIX paths that never leaves its root. Pure text: no file is looked at."""

from __future__ import annotations


def safe_join(root: str, *parts: str) -> str:
    """The normalised path of `parts` below `root`; raises ValueError if it would lie elsewhere."""
    if not root.startswith("/"):
        raise ValueError(f"root {root!r} is not an absolute path")
    for part in parts:
        if part.startswith("/") or "\0" in part or "\\" in part:
            raise ValueError(f"part {part!r} is absolute or holds a backslash or a NUL")
    base = _normalise(root)
    path = _normalise("/".join((root, *parts)))
    if not _is_within(path, base):
        raise ValueError(f"{'/'.join(parts)!r} leads out of {base!r}")
    return path


def _is_within(path: str, base: str) -> bool:
    return path == base or path.startswith(base.rstrip("/") + "/")


def _normalise(path: str) -> str:
    """The absolute path without empty parts and dots; `..` at the top stays at the top."""
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in {"", "."}:
            kept.append(part)
    return "/" + "/".join(kept)
