"""Which lines a rewrite really changed: the ground a lead's fix stands on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cpu_time import within_cpu_seconds
from workers.core.artefact import Span
from workers.core.code_change import changed_spans

LINES = st.lists(
    st.sampled_from(["x = 1", "y = 2", "z = 3", "", "# note", "if x:", "    y = 4", "f(x, y)", 's = "a # b"'])
)


def spans(before: str, after: str, path: str = "a.py") -> list[tuple[int, int]]:
    return [(span.start, span.end) for span in changed_spans({path: before}, {path: after})]


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.py", "x = 1\n", "x = 1  # fixed: was wrong\n"),
        ("a.py", "x = 1  # old\n", "x = 1\n"),
        ("a.py", "x = 1\n", "# fixed\nx = 1\n"),
        ("a.py", "x=1\n", "x  =  1\n"),
        ("a.py", "x = 1\n", "\n\nx = 1\n\n"),
        ("a.py", "x = 1\n", "x = 1   "),
        ("a.py", "x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n"),
        ("a.py", "f(a, b)\n", "f(\n    a,  # first\n    b)\n"),
        ("a.py", "def f():\n    return 1\n", 'def f():\n    """Fixed."""\n    return 1\n'),
        ("a.py", "def f():\n    return 1\n", "def f():\n        return 1\n"),
        ("a.py", "x = (1\n", "x  = (1  # torn\n"),  # not Python at all: compared line by line
        ("a.js", "x = 1;\n", "x = 1; // fixed\n"),
        ("a.js", "x = 1;\n", "/* fixed\n   by the lead */\nx = 1;\n"),
        ("a.ts", "x=1;\n", "x = 1 ;\n"),
        ("a.sh", "x=1\n", "x=1 # fixed\n"),
        ("a.sql", "select 1;\n", "select 1; -- fixed\n"),
        ("Makefile", "all: test\n", "# fixed\nall:  test\n"),
        ("notes.md", "a  b\n", "a b\n\n"),
    ],
)
def test_comments_blanks_and_layout_are_no_change(path: str, before: str, after: str) -> None:
    assert spans(before, after, path) == []


@pytest.mark.parametrize(
    ("path", "before", "after", "expected"),
    [
        ("a.py", "x = 1\ny = 2\n", "x = 1\ny = 3\n", [(2, 2)]),
        ("a.py", "x = 1\n", "x = 1\ny = 2\n", [(2, 2)]),
        ("a.py", 's = "a b"\n', 's = "a  b"\n', [(1, 1)]),  # white space inside a string is meaning
        ("a.py", 's = "a # b"\n', 's = "a # c"\n', [(1, 1)]),  # and a mark inside one no comment
        ("a.py", "f(a,\n  b)\n", "f(a,\n  c)\n", [(1, 2)]),  # a statement changes as a whole
        ("a.py", 's = """a\nb\n"""\n', 's = """a\nc\n"""\n', [(1, 3)]),
        ("a.js", 'u = "http://a";\n', 'u = "http://b";\n', [(1, 1)]),
        ("a.js", "`a\nb`\n", "`a\nc`\n", [(2, 2)]),
        ("a.js", 's = "a b";\n', 's = "a  b";\n', [(1, 1)]),
        ("a.py", "if a:\n  b()\nc()\n", "if a:\n  b()\n  c()\n", [(3, 3)]),  # depth is meaning
        ("a.py", "if a:\n  b()\nc()\nc()\n", "if a:\n  b()\n  c()\nc()\n", [(3, 3)]),
        ("a.py", "x = (\n  1)\n", "y = (\n  1)\n", [(1, 2)]),
        ("a.py", "x\\\n= 1\n", "y\\\n= 1\n", [(1, 2)]),
        ("a.py", "c()\n", "if a:\n  b()\nc()\n", [(1, 2)]),
        ("a.css", "#one { }\n", "#two { }\n", [(1, 1)]),
        ("notes.md", "# One\n", "# Two\n", [(1, 1)]),
        ("a.py", "x = (1\n", "x = (2\n", [(1, 1)]),
    ],
)
def test_a_change_of_meaning_is_found_on_its_lines(
    path: str, before: str, after: str, expected: list[tuple[int, int]]
) -> None:
    assert spans(before, after, path) == expected


def test_what_is_the_same_at_both_ends_is_no_part_of_a_change() -> None:
    body = "\n".join(f"a{number} = {number}" for number in range(300))
    assert spans(f"{body}\nx = 1\ny = 1\nz = 1\n", f"{body}\nx = 1\ny = 2\nz = 1\n") == [(302, 302)]
    assert spans(f"x = 1\n{body}\n", f"x = 2\n{body}\n") == [(1, 1)]


def test_a_line_that_stands_there_often_is_compared_like_any_other() -> None:
    """A matcher that passes over frequent lines of long texts would find all of them changed."""
    before = "p = 1\n" + "x = 1\n" * 205 + "q = 1\n"
    assert spans(before, "p = 2\n" + "x = 1\n" * 205 + "q = 2\n") == [(1, 1), (207, 207)]


def test_two_dashes_begin_a_comment_only_where_the_language_has_them() -> None:
    assert spans("i--;\n", "i--; j\n", "notes.md") == [(1, 1)]
    assert spans("i--;\n", "i--; j\n", "a.lua") == []


def test_a_deletion_is_a_change_of_the_two_lines_around_the_gap() -> None:
    assert spans("a = 1\nb = 2\nc = 3\n", "a = 1\nc = 3\n") == [(1, 2)]
    assert spans("a = 1\nb = 2\n", "b = 2\n") == [(1, 1)]  # at the top
    assert spans("a = 1\nb = 2\n", "a = 1\n") == [(1, 1)]  # at the bottom
    assert spans("a = 1\n", "") == [(1, 1)]  # all of it
    assert spans("a = 1\n", "# gone\n\n") == [(1, 2)]


def test_a_new_file_is_changed_throughout_and_a_vanished_one_has_no_lines() -> None:
    assert changed_spans({}, {"a.py": "x = 1\n\ny = 2\n"}) == (Span(path="a.py", start=1, end=3),)
    assert changed_spans({"a.py": "x = 1\n"}, {}) == ()


def test_a_new_file_is_changed_whatever_it_holds() -> None:
    assert changed_spans({}, {"a.js": "XXXX\n"}) == (Span(path="a.js", start=1, end=1),)


def test_files_that_are_the_same_are_passed_over() -> None:
    before = {"a.py": "x = 1\n", "b.py": "x = 1\n", "c.py": "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\n"}
    after = {**before, "b.py": "x = 2\n", "c.py": "a = 1\nb = 2\nd = 4\ne = 5\n"}
    # What is gone from c.py stood between its lines 2 and 3.
    assert changed_spans(before, after) == (
        Span(path="b.py", start=1, end=1),
        Span(path="c.py", start=2, end=3),
    )


def test_spans_come_by_path_and_name_only_files_of_the_new_version() -> None:
    found = changed_spans({"b.py": "x = 1\n", "a.py": "x = 1\n"}, {"b.py": "x = 2\n", "a.py": "x = 2\n"})
    assert [span.path for span in found] == ["a.py", "b.py"]


@given(st.dictionaries(st.sampled_from(["a.py", "b.js", "c"]), LINES.map("\n".join)))
def test_the_same_files_have_no_change(files: dict[str, str]) -> None:
    assert changed_spans(files, dict(files)) == ()


@given(LINES, LINES, st.sampled_from(["a.py", "a.sh", "a.md"]))
def test_every_line_that_is_new_lies_in_a_span_and_every_span_in_the_file(
    before: list[str], after: list[str], path: str
) -> None:
    found = changed_spans({path: "\n".join(before)}, {path: "\n".join(after)})
    count = max(1, len(after))
    assert all(1 <= span.start <= span.end <= count for span in found)
    for number, line in enumerate(after, start=1):
        if line and not line.startswith("#") and line not in before:
            assert any(span.start <= number <= span.end for span in found)


@given(LINES, LINES)
def test_code_that_differs_has_a_change_and_code_that_does_not_has_none(
    before: list[str], after: list[str]
) -> None:
    def meaning(lines: list[str]) -> list[str]:
        return [line.strip() for line in lines if line and not line.startswith("#")]

    found = spans("\n".join(before), "\n".join(after), "a.sh")
    assert bool(found) == (meaning(before) != meaning(after))


@pytest.mark.parametrize(
    "unit", ["x = 1\n", "x = 1\ny = 2\n", "(", '"""', "`\\", "/*", '"\\', "\n", "'", "}\n{\n"]
)
@pytest.mark.parametrize("path", ["a.py", "a.js"])
def test_hostile_rewrites_are_compared_in_bounded_time(unit: str, path: str) -> None:
    text = unit * (30_000 // len(unit))
    other = "q = 1\n" + text[:15_000] + "\nz = 2\n" + text[15_000:] + "\np = 3"
    within_cpu_seconds(4, lambda: changed_spans({path: text}, {path: other}))


def test_a_rewrite_too_large_to_compare_counts_only_lines_never_seen() -> None:
    before = "".join(f"v{number % 7} = {number % 5}\n" for number in range(3000))
    after = "".join(f"v{number % 7} = {number % 3}\n" for number in range(1500)) + "new = 1\n" + before[:7000]
    assert spans(before, after) == [(1501, 1501)]


def test_moving_a_statement_out_of_a_loop_is_a_change_and_wider_indentation_is_none() -> None:
    inside = {"a.py": "def f(xs):\n    for x in xs:\n        g(x)\n        return x\n"}
    outside = {"a.py": "def f(xs):\n    for x in xs:\n        g(x)\n    return x\n"}
    narrow = {"a.py": "def f(xs):\n  for x in xs:\n    g(x)\n    return x\n"}

    assert changed_spans(inside, outside) == (Span(path="a.py", start=4, end=4),)
    assert changed_spans(inside, narrow) == ()
