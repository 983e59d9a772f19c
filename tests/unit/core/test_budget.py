"""Money and tokens: sums by hand, and what must hold whatever happens in whatever order."""

from __future__ import annotations

import dataclasses
from decimal import ROUND_UP, Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_price
from workers.core.budget import (
    MOST_USD,
    Account,
    Amount,
    Budget,
    Price,
    Rates,
    bill_usd,
    likely_tokens,
    most_tokens,
    overshoot,
    plain,
    refusal,
    worst_case,
)
from workers.core.reply import Usage

#: Sonnet-like: 3 and 15 dollars a million, cached reads a tenth, cache writes a quarter more.
DEAR = make_price("3", "15", cached_input_usd="0.3", cache_write_usd="3.75")
FREE = make_price("0", "0")


def test_each_kind_of_token_has_its_own_price() -> None:
    usage = Usage(
        input_tokens=1_000, cached_input_tokens=600, cache_write_input_tokens=300, output_tokens=200
    )
    # 100 plain x 3 + 600 read x 0.3 + 300 written x 3.75 + 200 out x 15 = 300 + 180 + 1125 + 3000 millionths.
    assert DEAR.cost_usd(usage) == Decimal("0.004605")


def test_without_prices_for_the_cache_its_tokens_cost_what_input_does() -> None:
    price = make_price("2", "8")
    usage = Usage(input_tokens=100, cached_input_tokens=60, cache_write_input_tokens=30, output_tokens=1)
    assert price.cost_usd(usage) == Decimal("0.000208")  # 100 x 2 + 1 x 8


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (
            Usage(input_tokens=10, cached_input_tokens=50),
            "0.000003",
        ),  # at most all of it was cached: 10 x 0.3
        (
            Usage(input_tokens=10, cached_input_tokens=4, cache_write_input_tokens=90),
            "0.000024",
        ),  # 1.2 + 22.5
        (Usage(input_tokens=-5, output_tokens=-7, cached_input_tokens=-1), "0"),
        (Usage(input_tokens=10, cached_input_tokens=-1, cache_write_input_tokens=-1), "0.000030"),
        (Usage(input_tokens=10**12), str(MOST_USD)),
    ],
)
def test_absurd_counts_give_a_bill_that_a_column_holds(usage: Usage, cost: str) -> None:
    assert bill_usd(DEAR, usage) == Decimal(cost)


def test_a_bill_is_rounded_to_the_even_millionth_and_a_worst_case_up() -> None:
    """Half a millionth of a dollar a token: three tokens are 1.5 millionths, five are 2.5."""
    half = make_price("0.5", "0.5")
    assert bill_usd(half, Usage(input_tokens=3)) == Decimal("0.000002")
    assert bill_usd(half, Usage(input_tokens=5)) == Decimal("0.000002")
    assert worst_case(half, input_tokens=5, output_tokens=0).usd == Decimal("0.000003")
    tenth = make_price("0.1", "0.1")
    assert worst_case(tenth, input_tokens=1, output_tokens=0).usd == Decimal("0.000001")
    assert bill_usd(tenth, Usage(input_tokens=1)) == Decimal(0)
    assert bill_usd(None, Usage(input_tokens=3)) is None
    with localcontext(rounding=ROUND_UP):
        assert bill_usd(half, Usage(input_tokens=5)) == Decimal("0.000002"), "whoever else is counting"


@pytest.mark.parametrize(
    ("usd", "shown"),
    [(None, "-"), ("0", "0"), ("1.500000", "1.5"), ("100", "100"), ("0.000001", "0.000001")],
)
def test_money_is_written_as_people_write_it(usd: str | None, shown: str) -> None:
    assert plain(None if usd is None else Decimal(usd)) == shown


def test_a_long_prompt_has_rates_of_its_own() -> None:
    cheap, dear = (
        Rates(input_usd=Decimal(1), output_usd=Decimal(10)),
        Rates(input_usd=Decimal(2), output_usd=Decimal(30)),
    )
    price = Price(rates=cheap, long_rates=dear, long_above_tokens=100)
    assert price.cost_usd(Usage(input_tokens=100, output_tokens=1)) == Decimal("0.000110")
    assert price.cost_usd(Usage(input_tokens=101, output_tokens=1)) == Decimal("0.000232")  # 202 + 30
    assert price.most_usd(input_tokens=100, output_tokens=1) == Decimal("0.000110")
    assert price.most_usd(input_tokens=101, output_tokens=1) == Decimal("0.000232")


def test_the_worst_case_pays_the_dearest_input() -> None:
    # 1000 x 3.75 + 100 x 15 = 5250 millionths.
    assert worst_case(DEAR, input_tokens=1000, output_tokens=100) == Amount(
        input_tokens=1000, output_tokens=100, usd=Decimal("0.005250")
    )
    assert worst_case(None, input_tokens=1, output_tokens=1).usd is None
    cheap_cache = make_price("3", "15", cached_input_usd="0.3", cache_write_usd="1")
    assert worst_case(cheap_cache, input_tokens=1000, output_tokens=0).usd == Decimal("0.003")


def test_tokens_of_a_text_are_estimated_low_and_high() -> None:
    assert likely_tokens("12345") == 2  # 5 / 4, rounded up
    assert most_tokens(["12345", "é"]) == (8 + 3) + (8 + 1)  # 5 bytes and 2 bytes by two, and the messages


def account(usd: str | None = None, tokens: int | None = None, **parts: Amount) -> Account:
    budget = Budget(usd=None if usd is None else Decimal(usd), tokens=tokens)
    return Account(scope="run", budget=budget, **parts)


def amount(usd: str | None, tokens: int = 0) -> Amount:
    return Amount(input_tokens=tokens, usd=None if usd is None else Decimal(usd))


def test_a_call_fits_up_to_the_last_millionth_and_not_beyond() -> None:
    held = account("1.000000", spent=amount("0.300000"), reserved=amount("0.2"), lead_share=amount("0.1"))
    assert refusal(held, amount("0.4"), is_lead=False) is None
    refused = refusal(held, amount("0.400001"), is_lead=False)
    assert refused is not None
    assert refused.unit == "usd"
    assert refused.sentence() == (
        "the run's budget of 1 USD has no room for a call of up to 0.400001: 0.3 spent, 0.2 promised to calls "
        "under way, 0.1 kept for the lead"
    )


def test_the_lead_may_use_its_share() -> None:
    held = account("1", spent=amount("0.9"), lead_share=amount("0.1"))
    assert refusal(held, amount("0.1"), is_lead=True) is None
    assert refusal(held, amount("0.1"), is_lead=False) is not None


def test_tokens_run_out_by_themselves() -> None:
    held = account(None, 100, spent=amount(None, 60), lead_share=amount(None, 30))
    assert refusal(held, amount(None, 10), is_lead=False) is None
    refused = refusal(held, amount(None, 11), is_lead=False)
    assert refused is not None
    assert refused.unit == "tokens"
    assert refused.sentence() == (
        "the run's budget of 100 tokens has no room for a call of up to 11: 60 spent, 0 promised to calls "
        "under way, 30 kept for the lead"
    )


def test_without_a_price_a_budget_in_dollars_admits_nothing_and_one_in_tokens_does() -> None:
    refused = refusal(account("5"), amount(None, 1), is_lead=False)
    assert refused is not None
    assert refused.unit == "price"
    assert refused.sentence() == ("no price is known for it, so the run's budget in dollars cannot be kept")
    assert refusal(account(None, 5), amount(None, 1), is_lead=False) is None


def test_a_free_model_fits_into_a_budget_that_is_spent() -> None:
    wanted = worst_case(FREE, input_tokens=10, output_tokens=10)
    assert refusal(account("1", spent=amount("1")), wanted, is_lead=False) is None


def test_an_overshoot_is_what_was_billed_above_the_budget() -> None:
    budget = Budget(usd=Decimal(1), tokens=100)
    assert overshoot(budget, amount("1.25", 90)) == Amount(usd=Decimal("0.25"))
    assert overshoot(budget, amount("0.5", 130)) == Amount(output_tokens=30, usd=Decimal(0))
    assert overshoot(Budget(), amount("9", 9)) == Amount()


COUNT = st.integers(0, 2**31 - 1)
RATE = st.decimals(0, 1000, places=4)
RATES = st.builds(
    Rates,
    input_usd=RATE,
    output_usd=RATE,
    cached_input_usd=st.none() | RATE,
    cache_write_usd=st.none() | RATE,
)
PRICE = st.builds(
    Price, rates=RATES, long_rates=st.none() | RATES, long_above_tokens=st.none() | st.integers(0, 10_000)
)


@given(
    price=PRICE,
    most_in=COUNT,
    most_out=COUNT,
    used_in=COUNT,
    used_out=COUNT,
    cached=COUNT,
    written=COUNT,
)
def test_no_bill_within_the_worst_case_is_above_it(
    price: Price, most_in: int, most_out: int, used_in: int, used_out: int, cached: int, written: int
) -> None:
    usage = Usage(
        input_tokens=min(used_in, most_in),
        output_tokens=min(used_out, most_out),
        cached_input_tokens=cached,
        cache_write_input_tokens=written,
    )
    bill, most = bill_usd(price, usage), worst_case(price, input_tokens=most_in, output_tokens=most_out).usd
    assert bill is not None
    assert most is not None
    assert 0 <= bill <= most


@dataclasses.dataclass
class Run:
    """A run's calls, played in memory: open ones at their worst case, ended ones at what they cost."""

    budget: Budget
    share: Amount
    spent: Amount = dataclasses.field(default_factory=Amount)
    open: list[Amount] = dataclasses.field(default_factory=list)

    def account(self) -> Account:
        reserved = sum(self.open, Amount())
        return Account(
            scope="run", budget=self.budget, spent=self.spent, reserved=reserved, lead_share=self.share
        )

    def ask(self, wanted: Amount, *, is_lead: bool = False) -> bool:
        if refusal(self.account(), wanted, is_lead=is_lead) is not None:
            return False
        self.open.append(wanted)
        return True

    def settle(self, place: int, part: int) -> None:
        """The call at `place` ends, having cost `part` thousandths of its worst case."""
        worst = self.open.pop(place % len(self.open))
        assert worst.usd is not None
        self.spent += Amount(input_tokens=worst.tokens * part // 1000, usd=worst.usd * part / 1000)


USD = st.decimals(0, 2, places=3)
AMOUNT = st.builds(lambda usd, tokens: Amount(input_tokens=tokens, usd=usd), USD, st.integers(0, 2000))
STEP = st.tuples(st.just("ask"), AMOUNT, st.booleans()) | st.tuples(
    st.just("settle"), st.integers(0, 50), st.integers(0, 1000)
)


@given(
    budget=st.builds(Budget, usd=st.none() | USD, tokens=st.none() | st.integers(0, 2000)),
    share=AMOUNT,
    steps=st.lists(STEP, max_size=30),
)
def test_whatever_is_asked_and_settled_in_whatever_order_nothing_goes_above_the_budget(
    budget: Budget, share: Amount, steps: list[tuple[str, object, object]]
) -> None:
    run = Run(budget, share)
    for kind, what, how in steps:
        if kind == "ask":
            assert isinstance(what, Amount)
            run.ask(what, is_lead=bool(how))
        elif run.open:
            assert isinstance(what, int)
            assert isinstance(how, int)
            run.settle(what, how)
        everything = run.spent + sum(run.open, Amount())
        assert everything.usd is not None
        assert budget.usd is None or everything.usd <= budget.usd
        assert budget.tokens is None or everything.tokens <= budget.tokens


@given(
    budget=st.builds(Budget, usd=st.none() | USD, tokens=st.none() | st.integers(0, 2000)),
    share=AMOUNT,
    steps=st.lists(STEP, max_size=30),
)
def test_if_the_share_fits_at_first_the_lead_can_take_it_whatever_the_others_do(
    budget: Budget, share: Amount, steps: list[tuple[str, object, object]]
) -> None:
    run = Run(budget, share)
    fits_at_first = refusal(run.account(), share, is_lead=True) is None
    for kind, what, how in steps:
        if kind == "ask":
            assert isinstance(what, Amount)
            run.ask(what)
        elif run.open:
            assert isinstance(what, int)
            assert isinstance(how, int)
            run.settle(what, how)
    assert run.ask(share, is_lead=True) == fits_at_first


@pytest.mark.parametrize(("spent", "is_for_now"), [(600, True), (601, False)])
def test_room_that_is_only_promised_to_others_may_come_back(spent: int, is_for_now: bool) -> None:
    """1000 tokens: 300 promised and 400 wanted do not fit beside 600; without what is promised they just do."""
    held = account(tokens=1000, spent=Amount(output_tokens=spent), reserved=Amount(output_tokens=300))
    found = refusal(held, Amount(output_tokens=400), is_lead=False)
    assert found is not None
    assert found.is_for_now is is_for_now
