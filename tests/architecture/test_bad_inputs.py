"""The page of bad inputs is held against tests and code: what it names is there, its limits are those of the code."""

from __future__ import annotations

import ast
import re

from tests.architecture.named_tests import ROOT, missing_tests, named_in
from workers.settings import Settings

PAGE = (ROOT / "docs/bad-inputs.md").read_text(encoding="utf-8")
_LIMITS, _, _TRIED = PAGE.partition("## What a model replies")


def rows(text: str) -> list[list[str]]:
    """Cells of each row of its tables, without heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines if not line.startswith(("| input |", "| of |"))]


def constant(file: str, name: str) -> int | float:
    """A number that a module is given at its top, computed without importing it."""
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
            return number(node.value)
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name and node.value is not None:
            return number(node.value)
    raise AssertionError(f"{file} has no {name}")


def number(node: ast.expr) -> int | float:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return number(node.left) * number(node.right)
    if isinstance(node, ast.Name):
        assert node.id == "MIB"
        return 1024 * 1024
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, int | float)
    return node.value


def test_every_test_that_the_page_names_is_there() -> None:
    assert missing_tests(PAGE) == []


def test_every_input_names_its_test() -> None:
    tried = rows(_TRIED)
    assert len(tried) > 40
    assert [row[0] for row in tried if len(row) != 3 or not named_in(row[2])] == []


def test_the_limits_are_those_of_the_code() -> None:
    held = 0
    for what, limits, source in rows(_LIMITS):
        said = [int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", limits)]
        there: list[int | float] = []
        file = ""
        for name in re.findall(r"`([\w/.]+)`", source):
            if name.endswith(".py"):
                file = name
            elif name.startswith("CONSENSUS_"):
                there.append(Settings.model_fields[name.removeprefix("CONSENSUS_").lower()].default)
            else:
                there.append(constant(file, name))
        if what == "a model's reply, as bytes":
            code = (ROOT / file).read_text(encoding="utf-8")
            assert "max_body_bytes: int = 16 * 1024 * 1024" in code
            there = [16 * 1024 * 1024]
        assert said == there, what
        held += len(said)
    assert held > 20
