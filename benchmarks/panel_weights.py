"""Are weights by record worth anything? Remarks judged by people, each model's record taken from other projects."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from workers.core.weights import Record, earned_weight

#: A record starts as this many resolved findings at the rate of all models.
STRENGTH = 20.0
DRAWS = 2000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    project: str
    model: str
    context: str
    is_valid: bool


def read_remarks(path: Path) -> list[Remark]:
    """The models' remarks of a file in JSON lines; people's own are left out, for they have no model."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [
        Remark(
            project="/".join(change["pr"].split("/")[3:5]),
            model=comment["reviewer"],
            context=comment["context"] or "unknown",
            is_valid=bool(comment["valid"]),
        )
        for change in lines
        for comment in change["comments"]
        if comment["ai"]
    ]


def held_out(remarks: Sequence[Remark], key: Callable[[Remark], str] | None) -> np.ndarray:
    """Each remark's probability of being valid, from records of all other projects; without a key from the
    rate of all remarks there."""
    predicted = np.empty(len(remarks))
    for project in {remark.project for remark in remarks}:
        others = [remark for remark in remarks if remark.project != project]
        rate = sum(remark.is_valid for remark in others) / len(others)
        for index, remark in enumerate(remarks):
            if remark.project == project:
                same = [o for o in others if key and key(o) == key(remark)]
                predicted[index] = record_of(same).precision(prior=rate, strength=STRENGTH)
    return predicted


def record_of(remarks: Sequence[Remark]) -> Record:
    upheld = sum(remark.is_valid for remark in remarks)
    return Record(upheld=upheld, refuted=len(remarks) - upheld)


def report(path: Path) -> None:
    remarks = read_remarks(path)
    valid = np.array([remark.is_valid for remark in remarks], dtype=float)
    projects = sorted({remark.project for remark in remarks})
    home = np.array([projects.index(remark.project) for remark in remarks])
    print(
        f"\nWeights by record: {len(remarks)} remarks of models on {len(projects)} projects, judged by people;"
    )
    print("each record is taken from the other projects. Brier score (less is better), and its difference")
    print("to the common rate with a 95 % interval over projects.")
    plain = (held_out(remarks, None) - valid) ** 2
    rows = {
        "one rate for all": None,
        "by model": lambda remark: remark.model,
        "by model and context": lambda remark: f"{remark.model}/{remark.context}",
    }
    draws = np.random.default_rng(0).multinomial(
        len(projects), np.full(len(projects), 1 / len(projects)), DRAWS
    )
    for name, key in rows.items():
        errors = (held_out(remarks, key) - valid) ** 2
        difference = np.bincount(home, errors - plain, len(projects))
        size = np.bincount(home, minlength=len(projects))
        low, high = np.percentile((draws @ difference) / (draws @ size), [2.5, 97.5])
        print(
            f"  {name:<24}{errors.mean():.4f}   {errors.mean() - plain.mean():+.4f} [{low:+.4f} {high:+.4f}]"
        )
    print("\n  model                            findings   valid   smoothed   weight")
    for model in sorted({remark.model for remark in remarks}):
        record = record_of([remark for remark in remarks if remark.model == model])
        print(
            f"  {model:<32}{record.resolved:9}{record.upheld / record.resolved:8.3f}"
            f"{record.precision():11.3f}{earned_weight(record):9.3f}"
        )
