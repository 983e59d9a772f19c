"""The signals of a run over all draws, and what can be said of it without any reference."""

import pytest

from tests.unit.agentlens.steps import edit, intents, run, shell, view
from workers.agentlens.measure import Signals, process_signals
from workers.agentlens.signals.coherence import coherence
from workers.agentlens.trajectory import Intent, State

LOOK = view("a.py")
CHANGE = edit("a.py")
CHECK = shell("pytest t")
SCRIPT = shell("python repro.py", intent=Intent.E)


@pytest.mark.parametrize(
    ("states", "edited", "checked", "reproduced"),
    [
        ((SCRIPT, CHANGE, CHECK), 100.0, 50.0, 100.0),
        ((SCRIPT, CHANGE, CHECK, CHECK), 100.0, 75.0, 100.0),  # 1 − ½²
        ((LOOK, CHANGE, CHECK, CHECK, CHECK), 100.0, 87.5, 0.0),  # 1 − ½³; a look reproduces nothing
        ((LOOK, CHANGE), 100.0, 0.0, 0.0),
        # only the checks after the last edit count
        ((CHANGE, CHECK, CHECK, CHANGE, CHECK), 100.0, 50.0, 0.0),
        # a look that verifies executes nothing, and an execution that explores checks nothing
        ((CHANGE, view("a.py", intent=Intent.V)), 100.0, 0.0, 0.0),
        ((CHANGE, SCRIPT), 100.0, 0.0, 0.0),
        # without an edit that succeeded nothing was edited or checked; an attempt is tried on what was run before
        ((SCRIPT, CHECK), 0.0, 0.0, 0.0),
        ((SCRIPT, edit("a.py", outcome="error"), CHECK), 0.0, 0.0, 100.0),
        ((), 0.0, 0.0, 0.0),
    ],
)
def test_what_is_said_of_a_run_without_a_reference(
    states: tuple[State, ...], edited: float, checked: float, reproduced: float
) -> None:
    found = process_signals(run(*states).trace, blind_retries=0)
    assert (found["edited"], found["checked"], found["reproduced"]) == (edited, checked, reproduced)


def test_coherence_counts_on_a_hundred_without_a_reference_too() -> None:
    # E→I→V, verified on both sides; 1 blind retry of 4 states: ¾
    found = process_signals(run(LOOK, CHANGE, CHECK, CHECK).trace, blind_retries=1)
    assert found["coh"] == pytest.approx(75.0)


def test_every_draw_has_its_value_on_a_hundred_and_the_means_keep_their_scale() -> None:
    signals = Signals(
        struct=(40.0, 60.0),
        cov=(10.0, 30.0),
        edit=(0.0, 100.0),
        temp=(0.5, 1.0),
        coherence=coherence(intents("EI"), blind_retries=0),  # all forward, looked first, not checked: ½
        best_donor=0,
        recall=0.5,
        precision=0.5,
        covered=1,
    )
    assert signals.per_draw() == {
        "struct": (40.0, 60.0),
        "cov": (10.0, 30.0),
        "edit": (0.0, 100.0),
        "temp": (50.0, 100.0),
        "coh": (50.0, 50.0),
    }
    assert signals.means() == {"struct": 50.0, "cov": 20.0, "edit": 50.0, "temp": 0.75, "coh": 0.5}
