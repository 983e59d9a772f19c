"""Durations such as 1h30m, read as seconds."""

from __future__ import annotations

import re

SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
PATTERN = re.compile(
    "".join(rf"(?:(?P<{unit}>[0-9]{{1,9}}){unit})?" for unit in SECONDS), re.IGNORECASE | re.ASCII
)


def parse_seconds(text: str) -> int:
    """The seconds that a duration stands for; raises ValueError for anything else."""
    match = PATTERN.fullmatch(text.strip())
    if match is None or not match.group():
        raise ValueError(f"{text!r} is not a duration")
    return sum(int(number) * SECONDS[unit] for unit, number in match.groupdict().items() if number)
