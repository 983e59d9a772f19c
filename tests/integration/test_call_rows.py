"""Call rows: on record before the request is sent, and summed whoever made them."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any

from sqlalchemy import update

from tests.integration.stored_runs import (
    open_seats,
    seat_key,
    seat_row,
    store_run,
)
from workers.core.reply import Completion, FinishReason, ToolCall, Usage
from workers.core.run import Stage
from workers.provenance import payload
from workers.provenance.models import calls as calls_table
from workers.provenance.repository import calls, stages
from workers.provenance.repository.call_history import asked_before
from workers.provenance.repository.stages import SeatKey
from workers.provenance.repository.usage import usage_of
from workers.provenance.session import Database

KEY = seat_key()


def new_call(call_id: str, key: SeatKey = KEY, **changes: Any) -> calls.NewCall:
    values: dict[str, Any] = {
        "call_id": call_id,
        "key": key,
        "link": 0,
        "provider": "local",
        "model": "birch-1",
        "family": "birch",
        "request": {"prompt": "p"},
    }
    return calls.NewCall(**{**values, **changes})


def reply(model: str = "birch-1", **usage: Any) -> Completion:
    return Completion(
        text="{}",
        reasoning="",
        model_served=model,
        finish_reason=FinishReason.STOP,
        usage=Usage(**usage),
        is_simulated=False,
    )


def test_attempts_are_counted_as_they_are_sent_and_given_back_when_they_were_not(seated: Database) -> None:
    def attempts() -> int:
        return int(seat_row(seated, KEY).attempts)

    with seated.single() as connection:
        calls.sent(connection, new_call("c1"))
    assert attempts() == 1
    with seated.begin() as connection:
        calls.sent_again(connection, "c1", KEY)
    assert attempts() == 2
    with seated.begin() as connection:
        calls.sent(connection, new_call("c2"))
        calls.not_sent(connection, "c2", KEY)
        assert [row.http_requests for row in connection.execute(calls_table.select())] == [2]
    assert attempts() == 2
    with seated.begin() as connection:
        stages.advance_link(connection, KEY, link=1)
        stages.refund_attempt(connection, KEY)  # never below nothing
    assert (attempts(), seat_row(seated, KEY).link) == (0, 1)
    open_seats(seated, seat_key("right"))
    with seated.begin() as connection:
        calls.sent(connection, new_call("c3"))
    assert (attempts(), seat_row(seated, seat_key("right")).attempts) == (1, 0)


def test_a_call_is_on_record_before_its_reply_and_after_its_failure(seated: Database) -> None:
    """A failed call has no reply; the statement that ends it once could not be typed without one."""
    with seated.single() as connection:
        calls.sent(connection, new_call("c1"))
    with seated.begin() as connection:
        row = connection.execute(calls_table.select()).one()
        assert (row.state, row.ended_at, row.reply_digest) == ("sent", None, None)
        assert payload.load(connection, row.request_digest) == {"prompt": "p"}
    with seated.begin() as connection:
        calls.failed(
            connection, "c1", kind="overloaded", message="no\x00t now\ud800", usage=Usage(input_tokens=3)
        )
    with seated.begin() as connection:
        row = connection.execute(calls_table.select()).one()
    assert (row.state, row.error_kind, row.error) == ("failed", "overloaded", "no\ufffdt now\ufffd")
    assert (row.input_tokens, row.reply_digest, row.rung) == (3, None, None)
    assert row.duration_seconds >= 0


def test_a_reply_is_stored_whatever_the_provider_says_of_itself(seated: Database) -> None:
    absurd = reply("birch\x00\ud800", input_tokens=10**12, output_tokens=-5)
    with seated.begin() as connection:
        calls.sent(connection, new_call("c1"))
    with seated.single() as connection:
        calls.done(connection, "c1", absurd, rung=None)
    with seated.begin() as connection:
        row = connection.execute(calls_table.select()).one()
        assert payload.load(connection, row.reply_digest) == {"text": "{}", "reasoning": ""}
    assert (row.model_served, row.input_tokens, row.output_tokens) == ("birch\ufffd\ufffd", 2**31 - 1, 0)


def test_usage_is_the_sum_over_every_worker_seat_and_failure(seated: Database) -> None:
    right, lead = seat_key("right"), seat_key("lead", Stage.LEAD)
    second_round = seat_key("right", round_=2)
    open_seats(seated, right, lead, second_round)
    store_run(seated, "run_2")
    open_seats(seated, seat_key(run_id="run_2"))
    with seated.begin() as connection:
        calls.sent(connection, new_call("c1"))
        calls.done(connection, "c1", reply(input_tokens=10, output_tokens=1), rung=1)
        calls.sent(connection, new_call("c2"))
        calls.failed(
            connection, "c2", kind="torn", message="torn", usage=Usage(input_tokens=20, output_tokens=2)
        )
        calls.sent(connection, new_call("c3", right))
        calls.done(connection, "c3", reply(input_tokens=40, output_tokens=4, is_estimated=True), rung=2)
        calls.sent(connection, new_call("c4", second_round))
        calls.done(connection, "c4", reply(input_tokens=80, output_tokens=8), rung=1)
        calls.sent(connection, new_call("c5", lead))  # its worker died: nobody knows what it cost
        calls.sent(connection, new_call("c6", lead))
        calls.failed(connection, "c6", kind="timeout", message="", usage=None)
        calls.sent(connection, new_call("c7", seat_key(run_id="run_2")))
        calls.done(connection, "c7", reply(input_tokens=1000), rung=1)
        used = usage_of(connection, "run_1")
    # 10 + 20 + 40 + 80 in, 1 + 2 + 4 + 8 out.
    assert (used.calls, used.failed_calls, used.input_tokens, used.output_tokens) == (6, 2, 150, 15)
    assert (used.has_estimates, used.cost_usd) == (True, None)
    by_seat = {(seat.stage, seat.seat): (seat.calls, seat.input_tokens) for seat in used.seats}
    assert by_seat == {("panel", "left"): (2, 30), ("panel", "right"): (2, 120), ("lead", "lead"): (2, 0)}


def test_sums_do_not_overflow_where_single_counts_do_not(seated: Database) -> None:
    with seated.begin() as connection:
        for number in range(3):
            calls.sent(connection, new_call(f"c{number}"))
            calls.done(connection, f"c{number}", reply(input_tokens=2**31 - 1), rung=1)
        connection.execute(update(calls_table).values(cost_usd=Decimal("0.1")))
        used = usage_of(connection, "run_1")
    assert used.input_tokens == 3 * (2**31 - 1)
    assert used.cost_usd == Decimal("0.3")


def test_an_answer_that_asked_for_a_tool_is_kept_whole_and_is_no_failed_try(seated: Database) -> None:
    call = ToolCall(call_id="t1", name="lookup", arguments="{}")
    asked = dataclasses.replace(reply(), text="", finish_reason=FinishReason.TOOL_CALLS, tool_calls=(call,))
    with seated.begin() as connection:
        calls.sent(connection, new_call("c1"))
        calls.done(connection, "c1", asked, rung=None)
        calls.sent(connection, new_call("c2"))
        calls.sent_again(connection, "c2", KEY)
        (before,) = asked_before(connection, KEY).values()
        row = connection.execute(calls_table.select().where(calls_table.c.call_id == "c1")).one()
        stored = payload.load(connection, row.reply_digest)
    # The second call sent two requests; the first one's does not count.
    assert before.requests == 2
    assert [item["name"] for item in stored["tool_calls"]] == ["lookup"]
