"""What may be a file of an artefact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.core.artefact import (
    MAX_ARTEFACT_CHARACTERS,
    MAX_FILES,
    Span,
    files_problem,
    fold,
    numbered,
    path_problem,
)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a" * 256,
        "/etc/passwd",
        "//server/share",
        "~/x",
        "~root/x",
        "..",
        ".",
        "../a",
        "a/../b",
        "a/..",
        "./a",
        "a/./b",
        "a//b",
        "a/",
        "C:\\x",
        "c:/x",
        "C:x",
        "a\\b",
        "..\\b",
        "a\x00b",
        "a\nb",
        "a\x7fb",
        "a\x9bb",  # a control of the upper half
        "a\u202eb",  # writes right to left: shows another name than it is
        "a\u200bb",
        "a\u2028b",
        "a\ud800b",
        'a"><spec>',  # would break out of the prompt's <file path="…">
        "a|b",
        "a*b",
        "a?b",
        "a:stream",
    ],
)
def test_only_plain_relative_paths_name_a_file(path: str) -> None:
    assert path_problem(path) is not None
    assert files_problem({path: "x"}) is not None
    assert (files_problem({path: "x"}) or "").isprintable()


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "is empty or longer than 255 characters"),
        ("a" * 256, "is empty or longer than 255 characters"),
        ("a\nb", "holds control or invisible characters"),
        ("a|b", 'holds one of " * : < > ? |'),
        ("a:b", 'holds one of " * : < > ? |'),
        ("/a", "is not a relative path with forward slashes"),
        ("~a", "is not a relative path with forward slashes"),
        ("a\\b", "is not a relative path with forward slashes"),
        ("a//b", "has an empty, '.' or '..' part"),
    ],
)
def test_a_path_is_refused_with_what_is_wrong(path: str, problem: str) -> None:
    assert path_problem(path) == problem


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "a.py",
        "src/a b.py",
        "…/ü.py",
        ".github/workflows/ci.yml",
        "a..b",
        "...",
        "[id].tsx",
        "a" * 255,
        "日本",
    ],
)
def test_ordinary_names_pass(path: str) -> None:
    assert path_problem(path) is None


@given(st.text(max_size=30))
def test_a_path_that_passes_stays_inside_its_folder(path: str) -> None:
    if path_problem(path) is None:
        parts = path.split("/")
        assert ".." not in parts
        assert "" not in parts
        assert path.isprintable()
        path.encode()


def test_a_file_cannot_also_be_a_folder() -> None:
    assert files_problem({"a": "x", "a/b/c": "y"}) == "file path 'a/b/c' lies in 'a', which is a file itself"
    assert files_problem({"a.py": "x", "a/b": "y"}) is None
    assert (
        files_problem({"a/b": "x", "a/b/c": "y"}) == "file path 'a/b/c' lies in 'a/b', which is a file itself"
    )


def test_a_sentence_shows_eighty_characters_of_a_path() -> None:
    long = "a" * 90
    assert files_problem({f"{long}/b": "x", long: "y"}) == (
        f"file path '{'a' * 80}' lies in '{'a' * 80}', which is a file itself"
    )


def test_limits_hold_at_the_exact_number() -> None:
    assert files_problem({f"f{number}": "" for number in range(MAX_FILES)}) is None
    assert (
        files_problem({f"f{number}": "" for number in range(MAX_FILES + 1)})
        == "65 files; at most 64 are allowed"
    )
    half = "x" * (MAX_ARTEFACT_CHARACTERS // 2)
    assert files_problem({"a": half, "b": half}) is None
    assert "1000001 characters in all" in (files_problem({"a": half, "b": half + "x"}) or "")


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "\ud800", "a\udfff"])
def test_what_is_not_text_is_refused(text: str) -> None:
    assert "only text can be judged" in (files_problem({"a": text}) or "")


def test_spans_meet_when_they_share_a_line_or_lie_within_the_slack() -> None:
    here = Span(path="a", start=3, end=5)
    assert here.overlaps(Span(path="a", start=5, end=9))
    assert not here.overlaps(Span(path="a", start=6, end=9))
    assert here.overlaps(Span(path="a", start=6, end=9), slack=1)
    assert here.overlaps(Span(path="a", start=4, end=4))
    assert not here.overlaps(Span(path="b", start=3, end=5), slack=99)


def test_white_space_folds_to_one_blank() -> None:
    assert fold("  a\t\n b\u00a0c ") == "a b c"


def test_numbers_stand_in_a_column() -> None:
    assert numbered("a\nb") == "1 | a\n2 | b"
    assert numbered("x\n" * 10).splitlines()[0] == " 1 | x"
    assert numbered("") == ""
