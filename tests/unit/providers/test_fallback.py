"""Where a seat turns when a model fails it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.providers.chain import Link
from workers.providers.fallback import Failure, frugal, reason_to_skip


def link(provider: str, model: str, family: str) -> Link:
    return Link(provider=provider, model=model, family=family)


GPT = link("openai", "gpt-5", "gpt")
GPT_MINI = link("openai", "gpt-5-mini", "gpt")
ROUTED_GPT = link("openrouter", "openai/gpt-5", "gpt")
CLAUDE = link("anthropic", "claude-opus-4-5", "claude")
WINDOWS = {GPT: 400_000, GPT_MINI: 400_000, CLAUDE: 1_000_000}


@pytest.mark.parametrize(
    ("kind", "then", "is_skipped"),
    [
        ("quota", GPT_MINI, True),
        ("auth", GPT_MINI, True),
        ("quota", ROUTED_GPT, False),
        ("refusal", GPT_MINI, True),
        ("refusal", ROUTED_GPT, True),
        ("refusal", CLAUDE, False),
        ("context", GPT_MINI, True),
        ("context", CLAUDE, False),
        # Nobody knows the router's window: it is worth a try.
        ("context", ROUTED_GPT, False),
        ("rate", GPT_MINI, False),
        ("overload", GPT_MINI, False),
        ("bad_request", GPT_MINI, False),
        ("torn", GPT_MINI, False),
    ],
)
def test_after_gpt_failed_with(kind: str, then: Link, is_skipped: bool) -> None:
    failures = [Failure(link=GPT, kind=kind, detail="")]

    assert (reason_to_skip(then, failures, WINDOWS.get) is not None) is is_skipped


def test_every_earlier_failure_counts() -> None:
    refused = Failure(link=GPT, kind="refusal", detail="")
    failures = [refused, Failure(link=CLAUDE, kind="overload", detail="")]

    assert reason_to_skip(ROUTED_GPT, failures, WINDOWS.get) is refused


def test_the_frugal_chain_begins_with_the_cheapest_and_ends_with_the_unpriced() -> None:
    prices = {GPT: Decimal(10), GPT_MINI: Decimal(2), CLAUDE: Decimal(25)}

    chain = frugal((CLAUDE, ROUTED_GPT, GPT), (GPT_MINI, GPT), prices.get)

    assert chain == (GPT_MINI, GPT, CLAUDE, ROUTED_GPT)


@given(
    chain=st.lists(st.sampled_from([GPT, GPT_MINI, ROUTED_GPT, CLAUDE]), unique=True),
    extra=st.lists(st.sampled_from([GPT, GPT_MINI]), unique=True),
)
def test_the_frugal_chain_loses_nobody_and_asks_nobody_twice(chain: list[Link], extra: list[Link]) -> None:
    found = frugal(chain, extra, {GPT: Decimal(1), CLAUDE: Decimal(1)}.get)

    assert set(found) == {*chain, *extra}
    assert len(found) == len(set(found))
