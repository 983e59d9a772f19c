"""Reads skills: folders with a SKILL.md, whose head names it and whose body is told to the seats.

The format is that of agent skills: front matter in YAML with `name` and `description`, then Markdown. Other keys
of the head are somebody else's business and are passed over."""

from __future__ import annotations

import re
from pathlib import Path

from workers.core.equipment import Skill
from workers.errors import ManifestError
from workers.yaml_text import parse, read_text

FILE_NAME = "SKILL.md"
#: A skill is a few pages; it is paid for with every call of every seat.
MAX_SKILL_BYTES = 32 * 1024
#: Of all skills of a team together.
MAX_SKILLS_CHARACTERS = 64_000

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_SHAPE = "a SKILL.md begins with '---', then name: and description:, then '---'"


def read_skill(root: Path, folder: str) -> Skill:
    """The skill in `folder`, a relative path below `root`.

    Raises: ManifestError when it is not there, reached through a link, too large, or without its head.
    """
    path = root / folder / FILE_NAME
    _refuse_links(root, path)
    text = read_text(path, max_bytes=MAX_SKILL_BYTES, what="a SKILL.md")
    head = _FRONT_MATTER.match(text)
    if head is None:
        raise ManifestError(f"{path}:1: has no front matter; {_SHAPE}")
    # The head is parsed with the line of '---' before it, so that line numbers are the file's.
    value = parse("\n" + head[1], path).value
    values = value if isinstance(value, dict) else {}
    for key in ("name", "description"):
        if not isinstance(values.get(key), str) or not values[key].strip():
            raise ManifestError(f"{path}:1: the front matter has no {key!r} with a text; {_SHAPE}")
    body = text[head.end() :].strip()
    if not body:
        raise ManifestError(f"{path}: holds no instructions below its front matter")
    return Skill(name=values["name"].strip(), description=values["description"].strip(), body=body)


def _refuse_links(root: Path, path: Path) -> None:
    """A link could lead anywhere on the machine, and what it leads to would be sent to a provider."""
    place = root
    for part in path.relative_to(root).parts:
        place = place / part
        if part == ".." or place.is_symlink():
            raise ManifestError(f"{place}: is a link or leads upwards; copy the skill beside the team file")
