"""The geometry of timelines, and the texts that go with steps."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from tests.recorded_runs import CHECK, FIX, LOOK, document, search
from workers.agentlens.assess import prepare
from workers.agentlens.formats import read_decoded
from workers.agentlens.intents import label
from workers.inspection.address import RunAddress
from workers.inspection.alignment import align
from workers.inspection.figures import figures
from workers.inspection.opened import OpenedRun
from workers.inspection.steps import piece_of, steps
from workers.inspection.strip import picture, strip, way
from workers.inspection.texts import sound


def opened(*taken: tuple[str, dict[str, object]], seen: str = "ok") -> OpenedRun:
    """A run that no scoring holds."""
    (run,) = read_decoded("a_pta.json", document(*taken, seen=seen))
    prepared = prepare(dataclasses.replace(run, states=label(run.states)))
    return OpenedRun(
        address=RunAddress(owner="traj_" + "0" * 26, number=0),
        file_id=None,
        run=prepared,
        observations=[state.observation for state in run.states],
    )


def test_neighbouring_steps_of_one_intent_are_one_square() -> None:
    line = strip(opened(search("x"), LOOK, FIX, CHECK, CHECK))
    assert line.intents == {"E": "M0 0h2v1h-2z", "I": "M2 0h1v1h-1z", "V": "M3 0h2v1h-2z"}
    assert line.counts == {"exploration": 2, "implementation": 1, "verification": 2, "orchestration": 0}
    # The middle of the first of five steps is a tenth of the width.
    assert (line.ticks[0].percent, line.letters[0].text) == (10.0, "E")
    assert (line.off, line.matched, line.divergence) == ("", "", None)


def test_a_long_run_has_no_letters_and_few_ticks() -> None:
    line = strip(opened(*[LOOK] * 500))
    assert (line.letters, [mark.text for mark in line.ticks]) == ((), [str(n) for n in range(0, 500, 50)])
    assert line.intents == {"E": "M0 0h500v1h-500z"}
    # Looking at the same lines again and again is waste, all but the first time.
    assert line.wasted == "M1 0h499v1h-499z"


def test_a_run_without_steps_has_an_empty_timeline() -> None:
    empty = opened()
    assert (strip(empty).steps, steps(empty, 0, 50)) == (0, [])


def test_without_a_reference_there_is_no_way_and_no_picture() -> None:
    alone = opened(LOOK, FIX)
    assert (way(alone), picture(alone)) == ([], None)
    assert [step.node for step in steps(alone, 0, 50)] == [None, None]


def test_a_step_carries_the_beginning_of_its_texts() -> None:
    (step,) = steps(opened(LOOK, seen="x" * 3_000), 0, 50)
    assert (len(step.observation.text), step.observation.total_chars) == (2_000, 3_000)


def test_a_run_beside_itself_shares_every_step() -> None:
    run = opened(search("x"), LOOK, FIX, CHECK)
    found = align(run, run)
    assert (found.is_same, found.shared, found.edit_agreement) == (True, 4, 1.0)
    assert all(row.confidence == 1.0 for row in found.rows)


@given(st.text(max_size=300), st.integers(1, 50))
def test_the_pieces_of_a_text_put_together_are_the_text(text: str, limit: int) -> None:
    parts, offset = [], 0
    while True:
        piece = piece_of(text, offset, limit)
        assert (piece.offset, piece.total_chars) == (offset, len(text))
        parts.append(piece.text)
        if piece.next_offset is None:
            break
        offset = piece.next_offset
    assert "".join(parts) == text


@given(st.text(alphabet=st.characters(codec=None), max_size=50))
def test_a_sound_text_can_be_written_as_utf_8_and_a_sound_one_stays(text: str) -> None:
    once = sound(text)
    once.encode("utf-8")
    assert sound(once) == once


def test_figures_divide_by_nothing_only_where_there_is_something() -> None:
    empty = {"models": [], "cost": {"by_tier": {"lucky": {"runs": 0}}}}
    assert figures(empty).pass_rate is None
    models = [
        {"runs": 3, "passed": 2, "quality": {"value": 60.0}},
        {"runs": 1, "passed": 0, "quality": {"value": 20.0}},
    ]
    found = figures({"models": models, "cost": {"by_tier": {"lucky": {"runs": 1}}}})
    # Two of four passed; (3·60 + 20) / 4 = 50; one of the two by luck.
    assert (found.pass_rate, found.mean_score, found.lucky_share) == (0.5, 50.0, 0.5)
