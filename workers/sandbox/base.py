"""What a cage promises: files and a command in, a bounded result out.

Three endings are kept apart (docs/sandbox.md). The program in the cage may do anything: that is a `CageResult`.
There is no cage: that is an `Unprovable`, never a run outside one. The cage itself broke: `CageError`, which a later
attempt may not see.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from workers.errors import InputError

MIB = 1024 * 1024

#: Where the workspace is in the cage, read-only, and where a program may write.
WORKSPACE = "/workspace"
SCRATCH = "/tmp"  # noqa: S108 # nosec B108 # inside the cage

#: How pytest is started there: the image's configuration, and no module of the workspace before pytest's own.
PYTEST = ("python", "-P", "-m", "pytest", "-c", "/opt/cage/pytest.ini", "--rootdir", WORKSPACE)

#: Relative path with slashes → content. Text is written as UTF-8.
Workspace = Mapping[str, bytes | str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run may use. `output_bytes` and `tail_bytes` are per stream (standard output, standard error)."""

    timeout_seconds: float = 10.0
    memory_bytes: int = 256 * MIB
    cpus: float = 1.0
    processes: int = 64
    scratch_bytes: int = 64 * MIB
    scratch_files: int = 4096
    open_files: int = 256
    output_bytes: int = 1 * MIB
    tail_bytes: int = 64 * 1024

    def __post_init__(self) -> None:
        for name, (least, most, unit) in _BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise InputError(
                    f"cage limit {name} is {value:g} {unit}; it must be between {least:g} and {most:g}"
                )
        if self.tail_bytes > self.output_bytes:
            raise InputError("cage limit tail_bytes is more than output_bytes; keep at most what is read")

    def as_data(self) -> dict[str, float | int]:
        """For the ledger: field → number."""
        return dataclasses.asdict(self)


_BOUNDS: dict[str, tuple[float, float, str]] = {
    "timeout_seconds": (0.1, 3600, "seconds"),
    # Below that the launcher's interpreter does not start.
    "memory_bytes": (32 * MIB, 64 * 1024 * MIB, "bytes"),
    "cpus": (0.1, 64, "cores"),
    "processes": (8, 4096, "processes"),
    "scratch_bytes": (1 * MIB, 16 * 1024 * MIB, "bytes"),
    "scratch_files": (16, 1_000_000, "files"),
    "open_files": (32, 16384, "files"),
    "output_bytes": (1024, 64 * MIB, "bytes"),
    "tail_bytes": (1024, 64 * MIB, "bytes"),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One stream: its end, and the size and SHA-256 of everything that was read of it."""

    tail: bytes
    size_bytes: int
    sha256: str

    @property
    def truncated(self) -> bool:
        return self.size_bytes > len(self.tail)

    @property
    def text(self) -> str:
        """The tail as text for people and prompts: bad bytes replaced, control characters gone."""
        decoded = self.tail.decode("utf-8", errors="replace")
        return "".join(c for c in decoded if c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cf", "Cs"})


class Ending(StrEnum):
    """Why a program ended. Only `exited` says anything about what it computed."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    OUTPUT_LIMIT = "output_limit"
    OUT_OF_MEMORY = "out_of_memory"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CageResult:
    """What the program did. `exit_code` 137 is a kill, the cage's or the kernel's.

    `oom_killed` is true as well when only a child of the program was killed for memory and the program went on.
    `duration_seconds` is wall time from the start of the container to the end of its output.
    """

    ending: Ending
    exit_code: int
    oom_killed: bool
    duration_seconds: float
    stdout: Output
    stderr: Output
    image_digest: str
    limits: Limits

    @property
    def timed_out(self) -> bool:
        return self.ending is Ending.TIMED_OUT


class Reason(StrEnum):
    """Why nothing can be proved here."""

    NO_ENGINE = "no_engine"
    NO_IMAGE = "no_image"
    NOT_CONFINED = "not_confined"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unprovable:
    """There is no cage. `sentence` says what is missing and what would mend it."""

    reason: Reason
    sentence: str


class Cage(Protocol):
    """Runs programs that nobody trusts. Safe to call from several threads."""

    def run(self, workspace: Workspace, command: Sequence[str], limits: Limits) -> CageResult | Unprovable:
        """Run `command` in a fresh cage over `workspace` and take the cage away again.

        Raises: InputError for a command or workspace that no cage could take (an empty command, a path that leaves
        the workspace, too many or too large files); CageError when the engine failed on the way.
        """
        ...

    def check(self) -> Unprovable | None:
        """None when programs can be run. Raises: CageError."""
        ...
