"""The fixed JSON form of assessments (AGENTLENS §9). Keys are added, never renamed."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence

from workers.agentlens.assess import Assessment
from workers.agentlens.divergence import Divergence
from workers.agentlens.duplicates import Original
from workers.agentlens.mechanisms import MEANING
from workers.agentlens.reference import Reference
from workers.agentlens.settings import SCORING_VERSION, ScoringSettings

_DECIMALS = 6


def as_json(value: object) -> object:
    """Plain JSON values: numbers rounded to 6 decimals, NaN and infinity as null, tuples as lists, enums as
    their text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return None if not math.isfinite(value) else round(value, _DECIMALS)
    if isinstance(value, Iterable):
        return [as_json(item) for item in value]
    return value


def assessment_document(assessment: Assessment, *, duplicate_of: Original | None = None) -> dict[str, object]:
    """One entry of `assessments`. `duplicate_of`: the run that counts if this one is its copy."""
    scores: dict[str, object] = {}
    for name, score in assessment.scores.items():
        scores[name] = {
            "score": score.score,
            "tier": score.tier,
            **score.signals,
            "spread": score.spread,
        }
    wasted = assessment.waste
    document = {
        "trajectory_id": assessment.trajectory_id,
        "path": assessment.path,
        "problem": assessment.problem,
        "model": assessment.model,
        "outcome": assessment.outcome,
        "steps": assessment.steps,
        "profile": assessment.profile,
        "scores": scores,
        "mechanism": assessment.mechanism,
        "mechanism_meaning": None if assessment.mechanism is None else MEANING[assessment.mechanism],
        "divergence": _divergence(assessment.divergence),
        "matched": [{"step": step, "node": node} for step, node in assessment.matched],
        "waste": {
            "steps": wasted.steps,
            "severity": wasted.severity,
            "tokens": wasted.tokens,
            "findings": wasted.findings,
        },
        "temporal_disorder": assessment.disorder,
        "labels": [
            {"intent": intent, "rule": rule}
            for intent, rule in zip(assessment.intents, assessment.rules, strict=True)
        ],
        "evidence": assessment.evidence,
        "reference": assessment.reference,
        "tokens": assessment.tokens,
        "cost_usd": assessment.cost_usd,
        "duplicate_of": duplicate_of,
        "warnings": assessment.warnings,
    }
    return {key: as_json(value) for key, value in document.items()}


def _divergence(divergence: Divergence | None) -> object:
    return None if divergence is None else dataclasses.asdict(divergence)


def reference_document(reference: Reference, settings: ScoringSettings) -> dict[str, object]:
    """A tree for storing and drawing: its donors with their paths, and its nodes (§4). The root is no node:
    first steps have parent −1."""
    nodes = [reference.node(index) for index in range(len(reference))]
    return {
        "scoring_version": SCORING_VERSION,
        "settings": as_json(settings),
        "donors": [
            {"id": donor.donor_id, "model": donor.model, "path": path}
            for donor, path in zip(reference.donors, reference.paths, strict=True)
        ],
        "nodes": [
            {
                "index": node.index,
                "parent": node.parent,
                "depth": node.depth,
                "intent": as_json(node.state.intent),
                "action": node.action,
                "tool": node.state.tool,
                "path": node.state.path,
                "lines": as_json(node.state.lines),
                "command": None if node.state.command is None else node.state.command.normal,
                "support": node.support,
                "ends": node.ends,
            }
            for node in nodes
        ],
    }


def report_document(
    assessments: Sequence[Mapping[str, object]],
    *,
    cohort: Mapping[str, object],
    settings: ScoringSettings,
    skipped: Sequence[tuple[str, str]] = (),
) -> dict[str, object]:
    """The whole report. `assessments` are `assessment_document`s, in any order: they are sorted by path and
    id. `skipped` are (path, error) of files that could not be read."""
    ordered = sorted(assessments, key=lambda a: (str(a["path"]), str(a["trajectory_id"])))
    return {
        "scoring_version": SCORING_VERSION,
        "profile": settings.profile,
        "settings": as_json(settings),
        "assessments": list(ordered),
        "cohort": as_json(cohort),
        "skipped": [{"path": path, "error": error} for path, error in sorted(skipped)],
    }


def to_bytes(document: Mapping[str, object]) -> bytes:
    """The report's bytes: the same document gives the same bytes. Halves of surrogate pairs, which logs hold
    and UTF-8 cannot, become U+FFFD, so that every parser reads them."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")
