"""Paths as every run writes them alike, and what they are for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agentlens.paths import kind_of, names_a_path, normalise, parent


@pytest.mark.parametrize(
    ("path", "directory", "root", "expected"),
    [
        ("/testbed/a/b.py", "", "", "a/b.py"),
        ("/workspace/django__django__3.0/a.py", "", "", "a.py"),
        ("/srv/repo/a.py", "", "/srv/repo", "a.py"),
        ("/srv/repository/a.py", "", "/srv/repo", "ext:/srv/repository/a.py"),
        ("/tmp/x.py", "", "", "scratch:/tmp/x.py"),
        ("/testbed/a/../b.py", "", "", "b.py"),
        ("./a.py", "", "", "a.py"),
        (".", "", "", ""),
        ("../x.py", "lib", "", "x.py"),
        ("../x.py", "", "", "ext:../x.py"),
        ("..", "", "", "ext:.."),
        ("./...", "", "", "..."),
        ("..x.py", "", "", "..x.py"),
        ("x.py", "ext:/opt", "", "ext:/opt/x.py"),
        ("../testbed/x.py", "ext:/opt", "", "x.py"),
        ("../srv/repo/x.py", "ext:/opt", "/srv/repo", "x.py"),
        ("C:\\repo\\a.py", "", "C:/repo", "a.py"),
        ("C:\\other\\a.py", "", "C:/repo", "ext:C:/other/a.py"),
        ("~/a.py", "", "", "ext:~/a.py"),
        ("~/repo/a.py", "", "~/repo", "a.py"),
        ("/testbed/a/", "", "", "a"),
        ("/testbed//a.py", "", "", "a.py"),
        ("/", "", "", "ext:/"),
        ("a/", "", "", "a"),
        ("a//b.py", "", "", "a/b.py"),
        ("a/./b.py", "", "", "a/b.py"),
        ("Lib/A.py", "", "", "Lib/A.py"),
    ],
)
def test_a_path_is_written_relative_to_the_repository(
    path: str, directory: str, root: str, expected: str
) -> None:
    assert normalise(path, directory, root) == expected


@given(st.text(alphabet="ab./", min_size=1, max_size=20))
def test_normalising_twice_changes_nothing(path: str) -> None:
    once = normalise(path)
    assert once.startswith(("ext:", "scratch:")) or normalise(once or ".") == once


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("django/test/client.py", "source"),
        ("django/db/models/query.py", "source"),
        ("sklearn/utils/testing.py", "source"),
        ("setup.py", "source"),
        ("CHANGES.rst", "source"),
        ("debug_toolbar/panels.py", "source"),
        ("changelog_notes.md", "source"),
        ("check.dat", "source"),
        ("tests/queries/tests.py", "test"),
        ("pkg/tests/models.py", "test"),
        ("test/helper.py", "test"),
        ("src/test/java/Helper.java", "test"),
        ("sympy/core/tests/test_expr.py", "test"),
        ("src/test/java/FooTest.java", "test"),
        ("pkg/thing_test.go", "test"),
        ("web/button.spec.ts", "test"),
        ("conftest.py", "test"),
        ("reproduce_issue.py", "scratch"),
        ("apply_fix.py", "scratch"),
        ("mwe.py", "scratch"),
        ("fix", "scratch"),
        ("scratch:x.dat", "scratch"),
        ("repro/conf.py", "scratch"),
        ("src/a.py.bak", "scratch"),
        ("scratch:/tmp/a.py", "scratch"),
        ("ext:/opt/a.py", "scratch"),
        ("FIX_SUMMARY.md", "note"),
    ],
)
def test_a_path_says_what_writing_to_it_means(path: str, kind: str) -> None:
    assert kind_of(path) == kind


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("a/b", True),
        ("a.py", True),
        ("word", False),
        ("", False),
        ("-a.py", False),
        ("http://a.org/b", False),
        ("https://a.org/b", False),
    ],
)
def test_a_word_with_a_slash_or_a_dot_names_a_path_unless_it_is_an_option_or_a_link(
    word: str, expected: bool
) -> None:
    assert names_a_path(word) is expected


def test_the_parent_is_the_folder_that_holds_the_file() -> None:
    assert [parent(path) for path in ("a/b/c.py", "a/b", "c.py")] == ["a/b", "a", ""]
