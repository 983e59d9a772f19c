"""A look at the shared buckets from outside: for whoever watches, not for whoever calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import redis.asyncio

from workers.errors import StoreLostError
from workers.governor.base import Limits, Snapshot
from workers.governor.redis import RedisStore


def look(redis_url: str, limits: Mapping[str, Limits]) -> dict[str, Snapshot]:
    """How each bucket stands for everybody, by key; nothing while Redis is away."""
    return asyncio.run(_look(redis_url, limits))


async def _look(redis_url: str, limits: Mapping[str, Limits]) -> dict[str, Snapshot]:
    client = redis.asyncio.from_url(redis_url)
    store = RedisStore(client, owner="look")
    try:
        return {key: await store.snapshot(key, limit) for key, limit in limits.items()}
    except StoreLostError:
        return {}
    finally:
        await store.aclose()
        await client.aclose()
