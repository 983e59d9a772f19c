"""Turns a shell line into a `Command`: unwraps, classifies every segment, follows `cd`, joins pipes."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import NamedTuple

from workers.agentlens.paths import kind_of, normalise
from workers.agentlens.shell import table
from workers.agentlens.shell.call import END_OF_FILE, Call, program_name
from workers.agentlens.shell.command import STRENGTH, Command, Group, Segment
from workers.agentlens.shell.lexer import Simple, split
from workers.agentlens.shell.programs import classify

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_NUMBER = re.compile(r"[0-9.]+[smhd]?$")
_SINKS = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-"))
_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh", "fish"))
_LISTS_SOMETHING = frozenset(("cat", "find", "ls", "fd", "git ls-files", "nl", "tac"))
_LOG_NAME = re.compile(r"[^/]*\.(?:txt|log|out|err|diff|patch|json|xml|html|csv)")
_SEARCHES = frozenset(("grep", "rg", "ag"))
_PAGERS = frozenset(("head", "tail", "sed", "awk", "nl", "cat", "less", "more"))
_SHOWS_LINES = frozenset(("cat", "nl", "sed", "head", "tail", "awk", "bat"))
_LONGEST_LINE = 200_000
_DEEPEST = 4
_NOTHING = Segment(program="", group=Group.NOTHING)


@functools.lru_cache(maxsize=4096)
def parse(text: str, directory: str = "", root: str = "") -> Command:
    """The command that `text` is, run in `directory` (repository-relative form) of the repository at `root`.

    Every text has a parse: what no shell would accept becomes words. Only the first 200,000 characters
    count."""
    segments, normal, after = _segments(text[:_LONGEST_LINE], directory, root, 0)
    if not segments:
        segments = [_NOTHING]
    return Command(
        text=text,
        normal=normal,
        segments=tuple(segments),
        strongest=segments[0] if len(segments) == 1 else max(segments, key=_strength),
        directory=after,
    )


def _strength(segment: Segment) -> int:
    return STRENGTH[segment.group]


def parse_python(code: str, directory: str = "", root: str = "") -> Command:
    """The command that a notebook cell is: `%%bash` and `!line` are shell, the rest is an inline script."""
    stripped = code.strip()
    if stripped.startswith("%%bash") or stripped.startswith("!"):
        return parse(stripped.removeprefix("%%bash").removeprefix("!").strip(), directory, root)
    segment = classify(Call(["python", "-c", code], [], directory, root))
    return Command(
        text=code, normal="python -c " + code, segments=(segment,), strongest=segment, directory=directory
    )


class _Part(NamedTuple):
    """A simple command by itself, without its redirections. segment: None if nothing is left to run. normal: what
    it adds to the line's normal form, None for a change of folder. is_fed: whether a pipe gives it its arguments.
    directory: where the line goes on. script: the text that a shell is to run."""

    segment: Segment | None
    normal: str | None
    is_fed: bool
    directory: str
    script: str | None


def _segments(text: str, directory: str, root: str, depth: int) -> tuple[list[Segment], str, str]:
    segments: list[Segment] = []
    normal: list[str] = []
    for simple in split(text):
        part = _part(tuple(simple.words), tuple(simple.heredocs), directory, root)
        segment, said = part.segment, part.normal
        if segment is None and not simple.redirects:
            continue
        if part.script is not None and depth < _DEEPEST:
            nested, nested_normal, _ = _segments(part.script, directory, root, depth + 1)
            segments += nested
            normal.append(nested_normal)
            continue
        directory = part.directory
        segment = segment or _NOTHING
        if simple.redirects:
            segment = _redirected(segment, simple, directory, root)
            said = None if said is None else _normal(segment)
        piped = simple.joined_by in ("|", "|&") and segments
        if piped and _joins(segments, segment, part.is_fed):
            if segments[-1].program == segment.program and normal:
                normal[-1] = _normal(segments[-1])
            continue
        segments.append(segment)
        if said is not None:
            normal.append("| " + said if piped else said)
    return segments, "\n".join(normal), directory


@functools.lru_cache(maxsize=4096)
def _part(typed: tuple[str, ...], heredocs: tuple[str, ...], directory: str, root: str) -> _Part:
    words, is_fed = _unwrap([*typed])
    if not words:
        return _Part(None, _normal(_NOTHING), is_fed, directory, None)
    is_change = words[0] in ("cd", "pushd")
    if is_change:
        directory = _change(words, directory, root)
    segment = classify(Call(words, [*heredocs], directory, root))
    script = _inner_script(words) if words[0].endswith("sh") else None
    return _Part(segment, None if is_change else _normal(segment), is_fed, directory, script)


def _unwrap(words: list[str]) -> tuple[list[str], bool]:
    """The words without block keywords, assignments and wrappers (`sudo`, `timeout 60`, `poetry run`)."""
    fed_by_pipe = False
    while words:
        first = words[0]
        if first in table.KEYWORDS_BEFORE or ("=" in first and _ASSIGNMENT.match(first)):
            words = words[1:]
        elif first in table.KEYWORDS_ALONE or first == "for":
            return [], False
        elif first in table.WRAPPERS and len(words) > 1:
            fed_by_pipe = fed_by_pipe or first in ("xargs", "parallel")
            rest = _after_flags(words, table.WRAPPERS[first])
            if not rest:
                return words, fed_by_pipe
            words = rest
        elif first in table.RUN_WRAPPERS and len(words) > 2 and words[1] == table.RUN_WRAPPERS[first]:
            if first == "coverage":
                return ["python", *words[2:]], fed_by_pipe
            rest = _after_flags(words[1:], 0, program=first)
            if not rest:
                return words, fed_by_pipe
            words = rest
        else:
            return words, fed_by_pipe
    return words, fed_by_pipe


def _after_flags(words: list[str], plain: int, program: str | None = None) -> list[str]:
    valued = table.VALUE_FLAGS.get(program or words[0], frozenset())
    position = 1
    while position < len(words):
        word = words[position]
        if word == "--":
            return words[position + 1 :]
        if word.startswith("-") and len(word) > 1:
            position += 2 if word in valued else 1
        elif _ASSIGNMENT.match(word):
            position += 1
        elif plain and _NUMBER.match(word):
            plain -= 1
            position += 1
        else:
            break
    return words[position:]


def _inner_script(words: list[str]) -> str | None:
    """The text that `bash -lc TEXT` runs."""
    if program_name(words[0]) not in _SHELLS:
        return None
    for position, word in enumerate(words[1:-1], start=1):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            return words[position + 1]
        if not word.startswith("-"):
            return None
    return None


def _change(words: list[str], directory: str, root: str) -> str:
    plain = [word for word in words[1:] if not word.startswith("-")]
    if not plain or "$" in plain[0]:
        return directory
    return normalise(plain[0], directory, root)


def _redirected(segment: Segment, simple: Simple, directory: str, root: str) -> Segment:
    """The segment with the files its redirections write; a log of a run does not make the run a write."""
    written, read = [], []
    for operator, word in simple.redirects:
        if operator == "<":
            read.append(normalise(word, directory, root))
        elif (
            ">" in operator
            and word not in _SINKS
            and not (operator.endswith("&") and (word.isdigit() or word == "-"))
        ):
            written.append(normalise(word, directory, root))
    if read and segment.program in ("patch", "git apply"):
        return dataclasses.replace(segment, reads=(*segment.reads, *read))
    if not written:
        return (
            dataclasses.replace(segment, reads=(*segment.reads, *read))
            if read and not segment.reads
            else segment
        )
    produces = segment.group is Group.NOTHING or bool(simple.heredocs and segment.program == "cat")
    makes_file = produces or any(_is_product(path) for path in written)
    group = Group.WRITE if makes_file and STRENGTH[segment.group] < STRENGTH[Group.WRITE] else segment.group
    body = segment.body
    if body is None and group is Group.WRITE:
        body = simple.heredocs[-1] if simple.heredocs else None
        if body is None and segment.program in ("echo", "printf") and segment.arguments:
            body = " ".join(segment.arguments)
    return dataclasses.replace(
        segment,
        group=group,
        writes=(*segment.writes, *written),
        target=written[0] if group is Group.WRITE and segment.group is not Group.WRITE else segment.target,
        body=body,
    )


def _is_product(path: str) -> bool:
    return kind_of(path) in ("source", "test") and not _LOG_NAME.fullmatch(path)


def _joins(segments: list[Segment], segment: Segment, fed_by_pipe: bool) -> bool:
    """Whether a pipe's next stage only refines the stage before it, which then is replaced or narrowed.

    `head -200 f | tail -n +180` shows lines 180 to 200 of f; `cat f | grep x` searches f."""
    before = segments[-1]
    if segment.program == "tee":
        segments[-1] = _teed(before, segment)
    elif segment.reads:
        return False
    elif segment.group is Group.WRITE:
        if not fed_by_pipe or segment.writes:
            return False
        segments[-1] = dataclasses.replace(
            segment, writes=before.reads or ("",), target=" ".join(before.reads) or "."
        )
    elif segment.program in _SEARCHES:
        if before.program not in _LISTS_SOMETHING or not (fed_by_pipe or before.group is Group.READ):
            return False
        where = " ".join(before.reads) or "."
        segments[-1] = dataclasses.replace(
            segment, reads=before.reads, target=f"{segment.pattern} in {where}"
        )
    elif segment.program in _PAGERS:
        lines = _narrow(before, segment)
        if lines != before.lines:
            segments[-1] = dataclasses.replace(before, lines=lines)
    else:
        return segment.program == "wc"
    return True


def _teed(before: Segment, segment: Segment) -> Segment:
    """`… | tee f`: a copy of a run's output, or a file made from what was printed."""
    if before.group is not Group.NOTHING and not any(_is_product(path) for path in segment.writes):
        return dataclasses.replace(before, writes=(*before.writes, *segment.writes))
    body = before.body or " ".join(before.arguments) or None
    return dataclasses.replace(segment, body=body, reads=before.reads)


def _narrow(before: Segment, after: Segment) -> tuple[int, int] | None:
    if after.lines is None or before.program not in _SHOWS_LINES:
        return before.lines
    start, end = after.lines
    first, last = before.lines or (1, END_OF_FILE)
    if start < 0:  # the last -start lines
        return (max(first, last + start + 1), last) if 0 < last < END_OF_FILE else None
    return (first + start - 1, min(last, first + end - 1))


def _normal(segment: Segment) -> str:
    parts = [segment.program, *segment.flags, *segment.arguments]
    if segment.lines is not None and segment.program in ("head", "tail", "sed", "cat", "nl", "awk"):
        parts = [segment.program, *segment.reads, f"{segment.lines[0]},{segment.lines[1]}"]
    if segment.writes and segment.group is Group.WRITE:
        parts.append("> " + " ".join(segment.writes))
    if segment.body is not None:
        parts.append(segment.body)
    return " ".join(parts)
