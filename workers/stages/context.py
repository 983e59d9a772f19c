"""What a stage is given, and what it gives back. Stages know neither Celery nor settings."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from workers.core.budget import PriceOf, no_prices
from workers.core.reply import Completion, CompletionRequest
from workers.core.submission import Existing
from workers.core.team import Seat
from workers.errors import ConsensusError
from workers.governor.accounts import LowQuota
from workers.governor.base import Lane
from workers.governor.breaker import Refusal
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.providers.chain import Link
from workers.sandbox.base import Cage
from workers.tools.toolbox import Toolbox


class Models(Protocol):
    """The way to the models: governor, transport and cancellation behind one call."""

    def chain(self, seat: Seat, index: int, *, is_lead: bool) -> Chosen:
        """The seat's usable links, never empty; in low-quota mode the cheap ones come first, except for the
        lead. Raises: SettingsError if no provider is on at all."""
        ...

    def refusal(self, link: Link) -> Refusal | None:
        """Why nothing may be sent to the link now, None if the next call to it may go out."""
        ...

    def window(self, link: Link) -> int | None:
        """Tokens that the model takes in all, None if nobody knows."""
        ...

    def complete(
        self,
        link: Link,
        request: CompletionRequest,
        *,
        purpose: Purpose,
        limit: int,
        used: int,
        sent_again: Callable[[], None],
    ) -> Completion:
        """Ask once and wait. The link may send `limit` requests in all, `used` of which are spent (the one
        about to be sent not among them); `sent_again` is called before each request after the first.

        Raises: ProviderError, SlotTimeoutError, RunCancelledError.
        """
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """What a call is for: whose it is, which estimates it teaches, and in which line it waits."""

    run_id: str
    stage: str
    lane: Lane


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The links that a seat may ask, in this order, and why the cheap ones come first if they do."""

    links: Sequence[Link]
    low_quota: LowQuota | None = None


class RunCancelledError(ConsensusError):
    """The run was cancelled while its model was being asked."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Everything a stage may touch."""

    database: Database
    models: Models
    owner: str
    lease_seconds: float
    #: After which a batch's seat asks again at an account that is empty or refused its key.
    held_seconds: float
    now: Callable[[], dt.datetime]
    new_id: Callable[[str], str]
    sleep: Callable[[float], None]
    render: Callable[..., str]
    at_work: AtWork
    toolbox: Toolbox
    cage: Cage
    price_of: PriceOf = no_prices


class AtWork(Protocol):
    """The seats at work in this process, whose leases the heartbeat prolongs."""

    def add(self, key: SeatKey) -> None: ...

    def discard(self, key: SeatKey) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What was submitted."""

    spec: str
    files: Mapping[str, str]
    tests: Mapping[str, str]
    #: With code that is to be judged as it is; None where a coder writes the candidate.
    existing: Existing | None = None

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Material:
        review = value.get("review")
        return cls(
            spec=value["spec"],
            files=value["files"],
            tests=value["tests"],
            existing=None if review is None else Existing.of(review),
        )
