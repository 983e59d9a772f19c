"""The simulator's own rate limits: what a provider would refuse, decided without I/O; the clock is passed in.

One set of limits holds per API key and model family. Requests and tokens a minute are token buckets that
refill all the time, as Anthropic describes its own; requests a day are counted per UTC day. Output tokens are
reserved at `max_tokens` when a call starts and given back when it ends, which is why an inflated `max_tokens`
costs throughput. An allowance holds per key over all families and never refills."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator
from typing import Literal

from workers.errors import InputError

#: A client may invent keys; of those without a call in flight the oldest are forgotten beyond this many.
MAX_BUCKETS = 10_000
DAY_SECONDS = 86_400
#: What a refusal for concurrency, or for overload, asks the caller to wait: nobody knows when a place is free.
BUSY_WAIT_SECONDS = 1.0

Cause = Literal[
    "requests", "input-tokens", "output-tokens", "requests-per-day", "concurrency", "overload", "allowance"
]
Meter = Literal["requests", "input-tokens", "output-tokens", "requests-per-day"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None: no such limit. `burst_seconds`: how much of a minute's limit may be used at once; 60 allows all
    of it, 1 holds a limit of 60 a minute to one a second. `overload_above`: calls in flight, over all keys,
    beyond which the provider calls itself overloaded."""

    requests_per_minute: float | None = None
    input_tokens_per_minute: float | None = None
    output_tokens_per_minute: float | None = None
    requests_per_day: int | None = None
    concurrency: int | None = None
    burst_seconds: float = 60.0
    overload_above: int | None = None
    allowance_tokens: int | None = None
    allowance_usd: float | None = None

    def __post_init__(self) -> None:
        """Raises: InputError."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            least = 0.001 if field.name == "burst_seconds" else 0 if field.name.startswith("allowance") else 1
            if value is not None and not least <= value < 1e15:
                raise InputError(
                    f"the limit {field.name} is {value}; it must be at least {least} and below 1e15"
                )

    @property
    def any_is_set(self) -> bool:
        return self != Limits(burst_seconds=self.burst_seconds)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a call takes. `reserved_output_tokens`: held while it runs; `output_tokens`: what it then used."""

    key: str
    family: str
    input_tokens: int
    output_tokens: int
    reserved_output_tokens: int
    cost_usd: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """One limit as headers tell it; `reset_seconds` until it is full again."""

    meter: Meter
    limit: int
    remaining: int
    reset_seconds: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why not, and after how long it could be otherwise; None: never."""

    cause: Cause
    limit: float
    wait_seconds: float | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """`refusal` None: the call was counted, and must be ended with `Limiter.release`."""

    refusal: Refusal | None
    gauges: tuple[Gauge, ...] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class _Bucket:
    """Full at `capacity`; a call larger than that is let in when it is full, and leaves a debt."""

    meter: Meter
    limit: float
    capacity: float
    level: float
    seen_epoch_seconds: float

    def refill(self, now_epoch_seconds: float) -> None:
        passed = max(0.0, now_epoch_seconds - self.seen_epoch_seconds)
        self.level = min(self.capacity, self.level + passed * self.limit / 60)
        self.seen_epoch_seconds = now_epoch_seconds

    def wait_seconds(self, amount: float) -> float:
        return max(0.0, (min(amount, self.capacity) - self.level) * 60 / self.limit)

    def gauge(self) -> Gauge:
        return Gauge(
            meter=self.meter,
            limit=int(self.limit),
            remaining=max(0, int(self.level)),
            reset_seconds=(self.capacity - self.level) * 60 / self.limit,
        )


@dataclasses.dataclass(slots=True, kw_only=True)
class _Account:
    """One key's calls to one family."""

    buckets: tuple[_Bucket, ...]
    running: int = 0
    day: int = 0
    used_today: int = 0


class Limiter:
    """Holds `Limits`. Not safe to use from several threads; the simulator has one loop."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.running = 0
        self._accounts: OrderedDict[tuple[str, str], _Account] = OrderedDict()
        self._spent: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def admit(self, demand: Demand, now_epoch_seconds: float) -> Admission:
        """Count the call, or say why not: all of its limits are taken, or none."""
        account = self._account(demand, now_epoch_seconds)
        taken = dict(zip(_METERS, (1, demand.input_tokens, demand.reserved_output_tokens), strict=True))
        refusal = next(self._refusals(demand, account, taken, now_epoch_seconds), None)
        if refusal is None:
            for bucket in account.buckets:
                bucket.level -= taken[bucket.meter]
            account.used_today += 1
            account.running += 1
            self.running += 1
            self._charge(demand)
        return Admission(refusal=refusal, gauges=self._gauges(account, now_epoch_seconds))

    def release(self, demand: Demand, now_epoch_seconds: float) -> None:
        """The call has ended: its place is free, and output that was reserved and not used comes back."""
        account = self._account(demand, now_epoch_seconds)
        account.running -= 1
        self.running -= 1
        for bucket in account.buckets:
            if bucket.meter == "output-tokens":
                unused = demand.reserved_output_tokens - demand.output_tokens
                bucket.level = min(bucket.capacity, bucket.level + unused)

    def _refusals(
        self, demand: Demand, account: _Account, taken: dict[Meter, int], now_epoch_seconds: float
    ) -> Iterator[Refusal]:
        """Every reason against the call; the first is the one that it is told."""
        limits = self.limits
        tokens, cost_usd = self._spent.get(demand.key, (0, 0.0))
        if limits.allowance_tokens is not None and tokens >= limits.allowance_tokens:
            yield Refusal(cause="allowance", limit=limits.allowance_tokens, wait_seconds=None)
        if limits.allowance_usd is not None and cost_usd >= limits.allowance_usd:
            yield Refusal(cause="allowance", limit=limits.allowance_usd, wait_seconds=None)
        if limits.overload_above is not None and self.running >= limits.overload_above:
            yield Refusal(cause="overload", limit=limits.overload_above, wait_seconds=BUSY_WAIT_SECONDS)
        if limits.requests_per_day is not None and account.used_today >= limits.requests_per_day:
            wait_seconds = DAY_SECONDS - now_epoch_seconds % DAY_SECONDS
            yield Refusal(cause="requests-per-day", limit=limits.requests_per_day, wait_seconds=wait_seconds)
        if limits.concurrency is not None and account.running >= limits.concurrency:
            yield Refusal(cause="concurrency", limit=limits.concurrency, wait_seconds=BUSY_WAIT_SECONDS)
        waits = [(bucket.wait_seconds(taken[bucket.meter]), bucket) for bucket in account.buckets]
        wait_seconds, longest = max(waits, key=lambda wait: wait[0], default=(0.0, None))
        # Refilled levels carry rounding; a billionth of a second is no reason to refuse.
        if longest is not None and wait_seconds > 1e-9:
            yield Refusal(cause=longest.meter, limit=longest.limit, wait_seconds=wait_seconds)

    def _charge(self, demand: Demand) -> None:
        if self.limits.allowance_tokens is None and self.limits.allowance_usd is None:
            return
        tokens, cost_usd = self._spent.get(demand.key, (0, 0.0))
        used = demand.input_tokens + demand.output_tokens
        self._spent[demand.key] = (tokens + used, cost_usd + demand.cost_usd)
        self._spent.move_to_end(demand.key)
        if len(self._spent) > MAX_BUCKETS:
            self._spent.popitem(last=False)

    def _account(self, demand: Demand, now_epoch_seconds: float) -> _Account:
        name = (demand.key, demand.family)
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = _Account(buckets=_buckets(self.limits, now_epoch_seconds))
            self._forget_idle()
        self._accounts.move_to_end(name)
        today = int(now_epoch_seconds // DAY_SECONDS)
        if account.day != today:
            account.day, account.used_today = today, 0
        for bucket in account.buckets:
            bucket.refill(now_epoch_seconds)
        return account

    def _forget_idle(self) -> None:
        if len(self._accounts) > MAX_BUCKETS:
            oldest = next((name for name, account in self._accounts.items() if not account.running), None)
            if oldest is not None:
                del self._accounts[oldest]

    def _gauges(self, account: _Account, now_epoch_seconds: float) -> tuple[Gauge, ...]:
        gauges = tuple(bucket.gauge() for bucket in account.buckets)
        limit = self.limits.requests_per_day
        if limit is None:
            return gauges
        reset_seconds = DAY_SECONDS - now_epoch_seconds % DAY_SECONDS
        remaining = max(0, limit - account.used_today)
        daily = Gauge(meter="requests-per-day", limit=limit, remaining=remaining, reset_seconds=reset_seconds)
        return (*gauges, daily)


_METERS: tuple[Meter, ...] = ("requests", "input-tokens", "output-tokens")


def _buckets(limits: Limits, now_epoch_seconds: float) -> tuple[_Bucket, ...]:
    per_minute = (
        limits.requests_per_minute,
        limits.input_tokens_per_minute,
        limits.output_tokens_per_minute,
    )
    buckets = []
    for meter, limit in zip(_METERS, per_minute, strict=True):
        if limit is not None:
            capacity = max(1.0, limit * min(1.0, limits.burst_seconds / 60))
            buckets.append(
                _Bucket(
                    meter=meter,
                    limit=limit,
                    capacity=capacity,
                    level=capacity,
                    seen_epoch_seconds=now_epoch_seconds,
                )
            )
    return tuple(buckets)
