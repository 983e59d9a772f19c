"""Who goes next among batches: priorities, equal shares, limits, and nobody starves."""

from __future__ import annotations

import dataclasses
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from workers.core.shares import Load, Room, room_of, shares

WIDE_OPEN = Room(runs=100, seats=10_000)


def load(batch_id: str, waiting: int = 1000, **changes: int | None) -> Load:
    values: dict[str, int | str | None] = {
        "batch_id": batch_id, "priority": 0, "waiting": waiting, **changes
    }  # fmt: skip
    return Load(**values)  # type: ignore[arg-type]


def test_a_huge_batch_and_a_small_one_share_equally() -> None:
    assert shares([load("huge", 100_000), load("small", 60)], WIDE_OPEN) == {"huge": 50, "small": 50}


def test_what_a_small_batch_does_not_need_goes_to_the_others() -> None:
    # 100 places: 10 for the small one, the other 90 in halves.
    assert shares([load("a"), load("b"), load("small", 10)], WIDE_OPEN) == {"a": 45, "b": 45, "small": 10}


def test_a_batch_that_came_later_is_served_until_it_has_caught_up() -> None:
    # 40 are free; with 30 of them the newcomer has as many under way as the other with 30 + 5, and 5 each are left.
    old = load("old", under_way=60, seats_under_way=60)
    assert shares([old, load("new")], WIDE_OPEN) == {"new": 40}
    old = load("old", under_way=30, seats_under_way=30)
    assert shares([old, load("new")], WIDE_OPEN) == {"new": 50, "old": 20}


def test_a_lower_priority_number_goes_first_and_leaves_the_rest() -> None:
    urgent, other = load("urgent", 30, priority=1), load("other", priority=2)
    assert shares([other, urgent], WIDE_OPEN) == {"urgent": 30, "other": 70}


def test_a_batch_keeps_to_its_own_concurrency() -> None:
    limited = load("limited", concurrency=8, under_way=3, seats_under_way=3)
    assert shares([limited, load("free")], WIDE_OPEN) == {"limited": 5, "free": 92}


def test_a_full_window_gets_nothing_more() -> None:
    assert shares([load("a", under_way=100, seats_under_way=100)], WIDE_OPEN) == {}
    assert shares([load("a", under_way=130, seats_under_way=130)], WIDE_OPEN) == {}


def test_seats_limit_before_runs_do_where_panels_are_wide() -> None:
    # 64 seats: twelve runs of five reviewers take 60, and the thirteenth does not fit.
    assert shares([load("a", width=5)], Room(runs=100, seats=64)) == {"a": 12}


def test_a_run_wider_than_all_seats_goes_alone() -> None:
    room = Room(runs=100, seats=8)
    assert shares([load("wide", width=32)], room) == {"wide": 1}
    assert shares([load("wide", width=32, under_way=1, seats_under_way=32)], room) == {}


def test_narrow_runs_do_not_overtake_a_wide_one_for_ever() -> None:
    wide = load("wide", width=10)
    narrow = load("narrow", width=1, under_way=5, seats_under_way=5)
    assert shares([wide, narrow], Room(runs=100, seats=12)) == {}
    drained = dataclasses.replace(narrow, under_way=2, seats_under_way=2)
    assert shares([wide, drained], Room(runs=100, seats=12)) == {"wide": 1}


def test_an_eighth_of_the_threads_stays_free_for_interactive_runs() -> None:
    # 256 / 8 = 32 kept free; of 20 threads 2.5, so 3.
    assert room_of(window=500, threads=256) == Room(runs=500, seats=224)
    assert room_of(window=500, threads=20) == Room(runs=500, seats=17)
    assert room_of(window=500, threads=1) == Room(runs=500, seats=1)


LOADS = st.lists(
    st.builds(
        Load,
        batch_id=st.uuids().map(str),
        priority=st.integers(0, 2),
        waiting=st.integers(0, 40),
        under_way=st.integers(0, 20),
        width=st.just(1),
        served_order=st.floats(0, 10),
        concurrency=st.none() | st.integers(1, 30),
    ).map(lambda made: dataclasses.replace(made, seats_under_way=made.under_way)),
    max_size=6,
    unique_by=lambda made: made.batch_id,
)


@given(loads=LOADS, runs=st.integers(1, 80), seats=st.integers(1, 80))
def test_no_limit_is_passed_and_no_room_is_left_unused(loads: list[Load], runs: int, seats: int) -> None:
    given_out = shares(loads, Room(runs=runs, seats=seats))
    under_way = sum(each.under_way for each in loads)
    total = sum(given_out.values())
    assert total <= max(0, runs - under_way)
    assert under_way + total <= max(seats, under_way, 1)
    for each in loads:
        assert 0 <= given_out.get(each.batch_id, 0) <= each.room
    left = min(runs, seats) - under_way - total
    assert left <= 0 or all(given_out.get(each.batch_id, 0) == each.room for each in loads)


@given(loads=LOADS, runs=st.integers(1, 80))
def test_within_a_priority_nobody_gets_a_run_while_another_that_could_take_it_has_fewer(
    loads: list[Load], runs: int
) -> None:
    given_out = shares(loads, Room(runs=runs, seats=10_000))
    for one in loads:
        if not given_out.get(one.batch_id):
            continue
        after = one.under_way + given_out[one.batch_id]
        for other in loads:
            has = given_out.get(other.batch_id, 0)
            could_take_more = has < other.room
            if could_take_more:
                assert other.priority >= one.priority
            if could_take_more and other.priority == one.priority:
                assert other.under_way + has >= after - 1


@given(batches=st.integers(2, 12), window=st.integers(1, 5), order=st.randoms())
def test_more_batches_than_places_take_turns(batches: int, window: int, order: object) -> None:
    """Whatever runs end first: after as many rounds as there are batches, each has been served."""
    names = [f"b{number:02}" for number in range(batches)]
    served = dict.fromkeys(names, 0.0)
    under_way: Counter[str] = Counter()
    seen: set[str] = set()
    for now in range(1, 2 * batches + 2):
        loads = [
            load(name, 1000, under_way=under_way[name], seats_under_way=under_way[name]) for name in names
        ]
        loads = [dataclasses.replace(each, served_order=served[each.batch_id]) for each in loads]
        for name, count in shares(loads, Room(runs=window, seats=1000)).items():
            under_way[name] += count
            served[name] = float(now)
            seen.add(name)
        ended = order.choice(sorted(name for name in names if under_way[name]))  # type: ignore[attr-defined]
        under_way[ended] -= 1
    assert seen == set(names)
