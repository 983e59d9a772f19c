"""What filled rating sheets say, for the terminal and as JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from workers.agentlens.agreement import CATEGORIES, Agreement, Study
from workers.agentlens.report import as_json
from workers.cli.plain import plain
from workers.cli.rating_sheet import Answer, Key, Rating
from workers.scoring.table import INTENT_STYLE

_DISPUTES_SHOWN: Final = 25


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A study with what it was made of. key: the labeler's answers, in the order of the study's steps.
    ratings: of each rater, by step. left_out: a sentence for each step that was not compared."""

    study: Study
    key: Key
    ratings: Sequence[Mapping[str, Rating]]
    left_out: Sequence[str]


def document(outcome: Outcome) -> dict[str, Any]:
    """The JSON form: agreement with its interval and raw share, confusion, classes, disputed steps."""
    study, key = outcome.study, outcome.key
    letters = [intent.value for intent in CATEGORIES]
    return {
        "scoring_version": key.version,
        "seed": key.seed,
        "steps": len(key.answers),
        "raters": list(study.raters),
        "among_raters": as_json(study.among),
        "labeler": {
            "by_rater": dict(zip(study.raters, map(as_json, study.by_rater), strict=True)),
            "majority": as_json(study.majority),
            "undecided": study.undecided,
            "everyone": as_json(study.everyone),
            "confusion": {
                "rows": "majority of the raters",
                "columns": "labeler",
                "order": letters,
                "counts": as_json(study.confusion),
            },
            "classes": dict(zip(letters, map(as_json, study.classes), strict=True)),
        },
        "disputes": [_dispute(outcome, position) for position in study.disputes],
        "left_out": list(outcome.left_out),
    }


def _dispute(outcome: Outcome, position: int) -> dict[str, Any]:
    study, answer = outcome.study, outcome.key.answers[position]
    given = [ratings[answer.step] for ratings in outcome.ratings]
    majority = study.majorities[position]
    return {
        "step": answer.step,
        "file": answer.place.file,
        "run": answer.place.run,
        "state": answer.place.state,
        "ratings": {name: rating.intent.value for name, rating in zip(study.raters, given, strict=True)},
        "majority": None if majority is None else majority.value,
        "labeler": answer.intent.value,
        "rule": answer.rule,
        "action": given[0].action,
    }


def print_outcome(outcome: Outcome, console: Console) -> None:
    """κ of everybody with everybody, the confusion, the classes, and the steps to look at."""
    study = outcome.study
    steps, raters = len(outcome.key.answers), len(study.raters)
    console.print(
        Text(f"{steps} steps, {raters} rater{'s' if raters > 1 else ''}, rules {outcome.key.version}", "bold")
    )
    console.print(_agreements(study))
    if study.among is None:
        console.print(Text("one sheet says nothing about the agreement of raters", "yellow"))
    if study.undecided:
        console.print(
            Text(
                f"{study.undecided} steps have no majority and are in no row below; what is left is the easier "
                "part",
                "yellow",
            )
        )
    if study.majority is not None:
        console.print()
        console.print(_confusion(study))
    if study.disputes:
        console.print()
        console.print(_disputes(outcome))
        if len(study.disputes) > _DISPUTES_SHOWN:
            console.print(
                Text(f"and {len(study.disputes) - _DISPUTES_SHOWN} more; --json lists them all", "dim")
            )


def _agreements(study: Study) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("agreement", overflow="fold")
    for name in ("κ", "95 %", "same", "steps"):
        table.add_column(name, justify="right", no_wrap=True)
    rows: list[tuple[str, Agreement | None]] = [("raters with each other, Fleiss", study.among)]
    rows += [
        (f"{plain(name)} with the labeler, Cohen", found)
        for name, found in zip(study.raters, study.by_rater, strict=True)
    ]
    if len(study.raters) > 1:
        rows += [
            ("majority with the labeler, Cohen", study.majority),
            ("all with the labeler, Fleiss", study.everyone),
        ]
    for name, found in rows:
        if found is None:
            continue
        kappa = found.kappa
        table.add_row(
            Text(name),
            _number(kappa.value),
            f"{_number(kappa.low)} to {_number(kappa.high)}",
            f"{100 * found.raw:.1f} %",
            str(found.steps),
        )
    return table


def _confusion(study: Study) -> Table:
    table = Table(box=None, pad_edge=False)
    rated = "majority" if len(study.raters) > 1 else "rater"
    table.add_column(f"{rated} ↓ labeler →", no_wrap=True)
    for intent in CATEGORIES:
        table.add_column(Text(intent.value, INTENT_STYLE[intent.value]), justify="right", min_width=4)
    for name in ("all", "precision", "recall"):
        table.add_column(name, justify="right", no_wrap=True)
    for intent, row, found in zip(CATEGORIES, study.confusion, study.classes, strict=True):
        counts = [
            Text(str(count), "bold" if other is intent else "red" if count else "dim")
            for other, count in zip(CATEGORIES, row, strict=True)
        ]
        shown = Text(intent.value, INTENT_STYLE[intent.value])
        table.add_row(shown, *counts, str(found.rated), _number(found.precision), _number(found.recall))
    table.add_row(
        "all", *(str(found.labeled) for found in study.classes), str(sum(map(sum, study.confusion)))
    )
    return table


def _disputes(outcome: Outcome) -> Table:
    table = Table(box=None, pad_edge=False, expand=True)
    for name in ("step", "rated", "labeler", "rule"):
        table.add_column(name, no_wrap=True)
    table.add_column("action", ratio=1, overflow="ellipsis", no_wrap=True)
    for position in outcome.study.disputes[:_DISPUTES_SHOWN]:
        answer: Answer = outcome.key.answers[position]
        given = [ratings[answer.step] for ratings in outcome.ratings]
        letters = Text(" ").join(
            Text(rating.intent.value, INTENT_STYLE[rating.intent.value]) for rating in given
        )
        shown = plain(" ".join(given[0].action.split()))
        labeler = Text(answer.intent.value, INTENT_STYLE[answer.intent.value])
        table.add_row(answer.step, letters, labeler, str(answer.rule), Text(shown))
    return table


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"
