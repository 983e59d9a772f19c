"""Lines of a file, by number, whatever ends them; sentences that stay short."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import spec_lines
from api.spec_lines import BadLine, lines_of, parse_line
from workers.errors import SpecError


def read(body: bytes) -> list[tuple[int, bytes]]:
    return list(lines_of(io.BytesIO(body)))


@given(
    st.lists(st.tuples(st.binary(max_size=8), st.sampled_from([b"\n", b"\r\n"])), max_size=6),
    st.binary(max_size=8),
    st.booleans(),
)
def test_lines_come_with_their_numbers_and_without_their_ends(
    given_lines: list[tuple[bytes, bytes]], last: bytes, has_mark: bool
) -> None:
    clean = [(text.replace(b"\n", b"").rstrip(b"\r"), end) for text, end in given_lines]
    last = last.replace(b"\n", b"").rstrip(b"\r")
    if clean and clean[0][0].startswith(b"\xef\xbb\xbf"):
        has_mark = True
        clean[0] = (clean[0][0].removeprefix(b"\xef\xbb\xbf"), clean[0][1])
    body = b"".join(text + end for text, end in clean) + last
    expected = [text for text, _ in clean] + ([last] if last else [])
    mark = b"\xef\xbb\xbf" if has_mark and expected else b""
    assert read(mark + body) == list(enumerate(expected, start=1))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_that_is_too_long_is_cut_off_and_the_next_one_keeps_its_number(
    monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    monkeypatch.setattr(spec_lines, "MAX_LINE_BYTES", 100)
    for size in (99, 100):
        assert read(b"x" * size + end) == [(1, b"x" * size)]
    for size in (101, 102, 103, 199, 200, 201, 202, 203, 204, 1000):
        (first, cut), *rest = read(b"x" * size + end + (b"next" if end else b""))
        assert (first, len(cut) > 100, len(cut) <= 103) == (1, True, True), size
        assert rest == ([(2, b"next")] if end else [])
        with pytest.raises(SpecError, match="has more than 100 bytes"):
            parse_line(cut)


def test_a_sentence_that_quotes_too_much_is_cut() -> None:
    bad = BadLine.of(3, SpecError("x" * 501))
    assert (bad.line, len(bad.problem), bad.problem[-2:]) == (3, 500, "x…")
    assert BadLine.of(3, SpecError("x" * 500)).problem == "x" * 500
