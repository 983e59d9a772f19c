"""Programs that reach for what is outside: the network, other files, other processes, the worker's secrets."""

from __future__ import annotations

import json
import socket

import pytest

from tests.sandbox.conftest import RunProgram
from workers.sandbox.base import Ending, Limits, Unprovable
from workers.sandbox.docker import DockerCage

pytestmark = pytest.mark.cage


def test_there_is_no_network_and_no_name_service(run: RunProgram) -> None:
    # 192.0.2.1 is an address that belongs to nobody (RFC 5737).
    program = """
import errno, json, os, socket
said = {"interfaces": os.listdir("/sys/class/net")}
try:
    socket.create_connection(("192.0.2.1", 80), timeout=3)
except OSError as error:
    said["tcp"] = errno.errorcode[error.errno]
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53))
except OSError as error:
    said["udp"] = errno.errorcode[error.errno]
try:
    socket.getaddrinfo("example.com", 80)
except socket.gaierror as error:
    said["dns"] = "no"
print(json.dumps(said))
"""
    assert json.loads(run(program).stdout.tail) == {
        "interfaces": ["lo"],
        "tcp": "ENETUNREACH",
        "udp": "ENETUNREACH",
        "dns": "no",
    }


def test_the_loopback_is_the_cages_own_and_works_by_name(run: RunProgram) -> None:
    program = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", PORT), timeout=3)
    print("reached the machine")
except ConnectionRefusedError:
    pass
server = socket.create_server(("localhost", 0))
client = socket.create_connection(("localhost", server.getsockname()[1]), timeout=3)
print("own loopback")
"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        result = run(program.replace("PORT", str(server.getsockname()[1])))

    assert (result.stdout.text, result.stderr.text) == ("own loopback\n", "")


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        pytest.param("AF_INET", "SOCK_RAW", id="raw"),
        pytest.param("AF_PACKET", "SOCK_RAW", id="packet"),
        pytest.param("AF_VSOCK", "SOCK_STREAM", id="to the hypervisor"),
        pytest.param("AF_NETLINK", "SOCK_RAW", id="netlink"),
        pytest.param("AF_ALG", "SOCK_SEQPACKET", id="kernel crypto"),
    ],
)
def test_sockets_past_the_network_are_refused(run: RunProgram, family: str, kind: str) -> None:
    result = run(f"import socket; socket.socket(socket.{family}, socket.{kind})")

    assert result.exit_code == 1
    assert "PermissionError" in result.stderr.text or "not supported" in result.stderr.text


def test_only_the_scratch_folder_and_shared_memory_can_be_written(run: RunProgram) -> None:
    program = """
import json, os
written = []
for folder, below, _ in os.walk("/"):
    if folder in ("/proc", "/sys"):
        below.clear()
        continue
    try:
        os.close(os.open(folder + "/canary", os.O_CREAT | os.O_WRONLY))
        written.append(folder)
    except OSError:
        pass
for path in ("/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/self/oom_score_adj", "/sys/kernel/mm/ksm/run",
             "/workspace/code.py", "/opt/cage/launch.py", "/etc/passwd"):
    try:
        os.close(os.open(path, os.O_WRONLY))
        written.append(path)
    except OSError:
        pass
print(json.dumps(sorted(written)))
"""
    result = run(program, {"code.py": "x = 1\n"})

    # A process may always make itself a likelier victim of the kernel; the kernel refuses the other direction.
    assert json.loads(result.stdout.tail) == ["/dev/shm", "/proc/self/oom_score_adj", "/tmp"]


def test_the_workspace_is_read_only_even_with_the_owners_permissions(run: RunProgram) -> None:
    program = """
import errno, os
for attempt in (
    lambda: os.chmod("/workspace/code.py", 0o777),
    lambda: os.unlink("/workspace/code.py"),
    lambda: os.rename("/workspace/code.py", "/workspace/other.py"),
    lambda: os.symlink("/etc/passwd", "/workspace/link"),
    lambda: os.mkdir("/workspace/new"),
):
    try:
        attempt()
        print("done")
    except OSError as error:
        print(errno.errorcode[error.errno])
print(open("/workspace/code.py").read(), open("/workspace/deep/er/data.bin", "rb").read())
"""
    result = run(program, {"code.py": "x = 1", "deep/er/data.bin": b"\x00\xff"})

    assert result.stdout.text == "EROFS\n" * 5 + "x = 1 b'\\x00\\xff'\n"


def test_nothing_can_be_executed_from_the_scratch_folder(run: RunProgram) -> None:
    program = """
import ctypes, os, shutil, subprocess
for folder in ("/tmp", "/dev/shm"):
    shutil.copy("/usr/bin/ls" if os.path.exists("/usr/bin/ls") else "/bin/ls", folder + "/tool")
    os.chmod(folder + "/tool", 0o755)
    try:
        subprocess.run([folder + "/tool"])
        print("ran")
    except PermissionError:
        print("refused")
try:
    os.memfd_create("hidden")
    print("in memory")
except PermissionError:
    print("refused")
"""
    assert run(program).stdout.text == "refused\n" * 3


def test_a_symbolic_link_leads_nowhere_that_the_program_could_not_go(run: RunProgram) -> None:
    program = """
import errno, os
for target in ("/etc/passwd", "/proc/1/root/etc/passwd", "/workspace/code.py"):
    os.symlink(target, "/tmp/link")
    try:
        open("/tmp/link", "a")
        print("written")
    except OSError as error:
        print("refused")
    os.unlink("/tmp/link")
print(os.path.exists("/proc/1/root/var/run/docker.sock"), os.path.exists("/var/run/docker.sock"))
"""
    assert run(program, {"code.py": ""}).stdout.text == "refused\n" * 3 + "False False\n"


def test_the_workers_environment_stays_with_the_worker(
    cage: DockerCage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-must-not-leak")
    program = """
import glob, json, os
texts = []
for path in glob.glob("/proc/[0-9]*/environ"):
    texts.append(open(path).read())
print(json.dumps({"names": sorted(os.environ), "processes": len(texts), "text": "".join(texts)}))
"""
    result = cage.run({}, ("python", "-c", program), Limits(timeout_seconds=30))

    assert not isinstance(result, Unprovable)
    seen = json.loads(result.stdout.tail)
    assert seen["processes"] == 2
    assert "HOME=/tmp" in seen["text"]
    assert "sk-must-not-leak" not in seen["text"]
    known = {"HOME", "HOSTNAME", "LANG", "PATH", "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTHONDONTWRITEBYTECODE"}
    # What a public Python image sets of its own.
    of_the_base = {
        "GPG_KEY",
        "PYTHON_VERSION",
        "PYTHON_SHA256",
        "PYTHON_PIP_VERSION",
        "PYTHON_SETUPTOOLS_VERSION",
    }
    assert set(seen["names"]) - of_the_base == known | {"PYTHONUNBUFFERED", "TMPDIR"}


def test_a_program_sees_no_process_but_those_of_its_cage(run: RunProgram) -> None:
    program = """
import glob
print(sorted(open(path).read().strip() for path in glob.glob("/proc/[0-9]*/comm")))
"""
    assert run(program).stdout.text == "['python', 'timeout']\n"


CALLS = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "io_uring_setup": (425, 425),
    "memfd_secret": (447, 447),
    "pidfd_open": (434, 434),
    "userfaultfd": (323, 282),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "add_key": (248, 217),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "unshare": (272, 97),
    "setns": (308, 268),
}


@pytest.mark.parametrize("name", CALLS)
def test_system_calls_that_no_test_needs_are_refused(run: RunProgram, name: str) -> None:
    numbers = CALLS[name]
    program = f"""
import ctypes, errno, platform
number = {numbers[0]} if platform.machine() == "x86_64" else {numbers[1]}
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(number, 0, 0, 0, 0, 0, 0), errno.errorcode[ctypes.get_errno()])
"""
    assert run(program).stdout.text == "-1 EPERM\n"


def test_the_other_numbering_of_system_calls_is_deadly(run: RunProgram) -> None:
    program = """
import ctypes, os, platform, signal
if os.fork() == 0:
    if platform.machine() == "x86_64":
        ctypes.CDLL(None).syscall(0x40000000 + 39)  # getpid by its x32 number
    else:
        os.kill(os.getpid(), signal.SIGSYS)
    os._exit(0)
print(signal.Signals(os.wait()[1] & 0x7F).name)
"""
    assert run(program).stdout.text == "SIGSYS\n"


def test_privileges_cannot_be_gained(run: RunProgram) -> None:
    program = """
import os
for attempt in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]), lambda: os.chroot("/tmp")):
    try:
        attempt()
        print("done")
    except PermissionError:
        print("refused")
found = [
    path
    for folder, _, names in os.walk("/")
    if not folder.startswith(("/proc", "/sys"))
    for name in names
    if os.path.isfile(path := os.path.join(folder, name)) and os.stat(path).st_mode & 0o6000
]
print(found, os.getgroups())
"""
    lines = run(program).stdout.text.splitlines()

    assert lines[:4] == ["refused"] * 4
    assert lines[4].startswith("[] ")
    assert "0" not in lines[4].removeprefix("[] ").strip("[]").split(", ")


def test_what_tests_do_need_works(run: RunProgram) -> None:
    program = """
import asyncio, multiprocessing, sqlite3, subprocess, tempfile, threading
queue = multiprocessing.Queue()
child = multiprocessing.Process(target=queue.put, args=("process",)); child.start(); print(queue.get()); child.join()
print(asyncio.run(asyncio.sleep(0, "asyncio")))
with tempfile.NamedTemporaryFile() as file:
    sqlite3.connect(file.name).execute("create table t (x)")
print(subprocess.run(["sh", "-c", "echo shell"], capture_output=True, text=True).stdout.strip())
"""
    result = run(program)

    assert (result.ending, result.stderr.text) == (Ending.EXITED, "")
    assert result.stdout.text == "process\nasyncio\nshell\n"
