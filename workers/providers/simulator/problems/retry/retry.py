"""Retries that do not make an outage worse."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def retry(
    call: Callable[[], T],
    *,
    is_retryable: Callable[[Exception], bool],
    attempts: int,
    base_seconds: float,
    cap_seconds: float,
    sleep: Callable[[float], None],
    random: Callable[[], float],
) -> T:
    """The result of `call`, made at most `attempts` times."""
    if attempts < 1:
        raise ValueError(f"attempts must be 1 or more, not {attempts}")
    if base_seconds <= 0 or cap_seconds <= 0:
        raise ValueError(f"pauses must be above 0, not {base_seconds} and {cap_seconds}")
    number = 1
    while True:
        try:
            return call()
        except Exception as error:
            if number == attempts or not is_retryable(error):
                raise
            stated = getattr(error, "retry_after_seconds", None) or 0.0
        longest = min(cap_seconds, base_seconds * 2 ** (number - 1))
        pause = longest * random()
        sleep(max(pause, stated))
        number += 1
