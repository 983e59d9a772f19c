"""What each kind of shell line is read as: every field of its segments, one line a command."""

from __future__ import annotations

import dataclasses

import pytest

from workers.agentlens.shell import Segment, parse

_SHORT = {"arguments": "args"}
_FIELDS = [field.name for field in dataclasses.fields(Segment) if field.name not in ("program", "group")]


def told(segment: Segment) -> str:
    """A segment in one line: program, group, and what else it holds."""
    parts = [segment.program, segment.group.name.lower()]
    for name in _FIELDS:
        value = getattr(segment, name)
        if value not in (None, ()):
            shown = ", ".join(map(str, value)) if isinstance(value, tuple) else value
            parts.append(f"{_SHORT.get(name, name)}: {shown}")
    return " | ".join(parts)


# A tuple with one empty path, the repository's root, shows as nothing behind its name.
LOOKS = [
    (
        "grep -rnA 3 -- -x a b",
        "grep | search | args: -x, a, b | flags: -A=3, -n, -r | reads: a, b | target: -x in a b | pattern: -x",
    ),
    (
        "grep -rn 'foo' src ./lib",
        "grep | search | args: foo, src, lib | flags: -n, -r | reads: src, lib | target: foo in src lib | pattern: foo",
    ),
    ("head -n 5 a.py", "head | read | args: a.py | flags: -n=5 | reads: a.py | target: a.py | lines: 1, 5"),
    (
        "ls -la src ./docs",
        "ls | search | args: src, docs | flags: -a, -l | reads: src, docs | target: src docs",
    ),
    ("ls", "ls | search | args: . | reads:  | target: ."),
    (
        "cat a.py ../b.py",
        "cat | read | args: a.py, ext:../b.py | reads: a.py, ext:../b.py | target: a.py ext:../b.py",
    ),
    ("cat <<'E'\nx\nE", "cat | read | body: x\n"),
    (
        "sed -i 's/a/b/' x.py y.py",
        "sed -i | write | args: s/a/b/, x.py, y.py | flags: -i | writes: x.py, y.py | target: x.py y.py | body: s/a/b/",
    ),
    (
        "sed -n '10,20p' src/x.py",
        "sed | read | args: 10,20p, src/x.py | flags: -n | reads: src/x.py | target: src/x.py | lines: 10, 20",
    ),
    (
        "tail -n +5 f.py",
        "tail | read | args: f.py | flags: -n=+5 | reads: f.py | target: f.py | lines: 5, 1000000000",
    ),
    (
        "find src -name '*.py' -type f",
        "find | search | args: src, -name, *.py, -type, f | reads: src | target: *.py in src | pattern: *.py",
    ),
    (
        "find . -path ./x -o -name y",
        "find | search | args: ., -path, ./x, -o, -name, y | reads:  | target: ./x|y in . | pattern: ./x|y",
    ),
    (
        "rg -n -g '*.py' foo src",
        "rg | search | args: foo, src | flags: -g=*.py, -n | reads: src | target: foo in src | pattern: foo",
    ),
    ("xargs grep foo", "grep | search | args: foo | target: foo | pattern: foo"),
    (
        "find . -name '*.py' | xargs grep -n foo",
        "grep | search | args: foo | flags: -n | reads:  | target: foo in . | pattern: foo",
    ),
    ("diff a.py b.py", "diff | read | args: a.py, b.py | reads: a.py, b.py | target: a.py b.py"),
    ("nl -ba a.py", "nl | read | args: a.py | flags: -a, -b | reads: a.py | target: a.py"),
    ("head -c 5 a.py", "head | read | args: a.py | flags: -c=5 | reads: a.py | target: a.py"),
    (
        "head --lines=7 a.py",
        "head | read | args: a.py | flags: --lines=7 | reads: a.py | target: a.py | lines: 1, 7",
    ),
    ("tail +5 a.py", "tail | read | args: a.py | reads: a.py | target: a.py | lines: 5, 1000000000"),
    ("tail a.py", "tail | read | args: a.py | reads: a.py | target: a.py | lines: -10, -1"),
    ("tail --bytes=3 a.py", "tail | read | args: a.py | flags: --bytes=3 | reads: a.py | target: a.py"),
    (
        "sed -n '3p;7,9p' a.py",
        "sed | read | args: 3p;7,9p, a.py | flags: -n | reads: a.py | target: a.py | lines: 3, 9",
    ),
    (
        "sed -n '3,$p' a.py",
        "sed | read | args: 3,$p, a.py | flags: -n | reads: a.py | target: a.py | lines: 3, 1000000000",
    ),
    (
        "sed -n '3,+4p' a.py",
        "sed | read | args: 3,+4p, a.py | flags: -n | reads: a.py | target: a.py | lines: 3, 7",
    ),
    ("sed 's/a/b/' a.py", "sed | read | args: s/a/b/, a.py | reads: a.py | target: a.py"),
    (
        "sed -n -e '2p' -e '9p' a.py",
        "sed | read | args: 2p\n9p, a.py | flags: -e=2p, -e=9p, -n | reads: a.py | target: a.py | lines: 2, 9",
    ),
    (
        "sed --in-place 's/a/b/' a.py",
        "sed -i | write | args: s/a/b/, a.py | flags: --in-place | writes: a.py | target: a.py | body: s/a/b/",
    ),
    (
        "awk 'NR==3,NR==7' a.py",
        "awk | read | args: NR==3,NR==7, a.py | reads: a.py | target: a.py | lines: 3, 7",
    ),
    (
        "awk 'NR>3 && NR<7' a.py",
        "awk | read | args: NR>3 && NR<7, a.py | reads: a.py | target: a.py | lines: 3, 7",
    ),
    ("awk '{print $1}' a.py", "awk | read | args: {print $1}, a.py | reads: a.py | target: a.py"),
    (
        "awk -i inplace '{print}' a.py",
        "awk | write | args: {print}, a.py | flags: -i=inplace | writes: a.py | target: a.py",
    ),
    ("grep foo", "grep | search | args: foo | target: foo | pattern: foo"),
    (
        "grep -e a -e b f",
        "grep | search | args: a|b, f | flags: -e=a, -e=b | reads: f | target: a|b in f | pattern: a|b",
    ),
    ("rg foo", "rg | search | args: foo, . | reads:  | target: foo in . | pattern: foo"),
    ("grep -R foo", "grep | search | args: foo, . | flags: -R | reads:  | target: foo in . | pattern: foo"),
    ("find a b -name '*.py' -exec sed -i s/a/b/ {} +", "find sed -i | write | writes: a, b | target: a b"),
    (
        "find . -iname x -o -regex y",
        "find | search | args: ., -iname, x, -o, -regex, y | reads:  | target: x|y in . | pattern: x|y",
    ),
    ("find . -exec wc -l {} +", "wc | read | args: . | flags: -l | reads:  | target: ."),
    ("find . ! -name x", "find | search | args: ., !, -name, x | reads:  | target: x in . | pattern: x"),
    ("find . -delete", "find -delete | write | writes:  | target: ."),
    ("ls ..", "ls | search | args: ext:.. | reads: ext:.. | target: ext:.."),
    (
        "find . -name x -exec grep -n foo {} +",
        "grep | search | args: foo, . | flags: -n | reads:  | target: foo in . | pattern: foo",
    ),
    (
        "find src -name '*.py' -exec cat {} +",
        "cat | read | args: src | reads: src | target: *.py in src | pattern: *.py",
    ),
    (
        "awk -v n=3 '{print n}' a.py",
        "awk | read | args: {print n}, a.py | flags: -v=n=3 | reads: a.py | target: a.py",
    ),
    ("cat src/*.py", "cat | read | args: src/*.py | reads: src/*.py | target: src/*.py"),
    ("sed -n '$p' a.py", "sed | read | args: $p, a.py | flags: -n | reads: a.py | target: a.py"),
    ("cat < a.py", "cat | read | reads: a.py"),
    ("cat > a.py < b.py", "cat | write | writes: a.py | target: a.py"),
    ("find . -execdir sed -i x {} +", "find sed -i | write | writes:  | target: ."),
    ("find . -ok rm {} ;", "find rm | write | writes:  | target: ."),
    ("find -name x", "find | search | args: ., -name, x | reads:  | target: x in . | pattern: x"),
]
GIT = [
    (
        "git grep -n foo src",
        "git grep | search | args: foo, src | flags: -n | reads: src | target: foo in src | pattern: foo",
    ),
    (
        "git diff HEAD~1 -- src/a.py",
        "git diff | read | args: HEAD~1, src/a.py | reads: src/a.py | target: src/a.py",
    ),
    (
        "git log --oneline -5 src/a.py",
        "git log | read | args: src/a.py | flags: --oneline, -5 | reads: src/a.py | target: src/a.py",
    ),
    ("git show HEAD:src/a.py", "git show | read | args: HEAD:src/a.py | reads: src/a.py | target: src/a.py"),
    ("git show abc123", "git show | read | args: abc123 | target: abc123"),
    (
        "git blame -L 3,9 src/a.py",
        "git blame | read | args: src/a.py | flags: -L=3,9 | reads: src/a.py | target: src/a.py",
    ),
    (
        "git checkout main -- src/a.py",
        "git checkout | write | args: main, src/a.py | writes: src/a.py | target: src/a.py",
    ),
    ("git restore src/a.py", "git restore | write | args: src/a.py | writes: src/a.py | target: src/a.py"),
    ("git stash", "git stash | environment"),
    ("git reset --hard", "git reset | write | flags: --hard | writes:  | target: ."),
    ("git apply p.diff", "git apply | write | args: p.diff | writes: "),
    ("git rm src/a.py", "git rm | write | args: src/a.py | writes: src/a.py | target: src/a.py"),
    ("git mv a.py b.py", "git mv | write | args: a.py, b.py | writes: a.py, b.py | target: a.py b.py"),
    ("git add -A", "git add | environment | flags: -A"),
    ("git clean -fd", "git clean | write | flags: -d, -f | writes:  | target: ."),
    ("git", "git | read"),
    ("git --no-pager diff", "git diff | read"),
    ("git -C lib -c a=b --git-dir=x log", "git log | read"),
    ("git --git-dir x status", "git status | read"),
    (
        "git diff main..dev src/a.py",
        "git diff | read | args: main..dev, src/a.py | reads: src/a.py | target: src/a.py",
    ),
    ("git diff ../a.py", "git diff | read | args: ../a.py | reads: ext:../a.py | target: ext:../a.py"),
    (
        "git log HEAD~3.. --oneline src/a.py",
        "git log | read | args: HEAD~3.., src/a.py | flags: --oneline | reads: src/a.py | target: src/a.py",
    ),
    (
        "git diff origin/m HEAD.x stash@{0}.y refs/a a.py",
        "git diff | read | args: origin/m, HEAD.x, stash@{0}.y, refs/a, a.py | reads: a.py | target: a.py",
    ),
    (
        "git show HEAD:src/a.py other.py",
        "git show | read | args: HEAD:src/a.py, other.py | reads: src/a.py, other.py | target: src/a.py other.py",
    ),
    ("git reset HEAD~1", "git reset | environment | args: HEAD~1"),
    ("git clean -n", "git clean | environment | flags: -n"),
    ("git clean --dry-run x", "git clean | environment | args: x | flags: --dry-run"),
    (
        "git clean -fd build",
        "git clean | write | args: build | flags: -d, -f | writes: build | target: build",
    ),
    ("git checkout -b new/x", "git checkout | environment | args: new/x | flags: -b"),
    ("git checkout -B new/x", "git checkout | environment | args: new/x | flags: -B"),
    ("git checkout .", "git checkout | write | args: . | writes:  | target: ."),
    ("git restore --staged a.py", "git restore | environment | args: a.py | flags: --staged"),
    (
        "git restore --staged --worktree a.py",
        "git restore | write | args: a.py | flags: --staged, --worktree | writes: a.py | target: a.py",
    ),
    ("git restore .", "git restore | write | args: . | writes:  | target: ."),
    (
        "git rm -r src/a.py",
        "git rm | write | args: src/a.py | flags: -r | writes: src/a.py | target: src/a.py",
    ),
    ("git am x.patch", "git am | write | args: x.patch | writes: "),
    ("git apply --stat p.diff", "git apply | read | args: p.diff | flags: --stat"),
    ("git stash list", "git stash | read | args: list | target: list"),
    ("git stash show", "git stash | read | args: show | target: show"),
    ("git stash pop", "git stash | environment | args: pop | target: pop"),
    ("git stash drop", "git stash | environment | args: drop | target: drop"),
    ("git commit -am x", "git commit | environment | args: x | flags: -a, -m | target: x"),
    ("git ls-files src", "git ls-files | search | args: src | target: src"),
    ("git merge dev", "git merge | write | args: dev | writes:  | target: dev"),
    ("git revert HEAD", "git revert | write | args: HEAD | writes:  | target: HEAD"),
    ("git config list", "git config | environment | args: list | target: list"),
    ("git diff --cached", "git diff | read | flags: --cached"),
    ("git bisect run pytest", "git bisect | search | args: run, pytest | target: run pytest"),
    ("git show HEAD:a.py", "git show | read | args: HEAD:a.py | reads: a.py | target: a.py"),
    ("git clean -f", "git clean | write | flags: -f | writes:  | target: ."),
    ("git checkout HEAD a.py", "git checkout | write | args: HEAD, a.py | writes: a.py | target: a.py"),
    ("git diff stash@{0}.y", "git diff | read | args: stash@{0}.y | target: stash@{0}.y"),
    ("git grep foo", "git grep | search | args: foo, . | reads:  | target: foo in . | pattern: foo"),
    ("git -c core.pager=cat -C lib show", "git show | read"),
    (
        "git restore --staged --worktree .",
        "git restore | write | args: . | flags: --staged, --worktree | writes:  | target: .",
    ),
    ("git am --numstat x.patch", "git am | read | args: x.patch | flags: --numstat"),
    ("git frob x", "git frob | environment | args: x | target: x"),
    ("git stash show stash@{0}", "git stash | read | args: show, stash@{0} | target: show stash@{0}"),
]
PROGRAMS = [
    (
        "python -m pytest -q tests/test_a.py -- -k y",
        "pytest | test | args: tests/test_a.py, -k, y | flags: -q | target: tests/test_a.py -k y",
    ),
    ("python repro.py ./a/b.py", "python | execute | args: repro.py, a/b.py | target: repro.py a/b.py"),
    ("python3.11 /testbed/run.py --fast", "python | execute | args: run.py | flags: --fast | target: run.py"),
    ("./configure --x", "configure | execute | flags: --x"),
    (
        "rm -rf src/a.py src/b",
        "rm | write | args: src/a.py, src/b | flags: -f, -r | writes: src/a.py, src/b | target: src/a.py src/b",
    ),
    (
        "cp -r a/b.py c/",
        "cp | write | args: a/b.py, c | flags: -r | reads: a/b.py | writes: c | target: a/b.py c",
    ),
    ("patch -p1 < fix.patch", "patch | write | flags: -p1 | reads: fix.patch | writes: "),
    ("echo x >> notes.txt", "echo | write | args: x | writes: notes.txt | target: notes.txt | body: x"),
    ("tee a.py < b.py", "tee | write | args: a.py | reads: b.py | writes: a.py | target: a.py"),
    ("npm test", "npm test | test"),
    ("npm run build", "npm run | execute | args: build | target: build"),
    ("go test ./...", "go test | test | args: ... | target: ..."),
    ("make -C lib test", "make test | test | flags: -C=lib"),
    ("tox -e py", "tox | test | args: py | flags: -e | target: py"),
    ("env A=1 python x.py", "python | execute | args: x.py | target: x.py"),
    ("bash run.sh", "bash | execute | args: run.sh | target: run.sh"),
    ("sh -c 'ls a'", "ls | search | args: a | reads: a | target: a"),
    ("black --check src", "black | test | args: src | flags: --check | target: src"),
    ("ruff check --fix src", "ruff check | test | args: src | flags: --fix | target: src"),
    ("which python", "which | nothing | args: python"),
    ("ln -s a b", "ln | write | args: a, b | flags: -s | reads: a | writes: b | target: a b"),
    ("chmod +x a.sh", "chmod | environment | args: +x, a.sh"),
    (
        "perl -pi -e 's/a/b/' x.py",
        "perl -i | write | args: x.py | writes: x.py | target: x.py | body: s/a/b/",
    ),
    (
        "cd src && grep f ../a.py",
        "cd | nothing | args: src && grep | search | args: f, a.py | reads: a.py | target: f in a.py | pattern: f",
    ),
    ("cp a b c", "cp | write | args: a, b, c | reads: a, b | writes: c | target: a b c"),
    ("install a b", "install | write | args: a, b | reads: a | writes: b | target: a b"),
    ("patch --dry-run < a", "patch | read | flags: --dry-run | reads: a"),
    ("isort --diff a.py", "isort | test | args: a.py | flags: --diff | target: a.py"),
    ("isort a.py", "isort | write | args: a.py | writes: a.py | target: a.py"),
    ("autopep8 a.py", "autopep8 | test | args: a.py | target: a.py"),
    ("autopep8 -i a.py", "autopep8 | write | args: a.py | flags: -i | writes: a.py | target: a.py"),
    ("gofmt -l a.go", "gofmt | test | args: a.go | flags: -l | target: a.go"),
    ("gofmt -w a.go", "gofmt | write | args: a.go | flags: -w | writes: a.go | target: a.go"),
    ("tee", "tee | nothing"),
    ("tee /dev/null", "tee | nothing"),
    ("tee -a a.py", "tee | write | args: a.py | flags: -a | writes: a.py | target: a.py"),
    ("npm run lint", "npm run | test | args: lint | target: lint"),
    ("yarn test:unit", "yarn run | test | args: test:unit | target: test:unit"),
    ("yarn build", "yarn build | execute"),
    ("bun run x", "bun run | execute | args: run, x | target: run x"),
    ("hatch run test", "test | nothing"),
    ("ruff format --check src", "ruff format | test | args: src | flags: --check | target: src"),
    ("prettier --write a.js", "prettier | write | args: a.js | flags: --write | writes: a.js | target: a.js"),
    ("prettier a.js", "prettier | test | args: a.js | target: a.js"),
    ("python -", "python | environment"),
    ("python", "python | execute"),
    ("python -V", "python | environment"),
    ("python -W ignore x.py", "python | execute | args: x.py | target: x.py"),
    ("python -X dev -c 'print(1)'", "python -c | execute | body: print(1)"),
    ("python -m black a.py", "black | write | args: a.py | writes: a.py | target: a.py"),
    ("python -m pip install x", "pip | environment | args: install, x"),
    ("python -m django test app", "django test | test | args: app | target: app"),
    ("python -m coverage run -m pytest a.py", "pytest | test | args: a.py | target: a.py"),
    ("python -m tests", "tests | test"),
    ("python -m pkg.runtests x", "pkg.runtests | test | args: x | target: x"),
    ("python -m http.server", "http.server | execute"),
    ("python -c 'import pytest; pytest.main()'", "python -c | test | body: import pytest; pytest.main()"),
    ("python setup.py build", "setup.py build | execute"),
    ("python /usr/bin/pytest a.py", "pytest | test | args: a.py | target: a.py"),
    (
        "python <<'E'\nopen('a/b.py','w')\nE",
        "python -c | write | writes: a/b.py | target: a/b.py | body: open('a/b.py','w')\n",
    ),
    (
        "node -e 'fs.writeFileSync(\"a.js\", x)'",
        'node -c | write | writes: a.js | target: a.js | body: fs.writeFileSync("a.js", x)',
    ),
    ("perl -ne 'print' a", "perl -c | execute | body: print"),
    (
        "perl -i -pe 's/a/b/' a.pl b.pl",
        "perl -i | write | args: a.pl, b.pl | writes: a.pl, b.pl | target: a.pl b.pl | body: s/a/b/",
    ),
    ("ruby x.rb", "ruby | execute | args: x.rb | target: x.rb"),
    ("bash tests/run.sh", "bash | execute | args: tests/run.sh | target: tests/run.sh"),
    ("bash bin/test x", "bash | test | args: bin/test, x | target: bin/test x"),
    ("php -r 'x'", "php -c | execute | body: x"),
    ("./script.py a", "script.py | execute | args: a | target: a"),
    ("make test", "make test | test"),
    ("make -j4 all", "make | execute | args: all | flags: -j4 | target: all"),
    ("ctest -V", "ctest | test | flags: -V"),
    ("time pytest", "pytest | test"),
    ("python -m pytest", "pytest | test"),
    ("python3 -m mypy src", "mypy | test | args: src | target: src"),
    (
        "python tests/runtests.py -v x",
        "python | test | args: tests/runtests.py | flags: -v=x | target: tests/runtests.py",
    ),
    ("/usr/local/bin/pytest-3 a.py", "pytest-3 | test | args: a.py | target: a.py"),
    ("npm run-script test", "npm run | test | args: run-script, test | target: run-script test"),
    ("pnpm run test", "pnpm run | test | args: test | target: test"),
    ("bun lint", "bun run | test | args: lint | target: lint"),
    ("prettier -w a.js", "prettier | write | args: a.js | flags: -w | writes: a.js | target: a.js"),
    ("perl -e x y", "perl -c | execute | body: x"),
    ("ruby -e x", "ruby -c | execute | body: x"),
    ("node --eval x y", "node -c | execute | body: x"),
    ("ruby -ne x", "ruby | execute | args: x | flags: -e, -n | target: x"),
    ("perl -i -e x a", "perl -i | write | args: a | writes: a | target: a | body: x"),
    ("perl x.pl -e y", "perl | execute | args: x.pl, y | flags: -e | target: x.pl y"),
    ("python -X dev x.py", "python | execute | args: x.py | target: x.py"),
    ("python -m django shell test", "django | execute | args: shell, test | target: shell test"),
    ("python -m coverage run -m tox", "tox | test"),
    ("mkdir -p a", "mkdir | environment | args: a | flags: -p"),
    ("pdm run lint", "lint | environment"),
    ("gofmt a.go", "gofmt | test | args: a.go | target: a.go"),
    ("isort --check-only a.py", "isort | test | args: a.py | flags: --check-only | target: a.py"),
    ("rsync a b", "rsync | write | args: a, b | reads: a | writes: b | target: a b"),
    ("cp a", "cp | write | args: a | writes: a | target: a"),
    ("black -l 100 a.py", "black | write | args: a.py | flags: -l=100 | writes: a.py | target: a.py"),
    ("isort -l 100 a.py", "isort | write | args: a.py | flags: -l=100 | writes: a.py | target: a.py"),
    ("python -m virtualenv v", "virtualenv | environment | args: v"),
    ("yarn run lint", "yarn run | test | args: lint | target: lint"),
]


@pytest.mark.parametrize(("line", "expected"), [*LOOKS, *GIT, *PROGRAMS])
def test_a_line_is_read_field_by_field(line: str, expected: str) -> None:
    assert " && ".join(map(told, parse(line).segments)) == expected
