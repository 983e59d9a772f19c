"""What a call costs, by the table in `prices.yaml`: data with its date and its source, read once."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from workers.core.budget import Price, Rates
from workers.core.reply import Usage
from workers.errors import InputError

#: A review reads about four tokens for each that it writes; models are ranked by what that mixture costs.
TYPICAL_CALL = Usage(input_tokens=4_000, output_tokens=1_000)


class PriceTableError(InputError):
    """The table of prices is not in order; names the entry and what is wrong with it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What is known of one model on the day `as_of`. `context_tokens`: prompt and reply together, None if not
    stated. `is_simulated`: the price is made up, nothing is paid."""

    price: Price
    as_of: dt.date
    source: str
    context_tokens: int | None = None
    is_simulated: bool = False
    is_deprecated: bool = False


def price_of(provider: str, model: str) -> Price | None:
    """The price of `model` as `provider` names it, or None where nobody has looked it up."""
    listing = listing_of(provider, model)
    return None if listing is None else listing.price


def listing_of(provider: str, model: str) -> Listing | None:
    """The table's entry for `model` as `provider` names it, or None."""
    by_name = _table().get(provider, {})
    exact = by_name.get(model)
    if exact is not None:
        return exact
    return next((entry for name, entry in by_name.items() if "*" in name and fnmatchcase(model, name)), None)


def context_tokens(provider: str, model: str) -> int | None:
    """How much fits into the model, prompt and reply together; None if unknown."""
    listing = listing_of(provider, model)
    return None if listing is None else listing.context_tokens


def cheapest(provider: str) -> str | None:
    """The provider's model that costs least for a typical call, deprecated ones left out; None where none is
    listed by name."""
    named = {
        name: listing.price
        for name, listing in _table().get(provider, {}).items()
        if "*" not in name and not listing.is_deprecated
    }
    return min(named, key=lambda name: (named[name].cost_usd(TYPICAL_CALL), name), default=None)


def _decimal(value: object) -> object:
    # YAML's 0.1 is a float; its text is what the page said.
    return Decimal(str(value)) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


_Usd = Annotated[Decimal, BeforeValidator(_decimal), Field(ge=0, le=10_000)]


class _Rates(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    input: _Usd
    output: _Usd
    cached_input: _Usd | None = None
    cache_write: _Usd | None = None

    def rates(self) -> Rates:
        return Rates(
            input_usd=self.input,
            output_usd=self.output,
            cached_input_usd=self.cached_input,
            cache_write_usd=self.cache_write,
        )


class _LongPrompt(_Rates):
    above_tokens: int = Field(gt=0)


class _Entry(_Rates):
    as_of: dt.date
    source: str = Field(min_length=1)
    context_tokens: int | None = Field(default=None, gt=0)
    long_prompt: _LongPrompt | None = None
    aliases: tuple[str, ...] = ()
    is_simulated: bool = False
    is_deprecated: bool = False

    def listing(self) -> Listing:
        long = self.long_prompt
        price = Price(
            rates=self.rates(),
            long_rates=None if long is None else long.rates(),
            long_above_tokens=None if long is None else long.above_tokens,
        )
        return Listing(
            price=price,
            as_of=self.as_of,
            source=self.source,
            context_tokens=self.context_tokens,
            is_simulated=self.is_simulated,
            is_deprecated=self.is_deprecated,
        )


_TABLE: TypeAdapter[dict[str, dict[str, _Entry]]] = TypeAdapter(dict[str, dict[str, _Entry]])


def parse_table(data: Any) -> Mapping[str, Mapping[str, Listing]]:
    """Prices by provider and model, aliases included. Raises: PriceTableError."""
    try:
        entries = _TABLE.validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise PriceTableError(f"prices.yaml: {place or 'the table'}: {first['msg']}") from None
    table: dict[str, dict[str, Listing]] = {}
    for provider, models in entries.items():
        by_name = table.setdefault(provider, {})
        for model, entry in models.items():
            for name in (model, *entry.aliases):
                if name in by_name:
                    raise PriceTableError(
                        f"prices.yaml: {provider}.{name} is priced twice; keep one of the two"
                    )
                by_name[name] = entry.listing()
    return table


@lru_cache(maxsize=1)
def _table() -> Mapping[str, Mapping[str, Listing]]:
    text = files("workers.providers").joinpath("prices.yaml").read_text(encoding="utf-8")
    return parse_table(yaml.safe_load(text))
