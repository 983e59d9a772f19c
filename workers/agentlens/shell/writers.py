"""Programs that change files: moves, copies, patches, formatters."""

from __future__ import annotations

from workers.agentlens.shell.call import Call, flags_and_arguments, paths_of, placed
from workers.agentlens.shell.command import Group, Segment
from workers.agentlens.shell.inline import patched_paths


def files(program: str, call: Call) -> Segment:
    """rm, mv, cp, touch and their like."""
    flags, arguments = flags_and_arguments(program, call.words)
    paths = paths_of(call, arguments)
    copies = program in ("cp", "ln", "rsync", "install") and len(paths) > 1
    return Segment(
        program=program,
        group=Group.WRITE,
        arguments=paths,
        flags=flags,
        reads=paths[:-1] if copies else (),
        writes=paths[-1:] if copies else paths,
        target=" ".join(paths) or None,
    )


def patch(program: str, call: Call) -> Segment:
    flags, arguments = flags_and_arguments(program, call.words)
    body = call.heredocs[-1] if call.heredocs else next((word for word in arguments if "\n" in word), None)
    if not {"--check", "--stat", "--dry-run", "--numstat"}.isdisjoint(flags):
        return Segment(
            program=program, group=Group.READ, arguments=tuple(placed(call, arguments)), flags=flags
        )
    writes = patched_paths(body, call.directory, call.root) if body else ()
    words = tuple(word for word in placed(call, arguments) if "\n" not in word)
    return Segment(
        program=program,
        group=Group.WRITE,
        arguments=words,
        flags=flags,
        body=body,
        writes=writes or (call.path("."),),
        target=" ".join(writes) or None,
    )


def formatter(program: str, call: Call) -> Segment:
    flags, arguments = flags_and_arguments(program, call.words)
    paths = paths_of(call, arguments)
    only_checks = not {"--check", "--check-only", "--diff", "-c", "-d"}.isdisjoint(flags)
    needs = {"autopep8": ("-i", "--in-place"), "gofmt": ("-w",), "goimports": ("-w",)}.get(program)
    writes = not only_checks and (needs is None or not set(needs).isdisjoint(flags))
    return Segment(
        program=program,
        group=Group.WRITE if writes else Group.TEST,
        arguments=paths,
        flags=flags,
        writes=paths if writes else (),
        target=" ".join(paths) or None,
    )


def tee(program: str, call: Call) -> Segment:
    flags, arguments = flags_and_arguments(program, call.words)
    paths = tuple(path for path in paths_of(call, arguments) if path != "ext:/dev/null")
    return Segment(
        program=program,
        group=Group.WRITE if paths else Group.NOTHING,
        arguments=paths,
        flags=flags,
        writes=paths,
        target=" ".join(paths) or None,
        body=call.heredocs[-1] if call.heredocs else None,
    )
