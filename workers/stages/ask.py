"""One question to one seat: walk its chain of models until one gives a usable answer.

This is the semantic retry layer (DESIGN §4). It repeats overload, server errors, malformed, empty, torn and
truncated replies; it never repeats a 429 or a broken connection, because the HTTP layer already has, honouring
Retry-After that only it can see. Were both to repeat the same error N times, one failing link would send
(N+1)² requests. One counter per link, kept on the stage row, bounds the requests of both layers together at N+1."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from workers.core.answers import Answer, parse
from workers.core.reply import Completion, CompletionRequest, FinishReason, Message
from workers.core.reply_repair import MalformedReplyError, Rung, repair
from workers.core.team import SeatAt
from workers.errors import ConsensusError, SettingsError, SlotTimeoutError
from workers.provenance.repository import stages
from workers.provenance.repository.stages import Progress, SeatKey
from workers.providers.base import EmptyReplyError, ProviderError, RateLimitedError
from workers.providers.chain import Link
from workers.stages.context import Context
from workers.stages.recorded_call import BudgetExhaustedError, RecordedCall, UnpricedModelError

#: `max_tokens` doubles with every re-ask, up to this many times the seat's own.
MAX_TOKENS_GROWTH = 4
#: First and longest pause before an overloaded model is asked again, seconds.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 20.0

#: A seat that would have to wait longer for a provider gives up instead, and so does one that was put off
#: this often: a run always ends.
LONGEST_DEFERRAL_SECONDS, MOST_DELIVERIES = 900.0, 20

_Answer = TypeVar("_Answer", bound=Answer)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[_Answer]):
    """A usable answer and where it came from."""

    answer: _Answer
    link: Link
    model_served: str
    rung: Rung
    is_simulated: bool


class SeatFailedError(ConsensusError):
    """No model of the seat's chain gave a usable answer. `cause` is the last error's kind."""

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail


class TornReplyError(ConsensusError):
    """The reply was cut off or is not the JSON asked for; asking again with a hint can help."""

    kind = "torn"

    def __init__(self, message: str, *, was_truncated: bool) -> None:
        super().__init__(message)
        self.was_truncated = was_truncated


@dataclasses.dataclass(slots=True, kw_only=True)
class Asking(Generic[_Answer]):
    """The state of one question: what to ask, how often it was asked on this link, and the hint so far."""

    context: Context
    key: SeatKey
    place: SeatAt
    system: str
    user: str
    answer_type: type[_Answer]
    retries: int
    always_escalates: bool
    used: int = 0
    growth: int = 1
    hint: str = ""

    def walk(self, chain: Sequence[Link], progress: Progress) -> Answered[_Answer]:
        """Ask the chain's links in turn. Raises: SeatFailedError, BudgetExhaustedError, RunCancelledError,
        SlotTimeoutError."""
        failures: list[tuple[Link, str, str]] = []
        for number in range(progress.link, len(chain)):
            link = chain[number]
            self.used, self.growth, self.hint = (progress.attempts if number == progress.link else 0), 1, ""
            if number > progress.link:
                with self.context.database.begin() as connection:
                    stages.advance_link(connection, self.key, link=number)
            if self.used > self.retries:
                failures.append((link, "lost_worker", "its requests were spent before a worker was lost"))
                continue
            try:
                return self._ask_link(link, number)
            except (ProviderError, TornReplyError, UnpricedModelError) as error:
                is_last = number == len(chain) - 1
                self._defer_if_worthwhile(error, is_last=is_last, deliveries=progress.deliveries)
                failures.append((link, error.kind, str(error)))
            except SlotTimeoutError as error:
                # The governor's line is long: another model may be free now. Only the last one is worth waiting for.
                if number == len(chain) - 1 and may_defer(error.wait_seconds, progress.deliveries):
                    raise
                failures.append((link, "rate", str(error)))
        if not failures:
            raise SeatFailedError(
                "lost_worker", "every model of the chain was tried before a worker was lost"
            )
        detail = "; ".join(f"{link.provider}/{link.model}: {message}" for link, _, message in failures)
        raise SeatFailedError(failures[-1][1], detail[:2000])

    def _defer_if_worthwhile(self, error: ConsensusError, *, is_last: bool, deliveries: int) -> None:
        """A stated wait that is too long to sit through but short enough to come back for, when there is no
        other model and this one has requests left. Raises: SlotTimeoutError."""
        wait = error.retry_after_seconds if isinstance(error, RateLimitedError) else None
        if wait and is_last and self.used <= self.retries and may_defer(wait, deliveries):
            raise SlotTimeoutError(str(error), wait_seconds=wait)

    def _ask_link(self, link: Link, number: int) -> Answered[_Answer]:
        retrying = Retrying(
            stop=stop_after_attempt(self.retries + 1),
            retry=retry_if_exception(self._may_repeat),
            wait=self._pause,
            sleep=self.context.sleep,
            reraise=True,
        )
        return retrying(self._ask_once, link, number)

    def _may_repeat(self, error: BaseException) -> bool:
        """Whether this layer asks again: the error is its own to repeat, and the link has requests left."""
        is_ours = isinstance(error, TornReplyError) or (
            isinstance(error, ProviderError) and error.is_repeatable
        )
        return is_ours and self.used <= self.retries

    @staticmethod
    def _pause(state: RetryCallState) -> float:
        """Jittered growing pause for a struggling provider; a torn reply is asked again at once."""
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, (TornReplyError, EmptyReplyError)):
            return 0.0
        return wait_random_exponential(multiplier=FIRST_PAUSE_SECONDS, max=LONGEST_PAUSE_SECONDS)(state)

    def _ask_once(self, link: Link, number: int) -> Answered[_Answer]:
        request = self._request(link)
        call = RecordedCall.send(self.context, self.key, link, request, number=number)
        before, self.used = self.used, self.used + 1
        if self.always_escalates:
            self._escalate()
        try:
            completion = self.context.models.complete(
                link,
                request,
                run_id=self.key.run_id,
                limit=self.retries + 1,
                used=before,
                sent_again=lambda: self._sent_again(call),
            )
        except ConsensusError as error:
            call.failed(error)
            if call.refusal is not None:
                raise BudgetExhaustedError(call.refusal) from error
            if isinstance(error, EmptyReplyError):
                self._escalate()
            raise
        return self._read(call, link, completion)

    def _request(self, link: Link) -> CompletionRequest:
        seat = self.place.seat
        user = f"{self.user}\n\n{self.hint}" if self.hint else self.user
        return CompletionRequest(
            model=link.model,
            messages=(Message(role="system", content=self.system), Message(role="user", content=user)),
            max_tokens=seat.max_tokens * self.growth,
            temperature=seat.temperature,
            timeout_seconds=seat.timeout_seconds,
            json_mode=True,
            stream=seat.stream,
        )

    def _sent_again(self, call: RecordedCall) -> None:
        call.repeat()
        self.used += 1

    def _read(self, call: RecordedCall, link: Link, completion: Completion) -> Answered[_Answer]:
        """Store the reply before anything else is done with it, then make an answer of it."""
        answer, rung, problem = None, None, None
        was_truncated = completion.finish_reason is FinishReason.LENGTH
        try:
            repaired = repair(completion.text, expected_keys=tuple(self.answer_type.model_fields)[:1])
            rung = repaired.rung
            # Routers rewrite the finish reason; half a file must not pass for a whole one.
            was_truncated = was_truncated or repaired.is_cut
            answer = parse(self.answer_type, repaired.value)
        except MalformedReplyError as error:
            problem = str(error)
        call.done(completion, rung=rung)
        if answer is not None and rung is not None and not was_truncated:
            return Answered(
                answer=answer,
                link=link,
                model_served=completion.model_served,
                rung=rung,
                is_simulated=completion.is_simulated,
            )
        self._escalate()
        if was_truncated:
            problem = f"the reply was cut off at {completion.usage.output_tokens} tokens"
        self.hint = (
            f"Your previous answer could not be used: {problem}. "
            "Answer again with the whole JSON object and nothing else."
        )
        raise TornReplyError(problem or "the reply could not be read", was_truncated=was_truncated)

    def _escalate(self) -> None:
        self.growth = min(self.growth * 2, MAX_TOKENS_GROWTH)


def may_defer(wait_seconds: float, deliveries: int) -> bool:
    """Whether a seat comes back later, or has waited enough."""
    return wait_seconds <= LONGEST_DEFERRAL_SECONDS and deliveries < MOST_DELIVERIES


def ask(
    context: Context,
    key: SeatKey,
    place: SeatAt,
    progress: Progress,
    *,
    answer_type: type[_Answer],
    retries: int,
    render_user: Callable[[], str],
    always_escalates: bool = False,
) -> Answered[_Answer]:
    """The seat's answer to its role's question.

    `always_escalates`: the lead's `max_tokens` grows with every attempt, whatever the last one died of, because
    its answer is the longest and nothing stands behind it.
    Raises: SeatFailedError when no model of the chain could be used; BudgetExhaustedError; RunCancelledError;
    SlotTimeoutError.
    """
    try:
        chain = context.models.chain(place.seat, place.index)
    except (SettingsError, ProviderError) as error:
        raise SeatFailedError("no_provider", str(error)) from None
    role = {"panel": "reviewer"}.get(key.stage, key.stage)
    asking: Asking[_Answer] = Asking(
        context=context,
        key=key,
        place=place,
        system=context.render(f"{role}.md", persona=place.seat.persona),
        user=render_user(),
        answer_type=answer_type,
        retries=retries,
        always_escalates=always_escalates,
    )
    return asking.walk(chain, progress)


def provenance_of(answered: Answered[Any]) -> dict[str, Any]:
    """Who answered, as plain data for results and events."""
    return {
        "provider": answered.link.provider,
        "model": answered.link.model,
        "model_served": answered.model_served,
        "family": answered.link.family,
        "rung": int(answered.rung),
        "simulated": answered.is_simulated,
    }
