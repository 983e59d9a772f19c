"""SWE-agent's commands (its agent-computer interface) as states: `open`, `edit a:b`, `search_dir`, …"""

from __future__ import annotations

import re
import shlex

from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.formats.tools import add_call
from workers.agentlens.locate import numbered_lines
from workers.agentlens.trajectory import Lines, Operation

_SHOWN_FILE = re.compile(r"\[File: (\S+?)\r? \(\d+ lines total\)\]")
_LINE_EDIT = re.compile(r"edit (\d+):(\d+)[ \t]*\n(.*?)\n?(?:end_of_edit\s*)?\Z", re.DOTALL)
_PROMPT = re.compile(r"\n?\(Open file: [^\n]*\)\n\(Current directory: [^\n]*\)\nbash-\$\s*\Z")
_TOOLS = frozenset(
    ("open", "goto", "scroll_up", "scroll_down", "create", "insert", "search_dir", "search_file", "find_file")
) | {"str_replace_editor"}
_FINISHING = frozenset(("submit", "exit_cost", "exit_context", "exit_format", "exit_forfeit", "exit"))


class AciSession:
    """Follows which file is open; the editing commands name none."""

    def __init__(self, builder: StateBuilder) -> None:
        self.builder = builder
        self.open_file = ""

    def add(self, action: str, seen: Seen, open_file: str = "") -> None:
        """Adds the state of one action. `open_file` is what the log says is open, if it says so."""
        seen.text = _PROMPT.sub("", seen.text.replace("\r\n", "\n"))
        shown = _SHOWN_FILE.search(seen.text)
        self.open_file = shown[1] if shown else open_file if open_file not in ("", "n/a") else self.open_file
        text = action.strip()
        word = text.split(None, 1)[0] if text else ""
        if word in _FINISHING:
            self.builder.note(word, Operation.FINISH, seen)
        elif word == "edit":
            self._edit(text, seen)
        elif word in _TOOLS:
            self._tool(word, text, seen)
        else:
            self.builder.shell("bash", text, seen)

    def _tool(self, word: str, text: str, seen: Seen) -> None:
        words = _words(text)
        if word == "str_replace_editor":
            add_call(self.builder, word, _editor_arguments(words), seen)
        elif word in ("open", "goto", "scroll_up", "scroll_down"):
            numbers = numbered_lines(seen.text)
            path = self.open_file or (words[1] if len(words) > 1 else "")
            self.builder.view(word, path, seen, (min(numbers), max(numbers)) if numbers else None)
        elif word == "create":
            self.builder.create(word, words[1] if len(words) > 1 else self.open_file, "", seen)
        elif word == "insert":
            line = int(words[2]) if len(words) > 2 and words[2].isdigit() else None
            self.builder.insert(word, self.open_file, line, words[1] if len(words) > 1 else "", seen)
        else:
            where = words[2] if len(words) > 2 else self.open_file if word == "search_file" else ""
            program = "find" if word == "find_file" else "grep"
            self.builder.search(word, words[1] if len(words) > 1 else "", where, seen, program=program)

    def _edit(self, text: str, seen: Seen) -> None:
        match = _LINE_EDIT.match(text)
        if match:
            lines = Lines(start=int(match[1]), end=int(match[2]))
            self.builder.replace_lines("edit", self.open_file, lines, match[3], seen)
            return
        words = _words(text)
        if len(words) > 2:
            self.builder.replace("edit", self.open_file, [(words[1], words[2])], seen)
        else:
            self.builder.other("edit", text, seen)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _editor_arguments(words: list[str]) -> dict[str, object]:
    arguments: dict[str, object] = {
        "command": words[1] if len(words) > 1 else "",
        "path": words[2] if len(words) > 2 else "",
    }
    position = 3
    while position < len(words) - 1:
        if words[position] == "--view_range":
            arguments["view_range"] = [
                int(word) for word in words[position + 1 : position + 3] if word.lstrip("-").isdigit()
            ]
            position += 3
        elif words[position] == "--insert_line":
            word = words[position + 1]
            arguments["insert_line"] = int(word) if word.isdigit() else None
            position += 2
        elif words[position].startswith("--"):
            arguments[words[position][2:]] = words[position + 1]
            position += 2
        else:
            position += 1
    return arguments
