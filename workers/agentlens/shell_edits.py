"""The edits that a shell line makes, as far as its text shows them: here-documents, `sed -i`, patches."""

from __future__ import annotations

import ast
import dataclasses
import re
import warnings
from collections.abc import Callable

from workers.agentlens.locate import scope_of
from workers.agentlens.paths import kind_of, normalise
from workers.agentlens.shell import Segment
from workers.agentlens.shell.inline import patched_file
from workers.agentlens.trajectory import Edit, Lines

_SUBSTITUTION = re.compile(
    r"^\s*(?:(\d+)(?:,(\d+))?\s*)?s(?P<mark>[/|#,@!~])(?P<old>(?:[^\\]|\\.)*?)(?P=mark)(?P<new>(?:[^\\]|\\.)*?)(?P=mark)"
)
_LINE_EDIT = re.compile(r"^\s*(\d+)(?:,(\d+))?\s*([acid])\\?\s*(.*)", re.DOTALL)
_MATCHED_EDIT = re.compile(r"^\s*/((?:[^/\\]|\\.)*)/(?:,/(?:[^/\\]|\\.)*/)?\s*([acid])\\?\s*(.*)", re.DOTALL)
_HUNK = re.compile(r"^@@(?: -(\d+)(?:,(\d+))? \+\d+(?:,\d+)?)?(?: ?@@)? ?(.*)$")


def edits_of(segment: Segment, directory: str = "", root: str = "") -> tuple[Edit, ...]:
    """What a writing segment, run in `directory` of the repository at `root`, changes; empty if its text does not
    show it. Edits name their file where there may be several."""
    body = segment.body
    if body is None:
        return ()
    if segment.program == "sed -i":
        return _in_each(_sed_edits(body), segment.writes)
    if segment.program in ("git apply", "patch", "apply_patch", "git am"):
        return patch_edits(body, lambda name: _known(normalise(name, directory, root), segment.writes))[0]
    if segment.program == "python -c":
        # Taking a script apart costs more than reading the rest of the run; only product files are worth it.
        product = any(kind_of(path) in ("source", "test") for path in segment.writes)
        return _script_edits(body) if product else ()
    if segment.program.endswith(" -c"):
        return ()
    return (Edit(old="", new=body),)


def _known(path: str, written: tuple[str, ...]) -> str | None:
    """`path` if it is written; a line that changes its folder once more may place its patch elsewhere."""
    return path if path in written else None


def _in_each(edits: tuple[Edit, ...], paths: tuple[str, ...]) -> tuple[Edit, ...]:
    if len(paths) < 2:
        return edits
    return tuple(dataclasses.replace(edit, path=path) for path in paths for edit in edits)


def _sed_edits(script: str) -> tuple[Edit, ...]:
    whole = _sed_edit(script)
    if whole is not None and "\n" in script and _SUBSTITUTION.match(script) is None:
        return (whole,)  # the text of a, i and c may run over lines
    return tuple(edit for line in script.split("\n") if (edit := _sed_edit(line)) is not None)


def _script_edits(script: str) -> tuple[Edit, ...]:
    """The texts that an inline Python script replaces or writes: `.replace(old, new)`, `re.sub`,
    `.write(text)`.

    Names count where the script assigns them one text; what it computes is not seen."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a script's odd escapes are its own affair
            tree = ast.parse(script)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    texts: dict[str, str] = {}
    calls: list[ast.Call] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                texts[node.targets[0].id] = node.value.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            calls.append(node)
    edits = []
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        found = [_constant(argument, texts) for argument in call.args]
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name in ("replace", "sub") and len(found) >= 2 and found[0] and found[1] is not None:
            edits.append(Edit(old=found[0], new=found[1]))
        elif name in ("write", "write_text") and len(found) == 1 and found[0]:
            edits.append(Edit(old="", new=found[0]))
    return tuple(edits)


def _constant(node: ast.expr, texts: dict[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return texts.get(node.id) if isinstance(node, ast.Name) else None


def _sed_edit(script: str) -> Edit | None:
    match = _SUBSTITUTION.match(script)
    if match:
        anchor = Lines(start=int(match[1]), end=int(match[2] or match[1])) if match[1] else None
        return Edit(old=match["old"], new=match["new"], anchor=anchor)
    match = _MATCHED_EDIT.match(script)
    if match:
        gone = match[2] == "d"
        return Edit(old=match[1] if gone else "", new="" if gone else match[3])
    match = _LINE_EDIT.match(script)
    if match:
        start = int(match[1])
        return Edit(
            old="",
            new="" if match[3] == "d" else match[4],
            anchor=Lines(start=start, end=int(match[2] or start)),
        )
    return None


def patch_edits(text: str, place: Callable[[str], str | None] = str) -> tuple[tuple[Edit, ...], str | None]:
    """The hunks of a patch as edits (context lines on both sides left out), each with its file, and the scope of
    the first file's first hunk that shows one. `place` makes a path of the run of a name in the patch."""
    edits: list[Edit] = []
    scope: str | None = None
    old: list[str] = []
    new: list[str] = []
    context: list[str] = []
    heading = ""
    line_number: int | None = None
    start: int | None = None
    first: str | None = None
    path: str | None = None
    before = ""
    for line in [*text.split("\n"), "@@"]:
        mark = line[:1]
        if mark == "-" and not line.startswith("--- "):
            start = line_number if start is None else start
            old.append(line[1:])
            line_number = line_number + 1 if line_number is not None else None
        elif mark == "+" and not line.startswith("+++ "):
            start = line_number if start is None else start
            new.append(line[1:])
        else:
            if old or new:
                anchor = Lines(start=start, end=start + max(len(old), 1) - 1) if start is not None else None
                edits.append(Edit(old="\n".join(old), new="\n".join(new), anchor=anchor, path=path))
                if scope is None and path == first:
                    scope = scope_of([heading, *context], old or new)
                context += old
                old, new, start = [], [], None
            match = _HUNK.match(line)
            if match:
                line_number = int(match[1]) if match[1] else None
                heading, context = match[3], []
            else:
                name = patched_file(before, line)
                if name is not None:
                    path = place(name)
                    first = first or path
                context.append(line[1:])
                line_number = line_number + 1 if line_number is not None else None
        before = line
    return tuple(edits), scope
