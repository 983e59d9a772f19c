"""Money and tokens: what a call costs, what it may cost at most, and whether it still fits (DESIGN §4).

A call is admitted only if everything spent, everything promised to calls that are under way, this call's worst
case and the lead's share together stay within the budget. Whoever asks holds the row of the budget locked, so
that two seats cannot both take the last of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from typing import Literal

from workers.core.reply import Usage

#: Money is counted in millionths of a dollar, and a column holds no more than this.
MICRO_USD = Decimal("0.000001")
MOST_USD = Decimal("999999.999999")
#: The most that a budget in tokens may be: what every reader of JSON still counts exactly.
MOST_BUDGET_TOKENS = 2**53
#: A column's limit, too; more tokens than this were never billed.
MOST_TOKENS = 2**31 - 1

_MILLION = Decimal(1_000_000)
#: About four characters a token in English prose and code; no more than one token every two bytes of any text
#: that people write (Chinese comes near it, random letters alone go beyond).
_CHARACTERS_PER_TOKEN, _LEAST_BYTES_PER_TOKEN = 4, 2
#: What the wire format adds to each message.
_TOKENS_PER_MESSAGE = 8


def _micro(usd: Decimal, rounding: str) -> Decimal:
    return min(usd, MOST_USD).quantize(MICRO_USD, rounding=rounding)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """US dollars per million tokens. Cached input and cache writes cost what other input does unless the
    provider says otherwise."""

    input_usd: Decimal
    output_usd: Decimal
    cached_input_usd: Decimal | None = None
    cache_write_usd: Decimal | None = None

    def cost_usd(self, usage: Usage) -> Decimal:
        """The exact bill. `usage.input_tokens` includes what was read from and written to a cache."""
        total = max(usage.input_tokens, 0)
        cached = min(max(usage.cached_input_tokens, 0), total)
        written = min(max(usage.cache_write_input_tokens, 0), total - cached)
        return (
            (total - cached - written) * self.input_usd
            + cached * _or(self.cached_input_usd, self.input_usd)
            + written * _or(self.cache_write_usd, self.input_usd)
            + max(usage.output_tokens, 0) * self.output_usd
        ) / _MILLION

    def most_usd(self, *, input_tokens: int, output_tokens: int) -> Decimal:
        """The most that so many tokens can cost, whatever of the input is read from or written to a cache."""
        dearest = max(
            self.input_usd,
            _or(self.cached_input_usd, self.input_usd),
            _or(self.cache_write_usd, self.input_usd),
        )
        return (input_tokens * dearest + output_tokens * self.output_usd) / _MILLION


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model costs. `long_rates` hold for the whole of a request whose prompt has more than
    `long_above_tokens` tokens."""

    rates: Rates
    long_rates: Rates | None = None
    long_above_tokens: int | None = None

    def cost_usd(self, usage: Usage) -> Decimal:
        """Of one call, exact. Do not give it the sum of several: the rate depends on each prompt's length."""
        return self._rates(usage.input_tokens).cost_usd(usage)

    def most_usd(self, *, input_tokens: int, output_tokens: int) -> Decimal:
        """The most that a call with at most so many tokens can cost, exact."""
        possible = {self.rates, self._rates(input_tokens)}
        return max(
            rates.most_usd(input_tokens=input_tokens, output_tokens=output_tokens) for rates in possible
        )

    def _rates(self, input_tokens: int) -> Rates:
        is_long = self.long_above_tokens is not None and input_tokens > self.long_above_tokens
        return self.long_rates if is_long and self.long_rates is not None else self.rates


def bill_usd(price: Price | None, usage: Usage) -> Decimal | None:
    """What a call cost, in whole millionths of a dollar; None where no price is known."""
    return None if price is None else _micro(price.cost_usd(usage), ROUND_HALF_EVEN)


#: (provider, model) → its price, None when nobody knows it.
PriceOf = Callable[[str, str], Price | None]


def no_prices(_provider: str, _model: str) -> Price | None:
    """The table of an installation without one: no price is known."""
    return None


def _or(stated: Decimal | None, otherwise: Decimal) -> Decimal:
    return otherwise if stated is None else stated


def plain(usd: Decimal | None) -> str:
    """Money as people write it: no exponent, no zeros at the end; `-` where it is not known."""
    return "-" if usd is None else f"{usd.normalize():f}"


def likely_tokens(text: str) -> int:
    """About how many tokens a text has."""
    return math.ceil(len(text) / _CHARACTERS_PER_TOKEN)


def most_tokens(texts: Iterable[str]) -> int:
    """More tokens than these messages have, unless they are noise."""
    return sum(
        _TOKENS_PER_MESSAGE + math.ceil(len(text.encode("utf-8", "replace")) / _LEAST_BYTES_PER_TOKEN)
        for text in texts
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Tokens in and out, and their cost in US dollars; None where no price is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: Decimal | None = Decimal(0)

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            usd=None if self.usd is None or other.usd is None else self.usd + other.usd,
        )


def worst_case(price: Price | None, *, input_tokens: int, output_tokens: int) -> Amount:
    """What a call with this much input costs if the model writes all it may; no bill for it is above that."""
    usd = None
    if price is not None:
        most = price.most_usd(input_tokens=input_tokens, output_tokens=output_tokens)
        usd = _micro(most, ROUND_CEILING)
    return Amount(input_tokens=input_tokens, output_tokens=output_tokens, usd=usd)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What may be spent; None means no such limit."""

    usd: Decimal | None = None
    tokens: int | None = None

    @property
    def is_set(self) -> bool:
        return self.usd is not None or self.tokens is not None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A budget and what has become of it. `spent` by calls that ended, at what they cost; `reserved` for calls
    under way, at their worst case; `lead_share` kept for the lead's first call."""

    scope: str
    budget: Budget
    spent: Amount = Amount()
    reserved: Amount = Amount()
    lead_share: Amount = Amount()


Unit = Literal["usd", "tokens", "price"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a call may not be sent. `unit` is what ran out, or `price`: a budget in dollars and no known price."""

    scope: str
    unit: Unit
    wanted: Amount
    account: Account

    @property
    def is_for_now(self) -> bool:
        """Whether the call would fit if those under way cost nothing: what they do not use comes back."""
        account = dataclasses.replace(self.account, reserved=Amount())
        return refusal(account, self.wanted, is_lead=False) is None

    def sentence(self) -> str:
        if self.unit == "price":
            return f"no price is known for it, so the {self.scope}'s budget in dollars cannot be kept"
        budget, parts = self.account.budget, self.account
        shown = [
            getattr(part, self.unit) for part in (self.wanted, parts.spent, parts.reserved, parts.lead_share)
        ]
        if self.unit == "usd":
            limit, words = f"{plain(budget.usd)} USD", [plain(value) for value in shown]
        else:
            limit, words = f"{budget.tokens:,} tokens", [f"{value:,}" for value in shown]
        return (
            f"the {self.scope}'s budget of {limit} has no room for a call of up to {words[0]}: "
            f"{words[1]} spent, {words[2]} promised to calls under way, {words[3]} kept for the lead"
        )


def refusal(account: Account, wanted: Amount, *, is_lead: bool) -> Refusal | None:
    """Why `wanted` does not fit into the budget, None if it does. The lead may use its share, nobody else."""
    if is_lead:
        account = dataclasses.replace(account, lead_share=Amount())
    total = account.spent + account.reserved + account.lead_share + wanted
    unit: Unit | None = None
    if account.budget.usd is not None and total.usd is None:
        unit = "price"
    elif account.budget.usd is not None and total.usd is not None and total.usd > account.budget.usd:
        unit = "usd"
    elif account.budget.tokens is not None and total.tokens > account.budget.tokens:
        unit = "tokens"
    return None if unit is None else Refusal(scope=account.scope, unit=unit, wanted=wanted, account=account)


def overshoot(budget: Budget, spent: Amount) -> Amount:
    """By how much providers billed more than the budget allows: nothing, unless one wrote more than asked."""
    tokens = 0 if budget.tokens is None else max(0, spent.tokens - budget.tokens)
    usd = Decimal(0) if budget.usd is None or spent.usd is None else max(Decimal(0), spent.usd - budget.usd)
    return Amount(output_tokens=tokens, usd=usd)
