"""Where edits stood and what encloses them, by the lines that a run has seen."""

from __future__ import annotations

from workers.agentlens.formats.seen_lines import SeenLines
from workers.agentlens.trajectory import Edit, Lines

FILE = "def f():\n    one\n    two\ndef g():\n    three"
SAID = "Here's the result of running `cat -n` on a snippet:\n"


def seen(text: str = FILE, start: int = 1, path: str = "a") -> SeenLines:
    lines = SeenLines()
    lines.remember(path, start, text)
    return lines


def at(start: int, end: int | None = None) -> Lines:
    return Lines(start=start, end=start if end is None else end)


def test_what_a_look_shows_is_known_by_line() -> None:
    assert seen("x\ny", 5).of("a") == {5: "x", 6: "y"}
    assert seen("x\ny", 0).of("a") == {1: "x", 2: "y"}
    assert seen("     7\tx\n     8\ty", 5).of("a") == {7: "x", 8: "y"}
    assert seen("").of("a") == {}
    assert seen("x").of("b") == {}
    lines = seen("x\ny", 5)
    lines.remember("b", 1, "z")
    lines.remember("a", 6, "w\nv")
    assert (lines.of("a"), lines.of("b"), lines.of("a")) == (
        {5: "x", 6: "w", 7: "v"},
        {1: "z"},
        {5: "x", 6: "w", 7: "v"},
    )


def test_a_file_that_is_replaced_is_known_anew_or_not_at_all() -> None:
    lines = seen()
    lines.of("a")
    lines.remember("a", 9, "x")
    lines.replace("a", "y\nz")
    assert lines.of("a") == {1: "y", 2: "z"}
    lines.replace("a", "")
    assert lines.of("a") == {}
    lines.replace("b", "x")
    assert lines.of("b") == {1: "x"}


def test_an_edit_forgets_what_stands_below_it_but_what_it_shows() -> None:
    lines = seen()
    lines.of("a")
    lines.forget_below("a", at(3), {3: "new", 4: "more"})
    assert lines.of("a") == {1: "def f():", 2: "    one", 3: "new", 4: "more"}
    lines.forget_below("b", at(3), {3: "new"})
    assert lines.of("b") == {3: "new"}
    lines.forget_below("c", at(3), {})
    assert lines.of("c") == {}


def test_an_edit_stands_where_its_old_text_was_seen() -> None:
    lines = seen()
    assert lines.place("a", "    two", "    x", "") == (at(3), "f")
    assert lines.of("a") == {1: "def f():", 2: "    one"}
    assert lines.place("a", "    three", "    x", "") == (None, None)
    assert seen().place("a", "    one\n    two", "    one\n    x", "") == (at(2, 3), "f")
    assert seen().place("b", "    two", "    x", "") == (None, None)
    assert seen().place("a", "", "    x", "") == (None, None)


def test_an_edit_stands_where_the_tools_answer_shows_it() -> None:
    said = SAID + "     1\tdef h():\n     2\t    one\n     3\t    x\n     4\t    y"
    lines = SeenLines()
    assert lines.place("a", "    two", "    x", said) == (at(3), "h")
    assert lines.of("a") == {1: "def h():", 2: "    one", 3: "    x", 4: "    y"}
    unmarked = said.removeprefix(SAID)
    assert SeenLines().place("a", "    two", "    x", unmarked) == (None, None)
    lines = seen()
    assert lines.place("a", "    two", "    x", said) == (at(3), "h")


def test_a_text_that_shows_its_own_definition_needs_no_file() -> None:
    old, new = "def h():\n    one\n    two", "def h():\n    one\n    x"
    assert SeenLines().place("a", old, new, "") == (None, "h")
    said = SAID + "     7\tdef h():\n     8\t    one\n     9\t    x"
    lines = seen()
    assert lines.of("a")[4] == "def g():"
    assert lines.place("a", old, new, said) == (at(7, 9), "h")
    assert lines.of("a") == {
        1: "def f():",
        2: "    one",
        3: "    two",
        4: "def g():",
        5: "    three",
        7: "def h():",
        8: "    one",
        9: "    x",
    }
    removed = SeenLines().place("a", "def h():\n    one\n    two", "def h():\n    two", said)
    assert removed == (at(7, 9), "h")
    indented = SAID + "     1\tclass C:\n     2\t    def h(self):\n     3\t        x"
    method = "    def h(self):\n        two", "    def h(self):\n        x"
    assert SeenLines().place("a", *method, indented) == (at(2, 3), "C.h")


def test_edits_of_a_line_are_placed_file_by_file_and_the_first_one_tells_the_scope() -> None:
    lines = seen()
    lines.remember("b", 1, "class C:\n    one")
    edits = (
        Edit(old="    three", new="    x"),
        Edit(old="    one", new="    y", path="b"),
        Edit(old="two", new="z"),
        Edit(old="away", new="w"),
        Edit(old="", new="v", anchor=at(1)),
    )
    placed, scope = lines.place_all("a", edits)
    assert [(edit.old, edit.new, edit.anchor, edit.path) for edit in placed] == [
        ("    three", "    x", at(5), None),
        ("    one", "    y", at(2), "b"),
        ("two", "z", at(3), None),
        ("away", "w", None, None),
        ("", "v", at(1), None),
    ]
    assert scope == "g"
    assert (lines.of("a"), lines.of("b")) == ({}, {1: "class C:"})


def test_edits_of_a_file_that_was_not_seen_are_left_as_they_are() -> None:
    edits = (Edit(old="one", new="x"), Edit(old="two", new="y", path="b"))
    assert SeenLines().place_all("a", edits) == (edits, None)
    lines = seen()
    assert lines.place_all("a", (Edit(old="away", new="x"),)) == ((Edit(old="away", new="x"),), None)
    assert lines.of("a")[5] == "    three"
    elsewhere = (Edit(old="two", new="y", path="a"),)
    placed, scope = seen().place_all("c", elsewhere)
    assert (placed[0].anchor, scope) == (at(3), None)


def test_the_scope_of_a_changed_part_of_a_line_is_that_of_the_line() -> None:
    lines = seen("class C:\n    def f(self):\n        one\n        one more")
    placed, scope = lines.place_all("a", (Edit(old="one more", new="x"), Edit(old="one", new="y")))
    assert (placed[0].anchor, scope) == (at(4), "C.f")
    # Two known lines hold "one": which one is meant is not known.
    assert placed[1].anchor is None
    assert lines.of("a") == {1: "class C:", 2: "    def f(self):", 3: "        one"}
    own = seen("class C:\n    def f(self):\n        one")
    assert own.place_all("a", (Edit(old="def f", new="def g"),))[1] == "C.f"
