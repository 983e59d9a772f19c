"""Shell lines: the lexer, the table and the `Command` they make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agentlens.shell import STRENGTH, Command, Group, parse, parse_python
from workers.agentlens.shell.lexer import split, unquote


def words(text: str) -> list[list[str]]:
    return [simple.words for simple in split(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "cd a && grep -n 'x y' b.py | head -3",
            [["cd", "a"], ["grep", "-n", "x y", "b.py"], ["head", "-3"]],
        ),
        ("a; b || c & d", [["a"], ["b"], ["c"], ["d"]]),
        ("echo foo#bar # a comment\nls", [["echo", "foo#bar"], ["ls"]]),
        ('echo "a \\"b\\" $(d \'e)\') f" \\; g\\ h', [["echo", "a \"b\" $(d 'e)') f", ";", "g h"]]),
        ("(cd a; ls)", [["cd", "a"], ["ls"]]),
        ("echo 'never closed", [["echo", "never closed"]]),
        ("a \\\n b", [["a", "b"]]),
        ("diff <(ls a) <(ls b)", [["diff", "<(ls a)", "<(ls b)"]]),
        ("head -2 f 2>&1", [["head", "-2", "f"]]),
    ],
)
def test_a_line_splits_where_a_shell_splits_it(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


def test_a_here_document_is_a_body_and_not_commands() -> None:
    simple, after = split("cat <<'EOF' > f.py\nrm -rf x; y | z\nEOF\npython f.py")
    assert (simple.words, simple.redirects, simple.heredocs) == (
        ["cat"],
        [(">", "f.py")],
        ["rm -rf x; y | z\n"],
    )
    assert after.words == ["python", "f.py"]


def test_a_here_document_with_a_dash_ends_at_an_indented_delimiter() -> None:
    assert split("cat <<-END\n\tx\n\tEND\nls")[0].heredocs == ["\tx\n"]


def test_an_open_here_document_runs_to_the_end() -> None:
    assert split("cat <<EOF\nx\ny")[0].heredocs == ["x\ny"]


@given(st.text(alphabet="ab'\"\\ $(){}`<>|&;\n#0=-", max_size=60))
def test_every_text_has_exactly_one_command(text: str) -> None:
    command = parse.__wrapped__(text)
    assert command.segments
    assert command.strongest in command.segments
    assert all(STRENGTH[segment.group] <= STRENGTH[command.kind] for segment in command.segments)


@given(st.text(max_size=40))
def test_unquoting_a_word_without_quotes_changes_nothing(word: str) -> None:
    plain = word.replace("'", "").replace('"', "").replace("\\", "")
    assert unquote(plain) == plain


W, T, X, R, S, E, N = (
    Group.WRITE, Group.TEST, Group.EXECUTE, Group.READ, Group.SEARCH, Group.ENVIRONMENT, Group.NOTHING,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind", "program"),
    [
        ("grep -rn pytest setup.cfg", S, "grep"),
        ("cat tox.ini", R, "cat"),
        ("find . -name '*.py' 2>/dev/null", S, "find"),
        ("ls 2>&1", S, "ls"),
        ("bin/test sympy/core", T, "test"),
        ("python bin/test sympy/core", T, "python"),
        ("./tests/runtests.py utils", T, "runtests.py"),
        ("python -m pytest -q tests", T, "pytest"),
        ("/usr/bin/python3.11 -m unittest", T, "unittest"),
        ("npm run test:unit", T, "npm run"),
        ("pnpm --filter=x typecheck", T, "pnpm run"),
        ("make check", T, "make check"),
        ("make", X, "make"),
        ("cargo build", X, "cargo build"),
        ("go vet ./...", T, "go vet"),
        ("poetry run pytest", T, "pytest"),
        ("timeout 60 env A=1 mypy src", T, "mypy"),
        ("bash -lc 'cd a && pytest -q'", T, "pytest"),
        ('python -c "print(1)"', X, "python -c"),
        ("python x.py", X, "python"),
        ("python --version", E, "python"),
        ("rm a.py b.py", W, "rm"),
        ("sed -i 's/a/b/' src/x.py", W, "sed -i"),
        ("sed -n '1,5p' src/x.py", R, "sed"),
        ("echo hi", N, "echo"),
        ("echo hi > src/a.py", W, "echo"),
        ("pytest > /tmp/log 2>&1; tail /tmp/log", T, "pytest"),
        ("python x.py | tee out.log", X, "python"),
        ("git diff HEAD~1", R, "git diff"),
        ("git checkout -- a/b.py", W, "git checkout"),
        ("git checkout main", E, "git checkout"),
        ("git reset --hard", W, "git reset"),
        ("git stash && python x.py", X, "python"),
        ("git apply --check p.diff", R, "git apply"),
        ("black --check src", T, "black"),
        ("black src", W, "black"),
        ("pip install -e .", E, "pip"),
        ("cd /testbed", N, "cd"),
        ("frobnicate x", E, "frobnicate"),
        ("if [ -f x ]; then cat x; fi", R, "cat"),
        ("find . -name '*.pyc' -delete", W, "find -delete"),
        ("find . -name '*.py' -exec grep -l foo {} \\;", S, "grep"),
        ("", N, ""),
    ],
)
def test_the_strongest_segment_names_the_kind(text: str, kind: Group, program: str) -> None:
    command = parse(text)
    assert (command.kind, command.program) == (kind, program)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("sed -n '10,20p' f", (10, 20)),
        ("sed -n 5p f", (5, 5)),
        ("head -20 f", (1, 20)),
        ("head -n 20 f", (1, 20)),
        ("cat f | head -5", (1, 5)),
        # 200 lines from the top, of these from the 180th on
        ("head -200 f | tail -n +180", (180, 200)),
        ("head -200 f | tail -21", (180, 200)),
        ("nl -ba f | sed -n '10,20p'", (10, 20)),
        ("awk 'NR>=3 && NR<=7' f", (3, 7)),
        ("cat f", None),
        ("tail -5 f", (-5, -1)),
    ],
)
def test_a_reader_knows_its_lines(text: str, lines: tuple[int, int] | None) -> None:
    command = parse(text)
    assert (command.strongest.lines, command.reads) == (lines, ("f",))


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("find . 2>/dev/null", ()),
        ("ls > /dev/null 2>&1", ()),
        ("cp a.py b.py", ("b.py",)),
        ("mv a.py b.py", ("a.py", "b.py")),
        (
            "apply_patch <<'E'\n*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** End Patch\nE",
            ("src/a.py",),
        ),
        ("git apply <<'E'\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x\n+y\nE", ("src/a.py",)),
        ("python -c \"open('src/a.py','w').write('x')\"", ("src/a.py",)),
        ("python - <<'E'\np = Path('src/b.py')\ns = p.read_text()\np.write_text(s)\nE", ("src/b.py",)),
        ("python - <<'E'\nf='src/c.py'\nwith open(f, 'w') as out:\n    out.write('')\nE", ("src/c.py",)),
        ("grep -rl foo src | xargs sed -i s/a/b/", ("src",)),
        ("cat > /testbed/x/y.py <<E\n1\nE", ("x/y.py",)),
    ],
)
def test_writes_are_the_files_that_change(text: str, writes: tuple[str, ...]) -> None:
    assert parse(text).writes == writes


def test_a_change_of_folder_moves_what_follows() -> None:
    command = parse("cd /testbed/lib && cat x.py ../y.py")
    assert (command.reads, command.directory) == (("lib/x.py", "y.py"), "lib")
    assert parse("cat x.py", "lib").reads == ("lib/x.py",)


def test_flags_are_normalised() -> None:
    assert parse("grep -rn x f").flags == parse("grep -n -r x f").flags == ("-n", "-r")
    assert parse("grep -A 3 x f").flags == ("-A=3",)
    assert parse("grep -v -inA 3 x f").flags == ("-A=3", "-i", "-n", "-v")
    # a flag that asks for a value and has none is a flag
    assert parse("grep -nA").flags == ("-A", "-n")


def test_the_normal_text_forgets_what_does_not_matter() -> None:
    assert (
        parse('cd /testbed && A=1 timeout 5 grep -n "x" ./f.py | head -3').normal
        == parse("grep -n 'x' f.py").normal
    )


def test_a_range_is_the_same_however_it_is_asked_for() -> None:
    assert parse("head -n 5 a").normal == parse("head -5 a").normal == "head a 1,5"
    assert parse("sed -n '3,4p' a").normal == "sed a 3,4"
    assert parse("cd a > /dev/null && ls", "lib").normal == "ls lib/a"


def different(left: str, right: str) -> bool:
    one, two = parse(left), parse(right)
    return one.normal != two.normal and one.target != two.target


def test_different_targets_stay_different() -> None:
    assert different("cat a", "cat b")
    assert different("grep foo f", "grep bar f")
    assert different("ls src", "ls tests")
    assert parse("sed -n '1,5p' f").normal != parse("sed -n '90,95p' f").normal


def test_a_notebook_cell_is_a_script_or_a_shell_line() -> None:
    assert parse_python("print(1)").kind is Group.EXECUTE
    assert parse_python("!pip install x").kind is Group.ENVIRONMENT
    assert parse_python("open('src/a.py', 'w').write('')").writes == ("src/a.py",)


def test_a_line_of_a_megabyte_is_read_in_time() -> None:
    command = parse.__wrapped__("echo " + "$(" * 200_000)
    assert isinstance(command, Command)
