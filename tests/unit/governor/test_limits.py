from __future__ import annotations

import math
from typing import Any

import fakeredis
import pytest

from workers.errors import InputError
from workers.governor.base import Limits
from workers.governor.redis import RedisStore


@pytest.mark.parametrize(
    "wrong",
    [
        {"requests_per_minute": 0},
        {"requests_per_minute": -1},
        {"requests_per_minute": math.nan},
        {"requests_per_minute": math.inf},
        {"concurrency": 0},
        {"burst": 0},
    ],
)
def test_a_limit_that_lets_nobody_through_is_refused_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InputError, match=f"^{name} is .*; give "):
        Limits(**wrong)


def test_a_lease_without_length_is_refused() -> None:
    with pytest.raises(InputError, match="lease_seconds is 0; give a time above 0"):
        RedisStore(fakeredis.FakeAsyncRedis(), owner="worker", lease_seconds=0)
