"""Tool calls that a model wrote into its text: function tags, JSON in tags, terminal batches, fenced
commands."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from workers.agentlens.formats.base import Json

_FUNCTION = re.compile(r"<function=([\w.-]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
_TAGGED = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)
_FENCED = re.compile(
    r"^```(?:mswea_bash_command|bash|sh|shell|console)?[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE
)
_BASH_FENCED = re.compile(
    r"^```(?:mswea_bash_command|bash|sh|shell)[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE
)


class TextCall(NamedTuple):
    """A call as the text has it."""

    name: str
    arguments: Json


def calls_in(text: str) -> list[TextCall]:
    """The calls that `text` holds in one of the tagged forms or as a terminal batch; empty if it holds
    none."""
    if "<function=" in text:
        return [TextCall(name, dict(_PARAMETER.findall(body))) for name, body in _FUNCTION.findall(text)]
    if "<tool_call>" in text:
        calls = []
        for body in _TAGGED.findall(text):
            call = _object(body)
            if call is not None and isinstance(call.get("name"), str):
                calls.append(TextCall(call["name"], call.get("arguments", call.get("parameters", {}))))
        return calls
    if '"keystrokes"' in text or '"task_complete"' in text:
        return _batch(text)
    return []


def fenced_commands(text: str, *, any_language: bool = False) -> list[str]:
    """The fenced shell blocks of `text`; with `any_language` also blocks without a language."""
    return [body.rstrip("\n") for body in (_FENCED if any_language else _BASH_FENCED).findall(text)]


def _batch(text: str) -> list[TextCall]:
    start, end = text.find("{"), text.rfind("}")
    batch = _object(text[start : end + 1]) if 0 <= start < end else None
    if batch is None:
        return []
    calls = []
    commands = batch.get("commands")
    for command in commands if isinstance(commands, list) else []:
        if isinstance(command, dict) and isinstance(command.get("keystrokes"), str):
            calls.append(TextCall("bash_command", command))
    if batch.get("task_complete") is True:
        calls.append(TextCall("mark_task_complete", {}))
    return calls


def _object(text: str) -> dict[str, Json] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
