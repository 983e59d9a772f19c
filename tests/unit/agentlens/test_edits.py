"""What edits changed and where they stood."""

from __future__ import annotations

import pytest

from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.locate import (
    anchor_of,
    changed_lines,
    encloses_itself,
    found_in,
    holding,
    numbered_lines,
    scope_of,
)
from workers.agentlens.shell import parse
from workers.agentlens.shell_edits import edits_of, patch_edits
from workers.agentlens.trajectory import Edit, Lines

SNIPPET = """The file /testbed/a.py has been edited. Here's the result of running `cat -n` on a snippet:
    10\tclass A:
    11\t    def f(self):
    12\t        x = 1
    13\t        y = 2
    14\t        z = 4
"""


def test_a_listing_gives_its_lines_by_number() -> None:
    assert numbered_lines("x\n  3\tabc\n  4\t\n") == {3: "abc", 4: ""}
    assert numbered_lines("   280→      const a\n") == {280: "     const a"}


def test_an_edit_stands_where_its_new_text_is_shown() -> None:
    # the new text begins at line 13 of the snippet and took two lines before
    assert anchor_of("        y = 0\n        q = 0", "        y = 2", numbered_lines(SNIPPET)) == Lines(
        start=13, end=14
    )


def test_an_edit_whose_text_was_cut_off_stands_four_lines_below_the_snippet() -> None:
    assert anchor_of("gone", "", numbered_lines(SNIPPET)) == Lines(start=14, end=14)


def test_an_edit_at_the_top_of_a_listing_that_does_not_show_it_stands_nowhere() -> None:
    assert anchor_of("gone", "", {1: "a", 2: "b"}) is None
    assert anchor_of("gone", "", {2: "a"}) == Lines(start=6, end=6)
    assert anchor_of("gone", "new", {2: "a"}) == Lines(start=6, end=6)
    # a text that ends with its line takes no further one
    assert anchor_of("x\ny\n", "a", {2: "a"}) == Lines(start=2, end=3)
    assert anchor_of("x\ny", "a", {2: "a"}) == Lines(start=2, end=3)


def test_the_one_line_that_holds_a_part_is_its_place() -> None:
    shown = {3: "x = 1", 4: "y = 1"}
    assert holding("x =", shown) == Lines(start=3, end=3)
    assert holding("= 1", shown) is None
    assert holding("z", shown) is None
    assert holding("x = 1\ny", {3: "x = 1\ny"}) is None


def test_a_change_that_begins_with_a_definition_at_the_margin_encloses_itself() -> None:
    assert encloses_itself(["def f():"], ["    x"])
    assert encloses_itself([], ["class A:"])
    assert not encloses_itself(["    def f():"], ["        x"])
    assert not encloses_itself(["x = 1"], ["y", "def f():"])


def test_a_text_is_found_only_as_a_whole() -> None:
    shown = {5: "a", 6: "b", 7: "c"}
    assert found_in("b\nc\n", shown) == Lines(start=6, end=7)
    assert found_in("b\nx", shown) is None


def test_indentation_says_what_encloses_a_change() -> None:
    before = ["class A:", "    def f(self):", "        pass", "    def g(self):", "        if x:"]
    assert scope_of(before, ["            return 1"]) == "A.g"
    assert scope_of(before, ["    def h(self):"]) == "A.h"
    assert scope_of([], ["x = 1"]) is None
    assert scope_of(before, ["", "  "]) is None
    assert scope_of(["func (r *T) Run() {"], ["\tgo()"]) == "Run"


def test_common_lines_are_no_change() -> None:
    assert changed_lines("a\nb\nc", "a\nB\nc") == (1, ["b"], ["B"])
    assert changed_lines("a\nb", "a\nb") == (2, [], [])
    assert changed_lines("a b", "a c") == (0, ["a b"], ["a c"])


def test_a_replacement_knows_lines_and_scope_from_what_the_tool_showed() -> None:
    builder = StateBuilder()
    builder.replace("edit", "/testbed/a.py", [("        y = 0", "        y = 2")], Seen(text=SNIPPET))
    (state,) = builder.states
    assert (state.path, state.lines, state.scope, state.outcome) == (
        "a.py",
        Lines(start=13, end=13),
        "A.f",
        "ok",
    )


def test_a_replacement_knows_lines_and_scope_from_what_was_seen_before() -> None:
    builder = StateBuilder()
    builder.view("view", "a.py", Seen(text="class A:\n    def f(self):\n        return 0\n"))
    builder.replace("edit", "a.py", [("        return 0", "        return 1")], Seen(is_error=False))
    assert (builder.states[1].lines, builder.states[1].scope) == (Lines(start=3, end=3), "A.f")


def test_lines_below_an_edit_are_forgotten() -> None:
    builder = StateBuilder()
    builder.view("view", "a.py", Seen(text="a\nb\nc\n"))
    builder.replace("edit", "a.py", [("b", "b1\nb2")], Seen(is_error=False))
    builder.replace("edit", "a.py", [("c", "d")], Seen(is_error=False))
    assert builder.states[2].lines is None


def test_a_failed_edit_stands_nowhere() -> None:
    builder = StateBuilder()
    builder.view("view", "a.py", Seen(text="a\nb\n"))
    builder.replace("edit", "a.py", [("b", "c")], Seen(text="ERROR:\nNo replacement was performed"))
    assert (builder.states[1].outcome, builder.states[1].lines) == ("error", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sed -i 's/a b/c/' f.py", (Edit(old="a b", new="c"),)),
        ("sed -i '12,14s|a|b|g' f.py", (Edit(old="a", new="b", anchor=Lines(start=12, end=14)),)),
        ("sed -i '3i\\    new' f.py", (Edit(old="", new="new", anchor=Lines(start=3, end=3)),)),
        ("sed -i '/import re/a import os' f.py", (Edit(old="", new="import os"),)),
        ("cat > f.py <<'E'\nx\nE", (Edit(old="", new="x\n"),)),
        ("echo hi > f.py", (Edit(old="", new="hi"),)),
        (
            "python - <<'E'\np='pkg/f.py'\nold = 'a\\nb'\n"
            "s=open(p).read().replace(old, 'c')\nopen(p,'w').write(s)\nE",
            (Edit(old="a\nb", new="c"),),
        ),
        (
            "sed -i 's/a/b/' f.py g.py",
            (Edit(old="a", new="b", path="f.py"), Edit(old="a", new="b", path="g.py")),
        ),
        ("sed -i '12s/a/b/' f.py", (Edit(old="a", new="b", anchor=Lines(start=12, end=12)),)),
        ("sed -i '4,6d' f.py", (Edit(old="", new="", anchor=Lines(start=4, end=6)),)),
        ("sed -i '/old/d' f.py", (Edit(old="old", new=""),)),
        # the text of an insertion may run over lines; substitutions are one a line
        ("sed -i '3i\\x\ny' f.py", (Edit(old="", new="x\ny", anchor=Lines(start=3, end=3)),)),
        ("sed -i 's/a/b/\ns/c/d/' f.py", (Edit(old="a", new="b"), Edit(old="c", new="d"))),
        (
            "python -c \"open('f.py', 'w').write('x'); s = re.sub('a', 'b', s)\"",
            (Edit(old="", new="x"), Edit(old="a", new="b")),
        ),
        ("python -c \"Path('f.py').write_text('x')\"", (Edit(old="", new="x"),)),
        ("python -c \"open('/tmp/f.py', 'w').write('x')\"", ()),
        ("node -e \"fs.writeFileSync('f.js', 'x')\"", ()),
        ("rm f.py", ()),
    ],
)
def test_a_shell_line_shows_its_edits(text: str, expected: tuple[Edit, ...]) -> None:
    assert edits_of(parse(text).strongest) == expected


def test_a_unified_diff_is_its_hunks() -> None:
    diff = "--- a/f.py\n+++ b/f.py\n@@ -10,4 +10,4 @@ def f():\n     a\n-    b\n+    c\n     d\n"
    assert patch_edits(diff) == (
        (Edit(old="    b", new="    c", anchor=Lines(start=11, end=11), path="f.py"),),
        "f",
    )


def test_a_patch_of_an_insertion_is_anchored_where_it_stands() -> None:
    ((edit,), _) = patch_edits("@@ -3,2 +3,3 @@\n x\n+y\n z\n")
    assert edit == Edit(old="", new="y", anchor=Lines(start=4, end=4))


def test_lines_of_one_hunk_stay_lines() -> None:
    ((edit,), _) = patch_edits("@@ -3,2 +3,2 @@\n-a\n-b\n+c\n+d\n")
    assert edit == Edit(old="a\nb", new="c\nd", anchor=Lines(start=3, end=4))
    # a patch that begins with a hunk's lines has no heading to look a scope up in
    assert patch_edits("-    a\n+    b\n") == ((Edit(old="    a", new="    b"),), None)


def test_a_patch_with_absolute_names_is_that_of_the_repository() -> None:
    patch = "*** Begin Patch\n*** Update File: /r/f.py\n@@\n-a\n+b\n*** End Patch"
    segment = parse(f"apply_patch <<'E'\n{patch}\nE", "lib", "/r").strongest
    assert [edit.path for edit in edits_of(segment, "lib", "/r")] == ["f.py"]


def test_an_agents_patch_without_numbers_has_edits_without_anchors() -> None:
    text = "*** Begin Patch\n*** Update File: f.py\n@@ def f():\n-    a\n+    b\n*** End Patch"
    assert patch_edits(text) == ((Edit(old="    a", new="    b", path="f.py"),), "f")


TWO_FILES = """*** Begin Patch
*** Update File: /testbed/src/a.py
@@ def f():
-x = 1
+x = 2
*** Update File: src/b.py
@@
-y = 1
+y = 3
*** End Patch"""


def test_each_hunk_of_a_patch_over_two_files_knows_its_file() -> None:
    builder = StateBuilder(root="/testbed")
    builder.patch("apply_patch", TWO_FILES, Seen(text="Success. Updated the following files"))
    builder.shell("bash", f"cd /testbed/src && apply_patch <<'E'\n{TWO_FILES}\nE", Seen())
    tool, line = (state.edits for state in builder.states)
    assert [(edit.path, edit.old) for edit in tool] == [("src/a.py", "x = 1"), ("src/b.py", "y = 1")]
    # in src/, the patch's relative name is that of src/src/b.py
    assert [edit.path for edit in line] == ["src/a.py", "src/src/b.py"]


def test_the_hunks_of_a_git_diff_know_their_files_and_a_removed_file_keeps_its_name() -> None:
    diff = (
        "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -3 +3 @@\n-x = 1\n+x = 2\n"
        "diff --git a/old.py b/old.py\ndeleted file mode 100644\n--- a/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
        "diff --git a/new.py b/new.py\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+come\n"
    )
    builder = StateBuilder()
    builder.shell("bash", f"git apply -p1 - <<'E'\n{diff}E", Seen())
    found = [(edit.path, edit.old, edit.new) for edit in builder.states[0].edits]
    assert found == [("src/a.py", "x = 1", "x = 2"), ("old.py", "gone", ""), ("new.py", "", "come")]


def test_a_scope_of_a_later_file_is_not_the_states() -> None:
    patch = (
        TWO_FILES.replace("@@ def f():", "@@")
        .replace("b.py\n@@", "b.py\n@@ def g():")
        .replace("y =", "    y =")
    )
    assert patch_edits(patch)[1] is None


def test_each_file_of_a_patch_is_looked_up_in_what_was_seen_of_it() -> None:
    builder = StateBuilder(root="/testbed")
    builder.view("view", "src/a.py", Seen(text="x = 1\n"))
    builder.view("view", "src/b.py", Seen(text="import a\nx = 1\ny = 1\n"))
    builder.shell("bash", f"apply_patch <<'E'\n{TWO_FILES}\nE", Seen())
    anchors = [edit.anchor for edit in builder.states[2].edits]
    assert anchors == [Lines(start=1, end=1), Lines(start=3, end=3)]
    assert builder.states[2].lines == Lines(start=1, end=1)
