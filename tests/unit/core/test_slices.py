"""What of an artefact is shown within a budget of tokens, and what is said to be left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.core.artefact import Span, numbered
from workers.core.slices import Removed, choose, cut, merge, unseen, view

MODULE = """\
import os

# Says hello.
@cached
def hello():
    return 1

class Shelf:
    size = 3

    def put(self, book):
        self.book = book

    @property
    def full(self):
        return True

LIMIT = 5
"""

TEXT = st.text(alphabet="abc(): \n#@", max_size=120)
FILES = st.dictionaries(st.sampled_from(["a.py", "b.js", "c.md", "d/e.json"]), TEXT, max_size=4)


def span(start: int, end: int, path: str = "a.py") -> Span:
    return Span(path=path, start=start, end=end)


def test_a_file_is_cut_where_definitions_begin_with_what_is_attached_to_them() -> None:
    pieces = cut(MODULE.splitlines(), span(1, 18), most_tokens=1000)
    assert [(piece.start, piece.end) for piece in pieces] == [
        (1, 2),
        (3, 7),
        (8, 10),
        (11, 13),
        (14, 17),
        (18, 18),
    ]


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("a = 1\n\nb = 2\n", [1, 3]),
        ("a = 1\nb = 2\n", [1]),
        ("a = 1\ndef f():\n    x = 1\n", [1, 2]),
        ("a = (\n\n)\nb = 2\n", [1]),
        ("a = [\n\n]\nb = 2\n", [1]),
        ("a = {\n\n}\nb = 2\n", [1]),
        ("if a:\n\n    b = 2\n", [1]),
        ("if a:\n\n\tb = 2\n", [1]),
        ("a = 1\n\n\n\nb = 2\n", [1, 5]),
        ("a = 1\n\nbb = 2\n\n)c\n", [1, 3]),
        ("a\n# of f\n@cached\ndef f(): ...\n", [1, 2]),
        ("a\n# of nothing\nb\n", [1]),
        ("a\n# at the end\n", [1]),
        ("a\n    @cached\n    def f(self): ...\n", [1, 2]),
        ("a\n\tdef f(self): ...\n", [1, 2]),
        ("a\n     def f(self): ...\n", [1]),  # more than four blanks: inside something
        ("a\nexport default async function f() {}\n", [1, 2]),
        ("a\npub(crate) fn f() {}\n", [1, 2]),
        ("def f():\n    x\n# of g\n# still\ndef g():\n    y\n", [1, 3]),
    ],
)
def test_a_piece_begins_where_something_does(text: str, starts: list[int]) -> None:
    lines = text.splitlines()
    pieces = cut(lines, span(1, len(lines)), most_tokens=1000)
    assert [piece.start for piece in pieces] == starts
    assert pieces[-1].end == len(lines)


@pytest.mark.parametrize(("comments", "starts"), [(21, [1, 2]), (22, [1])])
def test_a_comment_of_more_than_21_lines_is_a_text_of_its_own(comments: int, starts: list[int]) -> None:
    lines = ["a", *["# of f"] * comments, "def f(): ..."]
    assert [piece.start for piece in cut(lines, span(1, len(lines)), most_tokens=1000)] == starts


def test_a_part_of_a_file_is_cut_like_a_whole() -> None:
    lines = ["def f():", "    x = 1", "def g():", "    x = 1", "def h():", "    x = 1"]
    # Lines of 16 and 17 bytes are 6 tokens each, 11 together.
    assert cut(lines, span(3, 6), most_tokens=11) == [span(3, 4), span(5, 6)]
    assert cut(lines, span(3, 6), most_tokens=10) == [span(3, 3), span(4, 4), span(5, 5), span(6, 6)]
    long = ["def f():", *["    x = 1"] * 9]
    assert cut(long, span(5, 10), most_tokens=12) == [span(5, 6), span(7, 8), span(9, 10)]
    assert cut(lines, span(4, 4), most_tokens=1) == [span(4, 4)], "a line is never cut"


def test_a_definition_above_the_budget_is_cut_between_lines() -> None:
    lines = ["def f():", *["    x = 1"] * 9]
    # 8 + 8 and 9 + 8 bytes a line at 3 bytes a token: 6 tokens a line, so 2 lines in 12 tokens.
    pieces = cut(lines, span(1, 10), most_tokens=12)
    assert [(piece.start, piece.end) for piece in pieces] == [(1, 2), (3, 4), (5, 6), (7, 8), (9, 10)]


def test_everything_is_shown_where_there_is_room() -> None:
    selection = choose({"a.py": MODULE, "empty.py": ""}, 10_000)
    assert selection.left_out == ()
    assert selection.shown == {"a.py": (span(1, 18),), "empty.py": ()}
    assert selection.is_whole("a.py", MODULE)
    assert selection.is_whole("empty.py", "")


def test_code_comes_before_data_before_prose_and_whole_files_before_pieces() -> None:
    # 10 lines of 7 + 8 bytes are 50 tokens, and 40 for the tags: 90 a file.
    text = "x = 123\n" * 10
    selection = choose({"a.md": text, "b.json": text, "z.py": text}, 185)
    assert set(selection.shown) == {"z.py", "b.json"}
    assert selection.left_out == (span(1, 10, "a.md"),)
    assert set(choose({"a.md": text, "b.json": text, "z.py": text}, 180).shown) == {"z.py", "b.json"}
    assert set(choose({"a.md": text, "b.json": text}, 90).shown) == {"b.json"}
    assert set(choose({"a.json": text, "b.py": text}, 90).shown) == {"b.py"}
    assert set(choose({"a.md": text, "b.txt": text}, 90).shown) == {"a.md"}


def test_a_file_that_fits_exactly_is_shown_whole() -> None:
    """19 and 19 bytes at 3 bytes a token: 13 tokens together, and 40 for the tags; apart they would be 7 and 7."""
    two = "def f(): ab\ndef g(): ab\n"
    assert choose({"a.py": two}, 53).shown == {"a.py": (span(1, 2),)}
    assert choose({"a.py": two}, 52).shown == {"a.py": (span(1, 1),)}


def test_a_file_of_which_nothing_fits_takes_no_room() -> None:
    """90 tokens go to z.py, and 40 + 6 of the other 50 to a line of c.py; no line of b.py fits beside its tags."""
    long, short = "y" * 40 + "\n", "x = 1234\n"
    files = {"a.py": "x = 123\n" * 10, "b.py": long * 20, "c.py": short * 20}
    selection = choose(files, 140)
    # 8 + 8 bytes are 6 tokens: one line of c.py.
    assert selection.shown == {"a.py": (span(1, 10),), "c.py": (span(1, 1, "c.py"),)}
    assert selection.left_out == (span(1, 20, "b.py"), span(2, 20, "c.py"))


def test_pieces_near_a_claim_come_first_and_then_those_from_the_top() -> None:
    """A piece has 9 + 12 bytes and 3 x 8 for numbers: 45 bytes, 15 tokens; 75 less 40 for the tags hold two."""
    big = "".join(f"def f{number}():\n    return {number}\n\n" for number in range(10))
    near = (span(29, 29, "big.py"),)
    assert choose({"big.py": big}, 75, first=near).shown == {
        "big.py": (span(1, 3, "big.py"), span(28, 30, "big.py"))
    }


def test_a_large_file_is_shown_in_functions_and_the_gaps_are_named_to_the_line() -> None:
    big = "".join(f"def f{number}():\n    return {number}\n\n" for number in range(10))
    selection = choose({"big.py": big}, 100)
    # A function has 9 + 12 + 0 characters and 3 × 8 for numbers: 45 bytes, 15 tokens. 100 - 40 are 60: four of them.
    assert selection.shown == {"big.py": (span(1, 12, "big.py"),)}
    assert selection.left_out == (span(13, 30, "big.py"),)
    assert not selection.is_whole("big.py", big)


def test_what_claims_point_at_has_precedence() -> None:
    big = "".join(f"def f{number}():\n    return {number}\n\n" for number in range(10))
    selection = choose({"a.py": "x = 1\n" * 100, "big.py": big}, 60, first=(span(29, 29, "big.py"),))
    assert selection.shown == {"big.py": (span(28, 30, "big.py"),)}


def test_only_what_is_known_of_a_file_is_shown_and_only_that_can_be_left_out() -> None:
    parts = {"a.py": (span(3, 4), span(8, 8))}
    selection = choose({"a.py": "x\n" * 10}, 1000, parts=parts)
    assert selection.shown == {"a.py": (span(3, 4), span(8, 8))}
    assert selection.left_out == ()
    assert choose({"a.py": "x\n" * 10}, 0, parts=parts).left_out == (span(3, 4), span(8, 8))


@given(FILES, st.integers(0, 200))
def test_every_line_is_shown_or_named_as_left_out_and_none_is_both(
    files: dict[str, str], budget: int
) -> None:
    selection = choose(files, budget)
    for path, text in files.items():
        shown = {line for item in selection.shown.get(path, ()) for line in range(item.start, item.end + 1)}
        left = {
            line
            for item in selection.left_out
            if item.path == path
            for line in range(item.start, item.end + 1)
        }
        assert not shown & left
        assert shown | left == set(range(1, len(text.splitlines()) + 1))


@given(FILES, st.integers(0, 200))
def test_what_is_shown_costs_no_more_than_the_budget(files: dict[str, str], budget: int) -> None:
    selection = choose(files, budget)
    tokens = sum(
        (len(line.encode()) + 8) / 3
        for path, spans in selection.shown.items()
        for item in spans
        for line in files[path].splitlines()[item.start - 1 : item.end]
    )
    assert tokens <= budget


@given(TEXT)
def test_a_whole_file_looks_as_it_always_did(text: str) -> None:
    count = len(text.splitlines())
    assert view(text, [span(1, count)] if count else []) == numbered(text)


def test_gaps_and_removed_lines_are_marked() -> None:
    shown = view(
        "a\nb\nc\nd\ne\n", [span(2, 3)], [Removed(before=3, text="old"), Removed(before=4, text="older")]
    )
    assert view("a\nb\nc\nd\ne\nf\n", [span(2, 2), span(4, 4)]).split("\n") == [
        "… | line 1 is not shown",
        "2 | b",
        "… | line 3 is not shown",
        "4 | d",
        "… | lines 5 to 6 are not shown",
    ]
    assert shown.split("\n") == [
        "… | line 1 is not shown",
        "2 | b",
        "- | old",
        "3 | c",
        "- | older",
        "… | lines 4 to 5 are not shown",
    ]


def test_lines_that_touch_become_one_span() -> None:
    spans = [span(4, 6), span(1, 3), span(8, 9), span(2, 2), span(1, 1, "b.py")]
    assert merge(spans) == (span(1, 6), span(8, 9), span(1, 1, "b.py"))


def test_the_receipt_tells_what_nobody_saw_from_what_too_few_saw() -> None:
    # Three reviewers: lines 5-6 are hidden from all, 3-4 from two, 7 from one; two heads are asked for.
    hidden = [[span(3, 6)], [span(3, 6)], [span(5, 7)]]
    assert unseen(hidden, heads=2) == ((span(5, 6),), (span(3, 4),))
    assert unseen([], heads=2) == ((), ())
    assert unseen([[], []], heads=2) == ((), ())
