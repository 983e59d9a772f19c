"""The pages of batches."""

from __future__ import annotations

import html
import re

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.web.batches import PARTS, stretches
from tests.api.batch_rows import end_batch, store_batch
from tests.api.test_web_runs import page, words
from tests.integration.stored_runs import open_seats, seat_key, set_seat
from workers.core.batch import BatchState
from workers.core.run import Outcome, SeatState, Stage
from workers.provenance.session import Database


async def test_without_batches_the_list_says_what_one_is(client: httpx.AsyncClient) -> None:
    assert "No batch yet" in words(await page(client, "/batches"))
    assert "No batch matches" in words(await page(client, "/batches?state=paused"))


async def test_the_list_shows_name_state_and_size(client: httpx.AsyncClient, database: Database) -> None:
    store_batch(database, (None, Outcome.ACCEPTED), name="nightly <b>")
    shown = await page(client, "/batches?state=running")
    assert "nightly <b> batch_1 running 2" in words(shown)
    assert "nightly <b>" not in shown


async def test_a_batch_shows_how_far_it_has_come(client: httpx.AsyncClient, database: Database) -> None:
    outcomes = (Outcome.ACCEPTED, Outcome.REJECTED, Outcome.DEGRADED, None)
    store_batch(database, outcomes, name="nightly", budget_usd=2)
    text = await page(client, "/batches/batch_1")
    shown = words(text)
    assert "3 of 4 runs ended 75 %" in shown
    assert "1 accepted 1 rejected 1 degraded 1 waiting" in shown
    assert "of $2.0000" in shown
    assert 'aria-label="1 accepted, 1 rejected, 1 degraded, 1 waiting"' in text
    assert set(re.findall(r"results\?format=(\w+)", text)) == {"jsonl", "csv", "sarif"}


async def test_failures_are_grouped_by_stage_and_cause(client: httpx.AsyncClient, database: Database) -> None:
    run_ids = store_batch(database, (Outcome.DEGRADED, Outcome.DEGRADED))
    for run_id in run_ids:
        key = seat_key("left", Stage.PANEL, run_id)
        open_seats(database, key)
        set_seat(database, key, state=SeatState.ABSTAINED, cause="rate_limited")
    assert "panel rate limited 2" in words(await page(client, "/batches/batch_1"))


@pytest.mark.parametrize(
    ("values", "commands"),
    [
        ({"state": BatchState.RUNNING}, {"pause", "cancel"}),
        ({"state": BatchState.PAUSED, "pause_cause": "user"}, {"resume", "cancel"}),
        ({"state": BatchState.PAUSED, "pause_cause": "budget"}, {"cancel"}),
        ({"state": BatchState.CANCELLED}, set()),
    ],
)
async def test_only_what_is_possible_now_is_offered(
    client: httpx.AsyncClient, database: Database, values: dict[str, str], commands: set[str]
) -> None:
    store_batch(database, (None,), **values)
    shown = await page(client, "/batches/batch_1/live")
    assert set(re.findall(r'data-command="(\w+)"', shown)) == commands


async def test_a_batch_whose_budget_is_used_up_says_how_it_goes_on(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_batch(database, (None,), state=BatchState.PAUSED, pause_cause="budget")
    assert "consensus resume batch_1 --budget-usd" in words(await page(client, "/batches/batch_1"))


async def test_lines_left_out_are_listed_and_the_rest_counted(
    client: httpx.AsyncClient, database: Database
) -> None:
    skipped = [{"line": line, "problem": f"bad {line}"} for line in range(1, 61)]
    store_batch(database, (None,), skipped_count=60, skipped=skipped)
    shown = words(await page(client, "/batches/batch_1"))
    assert "60 bad lines left out" in shown
    assert "line 50: bad 50 and 10 more" in shown


async def test_an_ended_batch_is_not_followed(client: httpx.AsyncClient, database: Database) -> None:
    store_batch(database, (Outcome.ACCEPTED,))
    end_batch(database)
    assert '"ended": true' in html.unescape(await page(client, "/batches/batch_1"))


@given(st.lists(st.integers(0, 10_000), min_size=6, max_size=6))
def test_the_stretches_of_the_bar_fill_it_in_proportion(counts: list[int]) -> None:
    progress = {name: count for (name, _), count in zip(PARTS, counts, strict=True)}
    found = stretches(progress)
    assert [name for name, *_ in found] == [name for name, _ in PARTS if progress[name]]
    if sum(counts):
        assert abs(sum(width for *_, width in found) - 100) < 0.01
    ends = 0.0
    for _, _, start, width in found:
        assert abs(start - ends) < 0.01
        ends = start + width
