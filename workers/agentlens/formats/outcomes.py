"""How a tool call ended, and how a run ended: exit code, then error flag, then the text's signature,
else unknown."""

from __future__ import annotations

import re

from workers.agentlens.shell import Command, Group
from workers.agentlens.trajectory import StateOutcome

_EXIT_CODE = re.compile(
    r"\[The command completed with exit code (-?\d+)|<returncode>(-?\d+)</returncode>|\[exit_code\] (-?\d+)"
    r"|finished with exit code (-?\d+)|^(?:Process )?[Ee]xit(?:ed with)? code:? (-?\d+)",
    re.MULTILINE,
)
_PASSED = re.compile(
    r"\b\d+ passed\b|^OK\b|\bBUILD SUCCESS|^ok\s+\S+\s+[\d.]+s|test result: ok|\bno issues found\b"
    r"|All checks passed"
    r"|^Tests:.* \d+ passed, \d+ total|rated at 10\.00/10|no failures",
    re.MULTILINE,
)
_FAILED = re.compile(
    r"\b[1-9]\d* (?:failed|errors?)\b|^FAILED\b|^ERROR\b|^FAIL\b|^E   |^--- FAIL|test result: FAILED"
    r"|\bBUILD FAILURE"
    r"|Traceback \(most recent call last\)|^not ok\b|No module named |: error:|^Found [1-9]\d* errors?",
    re.MULTILINE,
)
_BROKEN = re.compile(
    r"Traceback \(most recent call last\)|^\S*(?:Error|Exception): |command not found"
    r"|No such file or directory|Permission denied|^\S*: error: |^error(?:\[\w+\])?: |^fatal: |SyntaxError"
    r"|Segmentation fault|can't open file",
    re.MULTILINE,
)
_READ_FAILED = re.compile(
    r"(?:\S*(?:bash|sh): .*)?"
    r"(?:(?:cat|grep|sed|head|tail|ls|find|rg|nl|wc|awk|diff|stat|file|less|tree): .*"
    r"(?:No such file|can't read|cannot open|cannot access|Is a directory|Permission denied)"
    r"|.*command not found|fatal: )"
)
# A text without any of these needs no pattern: plain searches are much faster.
_PASS_SIGNS = ("passed", "OK", "ok", "SUCCESS", "no issues", "All checks", "rated", "no failures")
_FAIL_SIGNS = ("FAIL", "failed", "rror", "E   ", "not ok", "Traceback", "ERROR", "No module")
_BREAK_SIGNS = (
    "rror",
    "Traceback",
    "xception: ",
    "not found",
    "No such",
    "denied",
    "fatal: ",
    "Segmentation",
    "can't open",
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
    kind = command.kind if command is not None else Group.EXECUTE
    if kind in (Group.READ, Group.SEARCH):
        if not text:
            return "unknown"
        return "error" if ": " in text[:200] and _READ_FAILED.match(text) else "ok"
    if kind is Group.TEST:
        if _maybe(text, _FAIL_SIGNS) and _FAILED.search(text):
            return "error"
        return "ok" if _maybe(text, _PASS_SIGNS) and _PASSED.search(text) else "unknown"
    if _maybe(text, _BREAK_SIGNS):
        return "error" if _BROKEN.search(text) else "unknown"
    return "unknown"


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


def _maybe(text: str, signs: tuple[str, ...]) -> bool:
    return any(map(text.__contains__, signs))
