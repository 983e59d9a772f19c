"""One simple command in its place, and the shapes of segment that many programs share."""

from __future__ import annotations

import re
from typing import NamedTuple

from workers.agentlens.paths import names_a_path, normalise
from workers.agentlens.shell import table
from workers.agentlens.shell.command import Group, Segment

END_OF_FILE = 1_000_000_000

_VERSIONED = re.compile(r"(python|pypy|pip|ruby|perl|php|lua|gcc|g\+\+|clang)[\d.]+$")
_CLUSTER = re.compile(r"-[A-Za-z]{2,}$")
_ONE_DASH = frozenset(
    ["find", "java", "javac", "go", "gcc", "g++", "clang", "cc", "ant", "mvn", "terraform", "php"]
)


class Call(NamedTuple):
    """One simple command with where it runs."""

    words: list[str]
    heredocs: list[str]
    directory: str
    root: str

    def path(self, word: str) -> str:
        """`word` as a path of the run."""
        return normalise(word, self.directory, self.root)


def program_name(word: str) -> str:
    """`/usr/bin/python3.11` → `python`."""
    name = word.rpartition("/")[2]
    match = _VERSIONED.match(name)
    if match:
        name = match[1]
    return table.ALIASES.get(name, name)


def flags_and_arguments(program: str, words: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """The words after the program: normalised flags, sorted (`-rn` is `-n`, `-r`; `-A 3` is `-A=3`),
    and the rest."""
    flags: list[str] = []
    arguments: list[str] = []
    valued = table.VALUE_FLAGS.get(program)
    position, count = 1, len(words)
    while position < count:
        word = words[position]
        position += 1
        if not word.startswith("-") or word == "-":
            arguments.append(word)
        elif word == "--":
            arguments += words[position:]
            break
        elif valued is not None and word in valued and position < count:
            flags.append(f"{word}={words[position]}")
            position += 1
        elif _CLUSTER.match(word) and program not in _ONE_DASH:
            letters = word[1:]
            if valued is not None and "-" + letters[-1] in valued and position < count:
                flags += ["-" + letter for letter in letters[:-1]]
                flags.append(f"-{letters[-1]}={words[position]}")
                position += 1
            else:
                flags += ["-" + letter for letter in letters]
        else:
            flags.append(word)
    flags.sort()
    return tuple(flags), arguments


def paths_of(call: Call, words: list[str]) -> tuple[str, ...]:
    return tuple(normalise(word, call.directory, call.root) for word in words)


def placed(call: Call, words: list[str]) -> list[str]:
    return [call.path(word) if names_a_path(word) else word for word in words]


def running(program: str, call: Call, group: Group) -> Segment:
    flags, arguments = flags_and_arguments(program, call.words)
    words = placed(call, arguments)
    return Segment(
        program=program,
        group=group,
        arguments=tuple(words),
        flags=flags,
        target=" ".join(words) or None,
        body=call.heredocs[-1] if call.heredocs else None,
    )


def reading(program: str, call: Call) -> Segment:
    flags, arguments = flags_and_arguments(program, call.words)
    paths = paths_of(call, arguments)
    return Segment(
        program=program,
        group=Group.READ,
        arguments=paths,
        flags=flags,
        reads=paths,
        target=" ".join(paths) or None,
        body=call.heredocs[-1] if call.heredocs else None,
    )


def listing(program: str, call: Call) -> Segment:
    flags, arguments = flags_and_arguments(program, call.words)
    paths = paths_of(call, arguments) or (call.path("."),)
    return Segment(
        program=program,
        group=Group.SEARCH,
        arguments=tuple(path or "." for path in paths),
        flags=flags,
        reads=paths,
        target=" ".join(path or "." for path in paths),
    )
