from tests.unit.agentlens.steps import edit, run, shell, think, view
from workers.agentlens import disorder
from workers.agentlens.disorder import Disorder
from workers.agentlens.trajectory import Intent


def test_a_check_before_any_edit_is_located() -> None:
    trace = run(view("a.py"), shell("pytest t"), think(), edit("a.py"), shell("pytest t")).trace
    assert disorder.find(trace) == (Disorder(kind="verification_before_implementation", steps=(1,)),)


def test_exploring_foreign_files_after_a_verified_patch_is_located() -> None:
    trace = run(edit("a.py"), shell("pytest t"), view("a.py"), view("b.py"), think(), view("c.py")).trace
    assert disorder.find(trace) == (Disorder(kind="exploration_after_verified_patch", steps=(3, 5)),)


def test_an_executed_script_verifies_a_patch_and_looking_at_it_does_not() -> None:
    executed = run(edit("a.py"), shell("python repro.py"), view("b.py")).trace
    assert disorder.find(executed) == (Disorder(kind="exploration_after_verified_patch", steps=(2,)),)
    looked_at = run(edit("a.py"), view("a.py", intent=Intent.V), view("b.py")).trace
    assert disorder.find(looked_at) == ()


def test_a_reproduction_before_any_edit_verifies_nothing() -> None:
    trace = run(shell("python repro.py", intent=Intent.E), view("b.py")).trace
    assert disorder.find(trace) == ()


def test_a_new_edit_or_a_failing_check_makes_exploration_orderly_again() -> None:
    again = run(edit("a.py"), shell("pytest t"), edit("a.py"), view("b.py")).trace
    failing = run(edit("a.py"), shell("pytest t", outcome="error"), view("b.py")).trace
    assert disorder.find(again) == disorder.find(failing) == ()
