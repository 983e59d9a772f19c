"""Classifies one simple command: which group, which files it reads and writes, what it acts on."""

from __future__ import annotations

import re
from collections.abc import Callable

from workers.agentlens.paths import names_a_path
from workers.agentlens.shell import table, viewers, writers
from workers.agentlens.shell.call import (
    Call,
    flags_and_arguments,
    listing,
    paths_of,
    placed,
    program_name,
    reading,
    running,
)
from workers.agentlens.shell.command import Group, Segment
from workers.agentlens.shell.git import git
from workers.agentlens.shell.inline import runs_checks, written_paths

_CHECK_SCRIPT = re.compile(
    r"(?:.*[:_-])?(?:test|tests|lint|check|typecheck|type-check|unit|e2e|spec)(?:[:_-].*)?$"
)


def classify(call: Call) -> Segment:
    """The segment that `call` is; unknown programs are environment unless they are scripts of the project."""
    word = call.words[0]
    program = program_name(word)
    handler = _HANDLERS.get(program)
    if handler is not None:
        return handler(program, call)
    if program in table.SUBCOMMANDS and not _is_runner(word):
        return _with_subcommand(program, call)
    return _by_table(program, word, call)


def _by_table(program: str, word: str, call: Call) -> Segment:
    group = Group.TEST if _is_runner(word) else table.PROGRAMS.get(program)
    if group is None:
        is_script = "/" in word or word.endswith((".py", ".sh", ".js", ".rb", ".pl", ".exe"))
        group = Group.EXECUTE if is_script else Group.ENVIRONMENT
        program = call.path(word) if is_script else program
    if group in (Group.TEST, Group.EXECUTE):
        return running(program, call, group)
    if group is Group.READ:
        return reading(program, call)
    if group is Group.SEARCH:
        return listing(program, call)
    flags, arguments = flags_and_arguments(program, call.words)
    return Segment(program=program, group=group, arguments=tuple(arguments), flags=flags)


def _is_runner(word: str) -> bool:
    if word in table.RUNNERS:
        return True
    tail = word.rsplit("/", 2)
    return tail[-1] in table.RUNNERS or "/".join(tail[-2:]) in table.RUNNERS


def _with_subcommand(program: str, call: Call) -> Segment:
    flags, arguments = flags_and_arguments(program, call.words)
    sub = arguments[0] if arguments else ""
    column = table.SUBCOMMANDS[program]
    if (
        sub in ("run", "run-script")
        and len(arguments) > 1
        and program in ("npm", "yarn", "pnpm", "bun", "hatch", "pdm")
    ):
        group = Group.TEST if _CHECK_SCRIPT.match(arguments[1]) else Group.EXECUTE
        name = f"{program} run"
    elif program in ("yarn", "pnpm", "bun") and sub not in column and _CHECK_SCRIPT.match(sub):
        group, name = Group.TEST, f"{program} run"
    else:
        group = column.get(sub) or column.get("*") or table.PROGRAMS.get(program, Group.EXECUTE)
        name = f"{program} {sub}" if sub in column else program
    if program in ("black", "prettier", "ruff") and not {"--check", "--diff", "--check-only"}.isdisjoint(
        flags
    ):
        group = Group.TEST
    if program == "prettier" and "--write" not in flags and "-w" not in flags:
        group = Group.TEST
    rest = placed(call, arguments[1:] if sub in column else arguments)
    writes = tuple(path for path in rest if names_a_path(path)) if group is Group.WRITE else ()
    return Segment(
        program=name,
        group=group,
        arguments=tuple(rest),
        flags=flags,
        writes=writes,
        target=" ".join(rest) or None,
    )


def _python(program: str, call: Call) -> Segment:
    words = call.words
    position = 1
    while position < len(words):
        word = words[position]
        if word == "-m" and position + 1 < len(words):
            return _python_module(call, words[position + 1 :])
        if word == "-c" and position + 1 < len(words):
            return _inline(program, call, words[position + 1])
        if not word.startswith("-") or word == "-":
            break
        position += 2 if word in ("-W", "-X") else 1
    if position < len(words) and words[position] != "-":
        return _python_script(program, call._replace(words=words[position:]))
    if call.heredocs:
        return _inline(program, call, "".join(call.heredocs))
    asks = any(word.startswith("-") for word in words[1:])
    return Segment(program=program, group=Group.ENVIRONMENT if asks else Group.EXECUTE)


def _python_script(program: str, call: Call) -> Segment:
    script = call.words[0]
    name = script.rpartition("/")[2]
    if name in table.SUBCOMMANDS:
        return _with_subcommand(name, call)
    if name.startswith("pytest"):
        return running("pytest", call, Group.TEST)
    group = Group.TEST if _is_runner(script) else Group.EXECUTE
    flags, arguments = flags_and_arguments(name, call.words)
    typed = (call.path(script), *placed(call, arguments))
    return Segment(program=program, group=group, arguments=typed, flags=flags, target=" ".join(typed))


def _inline(program: str, call: Call, script: str) -> Segment:
    writes = written_paths(script, call.directory, call.root) if program in ("python", "node", "ruby") else ()
    group = Group.WRITE if writes else Group.TEST if runs_checks(script) else Group.EXECUTE
    return Segment(
        program=f"{program} -c", group=group, writes=writes, target=writes[0] if writes else None, body=script
    )


def _python_module(call: Call, rest: list[str]) -> Segment:
    module = rest[0]
    if module in ("pip", "venv", "virtualenv"):
        return Segment(program=module, group=Group.ENVIRONMENT, arguments=tuple(rest[1:]))
    if module in ("black", "ruff", "isort"):
        return classify(call._replace(words=rest))
    if module == "django" and "test" in rest[1:2]:
        return running("django test", call._replace(words=rest[1:]), Group.TEST)
    if module == "coverage" and rest[1:3] == ["run", "-m"] and len(rest) > 3:
        return _python_module(call, rest[3:])
    group = table.MODULES.get(module) or (
        Group.TEST if module.rpartition(".")[2] in ("runtests", "tests", "test") else None
    )
    return running(module, call._replace(words=rest), group or Group.EXECUTE)


def _interpreter(program: str, call: Call) -> Segment:
    for position, word in enumerate(call.words[1:-1], start=1):
        if word in ("-e", "--eval", "-r") or (program == "perl" and re.match(r"-\w*e$", word)):
            if program == "perl" and any(re.match(r"-\w*i", flag) for flag in call.words[1 : position + 1]):
                files = paths_of(
                    call, [item for item in call.words[position + 2 :] if not item.startswith("-")]
                )
                return Segment(
                    program="perl -i",
                    group=Group.WRITE,
                    writes=files,
                    arguments=files,
                    target=" ".join(files) or None,
                    body=call.words[position + 1],
                )
            return _inline(program, call, call.words[position + 1])
        if not word.startswith("-"):
            break
    if call.heredocs and len(call.words) <= 2:
        return _inline(program, call, call.heredocs[-1])
    plain = [word for word in call.words[1:] if not word.startswith("-")]
    return running(program, call, Group.TEST if plain and _is_runner(plain[0]) else Group.EXECUTE)


def _find(program: str, call: Call) -> Segment:
    starts: list[str] = []
    for word in call.words[1:]:
        if word.startswith(("-", "(", "!")):
            break
        starts.append(word)
    paths = paths_of(call, starts) or (call.path("."),)
    tests = call.words[1 + len(starts) :]
    names = [
        tests[i + 1] for i, word in enumerate(tests[:-1]) if word in ("-name", "-iname", "-path", "-regex")
    ]
    pattern = "|".join(names) or None
    where = " ".join(path or "." for path in paths)
    for action in ("-exec", "-execdir", "-ok"):
        if action in tests[:-1]:
            inner = [word for word in tests[tests.index(action) + 1 :] if word not in (";", "+", "{}")]
            if inner:
                done = classify(call._replace(words=inner))
                sought = done.pattern or pattern
                if done.group is Group.WRITE:
                    return Segment(
                        program=f"find {done.program}", group=Group.WRITE, writes=paths, target=where
                    )
                return Segment(
                    program=done.program,
                    group=done.group,
                    arguments=(*done.arguments, *(path or "." for path in paths)),
                    flags=done.flags,
                    reads=paths,
                    pattern=sought,
                    target=f"{sought} in {where}" if sought else where,
                )
    if "-delete" in tests:
        return Segment(program="find -delete", group=Group.WRITE, writes=paths, target=where)
    return Segment(
        program=program,
        group=Group.SEARCH,
        arguments=(*(path or "." for path in paths), *tests),
        reads=paths,
        pattern=pattern,
        target=f"{pattern} in {where}" if pattern else where,
    )


_HANDLERS: dict[str, Callable[[str, Call], Segment]] = {
    "git": git,
    "python": _python,
    "head": viewers.head_or_tail,
    "tail": viewers.head_or_tail,
    "sed": viewers.sed,
    "awk": viewers.awk,
    "find": _find,
    "patch": writers.patch,
    "apply_patch": writers.patch,
    "tee": writers.tee,
}
_HANDLERS |= dict.fromkeys(("grep", "rg", "ag", "ack", "git-grep"), viewers.grep)
_HANDLERS |= dict.fromkeys(
    ("node", "ruby", "perl", "bash", "sh", "zsh", "dash", "ksh", "php", "lua"), _interpreter
)
_HANDLERS |= dict.fromkeys(
    ("rm", "mv", "cp", "touch", "install", "truncate", "dd", "rsync", "ln", "unlink", "rmdir", "shred"),
    writers.files,
)
_HANDLERS |= dict.fromkeys(
    ("isort", "autopep8", "autoflake", "pyupgrade", "gofmt", "goimports", "black"), writers.formatter
)
