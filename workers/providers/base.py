"""The contract of a provider and the errors a call may raise: `reference/panel.md` §5.4 in types.

Two layers retry, and each error says which one may (DESIGN §4). The HTTP layer (`http.py`) alone retries
`RateLimitedError` and `TransportError`, because it alone sees Retry-After. The semantic layer
(`workers/stages/ask.py`) alone retries overload, server errors, malformed, empty and truncated replies.
If one layer retried the other's errors, N retries here times N retries there would send (N+1)² requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from workers.core.reply import Completion, CompletionRequest, Usage
from workers.errors import ConsensusError
from workers.governor.base import Headroom

#: Awaited before every HTTP request is sent. Raises `AttemptsExhaustedError` when the link of the fallback
#: chain has used its N+1 requests, whichever layer used them.
BeforeAttempt = Callable[[], Awaitable[None]]


#: Awaited before a request is repeated: a repeat takes its turn at the governor as any other request does. Raises
#: `SlotTimeoutError` if that would take too long; the call then ends with the error it had.
BeforeRepeat = Callable[[], Awaitable[None]]


class Provider(Protocol):
    """Speaks one wire format to one address."""

    name: str

    async def complete(
        self,
        request: CompletionRequest,
        before_attempt: BeforeAttempt,
        before_repeat: BeforeRepeat | None = None,
    ) -> Completion:
        """Ask once. Returns a completion with text, possibly truncated (`finish_reason` says so).

        Raises: ProviderError and its children; `asyncio.CancelledError` when the run was cancelled.
        """
        ...

    async def list_models(self) -> tuple[str, ...]:
        """`GET /models`, in the provider's order. Raises ProviderError."""
        ...


class Observer(Protocol):
    """Told what answers say about a provider's limits, so that every worker hears of it. Called while a call is
    under way and never for its result; whatever it raises ends the call."""

    async def rate_limited(self, model: str, seconds: float) -> None:
        """A 429, or any refusal with a stated wait: nobody should start on `model` for that long."""
        ...

    async def overloaded(self, model: str) -> None:
        """503, 529 or their like inside a 200, without a stated wait: fewer calls at once would help."""
        ...

    async def headroom(self, model: str, headroom: Headroom) -> None:
        """What the headers of an answer, good or bad, said is left."""
        ...


class AttemptsExhaustedError(ConsensusError):
    """The link has sent its N+1 requests."""


class ProviderError(ConsensusError):
    """A call failed. `kind` is the class of `reference/panel.md` §5.4, `usage` what it cost all the same."""

    kind = "malformed"
    #: The semantic layer may ask the same model again.
    is_repeatable = False

    def __init__(self, message: str, *, status: int | None = None, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.usage = usage


class RateLimitedError(ProviderError):
    """429 after the HTTP layer's own retries ended, or a stated wait too long to sit through."""

    kind = "rate"

    def __init__(
        self, message: str, *, status: int | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message, status=status)
        self.retry_after_seconds = retry_after_seconds


class QuotaError(ProviderError):
    """402, `insufficient_quota`, a spend limit: no retry helps."""

    kind = "quota"


class OverloadedError(ProviderError):
    """5xx, 529, `overloaded_error`, whether as a status or inside a 200. `retry_after_seconds`: the wait it
    states, below which asking again is pointless."""

    kind = "overload"
    is_repeatable = True

    def __init__(
        self, message: str, *, status: int | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message, status=status)
        self.retry_after_seconds = retry_after_seconds


class TransportError(ProviderError):
    """Connection refused, reset, cut, or silent past the deadline; the HTTP layer's retries ended."""

    kind = "transport"


class CallTimeoutError(ProviderError):
    """The whole call took longer than `timeout_seconds`."""

    kind = "timeout"
    is_repeatable = True


class BadRequestError(ProviderError):
    """400, 404, 405, 422: the same request can only fail again."""

    kind = "bad_request"


class AuthenticationError(ProviderError):
    """401, 403."""

    kind = "auth"


class ContextTooLongError(ProviderError):
    """413, or a 400 that says the prompt does not fit the model."""

    kind = "context"


class MalformedResponseError(ProviderError):
    """The body is not the wire format: HTML, no choices, not JSON."""

    kind = "malformed"
    is_repeatable = True


class EmptyReplyError(ProviderError):
    """A well-formed reply without text; `reasoning_only` when thinking ate the budget."""

    kind = "empty"
    is_repeatable = True

    def __init__(self, message: str, *, usage: Usage | None = None, reasoning_only: bool = False) -> None:
        super().__init__(message, usage=usage)
        self.reasoning_only = reasoning_only


class RefusedError(ProviderError):
    """The model or its filter declined; ask another family."""

    kind = "refusal"
