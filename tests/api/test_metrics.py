"""What `/metrics` tells of an installation, and whom."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import delete, func, insert, select, text, update

from api.app import create_app
from api.dependencies import Services
from api.live import Hub
from api.metrics.scrape import FRESH_SECONDS, STALE_SECONDS, Installation, Sources
from tests.api.problem_documents import problem
from tests.exported_metrics import exported, scraped, value
from tests.integration.desk import Clock
from tests.integration.stored_runs import (
    ago,
    finish,
    lose_worker,
    open_seats,
    seat_key,
    set_seat,
    start_run,
    store_run,
    tamper,
)
from tests.integration.test_call_rows import new_call
from workers.core.run import Outcome, SeatState, Stage
from workers.governor.accounts import AccountState
from workers.governor.base import Limits, Snapshot
from workers.provenance.models import calls as calls_table
from workers.provenance.models import metadata, provider_states
from workers.provenance.models import runs as runs_table
from workers.provenance.repository import accounts, calls, tallies
from workers.provenance.scoring_models import scoring_parts, scorings
from workers.provenance.session import Database
from workers.providers.registry import ProviderConfig, enabled
from workers.queues import Queue

ON = enabled({"OPENAI_API_KEY": "sk-one"})


@dataclasses.dataclass
class Watch:
    """An installation as Prometheus sees it, at times that a test sets."""

    database: Database
    clock: Clock = dataclasses.field(default_factory=Clock)
    depths: Mapping[Queue, int] | None = None
    providers: Mapping[str, ProviderConfig] = dataclasses.field(default_factory=lambda: ON)
    snapshots: Callable[[Mapping[str, Limits]], Mapping[str, Snapshot]] = lambda _: {}

    def __post_init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(
            Installation(
                Sources(
                    database=self.database,
                    providers=lambda: self.providers,
                    depths=lambda: self.depths,
                    snapshots=self.look,
                ),
                clock=self.clock,
            )
        )

    def look(self, limits: Mapping[str, Limits]) -> Mapping[str, Snapshot]:
        return self.snapshots(limits)

    def text(self, *, after_seconds: float = 60) -> str:
        self.clock.now += after_seconds
        return generate_latest(self.registry).decode()


@pytest.fixture
def watch(database: Database) -> Watch:
    return Watch(database)


def end_run(
    database: Database, run_id: str, *, seconds: float, outcome: Outcome = Outcome.ACCEPTED, before: float = 2
) -> None:
    """A run that took so long and ended `before` seconds ago."""
    store_run(database, run_id)
    finish(database, run_id, outcome)
    with database.begin() as connection:
        connection.execute(
            update(runs_table)
            .where(runs_table.c.run_id == run_id)
            .values(dispatched_at=ago(before + seconds), finished_at=ago(before))
        )


def end_seat(database: Database, seat: str, state: SeatState, *, seconds: float, rescues: int = 0) -> None:
    key = seat_key(seat)
    open_seats(database, key)
    set_seat(database, key, state=state, rescues=rescues, started_at=ago(2 + seconds), finished_at=ago(2))


def end_call(database: Database, call_id: str, **values: Any) -> None:
    with database.begin() as connection:
        calls.sent(connection, new_call(call_id))
        connection.execute(
            update(calls_table)
            .where(calls_table.c.call_id == call_id)
            .values(
                {"provider": "openai", "state": "done", "ended_at": ago(2), "duration_seconds": 3, **values}
            )
        )


def test_runs_are_counted_by_outcome_and_their_durations_by_bucket(database: Database, watch: Watch) -> None:
    end_run(database, "run_1", seconds=7)
    end_run(database, "run_2", seconds=20)
    end_run(database, "run_3", seconds=5000, outcome=Outcome.DEGRADED)

    shown = watch.text()

    assert value(shown, "consensus_runs_ended_total", outcome="accepted", simulated="false") == 2
    assert value(shown, "consensus_runs_ended_total", outcome="degraded", simulated="false") == 1
    assert value(shown, "consensus_runs_ended_total", outcome="rejected", simulated="false") == 0
    # 7 s and 20 s: none up to 5 s, one up to 15 s, both up to 30 s.
    in_buckets = {
        bound: value(shown, "consensus_run_duration_seconds_bucket", outcome="accepted", le=bound)
        for bound in ("5.0", "15.0", "30.0", "+Inf")
    }
    assert in_buckets == {"5.0": 0, "15.0": 1, "30.0": 2, "+Inf": 2}
    assert value(shown, "consensus_run_duration_seconds_sum", outcome="accepted") == pytest.approx(27)
    # 5,000 s are above the last bound.
    above = {"outcome": "degraded", "le": "3600.0"}
    assert value(shown, "consensus_run_duration_seconds_bucket", **above) == 0
    assert value(shown, "consensus_run_duration_seconds_count", outcome="degraded") == 1


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has ended is counted without the second that transactions are given to be listed."""
    monkeypatch.setattr(tallies, "horizon", partial(tallies.horizon, settle_seconds=0))


def test_what_ended_is_counted_once_and_does_not_fall_when_it_is_deleted(
    database: Database, watch: Watch, at_once: None
) -> None:
    def accepted() -> float | None:
        return value(watch.text(), "consensus_runs_ended_total", outcome="accepted", simulated="false")

    end_run(database, "run_1", seconds=7)
    assert accepted() == 1
    store_run(database, "run_2")
    finish(database, "run_2")
    assert accepted() == 2
    assert accepted() == 2
    tamper(database, "DELETE FROM events; DELETE FROM runs")
    assert accepted() == 2


def test_what_ended_before_this_process_began_is_not_counted(database: Database, watch: Watch) -> None:
    end_run(database, "run_1", seconds=1, before=90)
    end_run(database, "run_2", seconds=1, before=30)

    shown = watch.text(after_seconds=60)

    assert value(shown, "consensus_runs_ended_total", outcome="accepted", simulated="false") == 1


def test_an_end_that_is_committed_late_is_counted_all_the_same(
    database: Database, database_url: str, watch: Watch, at_once: None
) -> None:
    end_run(database, "run_1", seconds=1)
    store_run(database, "run_2")

    def cancelled() -> float | None:
        return value(watch.text(), "consensus_runs_ended_total", outcome="cancelled", simulated="false")

    other = Database(database_url, pool_size=1)
    with other.begin() as connection:
        # Its `now()` is that of its begin; a look comes between that and the commit.
        is_second = runs_table.c.run_id == "run_2"
        connection.execute(
            update(runs_table).where(is_second).values(state="cancelled", finished_at=func.now())
        )
        assert cancelled() == 0
    other.close()

    assert cancelled() == 1
    assert cancelled() == 1


def test_seats_are_counted_by_stage_and_state_with_their_rescues(database: Database, watch: Watch) -> None:
    store_run(database)
    end_seat(database, "left", SeatState.DONE, seconds=3, rescues=2)
    end_seat(database, "right", SeatState.ABSTAINED, seconds=50)

    shown = watch.text()

    assert value(shown, "consensus_seats_ended_total", stage="panel", state="done") == 1
    assert value(shown, "consensus_seats_ended_total", stage="panel", state="abstained") == 1
    assert value(shown, "consensus_seats_ended_total", stage="lead", state="failed") == 0
    assert value(shown, "consensus_rescues_total", stage="panel") == 2
    assert value(shown, "consensus_stage_duration_seconds_bucket", stage="panel", le="5.0") == 1
    assert value(shown, "consensus_stage_duration_seconds_sum", stage="panel") == pytest.approx(53)


def test_a_seat_that_never_began_has_no_duration(database: Database, watch: Watch) -> None:
    store_run(database)
    open_seats(database, seat_key())
    set_seat(database, seat_key(), state=SeatState.CANCELLED, finished_at=ago(2))

    shown = watch.text()

    assert value(shown, "consensus_seats_ended_total", stage="panel", state="cancelled") == 1
    assert value(shown, "consensus_stage_duration_seconds_count", stage="panel") == 0


def test_calls_tokens_and_cost_are_counted_by_provider(database: Database, watch: Watch) -> None:
    store_run(database)
    open_seats(database, seat_key())
    end_call(database, "call_1", input_tokens=100, cached_input_tokens=60, output_tokens=9, cost_usd=0.25)
    end_call(database, "call_2", input_tokens=10, output_tokens=1, cost_usd=0.5, http_requests=3)
    end_call(database, "call_3", state="failed", error_kind="overload", cost_usd=None)

    shown = watch.text()

    assert value(shown, "consensus_calls_total", provider="openai", state="done") == 2
    assert value(shown, "consensus_calls_total", provider="openai", state="failed") == 1
    assert value(shown, "consensus_call_failures_total", provider="openai", kind="overload") == 1
    assert value(shown, "consensus_tokens_total", provider="openai", direction="input") == 110
    assert value(shown, "consensus_tokens_total", provider="openai", direction="cached_input") == 60
    assert value(shown, "consensus_tokens_total", provider="openai", direction="output") == 10
    assert value(shown, "consensus_cost_usd_total", provider="openai") == 0.75
    assert value(shown, "consensus_unpriced_calls_total", provider="openai") == 1
    # One request each, but for the second call, which was repeated twice.
    assert value(shown, "consensus_provider_requests_total", provider="openai") == 5
    assert value(shown, "consensus_call_duration_seconds_sum", provider="openai") == 9


def test_open_work_is_counted_where_it_waits(database: Database, watch: Watch) -> None:
    for run_id in ("run_1", "run_2", "run_3"):
        store_run(database, run_id)
    start_run(database, "run_2")
    with database.begin() as connection:
        is_third = runs_table.c.run_id == "run_3"
        connection.execute(update(runs_table).where(is_third).values(dispatched_at=None))
        connection.execute(update(runs_table).where(~is_third).values(dispatched_at=ago(30)))
    waiting, deferred, lost = seat_key("left"), seat_key("right"), seat_key("lead", Stage.LEAD)
    gate = seat_key("gate", Stage.GATE)
    open_seats(database, waiting, deferred, lost, gate)
    set_seat(database, waiting, enqueued_at=ago(40))
    set_seat(database, deferred, enqueued_at=ago(500), not_before=ago(-60))
    set_seat(database, gate, enqueued_at=ago(20))
    lose_worker(database, lost)

    shown = watch.text()

    states = {
        state: value(shown, "consensus_runs_open", state=state) for state in ("waiting", "queued", "running")
    }
    assert states == {"waiting": 1, "queued": 1, "running": 1}
    assert value(shown, "consensus_oldest_open_run_seconds") == pytest.approx(30, abs=5)
    assert value(shown, "consensus_seats_open", stage="panel", state="pending") == 1
    assert value(shown, "consensus_seats_open", stage="panel", state="deferred") == 1
    assert value(shown, "consensus_seats_open", stage="lead", state="running") == 1
    # A deferred seat does not wait for a worker.
    assert value(shown, "consensus_queue_age_seconds", queue="llm") == pytest.approx(40, abs=5)
    assert value(shown, "consensus_queue_age_seconds", queue="sandbox") == pytest.approx(20, abs=5)
    assert value(shown, "consensus_queue_age_seconds", queue="scoring") == 0


def test_scorings_are_counted_with_their_parts_and_assessments(database: Database, watch: Watch) -> None:
    common = {"tenant_id": "default", "profile": "paper", "settings": {}, "request_digest": "d"}
    with database.begin() as connection:
        connection.execute(
            text("INSERT INTO tenants (tenant_id, name) VALUES ('default', 'd') ON CONFLICT DO NOTHING")
        )
        ended = {"state": "finished", "stage": "merge", "computed_count": 7, "reused_count": 5}
        connection.execute(insert(scorings).values(scoring_id="a", finished_at=ago(2), **ended, **common))
        connection.execute(insert(scorings).values(scoring_id="b", state="running", stage="score", **common))
        part = {"scoring_id": "b", "stage": "score"}
        connection.execute(
            insert(scoring_parts).values(
                number=1, state="failed", rescues=1, started_at=ago(12), finished_at=ago(2), **part
            )
        )
        connection.execute(
            insert(scoring_parts).values(number=2, state="pending", enqueued_at=ago(70), **part)
        )

    shown = watch.text()

    assert value(shown, "consensus_scorings_ended_total", state="finished") == 1
    assert value(shown, "consensus_assessments_total", origin="computed") == 7
    assert value(shown, "consensus_assessments_total", origin="reused") == 5
    assert value(shown, "consensus_scorings_open", state="running") == 1
    assert value(shown, "consensus_scoring_parts_ended_total", stage="score", state="failed") == 1
    assert value(shown, "consensus_scoring_rescues_total", stage="score") == 1
    assert value(shown, "consensus_scoring_part_duration_seconds_sum", stage="score") == pytest.approx(10)
    assert value(shown, "consensus_scoring_parts_open", stage="score", state="pending") == 1
    assert value(shown, "consensus_queue_age_seconds", queue="scoring") == pytest.approx(70, abs=5)


def test_a_provider_is_down_only_for_the_key_in_use(database: Database, watch: Watch) -> None:
    own = ON["openai"].key_digest

    def publish(key_digest: str, state: str) -> None:
        account = AccountState(
            provider="openai", key_digest=key_digest, state=state, reason="", seconds_left=60
        )
        with database.begin() as connection:
            connection.execute(delete(provider_states))
            accounts.publish(connection, [account])

    seen = []
    for key_digest, state in ((own, "good"), ("replaced", "auth"), (own, "auth"), (own, "low")):
        publish(key_digest, state)
        shown = watch.text()
        seen.append(
            (
                value(shown, "consensus_provider_up", provider="openai"),
                value(shown, "consensus_provider_low_quota", provider="openai"),
            )
        )
    assert seen == [(1, 0), (1, 0), (0, 0), (1, 1)]


def test_the_governor_is_shown_for_the_families_that_were_called(database: Database, watch: Watch) -> None:
    asked: list[Mapping[str, Limits]] = []

    def snapshots(limits: Mapping[str, Limits]) -> Mapping[str, Snapshot]:
        asked.append(limits)
        snapshot = Snapshot(
            is_shared=True,
            running=3,
            waiting_interactive=1,
            waiting_batch=4,
            blocked_seconds=2.5,
            next_start_seconds=0,
            concurrency=64,
            adaptive_concurrency=16,
            requests_today=0,
            requests_remaining=None,
        )
        return dict.fromkeys(limits, snapshot)

    watch.snapshots = snapshots
    store_run(database)
    open_seats(database, seat_key())
    end_call(database, "call_1", family="gpt-5")

    shown = watch.text()

    assert [key.split(":")[::2] for key in asked[-1]] == [["openai", "gpt-5"]]
    family = {"provider": "openai", "family": "gpt-5"}
    assert value(shown, "consensus_governor_running", **family) == 3
    assert value(shown, "consensus_governor_waiting", **family, lane="batch") == 4
    assert value(shown, "consensus_governor_blocked_seconds", **family) == 2.5
    # The smaller of what is allowed and what refusals have left of it.
    assert value(shown, "consensus_governor_concurrency_limit", **family) == 16


def test_queues_are_absent_and_not_empty_while_the_broker_is_away(watch: Watch) -> None:
    shown = watch.text()
    assert value(shown, "consensus_broker_up") == 0
    assert value(shown, "consensus_queue_messages", queue="llm") is None

    watch.depths = dict.fromkeys(Queue, 2)
    shown = watch.text()
    assert value(shown, "consensus_broker_up") == 1
    assert value(shown, "consensus_queue_messages", queue="llm") == 2


def test_without_the_database_counters_stand_still_and_gauges_are_absent(
    database: Database, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_run(database, "run_1", seconds=1)
    assert value(watch.text(), "consensus_database_up") == 1
    gone = Database("postgresql+psycopg://consensus:secret@127.0.0.1:1/consensus", pool_size=1)
    monkeypatch.setattr(database, "begin", gone.begin)

    shown = watch.text()

    assert value(shown, "consensus_database_up") == 0
    assert value(shown, "consensus_runs_open", state="running") is None
    assert value(shown, "consensus_runs_ended_total", outcome="accepted", simulated="false") == 1
    monkeypatch.undo()
    assert value(watch.text(), "consensus_database_up") == 1
    gone.close()


def test_a_look_serves_everybody_for_some_seconds(database: Database, watch: Watch) -> None:
    watch.text()
    store_run(database)
    assert value(watch.text(after_seconds=FRESH_SECONDS - 1), "consensus_runs_open", state="queued") == 0
    assert value(watch.text(after_seconds=1), "consensus_runs_open", state="queued") == 1


def test_while_a_look_hangs_others_get_what_was_seen_and_then_nothing(
    database: Database, watch: Watch
) -> None:
    watch.text()
    seen: list[str] = []

    def hanging(_: Mapping[str, Limits]) -> Mapping[str, Snapshot]:
        # In the middle of a look: somebody else asks, soon and much later.
        watch.snapshots = lambda _: {}
        seen.append(watch.text(after_seconds=0))
        seen.append(watch.text(after_seconds=STALE_SECONDS))
        return {}

    watch.snapshots = hanging
    watch.text()

    soon, late = seen
    assert value(soon, "consensus_runs_open", state="queued") == 0
    assert value(soon, "consensus_database_up") == 1
    assert value(late, "consensus_runs_open", state="queued") is None
    assert value(late, "consensus_database_up") == 0


def test_a_look_reads_indexes_and_not_the_history(database: Database) -> None:
    ended = {
        "runs": "finished_at",
        "stages": "finished_at",
        "scoring_parts": "finished_at",
        "calls": "ended_at",
    }
    with database.begin() as connection:
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        for table, column in ended.items():
            lately = select(metadata.tables[table]).where(metadata.tables[table].c[column] > func.now())
            plan = connection.execute(
                text(f"EXPLAIN {lately.compile(compile_kwargs={'literal_binds': True})}")
            )
            assert f"ix_{table}_ended" in "\n".join(plan.scalars())


async def test_a_scrape_shows_what_is_declared_and_no_ids(
    app: FastAPI, client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database, "run_01k8zfz0000000000000000000")
    await client.get("/v1/runs/run_01k8zfz0000000000000000000")
    await client.get("/v1/nothing/here")

    answer = await client.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain")
    shown = scraped(answer.text)
    declared = exported()
    assert {name: labels for name, labels in shown.items() if declared.get(name, labels) != labels} == {}
    ours = {name for name in shown if name.startswith("consensus_")}
    assert ours <= set(declared)
    assert "run_01k8zfz" not in answer.text
    route = {"method": "GET", "route": "/v1/runs/{run_id}", "status": "200"}
    assert value(answer.text, "consensus_api_requests_total", **route) == 1
    unknown = {"method": "GET", "route": "other", "status": "404"}
    assert value(answer.text, "consensus_api_requests_total", **unknown) == 1


@dataclasses.dataclass(frozen=True)
class Caller:
    app: FastAPI

    async def status(self, host: str, **headers: str) -> int:
        transport = httpx.ASGITransport(app=self.app, client=(host, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://api", headers=headers) as client:
            answer = await client.get("/metrics")
        if answer.status_code != 200:
            problem(answer, answer.status_code)
            assert "consensus_" not in answer.text
        return answer.status_code


def _app(database: Database, database_url: str, token: str | None) -> FastAPI:
    return create_app(
        Services(
            database=database,
            hub=Hub(database_url),
            submit=lambda _: None,
            broker_problem=lambda: None,
            metrics_token=token,
        )
    )


async def test_without_a_token_metrics_are_for_this_machine(database: Database, database_url: str) -> None:
    caller = Caller(_app(database, database_url, None))

    assert await caller.status("127.0.0.1") == 200
    assert await caller.status("::1") == 200
    assert await caller.status("10.0.0.7") == 403
    assert await caller.status("not-an-address") == 403
    # A proxy on this machine speaks for anybody.
    assert await caller.status("127.0.0.1", **{"X-Forwarded-For": "10.0.0.7"}) == 403


async def test_with_a_token_metrics_are_for_those_who_bring_it(database: Database, database_url: str) -> None:
    caller = Caller(_app(database, database_url, "tok-1"))

    assert await caller.status("10.0.0.7", Authorization="Bearer tok-1") == 200
    assert await caller.status("10.0.0.7", Authorization="Bearer tok-2") == 401
    assert await caller.status("127.0.0.1") == 401
