"""The mark by which no text can close its own fence."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from workers.core.fence import MARK_DIGITS, fence, label

TEXTS = st.lists(st.text(max_size=40), max_size=4)


@given(TEXTS, st.dictionaries(st.text(max_size=10), st.text(max_size=40), max_size=3))
def test_the_mark_stands_in_no_text_and_in_no_name(texts: list[str], files: dict[str, str]) -> None:
    mark = fence([*texts, files])
    assert len(mark) == MARK_DIGITS
    assert not any(mark in text for text in (*texts, *files, *files.values()))


def test_the_same_material_has_the_same_mark_and_other_material_another() -> None:
    assert fence(["a", "b"]) == fence(["a", "b"])
    assert fence(["a", "b"]) != fence(["ab", ""]), "where one text ends is part of it"


def test_the_mark_is_worked_out_from_lengths_and_bytes_alone() -> None:
    """Two workers of two releases must write the same prefix, or no provider's cache holds it."""
    body = hashlib.blake2b(b"2:ab4:a.py3:x\xed\xa0\x80=", digest_size=32).digest()
    mark = hashlib.blake2b(body + bytes(8), digest_size=8).hexdigest()
    assert fence(["ab", {"a.py": "x\ud800="}]) == mark


def test_a_mark_that_is_in_the_text_is_passed_over() -> None:
    class Foreseen(str):
        """A text that claims to hold the first marks, which none can be written to do."""

        asked = 0
        most = 1

        def lower(self) -> Foreseen:
            return self

        def __contains__(self, part: object) -> bool:
            self.asked += 1
            return self.asked <= self.most

    text = Foreseen("x")
    assert fence([text]) != fence(["x"])
    assert text.asked == 2
    body = hashlib.blake2b(b"1:x", digest_size=32).digest()
    twice = Foreseen("x")
    twice.most = 2
    assert [fence([text]), fence([twice])] == [
        hashlib.blake2b(body + number.to_bytes(8, "big"), digest_size=8).hexdigest() for number in (0, 2)
    ]


@given(st.text(max_size=30))
def test_a_label_holds_nothing_that_ends_a_tag_an_attribute_or_a_line(name: str) -> None:
    shown = label(name)
    assert shown.isprintable()
    assert not set(shown) & set('"<>&')


def test_an_ordinary_name_is_its_own_label() -> None:
    assert label("src/häuser [1].py") == "src/häuser [1].py"
    assert label("X.py") == "X.py"
    assert label('a"<\\>&\n') == "a\\u{22}\\u{3c}\\u{5c}\\u{3e}\\u{26}\\u{a}"
