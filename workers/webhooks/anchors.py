"""Anchors of ledgers, told to somebody's URL at once: whoever keeps them elsewhere knows what the database's owner
cannot take back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson

from workers.core.webhook import Answer
from workers.guarded_http import SystemNames, guarded_client
from workers.webhooks.post import TIMEOUT_SECONDS, post
from workers.webhooks.signature import signed_headers

TYPE = "ledger.anchored"


def tell(
    url: str,
    keys: Sequence[bytes],
    anchors: Sequence[tuple[int, bytes]],
    *,
    allow_private: bool,
    now_epoch_seconds: float,
) -> tuple[int, Answer]:
    """Send anchors (number, line) in order, one request each, until one does not arrive.

    How many arrived, and the answer to the last one that was sent. `data` of the message is the anchor itself.
    """
    return asyncio.run(_tell(url, keys, anchors, allow_private, now_epoch_seconds))


async def _tell(
    url: str, keys: Sequence[bytes], anchors: Sequence[tuple[int, bytes]], allow_private: bool, now: float
) -> tuple[int, Answer]:
    names = SystemNames(threads=1)
    answer = Answer()
    arrived = 0
    try:
        async with guarded_client(
            names, allow_private=allow_private, most_connections=1, timeout_seconds=TIMEOUT_SECONDS
        ) as client:
            for number, line in anchors:
                data = orjson.loads(line)
                body = orjson.dumps({"type": TYPE, "timestamp": data["at"], "data": data})
                headers = signed_headers(
                    keys, delivery_id=f"anchor_{number}", epoch_seconds=int(now), body=body
                )
                answer = await post(client, url, body=body, headers=headers, now_epoch_seconds=now)
                if not answer.is_success:
                    break
                arrived += 1
    finally:
        names.close()
    return arrived, answer
