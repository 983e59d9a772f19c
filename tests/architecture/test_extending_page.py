"""docs/extending.md is held against the files: what its recipes touch is there under the name they give it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What a recipe makes is not there yet.
MADE = {
    "workers/agentlens/formats/plain_steps.py",
    "workers/agentlens/waste/late_listing.py",
    "workers/stages/survey.py",
}


def page() -> str:
    return " ".join((ROOT / "docs/extending.md").read_text(encoding="utf-8").split())


def test_every_file_of_a_recipe_is_there_and_what_it_makes_is_not() -> None:
    named = set(re.findall(r"`((?:workers|api|tests|migrations)/[\w/.]+)`", page()))
    assert named >= MADE
    assert [name for name in sorted(named - MADE) if not (ROOT / name).exists()] == []
    assert [name for name in sorted(MADE) if (ROOT / name).exists()] == []


def test_every_name_of_a_recipe_stands_in_the_file_that_it_is_said_to_stand_in() -> None:
    pairs = re.findall(r"((?:`\w+`(?:, | and ))*`\w+`) (?:in|from) `([\w/.]+\.py)`", page())
    assert len(pairs) > 15
    missing = [
        f"{file}: {name}"
        for names, file in pairs
        for name in re.findall(r"`(\w+)`", names)
        if not re.search(rf"\b{name}\b", (ROOT / file).read_text(encoding="utf-8"))
    ]
    assert missing == []


def test_there_is_a_recipe_for_each_thing_that_is_made_to_be_added() -> None:
    titles = re.findall(r"^## (.+)$", (ROOT / "docs/extending.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert titles == ["A team", "A provider", "A trajectory format", "A waste detector", "A stage"]
