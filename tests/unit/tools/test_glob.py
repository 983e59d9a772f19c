"""Patterns mean the same for files on a disk and files that were submitted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cpu_time import within_cpu_seconds
from workers.tools import glob
from workers.tools.glob import matches, walk

FILES = ("a.md", "docs/b.md", "docs/deep/er/c.md", "docs/d.txt", ".git/e.md", "docs/.f.md", "docsx/g.md")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path in FILES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.md", ["a.md"]),
        ("./*.md", ["a.md"]),
        ("docs/*.md", ["docs/b.md"]),
        ("docs/**/*.md", ["docs/b.md", "docs/deep/er/c.md"]),
        ("docs/**", ["docs/b.md", "docs/d.txt", "docs/deep/er/c.md"]),
        ("**/*.md", ["a.md", "docs/b.md", "docs/deep/er/c.md", "docsx/g.md"]),
        ("docs/?.txt", ["docs/d.txt"]),
        ("docs/.f.md", ["docs/.f.md"]),
        ("docs/b.md", ["docs/b.md"]),
        ("d+cs/b.md", []),
        ("gone/**/*.md", []),
    ],
)
def test_a_pattern_finds(tree: Path, pattern: str, found: list[str]) -> None:
    assert sorted(walk(tree, pattern)) == found
    assert set(found) <= {path for path in FILES if matches(path, (pattern,))}


def test_links_are_not_followed(tree: Path) -> None:
    (tree / "inside").mkdir()
    (tree / "inside/link.md").symlink_to(tree / "a.md")
    (tree / "inside/folder").symlink_to(tree / "docs")
    (tree / "start").symlink_to(tree / "docs")
    assert list(walk(tree, "inside/**/*.md")) == []
    assert list(walk(tree, "start/*.md")) == []


def test_a_tree_without_end_is_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glob, "MAX_ENTRIES", 3)
    with pytest.raises(ValueError, match="looks through more than 3 files; begin it with a folder"):
        list(walk(tree, "**/*.md"))
    assert list(walk(tree, "docs/deep/**/*.md")) == ["docs/deep/er/c.md"]


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("**/" * 20 + "x", "/".join("abcdefghijklmnopqrstuvwxyz") + "/y"),
        ("*a" * 30 + "b", "a" * 200),
        ("**a" * 30 + "c", "a/" * 100 + "b"),
    ],
)
def test_no_pattern_and_name_take_longer_than_their_lengths_say(pattern: str, path: str) -> None:
    """As regular expressions each of these runs for hours."""
    assert not within_cpu_seconds(0.5, lambda: matches(path, (pattern,)))


def _as_expression(pattern: str) -> re.Pattern[str]:
    """The meaning, written down a second time."""
    words = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", pattern)
    return re.compile("".join(words.get(part) or re.escape(part) for part in parts), re.DOTALL)


@given(
    st.lists(st.sampled_from(["**/", "**", "*", "?", "a", "b", "/"]), max_size=6).map("".join),
    st.text("ab/*?", max_size=8),
)
def test_patterns_mean_what_the_expression_says(pattern: str, path: str) -> None:
    assert matches(path, (pattern,)) == bool(_as_expression(pattern).fullmatch(path))
