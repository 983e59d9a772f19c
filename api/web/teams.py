"""Teams: who sits where under which policy, and what is wrong with a manifest, line by line."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Response

from api.dependencies import Services, ServicesHere
from api.web.code_view import FileView, Pin, file_view
from api.web.rendering import PageRoute, render
from workers.core.team import Policy, Sandbox, Team
from workers.errors import ManifestError, NotFoundError
from workers.teams import MAX_TEAM_BYTES, read_team, team_files
from workers.yaml_text import read_text

router = APIRouter(prefix="/teams", route_class=PageRoute)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong, and on which line; None where the file as a whole is."""

    line: int | None
    sentence: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TeamEntry:
    """A team's file: the team, or what is wrong with it."""

    name: str
    path: Path
    team: Team | None
    faults: tuple[Fault, ...] = ()


@router.get("")
def list_page(services: ServicesHere) -> Response:
    return render("teams.html", values={"teams": entries(services)})


@router.get("/{name}")
def team_page(name: str, services: ServicesHere) -> Response:
    found = next((entry for entry in entries(services) if entry.name == name), None)
    if found is None:
        found = next(
            (entry for entry in entries(services) if entry.team is not None and entry.team.answers_to(name)),
            None,
        )
    if found is None:
        known = ", ".join(entry.name for entry in entries(services))
        raise NotFoundError(f"there is no team {name[:80]!r}. Known teams: {known}")
    return render(
        "team.html",
        values={
            "entry": found,
            "team": found.team,
            "source": source_of(found),
            "policy": [] if found.team is None else _settings(found.team.policy),
            "sandbox": [] if found.team is None else _settings(found.team.sandbox),
            "workers": [] if found.team is None else [(word, getattr(found.team, word)) for word in _EXTRA],
        },
    )


_EXTRA = ("consensus", "refuter", "prover", "control", "lead")


def entries(services: Services) -> list[TeamEntry]:
    """Every team by name; the first file of a name wins, and a wrong file stands under its own name."""
    found: dict[str, TeamEntry] = {}
    for path in team_files(services.team_folders):
        entry = _read(path)
        found.setdefault(entry.name, entry)
    return sorted(found.values(), key=lambda entry: entry.name)


def _read(path: Path) -> TeamEntry:
    try:
        team = read_team(path).team
    except ManifestError as error:
        faults = tuple(_fault(path, fault) for fault in error.faults)
        return TeamEntry(name=path.stem, path=path, team=None, faults=faults)
    return TeamEntry(name=team.name, path=path, team=team)


def _fault(path: Path, told: str) -> Fault:
    """From `path:line: sentence`."""
    match = re.match(r":(\d+): ?", told.removeprefix(str(path)))
    if match is None:
        return Fault(line=None, sentence=told)
    return Fault(line=int(match[1]), sentence=told.removeprefix(str(path))[match.end() :])


def source_of(entry: TeamEntry) -> FileView | None:
    """The file with its faults marked; None if it cannot be read."""
    try:
        text = read_text(entry.path, max_bytes=MAX_TEAM_BYTES, what="a team file")
    except ManifestError:
        return None
    pins = [
        Pin(claim_id=f"F{number}", path=entry.path.name, start=fault.line, end=fault.line)
        for number, fault in enumerate(entry.faults, start=1)
        if fault.line is not None
    ]
    return file_view(entry.path.name, text if entry.team else _without_tokens(text), pins)


_HEADERS = re.compile(r"(?P<indent>[ ]*(?:- +)?)headers *:")


def _without_tokens(text: str) -> str:
    """The values of headers should be names of variables, but a file that is wrong may be wrong in that."""
    lines = []
    inside: int | None = None
    for line in text.split("\n"):
        match = _HEADERS.match(line)
        indent = len(line) - len(line.lstrip(" "))
        if match is not None:
            inside = len(match["indent"])
            lines.append(f"{match[0]} (not shown)" if line[match.end() :].strip() else line)
        elif inside is not None and line.strip() and indent > inside:
            lines.append(f"{line.partition(':')[0]}: (not shown)")
        else:
            inside = inside if not line.strip() else None
            lines.append(line)
    return "\n".join(lines)


def _settings(held: Policy | Sandbox) -> list[tuple[str, Any, str, bool]]:
    """(name, value, meaning, whether the team set it itself) of each field."""
    rows = []
    for name, field in type(held).model_fields.items():
        value = getattr(held, name)
        shown = (
            ", ".join(f"{part} {number}" for part, number in value.model_dump().items())
            if hasattr(value, "model_dump")
            else value
        )
        rows.append((name, shown, field.description or "", name in held.model_fields_set))
    return rows
