"""Rating sheets on disk: the CSV that a rater fills in, and the key that holds the labeler's answers."""

from __future__ import annotations

import csv
import dataclasses
import io
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

import orjson

from workers.agentlens.agreement import CATEGORIES
from workers.agentlens.rating import Place, Question, Stratum
from workers.agentlens.trajectory import Intent
from workers.errors import InputError

_KIND: Final = "consensus-rating-key"
_SHOWN: Final = ("row", "step", "tool", "number", "changes so far", "just before", "action", "observation")
_ASKED: Final = ("rating", "remark")
_ANSWERED: Final = ("intent", "rule", "file")
# A spreadsheet takes a cell that begins so for a formula (OWASP, "CSV Injection").
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "'")
_LETTERS: Final = {intent.value: intent for intent in CATEGORIES}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the key holds of a step: where it is, why it was drawn, and what the labeler says."""

    step: str
    place: Place
    stratum: Stratum
    action_digest: str
    intent: Intent
    rule: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The labeler's answers to one sheet. version: of the rules that gave them."""

    version: str
    seed: int
    answers: tuple[Answer, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """A filled row. row: its number in a spreadsheet, where the header is row 1."""

    row: int
    intent: Intent
    action: str


def key_path(sheet: Path) -> Path:
    """Where the key of a sheet is, if nobody says otherwise."""
    return sheet.with_name(f"{sheet.stem}.key.json")


def guide_path(sheet: Path) -> Path:
    """Where the rater's guide lies beside a sheet."""
    return sheet.with_name(f"{sheet.stem}.guide.md")


def guide() -> bytes:
    """The rater's guide."""
    return resources.files("workers.cli").joinpath("rating_guide.md").read_bytes()


def sheet_bytes(questions: Sequence[Question], answers: Sequence[Answer] | None = None) -> bytes:
    """The sheet as CSV: blind with empty ratings, or with the labeler's answers if they are given.

    Marked as UTF-8, because spreadsheets guess wrongly without."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow((*_SHOWN, *(_ASKED if answers is None else _ANSWERED)))
    for row, asked in enumerate(questions):
        texts = (asked.changes, asked.before, asked.action, asked.observation)
        shown: list[object] = [row + 1, asked.step, _cell(asked.tool), asked.number, *map(_cell, texts)]
        if answers is None:
            shown += ["", ""]
        else:
            answer = answers[row]
            shown += [answer.intent.value, answer.rule, _cell(answer.place.file)]
        writer.writerow(shown)
    return b"\xef\xbb\xbf" + text.getvalue().encode("utf-8", "replace")


def _cell(text: str) -> str:
    """Text from a log as a cell: no formula, no control character."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    clean = "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "�" for c in lines)
    return "'" + clean if clean.startswith(_FORMULA) else clean


def key_bytes(key: Key) -> bytes:
    """The key as JSON."""
    steps = [
        {
            "step": answer.step,
            **answer.place._asdict(),
            **answer.stratum._asdict(),
            "action_digest": answer.action_digest,
            "intent": answer.intent.value,
            "rule": answer.rule,
        }
        for answer in key.answers
    ]
    document = {"kind": _KIND, "scoring_version": key.version, "seed": key.seed, "steps": steps}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def read_key(path: Path) -> Key:
    """The key in a file. Raises: InputError with file and step."""
    try:
        document = orjson.loads(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"{path}: the key cannot be opened: {error.strerror}; give the file that `sample --rate` wrote "
            "with --key"
        ) from None
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path}: not JSON: {error}; expected a key written by `sample --rate`") from None
    if not isinstance(document, dict) or document.get("kind") != _KIND or not document.get("steps"):
        raise InputError(f"{path}: no key of a rating sheet; give the one that `sample --rate` wrote")
    answers = []
    for number, step in enumerate(document["steps"]):
        try:
            answers.append(_answer(step))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path}: step {number}: {type(error).__name__} {error}; the key was changed, take the one "
                "that `sample --rate` wrote"
            ) from None
    return Key(
        version=str(document.get("scoring_version")), seed=document.get("seed", 0), answers=tuple(answers)
    )


def _answer(step: Mapping[str, Any]) -> Answer:
    return Answer(
        step=step["step"],
        place=Place(step["file"], int(step["run"]), int(step["state"])),
        stratum=Stratum(step["format"], step["operation"], step["third"]),
        action_digest=step["action_digest"],
        intent=Intent(step["intent"]),
        rule=int(step["rule"]),
    )


def read_sheet(path: Path, steps: Sequence[str]) -> dict[str, Rating]:
    """The ratings of a filled sheet by step; every one of `steps` and no other must be there.

    Raises: InputError with file and row."""
    expected = set(steps)
    found: dict[str, Rating] = {}
    unrated: list[int] = []
    for row, cells in _records(path):
        step = (cells.get("step") or "").strip()
        if step not in expected:
            raise InputError(
                f"{path}: row {row}: step {step[:40]!r} is not in the key; the sheet and the key must be of "
                "the same sample"
            )
        if step in found:
            raise InputError(f"{path}: row {row}: step {step} is in row {found[step].row} already; keep one")
        given = (cells.get("rating") or "").strip().upper()
        if given and given not in _LETTERS:
            raise InputError(f"{path}: row {row}: rating {given[:20]!r} is unknown; give E, I, V or O")
        if not given:
            unrated.append(row)
        intent = _LETTERS.get(given, Intent.O)
        found[step] = Rating(row=row, intent=intent, action=(cells.get("action") or "").removeprefix("'"))
    if unrated:
        others = f" (and {len(unrated) - 1} more)" if len(unrated) > 1 else ""
        raise InputError(f"{path}: row {unrated[0]}: no rating{others}; give E, I, V or O")
    if missing := [step for step in steps if step not in found]:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(
            f"{path}: the row of step {missing[0]} is missing{others}; rate every step of the sheet"
        )
    return found


def _records(path: Path) -> Iterable[tuple[int, dict[str, str]]]:
    """The rows that hold something, by column name, each with its number in a spreadsheet."""
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        raise InputError(f"{path}: cannot be opened: {error.strerror}; give a filled rating sheet") from None
    # Spreadsheets of some languages save with semicolons.
    header = text.partition("\n")[0]
    separator = max(",;\t", key=header.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    row = 0
    try:
        names = [name.strip() for name in next(rows, [])]
        for name in ("step", "rating"):
            if name not in names:
                raise InputError(
                    f"{path}: row 1: no column {name!r}; give a sheet that `sample --rate` wrote"
                )
        for row, cells in enumerate(rows, start=2):
            if any(cell.strip() for cell in cells):
                yield row, dict(zip(names, cells, strict=False))
    except csv.Error as error:
        raise InputError(
            f"{path}: after row {max(row, 1)}: not CSV: {error}; save the sheet as CSV"
        ) from None
