"""A run followed live, over a real socket: `GET /v1/runs/{id}/events`."""

from __future__ import annotations

import asyncio
import itertools

import httpx
import pytest
from sqlalchemy import text

from api import live as live_module
from api import run_pages as pages_module
from api.routers import events as events_module
from tests.api.streams import DEADLINE_SECONDS, Frame, LiveServer, frames
from tests.integration.stored_runs import AT, append, drop_bodies, finish, store_run
from workers.core.run import RunState
from workers.provenance.models import runs as runs_table
from workers.provenance.repository import runs
from workers.provenance.session import Database

#: Every kind the stages write, in flow order.
KINDS = [
    "run.started",
    "stage.opened",
    "candidate.written",
    "review.arrived",
    "review.abstained",
    "consensus.counted",
    "consensus.failed",
    "lead.signed",
]


def test_each_event_is_streamed_as_it_is_appended(database: Database, live: LiveServer) -> None:
    store_run(database)
    with live.follow() as (_, arriving):
        first = next(arriving)
        assert (first.id, first.event) == ("1", "run.created")
        for number, kind in enumerate(KINDS, start=2):
            append(database, kind, {"seat": f"s{number}", "text": "ligne\n\u2028\u00e9"})
            # Lockstep: the next event is not written before this one has arrived.
            frame = next(arriving)
            assert (frame.id, frame.event) == (str(number), kind)
            assert frame.data == {
                "seq": number,
                "at": "2026-01-02T03:04:05.678901+00:00",
                "kind": kind,
                "payload": {"seat": f"s{number}", "text": "ligne\n\u2028\u00e9"},
            }


def test_the_stream_ends_with_end_and_the_connection_closes(database: Database, live: LiveServer) -> None:
    store_run(database)
    with live.follow() as (_, arriving):
        next(arriving)
        finish(database)
        assert [(frame.event, frame.id) for frame in arriving] == [("run.finished", "2"), ("end", "2")]


def test_a_cancelled_run_ends_its_streams_too(database: Database, live: LiveServer) -> None:
    store_run(database)
    with live.follow() as (_, arriving):
        next(arriving)
        with database.begin() as connection:
            runs.cancel(connection, "run_1", tenant_id="default", at=AT)
        assert [frame.event for frame in arriving] == ["run.cancelled", "end"]


def test_a_reconnect_after_end_gets_204(database: Database, live: LiveServer) -> None:
    store_run(database)
    finish(database)
    with live.follow() as (_, arriving):
        last = list(arriving)[-1]
    assert last.event == "end"
    assert last.id is not None
    with live.follow(last_event_id=last.id) as (response, _):
        assert response.status_code == 204


def test_resuming_loses_and_repeats_nothing_wherever_the_connection_broke(
    database: Database, live: LiveServer
) -> None:
    store_run(database)
    for kind in KINDS:
        append(database, kind)
    finish(database)
    whole = ["run.created", *KINDS, "run.finished", "end"]
    for seen in range(len(whole) - 1):
        with live.follow(**({"last_event_id": str(seen)} if seen else {})) as (_, arriving):
            assert [frame.event for frame in arriving] == whole[seen:]


def test_a_resumed_stream_goes_on_with_what_comes_later(database: Database, live: LiveServer) -> None:
    store_run(database)
    append(database, "stage.opened")
    with live.follow(last_event_id="2") as (_, arriving):
        live.hub.wait_until_watched_by(1)
        append(database, "candidate.written")
        assert next(arriving).id == "3"


def test_a_ledger_longer_than_a_page_arrives_whole(database: Database, live: LiveServer) -> None:
    store_run(database)
    many = pages_module.PAGE * 2  # with run.created and run.finished two more than two pages
    for number in range(many):
        append(database, "stage.opened", {"n": number})
    finish(database)
    with live.follow() as (_, arriving):
        assert [int(frame.id or 0) for frame in arriving] == [*range(1, many + 3), many + 2]


def test_an_ended_ledger_of_exactly_one_page_still_gets_its_end(
    database: Database, live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages_module, "PAGE", 2)
    store_run(database)
    finish(database)
    with live.follow() as (_, arriving):
        assert [frame.event for frame in arriving] == ["run.created", "run.finished", "end"]


@pytest.mark.parametrize("bad", ["x", "-1", "1.5", "\u00b2", "9999999999", "1 2", "0x1"])
def test_a_bad_last_event_id_is_refused_with_a_sentence(
    database: Database, live: LiveServer, bad: str
) -> None:
    store_run(database)
    answer = httpx.get(
        f"{live.url}/v1/runs/run_1/events", headers={"Last-Event-ID": bad.encode("latin-1")}, timeout=5
    )
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Last-Event-ID" in answer.json()["detail"]


def test_a_last_event_id_from_the_future_is_refused_instead_of_waiting_for_it(
    database: Database, live: LiveServer
) -> None:
    store_run(database)
    answer = httpx.get(f"{live.url}/v1/runs/run_1/events", headers={"Last-Event-ID": "2"}, timeout=5)
    assert answer.status_code == 422
    assert "the run's last event is 1" in answer.json()["detail"]


def test_no_such_run_is_a_problem_and_not_a_stream(live: LiveServer) -> None:
    answer = httpx.get(f"{live.url}/v1/runs/run_none/events", timeout=5)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert "run_none" in answer.json()["detail"]


def test_proxies_are_told_not_to_hold_the_stream_back(database: Database, live: LiveServer) -> None:
    store_run(database)
    with live.follow() as (response, _):
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-cache, no-transform"
        assert response.headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in response.headers


def test_a_ping_is_due_after_ten_seconds_of_silence() -> None:
    assert events_module.PING_SECONDS == 10.0


def test_silence_is_broken_by_pings_and_events_still_come(
    database: Database, live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "PING_SECONDS", 0.05)
    store_run(database)
    with live.follow() as (_, arriving):
        assert next(arriving).event == "run.created"
        assert next(arriving) == Frame(comment="ping")
        assert next(arriving) == Frame(comment="ping")
        append(database, "stage.opened")
        later = itertools.dropwhile(lambda frame: frame.comment == "ping", arriving)
        assert next(later).event == "stage.opened"


def test_a_quiet_stream_reads_nothing_between_its_pings(
    database: Database, live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "PING_SECONDS", 0.01)
    pages = []
    store_run(database)
    with live.follow() as (_, arriving):
        assert next(arriving).event == "run.created"
        append(database, "run.started")
        # By now it listens, and has read whatever was told of.
        assert next(itertools.dropwhile(lambda frame: frame.comment, arriving)).event == "run.started"
        monkeypatch.setattr(runs, "get", lambda *_, **__: pages.append(1))
        assert [next(arriving).comment for _ in range(20)] == ["ping"] * 20
    assert pages == []


def test_pings_come_even_while_the_database_is_looked_at_more_often(
    database: Database, live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "PING_SECONDS", 0.1)
    monkeypatch.setattr(live_module, "LOOK_SECONDS", 0.02)
    store_run(database)
    with live.follow() as (_, arriving):
        next(arriving)
        assert next(arriving) == Frame(comment="ping")


def _terminate_listener(database: Database) -> int:
    with database.begin() as connection:
        rows = connection.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = :name"),
            {"name": live_module.APPLICATION_NAME},
        )
        return len(rows.all())


def test_after_a_lost_listener_the_hub_listens_again_and_catches_up(
    database: Database, live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The streams themselves would look far too late: only the hub can wake this one.
    monkeypatch.setattr(live_module, "LOOK_SECONDS", 600.0)
    monkeypatch.setattr(events_module, "PING_SECONDS", 600.0)
    monkeypatch.setattr(live_module, "_RECONNECT_SECONDS", 0.01)
    store_run(database)
    with live.follow() as (_, arriving):
        next(arriving)
        append(database, "run.started")
        assert next(arriving).event == "run.started"  # by now the hub listens
        assert _terminate_listener(database) == 1
        append(database, "stage.opened")
        assert next(arriving).event == "stage.opened"
        append(database, "candidate.written")
        assert next(arriving).event == "candidate.written"


def test_without_any_listener_the_stream_looks_for_itself(
    database: Database, live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(live.hub, "_url", "postgresql://127.0.0.1:1/nowhere")
    assert _terminate_listener(database) == 1
    monkeypatch.setattr(type(live.hub), "_wake", lambda *_: None)
    store_run(database)
    with live.follow() as (_, arriving):
        next(arriving)
        append(database, "stage.opened")
        assert next(arriving).event == "stage.opened"


def test_a_database_that_is_away_for_a_moment_costs_no_event(
    database: Database, live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "LOOK_SECONDS", 0.05)
    store_run(database)
    with live.follow() as (_, arriving):
        next(arriving)
        with database.begin() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
        append(database, "stage.opened")
        assert next(arriving).event == "stage.opened"
        finish(database)
        assert [frame.event for frame in arriving] == ["run.finished", "end"]


def test_a_reader_who_leaves_frees_its_waiter(database: Database, live: LiveServer) -> None:
    store_run(database)
    with live.follow() as (_, arriving):
        next(arriving)
        live.hub.wait_until_watched_by(1)
        assert set(live.hub._watches) == {"run_1"}
    live.hub.wait_until_watched_by(0)
    assert live.hub._watches == {}


def test_fifty_readers_of_one_run_all_see_everything_in_order(database: Database, live: LiveServer) -> None:
    store_run(database)

    async def read(client: httpx.AsyncClient) -> list[tuple[str | None, str | None]]:
        async with client.stream("GET", "/v1/runs/run_1/events") as response:
            lines = [line async for line in response.aiter_lines()]
            return [(frame.id, frame.event) for frame in frames(lines)]

    def write_once_all_watch() -> None:
        live.hub.wait_until_watched_by(50)
        for kind in KINDS:
            append(database, kind)
        finish(database)

    async def everybody() -> list[list[tuple[str | None, str | None]]]:
        limits = httpx.Limits(max_connections=50)
        async with httpx.AsyncClient(base_url=live.url, timeout=DEADLINE_SECONDS, limits=limits) as client:
            readers = [asyncio.create_task(read(client)) for _ in range(50)]
            await asyncio.to_thread(write_once_all_watch)
            return await asyncio.gather(*readers)

    kinds = ["run.created", *KINDS, "run.finished"]
    expected = [*((str(number), kind) for number, kind in enumerate(kinds, start=1)), ("10", "end")]
    assert asyncio.run(everybody()) == [expected] * 50
    live.hub.wait_until_watched_by(0)


def test_events_of_another_run_are_not_mixed_in(database: Database, live: LiveServer) -> None:
    store_run(database)
    store_run(database, "run_2")
    with live.follow() as (_, arriving):
        next(arriving)
        append(database, "stage.opened", run_id="run_2")
        append(database, "run.started")
        finish(database)
        assert [frame.event for frame in arriving] == ["run.started", "run.finished", "end"]


def test_a_redacted_payload_is_streamed_as_null(database: Database, live: LiveServer) -> None:
    store_run(database)
    drop_bodies(database)
    with live.follow() as (_, arriving):
        assert next(arriving).data["payload"] is None


def test_a_body_that_nobody_reads_does_not_break_a_stream_that_has_begun(
    database: Database, live: LiveServer
) -> None:
    store_run(database)
    finish(database)
    answer = httpx.request(
        "GET", f"{live.url}/v1/runs/run_1/events", content=b"x" * (17 * 1024 * 1024), timeout=DEADLINE_SECONDS
    )
    assert answer.status_code in {200, 413}
    # The server is still well.
    assert httpx.get(f"{live.url}/healthz").status_code == 200


def test_the_query_may_say_where_to_begin_and_the_header_wins(database: Database, live: LiveServer) -> None:
    store_run(database)
    append(database, "run.started")
    finish(database)
    url = f"{live.url}/v1/runs/run_1/events"
    from_query = httpx.get(url, params={"after": 1})
    assert [frame.id for frame in frames(from_query.text.splitlines())] == ["2", "3", "3"]
    from_header = httpx.get(url, params={"after": 1}, headers={"Last-Event-ID": "2"})
    assert [frame.id for frame in frames(from_header.text.splitlines())] == ["3", "3"]
    assert httpx.get(url, params={"after": -1}).status_code == 422
    assert httpx.get(url, params={"after": 10**30}).status_code == 204


def test_a_run_that_was_marked_ended_without_new_events_still_ends_its_stream(
    database: Database, live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "LOOK_SECONDS", 0.02)
    store_run(database)
    with live.follow() as (_, arriving):
        next(arriving)
        with database.begin() as connection:
            connection.execute(runs_table.update().values(state=RunState.CANCELLED))
        assert [frame.event for frame in arriving] == ["end"]
