"""The edits that a shell line makes, as far as its text shows them: here-documents, `sed -i`, patches."""

from __future__ import annotations

import re

from workers.agentlens.locate import scope_of
from workers.agentlens.shell import Segment
from workers.agentlens.trajectory import Edit, Lines

_SUBSTITUTION = re.compile(
    r"^\s*(?:(\d+)(?:,(\d+))?\s*)?s(?P<mark>[/|#,@!~])(?P<old>(?:[^\\]|\\.)*?)(?P=mark)(?P<new>(?:[^\\]|\\.)*?)(?P=mark)"
)
_LINE_EDIT = re.compile(r"^\s*(\d+)(?:,(\d+))?\s*([acid])\\?\s*(.*)", re.DOTALL)
_HUNK = re.compile(r"^@@(?: -(\d+)(?:,(\d+))? \+\d+(?:,\d+)?)?(?: ?@@)? ?(.*)$")


def edits_of(segment: Segment) -> tuple[Edit, ...]:
    """What a writing segment changes; empty if its text does not show it."""
    body = segment.body
    if body is None:
        return ()
    if segment.program == "sed -i":
        return tuple(edit for line in body.split("\n") if (edit := _sed_edit(line)) is not None)
    if segment.program in ("git apply", "patch", "apply_patch", "git am"):
        return patch_edits(body)[0]
    if segment.program.endswith(" -c"):
        return ()
    return (Edit(old="", new=body),)


def _sed_edit(script: str) -> Edit | None:
    match = _SUBSTITUTION.match(script)
    if match:
        anchor = Lines(start=int(match[1]), end=int(match[2] or match[1])) if match[1] else None
        return Edit(old=match["old"], new=match["new"], anchor=anchor)
    match = _LINE_EDIT.match(script)
    if match:
        start = int(match[1])
        return Edit(
            old="",
            new="" if match[3] == "d" else match[4],
            anchor=Lines(start=start, end=int(match[2] or start)),
        )
    return None


def patch_edits(text: str) -> tuple[tuple[Edit, ...], str | None]:
    """The hunks of a patch as edits (context lines on both sides left out), and the first hunk's scope."""
    edits: list[Edit] = []
    scope: str | None = None
    old: list[str] = []
    new: list[str] = []
    context: list[str] = []
    heading = ""
    line_number: int | None = None
    start: int | None = None
    for line in [*text.split("\n"), "@@"]:
        mark = line[:1]
        if mark == "-" and not line.startswith("--- ") and (heading is not None):
            start = line_number if start is None else start
            old.append(line[1:])
            line_number = line_number + 1 if line_number is not None else None
        elif mark == "+" and not line.startswith("+++ "):
            start = line_number if start is None else start
            new.append(line[1:])
        else:
            if old or new:
                anchor = Lines(start=start, end=start + max(len(old), 1) - 1) if start is not None else None
                edits.append(Edit(old="\n".join(old), new="\n".join(new), anchor=anchor))
                scope = scope or scope_of([heading, *context], old or new)
                context += old
                old, new, start = [], [], None
            match = _HUNK.match(line)
            if match:
                line_number = int(match[1]) if match[1] else None
                heading, context = match[3], []
            else:
                context.append(line[1:])
                line_number = line_number + 1 if line_number is not None else None
    return tuple(edits), scope
