"""What a team brings along besides its seats: skills, documents to look things up in, tool servers (PANEL §6).

The manifests say where these things are; `Library` is what was found there when a run was submitted. It is stored
with the run, so that any worker on any day shows the models what was submitted, whatever the files say by then."""

from __future__ import annotations

import re
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator


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


HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,60}$")]
#: A prefix of their own, or a team file could name a provider's key and have it sent wherever its url points.
TokenVariable = Annotated[str, StringConstraints(pattern=r"^CONSENSUS_MCP_[A-Z0-9_]{1,60}$")]
#: Hosts to which a token may travel without TLS: it does not leave the machine.
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class McpServer(Strict):
    """A server of tools that seats may call (Model Context Protocol)."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,19}$")] = Field(
        description="how models and the ledger call it"
    )
    command: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=40,
        description="over stdio: what the worker starts for each seat",
    )
    url: Annotated[str, StringConstraints(pattern=r"^https?://\S+$", max_length=500)] | None = Field(
        default=None, description="over streamable HTTP: where it listens"
    )
    headers: dict[HeaderName, TokenVariable] = Field(
        default={},
        max_length=10,
        description="over HTTP: header → the worker's environment variable that holds its whole value; never the value",
    )
    tools: tuple[Annotated[str, StringConstraints(min_length=1, max_length=100)], ...] = Field(
        min_length=1, max_length=40, description="the tools that may be called; others are not even shown"
    )
    max_calls: int = Field(default=8, ge=1, le=100, description="most calls of one seat")
    max_result_characters: int = Field(
        default=8000, ge=100, le=200_000, description="of one result; the rest is cut off"
    )
    timeout_seconds: float = Field(default=20, ge=0.1, le=120, description="to connect, and for one call")

    @model_validator(mode="after")
    def _has_one_transport(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError(f"the server {self.name!r} needs either a command or a url, and not both")
        return self

    @model_validator(mode="after")
    def _keeps_its_tokens(self) -> Self:
        if not self.headers:
            return self
        if self.url is None:
            raise ValueError(f"the server {self.name!r} is started by a command and takes no headers")
        parts = urlsplit(self.url)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise ValueError(
                f"the server {self.name!r} would get its headers in the clear; its url must be https"
            )
        return self


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
