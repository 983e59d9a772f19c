"""A unified diff becomes files with true line numbers, and says what it leaves out."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.core.artefact import Span
from workers.core.diff import MAX_LINE, looks_like_diff, parse_diff
from workers.core.slices import LeftOut, Removed
from workers.errors import SpecError

DIFF = """\
diff --git a/src/a.py b/src/a.py
index 1111111..2222222 100644
--- a/src/a.py
+++ b/src/a.py
@@ -3,4 +3,4 @@ def f():
 three
-four
+FOUR
 five
 six
@@ -20,2 +20,3 @@
 twenty
+new
 twenty-one
"""


def test_lines_keep_their_numbers_and_what_was_removed_is_kept_aside() -> None:
    diff = parse_diff(DIFF)
    assert diff.files["src/a.py"].splitlines()[2:6] == ["three", "FOUR", "five", "six"]
    assert diff.files["src/a.py"].splitlines()[19:] == ["twenty", "new", "twenty-one"]
    assert diff.files["src/a.py"].splitlines()[6:19] == [""] * 13
    assert diff.parts == {
        "src/a.py": (Span(path="src/a.py", start=3, end=6), Span(path="src/a.py", start=20, end=22))
    }
    assert diff.removed == {"src/a.py": (Removed(before=4, text="four"),)}
    assert diff.left_out == ()


LINES = st.lists(st.text(alphabet="ab -+@", max_size=4), max_size=15)


@given(LINES, LINES)
def test_any_change_is_read_back(before: list[str], after: list[str]) -> None:
    made = list(difflib.unified_diff(before, after, "a/x.txt", "b/x.txt", lineterm="", n=2))
    if not made:
        return
    diff = parse_diff("\n".join(made) + "\n")
    got = diff.files["x.txt"].splitlines()
    for part in diff.parts["x.txt"]:
        for number in range(part.start, part.end + 1):
            assert number > len(after) or got[number - 1] in {after[number - 1], ""}
    added = [line[1:] for line in made[2:] if line.startswith("+")]
    known = [got[n - 1] for part in diff.parts["x.txt"] for n in range(part.start, part.end + 1)]
    assert all(line in known for line in added)
    removed = [line for item in diff.removed.get("x.txt", ()) for line in item.text.split("\n")]
    assert removed == [line[1:] for line in made[2:] if line.startswith("-")]


@pytest.mark.parametrize(
    ("diff", "left_out"),
    [
        (
            "--- a/x.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
            LeftOut(path="x.py", reason="deleted by the change"),
        ),
        (
            "diff --git a/p.png b/p.png\nGIT binary patch\nliteral 3\nabc\n",
            LeftOut(path="p.png", reason="binary"),
        ),
        (
            'diff --git "a/h\\303\\244.png" "b/h\\303\\244.png"\nGIT binary patch\n',
            LeftOut(path="hä.png", reason="binary"),
        ),
        ("GIT binary patch\nliteral 3\n", LeftOut(path="(unnamed)", reason="binary")),
        ("diff --git a/x\nGIT binary patch\n", LeftOut(path="(unnamed)", reason="binary")),
        (
            "Binary files a/p.png and b/q/p.png differ\n",
            LeftOut(path="q/p.png", reason="binary"),
        ),
        ("Binary files p and q differ\n", LeftOut(path="q", reason="binary")),
        ("Binary files p and q\n", LeftOut(path="(unnamed)", reason="binary")),
        (
            f"diff --git a/x b/{'x' * 300}\nGIT binary patch\n",
            LeftOut(path="x" * 255, reason="binary"),
        ),
        (
            "rename from a\nrename to it's \\ b\ndiff --git a/c b/c\n",
            LeftOut(path="it's \\ b", reason="renamed without a change"),
        ),
        (
            "diff --git a/p.png b/p.png\nBinary files a/p.png and b/p.png differ\n",
            LeftOut(path="p.png", reason="binary"),
        ),
        (
            "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n",
            LeftOut(path="b", reason="renamed without a change"),
        ),
        (
            "--- a/x\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n",
            LeftOut(path="../x", reason="its path has an empty, '.' or '..' part"),
        ),
        (
            '--- /dev/null\n+++ "b/a\\n<spec>"\n@@ -0,0 +1 @@\n+x\n',
            LeftOut(path="a\\n<spec>", reason="its path holds control or invisible characters"),
        ),
        (
            f"--- a/x\n+++ b/x\n@@ -0,0 +{MAX_LINE} @@\n+x\n@@ -0,0 +{MAX_LINE + 1} @@\n+y\n",
            LeftOut(path="x", reason=f"the change at line {MAX_LINE + 1} lies below line {MAX_LINE}"),
        ),
    ],
)
def test_what_cannot_be_shown_is_named_with_its_reason(diff: str, left_out: LeftOut) -> None:
    assert parse_diff(diff).left_out == (left_out,)


def test_a_rename_with_a_change_is_a_change() -> None:
    diff = parse_diff(
        "diff --git a/a b/b\nrename from a\nrename to b\nindex 1..2\n--- a/a\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n"
    )
    assert (diff.left_out, diff.files) == ((), {"b": "y\n"})


@pytest.mark.parametrize(
    ("hunk", "line"),
    [
        ("@@ -1,2 +0,0 @@\n-a\n-b\n", 1),  # at the top there is no line above
        ("@@ -2,2 +1,0 @@\n-a\n-b\n", 1),
        ("@@ -8,2 +7,0 @@\n-a\n-b\n", 7),
    ],
)
def test_a_hunk_that_only_removes_is_shown_at_the_line_above(hunk: str, line: int) -> None:
    diff = parse_diff(f"--- a/x\n+++ b/x\n{hunk}")
    assert diff.parts == {"x": (Span(path="x", start=line, end=line),)}
    assert diff.files == {"x": "\n" * line}
    ((removed,),) = diff.removed.values()
    assert (removed.before, removed.text) == ({1: 1 if "+0,0" in hunk else 2, 7: 8}[line], "a\nb")


def test_a_sentence_shows_sixty_characters_of_a_line() -> None:
    line = "@@ " + "x" * 80
    with pytest.raises(SpecError) as refused:
        parse_diff(f"--- a/x\n+++ b/x\n{line}\n")
    assert str(refused.value).startswith(f"the diff, line 3: '@@ {'x' * 57}' does not read")


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("+++ b/x.py\t2026-01-01 00:00:00", "x.py"),
        ("+++ x.py", "x.py"),
        ("+++ a/x.py ", "x.py"),
        ("+++ c/x.py", "c/x.py"),
        ('+++ "b/x\\"', "x\\"),  # an escape without its letter is no escape
        ('+++ b/"', '"'),
        ('+++ "b/x', '"b/x'),
        ('+++ ""', "(unnamed)"),
        ("+++ b/x\r", "x"),
    ],
)
def test_a_name_is_read_without_its_time_and_side(line: str, path: str) -> None:
    diff = parse_diff(f"--- /dev/null\n{line}\n@@ -0,0 +1 @@\n+x\n")
    found = [*diff.files, *(item.path for item in diff.left_out)]
    assert found == [path]


def test_a_file_that_is_named_and_not_changed_is_empty() -> None:
    assert parse_diff("--- a/x\n+++ b/x").files == {"x": ""}
    assert parse_diff("--- a/x\n+++ b/x\n").files == {"x": ""}


def test_bytes_that_are_no_utf8_are_replaced_in_a_name() -> None:
    diff = parse_diff('--- /dev/null\n+++ "b/h\\344.py"\n@@ -0,0 +1 @@\n+x\n')
    assert diff.files == {"h\ufffd.py": "x\n"}


def test_a_last_line_without_a_break_is_a_line_and_a_note_of_it_is_none() -> None:
    note = "\\ No newline at end of file"
    diff = parse_diff(f"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n{note}\n+c\n{note}")
    assert (diff.files, diff.removed) == ({"x": "a\nc\n"}, {"x": (Removed(before=2, text="b"),)})


def test_an_empty_line_is_a_context_line_whose_blank_was_lost() -> None:
    diff = parse_diff("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n")
    assert diff.files == {"x": "a\n\nc\n"}
    assert parse_diff("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n\n").files == {"x": "a\n\n"}


def test_lines_that_end_as_on_windows_are_read() -> None:
    diff = parse_diff("--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n")
    assert (diff.files, diff.removed) == ({"x": "b\n"}, {"x": (Removed(before=1, text="a"),)})


def test_lines_that_only_look_like_a_header_are_passed_over() -> None:
    body = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    assert parse_diff(f"--- a remark\nsomething else\n{body}").files == {"x": "b\n"}
    assert parse_diff(f"x\n+++ b/y\n{body}").files == {"x": "b\n"}
    with pytest.raises(SpecError, match="changes no file"):
        parse_diff("--- a/x\n")
    with pytest.raises(SpecError, match="changes no file"):
        parse_diff("@@ -1 +1 @@\n-a\n+b\n")


def test_git_s_octal_escapes_are_names() -> None:
    diff = parse_diff('--- /dev/null\n+++ "b/h\\303\\244user.py"\n@@ -0,0 +1 @@\n+x\n')
    assert diff.files == {"häuser.py": "x\n"}


def test_a_line_with_a_form_feed_stays_one_line() -> None:
    diff = parse_diff("--- a/x\n+++ b/x\n@@ -1,0 +1,2 @@\n+a\x0cb\n+c\n")
    assert diff.files["x"].splitlines() == ["a b", "c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "the diff changes no file; give the output of `git diff` or `diff -u`"),
        (
            "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n",
            "the diff, line 3: '@@ -1,3 +1,3 @@' announces more lines than follow it",
        ),
        (
            "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n",
            "the diff, line 3: '@@ -1,2 +1,2 @@' announces more lines than follow it",
        ),
        (
            "--- a/x\n+++ b/x\n@@ -1 +0 @@\n-a\n+b\n",
            "the diff, line 3: '@@ -1 +0 @@' puts lines at line 0; lines count from 1",
        ),
        (
            "--- a/x\n+++ b/x\n@@ one @@\n",
            "the diff, line 3: '@@ one @@' does not read `@@ -line,count +line,count @@`",
        ),
        (
            "--- a/x\n+++ b/x\n@@@ -1 -1 +1 @@@\n",
            "the diff, line 3: '@@@ -1 -1 +1 @@@' is a combined diff of a merge; give the diff against one parent",
        ),
        (
            "--- a/x\n+++ b/x\n@@ -1 +5 @@\n-a\n+b\n@@ -9 +5 @@\n-c\n+d\n",
            "the diff, line 6: '@@ -9 +5 @@' changes lines of 'x' that an earlier hunk has",
        ),
    ],
)
def test_what_is_no_diff_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_diff(text)
    assert str(refused.value) == message


@given(st.text(alphabet="@-+ ,1234/ab\n", max_size=120))
def test_any_text_is_a_diff_or_a_sentence(text: str) -> None:
    try:
        diff = parse_diff("--- a/x\n+++ b/x\n" + text)
    except SpecError:
        return
    assert diff.files or diff.left_out
    for path, spans in diff.parts.items():
        assert all(1 <= span.start <= span.end <= len(diff.files[path].splitlines()) for span in spans)


def test_a_diff_is_told_from_a_program() -> None:
    assert looks_like_diff(DIFF)
    assert looks_like_diff("--- x\t2026\n+++ y\t2026\n@@ -1 +1 @@\n")
    assert not looks_like_diff("--- a comment\nSELECT 1;\n")
    assert looks_like_diff("From: me\nSubject: a patch\n\ndiff --git a/a b/a\n")
    assert not looks_like_diff("  diff --git a/a b/a\n")
    head = "diff --git "
    assert looks_like_diff("\n" * (20_000 - len(head)) + head)
    assert not looks_like_diff("\n" * (20_001 - len(head)) + head), "only the beginning is looked at"
