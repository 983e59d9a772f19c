from __future__ import annotations

import math
from typing import Any

import fakeredis
import pytest

from workers.errors import InputError
from workers.governor.base import Demand, Limits
from workers.governor.redis import RedisStore


@pytest.mark.parametrize(
    "wrong",
    [
        {"requests_per_minute": 0},
        {"requests_per_minute": -1},
        {"requests_per_minute": math.nan},
        {"requests_per_minute": math.inf},
        {"input_tokens_per_minute": 0},
        {"output_tokens_per_minute": -5},
        {"requests_per_day": 0},
        {"concurrency": 0},
        {"burst": 0},
    ],
)
def test_a_limit_that_lets_nobody_through_is_refused_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InputError, match=f"^{name} is .*; give "):
        Limits(**wrong)


@pytest.mark.parametrize("wrong", [{"input_tokens": -1}, {"output_tokens": -1}])
def test_fewer_than_no_tokens_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="tokens are expected; give 0 or more"):
        Demand(key="p", limits=Limits(), **wrong)


def test_a_lease_without_length_is_refused() -> None:
    with pytest.raises(InputError, match="lease_seconds is 0; give a time above 0"):
        RedisStore(fakeredis.FakeAsyncRedis(), owner="worker", lease_seconds=0)
