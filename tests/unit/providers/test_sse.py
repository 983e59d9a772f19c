from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.providers.base import MalformedResponseError
from workers.providers.sse import SseEvent, SseParser


def parse(*chunks: bytes) -> list[tuple[str, str]]:
    parser = SseParser()
    events: list[SseEvent] = []
    for chunk in chunks:
        events += parser.feed(chunk)
    return [(event.name, event.data) for event in (*events, *parser.finish())]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_all_three_line_ends_are_line_ends(end: bytes) -> None:
    assert parse(end.join([b"event: a", b"data: 1", b"", b"data: 2", b"", b""])) == [("a", "1"), ("", "2")]


def test_a_crlf_cut_in_two_is_one_line_end() -> None:
    assert parse(b"data: 1\r", b"\ndata: 2\r", b"\n\r", b"\n") == [("", "1\n2")]
    assert parse(b"data: 1\r", b"", b"\n", b"\n") == [("", "1")]
    assert parse(b"data: 1\r", b"\r", b"data: 2\n\n") == [("", "1"), ("", "2")]


def test_lines_of_data_are_joined_and_lose_one_space() -> None:
    assert parse(b"data: a\ndata:b\ndata:  c\ndata\n\n") == [("", "a\nb\n c\n")]


def test_comments_ids_and_unknown_fields_are_passed_over() -> None:
    assert parse(b": keep-alive\n\nid: 7\nretry: 10\nfoo: bar\ndata: x\n: more\n\n") == [("", "x")]


def test_an_event_without_data_is_none_and_leaves_no_name_behind() -> None:
    assert parse(b"event: ping\n\ndata: x\n\n") == [("", "x")]


def test_a_byte_order_mark_is_ignored_at_the_start_only() -> None:
    assert parse(b"\xef", b"\xbb\xbfdata: x\n\n") == [("", "x")]
    assert parse(b"data: x\n\n\xef\xbb\xbfdata: y\n\n") == [("", "x")]


def test_a_character_cut_in_two_is_whole() -> None:
    assert parse(b"data: \xf0\x9f", b"\xa6\x8a\n\n") == [("", "🦊")]
    assert parse(b"data: \xff\n\n") == [("", "\ufffd")]


def test_the_last_event_needs_no_blank_line_but_a_whole_line() -> None:
    assert parse(b"data: 1\n\ndata: 2\n") == [("", "1"), ("", "2")]
    assert parse(b"data: 1\n\ndata: {half") == [("", "1")]


def test_an_endless_line_and_an_endless_event_are_refused() -> None:
    parser = SseParser(max_event_bytes=10)
    assert parser.feed(b"data: 1234") == []
    with pytest.raises(MalformedResponseError, match="larger than 10 bytes"):
        parser.feed(b"5")
    parser = SseParser(max_event_bytes=10)
    with pytest.raises(MalformedResponseError):
        parser.feed(b"data: 1\n" * 2)
    parser = SseParser(max_event_bytes=10)
    assert len(parser.feed(b"data: 1\n\n" * 50)) == 50


_piece = st.sampled_from(
    [
        b"data: ",
        b"data:",
        b"event: e",
        b": c",
        b"\r",
        b"\n",
        b"\r\n",
        b"x",
        "é🦊".encode(),
        b"\xff",
        b"\xef\xbb\xbf",
        b":",
    ]
)


@given(st.lists(_piece, max_size=40).map(b"".join), st.lists(st.integers(0, 120), max_size=12))
def test_every_way_of_cutting_gives_the_same_events(body: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    chunks = [body[start:end] for start, end in itertools.pairwise(edges)]
    assert parse(*chunks) == parse(body)
    assert parse(*(body[i : i + 1] for i in range(len(body)))) == parse(body)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_raising(body: bytes) -> None:
    assert all("\r" not in data for _, data in parse(body))
