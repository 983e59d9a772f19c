"""A batch followed live, over a real socket: `GET /v1/batches/{id}/events`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from api.batch_watch import Watches
from api.routers import batch_events
from tests.api.batch_rows import end, end_batch, store_batch
from tests.api.conftest import served
from tests.api.streams import DEADLINE_SECONDS, Frame, frames
from workers.core.batch import BatchState
from workers.core.run import Outcome
from workers.errors import UnavailableError
from workers.provenance.session import Database

NAMES = ("waiting", "running", "accepted", "rejected", "degraded", "cancelled")


@pytest.fixture
def url(app: FastAPI) -> Iterator[str]:
    """A server that looks at followed batches a hundred times a second."""
    app.state.batch_watches = Watches(look_seconds=0.01)
    with served(app) as address:
        yield address


@contextlib.contextmanager
def following(
    url: str, batch_id: str = "batch_1", **headers: str
) -> Iterator[tuple[httpx.Response, Iterator[Frame]]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with (
        httpx.Client(base_url=url, timeout=DEADLINE_SECONDS) as client,
        client.stream("GET", f"/v1/batches/{batch_id}/events", headers=named) as response,
    ):
        yield response, frames(response.iter_lines())


def counts(frame: Frame) -> dict[str, int]:
    return {name: frame.data["progress"][name] for name in NAMES if frame.data["progress"][name]}


def test_progress_comes_at_once_with_each_change_and_then_the_end(database: Database, url: str) -> None:
    first, second = store_batch(database, [None, None])
    with following(url) as (_, arriving):
        frame = next(arriving)
        assert (frame.event, frame.id, counts(frame)) == ("progress", "1", {"waiting": 2})
        end(database, first, Outcome.ACCEPTED)
        frame = next(arriving)
        assert (frame.id, counts(frame)) == ("2", {"waiting": 1, "accepted": 1})
        end(database, second, Outcome.REJECTED)
        assert counts(next(arriving)) == {"accepted": 1, "rejected": 1}
        end_batch(database)
        rest = list(arriving)
    assert [(frame.event, frame.id) for frame in rest] == [("progress", "4"), ("end", "end")]
    assert rest[0].data["state"] == "finished"


def test_it_says_what_the_batch_itself_says(database: Database, url: str) -> None:
    store_batch(database, [Outcome.REJECTED, None])
    with following(url) as (_, arriving):
        told = next(arriving).data
    shown = httpx.get(f"{url}/v1/batches/batch_1", timeout=5).json()
    assert shown.pop("skipped_lines") == []
    # The clock has gone on in between.
    for batch in (told, shown):
        batch.pop("seconds_left")
        batch.pop("runs_per_minute")
    assert told == shown


def test_a_cancelled_batch_ends_when_its_last_run_is_closed(database: Database, url: str) -> None:
    store_batch(database, [None])
    end_batch(database, state=BatchState.CANCELLED)
    with following(url) as (_, arriving):
        assert [frame.event for frame in arriving] == ["progress", "end"]


def test_ids_count_on_behind_the_last_event(database: Database, url: str) -> None:
    store_batch(database)
    with following(url, last_event_id="41") as (_, arriving):
        assert next(arriving).id == "42"


def test_a_reconnect_behind_the_end_gets_204_and_one_before_it_the_whole_state(
    database: Database, url: str
) -> None:
    store_batch(database, [Outcome.ACCEPTED])
    end_batch(database)
    with following(url, last_event_id="end") as (response, _):
        assert response.status_code == 204
    with following(url, last_event_id="3") as (_, arriving):
        assert [frame.event for frame in arriving] == ["progress", "end"]


@pytest.mark.parametrize("bad", ["x", "-1", "1.5", "9999999999", "the end"])
def test_a_bad_last_event_id_is_refused_with_a_sentence(database: Database, url: str, bad: str) -> None:
    store_batch(database)
    answer = httpx.get(f"{url}/v1/batches/batch_1/events", headers={"Last-Event-ID": bad}, timeout=5)
    assert answer.status_code == 422
    assert "Last-Event-ID" in answer.json()["detail"]


def test_an_unknown_batch_is_not_followed(database: Database, url: str) -> None:
    assert httpx.get(f"{url}/v1/batches/batch_9/events", timeout=5).status_code == 404


def test_silence_is_broken_by_a_ping(database: Database, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_events, "PING_SECONDS", 0.05)
    store_batch(database)
    with following(url) as (_, arriving):
        # On a busy machine the first look takes longer than the time after which a ping is due.
        assert next(frame for frame in arriving if frame.comment is None).event == "progress"
        assert next(arriving).comment == "ping"


class Scene:
    """A batch that a test moves: each look takes the next of `looks`, and the last one for ever."""

    def __init__(self, *looks: tuple[dict[str, Any], bool] | Exception) -> None:
        self._looks = list(looks)
        self.looked = 0

    def look(self) -> tuple[dict[str, Any], bool]:
        self.looked += 1
        found = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        if isinstance(found, Exception):
            raise found
        return found


async def test_many_readers_of_a_batch_share_its_looks() -> None:
    scene = Scene(({"n": 1}, True))
    watches = Watches(look_seconds=0)
    async with contextlib.AsyncExitStack() as stack:
        seen = [await stack.enter_async_context(watches.watching(("t", "b"), scene.look)) for _ in range(50)]
        await asyncio.gather(*(watch.wait(0, 5) for watch in seen))
        assert all(watch.latest == {"n": 1} for watch in seen)
    assert scene.looked == 1


async def test_what_only_the_clock_changes_is_no_change() -> None:
    scene = Scene(
        ({"n": 1, "seconds_left": 9.0}, False), ({"n": 1, "seconds_left": 8.0}, False), ({"n": 2}, False)
    )
    watches = Watches(look_seconds=0)
    async with watches.watching(("t", "b"), scene.look) as watch:
        await watch.wait(0, 5)
        assert watch.latest["seconds_left"] == 9.0
        await watch.wait(1, 5)
        assert (watch.version, watch.latest) == (2, {"n": 2})


async def test_a_database_that_is_away_for_a_while_breaks_nothing_off() -> None:
    scene = Scene(({"n": 1}, False), UnavailableError("away"), UnavailableError("away"), ({"n": 2}, False))
    watches = Watches(look_seconds=0)
    async with watches.watching(("t", "b"), scene.look) as watch:
        await watch.wait(0, 5)
        await watch.wait(1, 5)
        assert watch.latest == {"n": 2}


async def test_nobody_looks_once_the_last_reader_has_left() -> None:
    scene = Scene(({"n": 1}, False))
    watches = Watches(look_seconds=0)
    async with watches.watching(("t", "b"), scene.look) as watch:
        await watch.wait(0, 5)
    looked = scene.looked
    await asyncio.sleep(0)
    assert (scene.looked, watch.is_over) == (looked, True)
