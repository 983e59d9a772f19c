"""Every request takes a turn of its own with the governor, whoever repeats it, and every turn is settled.

The governor is a real one on a real Redis; what it holds is read with the same look that `limits show` takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from tests.integration.conftest import pause
from tests.integration.desk import Desk, chain_team, desk, providers_at, store
from tests.integration.model_server import HANG, Behaviour, ModelServer, error_429, error_500, good
from tests.integration.stored_runs import seat_row
from workers.core.team import EquippedTeam
from workers.gateway import LONGEST_BLOCK_SECONDS, LoopThread
from workers.governor.base import Limits, Snapshot
from workers.governor.look import look
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.providers.registry import bucket_key

MODEL = "gpt-5"
#: Enough never to be in the way; the day's count then says how many turns were taken.
PLENTY_A_DAY = 1000


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.providers.retry_plan._TRANSPORT_BASE_SECONDS", 0.001)
    monkeypatch.setattr("workers.providers.retry_plan._RATE_BASE_SECONDS", 0.001)


class Bench:
    """One desk under given limits, its server, and a look at the one bucket it uses."""

    def __init__(self, opened: Desk, models: ModelServer, redis_url: str, limits: Limits) -> None:
        self.desk = opened
        self.models = models
        self._redis_url = redis_url
        self._limits = limits

    def code(self, *, timeout_seconds: float = 5.0, retries: int = 2) -> SeatKey:
        """The coder's seat of a run, done by the one model there is."""
        key = self.opened(timeout_seconds=timeout_seconds, retries=retries)
        self.desk.work(key)
        return key

    def opened(self, run_id: str = "run_1", *, timeout_seconds: float = 5.0, retries: int = 2) -> SeatKey:
        data = chain_team([f"openai/{MODEL}"], retries=retries).as_data()
        data["coder"]["timeout_seconds"] = timeout_seconds
        store(self.desk.context.database, run_id, EquippedTeam.model_validate(data))
        return self.desk.open(run_id)

    @contextmanager
    def hanging(self, run_id: str = "run_1") -> Iterator[None]:
        """A call of a run hangs for the time of the block, and is cancelled at its end."""
        self.models.behave[MODEL] = HANG
        self.models.hanging.clear()
        worker = threading.Thread(target=self.desk.work, args=(self.opened(run_id, timeout_seconds=60),))
        worker.start()
        assert self.models.hanging.wait(10)
        try:
            yield
        finally:
            self.desk.gateway.cancel(run_id)
            worker.join(10)

    def row(self, key: SeatKey) -> Any:
        return seat_row(self.desk.context.database, key)

    def bucket(self) -> Snapshot:
        key = bucket_key(providers_at(self.models)["openai"], "gpt")
        deadline = time.monotonic() + 10
        # On a busy machine Redis may answer too late for one look.
        while not (seen := look(self._redis_url, {key: self._limits})):
            assert time.monotonic() < deadline, "Redis does not answer"
        return seen[key]


Open = Callable[..., Any]


@pytest.fixture
def under(database: Database, redis_url: str, models: ModelServer) -> Open:
    @contextmanager
    def opened(slot_wait_seconds: float = 5.0, **limits: Any) -> Iterator[Bench]:
        held = Limits(**{"requests_per_day": PLENTY_A_DAY, **limits})
        with desk(
            database,
            redis_url,
            providers_at(models),
            limits={"openai": held},
            slot_wait_seconds=slot_wait_seconds,
        ) as made:
            yield Bench(made, models, redis_url, held)

    return opened


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Each request by the next of these, the last one for ever."""

    def behave(role: str, body: dict[str, Any], before: int) -> str | Response:
        return behaviours[min(before, len(behaviours) - 1)](role, body, before)

    return behave


def refused_field(_: str, __: dict[str, Any], ___: int) -> Response:
    return JSONResponse({"error": {"message": "unknown field 'response_format'"}}, status_code=422)


@pytest.mark.parametrize(
    ("behaviours", "requests"),
    [
        ([good], 1),
        ([error_429, good], 2),
        ([error_429, error_429, error_429], 3),
        ([error_500, good], 2),
        ([error_500, error_429, good], 3),
        ([refused_field, good], 2),
    ],
)
def test_every_request_takes_a_turn_whichever_layer_repeats_it(
    behaviours: Sequence[Behaviour], requests: int, under: Open, models: ModelServer
) -> None:
    """With room for one call at once, so that a turn that were kept would stop the next."""
    models.behave[MODEL] = in_turn(*behaviours)
    with under(concurrency=1) as bench:
        bench.code()
        left = bench.bucket()

    assert models.requests[MODEL] == requests
    assert (left.requests_today, left.running, left.waiting_interactive) == (requests, 0, 0)


def test_a_turn_that_cannot_be_had_ends_the_call_with_the_429_it_had(
    under: Open, models: ModelServer
) -> None:
    """One a minute: the first goes out at once, the second could only go a minute later."""
    models.behave[MODEL] = error_429
    with under(slot_wait_seconds=0.5, requests_per_minute=1) as bench:
        key = bench.code()
        row = bench.row(key)

    assert models.requests[MODEL] == 1
    # It is worth coming back: the stated wait was short, and two of three requests are left.
    assert (row.state, row.cause) == ("pending", None)
    (deferred,) = [
        payload for seat, payload in bench.desk.payloads("run_1").items() if "wait_seconds" in payload
    ]
    assert "HTTP 429" in deferred["detail"]


def test_a_turn_that_would_come_too_late_for_the_call_is_no_silence_of_the_provider(
    under: Open, models: ModelServer
) -> None:
    """Thirty a minute: the second could go after 2 s, and the whole call may take 1 s."""
    models.behave[MODEL] = error_429
    with under(requests_per_minute=30) as bench:
        bench.code(timeout_seconds=1.0)
        (deferred,) = [
            payload for seat, payload in bench.desk.payloads("run_1").items() if "wait_seconds" in payload
        ]

    assert "HTTP 429" in deferred["detail"]
    assert "no complete answer" not in deferred["detail"]
    assert models.requests[MODEL] == 1


def test_output_tokens_are_settled_with_what_the_provider_counted(under: Open, models: ModelServer) -> None:
    """A token a second. 64 of the 256 that the seat may write were expected, 5 were written."""
    with under(output_tokens_per_minute=60) as bench:
        bench.code()
        left = bench.bucket()

    assert 1 < left.next_start_seconds < 5.2


def test_input_tokens_read_from_the_providers_cache_do_not_count(under: Open, models: ModelServer) -> None:
    def cached(role: str, _: dict[str, Any], __: int) -> Response:
        usage = {
            "prompt_tokens": 1000,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 990},
        }
        return JSONResponse(
            {
                "model": MODEL,
                "choices": [
                    {"message": {"role": "assistant", "content": good(role, {}, 0)}, "finish_reason": "stop"}
                ],
                "usage": usage,
            }
        )

    models.behave[MODEL] = cached
    with under(input_tokens_per_minute=60) as bench:
        bench.code()
        left = bench.bucket()

    # Ten were not in the cache, at a token a second, of which the governor keeps 1 % and then 3 % back: 10.41 s.
    assert 5 < left.next_start_seconds < 10.5


def bad_request(_: str, __: dict[str, Any], ___: int) -> Response:
    return JSONResponse({"error": {"message": "no"}}, status_code=400)


@pytest.mark.parametrize("behaviour", [bad_request, error_500], ids=["400", "500"])
def test_a_request_that_was_refused_costs_no_tokens(
    behaviour: Behaviour, under: Open, models: ModelServer
) -> None:
    models.behave[MODEL] = behaviour
    with under(input_tokens_per_minute=60, output_tokens_per_minute=60) as bench:
        bench.code(retries=0)
        left = bench.bucket()

    assert models.requests[MODEL] == 1
    assert left.next_start_seconds < 0.5
    assert left.requests_today == 1


def test_a_repeated_request_costs_the_tokens_of_one(under: Open, models: ModelServer) -> None:
    models.behave[MODEL] = in_turn(error_500, error_429, good)
    with under(output_tokens_per_minute=60) as bench:
        bench.code()
        left = bench.bucket()

    assert models.requests[MODEL] == 3
    assert 1 < left.next_start_seconds < 5.2


def emptied(bench: Bench) -> Snapshot:
    """The bucket once nobody holds a place in it."""
    deadline = time.monotonic() + 5
    while (bucket := bench.bucket()).running:
        assert time.monotonic() < deadline, "the place is still held"
        pause()
    return bucket


def test_a_call_that_is_cancelled_gives_its_place_back(under: Open, models: ModelServer) -> None:
    with under(concurrency=1) as bench:
        with bench.hanging():
            assert bench.bucket().running == 1
        emptied(bench)
    assert models.gone.wait(5)


class HeldUp(LoopThread):
    """A loop whose caller is held up once its call is on its way, as any thread may be on a busy machine."""

    hold_up: Callable[[], None] | None = None

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        future = super().submit(coroutine)
        if self.hold_up is not None:
            self.hold_up()
        return future


def test_a_run_that_is_cancelled_the_moment_its_request_is_out_is_broken_off(
    database: Database, redis_url: str, models: ModelServer
) -> None:
    models.behave[MODEL] = HANG
    loop = HeldUp()
    with desk(database, redis_url, providers_at(models), loop=loop) as worker:
        key = worker.open(store(database, "run_1", chain_team([f"openai/{MODEL}"], retries=0)))
        canceller = threading.Thread(target=worker.gateway.cancel, args=("run_1",))

        def cancel_meanwhile() -> None:
            loop.hold_up = None
            assert models.hanging.wait(10)
            canceller.start()
            canceller.join(0.05)

        loop.hold_up = cancel_meanwhile
        worker.work(key)
        canceller.join(10)

    # Had nobody heard of the cancel, the call would have run into its time limit of 5 s.
    assert seat_row(database, key).state == "running"
    assert models.gone.wait(5)


def busy(_: str, __: dict[str, Any], ___: int) -> Response:
    return JSONResponse({"error": {"message": "busy"}}, status_code=503)


def test_a_call_that_is_cancelled_is_no_sign_that_the_provider_copes(
    under: Open, models: ModelServer
) -> None:
    """A 503 halves four calls at once; only one that was served makes room for another."""
    models.behave[MODEL] = busy
    with under(concurrency=4) as bench:
        bench.code(retries=0)
        assert bench.bucket().adaptive_concurrency == 2

        for number in range(4):
            with bench.hanging(f"cancelled_{number}"):
                pass
        assert emptied(bench).adaptive_concurrency == 2


def test_a_seat_that_gets_no_place_is_deferred_and_sends_nothing(under: Open, models: ModelServer) -> None:
    """The place is taken by a call that hangs."""
    with under(concurrency=1, slot_wait_seconds=0.3) as bench, bench.hanging():
        other = bench.opened("run_2")
        bench.desk.work(other)
        row = bench.row(other)

    assert models.requests[MODEL] == 1
    assert (row.state, row.attempts, row.owner) == ("pending", 0, None)
    assert row.not_before is not None


def a_day(_: str, __: dict[str, Any], ___: int) -> Response:
    return JSONResponse({"error": {"message": "later"}}, status_code=429, headers={"retry-after": "86400"})


def test_a_wait_of_a_day_keeps_everybody_away_for_five_minutes(under: Open, models: ModelServer) -> None:
    """It may mean one model of the family only; one call then finds out."""
    models.behave[MODEL] = a_day
    with under(concurrency=8) as bench:
        bench.code()
        left = bench.bucket()

    assert models.requests[MODEL] == 1
    assert LONGEST_BLOCK_SECONDS - 20 < left.blocked_seconds <= LONGEST_BLOCK_SECONDS
    assert left.adaptive_concurrency == 4


def test_a_look_while_redis_is_away_shows_nothing() -> None:
    assert look("redis://127.0.0.1:1/0", {"openai:aa:gpt": Limits(concurrency=1)}) == {}
