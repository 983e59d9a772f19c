"""The delivery of webhooks as a task, called by beat."""

from __future__ import annotations

from workers.celery_app import app
from workers.queues import TaskName
from workers.wiring import runtime


@app.task(name=TaskName.WEBHOOKS.value, send_events=False)
def deliver_webhooks() -> None:
    runtime().courier.sweep()
