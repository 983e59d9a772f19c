"""What was opened last is kept, up to a weight, and made once however many ask."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest

from workers.inspection.shelf import Shelf


def shelf(most_weight: int) -> Shelf[str]:
    return Shelf(most_weight=most_weight, weight_of=len)


def never() -> str:
    raise AssertionError("it was there")


def test_a_value_is_made_once() -> None:
    kept = shelf(10)
    assert kept.get("a", lambda: "aaa") == "aaa"
    assert kept.get("a", never) == "aaa"


def test_what_was_used_longest_ago_goes_first() -> None:
    kept = shelf(6)
    kept.get("a", lambda: "aaa")
    kept.get("b", lambda: "bbb")
    kept.get("a", never)
    kept.get("c", lambda: "ccc")
    assert kept.get("a", never) == "aaa"
    assert kept.get("b", lambda: "again") == "again"


def test_one_that_is_too_heavy_alone_is_kept_until_the_next() -> None:
    kept = shelf(2)
    kept.get("a", lambda: "aaaa")
    assert kept.get("a", never) == "aaaa"
    kept.get("b", lambda: "b")
    assert kept.get("a", lambda: "new") == "new"


def test_a_value_that_cannot_be_made_is_asked_for_again() -> None:
    kept = shelf(2)

    def broken() -> str:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        kept.get("a", broken)
    assert kept.get("a", lambda: "a") == "a"


def test_many_who_ask_at_once_have_it_made_once() -> None:
    kept = shelf(100)
    made: list[int] = []
    barrier = threading.Barrier(8)

    def make() -> str:
        made.append(1)
        return "a"

    def ask(_: int) -> str:
        barrier.wait()
        return kept.get("a", make)

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(ask, range(8))) == {"a"}
    assert len(made) == 1


def test_those_who_wait_are_few_and_the_rest_are_told_to_come_again() -> None:
    kept = shelf(100)
    begun, may_end = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        may_end.wait()
        return "slow"

    with ThreadPoolExecutor(40) as threads:
        first = threads.submit(kept.get, "slow", slow)
        begun.wait()
        others = [threads.submit(kept.get, "slow", slow) for _ in range(39)]
        # 10 of the 39 may wait; the 29 others are told at once, while the first is still at work.
        told = list(itertools.islice(as_completed(others), 29))
        may_end.set()
        assert [str(asked.exception()) for asked in told] == [
            "too many wait here for large runs to be opened; ask again in a moment"
        ] * 29
        assert first.result() == "slow"
    assert sum(asked.exception() is None for asked in others) == 10
    assert kept.get("slow", never) == "slow"
