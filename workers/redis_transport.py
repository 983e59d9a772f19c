"""Kombu's Redis transport with one change: a channel keeps the client it sends with.

As shipped, every acknowledgement and every publication builds a `redis.Redis` of its own, which with redis-py 8
costs more than the command it then sends (a tenth of a busy worker's time, profiled). The client holds no
connection, only the pool that the channel keeps anyway."""

from __future__ import annotations

from typing import Any

from kombu.transport import redis


class Channel(redis.Channel):  # type: ignore[misc]  # kombu ships no types
    _kept: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        if asynchronous:
            return super()._create_client(asynchronous=True)
        if self._kept is None or self._kept.connection_pool is not self.pool:
            self._kept = super()._create_client()
        return self._kept


class Transport(redis.Transport):  # type: ignore[misc]  # kombu ships no types
    Channel = Channel
