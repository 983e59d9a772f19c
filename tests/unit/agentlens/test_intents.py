"""The seven rules (AGENTLENS §2) and the regression list of §10, by label and rule number."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.intents import label
from workers.agentlens.trajectory import Operation

SOURCE = "pkg/core.py"


def edited(builder: StateBuilder, path: str = SOURCE, *, done: bool = True) -> None:
    said = f"The file {path} has been edited." if done else "ERROR:\nNo replacement was performed"
    builder.replace("edit", path, [("old_name = 1", "new_name = 1")], Seen(text=said))


def labels(builder: StateBuilder) -> list[str]:
    return [f"{state.intent}{state.rule}" for state in label(builder.states)]


def shell_after_edit(text: str, seen: Seen | None = None) -> str:
    builder = StateBuilder()
    edited(builder)
    builder.shell("bash", text, seen or Seen())
    return labels(builder)[-1]


def shell_before_edit(text: str) -> str:
    builder = StateBuilder()
    builder.shell("bash", text, Seen())
    return labels(builder)[-1]


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        # rule 1
        ("cd /testbed", "O1", "O1"),
        ("echo done", "O1", "O1"),
        # rule 2
        ("rm a.py b.py", "I2", "I2"),
        ("sed -i 's/a/b/' pkg/x.py", "I2", "I2"),
        (
            "apply_patch <<'E'\n*** Begin Patch\n*** Update File: pkg/a.py\n@@\n-x\n+y\n*** End Patch\nE",
            "I2",
            "I2",
        ),
        ("git checkout -- pkg/x.py", "I2", "I2"),
        ("python - <<'E'\nopen('pkg/x.py', 'w').write('')\nE", "I2", "I2"),
        # rule 3
        ("cat > reproduce_issue.py <<'E'\nprint(1)\nE", "E3", "V3"),
        ("echo x >> tests/test_a.py", "E3", "V3"),
        # rule 4
        ("bin/test sympy/core", "V4", "V4"),
        ("python -m pytest", "V4", "V4"),
        ("mypy pkg", "V4", "V4"),
        # rule 5
        ('python -c "import pkg; print(pkg.f())"', "E5", "V5"),
        ("python reproduce_issue.py", "E5", "V5"),
        ("make", "E5", "V5"),
        # rule 6
        ("grep -rn pytest setup.cfg", "E6", "E6"),
        ("cat tox.ini", "E6", "E6"),
        ("find . -name '*.py' 2>/dev/null", "E6", "E6"),
        ("cat pkg/core.py", "E6", "V6"),
        ("grep -n def pkg/core.py", "E6", "V6"),
        ("grep -rn new_name .", "E6", "V6"),
        ("git diff", "E6", "V6"),
        ("git status", "E6", "V6"),
        ("git log --oneline", "E6", "E6"),
        ("cat pkg/other.py", "E6", "E6"),
        # rule 7
        ("pip install x", "O7", "O7"),
        ("mkdir build", "O7", "O7"),
        ("git commit -am x", "O7", "O7"),
        ("frobnicate", "O7", "O7"),
    ],
)
def test_a_command_means_what_its_history_makes_of_it(text: str, before: str, after: str) -> None:
    assert (shell_before_edit(text), shell_after_edit(text)) == (before, after)


def test_a_redirection_to_nowhere_does_not_open_the_time_after_the_edit() -> None:
    builder = StateBuilder()
    builder.shell("bash", "find . -name '*.py' 2>/dev/null", Seen())
    builder.shell("bash", "python repro.py", Seen())
    assert labels(builder) == ["E6", "E5"]


def test_creating_a_reproduction_script_is_not_an_implementation() -> None:
    builder = StateBuilder()
    builder.create("create", "reproduce_issue.py", "print(1)", Seen(text="File created successfully"))
    builder.shell("bash", "python reproduce_issue.py", Seen())
    assert labels(builder) == ["E3", "E5"]


def test_editing_a_product_folder_called_test_is_an_implementation() -> None:
    builder = StateBuilder()
    edited(builder, "django/test/client.py")
    assert labels(builder) == ["I2"]


def test_a_failed_edit_stays_an_implementation_but_opens_nothing() -> None:
    builder = StateBuilder()
    edited(builder, done=False)
    builder.shell("bash", "cat pkg/core.py", Seen())
    assert labels(builder) == ["I2", "E6"]


def test_removing_what_the_agent_made_is_no_source_edit() -> None:
    builder = StateBuilder()
    builder.create("create", "tests/test_new.py", "x", Seen(text="File created successfully"))
    builder.shell("bash", "rm tests/test_new.py", Seen())
    assert labels(builder) == ["E3", "E3"]


def test_a_script_that_rewrites_source_is_an_edit_when_it_runs() -> None:
    builder = StateBuilder()
    builder.create(
        "create",
        "apply_fix.py",
        "open('pkg/core.py', 'w').write('x')",
        Seen(text="File created successfully"),
    )
    builder.shell("bash", "python apply_fix.py", Seen(exit_code=0))
    builder.view("view", SOURCE, Seen(text="x"))
    assert labels(builder) == ["E3", "I2", "V6"]


def test_a_script_made_and_run_in_one_line_is_an_edit() -> None:
    line = "cat > apply_fix.py <<'E'\nopen('pkg/core.py', 'w').write('x')\nE\npython apply_fix.py"
    assert shell_before_edit(line) == "I2"


def test_a_file_that_the_failing_check_names_is_looked_at_to_verify() -> None:
    builder = StateBuilder()
    edited(builder)
    builder.shell("bash", "pytest", Seen(text="FAILED tests/test_x.py::test_a - x\n1 failed"))
    builder.view("view", "tests/test_x.py", Seen(text="x"))
    builder.view("view", "tests/test_y.py", Seen(text="x"))
    assert labels(builder)[2:] == ["V6", "E6"]


def test_a_listing_concerns_the_change_if_it_shows_an_edited_file() -> None:
    builder = StateBuilder()
    edited(builder)
    builder.listing("ls", "pkg", Seen(text="core.py\nutil.py"))
    builder.listing("ls", "docs", Seen(text="index.rst"))
    assert labels(builder)[1:] == ["V6", "E6"]


def test_a_check_that_passes_again_takes_back_what_the_failing_one_named() -> None:
    builder = StateBuilder()
    edited(builder)
    builder.shell("bash", "pytest", Seen(text="FAILED tests/test_x.py::test_a - x\n1 failed"))
    builder.shell("bash", "pytest", Seen(text="1 passed in 0.01s"))
    builder.view("view", "tests/test_x.py", Seen(text="x"))
    assert labels(builder)[1:] == ["V4", "V4", "E6"]


@pytest.mark.parametrize(
    ("folder", "shown"),
    [
        ("pkg", "util.py"),  # the file's folder, but the file is not shown
        ("", "core.py"),  # a file of the same name in another folder
        ("pk", "pkg/core.py"),  # a folder whose name the path begins with is not its folder
    ],
)
def test_a_listing_that_shows_no_edited_file_is_exploration(folder: str, shown: str) -> None:
    builder = StateBuilder()
    edited(builder)
    builder.listing("ls", folder, Seen(text=shown))
    assert labels(builder)[1:] == ["E6"]


@pytest.mark.parametrize(
    ("line", "shown", "expected"),
    [
        ("ls pkg", "core.py\nutil.py", "V6"),
        ("ls .", "pkg/core.py", "V6"),
        ("ls pkg", "util.py", "E6"),
        ("ls docs", "index.rst", "E6"),
    ],
)
def test_a_shell_listing_concerns_the_change_as_a_tools_listing_does(
    line: str, shown: str, expected: str
) -> None:
    assert shell_after_edit(line, Seen(text=shown, exit_code=0)) == expected


def test_a_note_is_neither_source_nor_a_script() -> None:
    builder = StateBuilder()
    builder.create("create", "NOTES.md", "x", Seen(text="File created successfully"))
    builder.view("view", "NOTES.md", Seen(text="x"))
    assert labels(builder) == ["O7", "E6"]


def test_of_two_scripts_made_at_once_it_is_unknown_which_rewrites_source() -> None:
    opening = "+open('pkg/core.py', 'w').write('x')"
    added = "".join(f"*** Add File: fix_{name}.py\n{opening}\n" for name in "ab")
    builder = StateBuilder()
    builder.shell("bash", f"apply_patch <<'E'\n*** Begin Patch\n{added}*** End Patch\nE", Seen(exit_code=0))
    builder.shell("bash", "python fix_a.py", Seen(exit_code=0))
    assert labels(builder) == ["E3", "E5"]


def test_input_before_any_command_is_bookkeeping() -> None:
    builder = StateBuilder()
    builder.keys("bash", "y", Seen())
    assert labels(builder) == ["O1"]


def test_input_to_a_running_process_keeps_the_label_of_its_command() -> None:
    builder = StateBuilder()
    builder.shell("bash", "pytest", Seen())
    builder.keys("bash", "", Seen())
    assert labels(builder) == ["V4", "V4"]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (Operation.THINK, "O1"),
        (Operation.PLAN, "O1"),
        (Operation.MESSAGE, "O1"),
        (Operation.FINISH, "O1"),
        (Operation.DELEGATE, "O1"),
        (Operation.BROWSE, "E6"),
    ],
)
def test_a_step_that_touches_nothing_has_its_label(operation: Operation, expected: str) -> None:
    builder = StateBuilder()
    builder.note("tool", operation, Seen())
    assert labels(builder) == [expected]


LINES = st.sampled_from(
    [
        "cat pkg/core.py",
        "pytest",
        "python x.py",
        "sed -i 's/a/b/' pkg/core.py",
        "ls",
        "git diff",
        "echo a",
        "pip install x",
        "cat > repro.py <<'E'\nx\nE",
        "rm pkg/core.py",
        "grep -rn new_name .",
        "git stash",
    ]
)
STEPS = st.lists(st.tuples(LINES, st.sampled_from([0, 1, None])), max_size=12)


@given(STEPS, st.integers(min_value=0, max_value=12))
def test_labelling_a_prefix_gives_the_prefix_of_the_labels(
    steps: list[tuple[str, int | None]], cut: int
) -> None:
    builder = StateBuilder()
    for text, code in steps:
        builder.shell("bash", text, Seen(exit_code=code))
    whole = label(builder.states)
    assert label(builder.states[:cut]) == whole[:cut]


@given(STEPS)
def test_labelling_changes_nothing_but_the_label(steps: list[tuple[str, int | None]]) -> None:
    builder = StateBuilder()
    for text, code in steps:
        builder.shell("bash", text, Seen(exit_code=code))
    bare = [dataclasses.replace(state, intent=None, rule=0) for state in label(builder.states)]
    assert bare == builder.states
    assert all(state.intent is None and state.rule == 0 for state in builder.states)
