"""docs/glossary.md has every stage, every word for a state and every table, and none that there is not."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from workers.core.batch import BatchState
from workers.core.claim import ClaimState
from workers.core.run import Outcome, RunState, SeatState, Stage
from workers.core.scoring import PartState, ScoringStage, ScoringState
from workers.core.webhook import DeliveryState
from workers.provenance.models import metadata

PAGE = (Path(__file__).parents[2] / "docs/glossary.md").read_text(encoding="utf-8")
STATES: dict[str, type[StrEnum]] = {
    "run": RunState,
    "outcome": Outcome,
    "batch": BatchState,
    "seat": SeatState,
    "claim": ClaimState,
    "scoring": ScoringState,
    "part": PartState,
    "delivery": DeliveryState,
}


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def words(text: str) -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


def test_every_stage_is_explained_in_its_order() -> None:
    assert words(section("Stages")) == [stage.value for kind in (Stage, ScoringStage) for stage in kind]


def test_every_word_for_a_state_is_explained_with_what_it_is_a_state_of() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", section("Words for states"), re.MULTILINE)
    explained = {(word, of) for word, subjects in rows for of in subjects.split(", ")}
    assert explained == {(state.value, of) for of, states in STATES.items() for state in states}
    assert len(words(section("Words for states"))) == len(dict(rows))


def test_every_table_is_explained() -> None:
    assert sorted(words(section("Tables"))) == sorted(metadata.tables)


def test_no_word_is_explained_twice() -> None:
    terms = re.findall(r"^\| \*\*([^*]+)\*\*", PAGE, re.MULTILINE)
    named = [term.strip() for line in terms for term in line.split(",")]
    assert sorted(named) == sorted(set(named))
