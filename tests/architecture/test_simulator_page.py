"""docs/simulator.md is held against the kinds of faults, their conditions and the command's options."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import yaml

from workers.cli import simulate
from workers.providers.simulator.faults.kind import KINDS
from workers.providers.simulator.faults.rule import When
from workers.providers.simulator.faults.script import read_script, scenario_names
from workers.providers.simulator.retry_statement import GRAMMARS

PAGE = (Path(__file__).parents[2] / "docs/simulator.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"{title}\n")[1].split("\n#")[0]


def first_cells(text: str) -> list[str]:
    rows = re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_every_kind_has_a_row_and_an_example_that_is_read_as_that_kind() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| .* \| `(\{.*\})` \|$", section("### Kinds"), re.MULTILINE)
    assert [kind for kind, _ in rows] == list(KINDS)
    for kind, example in rows:
        (rule,) = read_script(f"rules:\n- {example}\n", place=kind)
        assert rule.fault.kind == kind


def test_every_parameter_stands_in_an_example_of_a_kind_that_has_it() -> None:
    examples = re.findall(r"`(\{fault: .*\})` \|$", PAGE, re.MULTILINE)
    shown = {name for example in examples for name in yaml.safe_load(example)} - {"fault", "when"}
    assert shown == {name for kind in KINDS.values() for name in kind.defaults}


def test_every_condition_grammar_and_scenario_is_described() -> None:
    conditions = PAGE.split("| `when` | holds for |")[1].split("### Kinds")[0]
    assert set(first_cells(conditions)) == {field.name for field in dataclasses.fields(When)}
    grammars = PAGE.split("| `retry_after_as` | a wait")[1]
    assert set(first_cells(grammars)) == set(GRAMMARS)
    assert all(f"`{name}`" in section("## Fault scripts") for name in scenario_names())


def test_the_example_script_is_one() -> None:
    script = PAGE.split("```yaml\n")[1].split("```")[0]
    assert read_script(script, place="docs/simulator.md")


def test_every_option_that_the_page_names_exists_and_every_limit_is_named() -> None:
    parameters = {f"--{name.replace('_', '-')}" for name in simulate.simulate_llm.__annotations__}
    named = set(re.findall(r"--[a-z][a-z0-9-]+", PAGE))
    assert named <= parameters
    assert parameters - named == {"--port", "--host", "--return"}
