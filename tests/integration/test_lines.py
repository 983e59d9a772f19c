"""Which messages wait behind others, as the broker has them."""

from __future__ import annotations

from celery import Celery

from workers.core.run import Stage
from workers.enqueue import send_seat, stages_in_line


def test_a_line_of_batches_is_none_for_single_runs(unserved: Celery) -> None:
    assert stages_in_line(unserved) == frozenset()
    send_seat(unserved, "run_1", 1, Stage.PANEL, "left", is_batch=True)
    assert stages_in_line(unserved) == {(Stage.PANEL, True), (Stage.CONSENSUS, True)}
    send_seat(unserved, "run_1", 1, Stage.GATE, "a claim")
    assert stages_in_line(unserved) == {(Stage.PANEL, True), (Stage.CONSENSUS, True), (Stage.GATE, False)}
