"""Reads team files: YAML in, a validated `Team` out, or a sentence with file, line, field and what is allowed.

Built-in teams travel as package data; folders named in CONSENSUS_TEAMS come first, so that a stranger adds or
replaces a team by one file."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FunctionLoader, StrictUndefined, TemplateNotFound
from pydantic import ValidationError
from yaml.constructor import ConstructorError

from workers.core.fence import fence, label
from workers.core.team import Team
from workers.errors import ManifestError, UnknownTeamError

#: A team file is a page or two; more is a mistake.
MAX_TEAM_BYTES = 256 * 1024
#: Values in a team file, aliases unfolded: the largest honest team has some hundreds.
MAX_NODES = 20_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TeamFile:
    """Where a team was read from."""

    path: Path
    team: Team


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
        found += sorted(place.glob("*.yaml")) if place.is_dir() else [place]
    return found + sorted(built_in_folder().glob("*.yaml"))


def load_team(name: str, extra: Sequence[Path] = ()) -> TeamFile:
    """The team of that name. Raises: UnknownTeamError, which lists those there are; ManifestError."""
    known: list[str] = []
    for path in team_files(extra):
        declared = _declared_name(path)
        if declared == name:
            return read_team(path)
        known.append(declared or path.stem)
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
    """One team file, parsed again only when it has changed. Raises: ManifestError, as `_read`."""
    try:
        facts = path.stat()
    except OSError:
        return _read(path)
    stamp = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
    known = _read_files.get(path)
    if known is None or known[0] != stamp:
        known = (stamp, _read(path))
        _read_files[path] = known
    return known[1]


#: Parsed files by path; parsing one costs more than the rest of a submission.
_read_files: dict[Path, tuple[tuple[int, int, int], TeamFile]] = {}


def _read(path: Path) -> TeamFile:
    """One team file. Raises: ManifestError with file, line, field and what is allowed."""
    value, node = _parse(path)
    if not isinstance(value, dict) or node is None:
        raise ManifestError(f"{path}:1: a team is a mapping with name, coder, reviewers, consensus and lead")
    try:
        return TeamFile(path=path, team=Team.model_validate(value))
    except ValidationError as error:
        raise ManifestError(_describe(path, node, error)) from None


class _Loader(yaml.SafeLoader):
    """Says where a scalar stands that looks like a date or number and is none (2026-13-45)."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except ValueError:
            kind, text = node.tag.rpartition(":")[2], str(node.value)[:60]
            raise ConstructorError(None, None, f"{text!r} is not a valid {kind}", node.start_mark) from None


def _parse(path: Path) -> tuple[Any, yaml.Node | None]:
    """The file's value and the node it came from. Raises: ManifestError."""
    loader = None
    try:
        loader = _Loader(_text(path))
        node = loader.get_single_node()
        if node is None:
            return None, None
        _check_nodes(path, node)
        return loader.construct_document(node), node
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = ", ".join(part for part in (error.context, error.problem) if part)
        raise ManifestError(f"{path}:{mark.line + 1 if mark else 1}: not valid YAML: {why}") from None
    except yaml.reader.ReaderError as error:
        why = f"{error.reason} (character {error.position})"
        raise ManifestError(f"{path}:1: not valid YAML: {why}") from None
    except RecursionError:
        raise ManifestError(f"{path}:1: the YAML nests too deeply") from None
    finally:
        if loader is not None:
            loader.dispose()


def _check_nodes(path: Path, root: yaml.Node) -> None:
    """Refuse a key that stands twice, and aliases that unfold to more than any team is.

    YAML keeps the last of two keys silently, so that half of a file would not count. Raises: ManifestError.
    """
    waiting, seen = [root], 0
    while waiting:
        node = waiting.pop()
        seen += 1
        if seen > MAX_NODES:
            raise ManifestError(f"{path}:1: its aliases unfold to more than {MAX_NODES} values")
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, item in node.value:
                waiting += (key, item)
                name = key.value if isinstance(key, yaml.ScalarNode) else ""
                line = key.start_mark.line + 1
                if name and name in lines:
                    raise ManifestError(
                        f"{path}:{line}: {name[:60]}: stands twice, first on line {lines[name]}; keep one"
                    )
                lines[name] = line


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            raise ManifestError(f"{path}: is not a file")
        with path.open("rb") as file:
            body = file.read(MAX_TEAM_BYTES + 1)
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror}") from None
    if len(body) > MAX_TEAM_BYTES:
        raise ManifestError(f"{path}: is too large; a team file has at most {MAX_TEAM_BYTES:,} bytes")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: not UTF-8 text (byte {error.start})") from None


def _declared_name(path: Path) -> str | None:
    """The name a file declares, None if it is not even YAML: listing must survive one bad file."""
    with contextlib.suppress(ManifestError):
        return read_team(path).team.name
    try:
        value, _ = _parse(path)
    except ManifestError:
        return None
    name = value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else None


def _describe(path: Path, node: yaml.Node, error: ValidationError) -> str:
    """One sentence for the first fault, with the line it stands on and, for a wrong field, the allowed ones."""
    first = error.errors(include_url=False)[0]
    place = [part for part in first["loc"] or first.get("ctx", {}).get("place", ()) if part != "[key]"]
    field = ".".join(str(part) for part in place) or "the file"
    line = _line_of(node, place)
    if first["type"] == "extra_forbidden":
        allowed = ", ".join(_allowed(place[:-1]))
        return f"{path}:{line}: {field}: no such field; allowed here: {allowed}"
    if first["type"] == "missing":
        return f"{path}:{line}: {field}: is missing"
    if first["type"] == "string_pattern_mismatch":
        expected = (
            "provider/model, for example openai/gpt-5" if "models" in place else "small letters, digits, '-'"
        )
        return f"{path}:{line}: {field}: {str(first['input'])[:60]!r} is not of the form: {expected}"
    return f"{path}:{line}: {field}: {first['msg'].removeprefix('Value error, ')}"


def _line_of(node: yaml.Node, place: Iterable[Any]) -> int:
    """The 1-based line of the deepest part of `place` that the file has."""
    line = node.start_mark.line
    for part in place:
        following = None
        if isinstance(node, yaml.MappingNode):
            following = next(((key, item) for key, item in node.value if key.value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            following = (node.value[part], node.value[part])
        if following is None:
            break
        line, node = following[0].start_mark.line, following[1]
    return line + 1


def _allowed(place: Sequence[Any]) -> list[str]:
    """The field names of the object at `place` in the manifest's schema."""
    schema = Team.model_json_schema()
    here = schema
    for part in place:
        here = (
            here.get("properties", {}).get(part)
            or next(iter(here.get("patternProperties", {}).values()), None)
            or here.get("additionalProperties")
            or here.get("items")
            or {}
        )
        reference = here.get("$ref")
        if reference:
            here = schema["$defs"][reference.rsplit("/", 1)[1]]
    return sorted(here.get("properties", {}))


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

    environment = Environment(
        loader=FunctionLoader(source),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - the output is a prompt, never HTML
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    environment.filters.update(fence=fence, label=label)
    return environment
