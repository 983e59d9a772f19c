"""Only what is overdue, or whose owner is known to be dead, is a leftover."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any

import pytest
from structlog.testing import capture_logs

from workers.sandbox.leftovers import Owner, Swept, is_leftover, labels, sweep, this_process

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


def test_a_process_is_known_by_boot_table_and_number() -> None:
    me = this_process()
    assert me.pid == os.getpid()
    assert re.fullmatch(r"[0-9a-f-]{36}:pid:\[\d+\]", me.process_table)
    assert labels(me, deadline=100.4) == {
        "consensus.cage": "1",
        "consensus.cage.owner": f"{me.process_table}/{me.pid}",
        "consensus.cage.deadline": "100",
    }


@dataclasses.dataclass
class Thing:
    """A container, or a volume, in an engine's list."""

    labels: dict[str, str] | None
    removed: dict[str, bool] | None = None

    @property
    def attrs(self) -> dict[str, Any]:
        return {"Labels": self.labels}

    def remove(self, **options: bool) -> None:
        self.removed = options


@dataclasses.dataclass
class Listed:
    """What an engine lists, and what it was asked for."""

    things: list[Thing]
    asked: dict[str, Any] = dataclasses.field(default_factory=dict)

    def list(self, **asked: Any) -> list[Thing]:
        self.asked = asked
        return self.things


@dataclasses.dataclass
class Engine:
    containers: Listed
    volumes: Listed


DEAD = labels(Owner(process_table="boot:pid:[1]", pid=13), deadline=100)
LIVING = labels(Owner(process_table="boot:pid:[1]", pid=11), deadline=100)


@pytest.mark.parametrize("counts", [(1, 0), (0, 1), (2, 1)])
def test_leftovers_go_whole_whether_they_run_or_not_and_others_stay(counts: tuple[int, int]) -> None:
    mine = [Thing(DEAD) for _ in range(counts[0])], [Thing(DEAD) for _ in range(counts[1])]
    others = [Thing(LIVING), Thing(None), Thing({})], [Thing(LIVING), Thing(None)]
    engine = Engine(Listed([*mine[0], *others[0]]), Listed([*others[1], *mine[1]]))
    with capture_logs() as logs:
        swept = sweep(engine, now=99, me=ME, exists=ALIVE.__contains__)

    assert swept == Swept(containers=counts[0], volumes=counts[1])
    assert engine.containers.asked == {
        "all": True,
        "filters": {"label": "consensus.cage"},
        "ignore_removed": True,
    }
    assert engine.volumes.asked == {"filters": {"label": "consensus.cage"}}
    # With the volumes that nobody named, and although it runs.
    assert [thing.removed for thing in mine[0]] == [{"v": True, "force": True}] * counts[0]
    assert [thing.removed for thing in mine[1]] == [{}] * counts[1]
    assert {thing.removed is None for thing in (*others[0], *others[1])} == {True}
    assert logs == [
        {"event": "cage.swept", "log_level": "warning", "containers": counts[0], "volumes": counts[1]}
    ]


def test_where_nothing_was_left_nothing_is_told() -> None:
    with capture_logs() as logs:
        assert sweep(
            Engine(Listed([Thing(LIVING)]), Listed([])), now=99, me=ME, exists=ALIVE.__contains__
        ) == Swept(containers=0, volumes=0)
    assert logs == []
