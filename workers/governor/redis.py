"""The shared store: slots in Redis, decided by one Lua script (DESIGN §4).

What a provider allows is kept in one hash tag per key, `{key}`; `scripts/acquire.lua` maps the names. Redis
decides and its clock counts; this process only waits, and keeps what it holds alive:

* *Rate*: GCRA. The script books the next start and says how long to sleep: one round trip, one sleep.
* *Concurrency*: a lease per running call, renewed while the call runs however long it takes. The leases of a
  killed process end by themselves within `lease_seconds`.
* *Order*: a line of tickets. Of this process's waiters only the first asks again, because no other can be
  next; a place given back in this process wakes it at once.

Everything here belongs to one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import importlib.resources
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

from workers.errors import InputError, SlotTimeoutError, StoreLostError
from workers.governor.base import Demand, Grant, Limits

MICROSECONDS = 1_000_000
#: A waiter whose process has not spoken for it this long is forgotten: its process was killed.
SILENCE_SECONDS = 3.0
#: How long this process's first waiter waits before it asks again: at least `SHORTEST` for each place up to
#: its own, and an eighth of the time in which the line has not moved, so that at most an eighth is lost.
SHORTEST_ASK_SECONDS = 0.004
LONGEST_ASK_SECONDS = 0.25
ASK_SHARE_OF_STANDSTILL = 1 / 8
_REQUESTS = "requests"
_RATE_BUCKETS = (_REQUESTS,)


class _Verdict(enum.IntEnum):
    REFUSED = -1
    IN_LINE = 0
    GRANTED = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What the script said. For a ticket in line `wait_us` is the soonest it can possibly start."""

    verdict: _Verdict
    wait_us: int
    ahead: int
    places_left: int
    paused_us: int


class _Line:
    """What this process knows and says about one key.

    `talking` lets one question out at a time, so that tickets are drawn in the order of the calls; whoever
    queued behind a question that failed shares its failure instead of waiting for another (`losses`).
    `front` is held by the waiter that asks for all of this process."""

    def __init__(self) -> None:
        self.talking = asyncio.Lock()
        self.front = asyncio.Lock()
        self.freed = asyncio.Event()
        self.losses = 0
        self.held: set[str] = set()
        self.waiting: set[str] = set()
        self.ended: set[str] = set()
        self.paused_us = 0

    @property
    def is_busy(self) -> bool:
        return bool(self.held or self.waiting or self.ended)

    def raise_if_lost(self, losses: int) -> None:
        """Raises: `StoreLostError` if Redis failed to answer anybody since `losses` was read."""
        if self.losses != losses:
            raise StoreLostError("Redis did not answer another question about this key")


class RedisStore:
    """Slots shared by every process that uses the same Redis and `prefix`.

    `owner` names this process to whoever reads the leases. `reply_seconds` bounds every answer of Redis;
    after that the store counts as lost. `sleep` paces the renewals."""

    def __init__(
        self,
        client: Redis,
        *,
        owner: str,
        prefix: str = "consensus:governor",
        lease_seconds: float = 30.0,
        reply_seconds: float = 0.8,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if lease_seconds <= 0:
            raise InputError(f"lease_seconds is {lease_seconds}; give a time above 0")
        self._prefix = prefix
        # A restarted container has the name and the process id of the one before it; its leases are not ours.
        self._owner = f"{owner}:{uuid.uuid4().hex[:8]}"
        self._numbers = itertools.count(1)
        self._lease_us = round(lease_seconds * MICROSECONDS)
        self._beat_seconds = min(lease_seconds, SILENCE_SECONDS) / 3
        self._reply_seconds = reply_seconds
        self._sleep = sleep
        self._lines: dict[str, _Line] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._farewells: set[asyncio.Task[None]] = set()
        scripts = importlib.resources.files("workers.governor") / "scripts"
        self._acquire, self._release, self._keep, self._block = (
            client.register_script((scripts / f"{name}.lua").read_text(encoding="utf-8"))
            for name in ("acquire", "release", "keep", "block")
        )

    async def acquire(self, demand: Demand, *, deadline_seconds: float) -> Grant:
        """Wait for a place among the running calls, in order of arrival, and reserve a start time.

        Refused, it leaves nothing behind. Cancelled, it leaves no ticket and no lease; a start that was just
        reserved is lost, because others already hold later ones.
        Raises: `SlotTimeoutError` as soon as it is certain that the start would be later than
        `deadline_seconds` from now; `StoreLostError` if Redis does not answer within `reply_seconds`.
        """
        line = self._line(demand.key)
        give_up_at = asyncio.get_running_loop().time() + deadline_seconds
        ticket = f"{self._owner}:{next(self._numbers)}"
        try:
            answer = await self._ask(line, demand, ticket, give_up_at)
            if answer.verdict is _Verdict.IN_LINE:
                answer = await self._stand_in_line(line, demand, ticket, give_up_at)
        except asyncio.CancelledError:
            await self._withdraw(demand, line, ticket)
            raise
        except StoreLostError:
            # The script may have run all the same; what it gave is returned as soon as Redis answers again.
            if demand.limits.concurrency is not None:
                line.ended.add(ticket)
                self._start_keeping()
            raise
        except TimeoutError:
            await self._withdraw(demand, line, ticket)
            raise SlotTimeoutError(
                f"no place on {demand.key} became free within {deadline_seconds:g} s",
                wait_seconds=deadline_seconds,
            ) from None
        if demand.limits.concurrency is not None:
            line.held.add(ticket)
            self._start_keeping()
        return Grant(
            lease_id=ticket,
            wait_seconds=answer.wait_us / MICROSECONDS,
            paused_seconds=answer.paused_us / MICROSECONDS,
        )

    async def release(self, demand: Demand, grant: Grant) -> None:
        """Give the slot back and wake this process's first waiter. Safe to repeat.

        Raises: `StoreLostError`; the slot then comes back when Redis does, or when its lease ends.
        """
        line = self._line(demand.key)
        if grant.lease_id in line.held:
            line.held.discard(grant.lease_id)
            await self._leave(demand.key, line, grant.lease_id)

    async def block(self, key: str, seconds: float) -> None:
        """Nobody may start on `key` for that long, and reserved starts move back by as much.

        A block never shortens one that stands. Raises: `StoreLostError`.
        """
        line = self._line(key)
        if seconds > 0:
            keys = self._keys(key, "blocked", "paused", *_RATE_BUCKETS)
            async with self._conversation(line):
                line.paused_us = await self._run(self._block, keys, [round(seconds * MICROSECONDS)])

    def paused_seconds(self, key: str) -> float:
        """By how much blocks have put off reserved starts on `key` in total, as last heard (no I/O).

        Every answer of Redis about the key brings it up to date, whichever process blocked."""
        return self._line(key).paused_us / MICROSECONDS

    async def aclose(self) -> None:
        """Stop renewing. What is still held ends with its lease."""
        tasks = [*self._farewells, *([self._keeper] if self._keeper else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _line(self, key: str) -> _Line:
        return self._lines.setdefault(key, _Line())

    def _keys(self, key: str, *names: str) -> list[str]:
        return [f"{self._prefix}:{{{key}}}:{name}" for name in names]

    async def _ask(self, line: _Line, demand: Demand, ticket: str, give_up_at: float) -> _Answer:
        rates = _rates(demand.limits)
        keys = self._keys(
            demand.key, "leases", "line", "heard", "blocked", "paused", *(name for name, *_ in rates)
        )
        async with self._conversation(line):
            await self._report_ended(demand.key, line)
            left_us = max(0, round((give_up_at - asyncio.get_running_loop().time()) * MICROSECONDS))
            arguments: list[str | float] = [
                ticket,
                demand.limits.concurrency or 0,
                self._lease_us,
                round(SILENCE_SECONDS * MICROSECONDS),
                left_us,
            ]
            for _, cost, unit_us, burst_us in rates:
                arguments += [cost, unit_us, burst_us]
            reply = await self._run(self._acquire, keys, arguments)
            answer = _Answer(
                verdict=_Verdict(reply[0]),
                wait_us=reply[1],
                ahead=reply[2],
                places_left=reply[3],
                paused_us=reply[4],
            )
            line.paused_us = answer.paused_us
        if answer.verdict is _Verdict.REFUSED:
            wait_seconds = answer.wait_us / MICROSECONDS
            raise SlotTimeoutError(
                f"the next free start on {demand.key} is {wait_seconds:.1f} s away, "
                f"later than the {left_us / MICROSECONDS:.1f} s this caller can wait",
                wait_seconds=wait_seconds,
            )
        return answer

    async def _stand_in_line(self, line: _Line, demand: Demand, ticket: str, give_up_at: float) -> _Answer:
        """Ask again until granted. Raises: TimeoutError at `give_up_at`, and whatever `_ask` raises."""
        losses = line.losses
        line.waiting.add(ticket)
        self._start_keeping()
        try:
            async with asyncio.timeout_at(give_up_at):
                await line.front.acquire()
            try:
                answer = await self._ask_from_the_front(line, demand, ticket, give_up_at, losses)
            finally:
                line.front.release()
        finally:
            line.waiting.discard(ticket)
        if answer.places_left and line.waiting:
            line.freed.set()
        return answer

    async def _ask_from_the_front(
        self, line: _Line, demand: Demand, ticket: str, give_up_at: float, losses: int
    ) -> _Answer:
        clock = asyncio.get_running_loop().time
        moved_at, pause_seconds, ahead = clock(), SHORTEST_ASK_SECONDS, -1
        while True:
            line.raise_if_lost(losses)
            await _wait(line, pause_seconds, give_up_at)
            line.raise_if_lost(losses)
            answer = await self._ask(line, demand, ticket, give_up_at)
            if answer.verdict is _Verdict.GRANTED:
                return answer
            if answer.ahead != ahead:
                moved_at, ahead = clock(), answer.ahead
            pause_seconds = _ask_again_seconds(answer, clock() - moved_at)

    async def _withdraw(self, demand: Demand, line: _Line, ticket: str) -> None:
        """Take a ticket back even if this caller is cancelled once more meanwhile."""
        if demand.limits.concurrency is None:
            return
        farewell = asyncio.create_task(self._leave(demand.key, line, ticket))
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)
        with contextlib.suppress(StoreLostError):
            await asyncio.shield(farewell)

    async def _leave(self, key: str, line: _Line, ticket: str) -> None:
        line.ended.add(ticket)
        async with self._conversation(line):
            await self._report_ended(key, line)

    async def _report_ended(self, key: str, line: _Line) -> None:
        """Calls that end together go out together: whoever speaks next says it for all."""
        if ended := sorted(line.ended):
            await self._run(self._release, self._keys(key, "leases", "line", "heard"), ended)
            line.ended.difference_update(ended)
            if line.waiting:
                line.freed.set()

    def _start_keeping(self) -> None:
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._keep_alive())

    async def _keep_alive(self) -> None:
        """Renew leases and speak for waiters, three times as often as either would end."""
        while any(line.is_busy for line in self._lines.values()):
            await self._sleep(self._beat_seconds)
            for key, line in tuple(self._lines.items()):
                with contextlib.suppress(StoreLostError):
                    await self._keep_line_alive(key, line)

    async def _keep_line_alive(self, key: str, line: _Line) -> None:
        async with self._conversation(line):
            await self._report_ended(key, line)
            if line.held or line.waiting:
                arguments: list[str | float] = [self._lease_us, len(line.held), *line.held, *line.waiting]
                keys = self._keys(key, "leases", "heard", "paused")
                line.paused_us = await self._run(self._keep, keys, arguments)

    @contextlib.asynccontextmanager
    async def _conversation(self, line: _Line) -> AsyncIterator[None]:
        losses = line.losses
        async with line.talking:
            line.raise_if_lost(losses)
            try:
                yield
            except (RedisError, OSError, TimeoutError) as error:
                line.losses += 1
                line.freed.set()
                reason = str(error) or f"no answer within {self._reply_seconds:g} s"
                raise StoreLostError(f"Redis does not keep the governor's slots now: {reason}") from error

    async def _run(self, script: AsyncScript, keys: Sequence[str], arguments: Sequence[str | float]) -> Any:
        question = asyncio.create_task(self._run_in_time(script, keys, arguments))
        try:
            return await asyncio.shield(question)
        except asyncio.CancelledError:
            # Redis may be deciding at this moment. Keep the conversation until it has, or the ticket could be
            # taken back before it is drawn and would stay.
            await asyncio.wait([question])
            raise

    async def _run_in_time(
        self, script: AsyncScript, keys: Sequence[str], arguments: Sequence[str | float]
    ) -> Any:
        async with asyncio.timeout(self._reply_seconds):
            return await script(keys=keys, args=arguments)


def _rates(limits: Limits) -> list[tuple[str, int, float, float]]:
    """Per rate bucket: its name, what one call costs, µs per unit, burst in µs."""
    if limits.requests_per_minute is None:
        return []
    unit_us = 60 * MICROSECONDS / limits.requests_per_minute
    return [(_REQUESTS, 1, unit_us, limits.burst * unit_us)]


def _ask_again_seconds(last: _Answer, standstill_seconds: float) -> float:
    """How long to wait before asking again; not before half of what a rate limit makes one wait anyway."""
    shortest = SHORTEST_ASK_SECONDS * (last.ahead + 1)
    patience = min(max(shortest, standstill_seconds * ASK_SHARE_OF_STANDSTILL), LONGEST_ASK_SECONDS)
    return max(patience, last.wait_us / MICROSECONDS / 2)


async def _wait(line: _Line, seconds: float, give_up_at: float) -> None:
    """Until a place is given back here, or `seconds` have passed. Raises: TimeoutError at `give_up_at`."""
    loop = asyncio.get_running_loop()
    if loop.time() >= give_up_at:
        raise TimeoutError
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(min(loop.time() + seconds, give_up_at)):
            await line.freed.wait()
    line.freed.clear()
