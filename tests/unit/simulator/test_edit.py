"""Blocks of whole lines, found under any indentation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.providers.simulator.edit import Place, find_all, line_range, replace_block

TEXT = "def f():\n    if a:\n        b()\n\n    if a:\n        c()\n"


def test_a_block_is_found_under_its_indentation() -> None:
    assert find_all(TEXT.split("\n"), ("if a:", "    b()")) == [Place(start=1, indent="    ")]
    assert line_range(TEXT, ("if a:", "    b()", "", "if a:")) == (2, 5)


def test_only_whole_lines_match() -> None:
    assert find_all(["x = min(1, 2)"], ("min(1, 2)",)) == []
    assert find_all(["x = 12"], ("x = 1",)) == []
    assert find_all(["if a:", "  b()"], ("if a:", "    b()")) == []
    assert line_range("a", ("a", "b")) is None


def test_a_block_is_replaced_only_where_it_stands_once() -> None:
    replaced = replace_block(TEXT, ("if a:", "    c()"), ("while a:", "", "    d()"))
    assert replaced == "def f():\n    if a:\n        b()\n\n    while a:\n\n        d()\n"
    assert replace_block(TEXT, ("if a:",), ("pass",)) is None
    assert replace_block(TEXT, ("if b:",), ("pass",)) is None


LINE = st.text(alphabet="ab ", max_size=4).map(str.rstrip)


@given(st.lists(LINE, max_size=8), st.integers(0, 8), st.integers(0, 3))
def test_replacing_and_replacing_back_changes_nothing(lines: list[str], place: int, indent: int) -> None:
    before, after = ("first:", "    second", "", "third"), ("other",)
    block = [" " * indent + line if line else "" for line in before]
    text = "\n".join([*lines[:place], *block, *lines[place:]])
    changed = replace_block(text, before, after)
    assert changed is not None
    assert replace_block(changed, after, before) == text
