"""One worker process of `benchmarks/governor.py`: waiters that ask for slots and call the counting provider.

python benchmarks/governor_worker.py PLAN.json OUT.json
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import redis.asyncio
from aiolimiter import AsyncLimiter
from httpx_aiohttp import HttpxAiohttpClient

from workers.errors import SlotTimeoutError
from workers.governor.base import Lane, Limits, Spent
from workers.governor.estimate import Estimates
from workers.governor.governor import Governor
from workers.governor.local import LocalStore
from workers.governor.redis import RedisStore

KEY, MODEL, MAX_TOKENS = "counting:nokey:model", "model", 4000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """`limiter`: "governor"; "share" and "whole" are aiolimiter in this process alone, on a quarter of the
    requests or on all of them. `calls` 0: no provider, as many decisions as fit into `seconds`.
    `gap_seconds`: how long each waiter pauses between its calls.
    `ramp_seconds`: over how long the waiters come one after the other. `lessons`: calls before the start, outside the
    governor, from which the estimates are learnt."""

    number: int
    limiter: str
    provider_url: str
    redis_url: str
    go_at: float
    calls: int = 0
    seconds: float = 0.0
    waiters: int = 125
    lane: str = "interactive"
    gap_seconds: float = 0.0
    ramp_seconds: float = 0.0
    learns: bool = True
    lessons: int = 0
    deadline_seconds: float = 60.0
    lease_seconds: float = 30.0
    processes: int = 4
    requests_per_minute: float | None = None
    output_tokens_per_minute: float | None = None
    concurrency: int | None = None
    burst: int = 1


class Worker:
    def __init__(self, plan: Plan, client: httpx.AsyncClient, governor: Governor) -> None:
        self._plan, self._client, self._governor = plan, client, governor
        self._left = plan.calls
        self._dice = random.Random(plan.number)
        self._estimates = Estimates()
        self._aiolimiter = None
        if plan.limiter != "governor":
            assert plan.requests_per_minute is not None
            share = plan.requests_per_minute / (plan.processes if plan.limiter == "share" else 1)
            self._aiolimiter = AsyncLimiter(1, 60 / share)
        self.waits: list[tuple[float, float]] = []
        self.decisions = 0
        self.refusals = 0

    async def call_until_done(self, number: int) -> None:
        await asyncio.sleep(self._plan.ramp_seconds * number / self._plan.waiters)
        while self._left > 0:
            self._left -= 1
            await self._call()
            if self._plan.gap_seconds:
                await asyncio.sleep(self._plan.gap_seconds)

    async def decide_until(self, end: float) -> None:
        while time.monotonic() < end:
            async with self._governor.slot(KEY, output_tokens=10):
                self.decisions += 1

    async def take_lesson(self) -> None:
        stage, characters = self._draw()
        spent = await self._ask_provider(stage, characters)
        self._learn(stage, characters, spent)

    async def _call(self) -> None:
        stage, characters = self._draw()
        async with self._permission(stage, characters) as settle:
            settle(await self._ask_provider(stage, characters))

    def _draw(self) -> tuple[str, int]:
        return self._dice.choice(("review", "verdict")), self._dice.randrange(2000, 6000)

    async def _ask_provider(self, stage: str, characters: int) -> Spent:
        body = {"worker": self._plan.number, "stage": stage, "characters": characters}
        usage = (await self._client.post(self._plan.provider_url, json=body)).json()
        return Spent(input_tokens=usage["input"], output_tokens=usage["output"])

    def _learn(self, stage: str, characters: int, spent: Spent) -> None:
        self._estimates.learn(MODEL, stage, input_characters=characters, max_tokens=MAX_TOKENS, spent=spent)

    @contextlib.asynccontextmanager
    async def _permission(self, stage: str, characters: int) -> AsyncIterator[Callable[[Spent], None]]:
        asked_at = time.monotonic()
        if self._aiolimiter is not None:
            await self._aiolimiter.acquire()
            self.waits.append((asked_at, time.monotonic()))
            yield lambda _: None
            return
        expected = self._estimates.expect(MODEL, stage, input_characters=characters, max_tokens=MAX_TOKENS)
        while True:
            try:
                async with self._governor.slot(
                    KEY,
                    lane=Lane(self._plan.lane),
                    output_tokens=expected.output_tokens,
                    deadline_seconds=self._plan.deadline_seconds,
                ) as slot:
                    self.waits.append((asked_at, time.monotonic()))

                    def settle(spent: Spent) -> None:
                        slot.settle(spent)
                        if self._plan.learns:
                            self._learn(stage, characters, spent)

                    yield settle
                    return
            except SlotTimeoutError:
                self.refusals += 1
                asked_at = time.monotonic()


async def run(plan: Plan) -> dict[str, object]:
    limits = Limits(
        requests_per_minute=plan.requests_per_minute,
        output_tokens_per_minute=plan.output_tokens_per_minute,
        concurrency=plan.concurrency,
        burst=plan.burst,
    )
    connection = redis.asyncio.from_url(plan.redis_url)
    store = RedisStore(connection, owner=f"bench-{os.getpid()}", lease_seconds=plan.lease_seconds)
    governor = Governor(store, LocalStore(plan.processes), lambda _: limits)
    async with HttpxAiohttpClient(limits=httpx.Limits(max_connections=2000), timeout=120) as client:
        worker = Worker(plan, client, governor)
        await asyncio.gather(*(worker.take_lesson() for _ in range(plan.lessons)))
        await asyncio.sleep(max(0.0, plan.go_at - time.monotonic()))
        if plan.calls:
            await asyncio.gather(*(worker.call_until_done(number) for number in range(plan.waiters)))
        else:
            end = plan.go_at + plan.seconds
            await asyncio.gather(*(worker.decide_until(end) for _ in range(plan.waiters)))
    await store.aclose()
    await connection.aclose()
    return {"waits": worker.waits, "decisions": worker.decisions, "refusals": worker.refusals}


if __name__ == "__main__":
    settings, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.write_text(json.dumps(asyncio.run(run(Plan(**json.loads(settings.read_text()))))))
