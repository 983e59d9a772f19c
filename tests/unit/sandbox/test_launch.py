"""The launcher's filter, run by a small interpreter of classic BPF: for machines that we do not have, too."""

from __future__ import annotations

import errno
import struct

import pytest

from workers.sandbox.image.launch import MACHINES, SOCKET_FAMILIES, filter_program

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, EAFNOSUPPORT = 0x00050000 | errno.EPERM, 0x00050000 | errno.EAFNOSUPPORT
X86_64, AARCH64 = 0xC000003E, 0xC00000B7


def verdict(machine: str, number: int, argument: int = 0, architecture: int | None = None) -> int:
    """What the kernel would do with a call (seccomp(2): number, architecture, instruction pointer, arguments)."""
    found = MACHINES[machine][0] if architecture is None else architecture
    data = struct.pack("<IIQ6Q", number, found, 0, argument, 0, 0, 0, 0, 0)
    program = list(struct.iter_unpack("HBBI", filter_program(machine)))
    at, accumulator = 0, 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == 0x06:
            return value
        else:
            holds = accumulator == value if code == 0x15 else accumulator >= value
            assert code in {0x15, 0x35}
            at += if_true if holds else if_false


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_listed_is_refused_and_its_neighbours_are_not(machine: str) -> None:
    _, socket_call, refused = MACHINES[machine]

    assert {verdict(machine, number) for number in refused} == {EPERM}
    ordinary = set(range(500)) - set(refused) - {socket_call}
    assert {verdict(machine, number) for number in ordinary} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets_are_for_the_families_that_a_cage_needs(machine: str) -> None:
    socket_call = MACHINES[machine][1]

    answers = {family: verdict(machine, socket_call, family) for family in range(50)}

    assert {family for family, answer in answers.items() if answer == ALLOW} == {1, 2, 10}
    assert set(answers.values()) == {ALLOW, EAFNOSUPPORT}
    assert SOCKET_FAMILIES == (1, 2, 10)


def test_calls_of_another_architecture_are_deadly() -> None:
    assert verdict("x86_64", 39, architecture=0x40000003) == KILL  # 32-bit x86
    assert verdict("x86_64", 39, architecture=AARCH64) == KILL
    assert verdict("aarch64", 172, architecture=X86_64) == KILL
    assert verdict("x86_64", 0x40000000 + 39) == KILL  # x32


def test_the_numbers_are_the_kernels() -> None:
    """ptrace, memfd_create, unshare by unistd.h of each machine; the rest is tried in a real cage."""
    for machine, numbers in (("x86_64", (101, 319, 272)), ("aarch64", (117, 279, 97))):
        assert set(numbers) <= set(MACHINES[machine][2])
    assert len(MACHINES["x86_64"][2]) == len(MACHINES["aarch64"][2]) + 1  # aarch64 has no mknod


def test_an_unknown_machine_has_no_filter() -> None:
    with pytest.raises(KeyError):
        filter_program("riscv64")
