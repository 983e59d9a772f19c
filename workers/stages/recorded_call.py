"""One call's row: there before the request is sent, with room for it in the run's budget, and billed at its end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

from workers.core.budget import Amount, Price, Refusal, bill_usd, most_tokens, worst_case
from workers.core.reply import Completion, CompletionRequest, Usage
from workers.core.run import Stage
from workers.errors import ConsensusError, SlotTimeoutError
from workers.provenance.repository import budgets, calls
from workers.provenance.repository.call_records import ended_late
from workers.provenance.repository.stages import SeatKey
from workers.providers.base import AttemptsExhaustedError, CallTimeoutError
from workers.providers.chain import Link
from workers.stages.context import Context, RunCancelledError
from workers.stages.patience import patiently


class BudgetExhaustedError(ConsensusError):
    """The run's budget has no room for the call; nothing was sent. The seat gives up with this cause."""

    cause = "budget"

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.sentence())
        self.refusal = refusal
        self.detail = refusal.sentence()


class UnpricedModelError(ConsensusError):
    """The run has a budget in dollars and nobody knows the model's price: the link is passed over."""

    kind = "no_price"


@dataclasses.dataclass(slots=True, kw_only=True)
class RecordedCall:
    """A call about to be sent. Every change of its row is one short transaction."""

    context: Context
    key: SeatKey
    call_id: str
    link: Link
    price: Price | None
    #: What one request can cost at most.
    worst: Amount
    #: Why a repeat of the request was not sent.
    refusal: Refusal | None = None

    @classmethod
    def send(
        cls,
        context: Context,
        key: SeatKey,
        link: Link,
        request: CompletionRequest,
        *,
        number: int,
        pass_number: int = 1,
    ) -> RecordedCall:
        """Reserve room in the budget and write the row; `number` is the link's place in its chain, `pass_number` how
        often its seat has asked this, this time included.

        Raises: BudgetExhaustedError, UnpricedModelError, RunCancelledError; then nothing may be sent.
        """
        price = context.price_of(link.provider, link.model)
        call = cls(
            context=context,
            key=key,
            call_id=context.new_id("call"),
            link=link,
            price=price,
            worst=worst_case(
                price,
                input_tokens=most_tokens(request.texts()),
                output_tokens=request.max_tokens,
            ),
        )
        call._write(request, number, pass_number)
        return call

    def _write(self, request: CompletionRequest, number: int, pass_number: int) -> None:
        new = calls.NewCall(
            call_id=self.call_id,
            key=self.key,
            link=number,
            provider=self.link.provider,
            model=self.link.model,
            family=self.link.family,
            request=dataclasses.asdict(request),
            worst=self.worst,
            pass_number=pass_number,
        )
        with self.context.database.single() as connection:
            if calls.sent(connection, new):
                return
        # The run has a budget, or is over: look and write under its lock.
        with self.context.database.begin() as connection:
            refusal = budgets.reserve(connection, self.key.run_id, self.worst, is_lead=self._is_lead)
            if refusal is None and calls.sent(connection, new, is_reserved=True):
                return
        if refusal is None:
            raise RunCancelledError(f"run {self.key.run_id} is over: nothing more is asked for it")
        if refusal.unit == "price":
            raise UnpricedModelError(refusal.sentence())
        raise BudgetExhaustedError(refusal)

    @property
    def _is_lead(self) -> bool:
        return self.key.stage is Stage.LEAD

    def repeat(self) -> None:
        """The HTTP layer is about to send the request again. What became of the first is not known for certain
        (a cut reply is billed), so the repeat needs room of its own.

        Raises: AttemptsExhaustedError when there is none, or the call is over: the HTTP layer then
        ends with the error it had.
        """
        with self.context.database.begin() as connection:
            self.refusal = budgets.reserve(connection, self.key.run_id, self.worst, is_lead=self._is_lead)
            if self.refusal is None and calls.sent_again(connection, self.call_id, self.key, self.worst):
                return
        why = "its call is over" if self.refusal is None else self.refusal.sentence()
        raise AttemptsExhaustedError(why)

    def done(self, completion: Completion, *, rung: int | None) -> None:
        """The reply arrived."""
        patiently(self.context, lambda: self._done(completion, rung))

    def _done(self, completion: Completion, rung: int | None) -> None:
        cost_usd = bill_usd(self.price, completion.usage)
        self._end(partial(calls.done, completion=completion, rung=rung, cost_usd=cost_usd))

    def _end(self, write: Callable[..., bool]) -> None:
        """One statement where the run is at work; under its lock where it is over, and then the ledger tells it."""
        with self.context.database.single() as connection:
            if write(connection, self.call_id):
                return
        with self.context.database.begin() as connection:
            late = partial(write, connection, self.call_id, is_late=True)
            ended_late(connection, self.key.run_id, self.call_id, late, at=self.context.now())

    def failed(self, error: ConsensusError) -> None:
        """There is no reply. A call that we broke off may be billed in full: it counts at its worst case."""
        patiently(self.context, lambda: self._failed(error))

    def _failed(self, error: ConsensusError) -> None:
        if isinstance(error, SlotTimeoutError):
            with self.context.database.begin() as connection:
                if calls.not_sent(connection, self.call_id, self.key):
                    return
        usage = getattr(error, "usage", None)
        if usage is None and isinstance(error, (CallTimeoutError, RunCancelledError)):
            usage = Usage(
                input_tokens=self.worst.input_tokens,
                output_tokens=self.worst.output_tokens,
                is_estimated=True,
            )
        self._end(
            partial(
                calls.failed,
                kind=getattr(error, "kind", "cancelled"),
                message=str(error),
                usage=usage,
                cost_usd=bill_usd(self.price, usage or Usage()),
            )
        )
