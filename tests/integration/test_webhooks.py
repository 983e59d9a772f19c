"""A run with a webhook from its submission to the receiver's door, through the real worker."""

from __future__ import annotations

import asyncio
import json
import threading

from tests.integration.conftest import DEADLINE_SECONDS, WEBHOOK_SECRET, Bench
from tests.integration.model_server import ModelServer
from tests.unit.webhooks.receiver import receiver, status
from workers.celery_app import app
from workers.queues import Queue, TaskName
from workers.webhooks.signature import signed_headers, signing_keys


def test_a_run_that_has_ended_is_told_to_its_webhook(bench: Bench, models: ModelServer) -> None:
    heard = threading.Event()

    async def hear(writer: asyncio.StreamWriter) -> None:
        await status(200)(writer)
        heard.set()

    with receiver(hear) as served:
        run_id = bench.submit(webhook_url=served.url)
        outcome = bench.ended(run_id).outcome
        app.send_task(TaskName.WEBHOOKS.value, queue=Queue.CONTROL.value, ignore_result=True)
        assert heard.wait(timeout=DEADLINE_SECONDS)

    (request,) = served.requests
    told = json.loads(request.body)
    assert told["type"] == "run.finished"
    assert (told["data"]["run_id"], told["data"]["outcome"]) == (run_id, outcome)
    assert told["data"]["calls"] > 0
    assert told["data"]["output_tokens"] > 0
    expected = signed_headers(
        signing_keys(WEBHOOK_SECRET),
        delivery_id=request.headers["webhook-id"],
        epoch_seconds=int(request.headers["webhook-timestamp"]),
        body=request.body,
    )
    assert request.headers["webhook-signature"] == expected["webhook-signature"]
    # Everything that the run is made of stays at home.
    assert b"Add two numbers" not in request.body
    assert b"def " not in request.body
