"""What beat sends, and where to."""

from __future__ import annotations

from workers.celery_app import beat_schedule
from workers.settings import load


def test_webhooks_are_looked_for_only_where_they_can_be_signed() -> None:
    assert "webhooks" not in beat_schedule(load())

    entry = beat_schedule(load(webhook_secret="x" * 24, webhook_seconds=3))["webhooks"]

    assert (entry["task"], entry["schedule"]) == ("webhooks", 3)
    # A message that found no worker within two rounds is replaced, so that none pile up while workers are away.
    assert (entry["options"]["queue"], entry["options"]["expires"]) == ("control", 6)
