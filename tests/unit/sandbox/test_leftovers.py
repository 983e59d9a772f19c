"""Only what is overdue, or whose owner is known to be dead, is a leftover."""

from __future__ import annotations

import pytest

from workers.sandbox.leftovers import Owner, is_leftover, labels, this_process

ME = Owner(process_table="boot:pid:[1]", pid=10)
#: Everybody but process 13 lives.
ALIVE = {10, 11, 12}


@pytest.mark.parametrize(
    ("owner", "deadline", "now", "leftover"),
    [
        pytest.param(ME, 100, 99, False, id="my own, in time"),
        pytest.param(ME, 100, 100, False, id="at its deadline"),
        pytest.param(ME, 100, 101, True, id="my own, overdue"),
        pytest.param(Owner(process_table="boot:pid:[1]", pid=11), 100, 99, False, id="a living neighbour's"),
        pytest.param(Owner(process_table="boot:pid:[1]", pid=13), 100, 99, True, id="a dead neighbour's"),
        pytest.param(Owner(process_table="boot:pid:[2]", pid=13), 100, 99, False, id="another container's"),
        pytest.param(Owner(process_table="boot:pid:[2]", pid=13), 100, 101, True, id="another's, overdue"),
        pytest.param(Owner(process_table="", pid=13), 100, 99, False, id="from nobody knows where"),
    ],
)
def test_who_may_be_swept(owner: Owner, deadline: float, now: float, leftover: bool) -> None:
    found = labels(owner, deadline=deadline)

    assert is_leftover(found, now=now, me=ME, exists=ALIVE.__contains__) is leftover


def test_where_process_tables_cannot_be_told_apart_only_the_deadline_counts() -> None:
    me = Owner(process_table="", pid=10)
    found = labels(Owner(process_table="", pid=13), deadline=100)

    assert not is_leftover(found, now=99, me=me, exists=ALIVE.__contains__)
    assert is_leftover(found, now=101, me=me, exists=ALIVE.__contains__)


def test_what_is_not_ours_is_never_a_leftover() -> None:
    assert not is_leftover({"consensus.cage.deadline": "1"}, now=100, me=ME, exists=ALIVE.__contains__)
    assert not is_leftover({}, now=100, me=ME, exists=ALIVE.__contains__)


@pytest.mark.parametrize("label", ["", "x", "boot:pid:[1]/", "boot:pid:[1]/abc", "boot:pid:[1]/-13"])
def test_a_label_that_names_nobody_waits_for_its_deadline(label: str) -> None:
    found = {"consensus.cage": "1", "consensus.cage.owner": label, "consensus.cage.deadline": "100"}

    assert not is_leftover(found, now=99, me=ME, exists=lambda _: False)
    assert is_leftover(found, now=101, me=ME, exists=lambda _: False)


def test_a_process_knows_itself() -> None:
    me = this_process()

    assert not me.is_gone(str(me), lambda pid: pid == me.pid)
    assert me.is_gone(str(me), lambda _: False) is bool(me.process_table)
