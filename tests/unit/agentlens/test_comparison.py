"""Two runs side by side."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.agentlens.steps import edit, run, shell, view
from workers.agentlens.comparison import _heaviest, compare
from workers.agentlens.trajectory import Intent


def test_shared_steps_are_paired_in_order_and_named_by_their_place_in_the_run() -> None:
    left = run(view("a.py"), shell("true", intent=Intent.O), view("b.py"), edit("b.py", at=(3, 4)))
    right = run(view("b.py"), view("c.py"), edit("b.py", at=(3, 4)), shell("pytest"))
    found = compare(left.trace, right.trace)
    # b.py is step 2 of the one (step 1 is bookkeeping) and step 0 of the other
    assert [(pair.left, pair.right) for pair in found.pairs] == [(2, 0), (3, 2)]
    assert found.shared_left == pytest.approx(2 / 3)
    assert found.shared_right == pytest.approx(2 / 4)
    assert found.edit_agreement == 1.0
    assert not found.is_same
    assert found.profiles == (left.trace.profile, right.trace.profile)


def test_a_run_is_itself() -> None:
    one = run(view("a.py"), edit("a.py"), shell("pytest"))
    found = compare(one.trace, one.trace)
    assert [pair.confidence for pair in found.pairs] == [1.0, 1.0, 1.0]
    assert found.is_same


def test_runs_without_steps_or_edits_share_nothing() -> None:
    empty = run()
    found = compare(empty.trace, run(view("a.py")).trace)
    assert (found.pairs, found.shared_left, found.shared_right, found.edit_agreement) == ((), 0.0, 0.0, None)


@given(st.lists(st.lists(st.sampled_from([0.0, 0.75, 0.875, 1.0]), min_size=4, max_size=4), max_size=5))
def test_no_ordered_matching_is_heavier(rows: list[list[float]]) -> None:
    table = np.array(rows, dtype=np.float32).reshape(len(rows), 4)

    @cache
    def best(i: int, j: int) -> float:
        if i == len(rows) or j == 4:
            return 0.0
        return max(best(i + 1, j), best(i, j + 1), rows[i][j] + best(i + 1, j + 1))

    pairs = _heaviest(table)
    assert sum(rows[i][j] for i, j in pairs) == best(0, 0)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(pairs))
    assert all(rows[i][j] > 0 for i, j in pairs)
