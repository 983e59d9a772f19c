"""Whoever adds a problem gets a sentence where its folder is not in order."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from workers.providers.simulator.catalogue import Catalogue, KnowledgeError, load_catalogue, load_problem

PROGRAM = "def double(number):\n    return number * 2\n"
DATA: dict[str, Any] = {
    "spec": "Double a number.",
    "path": "double.py",
    "notes": "Short.",
    "bugs": {
        "square": {
            "severity": "high",
            "category": "correctness",
            "good": "return number * 2\n",
            "planted": "return number ** 2\n",
            "quote": "return number ** 2",
            "seen_by": ["sim-birch-large"],
            "wordings": {"sim-birch": "The number is squared."},
            "agreed": "The number is squared and not doubled.",
            "lead": {"does": "fix", "reason": "It is doubled now."},
        }
    },
    "variants": [{"name": "squares", "bugs": ["square"]}],
}
INVENTION = {**DATA["bugs"]["square"], "at": "return number * 2", "quote": ""}
INVENTION = {key: value for key, value in INVENTION.items() if key not in {"good", "planted"}}


def folder_with(tmp_path: Path, data: object, *, program: str = PROGRAM) -> Path:
    folder = tmp_path / "double"
    folder.mkdir()
    (folder / "problem.yaml").write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    (folder / "double.py").write_text(program)
    return folder


def changed(path: str, value: object) -> dict[str, object]:
    """The data with one value replaced, by its dotted path."""
    data: dict[str, Any] = copy.deepcopy(DATA)
    *parents, last = path.split(".")
    place = data
    for parent in parents:
        place = place[parent]
    place[last] = value
    return data


def test_a_folder_in_order_is_a_problem(tmp_path: Path) -> None:
    problem = load_problem(folder_with(tmp_path, DATA))
    assert problem.name == "double"
    assert problem.code_of(problem.variants[0]) == PROGRAM.replace("* 2", "** 2")
    assert Catalogue.of([problem]).find(" Double  a\nnumber. ") is problem
    assert problem.name_behind("The number\nis squared.") == "square"
    assert problem.name_behind("the number is squared.") is None


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("a: [", "double/problem.yaml is not YAML"),
        ("[]", "double/problem.yaml must be a mapping with the key 'path'"),
        (changed("path", "other.py"), "there is no solution 'other.py' beside it"),
        (changed("colour", "red"), "colour: Extra inputs are not permitted"),
        (changed("bugs.square.severity", "awful"), "bugs.square.severity: Input should be 'low', 'medium'"),
        (changed("bugs.square.good", "return 2 * number\n"), "'good' must stand in double.py exactly once"),
        (changed("bugs.square.quote", "return number"), "'quote' must be one line of 'planted'"),
        (
            changed(
                "bugs.square",
                {**DATA["bugs"]["square"], "quote": "return number * 2", "planted": "return number * 2\n"},
            ),
            "'quote' stands in the good solution too",
        ),
        (
            changed("bugs.square.seen_by", ["sim-cedar-large"]),
            "'wordings' has neither sim-cedar-large nor sim-cedar",
        ),
        (changed("bugs.square.lead.does", "pretend"), "'before' and 'after' are needed by 'does: pretend'"),
        (changed("bugs.square.lead.before", "return number * 2\n"), "'before' and 'after' are needed"),
        (
            changed("variants", [{"name": "odd", "bugs": ["cube"]}]),
            "names 'cube', which is not among the bugs",
        ),
        (changed("variants", [{"name": "odd", "bugs": ["square"] * 2}]), "must stand in it exactly once"),
        (changed("inventions", {"square": INVENTION}), "a bug has that name"),
        (changed("inventions", {"odd": {**INVENTION, "at": "pass"}}), "'at' must be a line of double.py"),
        (changed("inventions", {"odd": INVENTION}), "there is nothing to fix"),
        (
            changed(
                "inventions", {"odd": {**INVENTION, "lead": {"does": "dismiss", "reason": "It is doubled."}}}
            ),
            "'The number is squared.' words two remarks",
        ),
    ],
)
def test_a_folder_out_of_order_gets_a_sentence(tmp_path: Path, data: object, sentence: str) -> None:
    with pytest.raises(KnowledgeError) as caught:
        load_problem(folder_with(tmp_path, data))
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("double/problem.yaml")
    assert "\n" not in str(caught.value)


def test_the_catalogue_is_read_once() -> None:
    assert load_catalogue() is load_catalogue()
