"""A process never has more programs in cages than it may."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.cages import NoCage, TestsCage, passed
from workers.core.proof import TEST_PATH
from workers.sandbox.base import Limits, Workspace
from workers.sandbox.bounded import BoundedCage
from workers.sandbox.trial import run_tests


def test_the_bound_holds_and_everybody_gets_a_turn() -> None:
    lock, both_in = threading.Lock(), threading.Barrier(2, timeout=10)
    inside, most = 0, 0

    def runs(_: Workspace, __: str) -> dict[str, Any]:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        both_in.wait()
        with lock:
            inside -= 1
        return passed("test_one")

    cage = BoundedCage(TestsCage(runs), most=2)

    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda _: run_tests(cage, {}, {TEST_PATH: "t"}, Limits()), range(6)))

    assert (len(done), most) == (6, 2)


def test_what_is_missing_is_told_through() -> None:
    assert BoundedCage(NoCage(), most=1).check() == NoCage().check()
