"""A record on a terminal: narrow ones get what tells calls apart, wide ones and pipes everything."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from workers.cli.provenance_view import print_record

CALL = {
    "call_id": "call_01m8rw06rjpgdwyf6rvnzeqbth",
    "stage": "panel",
    "seat": "safety",
    "pass_number": 1,
    "link": 0,
    "attempt": 2,
    "provider": "simulator",
    "model_asked": "sim-birch-small",
    "model_served": "sim-birch-small",
    "state": "done",
    "error_kind": None,
    "rung": 1,
    "input_tokens": 812,
    "output_tokens": 9,
    "cost_usd": "0.00012345",
    "request_digest": "3485" * 16,
    "reply_digest": "35f6" * 16,
}
RECORD: dict[str, Any] = {
    "run": {
        "run_id": "run_1",
        "team": "consensus",
        "outcome": "accepted",
        "state": "finished",
        "seq": 0,
        "head": "ab",
    },
    "events": [],
    "payloads": {},
    "heads": [],
    "calls": [
        CALL,
        {**CALL, "model_served": "sim-birch-tiny"},
        {**CALL, "model_served": None, "error_kind": "overloaded", "rung": None, "cost_usd": None},
    ],
}


def shown(width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_record(RECORD, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100])
def test_on_a_narrow_terminal_no_word_is_cut_off(width: int) -> None:
    text = shown(width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    assert "call_" not in text
    assert "1.0.2" in text


def test_of_a_call_it_says_who_was_asked_who_answered_and_how_it_ended() -> None:
    rows = [line.split() for line in shown(120).splitlines() if line.startswith("panel/safety")]
    asked = ["panel/safety", "sim-birch-small"]
    assert rows == [
        [*asked, "1.0.2", "done", "1", "812+9", "0.00012345"],
        [*asked, "→", "sim-birch-tiny", "1.0.2", "done", "1", "812+9", "0.00012345"],
        [*asked, "→", "-", "1.0.2", "overloaded", "-", "812+9", "-"],
    ]


def test_where_there_is_room_providers_ids_and_digests_are_there_too() -> None:
    (first, *_) = [line.split() for line in shown(180).splitlines() if line.startswith("call_")]
    assert first == [
        "call_01m8rw06rjpgdwyf6rvnzeqbth",
        "panel/safety",
        "simulator/sim-birch-small",
        "1.0.2",
        "done",
        "1",
        "812+9",
        "0.00012345",
        "348534853485",
        "35f635f635f6",
    ]
