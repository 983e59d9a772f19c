"""One run for each pattern of waste, and what a detector finds in a run."""

from __future__ import annotations

from tests.unit.agentlens.steps import edit, run, shell, view
from workers.agentlens.trajectory import State
from workers.agentlens.waste import scan
from workers.agentlens.waste.finding import Finding

# One run per detector that shows its pattern, with the wasted steps counted by hand.
SHOWN: dict[str, tuple[tuple[State, ...], tuple[int, ...]]] = {
    # The same failing line twice more with nothing in between: steps 1 and 2.
    "blind_retry": (tuple(shell("pytest t", outcome="error", seen="E") for _ in range(3)), (1, 2)),
    # Edit, failing check, edit, failing check, edit: from the second edit (2) to the last failing check (3).
    "regression_loop": (
        (
            edit("a.py", "1", "2", at=(5, 9)),
            shell("pytest t", outcome="error", seen="E1"),
            edit("a.py", "2", "3", at=(5, 9)),
            shell("pytest t", outcome="error", seen="E2"),
            edit("a.py", "3", "4", at=(5, 9)),
            shell("pytest t", seen="ok"),
        ),
        (2, 3),
    ),
    # 1-100 was seen; 5-100 shares 96 of 100 lines with it: step 1.
    "redundant_step": ((view("a.py", (1, 100)), view("a.py", (5, 100)), view("a.py", (1, 40))), (1,)),
    # Two looks at foreign files after a passing check with no edit since: steps 3 and 4.
    "unnecessary_exploration": (
        (view("a.py"), edit("a.py"), shell("pytest t", seen="ok"), view("b.py"), view("c.py")),
        (3, 4),
    ),
    # a b a b a b: the first round is work, the other two are not: steps 2 to 5.
    "cyclic_pattern": (
        tuple(
            step
            for n in range(3)
            for step in (view("a.py", (n * 50 + 1, n * 50 + 9)), view("b.py", (n + 1, n + 1)))
        ),
        (2, 3, 4, 5),
    ),
}


def found(category: str, states: tuple[State, ...]) -> list[Finding]:
    return [finding for finding in scan(run(*states).trace) if finding.category == category]
