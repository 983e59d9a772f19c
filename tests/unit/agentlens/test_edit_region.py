from hypothesis import given
from hypothesis import strategies as st

from tests.unit.agentlens.steps import edit, patch, run, shell, think, undo, view
from workers.agentlens.edit_region import changed_lines, edited_files, region, written_sources
from workers.agentlens.signals.edit_agreement import edit_agreement
from workers.agentlens.trajectory import Intent, Operation

OLD = "def f():\n    a = 1\n    b = 2\n    return a"


def test_replaced_lines_are_named_without_indentation_and_context() -> None:
    assert region([edit("m.py", OLD, OLD.replace("b = 2", "b = 3"))]) == {("m.py", "b = 2")}


def test_an_insertion_is_named_by_the_line_before_it() -> None:
    assert region([edit("m.py", OLD, OLD.replace("b = 2", "b = 2\n    c = 3"))]) == {("m.py", "b = 2")}


def test_an_insertion_at_the_top_is_named_by_the_line_after_it() -> None:
    assert changed_lines(["x", "y"], ["n", "x", "y"]) == (("x",), ("n",))


def test_two_changes_in_one_edit_leave_the_lines_between_out() -> None:
    new = OLD.replace("a = 1", "a = 9").replace("return a", "return b")
    assert region([edit("m.py", OLD, new)]) == {("m.py", "a = 1"), ("m.py", "return a")}


def test_blank_lines_are_nobodys_work() -> None:
    assert changed_lines(["a", "", "b"], ["a", "b"]) == ((), ())


def test_failed_edits_and_edits_of_tests_do_not_count() -> None:
    failed = edit("m.py", "x", "y", outcome="error")
    of_test = edit("tests/t.py", "x", "y", intent=Intent.V)
    assert region([failed, of_test, view("m.py")]) == frozenset()


def test_an_undone_edit_is_gone() -> None:
    assert region([edit("m.py", "x", "y"), edit("n.py", "p", "q"), undo("m.py")]) == {("n.py", "p")}


def test_an_edit_taken_back_by_its_opposite_is_gone() -> None:
    assert region([edit("m.py", "x", "y"), edit("m.py", "y", "x")]) == frozenset()
    between = edit("n.py", "p", "q")
    assert region([edit("m.py", "x", "y"), between, edit("m.py", "y", "x")]) == {("n.py", "p")}


def test_a_step_that_names_no_file_edits_none() -> None:
    assert edited_files(think()) == ()
    assert edited_files(edit("m.py")) == ("m.py",)


def test_what_a_failed_edit_named_was_not_edited_and_a_lone_surrogate_in_a_name_is_text() -> None:
    made = run(edit("m.py", outcome="error"), edit("n\udc80.py")).trace
    assert made.edited_files == {"n\udc80.py"}
    assert made.sequence != run(edit("n\udc80.py")).trace.sequence


def test_git_checkout_of_a_file_or_folder_takes_its_edits_back() -> None:
    edits = [edit("src/m.py", "x", "y"), edit("src/n.py", "p", "q"), edit("o.py", "r", "s")]
    one = shell("git checkout -- src/m.py", intent=Intent.I)
    assert region([*edits, one]) == {("src/n.py", "p"), ("o.py", "r")}
    everything = shell("git reset --hard", intent=Intent.I)
    assert region([*edits, everything, edit("o.py", "r", "t")]) == {("o.py", "r")}
    folder = shell("git checkout -- src", intent=Intent.I)
    assert region([*edits, folder]) == {("o.py", "r")}


def test_lines_that_the_run_added_itself_are_not_lines_of_the_repository() -> None:
    first = edit("m.py", "x", "x\nnew")
    second = edit("m.py", "new", "newer")
    assert region([first, second]) == {("m.py", "x")}


def test_a_created_file_and_an_unreadable_shell_edit_stand_for_the_whole_file() -> None:
    created = edit("m.py", "", "text", operation=Operation.CREATE)
    assert region([created]) == {("m.py", "")}
    assert region([edit("m.py", "", "text")]) == {("m.py", "")}
    assert region([edit("m.py", "a", "b", operation=Operation.CREATE)]) == {("m.py", "")}
    script = shell("python -c \"open('n.py', 'w').write('x')\"", intent=Intent.I)
    assert region([script]) == {("n.py", "")}


def test_a_line_that_writes_several_files_stands_for_all_sources_among_them() -> None:
    moved = shell("rm src/a.py src/b.py tests/test_c.py", intent=Intent.I)
    assert written_sources(moved) == ("src/a.py", "src/b.py")
    assert region([moved]) == {("src/a.py", ""), ("src/b.py", "")}
    assert run(moved, edit("src/c.py", scope="f")).trace.edited == {
        ("src/a.py", ""),
        ("src/b.py", ""),
        ("src/c.py", "f"),
    }


def test_an_insertion_known_by_line_number_only_is_named_by_it() -> None:
    inserted = edit("m.py", "", "x", at=(7, 7), operation=Operation.INSERT)
    assert region([inserted]) == {("m.py", "@7")}


def test_a_patch_over_two_files_changes_the_lines_of_both() -> None:
    both = patch(("src/a.py", "x = 1", "x = 2"), ("src/b.py", "y = 1", "y = 3"))
    one_by_one = [edit("src/a.py", "x = 1", "x = 2"), edit("src/b.py", "y = 1", "y = 3")]
    assert region([both]) == {("src/a.py", "x = 1"), ("src/b.py", "y = 1")}
    # 2 lines here, 2 there, both shared: F1 = 2·2/(2 + 2) = 1; with all hunks in a.py it was 2·1/(2 + 2) = 0.5
    assert edit_agreement(region([both]), region(one_by_one)) == 100.0
    assert region([both, undo("src/b.py")]) == {("src/a.py", "x = 1")}


def test_the_hunks_of_a_patch_in_tests_do_not_count() -> None:
    both = patch(("tests/test_a.py", "t", "u"), ("src/a.py", "x = 1", "x = 2"))
    assert region([both]) == {("src/a.py", "x = 1")}


def test_the_scope_of_a_patch_is_that_of_its_first_file() -> None:
    both = patch(("src/a.py", "x = 1", "x = 2"), ("src/b.py", "y = 1", "y = 3"), scope="f")
    assert run(both).trace.edited == {("src/a.py", "f"), ("src/b.py", "")}


LINES = st.lists(st.sampled_from(["a", "b", "c", " d", ""]), max_size=8)


@given(LINES, LINES)
def test_only_lines_of_the_old_text_are_touched_and_only_new_ones_added(
    old: list[str], new: list[str]
) -> None:
    touched, added = changed_lines(old, new)
    assert set(touched) <= {line.strip() for line in old}
    assert set(added) <= {line.strip() for line in new}
    if old == new:
        assert touched == added == ()
