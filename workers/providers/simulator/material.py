"""What a prompt asks of the simulator: role, spec, files and claims, read from the text of the messages.

The prompts are those of `teams/prompts/`: the system message begins with `# Role: …`, the user message is
material between `<spec>`, `<file path="…">`, `<claims>` and `<reviews>`, whose tags may all carry one mark
(`core/fence.py`). Whatever else stands there is passed over, and nothing here raises: a prompt is somebody
else's input."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

_ROLE = re.compile(r"^# Role:[ \t]*([A-Za-z-]+)", re.MULTILINE)
_MARKED = re.compile(
    r'^<(?:spec|claims|reviews|alarms|(?:file|test) path="[^"\n]*")( [0-9a-f]{16})>$', re.MULTILINE
)
_NUMBERED = re.compile(r" *(\d{1,7}) \|(?: (.*))?")
#: What stands between numbered lines of a file that is shown in parts: a gap, and lines that a change removed.
_UNNUMBERED = re.compile(r" *[-…] \|(?: .*)?")
#: A gap above this is no file that a simulated model looks into.
_LONGEST_GAP_LINES = 200_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One prompt. `role` and `spec` are None where it names none; claims and reviews are raw objects."""

    role: str | None
    spec: str | None
    files: Mapping[str, str]
    claims: Sequence[Mapping[str, Any]]
    reviews: Sequence[Mapping[str, Any]]


def read_question(system: str, user: str) -> Question:
    marked = _MARKED.search(user)
    mark = marked[1] if marked else ""
    spec, rest = _spec_and_rest(user, mark)
    files, rest = _take(rest, "file", mark)
    _, rest = _take(rest, "test", mark)
    return Question(
        role=role_of(system),
        spec=spec,
        files={path: _without_numbers(text) for path, text in files},
        claims=_objects(_between(rest, f"<claims{mark}>\n", f"\n</claims{mark}>")),
        reviews=_objects(_between(rest, f"<reviews{mark}>\n", f"\n</reviews{mark}>")),
    )


def role_of(system: str) -> str | None:
    """The word after `# Role:`, or None."""
    role = _ROLE.search(system)
    return role[1].lower() if role else None


def _spec_and_rest(user: str, mark: str) -> tuple[str | None, str]:
    """The spec, up to the last closing tag: one that goes on after its own closing tag is another spec."""
    opening, closing = f"<spec{mark}>\n", f"\n</spec{mark}>"
    start, end = user.find(opening), user.rfind(closing)
    if start < 0 or end < start:
        return None, user
    rest = user[end:]
    if "\n<file path=" not in rest:
        # The last closing tag may be a file's own line; the files then begin after the first one.
        rest = user[user.index(closing) :]
    return user[start + len(opening) : end], rest


def _take(text: str, tag: str, mark: str) -> tuple[list[tuple[str, str]], str]:
    """Path and text of each tagged block, and what is left without them. What follows the last closing tag
    is not searched, so that a flood of opening tags costs no more than its length."""
    closing = f"\n</{tag}{mark}>"
    end = text.rfind(closing)
    if end < 0:
        return [], text
    head, tail = text[: end + len(closing)], text[end + len(closing) :]
    tagged = re.compile(rf'^<{tag} path="([^\n]*)"{mark}>\n(.*?)\n</{tag}{mark}>', re.MULTILINE | re.DOTALL)
    return tagged.findall(head), tagged.sub("", head) + tail


def _between(text: str, opening: str, closing: str) -> str:
    _, found, after = text.partition(opening)
    inside, closed, _ = after.partition(closing)
    return inside if found and closed else ""


def _objects(block: str) -> list[Mapping[str, Any]]:
    """The JSON objects of a block, one a line; other lines are passed over."""
    found: list[Mapping[str, Any]] = []
    for line in block.splitlines():
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def _without_numbers(text: str) -> str:
    """The file behind `12 | text`, as reviewers see it, blank where it is not shown; a text that is not numbered
    throughout stays as it is."""
    if not (_NUMBERED.match(text) or _UNNUMBERED.match(text)):
        return text
    plain: list[str] = []
    for line in text.split("\n"):
        match = _NUMBERED.fullmatch(line)
        if match is None and _UNNUMBERED.fullmatch(line):
            continue
        gap = int(match[1]) - len(plain) - 1 if match else -1
        if match is None or not 0 <= gap <= _LONGEST_GAP_LINES:
            return text
        plain += [""] * gap
        plain.append(match[2] or "")
    return "\n".join(plain)
