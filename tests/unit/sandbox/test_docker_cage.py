"""The order of a cage's life, and what happens when the engine fails in the middle of it."""

from __future__ import annotations

import io
import tarfile

import pytest
import requests
import structlog
from docker.errors import DockerException

from tests.unit.sandbox.fake_engine import DIGEST, IMAGE, FakeEngine, refusal
from workers.errors import CageError, InputError
from workers.sandbox.base import CageResult, Ending, Limits, Reason, Unprovable
from workers.sandbox.docker import DockerCage


class Time:
    """Moves only when somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits = 0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waits += 1
        self.now += seconds


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def time() -> Time:
    return Time()


def cage_on(engine: FakeEngine, time: Time | None = None, **options: float) -> DockerCage:
    clock = time or Time()
    return DockerCage(
        engine.connect,
        image=IMAGE,
        clock=clock,
        wall_clock=clock,
        wait=clock.wait,
        **options,  # type: ignore[arg-type]
    )


def run(cage: DockerCage, **limits: float) -> CageResult:
    result = cage.run({"a.py": "x"}, ("python", "a.py"), Limits(**limits))  # type: ignore[arg-type]
    assert isinstance(result, CageResult), result
    return result


def test_a_program_that_ends_is_told_in_full(engine: FakeEngine) -> None:
    engine.exit_code = 3

    result = run(cage_on(engine))

    assert (result.ending, result.exit_code, result.oom_killed) == (Ending.EXITED, 3, False)
    assert (result.stdout.text, result.stderr.size_bytes) == ("hello\n", 0)
    assert (result.image_digest, result.limits) == (DIGEST, Limits())
    assert engine.living == {}
    assert engine.stored == {}


def test_nothing_is_missed_because_the_stream_is_attached_before_the_start(engine: FakeEngine) -> None:
    run(cage_on(engine))

    own = [call for call, name in engine.calls if name == "consensus-cage-slot-0"]
    assert own == ["create", "attach", "start", "wait", "reload", "remove"]


def test_the_files_go_into_the_volume_that_the_cage_sees(engine: FakeEngine) -> None:
    seen: list[str] = []
    engine.on_start = lambda: seen.extend(
        str(mount["Source"])
        for mount in engine.living["consensus-cage-slot-0"].arguments["mounts"]
        if mount["ReadOnly"] and mount["Source"] in engine.stored
    )

    run(cage_on(engine))

    with tarfile.open(fileobj=io.BytesIO(engine.received["/workspace"])) as archive:
        assert archive.getnames() == ["a.py"]
    assert len(seen) == 1


def test_without_files_there_is_no_volume(engine: FakeEngine) -> None:
    cage_on(engine).run({}, ("true",), Limits())

    assert "put_archive" not in engine.names()


def test_a_program_that_floods_is_killed_after_its_stream_was_let_go(engine: FakeEngine) -> None:
    engine.exit_code, engine.says = None, b"x" * 3000

    result = run(cage_on(engine), output_bytes=2048, tail_bytes=1024)

    # The fake's kill() fails while the stream is still held.
    assert (result.ending, result.exit_code) == (Ending.OUTPUT_LIMIT, 137)
    assert result.stdout.size_bytes == 2048
    assert engine.living == {}


def test_a_program_past_its_time_is_killed(engine: FakeEngine, time: Time) -> None:
    engine.exit_code = None

    result = run(cage_on(engine, time), timeout_seconds=0.1)

    assert (result.ending, result.timed_out) == (Ending.TIMED_OUT, True)


@pytest.mark.parametrize("status", [404, 409])
def test_a_program_that_ends_while_it_is_killed_is_no_failure(engine: FakeEngine, status: int) -> None:
    engine.exit_code = None
    engine.fail["kill"] = [refusal(status, "is not running")]

    assert run(cage_on(engine), timeout_seconds=0.1).ending is Ending.TIMED_OUT


def test_a_kill_for_memory_is_told_from_other_kills(engine: FakeEngine) -> None:
    engine.exit_code = 137
    assert run(cage_on(engine)).ending is Ending.EXITED

    engine.oom_killed = True
    result = run(cage_on(engine))
    assert (result.ending, result.oom_killed) == (Ending.OUT_OF_MEMORY, True)

    engine.exit_code = 0
    result = run(cage_on(engine))
    assert (result.ending, result.oom_killed) == (Ending.EXITED, True)


def test_a_kill_by_process_1_counts_as_the_timeout_that_it_is(engine: FakeEngine, time: Time) -> None:
    engine.exit_code = 137
    cage = cage_on(engine, time)
    assert cage.check() is None
    # Looks at the clock: for a slot, at the start, before the output, before its end. Then the worker stood still.
    steps = iter([0.0, 0.0, 0.0, 0.0])
    cage._clock = lambda: time.now + next(steps, 5.0)

    assert run(cage, timeout_seconds=2).ending is Ending.TIMED_OUT


def test_the_canary_goes_in_once(engine: FakeEngine) -> None:
    cage = cage_on(engine)

    for _ in range(3):
        run(cage)

    assert engine.canaries == 1
    # Leftovers are looked for before it: one listing of containers and one of volumes.
    assert engine.names().count("list") == 2
    assert engine.names().count("connect") == 1


def test_an_image_that_does_not_confine_is_refused_and_asked_again(engine: FakeEngine) -> None:
    engine.filters = "1"
    cage = cage_on(engine)

    first = cage.run({}, ("true",), Limits())
    assert isinstance(first, Unprovable)
    assert first.reason is Reason.NOT_CONFINED
    assert "start" not in engine.names()

    engine.filters = "2"
    assert isinstance(cage.run({}, ("true",), Limits()), CageResult)


def test_without_an_engine_nothing_is_provable_and_nothing_raises(engine: FakeEngine) -> None:
    engine.fail["connect"] = [DockerException("connection refused")] * 2

    with structlog.testing.capture_logs() as logs:
        result = cage_on(engine).run({}, ("true",), Limits())

    assert result == Unprovable(reason=Reason.NO_ENGINE, sentence="no sandbox: connection refused")
    assert [(line["event"], line["reason"]) for line in logs] == [("cage.unprovable", "no_engine")]


def test_an_engine_that_comes_back_is_used_again(engine: FakeEngine) -> None:
    engine.fail["connect"] = [DockerException("connection refused")]
    cage = cage_on(engine)

    assert isinstance(cage.run({}, ("true",), Limits()), Unprovable)
    assert isinstance(cage.run({}, ("true",), Limits()), CageResult)


@pytest.mark.parametrize("call", ["create", "attach", "start", "wait", "reload", "put_archive"])
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(refusal(500, "disk full"), id="refused"),
        pytest.param(requests.ConnectionError("read timed out"), id="hangs"),
        pytest.param(ConnectionResetError("reset"), id="breaks off"),
    ],
)
def test_an_engine_that_fails_in_the_middle_is_our_failure_and_leaves_nothing(
    engine: FakeEngine, call: str, error: Exception
) -> None:
    cage = cage_on(engine)
    assert cage.check() is None
    engine.fail[call] = [error]

    with pytest.raises(CageError, match=r"^the Docker engine failed while running a program: "):
        run(cage)

    assert (engine.living, engine.stored) == ({}, {})


def test_what_cannot_be_removed_is_left_to_the_sweep(engine: FakeEngine, time: Time) -> None:
    cage = cage_on(engine, time)
    assert cage.check() is None
    # The first removal is the porter's.
    engine.fail["remove"] = [refusal(500, "device busy")]

    with structlog.testing.capture_logs() as logs:
        result = run(cage)
    assert result.ending is Ending.EXITED
    assert [line["why"] for line in logs if line["event"] == "cage.left_behind"] == ["device busy"]
    assert len(engine.living) == 1
    assert cage.sweep().containers == 0

    # 120 s for a slot, 10 s to run, 120 s of margin.
    time.now += 251
    swept = cage.sweep()
    assert (swept.containers, len(engine.living)) == (1, 0)


def test_a_taken_slot_leads_to_the_next(engine: FakeEngine) -> None:
    cage = cage_on(engine)
    assert cage.check() is None
    occupied = engine.create(name="consensus-cage-slot-0", command=[], labels={})

    with structlog.testing.capture_logs() as logs:
        run(cage)

    assert [line["slot"] for line in logs if line["event"] == "cage.ran"] == [1]
    assert engine.living == {occupied.name: occupied}


def test_when_every_slot_is_busy_the_run_waits_for_one(engine: FakeEngine, time: Time) -> None:
    cage = cage_on(engine, time, parallel=1)
    assert cage.check() is None
    occupied = engine.create(name="consensus-cage-slot-0", command=[], labels={})

    def free_it(seconds: float) -> None:
        time.wait(seconds)
        if time.waits == 30:
            occupied.remove()

    cage._wait = free_it

    assert run(cage).ending is Ending.EXITED
    assert time.waits == 30


def test_a_slot_that_stays_busy_ends_the_wait_with_a_sentence(engine: FakeEngine, time: Time) -> None:
    cage = cage_on(engine, time, parallel=1, slot_wait_seconds=60)
    assert cage.check() is None
    engine.create(name="consensus-cage-slot-0", command=[], labels={})

    with pytest.raises(CageError, match="all 1 cages of the engine were busy for 60 s"):
        run(cage)
    assert engine.stored == {}


def test_cores_are_asked_for_as_far_as_there_are(engine: FakeEngine) -> None:
    assert run(cage_on(engine), cpus=8).limits.cpus == 2


@pytest.mark.parametrize("command", [(), ("",), ("a\0b",), ("sh", "-c", "a\0b")])
def test_a_command_that_is_none_is_refused(engine: FakeEngine, command: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="a cage needs a command"):
        cage_on(engine).run({}, command, Limits())
    assert engine.calls == []


def test_every_run_is_one_line_in_the_log(engine: FakeEngine) -> None:
    cage = cage_on(engine)
    assert cage.check() is None

    with structlog.testing.capture_logs() as logs:
        run(cage)

    (line,) = logs
    assert (line["event"], line["ending"], line["exit_code"], line["image"]) == (
        "cage.ran",
        "exited",
        0,
        DIGEST,
    )
    assert (line["slot"], line["stdout_bytes"], line["stderr_bytes"]) == (0, 6, 0)
