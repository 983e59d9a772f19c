"""A shell line as a value: what each segment runs, reads and writes (AGENTLENS §1).

Paths in a `Command` are written as in `State.path`: repository-relative, `ext:…` outside the repository,
`scratch:…` in a temporary folder."""

from __future__ import annotations

import dataclasses
from enum import StrEnum


class Group(StrEnum):
    """What a segment is for, strongest first: the strongest segment names the kind of the whole line."""

    WRITE = "write"
    TEST = "test"
    EXECUTE = "execute"
    READ = "read"
    SEARCH = "search"
    ENVIRONMENT = "environment"
    NOTHING = "nothing"


STRENGTH: dict[Group, int] = {
    Group.WRITE: 5,
    Group.TEST: 4,
    Group.EXECUTE: 3,
    Group.READ: 2,
    Group.SEARCH: 2,
    Group.ENVIRONMENT: 1,
    Group.NOTHING: 0,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One simple command of a line.

    `program` is the bare name (`python`, never `/usr/bin/python3.11`), with its subcommand where the
    subcommand decides (`git diff`, `npm test`). `arguments` are the words as typed, without flags;
    `flags` are normalised (split, sorted, values of `--x=y` kept). `target` is what it acts on: the file
    written, the test file or node run, the script executed, the path read, the pattern searched.
    `lines` is the closed range of a file that a reader shows (`sed -n`, `head`, `tail`), None if unknown.
    `body` is a here-document or an inline script (`python -c`).
    """

    program: str
    group: Group
    arguments: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    target: str | None = None
    pattern: str | None = None
    lines: tuple[int, int] | None = None
    body: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A parsed shell line. `normal` is the line without its `cd` prefix, environment assignments,
    `timeout`, quoting differences and trailing `| head`/`| tail`: the text whose digest is the state's.
    `directory` is the working directory after the line, "" for the repository's root.
    `segments` is never empty; the first of the strongest ones is `strongest`."""

    text: str
    normal: str
    segments: tuple[Segment, ...]
    strongest: Segment
    directory: str = ""

    @property
    def kind(self) -> Group:
        """The group of the strongest segment."""
        return self.strongest.group

    @property
    def program(self) -> str:
        """The program of the strongest segment."""
        return self.strongest.program

    @property
    def flags(self) -> tuple[str, ...]:
        """The normalised flags of the strongest segment."""
        return self.strongest.flags

    @property
    def target(self) -> str | None:
        """What the strongest segment acts on."""
        return self.strongest.target

    @property
    def reads(self) -> tuple[str, ...]:
        """Every path that some segment reads or searches, in order."""
        return tuple(path for segment in self.segments for path in segment.reads)

    @property
    def writes(self) -> tuple[str, ...]:
        """Every path that some segment writes, removes or renames, in order."""
        return tuple(path for segment in self.segments for path in segment.writes)
