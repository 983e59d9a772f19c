"""The page of threats is held against tests and code: what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.named_tests import ROOT, defined_in, missing_tests, named_in

PAGE = ROOT / "docs/threat-model.md"


def test_every_test_that_the_page_names_is_there() -> None:
    assert missing_tests(PAGE.read_text(encoding="utf-8")) == []


def test_every_threat_names_a_test() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| wants |")]
    assert len(rows) > 50
    assert [row for row in rows if not named_in(row.split(" | ")[-1])] == []


def test_every_file_that_the_page_names_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:api|workers|migrations|tests)/[\w/]*(?:\.py)?)`", text))
    assert len(named) > 25
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    ("name", "is_there"),
    [
        ("tests/test_some.py::test_plain", True),
        ("tests/test_some.py::test_waits", True),
        ("tests/test_some.py::TestGroup::test_inner", True),
        ("tests/test_some.py::test_plain[first case]", True),
        ("tests/test_some.py::test_inner", False),
        ("tests/test_some.py::test_other", False),
        ("tests/test_some.py::helper", False),
        ("tests/test_gone.py::test_plain", False),
    ],
)
def test_a_test_that_is_not_there_would_be_seen(tmp_path: Path, name: str, is_there: bool) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_some.py").write_text(
        "def helper(): ...\ndef test_plain(): ...\nasync def test_waits(): ...\n"
        "class TestGroup:\n    def test_inner(self): ...\n",
        encoding="utf-8",
    )
    defined_in.cache_clear()
    assert (missing_tests(f"shown by `{name}`", tmp_path) == []) is is_there
