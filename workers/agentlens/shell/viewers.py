"""Programs that show files or search them."""

from __future__ import annotations

import re

from workers.agentlens.shell.call import END_OF_FILE, Call, flags_and_arguments, paths_of
from workers.agentlens.shell.command import Group, Segment

_SED_LINES = re.compile(r"(\d+)\s*(?:,\s*(\d+|\$|\+\d+))?\s*p")
_AWK_LINES = re.compile(r"NR\s*(?:>=?|==)\s*(\d+)\s*(?:&&\s*NR\s*<=?\s*(\d+)|,\s*NR\s*==?\s*(\d+))")


def head_or_tail(program: str, call: Call) -> Segment:
    flags, arguments = flags_and_arguments(program, call.words)
    count = 10
    starts_at = 0
    for flag in flags:
        value = flag.removeprefix("--lines=").removeprefix("-n=").removeprefix("-n").lstrip("-=")
        if value.startswith("+") and value[1:].isdigit():
            starts_at = int(value[1:])
        elif value.isdigit():
            count = int(value)
    if program == "tail" and arguments and arguments[0].startswith("+") and arguments[0][1:].isdigit():
        starts_at = int(arguments.pop(0)[1:])
    paths = paths_of(call, arguments)
    from_the_end = (starts_at, END_OF_FILE) if starts_at else (-count, -1)
    lines = (1, count) if program == "head" else from_the_end
    if any(flag.startswith(("-c", "--bytes")) for flag in flags):
        return Segment(
            program=program,
            group=Group.READ,
            arguments=paths,
            flags=flags,
            reads=paths,
            target=" ".join(paths) or None,
        )
    return Segment(
        program=program,
        group=Group.READ,
        arguments=paths,
        flags=flags,
        reads=paths,
        target=" ".join(paths) or None,
        lines=lines,
    )


def sed(program: str, call: Call) -> Segment:
    flags, arguments = flags_and_arguments(program, call.words)
    scripts = [flag[3:] for flag in flags if flag.startswith("-e=")]
    if not scripts and arguments:
        scripts = [arguments.pop(0)]
    paths = paths_of(call, arguments)
    script = "\n".join(scripts)
    in_place = any(flag.startswith(("-i", "--in-place")) for flag in flags)
    spans = (
        []
        if in_place
        else [_sed_span(match) for match in _SED_LINES.finditer(script)]
        if "-n" in flags
        else []
    )
    return Segment(
        program="sed -i" if in_place else "sed",
        group=Group.WRITE if in_place else Group.READ,
        arguments=(script, *paths),
        flags=flags,
        reads=() if in_place else paths,
        writes=paths if in_place else (),
        target=" ".join(paths) or None,
        body=script if in_place else None,
        lines=(min(start for start, _ in spans), max(end for _, end in spans)) if spans else None,
    )


def _sed_span(match: re.Match[str]) -> tuple[int, int]:
    start, stop = int(match[1]), match[2]
    if stop is None:
        return start, start
    if stop == "$":
        return start, END_OF_FILE
    return start, start + int(stop[1:]) if stop.startswith("+") else int(stop)


def awk(program: str, call: Call) -> Segment:
    flags, arguments = flags_and_arguments(program, call.words)
    script = arguments.pop(0) if arguments else ""
    paths = paths_of(call, arguments)
    match = _AWK_LINES.search(script)
    lines = (int(match[1]), int(match[2] or match[3])) if match else None
    in_place = "-i=inplace" in flags
    return Segment(
        program=program,
        group=Group.WRITE if in_place else Group.READ,
        arguments=(script, *paths),
        flags=flags,
        reads=() if in_place else paths,
        writes=paths if in_place else (),
        target=" ".join(paths) or None,
        lines=lines,
    )


def grep(program: str, call: Call) -> Segment:
    flags, arguments = flags_and_arguments(program, call.words)
    given = [flag[3:] for flag in flags if flag.startswith("-e=")]
    pattern = "|".join(given) if given else arguments.pop(0) if arguments else ""
    paths = paths_of(call, arguments)
    recursive = program != "grep" or not {"-r", "-R", "--recursive"}.isdisjoint(flags)
    if not paths and recursive:
        paths = (call.path("."),)
    where = " ".join(path or "." for path in paths)
    return Segment(
        program=program,
        group=Group.SEARCH,
        arguments=(pattern, *(path or "." for path in paths)),
        flags=flags,
        reads=paths,
        pattern=pattern,
        target=f"{pattern} in {where}" if where else pattern,
    )
