"""The attached stream is cut into two bounded outputs, in whatever pieces it arrives."""

from __future__ import annotations

import hashlib
import struct

from hypothesis import given
from hypothesis import strategies as st

from workers.sandbox.base import Output
from workers.sandbox.stream import Demultiplexer


def frame(stream: int, payload: bytes) -> bytes:
    return struct.pack(">BxxxI", stream, len(payload)) + payload


FRAMES = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=10)


@given(FRAMES, st.integers(min_value=1, max_value=50))
def test_pieces_do_not_matter(frames: list[tuple[int, bytes]], piece: int) -> None:
    sent = b"".join(frame(stream, payload) for stream, payload in frames)
    output = Demultiplexer(keep_bytes=1000, most_bytes=1000)

    assert all(output.feed(sent[at : at + piece]) for at in range(0, len(sent), piece))

    for stream, tail in ((1, output.stdout), (2, output.stderr)):
        whole = b"".join(payload for number, payload in frames if number == stream)
        assert tail.output() == Output(
            tail=whole, size_bytes=len(whole), sha256=hashlib.sha256(whole).hexdigest()
        )
        assert not tail.output().truncated


def test_the_end_is_kept_and_everything_is_counted() -> None:
    output = Demultiplexer(keep_bytes=4, most_bytes=100)

    assert output.feed(frame(1, b"0123") + frame(1, b"456789"))

    kept = output.stdout.output()
    assert (kept.tail, kept.size_bytes, kept.truncated) == (b"6789", 10, True)
    assert kept.sha256 == hashlib.sha256(b"0123456789").hexdigest()


def test_exactly_the_limit_passes_and_one_byte_more_does_not() -> None:
    output = Demultiplexer(keep_bytes=4, most_bytes=10)

    assert output.feed(frame(1, b"0123456789"))
    assert not output.feed(frame(1, b"x"))

    assert output.stdout.output().size_bytes == 10


def test_each_stream_has_a_limit_of_its_own() -> None:
    output = Demultiplexer(keep_bytes=4, most_bytes=10)

    assert output.feed(frame(1, b"0123456789") + frame(2, b"0123456789"))
    assert not output.feed(frame(2, b"x"))


def test_text_has_no_control_characters() -> None:
    raw = b"\x1b[31mred\x1b[0m\ttab\r\nbell\x07 \xff \xe2\x80\xae"
    output = Output(tail=raw, size_bytes=len(raw), sha256="")

    # Escapes, the carriage return, the bell and the right-to-left override go; a bad byte is shown as such.
    assert output.text == "[31mred[0m\ttab\nbell \ufffd "
