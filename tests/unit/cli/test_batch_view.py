"""A batch as the terminal shows it, from what the API says of it."""

from __future__ import annotations

import datetime as dt
import io
import itertools
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from workers.cli.batch_view import PARTS, BatchView, batch_line, batch_panel, duration, exit_code, stretches

NOW = dt.datetime(2026, 1, 2, 3, 24, 5, tzinfo=dt.UTC)
SIGNS = {name: sign for name, sign, _ in PARTS}


def make_view(**changes: Any) -> BatchView:
    """4,213 of 10,000 runs have ended: 3,900 + 250 + 63; `changes` may name counts too,
    and `waits_for` is what the API calls `waiting`."""
    counts = {
        "accepted": 3900,
        "rejected": 250,
        "degraded": 63,
        "cancelled": 0,
        "running": 120,
        "waiting": 5667,
    }
    detail = {
        "id": "batch_1",
        "name": "nightly",
        "state": "running",
        "pause_cause": None,
        "waiting": changes.pop("waits_for", None),
        "duplicates": 0,
        "skipped": 0,
        "usage": {
            "input_tokens": 10_000_000,
            "output_tokens": 2_345_678,
            "cost_usd": 12.3456,
            "has_estimates": False,
        },
        "budget_usd": 50.0,
        "budget_tokens": None,
        "simulated": True,
        "runs_per_minute": 320.4,
        "seconds_left": 1085.0,
        "failures": [{"stage": "panel", "cause": "timed_out", "runs": 41}],
        "started_at": "2026-01-02T03:04:05+00:00",
        "finished_at": None,
        **{name: value for name, value in changes.items() if name not in counts},
    }
    detail["progress"] = {name: changes.get(name, number) for name, number in counts.items()}
    return BatchView.of(detail)


def shown(view: BatchView, *, width: int = 80, trouble: str = "") -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, no_color=True, highlight=False)
    console.print(batch_panel(view, now=NOW, trouble=trouble))
    return out.getvalue()


def test_the_panel_tells_state_counts_money_rate_time_and_causes() -> None:
    text = shown(make_view())
    # 4,213 / 10,000 = 42.13 %; 1,085 s = 18.1 min; 20 minutes from 03:04:05 to 03:24:05.
    for part in (
        "running · nightly simulated",
        "4,213 of 10,000 runs ended · 42 %",
        "for 20 min, about 18 min left",
        "█ 3,900 accepted",
        "▓ 250 rejected",
        "▒ 63 degraded",
        "░ 120 running",
        "· 5,667 waiting",
        "$12.35 of $50.00 · 12,345,678 tokens · 320 runs/min",
        "41  panel  timed out",
        "batch_1",
    ):
        assert part in text


@pytest.mark.parametrize("width", [40, 80, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    view = make_view(name="n" * 300, state="paused", pause_cause="budget", waits_for="providers")
    assert {len(line) for line in shown(view, width=width).splitlines()} == {width}


def test_the_bar_is_readable_without_colours() -> None:
    bar = shown(make_view()).splitlines()[2].strip("│ ")
    # 76 cells: 29.6 accepted, 1.9 rejected, 0.48 degraded, 0.9 running, 43.07 waiting.
    assert [bar.count(SIGNS[name]) for name in ("accepted", "rejected", "degraded", "running")] == [
        29,
        2,
        1,
        1,
    ]
    assert len(bar) == 76


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"state": "paused", "pause_cause": "user"}, "go on: consensus resume batch_1"),
        ({"state": "paused", "pause_cause": "budget"}, "consensus resume batch_1 --budget-usd USD"),
        (
            {"state": "paused", "pause_cause": "budget", "budget_usd": None, "budget_tokens": 1000},
            "consensus resume batch_1 --budget-tokens N",
        ),
        (
            {"state": "paused", "pause_cause": "budget", "budget_tokens": 1000},
            "consensus resume batch_1 --budget-usd USD --budget-tokens N",
        ),
        ({"waits_for": "providers"}, "every provider is away"),
        ({"state": "cancelled"}, "its runs are being closed"),
        ({"duplicates": 1}, "1 line said the same as an earlier one"),
        ({"skipped": 1200}, "1,200 bad lines left out"),
    ],
)
def test_what_is_in_its_way_is_said_in_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert sentence in shown(make_view(**changes), width=120)
    assert sentence in batch_line(make_view(**changes))


def test_a_paused_batch_has_no_time_to_finish() -> None:
    view = make_view(state="paused", pause_cause="user")
    assert " left" not in shown(view)
    assert " left" not in batch_line(view)


def test_an_ended_batch_says_how_long_it_took_and_waits_for_nobody() -> None:
    text = shown(make_view(state="finished", finished_at="2026-01-02T04:24:05+00:00", waits_for="providers"))
    assert "took 80 min" in text
    assert "provider" not in text


def test_the_watchers_own_trouble_is_shown() -> None:
    assert "the API is away" in shown(make_view(), trouble="the API is away")


def test_many_causes_are_cut_and_counted() -> None:
    failures = [{"stage": "lead", "cause": f"cause_{n}", "runs": 10 - n} for n in range(8)]
    text = shown(make_view(failures=failures))
    assert "cause 4" in text
    assert "cause 5" not in text
    # 10 - 5, 10 - 6 and 10 - 7 runs.
    assert "12  …     3 other causes" in text


def test_a_name_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in shown(make_view(name="a\x1b[2Jb"))


def test_a_line_says_it_all_where_nothing_can_be_redrawn() -> None:
    assert batch_line(make_view()) == (
        "running: 4,213 of 10,000 (42 %); 3,900 accepted, 250 rejected, 63 degraded, 120 running, 5,667 waiting; "
        "$12.35 of $50.00 · 12,345,678 tokens · 320 runs/min; about 18 min left (simulated)"
    )


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"rejected": 0, "degraded": 0}, 0),
        ({"degraded": 0}, 1),
        ({}, 2),
        ({"cancelled": 1}, 4),
        ({"state": "cancelled"}, 4),
    ],
)
def test_the_worst_run_decides_the_exit_code(changes: dict[str, Any], code: int) -> None:
    assert exit_code(make_view(**changes)) == code


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (119.4, "119 s"),
        (120, "2 min"),
        (7170, "2 h"),
        (12_000, "3 h 20 min"),
        (172_800, "2 d"),
        (187_200, "2 d 4 h"),
    ],
)
def test_a_length_of_time_is_said_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


COUNTS = st.lists(st.integers(0, 200_000), min_size=6, max_size=6)


@given(counts=COUNTS, width=st.integers(6, 400))
def test_a_bar_is_full_and_shows_whatever_there_is(counts: list[int], width: int) -> None:
    cells = stretches(counts, width)
    assert sum(cells) == (width if any(counts) else 0)
    assert all((cell > 0) == (count > 0) for cell, count in zip(cells, counts, strict=True))


@example(counts=[0, 1, 1, 1, 5, 4], width=6)
@given(counts=COUNTS, width=st.integers(6, 400))
def test_what_is_more_is_never_drawn_shorter(counts: list[int], width: int) -> None:
    ordered = sorted(zip(counts, stretches(counts, width), strict=True))
    assert all(one[1] <= other[1] for one, other in itertools.pairwise(ordered) if one[0] < other[0])


def test_a_narrow_bar_still_has_its_width() -> None:
    assert sum(stretches([1, 1, 1, 1, 1, 1], 3)) == 3
