"""The shared store: slots in Redis, decided by Lua scripts (DESIGN §4).

What a provider allows is kept in one hash tag per key, `{key}`; `scripts/acquire.lua` maps the names. Redis
decides and its clock counts; this process only waits, and keeps what it holds alive:

* *Rates*: GCRA. The script books the next start and says how long to sleep: one round trip, one sleep.
* *Concurrency*: a lease per running call, renewed while the call runs however long it takes. The leases of a
  killed process end by themselves within `lease_seconds`.
* *Order*: a line of tickets per lane. Of this process's waiters in a lane only the first asks again, because no
  other can be next; a place given back in this process wakes it at once. Whoever asks serves those ahead of it,
  in whichever process they wait.

Everything here belongs to one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.resources
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from redis.asyncio import Redis
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

from workers.errors import InputError, SlotTimeoutError, StoreLostError
from workers.governor import line as asking
from workers.governor import wire
from workers.governor.base import (
    BATCH_HORIZON_SECONDS,
    Debts,
    Demand,
    Grant,
    Lane,
    Limits,
    Settlement,
    Signal,
    Snapshot,
)
from workers.governor.line import Line, ask_again_seconds
from workers.governor.wire import MICROSECONDS, Answer, Arguments, Verdict

SILENCE_SECONDS: Final = 3.0
"""A waiter whose process has not spoken for it this long is forgotten: its process was killed."""
_Result = TypeVar("_Result")


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
        self._lines: dict[str, Line] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._farewells: set[asyncio.Task[None]] = set()
        scripts = importlib.resources.files("workers.governor") / "scripts"
        self._acquire, self._release, self._keep, self._hear, self._look = (
            client.register_script((scripts / f"{name}.lua").read_text(encoding="utf-8"))
            for name in ("acquire", "release", "keep", "hear", "snapshot")
        )

    async def acquire(self, demand: Demand, *, deadline_seconds: float) -> Grant:
        """Wait for a place in the demand's lane, in order of arrival, and reserve a start time.

        Refused or cancelled, it leaves nothing behind; of a start that was just reserved and after which others
        already hold later ones, tokens and the day's count come back, but not the start.
        Raises: `SlotTimeoutError` as soon as it is certain that the start would be later than
        `deadline_seconds` from now; `StoreLostError` if Redis does not answer within `reply_seconds`.
        """
        line = self._line(demand.key)
        give_up_at = asyncio.get_running_loop().time() + deadline_seconds
        ticket = f"{self._owner}:{next(self._numbers)}"
        try:
            answer = await self._ask(line, demand, ticket, give_up_at)
            if answer.verdict is Verdict.IN_LINE:
                answer = await self._stand_in_line(line, demand, ticket, give_up_at)
        except asyncio.CancelledError:
            await self._withdraw(demand, line, ticket)
            raise
        except StoreLostError:
            # The script may have run all the same; its place is returned as soon as Redis answers again.
            arguments = _parting(line, demand, ticket)
            if arguments is not None:
                line.ended.setdefault(ticket, arguments)
                self._start_keeping()
            raise
        except TimeoutError:
            await self._withdraw(demand, line, ticket)
            raise SlotTimeoutError(
                f"no place on {demand.key} became free within {deadline_seconds:g} s",
                wait_seconds=deadline_seconds,
            ) from None
        is_batch = demand.lane is Lane.BATCH
        ahead_seconds = min(deadline_seconds, BATCH_HORIZON_SECONDS) if is_batch else deadline_seconds
        line.longest_seconds = max(line.longest_seconds, ahead_seconds)
        if wire.needs_lease(demand.limits):
            line.leases.add(ticket)
            self._start_keeping()
        return Grant(
            lease_id=ticket,
            wait_seconds=answer.wait_us / MICROSECONDS,
            paused_seconds=answer.paused_us / MICROSECONDS,
        )

    async def release(self, demand: Demand, grant: Grant, settlement: Settlement) -> None:
        """Give the slot back and settle it in one question, and wake this process's next waiter. Safe to repeat.

        Raises: `StoreLostError`; the slot then comes back when Redis does, or when its lease ends.
        """
        line, ticket = self._line(demand.key), grant.lease_id
        line.leases.discard(ticket)
        taken = line.taken.pop(ticket, None)
        if taken is None:
            return
        arguments = wire.settle_arguments(ticket, demand, taken, settlement)
        if arguments is not None:
            await self._leave(demand.key, line, ticket, arguments)

    async def hear(self, key: str, limits: Limits, signal: Signal) -> None:
        """Tell everybody what a provider said. A block also moves reserved starts back by as much as it lasts,
        and never shortens one that stands. Raises: `StoreLostError`.
        """
        line, arguments = self._line(key), wire.hear_arguments(limits, signal)
        async with self._conversation(line):
            line.paused_us = await self._run(self._hear, self._keys(key, wire.HEAR_KEYS), arguments)

    def paused_seconds(self, key: str) -> float:
        """By how much blocks have put off reserved starts on `key` in total, as last heard (no I/O).

        Every answer of Redis about the key brings it up to date, whichever process blocked."""
        return self._line(key).paused_us / MICROSECONDS

    def debts(self, key: str, limits: Limits) -> Debts:  # noqa: ARG002
        """As last heard, taking others to have gone on as before; nothing if nothing was ever heard."""
        return self._line(key).debts(asyncio.get_running_loop().time())

    def assume(self, key: str, limits: Limits, debts: Debts) -> None:  # noqa: ARG002
        """Redis hears of these debts with the next question on `key`."""
        self._line(key).assume(debts, asyncio.get_running_loop().time())

    async def snapshot(self, key: str, limits: Limits) -> Snapshot:
        """How the key stands for everybody. Raises: `StoreLostError`."""
        async with self._conversation(self._line(key)):
            reply = await self._run(self._look, self._keys(key, wire.KEYS), [])
        running, interactive, batch, blocked_us, cap, today, next_us = reply
        places, per_day = limits.concurrency, limits.requests_per_day
        return Snapshot(
            is_shared=True,
            running=running,
            waiting_interactive=interactive,
            waiting_batch=batch,
            blocked_seconds=blocked_us / MICROSECONDS,
            next_start_seconds=next_us / MICROSECONDS,
            concurrency=places,
            adaptive_concurrency=places if places is None or not cap else min(cap, places),
            requests_today=today,
            requests_remaining=None if per_day is None else max(0, per_day - today),
        )

    async def aclose(self) -> None:
        """Stop renewing. What is still held ends with its lease."""
        tasks = [*self._farewells, *([self._keeper] if self._keeper else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _line(self, key: str) -> Line:
        return self._lines.setdefault(key, Line())

    def _keys(self, key: str, names: Sequence[str]) -> list[str]:
        return [f"{self._prefix}:{{{key}}}:{name}" for name in names]

    async def _ask(self, line: Line, demand: Demand, ticket: str, give_up_at: float) -> Answer:
        async with self._conversation(line):
            if (given := line.given.get(ticket)) is not None:
                # Another waiter's question was answered for this one while it queued to ask.
                return given
            line.places = demand.limits.concurrency or 0
            await self._report_ended(demand.key, line)
            now = asyncio.get_running_loop().time()
            left_us = max(0, round((give_up_at - now) * MICROSECONDS))
            arguments = wire.acquire_arguments(
                demand,
                ticket,
                lease_us=self._lease_us,
                silence_us=round(SILENCE_SECONDS * MICROSECONDS),
                longest_us=left_us,
                born=line.born,
                owed_us=line.owed_us(now),
                elsewhere_us=line.elsewhere_us(now),
            )
            answer = await self._to_the_end(self._ask_and_note(line, demand.key, ticket, arguments))
        if answer.verdict is Verdict.REFUSED:
            wait_seconds = answer.wait_us / MICROSECONDS
            raise SlotTimeoutError(
                f"the next free start on {demand.key} is {wait_seconds:.1f} s away, "
                f"later than the {left_us / MICROSECONDS:.1f} s this caller can wait",
                wait_seconds=wait_seconds,
            )
        return answer

    async def _ask_and_note(self, line: Line, key: str, ticket: str, arguments: Arguments) -> Answer:
        """What was taken is noted even if the caller is cancelled meanwhile: it must be given back."""
        clock = asyncio.get_running_loop().time
        asked_at = clock()
        reply = await self._run_in_time(self._acquire, self._keys(key, wire.KEYS), arguments)
        answer, granted = wire.read_acquire(reply)
        heard_at = clock()
        if heard_at - asked_at > self._reply_seconds:
            # This process stood still meanwhile, and nobody knows how much of it after Redis had decided.
            late_us = round((heard_at - asked_at) * MICROSECONDS)
            answer = wire.earlier(answer, late_us)
            granted = {whose: wire.earlier(given, late_us) for whose, given in granted.items()}
        line.remember(answer, heard_at)
        line.note(ticket, answer)
        line.give(granted)
        return answer

    async def _stand_in_line(self, line: Line, demand: Demand, ticket: str, give_up_at: float) -> Answer:
        """Ask again until granted. Raises: TimeoutError at `give_up_at`, and whatever `_ask` raises."""
        losses, queue = line.losses, line.queues[demand.lane]
        queue.waiting.add(ticket)
        self._start_keeping()
        try:
            async with asyncio.timeout_at(give_up_at):
                await queue.front.acquire()
            try:
                return await self._ask_from_the_front(line, demand, ticket, give_up_at, losses)
            finally:
                queue.front.release()
        finally:
            queue.waiting.discard(ticket)
            line.given.pop(ticket, None)

    async def _ask_from_the_front(
        self, line: Line, demand: Demand, ticket: str, give_up_at: float, losses: int
    ) -> Answer:
        clock, queue = asyncio.get_running_loop().time, line.queues[demand.lane]
        moved_at, pause_seconds, ahead = clock(), asking.SHORTEST_ASK_SECONDS, -1
        while True:
            line.raise_if_lost(losses)
            if ticket in line.given:
                return line.given[ticket]
            await queue.wait(pause_seconds, give_up_at)
            line.raise_if_lost(losses)
            answer = await self._ask(line, demand, ticket, give_up_at)
            if answer.verdict is Verdict.GRANTED:
                return answer
            if answer.ahead != ahead:
                moved_at, ahead = clock(), answer.ahead
            pause_seconds = ask_again_seconds(demand.lane, answer, clock() - moved_at)

    async def _withdraw(self, demand: Demand, line: Line, ticket: str) -> None:
        """Take a ticket back even if this caller is cancelled once more meanwhile."""
        arguments = _parting(line, demand, ticket)
        if arguments is None:
            return
        farewell = asyncio.create_task(self._leave(demand.key, line, ticket, arguments))
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)
        with contextlib.suppress(StoreLostError):
            await asyncio.shield(farewell)

    async def _leave(self, key: str, line: Line, ticket: str, arguments: Arguments) -> None:
        line.ended.setdefault(ticket, arguments)
        self._start_keeping()
        async with self._conversation(line):
            await self._report_ended(key, line)

    async def _report_ended(self, key: str, line: Line) -> None:
        """Calls that end together go out together: whoever speaks next says it for all."""
        if ended := dict(line.ended):
            arguments = [line.places, *itertools.chain.from_iterable(ended.values())]
            await self._run(self._release, self._keys(key, wire.KEYS), arguments)
            for ticket in ended:
                del line.ended[ticket]
            if line.places:
                line.wake_next()

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

    async def _keep_line_alive(self, key: str, line: Line) -> None:
        async with self._conversation(line):
            await self._report_ended(key, line)
            if line.leases or line.waiting:
                arguments: Arguments = [self._lease_us, len(line.leases), *line.leases, *line.waiting]
                line.paused_us = await self._run(self._keep, self._keys(key, wire.KEEP_KEYS), arguments)

    @contextlib.asynccontextmanager
    async def _conversation(self, line: Line) -> AsyncIterator[None]:
        losses = line.losses
        async with line.talking:
            line.raise_if_lost(losses)
            try:
                yield
            except (RedisError, OSError, TimeoutError) as error:
                line.note_loss()
                reason = str(error) or f"no answer within {self._reply_seconds:g} s"
                raise StoreLostError(f"Redis does not keep the governor's slots now: {reason}") from error

    async def _run(self, script: AsyncScript, keys: Sequence[str], arguments: Arguments) -> Any:
        return await self._to_the_end(self._run_in_time(script, keys, arguments))

    async def _to_the_end(self, question: Coroutine[Any, Any, _Result]) -> _Result:
        asked = asyncio.create_task(question)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            # Redis may be deciding at this moment. Keep the conversation until it has, or the ticket could be
            # taken back before it is drawn and would stay.
            await asyncio.wait([asked])
            raise

    async def _run_in_time(self, script: AsyncScript, keys: Sequence[str], arguments: Arguments) -> Any:
        async with asyncio.timeout(self._reply_seconds):
            return await script(keys=keys, args=arguments)


def _parting(line: Line, demand: Demand, ticket: str) -> Arguments | None:
    """What the store must hear of a waiter that leaves; None if it cannot know the ticket."""
    taken = line.taken.pop(ticket, None)
    if taken is not None:
        return wire.settle_arguments(ticket, demand, taken, Settlement(is_sent=False))
    if demand.lane is Lane.BATCH or wire.needs_lease(demand.limits):
        return wire.left_arguments(ticket)
    return None
