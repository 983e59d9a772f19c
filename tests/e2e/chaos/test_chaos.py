"""The short form of `make chaos`: every kind of fault once, on a few runs. Its assertions hold at whatever moment the
faults strike; the seed is printed for a repetition."""

from __future__ import annotations

from tests.e2e.chaos.audit import most_in
from tests.e2e.chaos.faults import FAULTS
from tests.e2e.chaos.play import Play, perform, show

SHORT = Play(
    seed=20,
    runs=20,
    batches=2,
    lines=6,
    window=8,
    workers=2,
    threads=32,
    rounds=1,
    mixed=False,
    gap_seconds=(0.0, 0.3),
    latency_seconds=0.3,
    per_minute=600,
    fault_probability=0.0,
    outages=0,
    max_rescues=1,
    deadline_seconds=240,
)


def test_every_run_ends_once_whatever_fails() -> None:
    result = perform(SHORT, print)
    show(result)

    found = result.audit
    assert (found.runs, found.batches) == (SHORT.runs + SHORT.batches * SHORT.lines, SHORT.batches)
    assert (found.lost, found.duplicated, found.problems) == (set(), set(), [])
    assert found.tokens_ours == found.tokens_theirs > 0
    assert len(found.orphans) == found.calls["orphaned"]
    assert set(result.strikes.injected) == set(FAULTS)
    # A seat is given back once, and ends when its second worker is lost.
    assert result.poison.outcome == "degraded"
    assert "lost_worker" in dict(result.poison.reasons).values()


def test_a_window_counts_what_arrives_from_its_begin_to_before_its_end() -> None:
    assert most_in(60.0, [0.0, 30.0, 59.9, 60.0, 119.9]) == 3
