"""Code as a page shows it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from api.web.code_view import MOST_COMPARED_LINES, MOST_LINES, FileView, Pin, difference, file_view
from api.web.wording import plain


def text_of(view: FileView) -> list[str]:
    return ["".join(text for _, text in line.pieces) for line in view.lines]


def test_keywords_strings_and_comments_have_colours_of_their_own() -> None:
    view = file_view("a.py", 'def f():\n    return "x"  # why\n')
    assert view.lines[0].pieces[:3] == (("k", "def"), ("", " "), ("f", "f"))
    assert [colour for colour, _ in view.lines[1].pieces if colour] == ["k", "s", "c"]


@given(st.text(), st.sampled_from(["a.py", "a.js", "Makefile", "a.unknown", "a.html"]))
def test_the_pieces_of_all_lines_are_the_text(text: str, path: str) -> None:
    view = file_view(path, text)
    if view.count <= MOST_LINES:
        assert "\n".join(text_of(view)) == plain(text).removesuffix("\n")


def test_a_text_too_long_to_be_taken_apart_is_shown_without_colours() -> None:
    view = file_view("a.py", "import re\n" + "x" * 60_000)
    assert view.lines[0].pieces == (("", "import re"),)


def test_colours_can_be_left_out() -> None:
    assert file_view("a.py", "import re\n", has_colours=False).lines[0].pieces == (("", "import re"),)


def test_lines_of_a_claim_are_marked_and_its_first_line_names_it() -> None:
    pins = [
        Pin(claim_id="C1", path="a.py", start=2, end=3),
        Pin(claim_id="C2", path="b.py", start=1, end=1),
        Pin(claim_id="C3", path="a.py", start=2, end=2),
    ]
    view = file_view("a.py", "a\nb\nc\nd\n", pins)
    assert [line.mark for line in view.lines] == ["", "claimed", "claimed", ""]
    assert [line.pins for line in view.lines] == [(), ("C1", "C3"), (), ()]


def test_a_long_file_is_shown_around_its_claims_and_says_what_is_missing() -> None:
    text = "\n".join(f"line {number}" for number in range(1, 1001))
    view = file_view("a.txt", text, [Pin(claim_id="C1", path="a.txt", start=500, end=501)])
    numbers = [line.number for line in view.lines if line.number]
    # Twelve lines of its head; the claim's two with six on either side.
    assert numbers == [*range(1, 13), *range(494, 508)]
    assert [line.pieces[0][1] for line in view.lines if line.mark == "gap"] == [
        "481 lines not shown",
        "493 lines not shown",
    ]
    assert view.note == "26 of its 1,000 lines"


def test_a_claim_behind_the_end_of_a_long_file_marks_nothing() -> None:
    text = "\n".join("x" for _ in range(500))
    view = file_view("a.txt", text, [Pin(claim_id="C1", path="a.txt", start=9000, end=9001)])
    assert {line.mark for line in view.lines} == {"", "gap"}


def test_a_difference_shows_what_went_and_what_came_with_three_lines_around() -> None:
    before = "".join(f"{number}\n" for number in range(1, 21))
    after = before.replace("10\n", "ten\n")
    (view,) = difference({"a.txt": before, "same.txt": "x"}, {"a.txt": after, "same.txt": "x"})
    assert [(line.number, line.mark) for line in view.lines] == [
        (None, "gap"),
        (7, ""),
        (8, ""),
        (9, ""),
        (None, "removed"),
        (10, "added"),
        (11, ""),
        (12, ""),
        (13, ""),
        (None, "gap"),
    ]
    assert (view.added, view.removed) == (1, 1)


def test_new_and_deleted_files_are_differences_too() -> None:
    views = difference({"old.py": "a\n"}, {"new.py": "b\n"})
    assert [(view.path, view.added, view.removed) for view in views] == [("new.py", 1, 1), ("old.py", 1, 1)]


def test_a_file_too_long_to_be_compared_is_said_to_have_changed() -> None:
    long = "x\n" * MOST_COMPARED_LINES
    (view,) = difference({"a.py": long}, {"a.py": long + "y\n"})
    assert (view.lines, view.note) == ((), "changed; too long to be compared here")
