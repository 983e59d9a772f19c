"""What was opened last is kept, up to a weight, and made once however many ask."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

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
