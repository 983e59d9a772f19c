"""Runs files of tests in a cage and reports each test by name. This file's own text is what the cage executes.

It is a keeper and its children: the keeper forks one child a file and repeat, and the child runs pytest in itself. Only
the keeper writes to standard output, and it writes one line, when every child is gone. So what the code under test
prints is not taken for a report, a child that ends itself has reported nothing, and one that ends the keeper ends the
cage with an exit code that is not 0. What a child reports is no evidence of a pass either, because the code under test
shares its process: a pass counts if the test's own end was heard of beside it (`caged_seal`).

A child writes lines into a socket (which cannot be opened again through /proc): what its seals are, before any code
under test runs; each seal that is reached; its report.

Standard library and pytest only: nothing else of ours is in the cage.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import os
import random
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from workers.sandbox.caged_seal import TAMPERED_EXIT, Seals

WORKSPACE = "/workspace"
ARGUMENTS = ["-c", "/opt/cage/pytest.ini", "--rootdir", WORKSPACE, "-q"]
#: A report of more bytes than that is none.
MAX_REPORT_BYTES = 400_000
MAX_CASES = 400
MAX_MESSAGE = 300
MAX_TRACE = 10
_PR_SET_DUMPABLE = 4


class Recorder:
    """A pytest plugin that remembers how each test ended."""

    def __init__(self) -> None:
        self.cases: list[dict[str, Any]] = []

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[None]:
        outcome: Any = yield
        report = outcome.get_result()
        if report.when == "call" or report.outcome != "passed":
            self._add(item.nodeid, report, call.excinfo)

    def pytest_collectreport(self, report: Any) -> None:
        if report.outcome != "passed":
            self._add(report.nodeid, report, None)

    def _add(self, nodeid: str, report: Any, excinfo: Any) -> None:
        is_call = getattr(report, "when", "collect") == "call"
        word = report.outcome
        if hasattr(report, "wasxfail"):
            word = "skipped"
        elif word == "failed" and not is_call:
            word = "error"
        crash = getattr(report.longrepr, "reprcrash", None)
        message = "" if word == "passed" else crash.message if crash is not None else str(report.longrepr)
        has_raised = excinfo is not None and word != "passed"
        trace = _trace(excinfo) if has_raised else []
        self.cases.append(
            {
                "name": nodeid.partition("::")[2],
                "outcome": word,
                "error": excinfo.typename if has_raised else "",
                "message": message[:MAX_MESSAGE],
                "raised_in": trace[-1][0] if trace else "",
                "trace": trace[-MAX_TRACE:],
            }
        )


def _trace(excinfo: Any) -> list[tuple[str, int]]:
    """The lines of the workspace that the error came through, outermost first, as (path, line)."""
    entries = [(str(entry.path), entry.lineno + 1) for entry in excinfo.traceback]
    return [(path[len(WORKSPACE) + 1 :], line) for path, line in entries if path.startswith(WORKSPACE + "/")]


class Watch:
    """Sees whether one of some lines of a file is executed."""

    def __init__(self, path: str, start: int, end: int) -> None:
        self._file = f"{WORKSPACE}/{path}"
        self._lines = range(start, end + 1)
        self.has_reached = False

    def begin(self) -> None:
        sys.settrace(self._enter)

    def _enter(self, frame: Any, _event: str, _argument: Any) -> Any:
        if self.has_reached or frame.f_code.co_filename != self._file:
            return None
        return self._line

    def _line(self, frame: Any, event: str, _argument: Any) -> Any:
        if event == "line" and frame.f_lineno in self._lines:
            self.has_reached = True
            return None
        return self._line


def child(path: str, watch: dict[str, Any] | None, out: int) -> None:
    """Run one file of tests in this process and write its report."""
    os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    random.seed()
    seals = Seals(f"{WORKSPACE}/{path}", out)
    end = seals.arm()
    _tell(out, {"seals": seals.tests})
    del seals
    recorder = Recorder()
    watching = Watch(**watch) if watch else None
    if watching:
        watching.begin()
    pytest.main([*ARGUMENTS, path], plugins=[recorder])
    sys.settrace(None)
    end()
    _tell(
        out,
        {
            "cases": recorder.cases[:MAX_CASES],
            "has_reached": watching.has_reached if watching else None,
        },
    )


def _tell(out: int, what: dict[str, Any]) -> None:
    body = json.dumps(what).encode() + b"\n"
    while body:
        body = body[os.write(out, body) :]


def keep(path: str, watch: dict[str, Any] | None, seconds: float) -> dict[str, Any]:
    """Fork a child for one file, read its report and see to it that nothing of it is left."""
    reading, writing = socket.socketpair()
    process = os.fork()
    if process == 0:
        reading.close()
        try:
            child(path, watch, writing.fileno())
        finally:
            os._exit(0)
    writing.close()
    body, is_late = _read(reading.fileno(), seconds)
    reading.close()
    status = _end(process)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == TAMPERED_EXIT:
        return {"told": "tampered"}
    return {"told": "hung"} if is_late else verdict(body.splitlines())


def verdict(lines: list[bytes]) -> dict[str, Any]:
    """What a child's lines amount to. A report without the seals of what it says has passed is tampered with."""
    try:
        seals, report = json.loads(lines[0])["seals"], json.loads(lines[-1])
        ends = collections.Counter(seals[line.decode()] for line in lines[1:-1])
        passes = collections.Counter(
            case["name"].partition("[")[0] for case in report["cases"] if case["outcome"] == "passed"
        )
        is_sealed = seals.get(lines[-2].decode()) == "" and ends[""] == 1
        sealed = set(seals.values())
    except (ValueError, LookupError, AttributeError, TypeError):
        return {"told": "died"}
    if not is_sealed or any(ends[name] < count for name, count in passes.items() if name in sealed):
        return {"told": "tampered"}
    return {"told": "reported", **report}


def _read(reading: int, seconds: float) -> tuple[bytes, bool]:
    deadline = time.monotonic() + seconds
    body = b""
    while len(body) <= MAX_REPORT_BYTES:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            return body, True
        piece = os.read(reading, 65536)
        if not piece:
            break
        body += piece
        # What the tests left running holds its end of the socket open; nothing that counts comes after the report.
        if body.endswith(b"}\n") and body[:-1].rpartition(b"\n")[2].startswith(b'{"cases"'):
            break
    return body, False


def _end(process: int) -> int:
    """Kill the child, its children and whatever else of this user still runs but the keeper. The child's status."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(-1, signal.SIGKILL)
    return status


def main() -> None:
    """The plan is the last argument, the report one line of JSON."""
    plan = json.loads(sys.argv[-1])
    # Nobody of this user reads or changes the keeper's memory from outside, nor a child's, which inherits that.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    # Who wants memory in the raw has to import them again, which is seen.
    for name in ("ctypes", "ctypes._endian", "_ctypes"):
        sys.modules.pop(name, None)
    reports: dict[str, list[dict[str, Any]]] = {}
    for path, repeats in plan["repeats"].items():
        found = reports[path] = []
        for repeat in range(repeats):
            watch = plan["watch"] if repeat == 0 and path == plan["watched_by"] else None
            # What hung once is not waited for again; the second cage tells whether it always does.
            is_hanging = bool(found) and found[-1]["told"] == "hung"
            found.append({"told": "hung"} if is_hanging else keep(path, watch, plan["seconds"]))
    print(json.dumps(reports))  # noqa: T201 - the report


if __name__ == "__main__":
    main()
