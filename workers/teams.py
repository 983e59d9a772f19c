"""Reads team files: YAML in, a validated `Team` out, or a sentence with file, line, field and what is allowed.

Built-in teams travel as package data; folders named in CONSENSUS_TEAMS come first, so that a stranger adds or
replaces a team by one file."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import yaml
from jinja2 import Environment, FunctionLoader, StrictUndefined, TemplateNotFound
from pydantic import ValidationError

from workers.core.equipment import Library
from workers.core.fence import fence, label
from workers.core.team import EquippedTeam, Team
from workers.errors import ManifestError, UnknownTeamError
from workers.team_faults import field_faults, provider_faults, repeat_fault
from workers.tools.retrieval import read_documents
from workers.tools.skills import MAX_SKILLS_CHARACTERS, read_skill
from workers.yaml_text import line_of, parse, read_text

#: A team file is a page or two; more is a mistake.
MAX_TEAM_BYTES = 256 * 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TeamFile:
    """Where a team was read from."""

    path: Path
    team: EquippedTeam


def built_in_folder() -> Path:
    return Path(str(files("teams")))


def team_files(extra: Sequence[Path] = ()) -> list[Path]:
    """Every team file, those of `extra` (folders or files) first.

    Raises: ManifestError for a folder or file of `extra` that is not there.
    """
    found: list[Path] = []
    for place in extra:
        if not place.exists():
            raise ManifestError(f"{place}: no such team file or folder")
        found += _in_folder(place) if place.is_dir() else [place]
    return found + _in_folder(built_in_folder())


def expand(places: Sequence[Path]) -> list[Path]:
    """The team files among these files and folders; a file that is not there stays, to be told so."""
    return [path for place in places for path in (_in_folder(place) if place.is_dir() else [place])]


def _in_folder(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml"))


def load_team(name: str, extra: Sequence[Path] = ()) -> TeamFile:
    """The team of that name, or else the one with such an alias.

    Raises: UnknownTeamError, which lists those there are; ManifestError.
    """
    known: list[str] = []
    answering: Path | None = None
    for path in team_files(extra):
        declared, team = _declared(path)
        if declared == name:
            return read_team(path)
        if answering is None and team is not None and team.answers_to(name):
            answering = path
        known.append(declared or path.stem)
    if answering is not None:
        return read_team(answering)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise UnknownTeamError(
        f"there is no team {name[:80]!r}{hint} Known teams: {', '.join(sorted(set(known)))}"
    )


def load_teams(extra: Sequence[Path] = ()) -> list[TeamFile]:
    """Every team, the first file of a name winning. Raises: ManifestError for the first bad file."""
    teams: dict[str, TeamFile] = {}
    for path in team_files(extra):
        entry = read_team(path)
        teams.setdefault(entry.team.name, entry)
    return sorted(teams.values(), key=lambda entry: entry.team.name)


def read_team(path: Path) -> TeamFile:
    """One team file with what it brings along. Raises: ManifestError with every fault: file, line, field and what is
    allowed."""
    return _equipped(path, _parsed(path))


def _parsed(path: Path) -> Team:
    """The team alone, parsed again only when its file has changed. Raises: ManifestError."""
    try:
        facts = path.stat()
    except OSError:
        return _read(path).team
    stamp = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
    known = _read_files.get(path)
    if known is None or known[0] != stamp:
        known = (stamp, _read(path).team)
        _read_files[path] = known
    return known[1]


#: Parsed files by path; parsing one costs more than the rest of a submission.
_read_files: dict[Path, tuple[tuple[int, int, int], Team]] = {}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Manifest:
    team: Team
    node: yaml.Node


def _read(path: Path) -> _Manifest:
    """The file itself. Raises: ManifestError."""
    parsed = parse(read_text(path, max_bytes=MAX_TEAM_BYTES, what="a team file"), path)
    if not isinstance(parsed.value, dict) or parsed.node is None:
        raise ManifestError(f"{path}:1: a team is a mapping with name, coder, reviewers, consensus and lead")
    faults = [repeat_fault(repeat) for repeat in parsed.repeats]
    try:
        team = Team.model_validate(parsed.value)
    except ValidationError as error:
        faults += field_faults(parsed.node, error)
    else:
        if not faults:
            return _Manifest(team=team, node=parsed.node)
    raise ManifestError(*(f"{path}:{fault}" for fault in faults))


def check_team(path: Path) -> TeamFile:
    """As `read_team`, and every model's provider must be one that we know. Raises: ManifestError."""
    entry = read_team(path)
    faults = provider_faults(_read(path).node, entry.team)
    if faults:
        raise ManifestError(*(f"{path}:{fault}" for fault in faults))
    return entry


def _equipped(path: Path, team: Team) -> TeamFile:
    """The team with the texts beside its file, as they are now. Raises: ManifestError."""
    root, skills = path.parent, []
    faults: list[tuple[tuple[str | int, ...], str]] = []
    for number, folder in enumerate(team.skills):
        try:
            skills.append(read_skill(root, folder))
        except ManifestError as error:
            faults.append((("skills", number), str(error)))
    if sum(len(skill.body) for skill in skills) > MAX_SKILLS_CHARACTERS:
        faults.append(
            (("skills",), f"hold more than {MAX_SKILLS_CHARACTERS:,} characters together; every call pays")
        )
    documents: dict[str, str] = {}
    if team.retrieval:
        try:
            documents = read_documents(root, team.retrieval)
        except ManifestError as error:
            faults.append((("retrieval", "globs"), str(error)))
    if faults:
        node = _read(path).node
        raise ManifestError(
            *(
                f"{path}:{line_of(node, place)}: {'.'.join(map(str, place))}: {fault}"
                for place, fault in faults
            )
        )
    library = Library(skills=tuple(skills), documents=documents)
    return TeamFile(path=path, team=EquippedTeam.model_validate({**dict(team), "texts": library}))


def schema_text() -> str:
    """`teams/schema.json`: what a team file may hold, for editors that complete and check it while it is written."""
    schema = Team.model_json_schema()
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A team of Consensus"}
    return json.dumps({**head, **{key: schema[key] for key in schema if key != "title"}}, indent=2) + "\n"


def _declared(path: Path) -> tuple[str | None, Team | None]:
    """The name a file declares (None if it is not even YAML: listing must survive one bad file), and the team if
    it is a good one."""
    with contextlib.suppress(ManifestError):
        team = _parsed(path)
        return team.name, team
    try:
        value = parse(read_text(path, max_bytes=MAX_TEAM_BYTES, what="a team file"), path).value
    except ManifestError:
        return None, None
    name = value.get("name") if isinstance(value, dict) else None
    return (name, None) if isinstance(name, str) else (None, None)


def prompt_environment() -> Environment:
    """Templates of `teams/prompts`; an undefined name is an error, and nothing is escaped: models read text.

    The filters `fence` and `label` keep what is shown to a model between its own tags (`core/fence.py`).
    """
    folder = built_in_folder() / "prompts"

    def source(name: str) -> str:
        try:
            return (folder / name).read_text(encoding="utf-8")
        except OSError:
            raise TemplateNotFound(name) from None

    environment = Environment(  # nosec B701 # the output is a prompt, never HTML
        loader=FunctionLoader(source),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - the output is a prompt, never HTML
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    environment.filters.update(fence=fence, label=label)
    return environment
