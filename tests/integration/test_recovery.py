"""What a lost message, a doubled one, or a lost broker does to a run: nothing that the rescue does not heal."""

from __future__ import annotations

import redis

from tests.integration.conftest import Bench
from tests.integration.model_server import ModelServer
from workers.celery_app import app
from workers.core.run import Enqueue, Stage
from workers.enqueue import send_seat, submit_run
from workers.provenance.repository.stages import SeatKey
from workers.stages import STAGES
from workers.stages.seat import advance, run_seat
from workers.tasks.rescue import rescue_lost_work
from workers.wiring import runtime


def test_a_chord_whose_body_never_comes_does_not_stop_the_run(bench: Bench, models: ModelServer) -> None:
    """The reviewers are sent one by one, without a chord, so there is no body at all."""
    run_id = bench.create()
    assert isinstance(advance(runtime().context, run_id), Enqueue)
    coder = SeatKey(run_id=run_id, round=1, stage=Stage.CODER, seat="coder")
    panel = run_seat(runtime().context, coder, STAGES[Stage.CODER])
    assert isinstance(panel, Enqueue)

    for seat in panel.seats:
        send_seat(app, run_id, 1, Stage.PANEL, seat)

    assert bench.verdict(run_id)["outcome"] == "accepted"


def test_messages_that_come_twice_write_and_pay_once(bench: Bench, models: ModelServer) -> None:
    run_id = bench.submit()
    for _ in range(3):
        submit_run(app, run_id)
    bench.ended(run_id)
    for stage, seat in ((Stage.CODER, "coder"), (Stage.PANEL, "left"), (Stage.LEAD, "lead")):
        send_seat(app, run_id, 1, stage, seat)
    submit_run(app, run_id)
    # A later run goes through the same queues behind the doubled messages.
    bench.ended(bench.submit())

    # Two runs of five calls.
    assert sum(models.requests.values()) == 10


def test_a_broker_that_lost_everything_loses_no_run(
    bench: Bench, models: ModelServer, redis_url: str
) -> None:
    run_ids = [bench.create() for _ in range(5)]
    # Their first messages are lost with the broker's memory; only the rows are left.
    redis.Redis.from_url(redis_url).flushdb()

    rescue_lost_work()

    assert {bench.verdict(run_id)["outcome"] for run_id in run_ids} == {"accepted"}


def test_a_second_advance_shrugs(bench: Bench, models: ModelServer) -> None:
    run_id = bench.submit()
    bench.ended(run_id)
    before = bench.run(run_id)

    assert advance(runtime().context, run_id) is None
    assert bench.run(run_id) == before
