"""The cage's entry point: takes system calls away from the program that it then becomes.

Docker's own seccomp profile stays in force underneath. What older engines still allow and no test needs goes here:
tracing other processes, programs that exist only in memory (which would make `noexec` a formality), io_uring, sockets
to the machine's hypervisor. The filter is classic BPF as in seccomp(2); numbers are those of the kernel's unistd.h.
It runs as the untrusted user and needs nothing but Python's standard library.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

# fmt: off
#: Per machine: AUDIT_ARCH_*, the number of socket(2), the numbers that are refused.
MACHINES = {
    "x86_64": (0xC000003E, 41, (
        101, 310, 311,             # ptrace, process_vm_readv, process_vm_writev
        425, 426, 427,             # io_uring_setup, io_uring_enter, io_uring_register
        319, 447,                  # memfd_create, memfd_secret
        434, 438, 323, 321, 298,   # pidfd_open, pidfd_getfd, userfaultfd, bpf, perf_event_open
        248, 249, 250,             # add_key, request_key, keyctl
        165, 272, 133, 259,        # mount, unshare, mknod, mknodat
    )),
    "aarch64": (0xC00000B7, 198, (
        117, 270, 271,
        425, 426, 427,
        279, 447,
        434, 438, 282, 280, 241,
        217, 218, 219,
        40, 97, 33,
    )),
}
# fmt: on
#: AF_UNIX, AF_INET, AF_INET6. Without a network they reach the cage's own loopback at most.
SOCKET_FAMILIES = (1, 2, 10)

_LOAD_WORD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_AT_NUMBER, _AT_ARCHITECTURE, _AT_FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_X32_CALLS = 0x40000000  # a second numbering of the same calls on x86_64
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_UNKNOWN_MACHINE_EXIT = 125


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def filter_program(machine: str) -> bytes:
    """The BPF program, 8 bytes an instruction. Raises: KeyError for a machine whose numbers are not known here."""
    architecture, socket_call, refused = MACHINES[machine]
    program = [
        _instruction(_LOAD_WORD, _AT_ARCHITECTURE),
        _instruction(_JUMP_EQUAL, architecture, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD_WORD, _AT_NUMBER),
        _instruction(_JUMP_AT_LEAST, _X32_CALLS, 0, 1),
        _instruction(_RETURN, _KILL),
    ]
    for number in refused:
        program += [_instruction(_JUMP_EQUAL, number, 0, 1), _instruction(_RETURN, _REFUSE | errno.EPERM)]
    # Anything but socket(2) jumps over its families, each of which is a comparison and a return.
    program += [
        _instruction(_JUMP_EQUAL, socket_call, 0, 2 * len(SOCKET_FAMILIES) + 2),
        _instruction(_LOAD_WORD, _AT_FIRST_ARGUMENT),
    ]
    for family in SOCKET_FAMILIES:
        program += [_instruction(_JUMP_EQUAL, family, 0, 1), _instruction(_RETURN, _ALLOW)]
    program += [_instruction(_RETURN, _REFUSE | errno.EAFNOSUPPORT), _instruction(_RETURN, _ALLOW)]
    return b"".join(program)


def restrict(machine: str) -> None:
    """Put the filter on this process and all that it becomes. Raises: OSError when the kernel refuses it."""
    libc = ctypes.CDLL(None, use_errno=True)
    program = filter_program(machine)
    instructions = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(instructions))  # struct sock_fprog
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs was refused")
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.create_string_buffer(header)) != 0:
        raise OSError(ctypes.get_errno(), "the seccomp filter was refused")


def main() -> None:
    machine = platform.machine()
    if machine not in MACHINES:
        print(f"cage: no system call filter for {machine}; known: {', '.join(MACHINES)}", file=sys.stderr)  # noqa: T201
        sys.exit(_UNKNOWN_MACHINE_EXIT)
    restrict(machine)
    try:
        os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 # nosec B606 # becoming it is the point
    except OSError as error:
        print(f"cage: cannot start {sys.argv[1]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()
