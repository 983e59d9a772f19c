"""Programs that take more than they were given: processes, memory, disk, output, time."""

from __future__ import annotations

import hashlib
import json
import signal

import pytest

from tests.sandbox.conftest import RunProgram
from workers.sandbox.base import MIB, Ending

pytestmark = pytest.mark.cage


def test_a_fork_bomb_stays_in_its_cage_and_ends_with_it(run: RunProgram) -> None:
    bomb = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
    result = run(bomb, timeout_seconds=2)

    # Children that fail may write; what ends it does not matter, that it ends does (and the fixture counts the rest).
    assert result.ending is Ending.TIMED_OUT
    assert result.exit_code == 128 + signal.SIGKILL
    assert 2 <= result.duration_seconds < 6


def test_no_more_processes_can_be_made_than_allowed(run: RunProgram) -> None:
    counting = """
import os, signal
children = []
try:
    while True:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except OSError as error:
    print(len(children), error.strerror)
for child in children:
    os.kill(child, signal.SIGKILL)
"""
    result = run(counting, processes=32)

    # 32 in all: timeout(1), the program, and 30 children.
    assert result.stdout.text == "30 Resource temporarily unavailable\n"


def test_threads_are_counted_as_processes(run: RunProgram) -> None:
    threads = """
import threading
stop, made = threading.Event(), 0
try:
    while True:
        threading.Thread(target=stop.wait).start()
        made += 1
except RuntimeError:
    print(made)
stop.set()
"""
    assert run(threads, processes=32).stdout.text == "30\n"


def test_a_memory_hog_is_killed_and_said_to_be_one(run: RunProgram) -> None:
    result = run("hog = bytearray(1 << 30)", memory_bytes=64 * MIB)

    assert (result.ending, result.exit_code, result.oom_killed) == (Ending.OUT_OF_MEMORY, 137, True)


def test_a_program_whose_child_ate_the_memory_may_go_on(run: RunProgram) -> None:
    program = """
import os
if os.fork() == 0:
    hog = bytearray(1 << 30)
print("child died of signal", os.wait()[1])
"""
    result = run(program, memory_bytes=64 * MIB)

    assert (result.ending, result.exit_code, result.oom_killed) == (Ending.EXITED, 0, True)
    assert result.stdout.text == "child died of signal 9\n"


FILL = """
import errno, json, os
def fill(folder, block, most):
    written, files, error = 0, 0, None
    while files < most:
        try:
            with open(f"{folder}/{files}", "wb", buffering=0) as file:
                files += 1
                if block:
                    for _ in range(8):
                        written += file.write(block)
        except OSError as e:
            error = errno.errorcode[e.errno]
            break
    for number in range(files):
        os.unlink(f"{folder}/{number}")
    return written, files, error
"""


def test_the_scratch_folder_fills_up_at_its_size(run: RunProgram) -> None:
    result = run(FILL + 'print(json.dumps(fill("/tmp", bytes(1 << 20), 1000)))', scratch_bytes=16 * MIB)

    assert json.loads(result.stdout.tail) == [16 * MIB, 3, "ENOSPC"]


def test_shared_memory_is_no_second_disk(run: RunProgram) -> None:
    result = run(FILL + 'print(json.dumps(fill("/dev/shm", bytes(1 << 16), 1000)))')

    assert json.loads(result.stdout.tail) == [1 * MIB, 3, "ENOSPC"]


def test_empty_files_run_out_too(run: RunProgram) -> None:
    result = run(FILL + 'print(json.dumps(fill("/tmp", b"", 100000)))', scratch_files=100)

    # One of the hundred is the folder itself.
    assert json.loads(result.stdout.tail) == [0, 99, "ENOSPC"]


def test_a_sparse_file_is_no_longer_than_the_disk(run: RunProgram) -> None:
    program = """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    open("/tmp/sparse", "wb").truncate(1 << 40)
except OSError as error:
    print(error.strerror)
"""
    assert run(program).stdout.text == "File too large\n"


def test_a_gigabyte_of_output_ends_the_run_at_the_limit_and_its_end_is_kept(run: RunProgram) -> None:
    flood = """
import os
line = b"x" * 1023 + b"\\n"
for _ in range(1 << 20):
    os.write(1, line)
"""
    result = run(flood, output_bytes=256 * 1024, tail_bytes=64 * 1024)

    line = b"x" * 1023 + b"\n"
    assert result.ending is Ending.OUTPUT_LIMIT
    assert (result.stdout.size_bytes, result.stdout.truncated) == (256 * 1024, True)
    assert result.stdout.tail == line * 64
    assert result.stdout.sha256 == hashlib.sha256(line * 256).hexdigest()
    assert result.duration_seconds < 10


def test_a_flood_of_errors_is_bounded_as_well_and_the_other_stream_kept_apart(run: RunProgram) -> None:
    result = run(
        "import os\nprint('before', flush=True)\nwhile True: os.write(2, b'e' * 4096)", output_bytes=64 * 1024
    )

    assert result.ending is Ending.OUTPUT_LIMIT
    assert result.stdout.text == "before\n"
    assert result.stderr.size_bytes == 64 * 1024


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("while True: pass", id="busy"),
        pytest.param("import time; time.sleep(3600)", id="idle"),
        pytest.param(
            "import signal\nfor n in set(signal.Signals) - {9, 19}: signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
            id="deaf to every signal that can be ignored",
        ),
        pytest.param("import os; os.kill(os.getpid(), 19)", id="stopped by itself"),
        pytest.param("import os\nos.close(1); os.close(2)\nwhile True: pass", id="with its output closed"),
    ],
)
def test_an_endless_program_is_killed_at_its_time(run: RunProgram, program: str) -> None:
    result = run(program, timeout_seconds=1)

    assert (result.ending, result.exit_code, result.oom_killed) == (Ending.TIMED_OUT, 137, False)
    assert 1 <= result.duration_seconds < 4


def test_children_in_the_background_neither_hold_the_run_open_nor_outlive_it(run: RunProgram) -> None:
    program = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("still here", flush=True)
        time.sleep(3600)
    os._exit(0)
os.wait()
time.sleep(0.2)
print("done")
"""
    result = run(program)

    assert (result.ending, result.exit_code) == (Ending.EXITED, 0)
    assert result.stdout.text == "still here\ndone\n"
    assert result.duration_seconds < 20


def test_the_end_of_process_1_cannot_be_had_from_inside(run: RunProgram) -> None:
    program = """
import os, time
os.kill(1, 9); os.kill(1, 19)
time.sleep(0.2)
print("process 1 is", open("/proc/1/comm").read().strip())
"""
    assert run(program).stdout.text == "process 1 is timeout\n"


def test_busy_threads_share_the_one_core_that_was_given(run: RunProgram) -> None:
    program = """
import os, resource, time
began = time.monotonic()
for _ in range(3):
    if os.fork() == 0:
        while time.monotonic() < began + 1: pass
        os._exit(0)
for _ in range(3): os.wait()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print((used.ru_utime + used.ru_stime) / (time.monotonic() - began))
"""
    # Half a core is allowed; the kernel gives it in slices of 0.1 s, so a second may end one slice over.
    assert float(run(program, cpus=0.5).stdout.text) < 0.65
