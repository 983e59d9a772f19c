"""Which limits hold for a bucket."""

from __future__ import annotations

import pytest

from workers.governor.base import Limits
from workers.governor.limit_book import ANY_FAMILY, LimitBook, LimitsSet

DEFAULT, ALL, GPT = Limits(concurrency=64), Limits(concurrency=8), Limits(requests_per_minute=3)


@pytest.fixture
def book() -> LimitBook:
    return LimitBook({"openai": DEFAULT})


def put(book: LimitBook, **entries: Limits) -> None:
    book.replace(
        LimitsSet(provider="openai", family=ANY_FAMILY if family == "any" else family, limits=limits)
        for family, limits in entries.items()
    )


def test_the_default_holds_until_something_is_set(book: LimitBook) -> None:
    assert book.of("openai", "gpt") == DEFAULT
    assert book.of("openai", ANY_FAMILY) == DEFAULT
    assert book.of("unheard-of", "gpt") == Limits()


def test_the_familys_own_win_over_the_providers_and_both_over_the_default(book: LimitBook) -> None:
    put(book, any=ALL, gpt=GPT)
    # Whole entries: what GPT does not limit is not limited.
    assert book.of("openai", "gpt") == GPT
    assert book.of("openai", "o") == ALL
    assert book.of("groq", "gpt") == Limits()


def test_what_limits_nothing_is_set_all_the_same(book: LimitBook) -> None:
    put(book, any=Limits())
    assert book.of("openai", "gpt") == Limits()


def test_what_is_no_longer_set_is_forgotten(book: LimitBook) -> None:
    put(book, any=ALL)
    put(book, gpt=GPT)
    assert book.of("openai", "o") == DEFAULT


@pytest.mark.parametrize("family", ["gpt", "odd:name"])
def test_a_bucket_is_read_by_its_key(book: LimitBook, family: str) -> None:
    book.replace([LimitsSet(provider="openai", family=family, limits=GPT)])
    assert book.of_key(f"openai:1a2b3c4d:{family}") == GPT
