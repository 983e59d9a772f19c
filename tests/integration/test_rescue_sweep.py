"""The sweep that heals what died: real rows, real stages, models that answer from the spot."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cages import NoCage
from tests.factories import NoToolbox, team_data
from tests.integration.stored_runs import (
    AT,
    age_run,
    kinds_of,
    lose_worker,
    open_seats,
    run_of,
    seat_key,
    seat_row,
    set_seat,
    store_run,
)
from workers.core.reply import Completion, CompletionRequest, FinishReason, Usage
from workers.core.run import Close, Enqueue, Next, Outcome, RunState, SeatState, Stage
from workers.core.team import Seat
from workers.governor.breaker import Refusal
from workers.provenance import payload
from workers.provenance.repository import runs
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.providers.chain import Link, parse_link
from workers.stages import STAGES
from workers.stages.context import Chosen, Context, Purpose
from workers.stages.finish import finish_run
from workers.stages.rescue import Rescued, rescue
from workers.stages.seat import advance, run_seat
from workers.teams import prompt_environment

#: One reply that every stage can read, as unknown keys are ignored.
REPLY = json.dumps(
    {
        "files": {"a.py": "def add(a, b):\n    return a + b\n"},
        "findings": [],
        "merges": [],
        "rulings": [],
        "summary": "fine",
    }
)


class Models:
    """Every model answers at once, and the same."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def chain(self, seat: Seat, index: int, *, is_lead: bool) -> Chosen:
        return Chosen(links=[parse_link(entry) for entry in seat.models])

    def refusal(self, link: Link) -> Refusal | None:
        return None

    def window(self, link: Link) -> int | None:
        return None

    def complete(
        self,
        link: Link,
        request: CompletionRequest,
        *,
        purpose: Purpose,
        limit: int,
        used: int,
        sent_again: Callable[[], None],
    ) -> Completion:
        self.asked.append(link.model)
        return Completion(
            text=REPLY,
            reasoning="",
            model_served=link.model,
            finish_reason=FinishReason.STOP,
            usage=Usage(input_tokens=1, output_tokens=1),
            is_simulated=False,
        )


def never_wait(seconds: float) -> None:
    raise AssertionError(f"nothing here may pause, but {seconds} s were asked for")


@pytest.fixture
def models() -> Models:
    return Models()


@pytest.fixture
def context(database: Database, models: Models) -> Context:
    prompts = prompt_environment()
    numbers = iter(range(10_000))
    return Context(
        database=database,
        models=models,
        owner="living",
        lease_seconds=30,
        held_seconds=300.0,
        now=lambda: AT,
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        sleep=never_wait,
        render=lambda name, **values: prompts.get_template(name).render(**values),
        at_work=set(),
        toolbox=NoToolbox(),
        cage=NoCage(),
    )


def sweep(context: Context, max_rescues: int = 3) -> Rescued:
    return rescue(context, pending_seconds=60, stalled_seconds=20, max_rescues=max_rescues)


def work(context: Context, key: SeatKey) -> Next:
    return run_seat(context, key, STAGES[key.stage])


def play(context: Context, step: Next) -> None:
    """Do what the broker would be sent, until the run has nothing more to send."""
    while step is not None:
        if isinstance(step, Close):
            finish_run(context, step.run_id)
            return
        following = [
            work(context, SeatKey(run_id=step.run_id, round=step.round, stage=step.stage, seat=seat))
            for seat in step.seats
        ]
        step = next((following_step for following_step in following if following_step), None)


CODER = seat_key("coder", Stage.CODER)
LEFT, RIGHT = seat_key("left"), seat_key("right")
CONSENSUS = seat_key("consensus", Stage.CONSENSUS)


@pytest.fixture
def at_panel(context: Context, database: Database) -> Context:
    """A run whose panel has just been opened."""
    store_run(database)
    assert advance(context, "run_1") == Enqueue(
        run_id="run_1", round=1, stage=Stage.CODER, seats=("coder",), priority=0
    )
    step = work(context, CODER)
    assert isinstance(step, Enqueue)
    assert step.seats == ("left", "right")
    return context


def end_panel_silently(context: Context) -> None:
    """Both reviews are in, but whoever wrote the last row died before it opened the next stage."""
    for key in (LEFT, RIGHT):
        set_seat(
            context.database, key, state=SeatState.DONE, finished_at=AT, result_digest=_stored(context, key)
        )


def _stored(context: Context, key: SeatKey) -> str:
    with context.database.begin() as connection:
        value = {
            "seat": key.seat,
            "findings": [],
            "summary": "",
            "provider": "local",
            "model": f"of-{key.seat}",
            "family": key.seat,
            "simulated": False,
        }
        return payload.store(connection, value)


def test_a_panel_whose_chord_body_never_came_is_healed_by_one_sweep(
    at_panel: Context, database: Database
) -> None:
    end_panel_silently(at_panel)
    age_run(database, 21)
    found = sweep(at_panel)
    assert found.seats == ()
    assert found.following == (
        Enqueue(run_id="run_1", round=1, stage=Stage.CONSENSUS, seats=("consensus",), priority=0),
    )
    assert seat_row(database, CONSENSUS).state == "pending"
    assert sweep(at_panel) == Rescued(seats=(), following=())
    play(at_panel, found.following[0])
    assert run_of(database).outcome is Outcome.ACCEPTED


def test_a_run_that_went_on_just_now_is_left_alone(at_panel: Context, database: Database) -> None:
    end_panel_silently(at_panel)
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE stages SET finished_at = now()")
    assert sweep(at_panel) == Rescued(seats=(), following=())


def test_a_second_advance_shrugs(at_panel: Context, database: Database) -> None:
    end_panel_silently(at_panel)
    first = advance(at_panel, "run_1")
    assert isinstance(first, Enqueue)
    kinds = kinds_of(database)
    # The chord's body came after all, and then once more.
    assert advance(at_panel, "run_1") is None
    assert advance(at_panel, "run_1") is None
    assert kinds_of(database) == kinds
    assert kinds.count("stage.opened") == 3  # coder, panel, consensus


def test_an_advance_before_the_panel_has_ended_shrugs(at_panel: Context, database: Database) -> None:
    work(at_panel, LEFT)
    kinds = kinds_of(database)
    assert advance(at_panel, "run_1") is None
    assert kinds_of(database) == kinds


def test_a_body_that_comes_when_the_last_reviewer_advanced_already_opens_nothing_twice(
    at_panel: Context, models: Models
) -> None:
    assert work(at_panel, LEFT) is None
    step = work(at_panel, RIGHT)
    assert isinstance(step, Enqueue)
    assert step.stage is Stage.CONSENSUS
    assert advance(at_panel, "run_1") is None
    assert work(at_panel, RIGHT) is None  # the review's message came twice, too
    assert models.asked == ["alder-1", "birch-1", "cedar-1"]


def test_a_lost_workers_seat_is_sent_again_and_the_run_ends_well(
    at_panel: Context, database: Database
) -> None:
    lose_worker(database, LEFT)
    found = sweep(at_panel)
    assert found == Rescued(seats=(LEFT,), following=())
    assert seat_row(database, LEFT).rescues == 1
    assert sweep(at_panel) == Rescued(seats=(), following=())
    work(at_panel, RIGHT)
    play(at_panel, work(at_panel, LEFT))
    assert run_of(database).outcome is Outcome.ACCEPTED


def test_a_lost_message_is_sent_again_and_does_not_count_as_a_lost_worker(
    at_panel: Context, database: Database
) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE stages SET enqueued_at = now() - interval '61 s'")
    assert sweep(at_panel, max_rescues=0).seats == (LEFT, RIGHT)
    assert seat_row(database, LEFT).rescues == 0


def test_a_run_whose_first_message_was_lost_is_started(context: Context, database: Database) -> None:
    store_run(database)
    assert sweep(context) == Rescued(seats=(), following=())
    age_run(database, 21)
    found = sweep(context)
    assert [step.stage for step in found.following if isinstance(step, Enqueue)] == [Stage.CODER]
    assert run_of(database).state is RunState.RUNNING


def test_a_run_whose_last_message_was_lost_is_closed(at_panel: Context, database: Database) -> None:
    work(at_panel, LEFT)
    step = work(at_panel, RIGHT)
    step = work(at_panel, CONSENSUS)
    assert isinstance(step, Enqueue)
    assert isinstance(work(at_panel, seat_key("lead", Stage.LEAD)), Close)  # and this is lost
    age_run(database, 21)
    found = sweep(at_panel)
    assert found.following == (Close(run_id="run_1", priority=0),)
    play(at_panel, found.following[0])
    assert run_of(database).outcome is Outcome.ACCEPTED
    assert finish_run(at_panel, "run_1") is None  # a second close shrugs
    assert kinds_of(database).count("run.finished") == 1


def test_a_reviewer_who_kills_every_worker_abstains_and_the_run_goes_on(
    at_panel: Context, database: Database
) -> None:
    work(at_panel, RIGHT)
    for number in (1, 2):
        lose_worker(database, LEFT)
        assert sweep(at_panel, max_rescues=2).seats == (LEFT,)
        assert seat_row(database, LEFT).rescues == number
    lose_worker(database, LEFT)
    found = sweep(at_panel, max_rescues=2)
    row = seat_row(database, LEFT)
    assert (row.state, row.cause) == ("abstained", "lost_worker")
    assert "3 times" in row.detail
    assert found.seats == ()
    (step,) = found.following
    assert isinstance(step, Enqueue)
    assert step.stage is Stage.CONSENSUS
    assert "review.abstained" in kinds_of(database)
    play(at_panel, step)
    run = run_of(database)
    # One of two reviewers is left, and the quorum asks for two heads.
    assert (run.state, run.outcome) == (RunState.FINISHED, Outcome.DEGRADED)
    with database.begin() as connection:
        verdict = payload.load(connection, str(run.verdict_digest))
    assert [reason["code"] for reason in verdict["reasons"]] == ["quorum_not_met"]
    assert verdict["coverage"]["abstained"][0]["cause"] == "lost_worker"
    assert verdict["files"]["a.py"].startswith("def add")


def test_a_reviewer_who_gives_up_while_others_work_opens_nothing_yet(
    at_panel: Context, database: Database
) -> None:
    lose_worker(database, LEFT)
    assert sweep(at_panel, max_rescues=0) == Rescued(seats=(), following=())
    assert seat_row(database, LEFT).state == "abstained"
    assert isinstance(work(at_panel, RIGHT), Enqueue)


def test_a_coder_who_kills_every_worker_fails_and_the_run_ends_and_says_so(
    context: Context, database: Database
) -> None:
    store_run(database)
    advance(context, "run_1")
    lose_worker(database, CODER)
    found = sweep(context, max_rescues=0)
    assert (seat_row(database, CODER).state, seat_row(database, CODER).cause) == ("failed", "lost_worker")
    assert found.following == (Close(run_id="run_1", priority=0),)
    play(context, found.following[0])
    run = run_of(database)
    assert run.outcome is Outcome.DEGRADED
    with database.begin() as connection:
        verdict = payload.load(connection, str(run.verdict_digest))
    assert (verdict["reasons"][0]["code"], verdict["reasons"][0]["cause"]) == ("coder_missing", "lost_worker")
    assert kinds_of(database)[-2:] == ["coder.failed", "run.finished"]


def test_the_worker_thought_lost_comes_back_and_may_not_write(at_panel: Context, database: Database) -> None:
    """The slow worker's review arrives after its seat was given to another, which has written already."""
    slow = dataclasses.replace(at_panel, owner="slow")

    def review_late(seat_work: Any) -> tuple[str, dict[str, Any]]:
        lose_worker(database, LEFT, owner="slow")
        assert sweep(at_panel).seats == (LEFT,)
        assert work(at_panel, LEFT) is None
        return "review.arrived", {"seat": "left", "late": True}

    assert run_seat(slow, LEFT, review_late) is None
    assert kinds_of(database).count("review.arrived") == 1
    assert seat_row(database, LEFT).owner == "living"


def test_a_cancelled_run_is_never_swept_up_again(at_panel: Context, database: Database) -> None:
    lose_worker(database, LEFT)
    with database.begin() as connection:
        runs.cancel(connection, "run_1", tenant_id="default", at=AT)
    age_run(database, 1000)
    assert sweep(at_panel) == Rescued(seats=(), following=())
    assert work(at_panel, LEFT) is None
    assert advance(at_panel, "run_1") is None


def test_one_sweep_heals_many_runs(context: Context, database: Database) -> None:
    for number in range(3):
        store_run(database, f"run_{number}", team=team_data(), spec=f"spec {number}")
        age_run(database, 30 + number, f"run_{number}")
    open_seats(database, seat_key("coder", Stage.CODER, run_id="run_0"))
    lose_worker(database, seat_key("coder", Stage.CODER, run_id="run_0"))
    found = sweep(context)
    assert found.seats == (seat_key("coder", Stage.CODER, run_id="run_0"),)
    assert [step.run_id for step in found.following if isinstance(step, Enqueue)] == ["run_2", "run_1"]
