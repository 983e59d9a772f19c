"""YAML that people write: bounded, parsed with the places of its values, and refused in one sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from workers.errors import ManifestError

#: Values in a file, aliases unfolded: the largest honest team has some hundreds.
MAX_NODES = 20_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A key that stands twice in its mapping; YAML keeps the last one silently. Lines count from 1."""

    key: str
    line: int
    first_line: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A file's value, the node it came from (None for an empty file), and the keys that stand twice."""

    value: Any
    node: yaml.Node | None
    repeats: tuple[Repeat, ...] = ()


def read_text(path: Path, *, max_bytes: int, what: str) -> str:
    """A small UTF-8 text file. `what` is what the message calls it. Raises: ManifestError."""
    try:
        if not path.is_file():
            raise ManifestError(f"{path}: is not a file")
        with path.open("rb") as file:
            body = file.read(max_bytes + 1)
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror}") from None
    if len(body) > max_bytes:
        raise ManifestError(f"{path}: is too large; {what} has at most {max_bytes:,} bytes")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: not UTF-8 text (byte {error.start})") from None


class _Loader(yaml.SafeLoader):
    """Says where a scalar stands that looks like a date or number and is none (2026-13-45)."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except ValueError:
            kind, text = node.tag.rpartition(":")[2], str(node.value)[:60]
            raise ConstructorError(None, None, f"{text!r} is not a valid {kind}", node.start_mark) from None


def parse(text: str, path: Path) -> Parsed:
    """The YAML of a file. Raises: ManifestError with file and line."""
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return Parsed(value=None, node=None)
        repeats = _repeats(path, node)
        return Parsed(value=loader.construct_document(node), node=node, repeats=repeats)
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


def _repeats(path: Path, root: yaml.Node) -> tuple[Repeat, ...]:
    """The keys that stand twice. Raises: ManifestError for aliases that unfold to more than any file is."""
    waiting, seen = [root], 0
    found: dict[int, Repeat] = {}
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
                    found[line] = Repeat(key=name, line=line, first_line=lines[name])
                lines.setdefault(name, line)
    return tuple(found[line] for line in sorted(found))


def line_of(node: yaml.Node, place: Iterable[Any]) -> int:
    """The 1-based line of the deepest part of `place` (keys and indices from the root) that the file has."""
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
    return int(line) + 1
