"""What may be submitted: the limits of a spec and of the files that come with it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

from workers.core.alarm import Alarm
from workers.core.artefact import Files, Span, files_problem
from workers.core.diff import parse_diff
from workers.core.slices import LeftOut, Removed
from workers.errors import SpecError

MAX_SPEC_BYTES = 1024 * 1024
#: Code that is there already may be more than anybody writes in one reply: reviewers are shown slices of it.
MAX_REVIEWED_FILES = 1000
MAX_REVIEWED_CHARACTERS = 4_000_000
MAX_LEFT_OUT = 1000
#: Control characters other than tab, line feed, form feed and carriage return, and lone surrogates.
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\ud800-\udfff]")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Existing:
    """What goes with code that was submitted to be judged: files that were not sent, and, of a diff, the lines that
    are known and those that were removed."""

    left_out: tuple[LeftOut, ...] = ()
    parts: Mapping[str, tuple[Span, ...]] = dataclasses.field(default_factory=dict)
    removed: Mapping[str, tuple[Removed, ...]] = dataclasses.field(default_factory=dict)
    #: Alarms of a scanner about the code; the panel judges them instead of looking for defects of its own.
    alarms: tuple[Alarm, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Plain data, as it is kept with the spec."""
        data: dict[str, Any] = {
            "left_out": [dataclasses.asdict(item) for item in self.left_out],
            "parts": {path: [[span.start, span.end] for span in spans] for path, spans in self.parts.items()},
            "removed": {
                path: [dataclasses.asdict(item) for item in items] for path, items in self.removed.items()
            },
        }
        return {**data, "alarms": [alarm.as_data() for alarm in self.alarms]} if self.alarms else data

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        return cls(
            left_out=tuple(LeftOut(**item) for item in value["left_out"]),
            parts={
                path: tuple(Span(path=path, start=start, end=end) for start, end in spans)
                for path, spans in value["parts"].items()
            },
            removed={
                path: tuple(Removed(**item) for item in items) for path, items in value["removed"].items()
            },
            alarms=tuple(map(Alarm.of, value.get("alarms", ()))),
        )


def check_spec(spec: str) -> None:
    """Raises: SpecError for an empty spec, one above 1 MiB, or one that is not text."""
    if not spec.strip():
        raise SpecError("the spec is empty; say in words what the code should do")
    size = len(spec.encode("utf-8", errors="replace"))
    if size > MAX_SPEC_BYTES:
        raise SpecError(f"the spec has {size:,} bytes; at most {MAX_SPEC_BYTES:,} (1 MiB) are accepted")
    control = _CONTROL.search(spec)
    if control:
        raise SpecError(
            f"the spec is not text: character {control.start()} is U+{ord(control[0]):04X}; send UTF-8 text"
        )


def decode_spec(body: bytes) -> str:
    """The text of a spec file. Raises: SpecError if it is too large, not UTF-8, empty or not text."""
    if len(body) > MAX_SPEC_BYTES:
        raise SpecError(f"the spec has {len(body):,} bytes; at most {MAX_SPEC_BYTES:,} (1 MiB) are accepted")
    try:
        spec = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(f"the spec is not text: byte {error.start} is not UTF-8; send UTF-8 text") from None
    check_spec(spec)
    return spec


def check_files(kind: str, files: Files) -> None:
    """`kind` is what the message calls them. Raises: SpecError."""
    problem = files_problem(files)
    if problem:
        raise SpecError(f"{kind}: {problem}")


def check_reviewed(files: Files, *, diff: str | None, left_out: Sequence[LeftOut]) -> tuple[Files, Existing]:
    """Existing code to judge, from files or from a unified diff. Raises: SpecError."""
    if diff is not None and files:
        raise SpecError("files and diff: give either the files that are to be judged or a diff, not both")
    if len(left_out) > MAX_LEFT_OUT:
        raise SpecError(f"left_out: {len(left_out)} entries; at most {MAX_LEFT_OUT} are allowed")
    existing = Existing(left_out=tuple(left_out))
    if diff is not None:
        changes = parse_diff(diff)
        files = changes.files
        existing = Existing(
            left_out=(*left_out, *changes.left_out), parts=changes.parts, removed=changes.removed
        )
    problem = files_problem(files, most_files=MAX_REVIEWED_FILES, most_characters=MAX_REVIEWED_CHARACTERS)
    if problem:
        raise SpecError(f"files: {problem}")
    if not files:
        raise SpecError(
            "files: there is no code to judge; everything was left out"
            if existing.left_out
            else "files: there is no code to judge; give files or a diff"
        )
    return files, existing
