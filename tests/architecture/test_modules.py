"""Rules about the source itself that no linter of ours checks."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_LINES = 400
VAGUE = {"util", "utils", "helper", "helpers", "common", "manager", "managers", "misc"}
#: The one module that opens and ends transactions.
SESSION = ROOT / "workers" / "provenance" / "session.py"

SOURCES = sorted(
    path
    for folder in ("api", "workers", "teams", "migrations", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if "problems" not in path.parts  # the simulator's programs are material, not ours
)
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def commits(tree: ast.AST) -> list[int]:
    """Lines that call a method which ends a transaction by hand."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "commit"
    ]


def test_the_sources_are_found() -> None:
    assert {"workers/core/consensus.py", "api/app.py", "migrations/env.py"} <= {
        short(path) for path in SOURCES
    }


def test_no_module_is_longer_than_400_lines() -> None:
    lengths = {short(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {path: length for path, length in lengths.items() if length > MAX_LINES} == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    named = {short(path) for path in SOURCES if {part.lower() for part in path.with_suffix("").parts} & VAGUE}
    assert named == set()


def test_only_the_session_commits() -> None:
    assert commits(ast.parse("connection.commit()")) == [1]
    found = {
        short(path): lines
        for path in SOURCES
        if path != SESSION and (lines := commits(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found == {}


@pytest.mark.parametrize(
    "mark", [r"\bTODO\b", r"\bFIXME\b", r"pragma: no cover", r"pytest\.mark\.skip", r"pytest\.skip\("]
)
def test_nothing_is_put_off_hidden_or_skipped(mark: str) -> None:
    found = [short(path) for path in (*SOURCES, *TESTS) if re.search(mark, path.read_text(encoding="utf-8"))]
    assert found == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        short(path)
        for path in SOURCES
        if (text := path.read_text(encoding="utf-8")).strip() and ast.get_docstring(ast.parse(text)) is None
    ]
    assert silent == []
