"""One question to one seat, asked of its chain of models (`walk.py`) until one gives a usable answer.

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
from workers.core.run import Stage
from workers.core.team import SeatAt
from workers.errors import ConsensusError, SettingsError
from workers.governor.accounts import LowQuota
from workers.governor.base import Lane
from workers.provenance.repository import stages
from workers.provenance.repository.call_history import Asked, asked_before, recorded
from workers.provenance.repository.stages import SeatKey
from workers.providers.base import EmptyReplyError, OverloadedError, ProviderError
from workers.providers.chain import Link
from workers.providers.fallback import Failure
from workers.stages.context import Context, Purpose
from workers.stages.recorded_call import BudgetExhaustedError, RecordedCall
from workers.stages.recorded_reply import usable
from workers.stages.seat import Work
from workers.stages.tooling import Tooling, tooling
from workers.stages.walk import SeatFailedError, TornReplyError, Walk
from workers.tools.briefing import instructions, references

#: `max_tokens` doubles with every re-ask, up to this many times the seat's own.
MAX_TOKENS_GROWTH = 4
#: First and longest pause before an overloaded model is asked again, seconds.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 20.0

_Answer = TypeVar("_Answer", bound=Answer)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[_Answer]):
    """A usable answer and where it came from."""

    answer: _Answer
    link: Link
    model_served: str
    rung: Rung
    is_simulated: bool
    failures: Sequence[Failure] = ()
    low_quota: LowQuota | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class Asking(Generic[_Answer]):
    """The state of one question: what to ask, how often it was asked on this link, and the hint so far."""

    context: Context
    key: SeatKey
    place: SeatAt
    purpose: Purpose
    system: str
    user: str
    persona: str
    answer_type: type[_Answer]
    retries: int
    always_escalates: bool
    tooling: Tooling
    pass_number: int = 1
    #: Calls of tools on this link and what they returned.
    dialogue: tuple[Message, ...] = ()
    used: int = 0
    growth: int = 1
    hint: str = ""

    def ask_link(self, link: Link, number: int, used: int) -> Answered[_Answer]:
        """Ask one link until it answers, fails for good or has spent its requests, `used` of them before now.

        Raises: ProviderError, TornReplyError, SlotTimeoutError, RunCancelledError.
        """
        self.used, self.growth, self.hint, self.dialogue = used, 1, "", ()
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
        # A wait that is too long to sit through gives the worker's place back (`walk.py`).
        return is_ours and self.used <= self.retries and _stated_wait(error) <= LONGEST_PAUSE_SECONDS

    @staticmethod
    def _pause(state: RetryCallState) -> float:
        """Jittered growing pause for a struggling provider; a torn reply is asked again at once."""
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, (TornReplyError, EmptyReplyError)):
            return 0.0
        pause = wait_random_exponential(multiplier=FIRST_PAUSE_SECONDS, max=LONGEST_PAUSE_SECONDS)(state)
        # Those who were told the same wait must not come back together.
        return max(pause, _stated_wait(error) + min(pause, 1.0)) if _stated_wait(error) else pause

    def _ask_once(self, link: Link, number: int) -> Answered[_Answer]:
        """One try: the model may call tools on its way to an answer, at most as often as the team allows."""
        used = self.used
        max_tokens = self.place.seat.max_tokens * self.growth
        if self.always_escalates:
            self._escalate()
        while True:
            may_call = self.tooling.may_call
            request = self._request(link, max_tokens, may_call=may_call)
            call = RecordedCall.send(
                self.context, self.key, link, request, number=number, pass_number=self.pass_number
            )
            completion = self._send(call, link, request)
            if not completion.tool_calls or not may_call:
                return self._read(call, link, completion)
            call.done(completion, rung=None)
            self.dialogue += self.tooling.answered(completion)
            # An answer that asked for a tool was no failed try.
            self.used = max(self.used - 1, used)

    def _send(self, call: RecordedCall, link: Link, request: CompletionRequest) -> Completion:
        before, self.used = self.used, self.used + 1
        try:
            return self.context.models.complete(
                link,
                request,
                purpose=self.purpose,
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

    def _request(self, link: Link, max_tokens: int, *, may_call: bool) -> CompletionRequest:
        seat = self.place.seat
        # The material first and what differs between seats last, so that they share a prefix a provider can cache.
        messages = [
            Message(role="system", content=self.system),
            Message(role="user", content=self.user, is_shared_prefix=True),
        ]
        if self.dialogue:
            messages += [Message(role="user", content=self.persona)] if self.persona else []
            messages += self.dialogue
            messages += [Message(role="user", content=self.hint)] if self.hint else []
        elif self.persona or self.hint:
            own = "\n\n".join(part for part in (self.persona, self.hint) if part)
            messages.append(Message(role="user", content=own))
        return CompletionRequest(
            model=link.model,
            messages=tuple(messages),
            max_tokens=max_tokens,
            temperature=seat.temperature,
            timeout_seconds=seat.timeout_seconds,
            json_mode=True,
            stream=seat.stream,
            tools=self.tooling.specs,
            may_call_tools=may_call,
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


def ask(
    work: Work,
    *,
    answer_type: type[_Answer],
    render_user: Callable[[], str],
    always_escalates: bool = False,
    role: str | None = None,
    earlier: int = 0,
) -> Answered[_Answer]:
    """The seat's answer to its role's question. `role`: the prompt's name, by default the stage's. `earlier`: how
    often this seat has asked the same before; work that is delivered again takes its answers from the record.

    `always_escalates`: the lead's `max_tokens` grows with every attempt, whatever the last one died of, because
    its answer is the longest and nothing stands behind it.
    Raises: SeatFailedError when no model of the chain could be used; BudgetExhaustedError; RunCancelledError;
    SlotTimeoutError.
    """
    context, key, progress = work.context, work.key, work.progress
    place, models = work.place, context.models
    try:
        chosen = models.chain(place.seat, place.index, is_lead=key.stage is Stage.LEAD)
    except (SettingsError, ProviderError) as error:
        raise SeatFailedError("no_provider", str(error)) from None
    role = role or {Stage.PANEL: "reviewer", Stage.REFUTE: "refuter"}.get(key.stage, key.stage.value)
    with tooling(work, role) as tools:
        asking: Asking[_Answer] = Asking(
            context=context,
            key=key,
            place=place,
            purpose=Purpose(run_id=key.run_id, stage=key.stage, lane=work.lane),
            system=instructions(context.render, role, work.team),
            user="\n".join(part for part in (render_user(), _references(work, role)) if part),
            persona=context.render("persona.md", persona=place.seat.persona) if place.seat.persona else "",
            answer_type=answer_type,
            retries=work.team.policy.retries,
            always_escalates=always_escalates,
            tooling=tools,
            pass_number=earlier + 1,
        )
        known = _on_record(asking, earlier) if progress.deliveries > 1 else None
        if known is not None:
            return known
        walk: Walk[Answered[_Answer]] = Walk(
            links=chosen.links,
            asked_before=_asked_before(context, key) if progress.deliveries > 1 else {},
            retries=work.team.policy.retries,
            deliveries=progress.deliveries,
            at=progress.link,
            is_batch=work.lane is Lane.BATCH,
            held_seconds=context.held_seconds,
            window=models.window,
            refusal=models.refusal,
            moved=lambda number: _note_link(context, key, number),
            ask=asking.ask_link,
            spent=lambda: asking.used,
        )
        answered = walk.answer()
        return dataclasses.replace(answered, failures=walk.failures, low_quota=chosen.low_quota)


def _on_record(asking: Asking[_Answer], earlier: int) -> Answered[_Answer] | None:
    """The answer that an earlier delivery of this work was given, before its worker was lost."""
    with asking.context.database.begin() as connection:
        replies = recorded(connection, asking.key)
    found = usable(replies, asking.answer_type, question=(asking.system, asking.user), earlier=earlier)
    if found is None:
        return None
    answer, call, failures = found
    return Answered(
        answer=answer,
        link=Link(provider=call.provider, model=call.model, family=call.family),
        model_served=call.model_served,
        rung=Rung(call.rung),
        is_simulated=call.is_simulated,
        failures=failures,
    )


def _references(work: Work, role: str) -> str:
    """Passages for the task; a repair of a torn reply is shown the same ones."""
    material = work.material
    return references(work.context.render, role, work.team, spec=material.spec, submitted=material.files)


def _stated_wait(error: BaseException | None) -> float:
    """Seconds that an overloaded provider asks us to stay away, 0 if it does not say."""
    return error.retry_after_seconds or 0.0 if isinstance(error, OverloadedError) else 0.0


def _asked_before(context: Context, key: SeatKey) -> dict[tuple[str, str], Asked]:
    with context.database.begin() as connection:
        return asked_before(connection, key)


def _note_link(context: Context, key: SeatKey, number: int) -> None:
    with context.database.begin() as connection:
        stages.advance_link(connection, key, link=number)


def provenance_of(answered: Answered[Any]) -> dict[str, Any]:
    """Who answered, as plain data for results and events."""
    return {
        "provider": answered.link.provider,
        "model": answered.link.model,
        "model_served": answered.model_served,
        "family": answered.link.family,
        "rung": int(answered.rung),
        "simulated": answered.is_simulated,
        **(
            {"fallback": [_failed_link(failure) for failure in answered.failures]}
            if answered.failures
            else {}
        ),
        **({"low_quota": dataclasses.asdict(answered.low_quota)} if answered.low_quota else {}),
    }


def _failed_link(failure: Failure) -> dict[str, str]:
    return {
        "model": f"{failure.link.provider}/{failure.link.model}",
        "cause": failure.kind,
        "detail": failure.detail[:300],
    }
