"""Pages that say which test shows a claim: every test they name is there."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: `tests/unit/test_log.py::test_x`, also `…::TestClass::test_x` and with a case's name in brackets.
_NAMED = re.compile(r"(tests/[\w/.-]+\.py)((?:::\w+)+)")


@functools.cache
def defined_in(path: Path) -> frozenset[str]:
    """The tests that a file defines, as pytest names them within it; none for a file that is not there."""
    if not path.is_file():
        return frozenset()
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        functions: list[tuple[str, ast.stmt]] = [("", node)]
        if isinstance(node, ast.ClassDef):
            functions = [(f"{node.name}::", inner) for inner in node.body]
        found |= {
            prefix + function.name
            for prefix, function in functions
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            and function.name.startswith("test_")
        }
    return frozenset(found)


def named_in(text: str) -> list[tuple[str, str]]:
    """File and test of every test that a page names."""
    return [(file, names.removeprefix("::")) for file, names in _NAMED.findall(text)]


def missing_tests(text: str, root: Path = ROOT) -> list[str]:
    """Tests that a page names and nobody finds."""
    return [f"{file}::{test}" for file, test in named_in(text) if test not in defined_in(root / file)]
