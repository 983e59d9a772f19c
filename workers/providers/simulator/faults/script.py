"""Reads a fault script: YAML in, rules out, or one sentence with file, line and what would be right."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from workers.errors import InputError
from workers.providers.simulator.faults.kind import (
    KINDS,
    MAX_SECONDS,
    Check,
    Group,
    number,
    one_of,
    parameter_check,
    text,
    whole,
)
from workers.providers.simulator.faults.rule import Rule, When
from workers.providers.simulator.problem import MODELS, family

#: A script is a page; more is a mistake.
MAX_SCRIPT_BYTES = 256 * 1024
MAX_RULES = 1000

_CONDITIONS: Mapping[str, Check] = {
    "model": text("a model's name or a pattern such as claude-*"),
    "family": one_of(*dict.fromkeys(family(model) for model in MODELS)),
    "role": text("a role such as coder, reviewer, consensus or lead"),
    "wire": one_of("openai", "anthropic"),
    "stream": Check(fits=lambda value: isinstance(value, bool), right="true or false"),
    "attempt": whole(1, 1000),
    "nth": whole(1, 1_000_000_000),
    "every": whole(1, 1_000_000_000),
    "probability": number(0, 1),
    "from_seconds": number(0, 1000 * MAX_SECONDS),
    "until_seconds": number(0, 1000 * MAX_SECONDS),
}
#: What the refusal of connections may depend on: nobody has asked anything yet.
_TIMES = ("from_seconds", "until_seconds")


class FaultScriptError(InputError):
    """A fault script cannot be used; names file, line and what would be right."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One key of a mapping, its value, and where they stand."""

    key: str
    key_line: int
    value: Any
    node: yaml.Node

    @property
    def line(self) -> int:
        return self.node.start_mark.line + 1


def load_faults(name: str) -> tuple[Rule, ...]:
    """The rules of a built-in scenario, or of the file of that name. Raises: FaultScriptError."""
    scenarios = _scenarios()
    if name in scenarios:
        return read_script(scenarios[name], place=f"the scenario {name}")
    path = Path(name)
    if path.suffix not in (".yaml", ".yml") and not path.exists():
        close = difflib.get_close_matches(name, scenarios, n=1)
        hint = f"; did you mean {close[0]}?" if close else "."
        raise FaultScriptError(
            f"there is no scenario and no file {name!r}{hint} "
            f"Scenarios: {', '.join(scenarios)}; a script is a file that ends in .yaml"
        )
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SCRIPT_BYTES + 1)
        if len(raw) > MAX_SCRIPT_BYTES:
            raise FaultScriptError(f"{name}: a fault script has at most {MAX_SCRIPT_BYTES} bytes")
        script = raw.decode("utf-8")
    except OSError as error:
        raise FaultScriptError(f"{name}: the fault script cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FaultScriptError(f"{name}: a fault script is a YAML file in UTF-8") from None
    return read_script(script, place=name)


def scenario_names() -> tuple[str, ...]:
    return tuple(_scenarios())


def _scenarios() -> dict[str, str]:
    folder = files("workers.providers.simulator").joinpath("scenarios")
    found = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".yaml")), key=lambda e: e.name
    )
    return {entry.name.removesuffix(".yaml"): entry.read_text(encoding="utf-8") for entry in found}


def read_script(script: str, *, place: str) -> tuple[Rule, ...]:
    """The rules of a script's text; `place` is how messages call it. Raises: FaultScriptError."""
    node = _parse(script, place)
    entries = {entry.key: entry for entry in _entries(node, place, what="a fault script", allowed=("rules",))}
    listed = entries.get("rules")
    if listed is None or not isinstance(listed.node, yaml.SequenceNode):
        line = 1 if listed is None else listed.line
        raise FaultScriptError(f"{place}:{line}: a fault script is a mapping with the key 'rules', a list")
    if len(listed.node.value) > MAX_RULES:
        raise FaultScriptError(f"{place}:{listed.line}: a fault script has at most {MAX_RULES} rules")
    return tuple(_rule(node, place) for node in listed.node.value)


def _parse(script: str, place: str) -> yaml.Node | None:
    try:
        return yaml.compose(script, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise FaultScriptError(
            f"{place}:{line}: this is not YAML: {error.problem or error.context}"
        ) from None
    except (yaml.YAMLError, RecursionError) as error:
        problem = " ".join(str(error).split())[:200]
        raise FaultScriptError(f"{place}:1: this is not YAML: {problem}") from None


def _rule(node: yaml.Node, place: str) -> Rule:
    line = node.start_mark.line + 1
    entries = {entry.key: entry for entry in _entries(node, place, what="a rule")}
    named = entries.pop("fault", None)
    if named is None:
        raise FaultScriptError(
            f"{place}:{line}: a rule needs the key 'fault', for instance fault: rate-limit"
        )
    if not isinstance(named.value, str) or named.value not in KINDS:
        raise FaultScriptError(
            f"{place}:{named.line}: there is no fault {_shown(named.value)}"
            f"{_hint(named.value, KINDS)}; there are {', '.join(KINDS)}"
        )
    kind = KINDS[named.value]
    conditions = entries.pop("when", None)
    given = {}
    for entry in entries.values():
        if entry.key not in kind.defaults:
            has = ", ".join([*kind.defaults, "when"])
            raise FaultScriptError(
                f"{place}:{entry.key_line}: the fault {named.value} has no {_shown(entry.key)}"
                f"{_hint(entry.key, kind.defaults)}; a rule for it may say {has}"
            )
        given[entry.key] = _checked(entry, parameter_check(kind, entry.key), place)
    when = _when(conditions, place, kind_name=named.value) if conditions is not None else When()
    return Rule(fault=kind.fault(named.value, given), when=when)


def _when(conditions: _Entry, place: str, *, kind_name: str) -> When:
    is_listener = KINDS[kind_name].group is Group.LISTENER
    allowed = _TIMES if is_listener else tuple(_CONDITIONS)
    what = f"the 'when' of {kind_name}" if is_listener else "a rule's 'when'"
    found = {
        entry.key: _checked(entry, _CONDITIONS[entry.key], place)
        for entry in _entries(conditions.node, place, what=what, allowed=allowed)
    }
    when = When(**found)
    if when.until_seconds is not None and when.until_seconds <= when.from_seconds:
        raise FaultScriptError(
            f"{place}:{conditions.line}: until_seconds is {when.until_seconds:g}; "
            f"it must be above from_seconds, {when.from_seconds:g}"
        )
    return when


def _checked(entry: _Entry, check: Check, place: str) -> Any:
    if not check.fits(entry.value):
        raise FaultScriptError(
            f"{place}:{entry.line}: {entry.key} is {_shown(entry.value)}; it must be {check.right}"
        )
    return entry.value


def _entries(
    node: yaml.Node | None, place: str, *, what: str, allowed: Collection[str] | None = None
) -> Iterator[_Entry]:
    """The keys of a mapping; no key twice, and none but those `allowed` (None: any)."""
    if not isinstance(node, yaml.MappingNode):
        line = node.start_mark.line + 1 if node is not None else 1
        raise FaultScriptError(f"{place}:{line}: {what} is a mapping, of keys and their values")
    seen: set[str] = set()
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else ""
        if key in seen:
            raise FaultScriptError(f"{place}:{line}: {_shown(key)} stands there twice; once is right")
        seen.add(key)
        if allowed is not None and key not in allowed:
            raise FaultScriptError(
                f"{place}:{line}: {what} has no {_shown(key)}{_hint(key, allowed)}; "
                f"it may say {', '.join(allowed)}"
            )
        yield _Entry(key=key, key_line=line, value=_value(value_node, place), node=value_node)


def _value(node: yaml.Node, place: str) -> Any:
    """A scalar's value. Lists and mappings are read by whoever expects them, through their node."""
    if not isinstance(node, yaml.ScalarNode):
        return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
    try:
        return yaml.SafeLoader("").construct_object(node)
    except (ValueError, yaml.YAMLError):
        line = node.start_mark.line + 1
        raise FaultScriptError(
            f"{place}:{line}: {_shown(node.value)} is no {node.tag.rpartition(':')[2]} that can be read"
        ) from None


def _hint(word: object, known: Collection[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1) if isinstance(word, str) else []
    return f"; did you mean {close[0]}?" if close else ""


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "empty" if value is None else str(value).lower()
    return repr(str(value)[:60]) if isinstance(value, str) else str(value)[:60]
