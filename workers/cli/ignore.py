"""`.gitignore` files: which paths of a folder its owner does not count as code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of a `.gitignore` in `folder` (a path from the root, "" for the root itself)."""

    folder: str
    pattern: re.Pattern[str]
    is_negated: bool
    only_folders: bool


def read_rules(text: str, folder: str) -> list[Rule]:
    """The rules of one file; lines that no path can match are passed over."""
    return [rule for line in text.splitlines() if (rule := _rule(line, folder)) is not None]


def is_ignored(path: str, rules: Iterable[Rule], *, is_folder: bool) -> bool:
    """Whether the last rule that fits `path` (from the root) ignores it."""
    ignored = False
    for rule in rules:
        if rule.only_folders and not is_folder:
            continue
        if rule.folder and not path.startswith(f"{rule.folder}/"):
            continue
        inside = path[len(rule.folder) + 1 :] if rule.folder else path
        if rule.pattern.fullmatch(inside):
            ignored = not rule.is_negated
    return ignored


def _rule(line: str, folder: str) -> Rule | None:
    line = re.sub(r"(?<!\\) +$", "", line)
    if not line or line.startswith("#"):
        return None
    is_negated = line.startswith("!")
    body = line.removeprefix("!") if is_negated else line.removeprefix("\\")
    only_folders = body.endswith("/")
    body = body.rstrip("/")
    if not body:
        return None
    is_anchored = "/" in body
    parts = [part for part in body.split("/") if part]
    pattern = _joined(parts) if is_anchored else f"(?:.*/)?{_segment(body)}"
    try:
        compiled = re.compile(pattern, re.DOTALL)
    except re.error:
        return None
    return Rule(folder=folder, pattern=compiled, is_negated=is_negated, only_folders=only_folders)


def _joined(parts: Sequence[str]) -> str:
    """`a/**/b`: two stars stand for any number of folders, none among them."""
    pattern = ""
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        if part == "**":
            pattern += ".*" if is_last else "(?:.*/)?"
        else:
            pattern += _segment(part) + ("" if is_last else "/")
    return pattern


def _segment(part: str) -> str:
    """One part of a path: `*`, `?` and `[a-z]` never reach over a slash."""
    pattern, at = "", 0
    while at < len(part):
        character = part[at]
        closing = part.find("]", at + 2) if character == "[" else -1
        if character == "*":
            # Several stars in a row mean what one means, and must not make the search slow.
            pattern += "" if pattern.endswith("[^/]*") else "[^/]*"
        elif character == "?":
            pattern += "[^/]"
        elif closing > 0:
            body = part[at + 1 : closing].replace("\\", "\\\\").replace("[", "\\[")
            pattern += f"[{'^' + body[1:] if body.startswith('!') else body}]"
            at = closing
        elif character == "\\" and at + 1 < len(part):
            at += 1
            pattern += re.escape(part[at])
        else:
            pattern += re.escape(character)
        at += 1
    return pattern
