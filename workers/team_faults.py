"""What is wrong with a team file, every fault of it: the line, the field, and what would be right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from workers.core.team import Team
from workers.errors import ManifestError
from workers.providers.chain import check_chain
from workers.yaml_text import Repeat, line_of

#: What a text must look like, by the field (or the field it is an item of).
_FORMS = {
    "models": "provider/model, for example openai/gpt-6-luna",
    "never_dismiss_cwe": "CWE and a number, for example CWE-78",
    "aliases": "a name without blanks",
    "url": "http:// or https:// and an address",
}
_NAME_FORM = "small letters, digits, '-'"
#: What pydantic calls the wrong kind of value, in words that a YAML author uses.
_KINDS = {
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
}


def field_faults(node: yaml.Node, error: ValidationError) -> list[str]:
    """`line: field: sentence` for each fault, in the order of lines."""
    items = error.errors(include_url=False)
    found = [fault for item in items if not _follows(item, items) for fault in _of_item(node, item)]
    return [f"{line}: {sentence}" for line, sentence in sorted(found)]


def _follows(item: ErrorDetails, items: Sequence[ErrorDetails]) -> bool:
    """A list that is too short only because a wrong entry was taken out of it: that entry is the fault."""
    place = item["loc"]
    return item["type"] == "too_short" and any(
        other["loc"][: len(place)] == place and len(other["loc"]) > len(place) for other in items
    )


def repeat_fault(repeat: Repeat) -> str:
    return f"{repeat.line}: {repeat.key[:60]}: stands twice, first on line {repeat.first_line}; keep one"


def provider_faults(node: yaml.Node, team: Team) -> list[str]:
    """Links whose provider nobody knows."""
    found = []
    for place, seat in team.chains():
        for number, entry in enumerate(seat.models):
            try:
                check_chain([entry])
            except ManifestError as error:
                where = (*place, "models", number)
                found.append((line_of(node, where), f"{_field(where)}: {error}"))
    return [f"{line}: {sentence}" for line, sentence in sorted(found)]


def _of_item(node: yaml.Node, item: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    if item["type"] == "team_rule":
        for place, message in item["ctx"]["broken"]:
            yield line_of(node, place), f"{_field(place)}: {message}"
        return
    place = [part for part in item["loc"] if part != "[key]"]
    yield line_of(node, place), f"{_field(place)}: {_sentence(place, item)}"


def _field(place: Sequence[Any]) -> str:
    return ".".join(str(part) for part in place) or "the file"


def _sentence(place: Sequence[Any], item: Mapping[str, Any]) -> str:
    match item["type"]:
        case "extra_forbidden":
            return f"no such field; allowed here: {', '.join(_allowed(place[:-1]))}"
        case "missing":
            meaning = _described(place).get("description")
            return f"is missing ({meaning})" if meaning else "is missing"
        case "string_pattern_mismatch":
            return _wrong_form(place, item["input"])
        case "too_short" | "too_long" as kind:
            bound, word = ("min", "at least") if kind == "too_short" else ("max", "at most")
            number = item["ctx"][f"{bound}_length"]
            noun = "entry" if number == 1 else "entries"
            return f"must have {word} {number} {noun}, not {len(item['input'])}"
        case kind if kind in _KINDS:
            fields = _allowed(place) if kind in ("dict_type", "model_type") else []
            return _KINDS[kind] + (f" with {', '.join(fields)}" if fields else "")
    message = str(item["msg"]).removeprefix("Value error, ")
    return (
        message.replace("Input should be", "must be")
        .replace("Tuple should", "must")
        .replace("Value should", "must")
        .replace("String should", "must")
    )


def _wrong_form(place: Sequence[Any], given: object) -> str:
    if "headers" in place:
        # Not quoted: what stands there instead of a variable's name may be the token itself.
        return "must be the name of a variable that begins with CONSENSUS_MCP_, under the name of a header"
    form = next((_FORMS[part] for part in place if part in _FORMS), _NAME_FORM)
    return f"{str(given)[:60]!r} is not of the form: {form}"


def _described(place: Sequence[Any]) -> dict[str, Any]:
    """The part of the manifest's schema that describes the value at `place`; empty where there is none."""
    schema = Team.model_json_schema()
    here: dict[str, Any] = schema
    for part in place:
        here = (
            here.get("properties", {}).get(part)
            or next(iter(here.get("patternProperties", {}).values()), None)
            or here.get("additionalProperties")
            or here.get("items")
            or {}
        )
        # A field that may be left out is its kind or null.
        here = next((kind for kind in here.get("anyOf", ()) if "$ref" in kind), here)
        reference = here.get("$ref")
        if reference:
            here = {**schema["$defs"][reference.rsplit("/", 1)[1]], **_own_words(here)}
    return here


def _own_words(field: Mapping[str, Any]) -> dict[str, Any]:
    """A field's own description, which says more than that of its kind."""
    return {"description": field["description"]} if "description" in field else {}


def _allowed(place: Sequence[Any]) -> list[str]:
    """The field names of the object at `place`."""
    return sorted(_described(place).get("properties", {}))
