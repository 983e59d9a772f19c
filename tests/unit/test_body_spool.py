"""Unpacking by steps."""

from __future__ import annotations

import gzip
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.body_spool import _Gunzip
from workers.errors import InputError

MIB = 1024 * 1024


def test_a_bomb_comes_out_a_mebibyte_at_a_time() -> None:
    bomb = gzip.compress(b" " * (16 * MIB))
    parts = itertools.islice(_Gunzip().feed(bomb), 3)
    assert [len(part) for part in parts] == [MIB] * 3


@given(st.lists(st.binary(max_size=300), max_size=4), st.lists(st.integers(1, 40), min_size=1))
def test_files_put_together_are_one_however_they_are_cut(files: list[bytes], cuts: list[int]) -> None:
    packed = b"".join(map(gzip.compress, files))
    unpack, out = _Gunzip(), b""
    sizes = itertools.cycle(cuts)
    while packed:
        size = next(sizes)
        out += b"".join(unpack.feed(packed[:size]))
        packed = packed[size:]
    unpack.close()
    assert out == b"".join(files)


@given(st.binary(max_size=300), st.data())
def test_a_file_without_its_end_is_refused(body: bytes, data: st.DataObject) -> None:
    packed = gzip.compress(body)
    kept = packed[: data.draw(st.integers(1, len(packed) - 1))]
    unpack = _Gunzip()
    assert body.startswith(b"".join(unpack.feed(kept)))
    with pytest.raises(InputError, match="breaks off before its end"):
        unpack.close()
