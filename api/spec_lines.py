"""The lines of a batch: each becomes a run, a duplicate, or one sentence with its number."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from pydantic import ValidationError

from api.checked_run import CheckedRun, check_request
from api.dependencies import MAX_BODY_BYTES
from api.errors import sentence_of
from api.json_size import MAX_JSON_VALUES, has_too_many_values
from api.run_request import RunRequest
from workers.errors import InputError, SpecError

#: A line is a request for a run, and no larger than that may be.
MAX_LINE_BYTES = MAX_BODY_BYTES
#: A sentence may quote what was sent.
_MAX_PROBLEM_CHARACTERS = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that cannot be used, by its number from 1, and why."""

    line: int
    problem: str

    @classmethod
    def of(cls, line: int, error: InputError) -> BadLine:
        problem = str(error)
        if len(problem) > _MAX_PROBLEM_CHARACTERS:
            problem = problem[: _MAX_PROBLEM_CHARACTERS - 1] + "…"
        return cls(line=line, problem=problem)


def lines_of(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each line, without its end and a byte order mark. A line that is too long comes cut off
    behind `MAX_LINE_BYTES`, so that memory is bounded."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 2):
        number += 1
        if not line.endswith(b"\n") and len(line) > MAX_LINE_BYTES:
            while (rest := file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        yield number, line.rstrip(b"\r\n")


def parse_line(line: bytes) -> Any:
    """The JSON value. Raises: SpecError."""
    if len(line) > MAX_LINE_BYTES:
        raise SpecError(f"has more than {MAX_LINE_BYTES:,} bytes; put less code into one line")
    if has_too_many_values(line):
        raise SpecError(
            f"has more than {MAX_JSON_VALUES:,} JSON values; send specs as lines, each a JSON object"
        )
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise SpecError(f"is not UTF-8 text (byte {error.start + 1}); save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise SpecError(
            f"is not JSON ({error.msg} at character {error.pos + 1}); each line is one JSON object"
        ) from None
    except RecursionError:
        raise SpecError("nests its JSON too deeply; send plain fields as described at /docs") from None
    except ValueError:
        raise SpecError("holds a number with more digits than can be read; send it as a string") from None


def _refuse_constant(name: str) -> NoReturn:
    raise SpecError(f"holds {name}, which JSON does not have; send a number, a string or null")


class _Line(RunRequest):
    unlisted = frozenset({"dry_run"})


def check_value(value: Any, *, default_team: str | None) -> CheckedRun:
    """A parsed line, checked as a single run is. Raises: InputError (SpecError, SarifError)."""
    if not isinstance(value, dict):
        raise SpecError('is no JSON object; write {"spec": "…"}')
    try:
        body: RunRequest = _Line.model_validate(value)
    except ValidationError as error:
        raise SpecError(sentence_of(error.errors(include_url=False))) from None
    if body.dry_run:
        raise SpecError("dry_run: is for a single run; leave it out of a batch")
    if default_team is not None and "team" not in body.model_fields_set:
        body = body.model_copy(update={"team": default_team})
    try:
        return check_request(body)
    except RecursionError:
        raise SpecError("nests its JSON too deeply; send plain fields as described at /docs") from None
