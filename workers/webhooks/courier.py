"""Takes what is due, sends it, records what came of it. Many receivers at once, each at its own pace: one that is
silent keeps nobody else waiting."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import datetime as dt
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import httpx
import structlog
from sqlalchemy import Connection

from workers.core.webhook import Answer, wait_before_retry
from workers.errors import ConsensusError
from workers.provenance.repository import deliveries
from workers.provenance.repository.deliveries import Delivery
from workers.provenance.session import Database
from workers.webhooks.message import message_of
from workers.webhooks.post import TIMEOUT_SECONDS, post
from workers.webhooks.signature import signed_headers

log = structlog.get_logger(__name__)

#: Requests of one sweep in flight, and those to one host and port from all workers together.
MOST_AT_ONCE = 64
MOST_PER_RECEIVER = 8
#: Longer than an attempt can take; a worker that died is made up for after it.
LEASE_SECONDS = 3 * TIMEOUT_SECONDS
#: While slow receivers are waited for, new deliveries are looked for this often.
LOOK_SECONDS = 0.5
#: A sweep takes nothing more after this long, so that a worker that is to stop can; the next one goes on.
SWEEP_SECONDS = 5.0
#: Sweeps of one process overlap while their last answers are waited for.
MOST_CONNECTIONS = 4 * MOST_AT_ONCE


class Loop(Protocol):
    """Where requests are made (`gateway.LoopThread`)."""

    def submit(self, coroutine: Coroutine[Any, Any, Answer], /) -> Future[Answer]: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    delivery: Delivery
    future: Future[Answer]


class Courier:
    """Delivers for one process. `now` gives aware times, `clock` seconds that only grow, `chance` numbers in [0, 1)."""

    def __init__(
        self,
        database: Database,
        loop: Loop,
        client: httpx.AsyncClient,
        keys: Sequence[bytes],
        *,
        now: Callable[[], dt.datetime],
        clock: Callable[[], float],
        chance: Callable[[], float],
        timeout_seconds: float = TIMEOUT_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._database = database
        self._loop = loop
        self._client = client
        self._keys = tuple(keys)
        self._now = now
        self._clock = clock
        self._chance = chance
        self._timeout_seconds = timeout_seconds
        self._lease_seconds = lease_seconds
        self._taking = threading.Lock()

    @property
    def is_taking(self) -> bool:
        """Whether a sweep of this process still takes what becomes due."""
        return self._taking.locked()

    def sweep(self) -> None:
        """Deliver what is due, and what becomes due meanwhile. Does nothing without keys, or while another thread of
        this process is at it. Raises: UnavailableError; what was taken is then due again when its lease has run out."""
        if not self._keys or not self._taking.acquire(blocking=False):
            return
        try:
            waiting = self._deliver()
        finally:
            self._taking.release()
        # Nothing more is taken: another sweep may begin while this one waits for its last answers.
        while waiting:
            waiting = self._settle(waiting, timeout_seconds=None)

    def _deliver(self) -> list[_Sent]:
        """Until nothing is due and nothing in flight, or the sweep's time is up; what is still in flight then."""
        ends_at = self._clock() + SWEEP_SECONDS
        waiting: list[_Sent] = []
        while self._clock() < ends_at:
            waiting += self._send_due(MOST_AT_ONCE - len(waiting))
            if not waiting:
                break
            waiting = self._settle(waiting, timeout_seconds=LOOK_SECONDS)
        return waiting

    def _send_due(self, most: int) -> list[_Sent]:
        if most <= 0:
            return []
        with self._database.begin() as connection:
            taken = deliveries.take_due(
                connection,
                most=most,
                most_per_receiver=MOST_PER_RECEIVER,
                lease_seconds=self._lease_seconds,
            )
            bodies = [_body(connection, delivery) for delivery in taken]
        return [
            _Sent(delivery=delivery, future=self._loop.submit(self._send(delivery, body)))
            for delivery, body in zip(taken, bodies, strict=True)
        ]

    async def _send(self, delivery: Delivery, body: bytes | None) -> Answer:
        if body is None:
            return Answer(problem="what it should say cannot be read from the database")
        now = self._now().timestamp()
        headers = signed_headers(
            self._keys, delivery_id=delivery.delivery_id, epoch_seconds=int(now), body=body
        )
        return await post(
            self._client,
            delivery.url,
            body=body,
            headers=headers,
            now_epoch_seconds=now,
            timeout_seconds=self._timeout_seconds,
        )

    def _settle(self, waiting: list[_Sent], *, timeout_seconds: float | None) -> list[_Sent]:
        """Record what has been answered; the rest."""
        done, _ = concurrent.futures.wait(
            [sent.future for sent in waiting],
            timeout=timeout_seconds,
            return_when=concurrent.futures.FIRST_COMPLETED,
        )
        if done:
            with self._database.begin() as connection:
                for sent in waiting:
                    if sent.future in done:
                        self._record(connection, sent.delivery, sent.future.result())
        return [sent for sent in waiting if sent.future not in done]

    def _record(self, connection: Connection, delivery: Delivery, answer: Answer) -> None:
        wait = wait_before_retry(
            answer,
            attempts=delivery.attempts,
            age_seconds=delivery.age_seconds,
            chance=self._chance(),
        )
        deliveries.record(connection, delivery, answer, wait_seconds=wait, at=self._now())
        if not answer.is_success:
            event = "webhook.gave_up" if wait is None else "webhook.postponed"
            log.warning(
                event,
                delivery=delivery.delivery_id,
                run=delivery.run_id,
                batch=delivery.batch_id,
                attempts=delivery.attempts,
                problem=answer.problem,
            )


def _body(connection: Connection, delivery: Delivery) -> bytes | None:
    """None for rows that somebody spoilt: one of them must not keep the others from being sent."""
    try:
        return message_of(connection, delivery)
    except (ConsensusError, ValueError, LookupError, TypeError) as error:
        log.exception("webhook.unreadable", delivery=delivery.delivery_id, error=type(error).__name__)
        return None
