from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from workers.core.reply import Usage
from workers.providers import prices
from workers.providers.prices import (
    PriceTableError,
    cheapest,
    context_tokens,
    listing_of,
    parse_table,
    price_of,
)
from workers.providers.registry import PROVIDERS

RAW: dict[str, dict[str, Any]] = yaml.safe_load(Path(prices.__file__).with_name("prices.yaml").read_text())


def test_every_entry_is_dated_sourced_and_of_a_known_provider() -> None:
    assert RAW.keys() == PROVIDERS.keys()
    for models in parse_table(RAW).values():
        for entry in models.values():
            assert dt.date(2026, 1, 1) <= entry.as_of <= dt.date(2026, 11, 30)
            assert (
                entry.source.startswith("https://") or entry.price.rates.input_usd == 0 or entry.is_simulated
            )


def test_caching_is_cheaper_to_read_and_never_cheaper_to_write_than_plain_input() -> None:
    for models in parse_table(RAW).values():
        for entry in models.values():
            for rates in (entry.price.rates, entry.price.long_rates or entry.price.rates):
                assert (rates.cached_input_usd or 0) <= rates.input_usd <= rates.output_usd
                assert rates.cache_write_usd is None or rates.input_usd <= rates.cache_write_usd


def test_a_call_costs_the_sum_of_its_four_kinds_of_token() -> None:
    """Opus 5.5 is 4 $ in, 20 $ out, 0.20 $ read, 5 $ written: 1000 fresh, 10 000 read, 2000 written, 500 out are
    0.004 + 0.002 + 0.010 + 0.010 = 0.026 $."""
    price = price_of("anthropic", "claude-opus-5-5")
    assert price is not None
    usage = Usage(
        input_tokens=13_000, output_tokens=500, cached_input_tokens=10_000, cache_write_input_tokens=2_000
    )
    assert price.cost_usd(usage) == Decimal("0.026")


def test_a_long_prompt_costs_more_as_a_whole() -> None:
    """Haiku 5.5: 0.10/0.50 $ up to 100 000 tokens of prompt, 0.50/2.50 $ above. 100 000 in and 1000 out are
    0.01 + 0.0005; one token more: 0.0500005 + 0.0025."""
    price = price_of("anthropic", "claude-haiku-5-5")
    assert price is not None
    assert price.cost_usd(Usage(input_tokens=100_000, output_tokens=1_000)) == Decimal("0.0105")
    assert price.cost_usd(Usage(input_tokens=100_001, output_tokens=1_000)) == Decimal("0.0525005")


def test_an_unknown_model_has_no_price() -> None:
    assert price_of("openai", "gpt-5-mini-but-better") is None
    assert price_of("nobody", "gpt-5") is None
    assert price_of("anthropic", "gpt-5") is None
    assert context_tokens("openai", "gpt-5-mini-but-better") is None


def test_a_snapshot_is_its_model() -> None:
    assert price_of("openai", "gpt-5-mini-2025-08-07") == price_of("openai", "gpt-5-mini")
    assert context_tokens("openai", "gpt-5-mini-2025-08-07") == 400_000


@pytest.mark.parametrize("provider", ["local", "ollama"])
def test_ones_own_machine_costs_nothing(provider: str) -> None:
    listing = listing_of(provider, "whatever:7b")
    assert listing is not None
    assert listing.price.cost_usd(Usage(input_tokens=10**9, output_tokens=10**9)) == 0
    assert not listing.is_simulated


def test_simulated_models_have_prices_to_rehearse_with() -> None:
    """A million each: 3 + 15 and 0.25 + 1.25 dollars."""
    usage = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
    costs = {}
    for size in ("large", "small"):
        listing = listing_of("simulator", f"sim-birch-{size}")
        assert listing is not None
        assert listing.is_simulated
        costs[size] = listing.price.cost_usd(usage)
    assert costs == {"large": Decimal(18), "small": Decimal("1.5")}
    assert price_of("simulator", "gpt-5") is None


def test_the_cheapest_is_chosen_by_what_a_call_costs_and_not_from_what_goes_away() -> None:
    """4000 in, 1000 out: gpt-6-luna 0.0009 $; gpt-5-nano would be 0.0006 $, but is deprecated."""
    assert cheapest("openai") == "gpt-6-luna"
    assert cheapest("anthropic") == "claude-haiku-5-5"
    assert cheapest("local") is cheapest("simulator") is cheapest("nobody") is None


ENTRY = {"input": 1, "output": 2, "as_of": dt.date(2026, 1, 1), "source": "https://x"}


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ({"p": {"m": {**ENTRY, "input": -1}}}, r"p\.m\.input"),
        ({"p": {"m": {**ENTRY, "input": float("nan")}}}, r"p\.m\.input"),
        ({"p": {"m": {**ENTRY, "input": True}}}, r"p\.m\.input"),
        ({"p": {"m": {**ENTRY, "inputs": 1}}}, r"p\.m\.inputs"),
        ({"p": {"m": {"input": 1, "output": 1}}}, r"p\.m\.as_of"),
        ({"p": {"m": {**ENTRY, "aliases": ["m"]}}}, r"p\.m is priced twice"),
        ([], "the table"),
    ],
)
def test_a_spoilt_table_is_refused_with_its_place(table: Any, fault: str) -> None:
    with pytest.raises(PriceTableError, match=fault):
        parse_table(table)


_tokens = st.integers(0, 2**31)


@given(_tokens, _tokens, _tokens, _tokens)
def test_no_usage_costs_less_than_all_of_it_cached_nor_more_than_all_of_it_written(
    tokens_in: int, tokens_out: int, cached: int, written: int
) -> None:
    price = price_of("anthropic", "claude-opus-5-5")
    assert price is not None
    usage = Usage(
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cached_input_tokens=cached,
        cache_write_input_tokens=written,
    )
    input_usd = price.cost_usd(usage) - tokens_out * Decimal(20) / 1_000_000
    assert tokens_in * Decimal("0.20") / 1_000_000 <= input_usd <= tokens_in * Decimal(5) / 1_000_000
