"""Bars while a scoring goes on, on a terminal alone."""

from __future__ import annotations

import io

from rich.console import Console

from workers.cli.score_progress import shown


def test_a_terminal_sees_how_far_it_is() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with shown(console) as bars:
        bars.advance(1)  # nothing has begun: nothing moves
        bars.begin("reading", 4)
        bars.advance(3)
        assert [(task.description, task.completed, task.total) for task in bars._bars.tasks] == [
            ("reading", 3, 4)
        ]
        bars.begin("scoring", 2)
        bars.advance(2)
        assert [task.completed for task in bars._bars.tasks] == [3, 2]


def test_a_file_gets_no_bars() -> None:
    console = Console(file=io.StringIO(), width=80)
    with shown(console) as bars:
        bars.begin("reading", 4)
        bars.advance(4)
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]
