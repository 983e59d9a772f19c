"""The lines of files that a run has seen: they tell where an edit stood and what encloses it."""

from __future__ import annotations

import dataclasses

from workers.agentlens.locate import (
    anchor_of,
    changed_lines,
    encloses_itself,
    found_in,
    holding,
    numbered_lines,
    scope_of,
)
from workers.agentlens.trajectory import Edit, Lines


class SeenLines:
    """What views, listings with numbers and edit snippets have shown, by path and line number.

    Texts are taken apart only when an edit of their file asks for them."""

    def __init__(self) -> None:
        self._texts: dict[str, list[tuple[int, str]]] = {}
        self._known: dict[str, dict[int, str]] = {}

    def remember(self, path: str, start: int, text: str) -> None:
        """`text` shows the file from line `start` on (its own numbers win)."""
        if text:
            self._texts.setdefault(path, []).append((max(start, 1), text))

    def replace(self, path: str, content: str) -> None:
        """The file as a whole is now `content`; "" if that is not known."""
        self._known.pop(path, None)
        self._texts[path] = [(1, content)] if content else []

    def of(self, path: str) -> dict[int, str]:
        """The known lines of a file by number."""
        known = self._known.setdefault(path, {})
        for start, text in self._texts.pop(path, ()):
            known |= numbered_lines(text) or {start + i: line for i, line in enumerate(text.split("\n"))}
        return known

    def forget_below(self, path: str, anchor: Lines, after: dict[int, str]) -> None:
        """An edit moves what stands below it: only what the tool then showed (`after`) is still known
        there."""
        known = self._known.get(path)
        if known:
            for number in [number for number in known if number >= anchor.start]:
                del known[number]
            known |= after
        elif after:
            self._known[path] = after

    def place(self, path: str, old: str, new: str, said: str) -> tuple[Lines | None, str | None]:
        """Where `old` stood before the edit, and what encloses the change; `said` is the tool's answer."""
        after = numbered_lines(said) if "cat -n" in said else {}
        anchor = anchor_of(old, new, after)
        common, old_lines, new_lines = changed_lines(old, new)
        lead = old.split("\n")[:common]
        changed = old_lines or new_lines
        if anchor is not None and encloses_itself(lead, changed):
            self.forget_below(path, anchor, after)
            return anchor, scope_of(lead, changed)
        shown = self.of(path)
        if anchor is None and old:
            anchor = found_in(old, shown)
        if anchor is None:
            return None, scope_of(lead, changed)
        before = _above(shown | after, anchor.start)
        self.forget_below(path, anchor, after)
        return anchor, scope_of(before + lead, changed)

    def place_all(self, path: str, edits: tuple[Edit, ...]) -> tuple[tuple[Edit, ...], str | None]:
        """The edits of a shell line with their anchors, where the run has seen the lines they change, and what
        encloses the first of them in the state's file `path`."""
        placed: dict[int, Edit] = {}
        scopes: dict[str, str | None] = {}
        for file in dict.fromkeys(edit.path or path for edit in edits):
            mine = {n: edit for n, edit in enumerate(edits) if (edit.path or path) == file}
            found, scopes[file] = self._place_in(file, [*mine.values()])
            placed |= zip(mine, found, strict=True)
        return tuple(placed[number] for number in range(len(edits))), scopes.get(path)

    def _place_in(self, path: str, edits: list[Edit]) -> tuple[list[Edit], str | None]:
        shown = self.of(path)
        if not shown:
            return edits, None
        placed: list[Edit] = []
        anchors: list[Lines] = []
        scope: str | None = None
        for edit in edits:
            anchor = edit.anchor
            if anchor is None and edit.old:
                anchor = found_in(edit.old, shown) or holding(edit.old, shown)
            placed.append(dataclasses.replace(edit, anchor=anchor))
            if anchor is not None:
                anchors.append(anchor)
                if scope is None:
                    common, old, new = changed_lines(edit.old, edit.new)
                    changed = [shown.get(anchor.start, ""), *old, *new]
                    scope = scope_of(_above(shown, anchor.start) + edit.old.split("\n")[:common], changed)
        if anchors:
            self.forget_below(path, min(anchors, key=lambda lines: lines.start), {})
        return placed, scope


def _above(shown: dict[int, str], start: int) -> list[str]:
    return [shown[number] for number in sorted(number for number in shown if number < start)]
