"""Where a run's outcome may stand beside its log: reports of graders, Harbor's trial results, label files.

Only `Trajectory.outcome` ever takes a value from here."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

from workers.agentlens.formats.base import Json, Source, number
from workers.agentlens.trajectory import RunOutcome, Trajectory
from workers.errors import TrajectoryError

_REPORTS = ("report.json", "results.json", "../report.json", "../results.json", "output.report.json")
_PASSED = frozenset(("passed", "pass", "true", "resolved", "1", "yes", "success"))
_FAILED = frozenset(("failed", "fail", "false", "unresolved", "0", "no", "failure"))
_KEYS = ("trajectory_id", "path", "file", "name", "id", "instance_id", "task_id", "traj_id")
_VERDICTS = ("outcome", "resolved", "passed", "pass", "label", "target", "pass_fail_status", "result")
_ID_LISTS: tuple[tuple[str, RunOutcome], ...] = (
    ("error_ids", "unknown"),
    ("incomplete_ids", "unknown"),
    ("resolved_ids", "passed"),
    ("resolved", "passed"),
    ("unresolved_ids", "failed"),
    ("unresolved", "failed"),
    ("empty_patch_ids", "failed"),
)


def verdict(value: Json) -> RunOutcome:
    """A pass/fail value in any of its usual spellings."""
    if isinstance(value, bool):
        return "passed" if value else "failed"
    if isinstance(value, (int, float)):
        # A number that is not itself is none; a whole one may be too long for `math.isnan`.
        return "unknown" if value != value else "passed" if value >= 1 else "failed"  # noqa: PLR0124
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _PASSED or word in _FAILED:
            return "passed" if word in _PASSED else "failed"
        try:
            return verdict(float(word))  # a table that was written by way of floats has 1.0 and 0.0
        except ValueError:
            return "unknown"
    return "unknown"


def from_report(report: Json, instance: str | None) -> RunOutcome:
    """The outcome that a grader's report gives for `instance`: `resolved`, `report.resolved`,
    `test_result.report.resolved`, an object keyed by instance, or lists of resolved and unresolved ids.
    A report that says that grading itself broke gives unknown."""
    if not isinstance(report, Mapping):
        return "unknown"
    if isinstance(report.get("resolved"), (bool, int)):
        broke = report.get("error_eval") is True or report.get("test_timeout") is True
        return "unknown" if broke else verdict(report["resolved"])
    named = (report.get(instance), None) if instance is not None else (None, None)
    for inner, name in ((report.get("report"), instance), (report.get("test_result"), instance), named):
        found = from_report(inner, name)
        if found != "unknown":
            return found
    for name, outcome in _ID_LISTS:
        ids = report.get(name)
        if instance is not None and isinstance(ids, list) and instance in ids:
            return outcome
    return "unknown"


def from_trial(result: Json) -> RunOutcome:
    """The outcome of a Harbor trial: reward 1 passed; less than 1 failed, unless an exception ended
    the trial."""
    if not isinstance(result, Mapping):
        return "unknown"
    verifier = result.get("verifier_result")
    rewards = verifier.get("rewards") if isinstance(verifier, Mapping) else None
    reward = None
    if isinstance(rewards, Mapping):
        reward = number(rewards.get("reward", next(iter(rewards.values()), None)))
    elif isinstance(verifier, Mapping):
        reward = number(verifier.get("reward"))
    if reward is None:
        return "unknown"
    if reward >= 1:
        return "passed"
    return "unknown" if result.get("exception_info") else "failed"


def beside(source: Source, instance: str | None) -> RunOutcome:
    """The outcome that files beside the log give: Harbor's trial result, its reward, a grader's report."""
    for name in ("result.json", "../result.json"):
        found = from_trial(_load(source, name))
        if found != "unknown":
            return found
    for name in ("../verifier/reward.txt", "verifier/reward.txt"):
        text = source.beside(name)
        if text is not None:
            try:
                return "passed" if float(text) >= 1 else "failed"
            except ValueError:
                continue
    for name in ("../verifier/reward.json", "verifier/reward.json"):
        reward = _load(source, name)
        if isinstance(reward, Mapping) and number(reward.get("reward")) is not None:
            return "passed" if float(reward["reward"]) >= 1 else "failed"
    names = _REPORTS if instance is None else (*_REPORTS, f"eval_outputs/{instance}/report.json")
    for name in names:
        found = from_report(_load(source, name), instance)
        if found != "unknown":
            return found
    return "unknown"


def _load(source: Source, name: str) -> Json:
    data = source.beside(name)
    if data is None:
        return None
    try:
        return source.decode(data)
    except (ValueError, RecursionError):
        return None


class Labels:
    """Outcomes handed in by the user; they win over everything a log says."""

    def __init__(self, outcomes: Mapping[str, RunOutcome]) -> None:
        self._outcomes = dict(outcomes)

    def outcome_of(self, trajectory: Trajectory) -> RunOutcome | None:
        """The label of a run, looked up by id, by path and its endings, then by problem; None if it
        has none."""
        path = trajectory.path.replace("\\", "/")
        names = [trajectory.trajectory_id]
        parts = path.split("/")
        names += ["/".join(parts[start:]) for start in range(len(parts))]
        if trajectory.problem:
            names.append(trajectory.problem)
        return next((self._outcomes[name] for name in names if name in self._outcomes), None)


def read_labels(path: str, data: bytes) -> Labels:
    """Labels from JSONL or a JSON list of objects, CSV with a header, a JSON object of id to verdict, or a
    grader's report with id lists. A row names a run by id, path or problem, and its verdict by one of the
    usual columns; rows without a verdict are left out."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TrajectoryError(f"{path}: byte {error.start}: labels must be UTF-8 text") from error
    if text.lstrip().startswith("{") and (found := _labels_object(text)) is not None:
        return Labels(found)
    outcomes: dict[str, RunOutcome] = {}
    rows = _label_rows(path, text)
    for position, row in enumerate(rows, start=1):
        names = [str(row[name]) for name in _KEYS if row.get(name)] if isinstance(row, dict) else []
        if not names:
            known = ", ".join(_KEYS)
            raise TrajectoryError(f"{path}: row {position}: no run is named; expected one of {known}")
        value: RunOutcome = next(
            (verdict(row[name]) for name in _VERDICTS if row.get(name) not in (None, "")), "unknown"
        )
        if value != "unknown":
            outcomes[names[0]] = value
            if row.get("path"):
                outcomes[str(row["path"])] = value
    if rows and not outcomes:
        raise TrajectoryError(
            f"{path}: no row has a verdict; expected passed or failed, true or false, 1 or 0, in one of the "
            f"columns {', '.join(_VERDICTS)}"
        )
    return Labels(outcomes)


def _label_rows(path: str, text: str) -> list[Any]:
    head = text.lstrip()[:1]
    try:
        if head == "[":
            return list(json.loads(text))
        if head == "{":
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        return list(csv.DictReader(io.StringIO(text)))
    except (ValueError, csv.Error, RecursionError) as error:
        raise TrajectoryError(f"{path}: labels are neither JSON, JSONL nor CSV: {error}") from error


def _labels_object(text: str) -> dict[str, RunOutcome] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or any(name in value for name in _KEYS):
        return None
    outcomes: dict[str, RunOutcome] = {}
    for name, listed in _ID_LISTS:
        if isinstance(value.get(name), list):
            outcomes |= {str(item): listed for item in value[name] if str(item) not in outcomes}
    if not outcomes:
        for key, item in value.items():
            found: RunOutcome = from_report(item, None) if isinstance(item, dict) else verdict(item)
            if found != "unknown":
                outcomes[str(key)] = found
    return outcomes
