"""Two nights beside each other, counted by hand."""

from __future__ import annotations

from workers.scoring.comparison import Seen, compare


def seen(path: str, tier: str | None, score: float = 50.0, mechanism: str | None = None) -> Seen:
    return Seen(path=path, trajectory_id=path, model="m", score=score, tier=tier, mechanism=mechanism)


def test_runs_are_new_gone_moved_or_the_same() -> None:
    before = [
        seen("a", "ideal"),
        seen("b", "lucky", 40, "C1"),
        seen("c", "solid"),
        seen("e", "lucky", 30, "C2"),
    ]
    now = [
        seen("a", "ideal"),
        seen("b", "solid", 60),
        seen("d", "lucky", 20, "C4"),
        seen("e", "lucky", 30, "C2"),
    ]

    found = compare(now, before, scoring_id="s", night="2026-03-01")

    assert found["counts"] == {"new": 1, "gone": 1, "moved": 1, "same": 2}
    assert found["moves"] == [{"from": "lucky", "to": "solid", "runs": 1}]
    assert found["tiers"] == {
        "now": {"ideal": 1, "lucky": 2, "solid": 1},
        "before": {"ideal": 1, "lucky": 2, "solid": 1},
    }
    assert found["lucky_by_mechanism"] == {"now": {"C2": 1, "C4": 1}, "before": {"C1": 1, "C2": 1}}
    assert [run["path"] for run in found["new"]] == ["d"]  # type: ignore[attr-defined]
    assert [run["path"] for run in found["gone"]] == ["c"]  # type: ignore[attr-defined]


def test_the_order_of_runs_changes_nothing() -> None:
    before, now = [seen("a", "ideal"), seen("b", "lucky")], [seen("c", "solid"), seen("a", "solid")]
    assert compare(now, before, scoring_id="s", night="n") == compare(
        now[::-1], before[::-1], scoring_id="s", night="n"
    )


def test_a_night_beside_itself_has_no_changes() -> None:
    runs = [seen("a", "ideal"), seen("b", None)]
    found = compare(runs, runs, scoring_id="s", night="n")
    assert found["counts"] == {"new": 0, "gone": 0, "moved": 0, "same": 2}
