"""The canary's report: one wrong thing is enough to refuse, and it is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from workers.sandbox.base import CageResult, Ending, Limits, Output
from workers.sandbox.probe import faults

LIMITS = Limits()
GOOD: dict[str, Any] = {
    "uid": 20001,
    "capabilities": ["0000000000000000"] * 5,
    "no_new_privileges": "1",
    "seccomp": "2",
    "filters": "2",
    "interfaces": ["lo"],
    "root": ["ro", "relatime"],
    "scratch": ["rw", "nosuid", "nodev", "noexec", "relatime"],
    "scratch_bytes": 64 * 1024 * 1024,
    "writable": [],
    "processes": "64",
    "memory_bytes": str(256 * 1024 * 1024),
}


def result(said: bytes, *, ending: Ending = Ending.EXITED, exit_code: int = 0) -> CageResult:
    return CageResult(
        ending=ending,
        exit_code=exit_code,
        oom_killed=False,
        duration_seconds=0.1,
        stdout=Output(tail=said, size_bytes=len(said), sha256=""),
        stderr=Output(tail=b"first\nlast words\n", size_bytes=17, sha256=""),
        image_digest="sha256:1",
        limits=LIMITS,
    )


def found(**changes: Any) -> list[str]:
    return faults(result(json.dumps({**GOOD, **changes}).encode()), uid=20001)


def test_a_cage_that_holds_has_no_faults() -> None:
    assert found() == []


def test_kernels_that_do_not_count_filters_are_taken_at_their_word() -> None:
    assert found(filters="") == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"uid": 0}, "it runs as uid 0"),
        ({"capabilities": ["0000000000000000", "00000000a80425fb"]}, "it has capabilities"),
        ({"no_new_privileges": "0"}, "it may gain privileges"),
        ({"seccomp": "0"}, "its system calls are not filtered"),
        ({"filters": "1"}, "the launcher's filter is missing"),
        ({"interfaces": ["eth0", "lo"]}, "it has network interfaces ['eth0', 'lo']"),
        ({"root": ["rw"]}, "its root is writable"),
        ({"writable": ["/opt/cage"]}, "it can write to ['/opt/cage']"),
        ({"scratch": ["rw", "nosuid", "nodev"]}, "/tmp is not a bounded noexec tmpfs"),
        ({"scratch_bytes": 1 << 40}, "/tmp is not a bounded noexec tmpfs"),
        ({"processes": "max"}, "its processes are limited to max"),
        ({"memory_bytes": None}, "its memory is limited to None"),
    ],
)
def test_each_hole_is_named(changes: dict[str, Any], fault: str) -> None:
    assert found(**changes) == [fault]


def test_a_canary_that_dies_is_quoted() -> None:
    dead = result(b"", exit_code=127)
    assert faults(dead, uid=1) == ["the canary ended with exited, exit code 127: last words"]
    late = result(b"", ending=Ending.TIMED_OUT, exit_code=137)
    assert faults(late, uid=1) == ["the canary ended with timed_out, exit code 137: last words"]


@pytest.mark.parametrize("said", [b"", b"{", b"[]", b"null", b'{"uid": 20001}'])
def test_a_canary_that_talks_nonsense_proves_nothing(said: bytes) -> None:
    assert faults(result(said), uid=20001) == ["the canary said nothing that can be read"]
