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
    Stage.REFUTE: ("claim-C1",),
    Stage.GATE: ("claim-C1",),
    Stage.LEAD: ("lead",),
}


STATES = (SeatState.RUNNING, SeatState.DONE, SeatState.ABSTAINED, SeatState.FAILED)


def team_seats(stage: Stage) -> tuple[str, ...]:
    return TEAM[stage]


def rows_of(states: dict[Stage, tuple[SeatState, ...]]) -> list[Seated]:
    return [
        Seated(stage=stage, seat=seat, state=state)
        for stage, seated in states.items()
        for seat, state in zip(TEAM[stage], seated, strict=True)
    ]


def test_every_combination_of_rows_has_the_step_of_the_diagram() -> None:
    """All 4 + 4³ + 4⁴ + 4⁵ + 4⁶ + 4⁷ = 21,828 tables of a team of seven seats; a pending seat is like a running one
    and a cancelled one like one that failed."""
    order = list(Stage)
    seen = 0
    for reached in range(1, len(order) + 1):
        seats = [(stage, len(TEAM[stage])) for stage in order[:reached]]
        for flat in itertools.product(STATES, repeat=sum(count for _, count in seats)):
            states, at = {}, 0
            for stage, count in seats:
                states[stage] = flat[at : at + count]
                at += count
            step = next_step(rows_of(states), team_seats)
            seen += 1
            if any(state not in TERMINAL for state in flat):
                assert step == Wait()
            elif reached == 1:
                is_done = flat == (SeatState.DONE,)
                assert step == (Open(stage=Stage.PANEL, seats=TEAM[Stage.PANEL]) if is_done else Finish())
            else:
                following = None if reached == len(order) else order[reached]
                assert step == (Open(stage=following, seats=TEAM[following]) if following else Finish())
    assert seen == sum(4**seats for seats in (1, 3, 4, 5, 6, 7))


def _keys(stage: Stage, seats: tuple[str, ...]) -> list[tuple[Stage, str]]:
    return [(stage, seat) for seat in seats]


@pytest.mark.parametrize("ends", list(itertools.product([True, False], repeat=7)), ids=str)
def test_every_run_reaches_its_finish_in_at_most_six_stages(ends: tuple[bool, ...]) -> None:
    """Each seat ends well or gives up; whatever they do, the run opens each stage once and finishes."""
    fate = dict(zip([seat for seats in TEAM.items() for seat in _keys(*seats)], ends, strict=True))
    rows: list[Seated] = []
    opened: list[Stage] = []
    while not isinstance(step := next_step(rows, team_seats), Finish):
        assert isinstance(step, Open)
        assert step.stage not in opened
        opened.append(step.stage)
        for seat in TEAM[step.stage]:
            waiting = [*rows, Seated(stage=step.stage, seat=seat, state=SeatState.RUNNING)]
            assert next_step(waiting, team_seats) == Wait()
            state = SeatState.DONE if fate[step.stage, seat] else GIVE_UP[step.stage]
            rows.append(Seated(stage=step.stage, seat=seat, state=state))
    assert opened == (list(Stage) if fate[Stage.CODER, "coder"] else [Stage.CODER])


def test_rows_in_any_order_give_the_same_step() -> None:
    rows = rows_of(
        {
            Stage.CODER: (SeatState.DONE,),
            Stage.PANEL: (SeatState.DONE, SeatState.ABSTAINED),
            Stage.CONSENSUS: (SeatState.FAILED,),
        }
    )
    steps = {next_step(order, team_seats) for order in itertools.permutations(rows)}
    assert steps == {Open(stage=Stage.REFUTE, seats=("claim-C1",))}


@pytest.mark.parametrize("with_refuters", [True, False])
@pytest.mark.parametrize("with_gate", [True, False])
def test_a_stage_without_seats_is_passed_over(with_refuters: bool, with_gate: bool) -> None:
    empty = {
        stage for stage, is_there in ((Stage.REFUTE, with_refuters), (Stage.GATE, with_gate)) if not is_there
    }
    rows: list[Seated] = []
    opened = []
    while isinstance(step := next_step(rows, lambda stage: () if stage in empty else TEAM[stage]), Open):
        opened.append(step.stage)
        rows += [Seated(stage=step.stage, seat=seat, state=SeatState.DONE) for seat in step.seats]
    assert step == Finish()
    assert opened == [stage for stage in Stage if stage not in empty]


def test_a_run_without_rows_opens_the_coder() -> None:
    assert next_step([], team_seats) == Open(stage=Stage.CODER, seats=("coder",))


def test_who_looks_at_something_may_abstain_and_every_way_to_give_up_is_final() -> None:
    abstaining = {stage for stage, state in GIVE_UP.items() if state is SeatState.ABSTAINED}
    assert abstaining == {Stage.PANEL, Stage.REFUTE, Stage.GATE}
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
