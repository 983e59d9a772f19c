from tests.unit.agentlens.steps import edit, run, shell, think, view
from workers.agentlens import disorder
from workers.agentlens.disorder import Disorder


def test_a_check_before_any_edit_is_located() -> None:
    trace = run(view("a.py"), shell("pytest t"), think(), edit("a.py"), shell("pytest t")).trace
    assert disorder.find(trace) == (Disorder(kind="verification_before_implementation", steps=(1,)),)


def test_exploring_foreign_files_after_a_verified_patch_is_located() -> None:
    trace = run(edit("a.py"), shell("pytest t"), view("a.py"), view("b.py"), think(), view("c.py")).trace
    assert disorder.find(trace) == (Disorder(kind="exploration_after_verified_patch", steps=(3, 5)),)


def test_a_new_edit_or_a_failing_check_makes_exploration_orderly_again() -> None:
    again = run(edit("a.py"), shell("pytest t"), edit("a.py"), view("b.py")).trace
    failing = run(edit("a.py"), shell("pytest t", outcome="error"), view("b.py")).trace
    assert disorder.find(again) == disorder.find(failing) == ()
