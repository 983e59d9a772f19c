"""Runs submitted over HTTP by a client that does not give up, and streams of events that it follows."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx

from tests.e2e.chaos.site import ROOT, Site
from tests.e2e.chaos.watch import Watch
from workers.cli.client import Client
from workers.errors import ConsensusError, InputError

_AGAIN_SECONDS = 0.2
_FOLLOWERS = 3


class Load:
    """`count` single runs, at most `window` of them open at a time, and `batches` of `lines` runs each. Every run and
    batch has an Idempotency-Key of its own, with which its submission is repeated until it is answered."""

    def __init__(
        self, site: Site, watch: Watch, *, count: int, window: int, batches: int, lines: int, name: str
    ) -> None:
        self._site = site
        self._watch = watch
        self._window = window
        self._specs = [
            json.loads(line)
            for line in (ROOT / "examples/specs.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        self._name = name
        self._numbers = iter(range(1, count + 1))
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=8)
        self._closing = threading.Event()
        self._to_follow: queue.Queue[str] = queue.Queue()
        self._threads: list[threading.Thread] = []
        self._batch_numbers = iter(range(1, batches + 1))
        self.batches, self.lines = batches, lines
        #: Batch ids by number, as the API answered.
        self.accepted_batches: dict[int, str] = {}
        self.count = count
        #: So many may be submitted by now.
        self.allowed = count
        #: Run ids by the number of the submission, as the API answered.
        self.accepted: dict[int, str] = {}
        self.repeats = 0
        #: Numbers of the events as they arrived, by followed run.
        self.streams: dict[str, list[int]] = {}
        self.streams_broken = 0

    def start(self) -> None:
        for target in (self._submit_all, *[self._follow] * _FOLLOWERS):
            thread = threading.Thread(target=target, daemon=True)
            thread.start()
            self._threads.append(thread)

    @property
    def total(self) -> int:
        """All runs, those of batches too."""
        return self.count + self.batches * self.lines

    @property
    def is_submitted(self) -> bool:
        return len(self.accepted) == self.count and len(self.accepted_batches) == self.batches

    def batch(self) -> Future[None] | None:
        """Submit the next batch, now; None when there is none left."""
        with self._lock:
            number = next(self._batch_numbers, None)
        return None if number is None else self._pool.submit(self._submit_batch, number)

    def _submit_batch(self, number: int) -> None:
        bodies = [self._body(line, f"batch-{number}-{line}") for line in range(self.lines)]
        content = "".join(f"{json.dumps(body)}\n" for body in bodies)
        headers = {
            "Content-Type": "application/jsonl",
            "Idempotency-Key": f"{self._name}-batch-{number}",
        }
        while not self._closing.is_set():
            try:
                answer = httpx.post(
                    f"{self._site.url}/v1/batches", content=content, headers=headers, timeout=30
                )
            except httpx.HTTPError:
                answer = None
            if answer is not None and answer.is_success:
                self.accepted_batches[number] = answer.json()["id"]
                return
            assert answer is None or answer.status_code >= 500, answer.text
            self.repeats += 1
            time.sleep(_AGAIN_SECONDS)

    def _body(self, number: int, own_id: str) -> dict[str, Any]:
        return {**self._specs[number % len(self._specs)], "id": own_id, "team": "chaos"}

    def burst(self, count: int) -> Sequence[Future[None]]:
        """Submit up to so many runs at once, now."""
        numbers = [number for _ in range(count) if (number := self._next()) is not None]
        return [self._pool.submit(self._submit, number) for number in numbers]

    def _next(self) -> int | None:
        with self._lock:
            return next(self._numbers, None)

    def _submit_all(self) -> None:
        while not self._closing.is_set():
            submitted = len(self.accepted)
            if (
                submitted - self._watch.ended_alone() >= self._window
                or self.allowed <= submitted < self.count
            ):
                time.sleep(_AGAIN_SECONDS / 4)
                continue
            number = self._next()
            if number is None:
                return
            self._submit(number)

    def _submit(self, number: int) -> None:
        body = self._body(number, f"single-{number}")
        tries = 0
        with Client(self._site.url) as client:
            while not self._closing.is_set():
                try:
                    run = client.create_run(body, idempotency_key=f"{self._name}-{number}")
                except InputError:
                    raise
                except ConsensusError:
                    tries += 1
                    time.sleep(_AGAIN_SECONDS)
                else:
                    self.accepted[number] = run["id"]
                    self.repeats += tries
                    if self._to_follow.qsize() == 0:
                        self._to_follow.put(run["id"])
                    return

    def _follow(self) -> None:
        """Follow one run after the other; a broken stream goes on behind its last event."""
        while not self._closing.is_set():
            with contextlib.suppress(queue.Empty):
                run_id = self._to_follow.get(timeout=_AGAIN_SECONDS)
                seen = self.streams.setdefault(run_id, [])
                while not self._closing.is_set():
                    try:
                        with Client(self._site.url) as client:
                            for event in client.events(run_id, after=seen[-1] if seen else 0):
                                seen.append(event.seq)
                    except ConsensusError:
                        self.streams_broken += 1
                        time.sleep(_AGAIN_SECONDS)
                    else:
                        break

    def close(self) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join(timeout=40)
        self._pool.shutdown(wait=True)
