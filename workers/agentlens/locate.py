"""Where an edit stood and what encloses it, as far as the log shows the file."""

from __future__ import annotations

import re

from workers.agentlens.trajectory import Lines

_NUMBERED = re.compile(r"^ *(\d+)(?:\t|[:|→-] ?)(.*)$", re.MULTILINE)
_DEFINITION = re.compile(
    r"^([ \t]*)"
    r"(?:(?:export|default|public|private|protected|static|final|abstract|async|pub|virtual|override|inline)\s+)*"
    r"(?:def|class|function|func|fn|interface|struct|enum|impl|trait|module)\s+(?:\([^)]*\)\s*)?([A-Za-z_$][\w$]*)"
)
_SNIPPET_LEAD = 4  # the editing tools show four lines before the change


def numbered_lines(text: str) -> dict[int, str]:
    """The lines of a `cat -n` listing inside `text`, by number."""
    return {int(number): line for number, line in _NUMBERED.findall(text)}


def anchor_of(old: str, new: str, shown: dict[int, str]) -> Lines | None:
    """The lines that `old` took before the edit, from the numbered lines the tool showed after it."""
    if not shown:
        return None
    first_new = new.partition("\n")[0]
    first = min(shown)
    start = None
    if first_new.strip():
        start = next((number for number in sorted(shown) if shown[number] == first_new), None)
    if start is None:
        if first == 1:
            return None
        start = first + _SNIPPET_LEAD
    return Lines(start=start, end=start + max(old.count("\n") + (not old.endswith("\n")), 1) - 1)


def found_in(old: str, shown: dict[int, str]) -> Lines | None:
    """The lines that `old` takes in a file of which `shown` is known; None if it is not there as a whole."""
    wanted = old.rstrip("\n").split("\n")
    for number, line in shown.items():
        if line == wanted[0] and all(shown.get(number + i) == text for i, text in enumerate(wanted)):
            return Lines(start=number, end=number + len(wanted) - 1)
    return None


def holding(part: str, shown: dict[int, str]) -> Lines | None:
    """The one known line that holds `part`; None if none or several do."""
    numbers = [number for number, line in shown.items() if part in line] if "\n" not in part else []
    return Lines(start=numbers[0], end=numbers[0]) if len(numbers) == 1 else None


def scope_of(before: list[str], changed: list[str]) -> str | None:
    """The qualified name of the innermost function or class around the first of the `changed` lines.

    `before` are the lines above them, nearest last. Indentation decides what encloses what."""
    names: list[str] = []
    line = next((text for text in changed if text.strip()), None)
    if line is None:
        return None
    depth = _indent(line)
    match = _DEFINITION.match(line)
    if match:
        names.append(match[2])
    for text in reversed(before):
        if depth == 0:
            break
        stripped = text.lstrip()
        indent = len(text) - len(stripped)
        if not stripped or indent >= depth:
            continue
        match = _DEFINITION.match(text)
        if match:
            names.append(match[2])
            depth = indent
    return ".".join(reversed(names)) or None


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def encloses_itself(lead: list[str], changed: list[str]) -> bool:
    """Whether the replaced text alone shows the outermost definition around its change."""
    return any(not line[:1].isspace() and _DEFINITION.match(line) for line in (*lead, *changed[:1]))


def changed_lines(old: str, new: str) -> tuple[int, list[str], list[str]]:
    """How many lines `old` and `new` share at the start, and the lines of each that differ."""
    left, right = old.split("\n"), new.split("\n")
    shorter = min(len(left), len(right))
    start = 0
    while start < shorter and left[start] == right[start]:
        start += 1
    end = 0
    while end < shorter - start and left[-1 - end] == right[-1 - end]:
        end += 1
    return start, left[start : len(left) - end], right[start : len(right) - end]
