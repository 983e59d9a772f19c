"""Which messages wait behind others, as the broker has them."""

from __future__ import annotations

import pytest

from workers.celery_app import app, configure
from workers.core.run import Stage
from workers.enqueue import send_seat, stages_in_line
from workers.settings import Settings


@pytest.fixture
def broker(worker_settings: Settings, redis_url: str) -> None:
    configure(worker_settings)


def test_a_line_of_batches_is_none_for_single_runs(broker: None) -> None:
    assert stages_in_line(app) == frozenset()
    send_seat(app, "run_1", 1, Stage.PANEL, "left", is_batch=True)
    assert stages_in_line(app) == {(Stage.PANEL, True), (Stage.CONSENSUS, True)}
    send_seat(app, "run_1", 1, Stage.GATE, "a claim")
    assert stages_in_line(app) == {(Stage.PANEL, True), (Stage.CONSENSUS, True), (Stage.GATE, False)}
