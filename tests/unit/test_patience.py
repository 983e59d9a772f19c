"""What was paid for is written although the database is away for a moment; what it cannot write, it says."""

from __future__ import annotations

import dataclasses

import pytest

from workers.errors import UnavailableError
from workers.stages.patience import PAUSE_SECONDS, patiently


@dataclasses.dataclass
class Desk:
    """The part of a context that patience needs."""

    lease_seconds: float
    slept: list[float] = dataclasses.field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@dataclasses.dataclass
class Write:
    """Fails as often as it is told to, then succeeds."""

    failures: int
    error: type[Exception] = UnavailableError
    tries: int = 0

    def __call__(self) -> str:
        self.tries += 1
        if self.tries <= self.failures:
            raise self.error("the database does not answer")
        return "written"


def test_a_write_is_done_again_until_the_database_is_back() -> None:
    desk, write = Desk(lease_seconds=30), Write(failures=3)
    assert patiently(desk, write) == "written"
    assert (write.tries, desk.slept) == (4, [PAUSE_SECONDS] * 3)


def test_patience_ends_with_the_lease() -> None:
    # A lease of 2 s holds eight tries a quarter of a second apart, with seven pauses between them.
    desk, write = Desk(lease_seconds=2), Write(failures=100)
    with pytest.raises(UnavailableError, match="does not answer"):
        patiently(desk, write)
    assert (write.tries, len(desk.slept)) == (8, 7)


def test_a_lease_shorter_than_a_pause_still_gets_its_try() -> None:
    desk, write = Desk(lease_seconds=0.1), Write(failures=0)
    assert patiently(desk, write) == "written"


def test_only_the_databases_absence_is_waited_for() -> None:
    desk, write = Desk(lease_seconds=30), Write(failures=1, error=ValueError)
    with pytest.raises(ValueError, match="does not answer"):
        patiently(desk, write)
    assert desk.slept == []
