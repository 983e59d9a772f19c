"""The draw of steps to rate, and what a rater gets to see."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.agentlens.steps import edit, listing, shell, view
from workers.agentlens.rating import (
    Draw,
    Place,
    Stratum,
    action,
    action_digest,
    question,
    quotas,
    step_id,
    third,
)
from workers.agentlens.trajectory import Intent, Operation, State, Trajectory


def stratum(name: str, format_name: str = "f") -> Stratum:
    return Stratum(format_name, name, "early")


def numbered(*states: State) -> tuple[State, ...]:
    return tuple(dataclasses.replace(state, index=index) for index, state in enumerate(states))


def run(*states: State, **more: object) -> Trajectory:
    about = {"trajectory_id": "t", "path": "p", "format": "f"} | more
    return Trajectory(states=numbered(*states), **about)  # type: ignore[arg-type]


def test_quotas_grow_with_the_square_root_of_a_stratum() -> None:
    # Roots 10 and 2 of 12.
    assert quotas({stratum("a"): 100, stratum("b"): 4}, 12) == {stratum("a"): 10, stratum("b"): 2}


def test_many_small_strata_of_a_format_get_together_what_is_theirs() -> None:
    small = {stratum(f"s{number:02}", "small"): 1 for number in range(20)}
    # Roots 20 · 1 and 20: half of 20 each, though no small one is due a whole step.
    given_ = quotas({stratum("a", "large"): 400, **small}, 20)
    assert given_[stratum("a", "large")] == 10
    assert sum(given_[name] for name in small) == 10


def test_what_a_small_stratum_cannot_give_others_do() -> None:
    # Roots 1 and 2 of 5: 5/3 and 10/3, but the first has only one.
    assert quotas({stratum("a"): 1, stratum("b"): 4}, 5) == {stratum("a"): 1, stratum("b"): 4}


@given(
    st.dictionaries(st.text(max_size=2).map(stratum), st.integers(1, 50), max_size=20), st.integers(1, 300)
)
def test_quotas_add_up_and_never_exceed_a_stratum(sizes: dict[Stratum, int], wanted: int) -> None:
    given_ = quotas(sizes, wanted)
    assert sum(given_.values()) == min(wanted, sum(sizes.values()))
    assert all(0 <= given_[name] <= size for name, size in sizes.items())


@pytest.mark.parametrize(
    ("states", "expected"), [(1, "E"), (2, "EM"), (3, "EML"), (4, "EEML"), (7, "EEEMMLL")]
)
def test_a_step_belongs_to_the_third_in_which_it_begins(states: int, expected: str) -> None:
    # Of 7 states, state 2 begins at 2/7 < 1/3, state 4 at 4/7 < 2/3, state 5 at 5/7.
    assert "".join(third(index, states)[0].upper() for index in range(states)) == expected


def test_a_draw_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    def drawn(seed: int, files: str) -> list[tuple[Place, Stratum]]:
        draw = Draw(wanted=5, seed=seed)
        for name in files:
            draw.offer(run(*(view(f"{name}/{number}.py") for number in range(9))), file=name, number=0)
        return draw.drawn()

    assert drawn(0, "abcdef") == drawn(0, "abcdef") == drawn(0, "fedcba")
    assert drawn(0, "abcdef") != drawn(1, "abcdef")
    assert len(drawn(0, "abcdef")) == 5


def test_steps_with_the_same_past_are_asked_once() -> None:
    draw = Draw(wanted=10, seed=0)
    for name in ("a", "b", "c"):
        draw.offer(run(view("x.py"), view(f"{name}.py")), file=name, number=0)
    places = [place for place, _ in draw.drawn()]
    # The first step of all three is one question; the second differs.
    assert sorted(places) == [("a", 0, 0), ("a", 0, 1), ("b", 0, 1), ("c", 0, 1)]


def test_every_third_and_tool_is_drawn() -> None:
    draw = Draw(wanted=6, seed=0)
    for name in range(10):
        steps = [step for part in "abc" for step in (view(f"{part}{name}.py"), shell(f"ls {part}{name}"))]
        draw.offer(run(*steps), file=f"{name}", number=0)
    assert {stratum_ for _, stratum_ in draw.drawn()} == {
        ("f", operation, part) for operation in ("view", "shell") for part in ("early", "middle", "late")
    }


def test_a_question_shows_nothing_of_what_comes_later_or_of_labels() -> None:
    states = numbered(view("a.py"), edit("a.py"), shell("pytest"), shell("git diff"))
    place = Place("f", 0, 2)
    asked = question(states, place)
    assert asked == question(states[:3], place)
    relabeled = [dataclasses.replace(state, intent=Intent.O, rule=7) for state in states]
    assert asked == question(relabeled, place)


def test_a_question_shows_the_action_its_observation_and_what_came_before() -> None:
    states = numbered(
        view("a.py"),
        edit("a.py", "x = 1", "x = 2"),
        edit("b.py", outcome="error"),
        shell("pytest -q", seen="1 failed"),
        shell("grep -n x a.py", seen="1:x = 2"),
    )
    asked = question(states, Place("f", 0, 4))
    assert (asked.number, asked.tool, asked.action, asked.observation) == (
        5,
        "bash",
        "grep -n x a.py",
        "1:x = 2",
    )
    assert asked.changes.splitlines() == [
        "2. edit: replace a.py --- old x = 1 +++ new x = 2",
        "3. edit: replace b.py --- old a +++ new b [failed]",
    ]
    assert asked.before.splitlines()[0] == "1. read: view a.py"
    assert asked.before.splitlines()[-2:] == ["4. bash: pytest -q", "   printed: 1 failed"]


def test_running_a_script_that_the_agent_wrote_is_listed_as_it_may_edit() -> None:
    states = numbered(
        shell("cat > fix_it.py <<'EOF'\nopen('a.py', 'w')\nEOF"),
        shell("python other.py"),
        shell("python fix_it.py"),
        view("a.py"),
    )
    changes = question(states, Place("f", 0, 3)).changes.splitlines()
    assert [line[:2] for line in changes] == ["1.", "3."]


def test_running_a_script_that_an_edit_tool_wrote_is_listed_too() -> None:
    written = edit("fix_it.py", "", "open('a.py', 'w')", operation=Operation.CREATE)
    states = numbered(written, shell("python other.py"), shell("python fix_it.py"), view("a.py"))
    changes = question(states, Place("f", 0, 3)).changes.splitlines()
    assert [line[:2] for line in changes] == ["1.", "3."]


def test_many_changes_are_listed_from_both_ends() -> None:
    states = numbered(*(edit(f"{number}.py") for number in range(20)), view("a.py"))
    lines = question(states, Place("f", 0, 20)).changes.splitlines()
    # 20 changes: the first 3, the last 12, and 5 between them.
    assert lines[3] == "… 5 more …"
    assert (lines[2][:2], lines[4][:2], lines[-1][:3]) == ("3.", "9.", "20.")


def test_a_long_text_is_cut_in_the_middle_and_says_so() -> None:
    asked = question(numbered(shell("cat a", seen="a" * 700 + "b" * 1000 + "c" * 500)), Place("f", 0, 0))
    just_whole = "x" * (700 + 500 + 40)
    assert question(numbered(shell("cat a", seen=just_whole)), Place("f", 0, 0)).observation == just_whole
    assert asked.observation == "a" * 700 + "\n[… 1000 characters …]\n" + "c" * 500


@pytest.mark.parametrize(("length", "shown"), [(200, "x" * 200), (201, "x" * 199 + "…")])
def test_what_came_before_is_one_line_of_200_characters_a_step(length: int, shown: str) -> None:
    asked = question(numbered(shell("x" * length), view("a.py")), Place("f", 0, 1))
    assert asked.before == f"1. bash: {shown}"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (view("a.py", (3, 9)), "view a.py lines 3-9"),
        (view("a.py", (3, 1_000_000_000)), "view a.py lines 3-end"),
        (listing(""), "list ."),
        (shell("cd src && ls 2>/dev/null"), "cd src && ls 2>/dev/null"),
        (edit("a.py", "", "x", operation=Operation.CREATE), "create a.py\n+++ new\nx"),
        (edit("a.py", "x", ""), "replace a.py\n--- old\nx\n+++ no text"),
        (edit("a.py", "x", "y"), "replace a.py\n--- old\nx\n+++ new\ny"),
    ],
)
def test_an_action_is_shown_as_it_was_called(state: State, expected: str) -> None:
    assert action(state) == expected


def test_another_action_has_another_digest() -> None:
    assert action_digest(view("a.py")) == action_digest(view("a.py"))
    assert action_digest(view("a.py")) != action_digest(view("b.py"))


@given(st.text(max_size=5), st.integers(0, 9), st.integers(0, 99))
def test_a_step_id_is_never_a_number_to_a_spreadsheet(file: str, number: int, state: int) -> None:
    name = step_id(Place(file, number, state))
    assert name[0] == "s"
    assert len(name) == 11
    assert name != step_id(Place(file, number, state + 1))
