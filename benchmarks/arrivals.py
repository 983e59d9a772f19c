"""A provider that only counts: what arrived and when, and the arithmetic on it.

    python benchmarks/arrivals.py LATENCY_SECONDS SEED      prints its port, then serves until it is killed

Far lighter than the simulator, so that two cores measure the governor and not the provider. Every POST is answered
after the latency with a usage drawn from the seed; `GET /arrivals` lists what came, `DELETE /arrivals` forgets it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import random
import sys
import time
from collections.abc import Sequence

CHARACTERS_PER_TOKEN = 3.6
MEAN_OUTPUT_TOKENS = {"review": 600, "verdict": 150}
_SPREAD = 0.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """`at_seconds` on the machine's monotonic clock, when the request's last byte was read."""

    at_seconds: float
    worker: int
    stage: str
    output_tokens: int


def most_in(window_seconds: float, arrivals: Sequence[Arrival], *, tokens: bool = False) -> int:
    """The most requests (or output tokens) that arrived in any window of that length, its end left out."""
    most = total = first = 0
    for arrival in arrivals:
        total += arrival.output_tokens if tokens else 1
        while arrival.at_seconds - arrivals[first].at_seconds >= window_seconds:
            total -= arrivals[first].output_tokens if tokens else 1
            first += 1
        most = max(most, total)
    return most


def burst_of(per_minute: float, arrivals: Sequence[Arrival]) -> float:
    """The smallest b for which every window w holds at most `per_minute`/60·w + b requests."""
    lowest, burst = math.inf, 0.0
    for number, arrival in enumerate(arrivals):
        level = number - per_minute / 60 * arrival.at_seconds
        lowest = min(lowest, level)
        burst = max(burst, level - lowest + 1)
    return burst


def used_share(per_minute: float, arrivals: Sequence[Arrival], *, tokens: bool = False) -> float:
    """Of what the limit would have allowed between the first and the last arrival; the last one is left out."""
    seconds = arrivals[-1].at_seconds - arrivals[0].at_seconds
    spent = sum(arrival.output_tokens if tokens else 1 for arrival in arrivals[:-1])
    return spent / (per_minute / 60 * seconds)


class _Counter(asyncio.Protocol):
    def __init__(self, latency_seconds: float, dice: random.Random, seen: list[Arrival]) -> None:
        self._latency_seconds, self._dice, self._seen = latency_seconds, dice, seen
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        head, found, body = self._unread.partition(b"\r\n\r\n")
        if not found:
            return
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        if len(body) >= length:
            self._unread = body[length:]
            self._answer(head.partition(b" ")[0], body[:length])

    def _answer(self, method: bytes, body: bytes) -> None:
        if method == b"POST":
            asked = json.loads(body)
            mean = MEAN_OUTPUT_TOKENS[asked["stage"]]
            output = round(self._dice.lognormvariate(math.log(mean) - _SPREAD**2 / 2, _SPREAD))
            self._seen.append(
                Arrival(
                    at_seconds=time.monotonic(),
                    worker=asked["worker"],
                    stage=asked["stage"],
                    output_tokens=output,
                )
            )
            usage = {"input": round(asked["characters"] / CHARACTERS_PER_TOKEN), "output": output}
            asyncio.get_running_loop().call_later(self._latency_seconds, self._send, usage)
        elif method == b"DELETE":
            self._seen.clear()
            self._send([])
        else:
            self._send([dataclasses.asdict(arrival) for arrival in self._seen])

    def _send(self, value: object) -> None:
        if not self._transport.is_closing():
            text = json.dumps(value).encode()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
            self._transport.write(head.encode() + text)


async def _serve(latency_seconds: float, seed: int) -> None:
    dice, seen = random.Random(seed), list[Arrival]()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Counter(latency_seconds, dice, seen), "127.0.0.1", 0, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1]), int(sys.argv[2])))
