"""The look at all followed runs wakes those whose readers missed something, and nobody else."""

from __future__ import annotations

from typing import Any, cast

import psycopg
import pytest

from api.live import Hub


class Rows:
    """A connection that answers every statement with these rows."""

    def __init__(self, *rows: tuple[str, int, str]) -> None:
        self._rows = rows

    async def execute(self, *_: Any) -> Rows:
        return self

    async def fetchall(self) -> list[tuple[str, int, str]]:
        return list(self._rows)


async def _look(hub: Hub, *rows: tuple[str, int, str]) -> None:
    await hub._look(cast("psycopg.AsyncConnection", Rows(*rows)))


@pytest.mark.parametrize(
    ("seen", "is_woken"),
    [
        ([(7, "running"), (7, "running")], False),
        ([(7, "running"), None], False),  # it reads just now
        ([(7, "running"), (6, "running")], True),
        ([(6, "running"), (7, "running")], True),
        # Its state was read before its last event was there.
        ([(7, "queued")], True),
    ],
)
async def test_a_look_wakes_a_run_that_one_of_its_readers_does_not_know_as_it_is(
    seen: list[tuple[int, str] | None], is_woken: bool
) -> None:
    hub = Hub("postgresql://127.0.0.1:1/nowhere")
    with hub.watching("run_1") as (watch, first), hub.watching("run_1") as (_, second):
        for reader, known in zip((first, second), seen, strict=False):
            reader.seen = known
        await _look(hub, ("run_1", 7, "running"))
        assert watch.version == int(is_woken)


async def test_a_look_leaves_runs_alone_that_are_followed_no_longer() -> None:
    hub = Hub("postgresql://127.0.0.1:1/nowhere")
    with hub.watching("run_1") as (watch, reader):
        reader.seen = (1, "queued")
        with hub.watching("run_2"):
            pass
        await _look(hub, ("run_2", 5, "running"), ("run_1", 1, "queued"))
        assert watch.version == 0
