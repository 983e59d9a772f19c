"""Which digests came before, and on which line first."""

from __future__ import annotations

import hashlib
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from workers.core.seen import SeenDigests


def sha(value: object) -> bytes:
    return hashlib.sha256(str(value).encode()).digest()


@given(st.lists(st.integers(0, 40)))
def test_it_tells_what_a_dict_would(values: list[int]) -> None:
    seen, known = SeenDigests(), dict[int, int]()
    for line, value in enumerate(values, start=1):
        assert seen.line_of(sha(value)) == known.get(value)
        assert seen.first_line(sha(value), line) == known.setdefault(value, line)
    assert len(seen) == len(known)


@given(st.lists(st.binary(min_size=16, max_size=16), unique=True, max_size=60))
def test_digests_that_share_their_ends_are_kept_apart(fronts: list[bytes]) -> None:
    # All of them want the same place.
    digests = [front[:8] + bytes(8) for front in fronts]
    seen, known = SeenDigests(), dict[bytes, int]()
    for line, digest in enumerate(digests, start=1):
        assert seen.first_line(digest, line) == known.setdefault(digest, line)


def test_it_grows_and_forgets_nothing() -> None:
    seen = SeenDigests()
    for line in range(1, 5001):
        assert seen.first_line(sha(line), line) == line
    assert [seen.first_line(sha(line), 9999) for line in range(1, 5001)] == list(range(1, 5001))
    assert len(seen) == 5000
    assert seen.line_of(sha("another")) is None


def test_a_hundred_thousand_take_less_than_three_megabytes() -> None:
    tracemalloc.start()
    seen = SeenDigests()
    for line in range(1, 100_001):
        seen.first_line(sha(line), line)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 131,072 slots of 20 bytes: 2.6 MB.
    assert size < 3_000_000
