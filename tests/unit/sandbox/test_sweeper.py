"""Who looks for leftovers now and then."""

from __future__ import annotations

import threading

from structlog.testing import capture_logs

from workers.errors import CageError
from workers.sandbox.sweeper import Sweeper


def test_it_looks_again_and_again_whatever_happens_to_a_look() -> None:
    looks: list[int] = []
    enough = threading.Event()

    def sweep() -> None:
        looks.append(1)
        if len(looks) == 1:
            raise CageError("the engine is away")
        if len(looks) == 2:
            raise RuntimeError("never seen before")
        enough.set()

    sweeper = Sweeper(sweep, every_seconds=0.001)
    with capture_logs():
        sweeper.start()
        assert enough.wait(10)
        sweeper.close()


def test_an_engine_that_stays_away_is_told_once() -> None:
    answers = iter([CageError("away"), CageError("away"), None, CageError("away")])

    def sweep() -> None:
        answer = next(answers)
        if answer:
            raise answer

    sweeper = Sweeper(sweep)
    with capture_logs() as logs:
        for _ in range(4):
            sweeper.look()

    assert logs == [{"event": "cage.not_swept", "log_level": "info", "why": "away"}] * 2


def test_what_nobody_expected_is_told_every_time() -> None:
    def sweep() -> None:
        raise RuntimeError("never seen before")

    sweeper = Sweeper(sweep)
    with capture_logs() as logs:
        sweeper.look()
        sweeper.look()

    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("cage.sweep_broke", "error")] * 2


def test_a_sweep_that_hangs_keeps_no_process_alive() -> None:
    hanging, seen = threading.Event(), list[tuple[str, bool]]()

    def sweep() -> None:
        thread = threading.current_thread()
        seen.append((thread.name, thread.daemon))
        hanging.set()

    sweeper = Sweeper(sweep, every_seconds=0.001)
    sweeper.start()
    assert hanging.wait(10)
    sweeper.close()
    assert set(seen) == {("sweeper", True)}
