"""How many requests a seat sends for each way to fail, through both retry layers and the chain's fallback.

A chain of two links, the first of the OpenAI format and the second of Anthropic's, each a server of its own that
fails the same way; `retries: 2`. Nothing may be sent more than N+1 = 3 times a link, whichever layer repeats it."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import select

from tests.cages import NoCage
from tests.contract.providers.dialects import MODES, Mode
from tests.contract.providers.fault_server import Act, FaultServer, Script, hang, reply, reset
from tests.factories import NoToolbox, make_team
from tests.integration.stored_runs import claim, lose_worker, open_seats, seat_key, store_run
from workers.core.answers import ReviewAnswer
from workers.core.budget import Amount
from workers.core.run import Stage
from workers.core.team import Seat, SeatAt
from workers.errors import SlotTimeoutError
from workers.gateway import Gateway, LoopThread
from workers.governor.accounts import Accounts
from workers.governor.base import Lane
from workers.governor.limit_book import LimitBook
from workers.provenance.models import calls
from workers.provenance.repository import calls as call_rows
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.providers.registry import enabled
from workers.stages.ask import Answered, ask
from workers.stages.context import Context, Material
from workers.stages.seat import Work
from workers.stages.walk import SeatFailedError
from workers.wiring import SeatsAtWork, new_id, now

RETRIES = 2
CHAIN = ("local/alder-1", "anthropic/claude-haiku-4-5")
GOOD = json.dumps({"findings": [], "summary": "nothing"})
SOON = {"retry-after-ms": "1"}


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    running = FaultServer()
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.providers.retry_plan._TRANSPORT_BASE_SECONDS", 0.001)
    monkeypatch.setattr("workers.providers.retry_plan._RATE_BASE_SECONDS", 0.001)


@dataclasses.dataclass(frozen=True)
class Bench:
    """Asks one seat and counts what arrived at each of its two servers."""

    server: FaultServer
    database: Database
    redis_url: str

    def ask(
        self, acts: Callable[[Mode], Sequence[Act]], *, stream: bool = False, used: int = 0
    ) -> tuple[Answered[Any] | Exception, list[int]]:
        dialects = [MODES[f"{wire}-{'stream' if stream else 'whole'}"] for wire in ("openai", "anthropic")]
        scripts = [self.server.script(*acts(mode), cycle=False) for mode in dialects]
        return self._ask(scripts, stream=stream, used=used), [len(script.seen) for script in scripts]

    def _ask(self, scripts: Sequence[Script], *, stream: bool, used: int) -> Answered[Any] | Exception:
        providers = enabled(
            {
                "LOCAL_BASE_URL": scripts[0].base_url,
                "ANTHROPIC_BASE_URL": scripts[1].base_url,
                "ANTHROPIC_API_KEY": "k",
            }
        )
        loop = LoopThread()
        gateway = Gateway(
            loop,
            providers,
            redis_url=self.redis_url,
            owner="me",
            processes=1,
            slot_wait_seconds=5.0,
            accounts=Accounts(time.monotonic),
            limits=LimitBook({}),
        )
        context = Context(
            database=self.database,
            models=gateway,
            owner="me",
            lease_seconds=30,
            held_seconds=300.0,
            now=now,
            new_id=new_id,
            sleep=lambda _: None,
            render=lambda name, **_: name,
            at_work=SeatsAtWork(),
            toolbox=NoToolbox(),
            cage=NoCage(),
        )
        store_run(self.database)
        key = seat_key()
        open_seats(self.database, key)
        if used:
            self._ask_as_an_earlier_worker(key, requests=used)
        progress = claim(self.database, key=key)
        assert progress is not None
        seat = Seat(models=CHAIN, temperature=0.5, max_tokens=64, timeout_seconds=0.4, stream=stream)
        work = Work(
            context=context,
            key=key,
            place=SeatAt(index=0, stage=Stage.PANEL, name="left", seat=seat),
            progress=progress,
            lane=Lane.INTERACTIVE,
            team=make_team(policy={"retries": RETRIES}),
            material=Material(spec="s", files={}, tests={}),
            results={},
        )
        try:
            return ask(work, answer_type=ReviewAnswer, render_user=lambda: "the artefact")
        except (SeatFailedError, SlotTimeoutError) as error:
            return error
        finally:
            gateway.close()
            loop.close()

    def _ask_as_an_earlier_worker(self, key: SeatKey, *, requests: int) -> None:
        """It claimed the seat, sent that many requests to the first link, and died."""
        claim(self.database, key=key, owner="dead")
        provider, _, model = CHAIN[0].partition("/")
        new = call_rows.NewCall(
            call_id="earlier", key=key, link=0, provider=provider, model=model, family="alder", request={}
        )
        with self.database.begin() as connection:
            call_rows.sent(connection, new)
            for _ in range(requests - 1):
                call_rows.sent_again(connection, "earlier", key, Amount())
        lose_worker(self.database, key)

    def requests_on_record(self) -> int:
        with self.database.begin() as connection:
            return sum(connection.execute(select(calls.c.http_requests)).scalars())


@pytest.fixture
def bench(server: FaultServer, database: Database, redis_url: str) -> Bench:
    return Bench(server, database, redis_url)


def always(build: Callable[[Mode], Act]) -> Callable[[Mode], Sequence[Act]]:
    return lambda mode: [build(mode)]


def refuses(
    status: int, kind: str = "x", message: str = "no", headers: dict[str, str] | None = None
) -> Callable[[Mode], Sequence[Act]]:
    return always(lambda mode: mode.refusal(status, kind, message, headers))


FAULTS: dict[str, tuple[Callable[[Mode], Sequence[Act]], str, int]] = {
    # what the servers do → (the class it ends as, requests each of them gets)
    "429": (refuses(429, "rate_limit_error", headers=SOON), "rate", 3),
    "429 inside a 200": (
        always(lambda mode: mode.error_inside_200("rate_limit_error", "try again in 1ms")),
        "rate",
        3,
    ),
    "402": (refuses(402), "quota", 1),
    "429 of an empty account": (refuses(429, "insufficient_quota"), "quota", 1),
    "400 at the spend limit": (refuses(400, "invalid_request_error", "spend limit reached"), "quota", 1),
    "500": (refuses(500), "overload", 3),
    "503": (refuses(503), "overload", 3),
    "529": (refuses(529, "overloaded_error"), "overload", 3),
    "overload inside a 200": (
        always(lambda mode: mode.error_inside_200("overloaded_error", "busy")),
        "overload",
        3,
    ),
    "a page of HTML, 502": (
        always(lambda _: reply(502, b"<html></html>", content_type="text/html")),
        "overload",
        3,
    ),
    "reset": (always(lambda _: reset), "transport", 3),
    "torn": (always(lambda mode: mode.torn("half")), "transport", 3),
    "hang": (always(lambda _: hang), "timeout", 3),
    "400": (refuses(400), "bad_request", 1),
    "404": (refuses(404), "bad_request", 1),
    "422": (refuses(422), "bad_request", 1),
    "401": (refuses(401), "auth", 1),
    "403": (refuses(403), "auth", 1),
    "413": (refuses(413), "context", 1),
    "400 for its length": (refuses(400, "x", "prompt is too long"), "context", 1),
    "a page of HTML, 200": (
        always(lambda _: reply(200, b"<html></html>", content_type="text/html")),
        "malformed",
        3,
    ),
    "202": (always(lambda _: reply(202, b"{}")), "malformed", 3),
    "empty": (always(lambda mode: mode.good("")), "empty", 3),
    "thoughts only": (always(lambda mode: mode.good(finish="length", reasoning="hm")), "empty", 3),
    "cut at the limit": (always(lambda mode: mode.good('{"findings": [', finish="length")), "torn", 3),
    "no JSON": (always(lambda mode: mode.good("I would rather not.")), "torn", 3),
    "a refusal": (always(lambda mode: mode.good("I cannot", finish="refusal")), "refusal", 1),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_failure_is_sent_as_often_as_its_class_allows(fault: str, bench: Bench) -> None:
    acts, kind, each = FAULTS[fault]

    outcome, requests = bench.ask(acts)

    assert isinstance(outcome, SeatFailedError)
    assert outcome.cause == kind
    assert requests == [each, each]
    assert bench.requests_on_record() == 2 * each


STREAMED = (
    "429 inside a 200",
    "overload inside a 200",
    "torn",
    "empty",
    "cut at the limit",
    "a refusal",
    "hang",
)


@pytest.mark.parametrize("fault", STREAMED)
def test_a_stream_is_sent_no_oftener(fault: str, bench: Bench) -> None:
    acts, kind, each = FAULTS[fault]

    outcome, requests = bench.ask(acts, stream=True)

    assert isinstance(outcome, SeatFailedError)
    assert (outcome.cause, requests) == (kind, [each, each])


@pytest.mark.parametrize(
    ("statuses", "each"), [((429, 500, 429, 500), 3), ((500, 429, 429, 429), 3), ((500, 429, 400), 3)]
)
def test_failures_that_take_turns_share_one_count(statuses: Sequence[int], each: int, bench: Bench) -> None:
    kinds = {429: "rate_limit_error", 500: "api_error", 400: "x"}

    _, requests = bench.ask(
        lambda mode: [
            mode.refusal(status, kinds[status], headers=SOON if status == 429 else None)
            for status in statuses
        ]
    )

    assert requests == [each, each]


def test_a_field_drop_is_sent_besides_and_once(bench: Bench) -> None:
    """422 for the temperature, then 500 for ever: three counted requests a link, and the free one."""
    outcome, requests = bench.ask(
        lambda mode: [mode.refusal(422, "x", "unknown field 'temperature'"), mode.refusal(500, "api_error")]
    )

    assert isinstance(outcome, SeatFailedError)
    assert outcome.cause == "overload"
    assert requests == [RETRIES + 2, RETRIES + 2]
    assert bench.requests_on_record() == 2 * (RETRIES + 1)


def test_a_wait_too_long_to_sit_through_is_asked_once_a_link(bench: Bench) -> None:
    outcome, requests = bench.ask(refuses(429, "rate_limit_error", headers={"retry-after": "60"}))

    assert isinstance(outcome, SlotTimeoutError)
    assert 60.0 <= outcome.wait_seconds < 62.0
    assert requests == [1, 1]


def test_what_an_earlier_worker_sent_is_not_sent_again(bench: Bench) -> None:
    _, requests = bench.ask(refuses(500), used=2)
    assert requests == [1, 3]


def test_an_answer_after_two_failures_ends_it(bench: Bench) -> None:
    outcome, requests = bench.ask(
        lambda mode: [mode.refusal(500, "api_error"), mode.torn("half"), mode.good(GOOD)]
    )

    assert isinstance(outcome, Answered)
    assert outcome.link.provider == "local"
    assert requests == [3, 0]
