"""What a prompt asks of the simulator: role, spec, files and claims, read from the text of the messages.

The prompts are those of `teams/prompts/`: the system message begins with `# Role: …`, the user message is
material between `<spec>`, `<file path="…">`, `<claims>` and `<reviews>`. Whatever else stands there is passed
over, and nothing here raises: a prompt is somebody else's input."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

_ROLE = re.compile(r"^# Role:[ \t]*([A-Za-z-]+)", re.MULTILINE)
_TAGGED = {
    tag: re.compile(rf'^<{tag} path="([^\n]*)">\n(.*?)\n</{tag}>', re.MULTILINE | re.DOTALL)
    for tag in ("file", "test")
}
_NUMBERED = re.compile(r" *(\d{1,7}) \|(?: (.*))?")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One prompt. `role` and `spec` are None where it names none; claims and reviews are raw objects."""

    role: str | None
    spec: str | None
    files: Mapping[str, str]
    claims: Sequence[Mapping[str, Any]]
    reviews: Sequence[Mapping[str, Any]]


def read_question(system: str, user: str) -> Question:
    spec, rest = _spec_and_rest(user)
    files, rest = _take(rest, "file")
    _, rest = _take(rest, "test")
    return Question(
        role=role_of(system),
        spec=spec,
        files={path: _without_numbers(text) for path, text in files},
        claims=_objects(_between(rest, "<claims>\n", "\n</claims>")),
        reviews=_objects(_between(rest, "<reviews>\n", "\n</reviews>")),
    )


def role_of(system: str) -> str | None:
    """The word after `# Role:`, or None."""
    role = _ROLE.search(system)
    return role[1].lower() if role else None


def _spec_and_rest(user: str) -> tuple[str | None, str]:
    """The spec, up to the last closing tag: one that goes on after its own closing tag is another spec."""
    opening, closing = "<spec>\n", "\n</spec>"
    start, end = user.find(opening), user.rfind(closing)
    if start < 0 or end < start:
        return None, user
    rest = user[end:]
    if "\n<file path=" not in rest:
        # The last closing tag may be a file's own line; the files then begin after the first one.
        rest = user[user.index(closing) :]
    return user[start + len(opening) : end], rest


def _take(text: str, tag: str) -> tuple[list[tuple[str, str]], str]:
    """Path and text of each tagged block, and what is left without them. What follows the last closing tag
    is not searched, so that a flood of opening tags costs no more than its length."""
    closing = f"\n</{tag}>"
    end = text.rfind(closing)
    if end < 0:
        return [], text
    head, tail = text[: end + len(closing)], text[end + len(closing) :]
    return _TAGGED[tag].findall(head), _TAGGED[tag].sub("", head) + tail


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
    """The file behind `12 | text`, as reviewers see it; a text not numbered throughout stays as it is."""
    if not _NUMBERED.match(text):
        return text
    plain = []
    for number, line in enumerate(text.split("\n"), start=1):
        match = _NUMBERED.fullmatch(line)
        if match is None or int(match[1]) != number:
            return text
        plain.append(match[2] or "")
    return "\n".join(plain)
