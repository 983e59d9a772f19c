"""Lines of several commands, in the folder `lib` of a repository at `/r`: pipes, redirections, here-documents,
wrappers and scripts inside, each with its segments and its normal text."""

from __future__ import annotations

import pytest

from tests.unit.agentlens.test_segments import told
from workers.agentlens.shell import Group, parse, parse_python
from workers.agentlens.shell.inline import patched_file, runs_checks
from workers.agentlens.shell.lexer import split, unquote

LINES = [
    (
        "sudo -u root -- rm a",
        ["rm | write | args: lib/a | writes: lib/a | target: lib/a"],
        "rm lib/a > lib/a",
    ),
    ("timeout -s KILL 60 pytest a", ["pytest | test | args: a | target: a"], "pytest a"),
    ("xargs -n 1 rm", ["rm | write"], "rm"),
    ("poetry run -v pytest a", ["pytest | test | args: a | target: a"], "pytest a"),
    (
        "coverage run x.py a",
        ["python | execute | args: lib/x.py, a | target: lib/x.py a"],
        "python lib/x.py a",
    ),
    ("A=1 B=2 make", ["make | execute"], "make"),
    (
        "cd $HOME && ls",
        ["cd | nothing | args: $HOME", "ls | search | args: lib | reads: lib | target: lib"],
        "ls lib",
    ),
    ("cd && ls", ["cd | nothing", "ls | search | args: lib | reads: lib | target: lib"], "ls lib"),
    (
        "bash -c 'ls a' && cat b",
        [
            "ls | search | args: lib/a | reads: lib/a | target: lib/a",
            "cat | read | args: lib/b | reads: lib/b | target: lib/b",
        ],
        "ls lib/a\ncat lib/b",
    ),
    (
        "bash -lc 'cd a && cat x'; cat y",
        [
            "cd | nothing | args: a",
            "cat | read | args: lib/a/x | reads: lib/a/x | target: lib/a/x",
            "cat | read | args: lib/y | reads: lib/y | target: lib/y",
        ],
        "cat lib/a/x\ncat lib/y",
    ),
    ("ls src | xargs rm", ["rm | write | writes: lib/src | target: lib/src"], "rm > lib/src"),
    (
        "grep -rl foo a b | xargs sed -i s/x/y/",
        [
            "sed -i | write | args: s/x/y/ | flags: -i | writes: lib/a, lib/b | target: lib/a lib/b | body: s/x/y/"
        ],
        "sed -i -i s/x/y/ > lib/a lib/b s/x/y/",
    ),
    (
        "cat f | grep foo",
        ["grep | search | args: foo | reads: lib/f | target: foo in lib/f | pattern: foo"],
        "grep foo",
    ),
    (
        "cat a b | grep -n foo",
        [
            "grep | search | args: foo | flags: -n | reads: lib/a, lib/b | target: foo in lib/a lib/b | pattern: foo"
        ],
        "grep -n foo",
    ),
    (
        "ls | grep foo",
        [
            "ls | search | args: lib | reads: lib | target: lib",
            "grep | search | args: foo | target: foo | pattern: foo",
        ],
        "ls lib\n| grep foo",
    ),
    (
        "rm x | grep y",
        [
            "rm | write | args: lib/x | writes: lib/x | target: lib/x",
            "grep | search | args: y | target: y | pattern: y",
        ],
        "rm lib/x > lib/x\n| grep y",
    ),
    (
        "ls | xargs rm b",
        [
            "ls | search | args: lib | reads: lib | target: lib",
            "rm | write | args: lib/b | writes: lib/b | target: lib/b",
        ],
        "ls lib\n| rm lib/b > lib/b",
    ),
    ("cat a | wc -l", ["cat | read | args: lib/a | reads: lib/a | target: lib/a"], "cat lib/a"),
    ("cat a | less", ["cat | read | args: lib/a | reads: lib/a | target: lib/a"], "cat lib/a"),
    (
        "cat a | sort",
        ["cat | read | args: lib/a | reads: lib/a | target: lib/a", "sort | environment"],
        "cat lib/a\n| sort",
    ),
    (
        "nl a.py | sed -n '2,4p'",
        ["nl | read | args: lib/a.py | reads: lib/a.py | target: lib/a.py | lines: 2, 4"],
        "nl lib/a.py",
    ),
    (
        "cat a | head -5 | tail -2",
        ["cat | read | args: lib/a | reads: lib/a | target: lib/a | lines: 4, 5"],
        "cat lib/a",
    ),
    ("git diff | head -3", ["git diff | read"], "git diff"),
    (
        "echo x | grep y",
        ["echo | nothing | args: x", "grep | search | args: y | target: y | pattern: y"],
        "echo x\n| grep y",
    ),
    ("find . | xargs wc -l", ["find | search | args: lib | reads: lib | target: lib"], "find lib"),
    ("cat < a.py", ["cat | read | reads: lib/a.py"], "cat"),
    ("cat x.py < a.py", ["cat | read | args: lib/x.py | reads: lib/x.py | target: lib/x.py"], "cat lib/x.py"),
    (
        "python x.py < in.txt",
        ["python | execute | args: lib/x.py | reads: lib/in.txt | target: lib/x.py"],
        "python lib/x.py",
    ),
    (
        "patch -p1 < fix.patch",
        ["patch | write | flags: -p1 | reads: lib/fix.patch | writes: lib"],
        "patch -p1 > lib",
    ),
    (
        "printf x > a.py",
        ["printf | write | args: x | writes: lib/a.py | target: lib/a.py | body: x"],
        "printf x > lib/a.py x",
    ),
    (
        "echo a b > a.py",
        ["echo | write | args: a, b | writes: lib/a.py | target: lib/a.py | body: a b"],
        "echo a b > lib/a.py a b",
    ),
    (
        "cat a > b.py",
        ["cat | write | args: lib/a | reads: lib/a | writes: lib/b.py | target: lib/b.py"],
        "cat lib/a > lib/b.py",
    ),
    (
        "cat <<'E' > a.py\nx\nE",
        ["cat | write | writes: lib/a.py | target: lib/a.py | body: x\n"],
        "cat > lib/a.py x\n",
    ),
    ("echo hi >&2", ["echo | nothing | args: hi"], "echo hi"),
    (
        "ls 2>&1 > x.py",
        ["ls | write | args: lib | reads: lib | writes: lib/x.py | target: lib/x.py"],
        "ls lib > lib/x.py",
    ),
    ("ls &> /dev/null", ["ls | search | args: lib | reads: lib | target: lib"], "ls lib"),
    ("echo x 1>&-", ["echo | nothing | args: x"], "echo x"),
    ("> a.py", [" | write | writes: lib/a.py | target: lib/a.py"], " > lib/a.py"),
    (
        "git diff > p.diff",
        ["git diff | write | writes: lib/p.diff | target: lib/p.diff"],
        "git diff > lib/p.diff",
    ),
    (
        "echo x | tee a.py",
        ["tee | write | args: lib/a.py | writes: lib/a.py | target: lib/a.py | body: x"],
        "tee lib/a.py > lib/a.py x",
    ),
    (
        "cat <<E | tee a.py\nx\nE",
        ["tee | write | args: lib/a.py | writes: lib/a.py | target: lib/a.py | body: x\n"],
        "tee lib/a.py > lib/a.py x\n",
    ),
    ("cat <<< 'x y'", ["cat | read | body: x y"], "cat x y"),
    (
        "cat <<E\n\tE\nE\nls",
        ["cat | read | body: \tE\n", "ls | search | args: lib | reads: lib | target: lib"],
        "cat \tE\n\nls lib",
    ),
    (
        "cat <<-E\n  E\n\tE\nls",
        ["cat | read | body:   E\n", "ls | search | args: lib | reads: lib | target: lib"],
        "cat   E\n\nls lib",
    ),
    (
        "cat <<E\r\nx\r\nE\r\nls",
        ["cat | read | body: x\r\n", "ls | search | args: lib | reads: lib | target: lib"],
        "cat x\r\n\nls lib",
    ),
    (
        "if true; then ls; else cat a; fi",
        [
            "true | nothing",
            "ls | search | args: lib | reads: lib | target: lib",
            "cat | read | args: lib/a | reads: lib/a | target: lib/a",
        ],
        "true\nls lib\ncat lib/a",
    ),
    (
        "for x in a b; do cat $x; done",
        ["cat | read | args: lib/$x | reads: lib/$x | target: lib/$x"],
        "cat lib/$x",
    ),
    ("a=1", [" | nothing"], ""),
    ("{ ls; }", ["ls | search | args: lib | reads: lib | target: lib"], "ls lib"),
    (
        "cat a # b\ncat c",
        [
            "cat | read | args: lib/a | reads: lib/a | target: lib/a",
            "cat | read | args: lib/c | reads: lib/c | target: lib/c",
        ],
        "cat lib/a\ncat lib/c",
    ),
    (
        "cat a;;cat b",
        [
            "cat | read | args: lib/a | reads: lib/a | target: lib/a",
            "cat | read | args: lib/b | reads: lib/b | target: lib/b",
        ],
        "cat lib/a\ncat lib/b",
    ),
    (
        "cat a & cat b",
        [
            "cat | read | args: lib/a | reads: lib/a | target: lib/a",
            "cat | read | args: lib/b | reads: lib/b | target: lib/b",
        ],
        "cat lib/a\ncat lib/b",
    ),
    (
        "patch <<'E'\n--- x.py\n+++ y.py\nE",
        [
            "patch | write | writes: lib/x.py, lib/y.py | target: lib/x.py lib/y.py | body: --- x.py\n+++ y.py\n"
        ],
        "patch > lib/x.py lib/y.py --- x.py\n+++ y.py\n",
    ),
    (
        "python -c \"open('x.py', 'w')\"",
        ["python -c | write | writes: lib/x.py | target: lib/x.py | body: open('x.py', 'w')"],
        "python -c > lib/x.py open('x.py', 'w')",
    ),
    (
        "python -c \"open('/r/x.py', mode='a')\"",
        ["python -c | write | writes: x.py | target: x.py | body: open('/r/x.py', mode='a')"],
        "python -c > x.py open('/r/x.py', mode='a')",
    ),
    (
        "python -c \"p = Path('y.py'); p.unlink()\"",
        ["python -c | write | writes: lib/y.py | target: lib/y.py | body: p = Path('y.py'); p.unlink()"],
        "python -c > lib/y.py p = Path('y.py'); p.unlink()",
    ),
    (
        "python -c \"import os; os.remove('z.py')\"",
        ["python -c | write | writes: lib/z.py | target: lib/z.py | body: import os; os.remove('z.py')"],
        "python -c > lib/z.py import os; os.remove('z.py')",
    ),
    (
        "python -c \"open('x.py').read()\"",
        ["python -c | execute | body: open('x.py').read()"],
        "python -c open('x.py').read()",
    ),
]


@pytest.mark.parametrize(("line", "segments", "normal"), LINES)
def test_a_line_is_its_segments_and_its_normal_text(line: str, segments: list[str], normal: str) -> None:
    command = parse(line, "lib", "/r")
    assert ([told(segment) for segment in command.segments], command.normal) == (segments, normal)
    assert (command.text, command.directory) == (line, "lib")


@pytest.mark.parametrize(
    ("line", "directory"),
    [
        ("cd a > /dev/null && ls", "lib/a"),
        ("pushd a; cat x", "lib/a"),
        ("cd -P ../b", "b"),
        ("cd /r && ls", ""),
        ("cd $HOME", "lib"),
        ("cd", "lib"),
        ("bash -c 'cd a'", "lib"),
    ],
)
def test_a_line_ends_in_the_folder_that_it_changed_to(line: str, directory: str) -> None:
    assert parse(line, "lib", "/r").directory == directory


def test_a_cell_runs_in_the_folder_of_the_repository_that_it_is_given() -> None:
    shown = parse_python("!cat /r/a.py b.py", "lib", "/r")
    assert shown.reads == ("a.py", "lib/b.py")
    assert parse_python("%%bash\ncat /r/a.py", "lib", "/r").reads == ("a.py",)
    script = "open('/r/a.py', 'w'); open('b.py', 'w')"
    cell = parse_python(script, "lib", "/r")
    assert (cell.writes, cell.text, cell.normal) == (("a.py", "lib/b.py"), script, "python -c " + script)
    assert (cell.kind, cell.directory) == (Group.WRITE, "lib")


def test_a_patch_writes_the_files_that_it_names_in_the_folder_where_it_is_applied() -> None:
    told_by_agent = "*** Add File: n.py\n+x\n*** Update File: /r/a.py\n*** Move to: b.py"
    line = f"apply_patch <<'E'\n*** Begin Patch\n{told_by_agent}\n*** End Patch\nE"
    assert parse(line, "lib", "/r").writes == ("lib/n.py", "a.py", "lib/b.py")
    removed = "git apply <<'E'\n--- a/x.py\n+++ /dev/null\n@@\nE"
    assert parse(removed, "lib", "/r").writes == ("lib/x.py",)
    absolute = "patch <<'E'\n--- /r/x.py\n+++ /r/x.py\nE"
    assert parse(absolute, "lib", "/r").writes == ("x.py",)


@pytest.mark.parametrize(
    ("before", "line", "file"),
    [
        ("", "*** Update File: a.py", "a.py"),
        ("", "*** Add File: b.py ", "b.py"),
        ("--- a/x.py", "+++ b/y.py", "y.py"),
        ("--- a/x.py", "+++ /dev/null", "x.py"),
        ("--- /dev/null", "+++ b/y.py", "y.py"),
        ("+ x", "+++ b/y.py", None),
        ("--- a/x.py", "+ y", None),
    ],
)
def test_a_patch_names_a_file_where_it_begins(before: str, line: str, file: str | None) -> None:
    assert patched_file(before, line) == file


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("import pytest; pytest.main()", True),
        ("unittest.main()", True),
        ("call_command('test')", True),
        ("doctest.testmod()", True),
        ("print('pytest')", False),
    ],
)
def test_a_script_that_runs_tests_is_a_check(script: str, expected: bool) -> None:
    assert runs_checks(script) is expected


@pytest.mark.parametrize(
    ("word", "plain"),
    [
        ("a", "a"),
        ("'a b'", "a b"),
        ("''", ""),
        ("'", ""),
        ("'a", "a"),
        ("a\\", "a"),
        ("\\\\", "\\"),
        ('"a\\\nb"', "ab"),
        ('"\\$x \\y"', "$x \\y"),
        ("a'b'\"c\"\\d", "abcd"),
    ],
)
def test_a_word_is_what_the_program_sees(word: str, plain: str) -> None:
    assert unquote(word) == plain


def test_a_here_document_keeps_its_text_and_ends_at_its_own_word() -> None:
    assert split("cat <<< 'x y'")[0].heredocs == ["x y"]
    assert split("cat <<E\r\nx\r\nE\r\nls")[0].heredocs == ["x\r\n"]
    assert split("cat <<E\n\tE\nE\nls")[0].heredocs == ["\tE\n"]
    assert split("cat <<-E\n  E\n\tE\nls")[0].heredocs == ["  E\n"]
    assert [simple.words for simple in split("cat # a\nls")] == [["cat"], ["ls"]]
