"""git: the subcommand decides, and for `checkout` and `reset` its arguments do."""

from __future__ import annotations

from workers.agentlens.paths import names_a_path
from workers.agentlens.shell import table, viewers, writers
from workers.agentlens.shell.call import Call, flags_and_arguments, paths_of
from workers.agentlens.shell.command import Group, Segment

_LOOKS = frozenset(("diff", "show", "log", "blame", "annotate", "status", "ls-files", "ls-tree"))


def git(program: str, call: Call) -> Segment:
    """The segment of a git command; its program is `git SUBCOMMAND`."""
    words = _after_global_flags(call.words)
    if not words:
        return Segment(program=program, group=Group.READ)
    sub = words[0]
    name = f"git {sub}"
    inner = call._replace(words=words)
    if sub in ("apply", "am"):
        return writers.patch(name, inner)
    if sub == "grep":
        return viewers.grep(name, inner)
    if sub in ("mv", "rm"):
        return writers.files(name, inner)
    flags, arguments = flags_and_arguments("git", words)
    if sub in ("checkout", "restore", "reset", "clean"):
        return _undo(name, inner, flags, arguments)
    column = table.SUBCOMMANDS["git"]
    group = column.get(sub, Group.ENVIRONMENT)
    if sub == "stash" and arguments[:1] in (["list"], ["show"]):
        group = Group.READ
    paths = _pathspec(inner, arguments) if sub in _LOOKS else ()
    writes = (call.path("."),) if group is Group.WRITE else ()
    return Segment(
        program=name,
        group=group,
        arguments=tuple(arguments),
        flags=flags,
        reads=paths,
        writes=writes,
        target=" ".join(paths) or " ".join(arguments) or None,
    )


def _after_global_flags(words: list[str]) -> list[str]:
    position = 1
    while position < len(words) and words[position].startswith("-"):
        position += 2 if words[position] in ("-C", "-c", "--git-dir", "--work-tree") else 1
    return words[position:]


def _pathspec(call: Call, arguments: list[str]) -> tuple[str, ...]:
    if "--" in call.words:
        return paths_of(call, call.words[call.words.index("--") + 1 :])
    found = []
    for word in arguments:
        if ".." in word and not word.startswith("../"):
            continue
        if ":" in word and not word.startswith(":"):
            found.append(word.partition(":")[2])
        elif names_a_path(word) and not word.startswith(("origin/", "HEAD", "stash@", "refs/")):
            found.append(word)
    return paths_of(call, found)


def _undo(name: str, call: Call, flags: tuple[str, ...], arguments: list[str]) -> Segment:
    """`git checkout -- f`, `git restore f`, `git reset --hard`, `git clean -f` rewrite files; a change
    of branch does not."""
    if name == "git reset":
        paths: tuple[str, ...] = (call.path("."),) if "--hard" in flags else ()
    elif name == "git clean":
        paths = (
            () if "-n" in flags or "--dry-run" in flags else paths_of(call, arguments) or (call.path("."),)
        )
    elif "-b" in flags or "-B" in flags or ("--staged" in flags and "--worktree" not in flags):
        paths = ()
    elif name == "git restore":
        paths = paths_of(call, arguments)
    else:
        paths = _pathspec(call, arguments)
    return Segment(
        program=name,
        group=Group.WRITE if paths else Group.ENVIRONMENT,
        arguments=tuple(arguments),
        flags=flags,
        writes=paths,
        target=" ".join(path or "." for path in paths) or None,
    )
