"""What a program text inside a command line does: inline scripts (`python -c`, here-documents) and
patches."""

from __future__ import annotations

import re

from workers.agentlens.paths import normalise

_OPENED = re.compile(
    r"""open\(\s*(?:(?P<quote>["'])(?P<literal>[^"'\n]+)(?P=quote)|(?P<name>\w+))\s*,"""
    r"""\s*(?:mode\s*=\s*)?["'](?:[wax]|r\+)"""
)
_WRITTEN = re.compile(
    r"""(?:Path\(\s*(?P<quote>["'])(?P<literal>[^"'\n]+)(?P=quote)\s*\)|\b(?P<name>\w+))"""
    r"""\.(?:write_text|write_bytes|unlink|touch|rename)\("""
)
_REMOVED = re.compile(
    r"""(?:\bos\.(?:remove|unlink|rename|replace)\(|\bshutil\.(?:move|rmtree|copy\w*)\(|\bfs\.writeFileSync\("""
    r"""|\bFile\.write\()(?:[^)\n]*?["'](?P<literal>[^"'\n]+)["']|(?P<name>\w+))"""
)
# What a script must hold for a pattern to be worth a try.
_WRITING = (
    (("open(",), _OPENED),
    ((".write_text(", ".write_bytes(", ".unlink(", ".touch(", ".rename("), _WRITTEN),
    (("os.re", "os.unlink(", "shutil.", "fs.writeFileSync(", "File.write("), _REMOVED),
)
_ASSIGNED = re.compile(
    r"""\b(\w+)(?=\s*(?::\s*\w+\s*)?=\s*(?:\w+\.)*(?:Path\(\s*)?[rfb]?["']([^"'\n]+)["'])"""
)
_LOOPED = re.compile(r"""\bfor\s+(?=(\w+)\s+in\s*[\[(]\s*["']([^"'\n]+)["'])""")
_CHECKER = re.compile(
    r"\bpytest\.main\(|\bunittest\.main\(|\bunittest\.TextTestRunner|\bcall_command\(\s*['\"]test|\bdoctest\.testmod\("
)
_PATCHED = re.compile(
    r"^\*\*\* (?:Add|Update|Delete) File: (.+?)\s*$|^\*\*\* Move to: (.+?)\s*$", re.MULTILINE
)
_NO_FILE = frozenset(("/dev/null", "NUL"))
_DIFFED = re.compile(r"^(?:\+\+\+|---) (?:[abciow]/)?(\S+)", re.MULTILINE)


def written_paths(script: str, directory: str, root: str) -> tuple[str, ...]:
    """The files that an inline script opens for writing, rewrites, renames or removes, as far as its
    text says.

    A name is looked up where the script assigns it a text; what is computed at run time is not seen."""
    found: dict[str, None] = {}
    for signs, pattern in _WRITING:
        if any(map(script.__contains__, signs)):
            for match in pattern.finditer(script):
                path = match["literal"] or _assigned(script, match["name"])
                if path:
                    found[normalise(path, directory, root)] = None
    return tuple(found)


def _assigned(script: str, name: str) -> str | None:
    for form in (_ASSIGNED, _LOOPED):
        for match in form.finditer(script):
            if match[1] == name:
                return match[2]
    return None


def runs_checks(script: str) -> bool:
    """Whether an inline script is itself a test run."""
    return _CHECKER.search(script) is not None


def patched_file(before: str, line: str) -> str | None:
    """The file, as a patch names it, that begins with `line`, which comes after the line `before`; None if none
    does. A removed file keeps the name that it had."""
    agents = _PATCHED.match(line)
    if agents:
        return agents[1]
    if not (before.startswith("--- ") and line.startswith("+++ ")):
        return None
    names = [match[1] for match in map(_DIFFED.match, (line, before)) if match]
    return next((name for name in names if name not in _NO_FILE), None)


def patched_paths(patch: str, directory: str, root: str) -> tuple[str, ...]:
    """The files named by a patch, in the `*** Update File:` form or as a unified diff."""
    found: dict[str, None] = {}
    for match in _PATCHED.finditer(patch):
        found[normalise(match[1] or match[2], directory, root)] = None
    if not found:
        for match in _DIFFED.finditer(patch):
            if match[1] not in _NO_FILE:
                found[normalise(match[1], directory, root)] = None
    return tuple(found)
