"""What a simulated reviewer says of a scanner's alarms: a few rules of thumb, and the slips of a model.

It knows no labels. It looks at the names in the alarmed lines: constants make an alarm benign, parameters of the
enclosing function make it exploitable, anything else is a doubt. Some models invent a quote or shrug now and then, as
real ones do, so that what code makes of such answers can be seen."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from workers.providers.simulator.material import Question

_NAME = re.compile(r"(?<![\w.\"'])([A-Za-z_]\w*)(?!\w*\s*\(|\w*\s*=[^=])")
_CONSTANT = r"^{name}(?:: [^=\n]+)? = (?:[rbf]?[\"'(\[]|-?\d|True|False|None).*$"
_TEXT = re.compile(r"[rbuRBU]?(?:\"[^\"\n]*\"|'[^'\n]*')")
_HOLE = re.compile(r"\{([^{}\"'\n]+)\}")
_KEYWORDS = frozenset(
    (
        "return",
        "for",
        "in",
        "if",
        "else",
        "and",
        "or",
        "not",
        "is",
        "with",
        "as",
        "None",
        "True",
        "False",
        "lambda",
    )
)
#: What an import or a literal alone can be blamed for is seldom harm.
_HARMLESS = re.compile(r"^\s*(?:import \w|from \w+(?:\.\w+)* import )")
#: Out of 16 answers of a model, how many quote a line that is not there, and how many shrug.
_SLIPS = {"large": (1, 1), "small": (3, 2)}


def judge(question: Question, model: str) -> dict[str, Any]:
    """The answer of role `triage`; the same question and model give the same text."""
    alarms = [claim for claim in question.claims if isinstance(claim.get("id"), str)]
    judgements = [_judge_one(alarm, question.files, model) for alarm in alarms]
    return {"judgements": judgements, "summary": f"Alarms judged by rules of thumb: {len(judgements)}."}


def _judge_one(alarm: Mapping[str, Any], files: Mapping[str, str], model: str) -> dict[str, Any]:
    path, lines = alarm.get("path"), alarm.get("lines")
    text = files.get(path, "") if isinstance(path, str) else ""
    start = lines[0] if isinstance(lines, list) and lines and isinstance(lines[0], int) else 0
    source = text.splitlines()
    if not 1 <= start <= len(source) or not source[start - 1].strip():
        return _said(alarm, "uncertain", "exploitability", "The line is not shown.", [])
    digest = hashlib.blake2b(
        f"{model}|{path}|{source[start - 1]}|{alarm.get('rule')}".encode(), digest_size=1
    )
    slip = digest.digest()[0] % 16
    invented, shrugs = _SLIPS.get(model.rpartition("-")[2], (0, 0))
    if slip < invented:
        made_up = {"path": path, "line": start, "quote": f"assert is_safe({path!r})  # checked above"}
        return _said(alarm, "benign", "correctness", "The value was checked before.", [made_up])
    if slip < invented + shrugs:
        return _said(alarm, "uncertain", "reachability", "It depends on the callers.", [])
    return _by_names(alarm, str(path), source, start)


def _by_names(alarm: Mapping[str, Any], path: str, source: Sequence[str], start: int) -> dict[str, Any]:
    line = source[start - 1]
    here = _quote(path, source, start)
    if _HARMLESS.match(line):
        return _said(alarm, "benign", "exploitability", "An import alone does nothing.", [here])
    names = _names(line)
    definition = _definition(source, start)
    taken = _parameters(source[definition - 1]) & names if definition else set()
    if taken:
        quotes = [_quote(path, source, definition), here]
        reason = f"{sorted(taken)[0]} comes from whoever calls this."
        return _said(alarm, "exploitable", "exploitability", reason, quotes)
    constants = {name: _constant(source, name) for name in names}
    known = [number for number in constants.values() if number]
    if len(known) == len(names):
        quotes = [here, *(_quote(path, source, number) for number in sorted(set(known)))]
        return _said(alarm, "benign", "reachability", "Nothing but constants gets there.", quotes)
    return _said(alarm, "uncertain", "reachability", "Where the values come from is not shown.", [])


def _names(line: str) -> set[str]:
    """Names whose values matter: not those of calls, keywords or modules, but those inside of f-strings."""
    holes = " ".join(
        hole for text in re.findall(r"f\"[^\"\n]*\"|f'[^'\n]*'", line) for hole in _HOLE.findall(text)
    )
    bare = re.sub(r"\bf(?=[\"'])", "", line)
    plain = _TEXT.sub('""', bare)
    found = set(_NAME.findall(f"{plain} {holes}"))
    modules = set(re.findall(r"\b(\w+)\.", plain))
    assigned = set(re.findall(r"^\s*(\w+) = ", plain))
    return {name for name in found if name not in _KEYWORDS | modules | assigned}


def _definition(source: Sequence[str], line: int) -> int:
    """The line of the `def` around a line, 0 if there is none."""
    depth = len(source[line - 1]) - len(source[line - 1].lstrip())
    for number in range(line, 0, -1):
        text = source[number - 1]
        indent = len(text) - len(text.lstrip())
        if re.match(r"\s*(?:async )?def ", text) and (indent < depth or number == line):
            return number
        if text.strip():
            depth = min(depth, indent) if number != line else depth
    return 0


def _parameters(definition: str) -> set[str]:
    inside = definition.partition("(")[2].rpartition(")")[0]
    return {match for match in re.findall(r"(?:^|,)\s*\*{0,2}(\w+)", inside) if match != "self"}


def _constant(source: Sequence[str], name: str) -> int:
    """The line that makes a name of the module a constant, 0 if none does."""
    pattern = re.compile(_CONSTANT.format(name=re.escape(name)))
    return next((number for number, line in enumerate(source, start=1) if pattern.match(line)), 0)


def _quote(path: str, source: Sequence[str], number: int) -> dict[str, Any]:
    return {"path": path, "line": number, "quote": source[number - 1].strip()}


def _said(
    alarm: Mapping[str, Any], word: str, ground: str, reason: str, evidence: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {
        "alarm": alarm["id"],
        "verdict": word,
        "ground": ground,
        "reason": reason,
        "evidence": list(evidence),
    }
