"""What a process knows about its accounts, and how processes tell each other."""

from __future__ import annotations

import dataclasses

import pytest

from workers.governor.accounts import (
    FEW_REQUESTS,
    LONG_RESET_SECONDS,
    LONGEST_LOW_SECONDS,
    Accounts,
    AccountState,
    LowQuota,
    Outlook,
    outlook,
)
from workers.governor.base import Headroom
from workers.governor.breaker import FAILURES_TO_OPEN, HOPELESS_OPEN_SECONDS


@dataclasses.dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def accounts(clock: Clock) -> Accounts:
    return Accounts(clock)


def test_only_changes_are_published(accounts: Accounts) -> None:
    accounts.succeeded("openai", "aa")
    for _ in range(FAILURES_TO_OPEN - 1):
        accounts.failed("openai", "aa", kind="overload", reason="503")
    assert accounts.take_changes() == []

    accounts.failed("openai", "aa", kind="overload", reason="503")

    changes = accounts.take_changes()
    assert [(change.provider, change.key_digest, change.state) for change in changes] == [
        ("openai", "aa", "overload")
    ]
    assert changes[0].seconds_left == pytest.approx(10)
    assert accounts.take_changes() == []


def test_a_change_that_could_not_be_published_is_handed_out_again(accounts: Accounts) -> None:
    accounts.failed("openai", "aa", kind="quota", reason="402")
    changes = accounts.take_changes()

    accounts.give_back(changes)

    assert accounts.take_changes() == changes


def test_what_one_worker_learns_another_adopts(accounts: Accounts, clock: Clock) -> None:
    other = Accounts(clock)
    accounts.failed("openai", "aa", kind="quota", reason="no credit")

    for change in accounts.take_changes():
        other.adopt(change)

    refusal = other.refusal("openai", "aa")
    assert refusal is not None
    assert (refusal.kind, refusal.detail) == ("quota", "no credit")
    assert other.refusal("openai", "bb") is None
    assert other.low_quota() == LowQuota(provider="openai", reason="no credit")
    assert other.take_changes() == []


def test_an_account_that_is_good_again_is_good_for_all(accounts: Accounts, clock: Clock) -> None:
    other = Accounts(clock)
    accounts.failed("openai", "aa", kind="quota", reason="no credit")
    for change in accounts.take_changes():
        other.adopt(change)
    clock.now += 600
    assert other.refusal("openai", "aa") is None
    other.begin("openai", "aa")
    other.succeeded("openai", "aa")

    for change in other.take_changes():
        accounts.adopt(change)

    assert accounts.refusal("openai", "aa") is None
    assert accounts.low_quota() is None


@pytest.mark.parametrize(
    ("headroom", "is_low"),
    [
        # A day's allowance nearly used up, as Groq's requests are.
        (Headroom(requests_remaining=FEW_REQUESTS - 1, requests_reset_seconds=3600), True),
        (Headroom(requests_remaining=FEW_REQUESTS, requests_reset_seconds=3600), False),
        # The end of an ordinary minute: pacing, not want.
        (Headroom(requests_remaining=0, requests_reset_seconds=59), False),
        (Headroom(input_tokens_remaining=10, input_tokens_reset_seconds=LONG_RESET_SECONDS + 1), True),
        (Headroom(output_tokens_remaining=10, output_tokens_reset_seconds=LONG_RESET_SECONDS), False),
        (Headroom(requests_remaining=1), False),
    ],
)
def test_low_quota_mode_begins_when_little_has_to_last_for_long(
    headroom: Headroom, is_low: bool, accounts: Accounts
) -> None:
    accounts.saw("groq", "aa", headroom)

    assert (accounts.low_quota() is not None) is is_low


def test_low_quota_mode_ends_by_itself(accounts: Accounts, clock: Clock) -> None:
    accounts.told_to_wait("groq", "aa", 600)
    assert accounts.low_quota() == LowQuota(provider="groq", reason="told to wait 600 s")
    assert [change.state for change in accounts.take_changes()] == ["low"]

    clock.now += 600

    assert accounts.low_quota() is None
    accounts.succeeded("groq", "aa")
    assert [change.state for change in accounts.take_changes()] == ["good"]


def test_a_short_wait_is_pacing(accounts: Accounts) -> None:
    accounts.told_to_wait("groq", "aa", 20)

    assert accounts.low_quota() is None
    assert accounts.take_changes() == []


def test_a_wait_of_a_day_is_believed_for_an_hour_unless_it_is_said_again(
    accounts: Accounts, clock: Clock
) -> None:
    accounts.told_to_wait("groq", "aa", 86_400)
    assert accounts.take_changes()[0].seconds_left == LONGEST_LOW_SECONDS

    clock.now += LONGEST_LOW_SECONDS - 1
    assert accounts.low_quota() == LowQuota(provider="groq", reason="told to wait 86400 s")
    clock.now += 1
    assert accounts.low_quota() is None

    accounts.told_to_wait("groq", "aa", 86_400)
    assert accounts.low_quota() is not None


def test_an_empty_account_that_nobody_asks_again_does_not_keep_the_mode_on(
    accounts: Accounts, clock: Clock
) -> None:
    accounts.failed("openai", "aa", kind="quota", reason="402")

    clock.now += HOPELESS_OPEN_SECONDS - 1
    assert accounts.low_quota() is not None
    clock.now += 1
    assert accounts.low_quota() is None
    # The next call to it is a trial all the same, and one that fails brings the mode back.
    assert accounts.refusal("openai", "aa") is None
    accounts.begin("openai", "aa")
    assert accounts.refusal("openai", "aa") is not None
    accounts.failed("openai", "aa", kind="quota", reason="402")
    assert accounts.low_quota() is not None


def told(provider: str, state: str, seconds_left: float = 60.0) -> AccountState:
    return AccountState(provider=provider, key_digest="k", state=state, reason="", seconds_left=seconds_left)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], Outlook.GOOD),
        ([told("a", "quota")], Outlook.GOOD),
        ([told("a", "quota"), told("b", "low")], Outlook.GOOD),
        ([told("a", "quota"), told("b", "overload")], Outlook.AWAY),
        ([told("a", "quota"), told("b", "overload", 0)], Outlook.TRIAL),
        # A key that is not ours any more says nothing.
        ([told("a", "quota"), told("c", "good")], Outlook.GOOD),
    ],
)
def test_providers_are_away_when_none_of_ours_answers(states: list[AccountState], expected: Outlook) -> None:
    assert outlook(states, {("a", "k"), ("b", "k")}) is expected


def test_without_any_account_seats_say_what_is_missing() -> None:
    assert outlook([told("a", "quota")], set()) is Outlook.GOOD
