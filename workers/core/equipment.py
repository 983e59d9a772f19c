"""What a team brings along besides its seats: skills, documents to look things up in, tool servers (PANEL §6).

The manifests say where these things are; `Library` is what was found there when a run was submitted. It is stored
with the run, so that any worker on any day shows the models what was submitted, whatever the files say by then."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


def _stays_below(path: str) -> str:
    """Raises: ValueError for a path that leaves the team's folder, or could on another system."""
    if path.startswith(("/", "~")) or "\\" in path or re.match(r"^[A-Za-z]:", path):
        raise ValueError(
            f"{path[:60]!r} is not a relative path with '/'; paths begin in the team file's folder"
        )
    if ".." in path.split("/"):
        raise ValueError(f"{path[:60]!r} leaves the team file's folder; put what it names beside the team")
    return path


RelativePath = Annotated[str, StringConstraints(min_length=1, max_length=300), AfterValidator(_stays_below)]


class Retrieval(Strict):
    """Documents to look things up in; the passages nearest to the task are shown to the seats as data."""

    globs: tuple[RelativePath, ...] = Field(
        min_length=1,
        max_length=20,
        description="which of the submitted files, and of the files beside the team file; ** is any folders",
    )
    max_snippets: int = Field(default=6, ge=1, le=50, description="most passages shown")
    max_characters: int = Field(default=6000, ge=200, le=100_000, description="of all passages together")


class _Verbatim(BaseModel):
    """Texts as they were found: white space is part of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Skill(_Verbatim):
    """A SKILL.md: `description` says when it helps, `body` is what a seat is told."""

    name: str
    description: str
    body: str


class Library(_Verbatim):
    """What stood in a team's skill folders and documents; `documents` by path from the team file."""

    skills: tuple[Skill, ...] = ()
    documents: dict[str, str] = {}
