"""The run's state diagram, walked through every combination of rows."""

from __future__ import annotations

import itertools

import pytest

from workers.core.run import (
    GIVE_UP,
    TERMINAL,
    TRANSITIONS,
    Finish,
    Open,
    RunState,
    Seated,
    SeatState,
    Stage,
    Wait,
    next_step,
    sources_of,
)

TEAM = {
    Stage.CODER: ("coder",),
    Stage.PANEL: ("left", "right"),
    Stage.CONSENSUS: ("consensus",),
    Stage.LEAD: ("lead",),
}


def rows_of(states: dict[Stage, tuple[SeatState, ...]]) -> list[Seated]:
    return [
        Seated(stage=stage, seat=seat, state=state)
        for stage, seated in states.items()
        for seat, state in zip(TEAM[stage], seated, strict=True)
    ]


def test_every_combination_of_rows_has_the_step_of_the_diagram() -> None:
    """All 6 + 6·36 + 6·36·6 + 6·36·6·6 = 9,294 tables of a team of five seats."""
    order = list(Stage)
    seen = 0
    for reached in range(1, len(order) + 1):
        seats = [(stage, len(TEAM[stage])) for stage in order[:reached]]
        for flat in itertools.product(SeatState, repeat=sum(count for _, count in seats)):
            states, at = {}, 0
            for stage, count in seats:
                states[stage] = flat[at : at + count]
                at += count
            step = next_step(rows_of(states))
            seen += 1
            if any(state not in TERMINAL for state in flat):
                assert step == Wait()
            elif reached == 1:
                is_done = flat == (SeatState.DONE,)
                assert step == (Open(stage=Stage.PANEL) if is_done else Finish())
            else:
                assert step == (Finish() if reached == len(order) else Open(stage=order[reached]))
    assert seen == 6 + 6 * 36 + 6 * 36 * 6 + 6 * 36 * 6 * 6


@pytest.mark.parametrize("ends", list(itertools.product([True, False], repeat=5)), ids=str)
def test_every_run_reaches_its_finish_in_at_most_four_stages(ends: tuple[bool, ...]) -> None:
    """Each seat ends well or gives up; whatever they do, the run opens each stage once and finishes."""
    fate = dict(zip(["coder", "left", "right", "consensus", "lead"], ends, strict=True))
    rows: list[Seated] = []
    opened: list[Stage] = []
    while not isinstance(step := next_step(rows), Finish):
        assert isinstance(step, Open)
        assert step.stage not in opened
        opened.append(step.stage)
        for seat in TEAM[step.stage]:
            waiting = [*rows, Seated(stage=step.stage, seat=seat, state=SeatState.RUNNING)]
            assert next_step(waiting) == Wait()
            state = SeatState.DONE if fate[seat] else GIVE_UP[step.stage]
            rows.append(Seated(stage=step.stage, seat=seat, state=state))
    assert opened == (list(Stage) if fate["coder"] else [Stage.CODER])


def test_rows_in_any_order_give_the_same_step() -> None:
    rows = rows_of(
        {
            Stage.CODER: (SeatState.DONE,),
            Stage.PANEL: (SeatState.DONE, SeatState.ABSTAINED),
            Stage.CONSENSUS: (SeatState.FAILED,),
        }
    )
    assert {next_step(order) for order in itertools.permutations(rows)} == {Open(stage=Stage.LEAD)}


def test_a_run_without_rows_opens_the_coder() -> None:
    assert next_step([]) == Open(stage=Stage.CODER)


def test_only_a_reviewer_may_abstain_and_every_way_to_give_up_is_final() -> None:
    assert {stage for stage, state in GIVE_UP.items() if state is SeatState.ABSTAINED} == {Stage.PANEL}
    assert set(GIVE_UP) == set(Stage)
    assert set(GIVE_UP.values()) <= TERMINAL
    assert set(SeatState) - TERMINAL == {SeatState.PENDING, SeatState.RUNNING}


def test_a_run_moves_only_forward_and_ends_once() -> None:
    allowed = {(state, target) for state in RunState for target in RunState if state in sources_of(target)}
    assert allowed == {
        (RunState.QUEUED, RunState.RUNNING),
        (RunState.QUEUED, RunState.CANCELLED),
        (RunState.RUNNING, RunState.FINISHED),
        (RunState.RUNNING, RunState.CANCELLED),
    }
    assert set(TRANSITIONS) == set(RunState)
