"""Alarms from a SARIF file, whatever habits its tool has.

What a tool may leave out is looked for where others put it: the rule in `rule`, `ruleId` or `ruleIndex`, its
severity in `security-severity`, the level or the tool's own words, the CWE in tags, taxa or relationships, the
path as a URI against any base. What cannot be a result is refused with its place."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from workers.core.alarm import Alarm
from workers.core.artefact import Span
from workers.core.finding import Severity
from workers.errors import SarifError

MAX_ALARMS = 25_000
MAX_MESSAGE_CHARACTERS = 1000
MAX_FLOW_PLACES = 10
#: Of a path, so many folders are looked at from its end.
MAX_FOLDERS = 60

_NOT_ALARMS = frozenset({"pass", "notApplicable", "informational"})
_LEVELS = {"error": Severity.HIGH, "warning": Severity.MEDIUM, "note": Severity.LOW, "none": Severity.LOW}
_WORDS = {
    "critical": Severity.CRITICAL,
    "high": Severity.HIGH,
    "medium": Severity.MEDIUM,
    "moderate": Severity.MEDIUM,
    "low": Severity.LOW,
}
_CWE = re.compile(r"\bcwe[-_: /]*0*(\d{1,5})\b", re.IGNORECASE)
_ARGUMENT = re.compile(r"\{(\d{1,2})\}")
_UNKEEPABLE = re.compile("[\x00\ud800-\udfff]")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Alarms:
    """The alarms in the file's order, and how many results are none: passed, suppressed or gone already."""

    alarms: tuple[Alarm, ...]
    skipped: int


def read_sarif(value: object, *, paths: Collection[str]) -> Alarms:
    """The alarms of a parsed SARIF log. `paths`: the files of the code, to find places in it.

    Raises: SarifError, with the place.
    """
    log = _object(value, "the file")
    runs = _array(log.get("runs"), "runs")
    version = str(log.get("version", "2.1.0"))
    if not version.startswith("2."):
        raise SarifError(f"version: is {version[:20]!r}; SARIF 2.1.0 is read")
    known = _Paths(paths)
    alarms: list[Alarm] = []
    skipped = 0
    for number, item in enumerate(runs):
        run = _Run(_object(item, f"runs[{number}]"), f"runs[{number}]", known)
        for alarm in run.alarms(first=len(alarms) + 1):
            if alarm is None:
                skipped += 1
            else:
                alarms.append(alarm)
            if len(alarms) > MAX_ALARMS:
                raise SarifError(f"runs: hold more than {MAX_ALARMS:,} alarms; split the file")
    return Alarms(alarms=tuple(alarms), skipped=skipped)


def alarms_in(value: object, paths: Collection[str]) -> tuple[Alarm, ...]:
    """The alarms to judge. Raises: SarifError, with the place, also where there are none."""
    read = read_sarif(value, paths=paths)
    if not read.alarms:
        settled = f"; {read.skipped} results are settled already" if read.skipped else ""
        raise SarifError(f"runs: hold no alarm that is open{settled}")
    return read.alarms


class _Run:
    def __init__(self, run: Mapping[str, Any], place: str, paths: _Paths) -> None:
        self._place, self._paths = place, paths
        self._results = _array(run.get("results") or [], f"{place}.results")
        tool = _object(run.get("tool") or {}, f"{place}.tool")
        driver = _object(tool.get("driver") or {}, f"{place}.tool.driver")
        self._tool = str(driver.get("name") or "unknown")[:100]
        self._rules = [rule for rule in _list(driver.get("rules")) if isinstance(rule, dict)]
        self._by_id = {str(rule.get("id")): rule for rule in self._rules}
        for extension in _list(tool.get("extensions")):
            if isinstance(extension, dict):
                rules = (rule for rule in _list(extension.get("rules")) if isinstance(rule, dict))
                self._by_id |= {str(rule.get("id")): rule for rule in rules}
        self._artifacts = _list(run.get("artifacts"))
        bases = run.get("originalUriBaseIds")
        self._bases = bases if isinstance(bases, dict) else {}

    def alarms(self, *, first: int) -> Iterator[Alarm | None]:
        """Each result's alarm, None for a result that is none."""
        number = first
        for index, item in enumerate(self._results):
            place = f"{self._place}.results[{index}]"
            result = _object(item, place)
            if _is_settled(result):
                yield None
                continue
            yield self._alarm(result, place, f"A{number}")
            number += 1

    def _alarm(self, result: Mapping[str, Any], place: str, alarm_id: str) -> Alarm:
        rule_id, rule = self._rule(result)
        locations = _array(result.get("locations") or [], f"{place}.locations")
        first = _object(locations[0], f"{place}.locations[0]") if locations else {}
        prints = result.get("partialFingerprints")
        return Alarm(
            alarm_id=alarm_id,
            tool=self._tool,
            rule=rule_id,
            message=_kept(_message(result, rule))[:MAX_MESSAGE_CHARACTERS] or rule_id,
            severity=_severity(result, rule),
            span=self._span(first, f"{place}.locations[0]"),
            cwe=_cwe(result, rule),
            flow=tuple(self._flow(result)),
            fingerprints={
                _kept(str(key))[:100]: _kept(text)[:200]
                for key, text in (prints.items() if isinstance(prints, dict) else ())
                if isinstance(text, str)
            },
        )

    def _rule(self, result: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        reference = result.get("rule")
        reference = reference if isinstance(reference, dict) else {}
        rule_id = result.get("ruleId") or reference.get("id")
        index = result.get("ruleIndex", reference.get("index"))
        if isinstance(rule_id, str) and rule_id:
            # `CA1000/1` is a rule below `CA1000`.
            rule = self._by_id.get(rule_id) or self._by_id.get(rule_id.rpartition("/")[0]) or {}
            return _kept(rule_id)[:200], rule
        if isinstance(index, int) and 0 <= index < len(self._rules):
            rule = self._rules[index]
            return _kept(str(rule.get("id") or "unknown"))[:200], rule
        return "unknown", {}

    def _span(self, location: Mapping[str, Any], place: str) -> Span:
        physical = _object(location.get("physicalLocation") or {}, f"{place}.physicalLocation")
        artifact = _object(
            physical.get("artifactLocation") or {}, f"{place}.physicalLocation.artifactLocation"
        )
        region = _object(physical.get("region") or {}, f"{place}.physicalLocation.region")
        start = _line(region.get("startLine"), 1, f"{place}.physicalLocation.region.startLine")
        end = _line(region.get("endLine"), start, f"{place}.physicalLocation.region.endLine")
        return Span(path=self._path(artifact), start=start, end=max(start, end))

    def _path(self, artifact: Mapping[str, Any]) -> str:
        index = artifact.get("index")
        if "uri" not in artifact and isinstance(index, int) and 0 <= index < len(self._artifacts):
            entry = self._artifacts[index]
            location = entry.get("location") if isinstance(entry, dict) else None
            artifact = location if isinstance(location, dict) else {}
        base = self._bases.get(str(artifact.get("uriBaseId")))
        root = str(base.get("uri") or "") if isinstance(base, dict) else ""
        return self._paths.find(str(artifact.get("uri") or ""), root)

    def _flow(self, result: Mapping[str, Any]) -> Iterator[Span]:
        """Places of the first code flow, and related places; what is malformed here is passed over."""
        found: list[Any] = list(_list(result.get("relatedLocations")))
        for flow in _list(result.get("codeFlows"))[:1]:
            for thread in _list(flow.get("threadFlows") if isinstance(flow, dict) else None)[:1]:
                steps = _list(thread.get("locations") if isinstance(thread, dict) else None)
                found += [step.get("location") for step in steps if isinstance(step, dict)]
        taken = 0
        for location in found:
            if taken == MAX_FLOW_PLACES:
                return
            try:
                span = self._span(_object(location, "flow"), "flow")
            except SarifError:
                continue
            if self._paths.has(span.path):
                taken += 1
                yield span


class _Paths:
    """Finds what a tool calls a file among the files of the code."""

    def __init__(self, paths: Collection[str]) -> None:
        self._paths = frozenset(paths)
        #: End of a path, from a slash on → the paths that end so.
        self._by_end: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            for end in _ends(path):
                self._by_end.setdefault(end, []).append(path)

    def has(self, path: str) -> bool:
        return path in self._paths

    def find(self, uri: str, root: str) -> str:
        """The file's path; the URI's own path where the code has no such file, or more than one."""
        path = _uri_path(uri)
        for candidate in (path, path.removeprefix(_uri_path(root)).lstrip("/")):
            if candidate in self._paths:
                return candidate
        # A scan of another folder: the one file whose path ends like this, or the reverse.
        alike = self._by_end.get(path, []) + [end for end in _ends(path) if end in self._paths]
        return alike[0] if len(alike) == 1 else path[:255]


def _ends(path: str) -> Iterator[str]:
    """What of a path is left when folders are taken from its front, at least one."""
    names = path.rsplit("/", MAX_FOLDERS)
    for number in range(1, len(names)):
        yield "/".join(names[number:])


def _uri_path(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return _kept(uri)
    path = parts.path if parts.scheme in {"", "file"} else uri
    path = _kept(unquote(path)).replace("\\", "/")
    while path.startswith("./"):
        path = path[2:]
    return path


def _is_settled(result: Mapping[str, Any]) -> bool:
    suppressions = [item for item in _list(result.get("suppressions")) if isinstance(item, dict)]
    is_suppressed = any(item.get("status", "accepted") == "accepted" for item in suppressions)
    return is_suppressed or result.get("kind") in _NOT_ALARMS or result.get("baselineState") == "absent"


def _message(result: Mapping[str, Any], rule: Mapping[str, Any]) -> str:
    message = result.get("message")
    message = message if isinstance(message, dict) else {"text": message} if isinstance(message, str) else {}
    text = message.get("text") or message.get("markdown")
    strings = rule.get("messageStrings")
    if not text and isinstance(strings, dict):
        string = strings.get(str(message.get("id")))
        text = string.get("text") if isinstance(string, dict) else None
    if not isinstance(text, str) or not text:
        short = rule.get("shortDescription") or rule.get("fullDescription")
        text = str(short.get("text") or "") if isinstance(short, dict) else ""
    arguments = [str(argument)[:200] for argument in _list(message.get("arguments"))[:20]]

    def filled(found: re.Match[str]) -> str:
        number = int(found[1])
        return arguments[number] if number < len(arguments) else found[0]

    # Once, and not argument by argument: an argument that names the next one would multiply itself.
    return " ".join(_ARGUMENT.sub(filled, text[: 4 * MAX_MESSAGE_CHARACTERS]).split())


def _severity(result: Mapping[str, Any], rule: Mapping[str, Any]) -> Severity:
    own, ruled = _properties(result), _properties(rule)
    for properties in (own, ruled):
        score = _number(properties.get("security-severity"))
        if score is not None:
            return (
                Severity.CRITICAL
                if score >= 9
                else Severity.HIGH
                if score >= 7
                else Severity.MEDIUM
                if score >= 4
                else Severity.LOW
            )
    for properties in (own, ruled):
        for name in ("issue_severity", "severity", "problem.severity"):
            word = _WORDS.get(str(properties.get(name)).lower())
            if word is not None:
                return word
    configuration = rule.get("defaultConfiguration")
    default = configuration.get("level") if isinstance(configuration, dict) else None
    return _LEVELS.get(str(result.get("level") or default), Severity.MEDIUM)


def _cwe(result: Mapping[str, Any], rule: Mapping[str, Any]) -> int | None:
    for source in (result, rule):
        for text in _cwe_texts(source):
            match = _CWE.search(text)
            if match:
                return int(match[1])
    return None


def _cwe_texts(source: Mapping[str, Any]) -> Iterator[str]:
    properties = _properties(source)
    for name in ("cwe", "CWE", "cwes", "issue_cwe", "tags"):
        value = properties.get(name)
        if isinstance(value, dict):
            value = f"CWE-{value.get('id')}"
        for item in _list(value) or [value]:
            # Where the field is called cwe, a bare number is one.
            yield f"CWE-{item}" if name != "tags" and str(item).isdigit() else str(item)
    for taxon in _list(source.get("taxa")):
        yield from _taxon(taxon)
    for relation in _list(source.get("relationships")):
        yield from _taxon(relation.get("target") if isinstance(relation, dict) else None)


def _taxon(reference: object) -> Iterator[str]:
    if not isinstance(reference, dict):
        return
    component = reference.get("toolComponent")
    name = str(component.get("name") or "") if isinstance(component, dict) else ""
    yield f"{name}-{reference.get('id')}" if name.upper() == "CWE" else str(reference.get("id"))


def _properties(source: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = source.get("properties")
    return properties if isinstance(properties, dict) else {}


def _number(value: object) -> float | None:
    try:
        return float(str(value)) if value is not None else None
    except ValueError:
        return None


def _line(value: object, default: int, place: str) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise SarifError(f"{place}: is {str(value)[:20]!r}; a line is a whole number from 1")
    return max(1, value)


def _object(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SarifError(f"{place}: is {_kind(value)}; SARIF has an object there")
    return value


def _array(value: object, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise SarifError(f"{place}: is {_kind(value)}; SARIF has an array there")
    return value


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _kind(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a text", type(None): "missing", bool: "true or false"}
    return names.get(type(value), "a number")


def _kept(text: str) -> str:
    return _UNKEEPABLE.sub("�", text)
