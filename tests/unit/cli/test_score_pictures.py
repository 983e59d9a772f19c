"""Where things stand in the report's pictures."""

from __future__ import annotations

from typing import Any

from tests.unit.agentlens.steps import edit, run, shell, view
from workers.agentlens.reference import Reference
from workers.scoring import pictures


def model(name: str, by_pass: int, by_quality: int) -> dict[str, Any]:
    return {
        "model": name,
        "rank_by_pass_rate": by_pass,
        "rank_by_quality": by_quality,
        "pass_rate": 0.5,
        "quality": {"value": 60.0},
        "shift": by_pass - by_quality,
    }


def test_a_slope_goes_from_the_place_by_pass_rate_to_the_place_by_quality() -> None:
    lines = pictures.slope([model("a", 1, 3), model("b", 2, 1), model("c", 3, 2)], row_height=10)
    # places from above: left a b c, right b c a; rows of 10 with their middle at 5
    assert [(line.model, line.left, line.right) for line in lines] == [
        ("a", 5, 25),
        ("b", 15, 5),
        ("c", 25, 15),
    ]
    assert [line.shift for line in lines] == [-2, 1, 1]


def test_models_of_one_rank_do_not_share_a_place() -> None:
    lines = pictures.slope([model("a", 1, 1), model("b", 1, 1)])
    assert len({line.left for line in lines}) == len({line.right for line in lines}) == 2


def test_every_score_falls_into_one_bin_and_a_hundred_into_the_last() -> None:
    bins = pictures.histogram(
        [(0.0, "passed"), (4.99, "failed"), (5.0, "passed"), (100.0, "passed"), (50.0, "unknown")]
    )
    assert len(bins) == 20
    assert [(b.start, b.passed, b.failed) for b in bins if b.passed or b.failed] == [
        (0.0, 1, 1),
        (5.0, 1, 0),
        (95.0, 1, 0),
    ]
    assert bins[0].passed_height == 1.0


def document(**changes: Any) -> dict[str, Any]:
    return {"waste": {"findings": []}, "matched": [], "divergence": None, **changes}


def test_a_timeline_marks_waste_matches_and_the_divergence_at_their_steps() -> None:
    states = run(view("a.py"), edit("a.py"), shell("pytest"), shell("pytest")).trajectory.states
    line = pictures.timeline(
        document(
            waste={"findings": [{"category": "blind_retry", "steps": [3]}]},
            matched=[{"step": 0, "node": 0}],
            divergence={
                "step": 1,
                "expected": [],
                "segments": [{"start": 1, "end": 2, "rejoined_at": 3}],
            },
        ),
        states,
    )
    assert [cell.intent for cell in line.cells] == ["E", "I", "V", "V"]
    assert [cell.is_wasted for cell in line.cells] == [False, False, False, True]
    assert line.cells[3].waste == "blind retry"
    assert [cell.is_matched for cell in line.cells] == [True, False, False, False]
    # four cells of 20: the mark stands over the second, the stretch covers the second and the third
    assert (line.width, line.divergence) == (80, 20)
    assert [(s.x, s.width) for s in line.off] == [(20, 40)]


def test_what_lies_behind_the_cut_of_a_long_run_is_left_out() -> None:
    states = run(*(view(f"{number}.py") for number in range(pictures.STEPS_SHOWN + 5))).trajectory.states
    late = pictures.STEPS_SHOWN + 2
    segments = [
        {"start": 390, "end": late, "rejoined_at": None},
        {"start": late, "end": late, "rejoined_at": None},
    ]
    line = pictures.timeline(
        document(divergence={"step": late, "expected": [], "segments": segments}), states
    )
    assert len(line.cells) == pictures.STEPS_SHOWN
    assert line.divergence is None
    assert [(s.x // line.cell_width, s.width // line.cell_width) for s in line.off] == [(390, 10)]


def test_a_tree_draws_shared_steps_once_and_a_lane_a_donor() -> None:
    one = run(view("a.py"), view("b.py"), edit("b.py"), name="one")
    two = run(view("a.py"), view("c.py"), edit("c.py"), name="two")
    reference = Reference.build([one.donor, two.donor])
    tree = pictures.tree(document(matched=[{"step": 0, "node": 0}]), reference, across=10, down=20)
    assert len(tree.dots) == 5  # a.py once, then two steps of each
    assert len(tree.lanes) == 2
    assert sorted({dot.y for dot in tree.dots}) == [10, 30]
    first = tree.dots[0]
    assert (first.x, first.y, first.support, first.step) == (20, 10, 2, 0)
    assert {edge[:2] for edge in tree.edges} >= {(first.x, first.y)}
    assert len(tree.edges) == len(tree.dots)
    assert tree.way == ((10, 20), (20, 10))
    assert not tree.is_cut


def test_a_step_is_named_by_what_it_did() -> None:
    typed = shell("cd x && pytest  -q | tail -3")
    assert (pictures.action(typed), pictures.compared_as(typed)) == (
        "cd x && pytest -q | tail -3",
        "pytest -q",
    )
    assert pictures.compared_as(shell("pytest -q")) == ""
    assert pictures.compared_as(view("a.py")) == ""
    assert pictures.action(view("a.py", (3, 9))) == "view a.py:3-9"
    assert pictures.shortened("a\x1b[31m\nb   c" + "d" * 200, 12) == "a�[31m b cd…"
