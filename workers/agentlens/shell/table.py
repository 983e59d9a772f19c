"""What programs are for: the table behind the groups of AGENTLENS §1. Data only; a new program is one
word."""

from __future__ import annotations

from workers.agentlens.shell.command import Group


def _table(**columns: str) -> dict[str, Group]:
    return {word: Group[name.upper()] for name, words in columns.items() for word in words.split()}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A program whose group does not depend on its arguments.
PROGRAMS = _table(
    write="rm mv cp touch tee patch apply_patch applypatch install truncate dd rsync ln unlink rmdir "
    "shred dos2unix unix2dos isort autopep8 autoflake pyupgrade gofmt goimports",
    test="pytest py.test pytest-3 tox nox nosetests nose2 trial jest vitest mocha ava karma cypress "
    "playwright rspec phpunit pest ctest bats gotestsum unittest behave stestr runtests "
    "runtests.py run_tests.sh runtests.sh mypy pyright pyre pytype flake8 pylint pyflakes "
    "pycodestyle pydocstyle bandit eslint tsc stylelint rubocop golangci-lint staticcheck "
    "shellcheck hadolint clang-tidy cppcheck clippy-driver phpstan psalm vulture doctest "
    "coverage yamllint jsonlint xmllint standard",
    execute="python ipython pypy node nodejs deno bun ruby perl php lua Rscript java scala kotlin "
    "julia bash sh zsh dash ksh source_script make gmake cmake ninja meson gcc g++ cc c++ "
    "clang clang++ javac rustc ghc swiftc ant bazel sbt lein msbuild curl wget httpie http "
    "uvicorn gunicorn flask streamlit celery jupyter psql mysql sqlite3 redis-cli mongo gdb "
    "lldb pdb valgrind strace ltrace ts-node tsx esbuild webpack rollup vite parcel "
    "sphinx-build mkdocs django-admin ab hyperfine",
    read="cat less more head tail nl tac od xxd hexdump strings view zcat bat batcat pygmentize jq "
    "yq wc file stat diff cmp comm readelf objdump nm ldd column readlink realpath md5sum "
    "sha256sum sha1sum pydoc man",
    search="grep egrep fgrep rg ag ack ls find fd fdfind tree locate dir exa eza du zgrep git-grep ctags",
    environment="pip pip3 uv conda mamba micromamba apt apt-get yum dnf brew apk pacman gem bundle bundler "
    "composer nvm pyenv rbenv rustup docker docker-compose podman kubectl systemctl service "
    "mkdir chmod chown chgrp tar unzip zip gunzip gzip xz bzip2 ssh scp dpkg virtualenv venv "
    "easy_install ps top htop free df lsof netstat ss uname hostname id groups ulimit locale "
    "nproc lscpu mktemp crontab tmux screen killall pkill",
    nothing="cd pwd echo true false : export unset set source . activate deactivate sleep clear "
    "history whoami date env printenv which whereis type command kill wait exit return read "
    "alias unalias test [ [[ printf seq basename dirname pushd popd dirs shopt trap jobs fg bg "
    "disown tput reset local declare let expr bc",
)

# A subcommand that decides; "" is the program alone, "*" every other subcommand.
SUBCOMMANDS: dict[str, dict[str, Group]] = {
    "git": _table(
        write="apply am revert checkout restore reset mv rm clean cherry-pick merge rebase",
        read="diff status log show blame annotate cat-file reflog describe rev-parse rev-list "
        "merge-base shortlog branch tag remote name-rev symbolic-ref show-ref whatchanged "
        "range-diff difftool var",
        search="grep ls-files ls-tree bisect",
        environment="* stash commit add config init clone fetch pull push worktree submodule switch",
    ),
    "npm": _table(test="test t tst", environment="* install ci i", execute="run start exec build"),
    "yarn": _table(test="test jest vitest lint tsc", environment="* install add", execute="run start build"),
    "pnpm": _table(test="test t", environment="* install add", execute="run start exec build"),
    "npx": _table(test="jest vitest mocha ava tsc eslint playwright cypress", execute="*"),
    "cargo": _table(
        test="test check clippy nextest fmt",
        execute="* build run bench",
        environment="add install update fetch",
    ),
    "go": _table(test="test vet", execute="* build run generate", environment="get mod install env version"),
    "mvn": _table(test="test verify surefire:test", execute="* compile package install"),
    "mvnw": _table(test="test verify", execute="*"),
    "gradle": _table(test="test check", execute="*"),
    "gradlew": _table(test="test check", execute="*"),
    "dotnet": _table(test="test", execute="* build run", environment="restore add new"),
    "make": _table(test="test check tests lint unittest typecheck", execute="*"),
    "gmake": _table(test="test check", execute="*"),
    "ninja": _table(test="test", execute="*"),
    "bazel": _table(test="test", execute="*"),
    "mix": _table(test="test credo dialyzer", execute="*"),
    "rails": _table(test="test", execute="*"),
    "rake": _table(test="test spec", execute="*"),
    "bundle": _table(test="rspec rubocop", environment="* install", execute="exec"),
    "swift": _table(test="test", execute="*"),
    "flutter": _table(test="test analyze", execute="*"),
    "deno": _table(test="test check lint", execute="*"),
    "bun": _table(test="test", execute="*", environment="install add"),
    "ruff": _table(test="* check", write="format"),
    "black": _table(write="*"),
    "prettier": _table(write="*"),
    "hatch": _table(test="test", execute="* run"),
    "pdm": _table(test="test", execute="run", environment="*"),
    "manage.py": _table(test="test check", execute="*"),
    "setup.py": _table(test="test", environment="* develop install build_ext", execute="build"),
    "coverage": _table(test="run", read="report html xml"),
    "pre-commit": _table(test="run", environment="*"),
    "uv": _table(environment="*"),
    "black-primer": _table(test="*"),
}

# `python -m MODULE`; every other module is ad-hoc execution.
MODULES = _table(
    test="pytest unittest nose nose2 tox nox doctest mypy pyright flake8 pylint pyflakes "
    "pycodestyle ruff py_compile compileall trial coverage twisted.trial bandit xmlrunner "
    "pytype pydocstyle green",
    write="black isort autopep8 lib2to3",
    environment="pip venv ensurepip virtualenv site",
    read="pydoc json.tool tokenize ast dis",
)

# Scripts that are a project's own test runner, by bare file name.
RUNNERS = frozenset(
    [
        "runtests.py",
        "run_tests.py",
        "run-tests.py",
        "runtest.py",
        "runtests",
        "run_tests",
        "runtests.sh",
        "run_tests.sh",
        "run-tests.sh",
        "test.sh",
        "tests.sh",
        "bin/test",
        "bin/doctest",
        "bin/test_all",
        "bin/test_optional_dependencies.py",
        "bin/rspec",
        "bin/phpunit",
        "bin/jest",
        "vendor/bin/phpunit",
        "script/test",
        "scripts/test",
        "test_runner.py",
        "testrunner.py",
    ]
)

# Words that hand over to the next word. The value tells how many plain arguments they take first.
WRAPPERS: dict[str, int] = {
    "sudo": 0,
    "env": 0,
    "nohup": 0,
    "time": 0,
    "exec": 0,
    "command": 0,
    "builtin": 0,
    "stdbuf": 0,
    "nice": 0,
    "ionice": 0,
    "timeout": 1,
    "gtimeout": 1,
    "xvfb-run": 0,
    "setsid": 0,
    "unbuffer": 0,
    "xargs": 0,
    "parallel": 0,
    "script": 0,
    "eval": 0,
    "watch": 0,
    "faketime": 1,
    "retry": 0,
    "noglob": 0,
}
# Two-word wrappers: `poetry run X`, `conda run -n env X`.
RUN_WRAPPERS = {
    "poetry": "run",
    "pipenv": "run",
    "conda": "run",
    "mamba": "run",
    "uv": "run",
    "pdm": "run",
    "rye": "run",
    "hatch": "run",
    "bundle": "exec",
    "npm": "exec",
    "pnpm": "exec",
    "docker": "exec",
    "nix-shell": "--run",
    "micromamba": "run",
    "coverage": "run",
}

# Shell words that start or end a block; what follows on the same line is the command.
KEYWORDS_BEFORE = frozenset(
    ["if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "coproc"]
)
KEYWORDS_ALONE = frozenset(["fi", "done", "esac", "}", "in", ";;", "for", "case", "select", "function"])

# Flags whose next word is their value, by program ("" for every program).
VALUE_FLAGS: dict[str, frozenset[str]] = {
    "grep": frozenset(
        [
            "-A",
            "-B",
            "-C",
            "-m",
            "-e",
            "-f",
            "--include",
            "--exclude",
            "--exclude-dir",
            "-d",
            "--max-count",
            "--context",
            "--color",
            "--colour",
        ]
    ),
    "rg": frozenset(
        [
            "-A",
            "-B",
            "-C",
            "-m",
            "-e",
            "-f",
            "-g",
            "-t",
            "-T",
            "--glob",
            "--type",
            "-j",
            "--max-count",
            "--context",
            "--sort",
            "-d",
            "--max-depth",
        ]
    ),
    "ag": frozenset(["-A", "-B", "-C", "-m", "-G"]),
    "ack": frozenset(["-A", "-B", "-C", "-m"]),
    "head": frozenset(["-n", "-c", "--lines", "--bytes"]),
    "tail": frozenset(["-n", "-c", "--lines", "--bytes"]),
    "pytest": frozenset(
        [
            "-k",
            "-m",
            "-n",
            "-p",
            "-c",
            "-o",
            "-W",
            "-r",
            "--maxfail",
            "--tb",
            "--durations",
            "--timeout",
            "--rootdir",
            "--deselect",
            "--ignore",
            "--cov",
            "--junitxml",
            "--confcutdir",
            "--basetemp",
            "--color",
            "--import-mode",
        ]
    ),
    "python": frozenset(["-W", "-X"]),
    "git": frozenset(
        [
            "-C",
            "-c",
            "--git-dir",
            "--work-tree",
            "-n",
            "--author",
            "--since",
            "--until",
            "--format",
            "--grep",
            "-S",
            "-G",
            "-L",
            "-U",
        ]
    ),
    "find": frozenset(
        [
            "-name",
            "-iname",
            "-path",
            "-ipath",
            "-type",
            "-maxdepth",
            "-mindepth",
            "-regex",
            "-newer",
            "-size",
            "-mtime",
            "-mmin",
            "-perm",
            "-user",
            "-not",
            "-wholename",
            "-printf",
            "-iregex",
            "-prune",
            "-o",
            "-a",
            "-and",
            "-or",
        ]
    ),
    "tree": frozenset(["-L", "-I", "-P"]),
    "make": frozenset(["-C", "-f", "-j"]),
    "mypy": frozenset(["--config-file", "--python-version", "-p", "-m", "-c"]),
    "sed": frozenset(["-e", "-f", "-l"]),
    "awk": frozenset(["-F", "-v", "-f", "-i"]),
    "black": frozenset(["-l", "-t", "--line-length", "--target-version"]),
    "isort": frozenset(["-l", "-w", "--line-length", "--profile"]),
    "patch": frozenset(["-p", "-d", "-i", "-o", "--strip", "--directory", "--input"]),
    "curl": frozenset(["-X", "-H", "-d", "-o", "-u", "-F", "--data", "--header", "--output"]),
    "timeout": frozenset(["-s", "-k", "--signal", "--kill-after"]),
    "xargs": frozenset(["-I", "-n", "-P", "-L", "-d", "-i"]),
    "conda": frozenset(["-n", "-p", "--name", "--prefix"]),
    "env": frozenset(["-u", "-C"]),
    "sudo": frozenset(["-u", "-g"]),
    "nice": frozenset(["-n"]),
    "stdbuf": frozenset(["-o", "-i", "-e"]),
    "pylint": frozenset(
        ["--disable", "--enable", "--rcfile", "-d", "-e", "-j", "--jobs", "--max-line-length"]
    ),
    "flake8": frozenset(["--max-line-length", "--select", "--ignore", "--config"]),
    "diff": frozenset(["-U", "--label", "-I"]),
    "cut": frozenset(["-d", "-f", "-c", "-b"]),
    "sort": frozenset(["-k", "-t", "-o"]),
    "ls": frozenset(["-I", "--ignore"]),
    "nl": frozenset(["-b", "-v", "-w", "-s"]),
    "manage.py": frozenset(["--settings", "-v", "--verbosity", "--parallel", "--pythonpath"]),
    "runtests.py": frozenset(
        ["--settings", "-v", "--verbosity", "--parallel", "-k", "--pythonpath", "--tag"]
    ),
}

# Pipe ends that only shape output.
FILTERS = frozenset(
    [
        "head",
        "tail",
        "sort",
        "uniq",
        "wc",
        "cut",
        "tr",
        "column",
        "less",
        "more",
        "cat",
        "tac",
        "nl",
        "fold",
        "fmt",
        "rev",
        "awk",
        "sed",
        "grep",
        "egrep",
        "fgrep",
        "tee",
    ]
)

ALIASES = {
    "python2": "python",
    "python3": "python",
    "pypy3": "python",
    "pypy": "python",
    "py": "python",
    "ipython": "python",
    "ipython3": "python",
    "nodejs": "node",
    "pip3": "pip",
    "py.test": "pytest",
    "egrep": "grep",
    "fgrep": "grep",
    "gsed": "sed",
    "gawk": "awk",
    "mawk": "awk",
    "nawk": "awk",
    "ripgrep": "rg",
    "fdfind": "fd",
    "applypatch": "apply_patch",
    "gmake": "make",
    "batcat": "bat",
    "zgrep": "grep",
    "perl5": "perl",
}
