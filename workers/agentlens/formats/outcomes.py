"""How a tool call ended, and how a run ended: exit code, then error flag, then the text's signature,
else unknown."""

from __future__ import annotations

import re

from workers.agentlens.shell import Command, Group
from workers.agentlens.trajectory import StateOutcome

# Bound once: looking a member up in its enum costs three times as much as a global.
_EXECUTE, _READ, _SEARCH, _TEST = Group.EXECUTE, Group.READ, Group.SEARCH, Group.TEST

_EXIT_CODE = re.compile(
    r"\[The command completed with exit code (-?\d+)|<returncode>(-?\d+)</returncode>|\[exit_code\] (-?\d+)"
    r"|finished with exit code (-?\d+)|^(?:Process )?[Ee]xit(?:ed with)? code:? (-?\d+)",
    re.MULTILINE,
)
# What a check or a program prints, each pattern behind a text that it cannot do without: plain searches are
# much faster, and most outputs hold none of them. Without a pattern the text alone says it.
_Signs = dict[str, re.Pattern[str] | None]
_PASSED: _Signs = {
    " passed": re.compile(r"\b\d+ passed\b|^Tests:.* \d+ passed, \d+ total", re.MULTILINE),
    "OK": re.compile(r"^OK\b", re.MULTILINE),
    "BUILD SUCCESS": re.compile(r"\bBUILD SUCCESS"),
    "ok": re.compile(r"^ok\s+\S+\s+[\d.]+s", re.MULTILINE),
    "test result: ok": None,
    "no issues found": re.compile(r"\bno issues found\b"),
    "All checks passed": None,
    "rated at 10.00/10": None,
    "no failures": None,
}
_FAILED: _Signs = {
    " failed": re.compile(r"\b[1-9]\d* failed\b"),
    " error": re.compile(r"\b[1-9]\d* errors?\b|^Found [1-9]\d* errors?", re.MULTILINE),
    "FAIL": re.compile(r"^FAILED\b|^FAIL\b|^--- FAIL|test result: FAILED|\bBUILD FAILURE", re.MULTILINE),
    "ERROR": re.compile(r"^ERROR\b", re.MULTILINE),
    "E   ": re.compile(r"^E   ", re.MULTILINE),
    ": error:": None,
    "Traceback (most recent call last)": None,
    "not ok": re.compile(r"^not ok\b", re.MULTILINE),
    "No module named ": None,
}
_BROKEN: _Signs = {
    "Traceback (most recent call last)": None,
    "Error: ": re.compile(r"^\S*Error: ", re.MULTILINE),
    "Exception: ": re.compile(r"^\S*Exception: ", re.MULTILINE),
    "command not found": None,
    "No such file or directory": None,
    "Permission denied": None,
    ": error: ": re.compile(r"^\S*: error: ", re.MULTILINE),
    "error": re.compile(r"^error(?:\[\w+\])?: ", re.MULTILINE),
    "fatal: ": re.compile(r"^fatal: ", re.MULTILINE),
    "SyntaxError": None,
    "Segmentation fault": None,
    "can't open file": None,
}
_READ_FAILED = re.compile(
    r"(?:\S*(?:bash|sh): .*)?"
    r"(?:(?:cat|grep|sed|head|tail|ls|find|rg|nl|wc|awk|diff|stat|file|less|tree): .*"
    r"(?:No such file|can't read|cannot open|cannot access|Is a directory|Permission denied)"
    r"|.*command not found|fatal: )"
)
_EDIT_DONE = (
    "has been edited",
    "created successfully",
    "undone successfully",
    "has been updated",
    "updated successfully",
    "Successfully",
    "successfully",
    "File updated",
    "Success. Updated",
    "Done!",
    "has been replaced",
    "Text replaced",
    "Replaced 1",
    "Applied ",
    "File saved",
    "Wrote ",
)
_EDIT_FAILED = (
    "No replacement was performed",
    "ERROR:",
    "Error:",
    "<tool_use_error>",
    "Invalid `",
    "did not appear verbatim",
    "No such file",
    "Ran into",
    "String to replace not found",
    "has not been read yet",
    "Invalid Context",
    "Failed to find",
    "Your proposed edit has introduced new syntax error",
    "does not exist",
    "patch failed",
    "Found multiple",
    "no changes were made",
    "verification failed",
    "Failed to edit",
    "DO NOT re-run the same failed edit",
)


def exit_code_in(text: str) -> int | None:
    """The exit code that the tool wrote into its output, if any; the last one counts."""
    if "code" not in text:
        return None
    code = None
    for match in _EXIT_CODE.finditer(text):
        code = next(int(group) for group in match.groups() if group is not None)
    return code


def shell_outcome(command: Command | None, text: str) -> StateOutcome:
    """How a shell line ended, from its text alone. Words in a file that was only shown say nothing."""
    kind = command.strongest.group if command is not None else _EXECUTE
    if kind in (_READ, _SEARCH):
        if not text:
            return "unknown"
        return "error" if ": " in text[:200] and _READ_FAILED.match(text) else "ok"
    if kind is _TEST:
        if _shows(text, _FAILED):
            return "error"
        return "ok" if _shows(text, _PASSED) else "unknown"
    return "error" if _shows(text, _BROKEN) else "unknown"


def edit_outcome(text: str) -> StateOutcome:
    """How an edit tool's call ended, from what it said."""
    head = text[:400]
    listing = head.find("cat -n")
    if listing >= 0:
        head = head[:listing]
    for sign in _EDIT_FAILED:
        if sign in head:
            return "error"
    if head.startswith("[File: ") or any(sign in head for sign in _EDIT_DONE):
        return "ok"
    return "unknown"


def _shows(text: str, signs: _Signs) -> bool:
    found = [signs[sign] for sign in signs if sign in text]
    return any(pattern is None or pattern.search(text) for pattern in found)
