"""A `Provider`: one wire format, one address, one key, over the shared HTTP client."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

from workers.core.reply import Completion, CompletionRequest, Usage
from workers.errors import SlotTimeoutError
from workers.providers.anthropic_messages import ANTHROPIC_MESSAGES
from workers.providers.attempts import AttemptCounter
from workers.providers.base import (
    BadRequestError,
    BeforeAttempt,
    BeforeRepeat,
    CallTimeoutError,
    MalformedResponseError,
    Observer,
    OverloadedError,
    ProviderError,
    TransportError,
)
from workers.providers.compat import Compat
from workers.providers.error_class import FieldRefusedError, classify, refused_field
from workers.providers.headroom import read_headroom
from workers.providers.http import HttpCall, HttpClient, HttpReply, TokenWatch
from workers.providers.openai_chat import OPENAI_CHAT
from workers.providers.registry import ProviderConfig, WireName
from workers.providers.reply_draft import estimated_usage
from workers.providers.sse import SseParser
from workers.providers.usage import record
from workers.providers.wire import StreamAccumulator, Wire, decode_model_list

WIRES: Mapping[WireName, Wire] = {"openai": OPENAI_CHAT, "anthropic": ANTHROPIC_MESSAGES}

_LIST_TIMEOUT_SECONDS = 15.0
_LIST_REQUESTS = 3
#: After the finish reason only the usage and the end mark can follow; they are worth this much patience.
_TAIL_SECONDS = 5.0

#: Statuses that speak of load, as a status or inside a 200 (reference/panel.md §5.4).
_OVERLOADED = (503, 529)


class WireProvider:
    """Implements `Provider`. Keep one instance per process: it remembers which fields each model refused."""

    def __init__(self, config: ProviderConfig, http: HttpClient, *, observer: Observer | None = None) -> None:
        self.name = config.name
        self._config = config
        self._wire = WIRES[config.wire]
        self._http = http
        self._observer = observer
        self._learned: dict[str, Compat] = {}

    async def complete(
        self,
        request: CompletionRequest,
        before_attempt: BeforeAttempt,
        before_repeat: BeforeRepeat | None = None,
    ) -> Completion:
        """Ask once; see `Provider.complete`. The usage, returned or on the error, includes that of streams
        that were cut and asked again, and is counted in every open `usage_scope()`."""
        wasted: list[Usage] = []
        try:
            completion = await self._complete(request, before_attempt, before_repeat, wasted)
        except BaseException as error:
            # A cancelled run has paid for what was streamed so far, too.
            if wasted:
                spent = sum(wasted, Usage())
                record(self.name, request.model, spent)
                if isinstance(error, ProviderError):
                    error.usage = spent
            if isinstance(error, ProviderError):
                # An error that came inside a 200 was read where nobody looks for keys.
                error.args = (self._without_key(str(error)),)
            raise
        completion = dataclasses.replace(
            completion,
            text=self._without_key(completion.text),
            reasoning=self._without_key(completion.reasoning),
            tool_calls=tuple(
                dataclasses.replace(call, arguments=self._without_key(call.arguments))
                for call in completion.tool_calls
            ),
            usage=sum(wasted, completion.usage),
        )
        record(self.name, request.model, completion.usage)
        return completion

    def _without_key(self, text: str) -> str:
        """A gateway, or a model that was shown its own request, may quote the key; replies are stored for ever."""
        return text.replace(self._config.api_key, "[key]") if self._config.api_key else text

    async def list_models(self) -> tuple[str, ...]:
        """`GET /models`, in the provider's order. Raises ProviderError."""

        async def read(reply: HttpReply) -> tuple[str, ...]:
            if reply.status != 200:
                raise await self._error(reply, sent_fields=frozenset())
            return decode_model_list(await reply.body())

        call = HttpCall(
            method="GET",
            url=f"{self._config.base_url}/models",
            headers=self._wire.headers(self._config.api_key),
            timeout_seconds=_LIST_TIMEOUT_SECONDS,
        )
        return await self._http.send(call, read, AttemptCounter(_LIST_REQUESTS))

    async def _complete(
        self,
        request: CompletionRequest,
        before_attempt: BeforeAttempt,
        before_repeat: BeforeRepeat | None,
        wasted: list[Usage],
    ) -> Completion:
        """Ask, and ask again without each optional field that is refused.

        A request that only found out that a field is not wanted is not counted (reference/panel.md §5.3): it cost
        no tokens, and a link with one request left could otherwise never be asked. A refused field is never
        sent to that model again, so these are at most as many as there are optional fields, once per process;
        the bound of N+1 holds for everything else.
        """
        clock = asyncio.get_running_loop().time
        ends_at = clock() + request.timeout_seconds
        before = before_attempt
        while True:
            compat = self._learned.get(request.model, self._config.compat)
            body = self._wire.encode(request, compat)
            try:
                return await self._ask(request, body, ends_at - clock(), before, before_repeat, wasted)
            except FieldRefusedError as error:
                await _take_turn(before_repeat, error)
                # Read again: a call beside this one may have learned something else meanwhile.
                known = self._learned.get(request.model, self._config.compat)
                self._learned[request.model] = known.without(error.field)
                before = _uncounted_once(before_attempt)
            except CallTimeoutError:
                raise CallTimeoutError(f"no complete answer within {request.timeout_seconds:g} s") from None

    async def _ask(
        self,
        request: CompletionRequest,
        body: dict[str, Any],
        timeout_seconds: float,
        before_attempt: BeforeAttempt,
        before_repeat: BeforeRepeat | None,
        wasted: list[Usage],
    ) -> Completion:
        async def read(reply: HttpReply) -> Completion:
            await self._tell_headroom(request.model, reply)
            if reply.status != 200:
                raise await self._error(reply, sent_fields=self._wire.optional_fields & body.keys())
            if request.stream and not _is_whole_body(reply):
                completion = await self._read_stream(reply, request, wasted)
            else:
                completion = await self._read_body(reply, request, wasted)
            header_id = reply.headers.get("x-request-id") or reply.headers.get("request-id")
            return dataclasses.replace(completion, request_id=header_id) if header_id else completion

        call = HttpCall(
            url=self._config.base_url + self._wire.completion_path,
            headers=self._wire.headers(self._config.api_key),
            json_body=body,
            timeout_seconds=timeout_seconds,
        )
        told = None if self._observer is None else partial(self._observer.rate_limited, request.model)
        try:
            return await self._http.send(call, read, before_attempt, told, before_repeat)
        except OverloadedError as error:
            await self._tell_overload(request.model, error)
            raise

    async def _tell_headroom(self, model: str, reply: HttpReply) -> None:
        left = read_headroom(reply.headers, now_epoch_seconds=self._http.clock())
        if self._observer is not None and left is not None:
            await self._observer.headroom(model, left)

    async def _tell_overload(self, model: str, error: OverloadedError) -> None:
        """A stated wait is kept by everybody; without one, fewer calls at once are the answer. A plain 500 says
        nothing about load."""
        if self._observer is None:
            return
        if error.retry_after_seconds is not None:
            await self._observer.rate_limited(model, error.retry_after_seconds)
        elif error.status in _OVERLOADED:
            await self._observer.overloaded(model)

    async def _read_body(
        self, reply: HttpReply, request: CompletionRequest, wasted: list[Usage]
    ) -> Completion:
        try:
            raw = await reply.body()
        except (TransportError, asyncio.CancelledError):
            # The reply had begun to arrive, so it was written, and is billed.
            wasted.append(estimated_usage(request, reply.received_bytes))
            raise
        try:
            return self._wire.decode(raw, request)
        except ProviderError as error:
            if error.usage is not None:
                wasted.append(error.usage)
            raise

    async def _read_stream(
        self, reply: HttpReply, request: CompletionRequest, wasted: list[Usage]
    ) -> Completion:
        if "text/html" in reply.headers.get("content-type", ""):
            raise MalformedResponseError(
                "a page of HTML came where a stream was expected; check the base URL"
            )
        accumulator = self._wire.accumulator()
        try:
            await _feed_until_done(reply, accumulator)
            completion = accumulator.draft.streamed_completion(request)
        except BaseException as error:
            draft = accumulator.draft
            is_cut = isinstance(error, TransportError) or not isinstance(error, ProviderError)
            if isinstance(error, ProviderError) and error.usage is not None:
                wasted.append(error.usage)
            elif draft.has_output or draft.output_tokens is not None or (is_cut and draft.has_begun):
                # A cut stream never says what it cost, and is billed all the same.
                wasted.append(draft.spent(request))
            raise
        await reply.drain()
        return completion

    async def _error(self, reply: HttpReply, *, sent_fields: frozenset[str]) -> ProviderError:
        body = await reply.error_body()
        if self._config.api_key:
            # Some gateways quote the key they refuse, and errors are stored for ever.
            body = body.replace(self._config.api_key.encode(), b"[key]")
        error = classify(reply.status, reply.headers, body, now_epoch_seconds=self._http.clock())
        if isinstance(error, BadRequestError) and reply.status in (400, 422):
            field = refused_field(body, sent_fields)
            if field is not None:
                return FieldRefusedError(str(error), status=reply.status, field=field)
        return error


def _is_whole_body(reply: HttpReply) -> bool:
    """A server that does not stream answers in one piece, whatever it was asked."""
    return "application/json" in reply.headers.get("content-type", "")


async def _take_turn(before_repeat: BeforeRepeat | None, error: FieldRefusedError) -> None:
    """Raises: `error`, if no turn is to be had."""
    if before_repeat is not None:
        try:
            await before_repeat()
        except SlotTimeoutError:
            raise error from None


def _uncounted_once(before_attempt: BeforeAttempt) -> BeforeAttempt:
    """Lets one request through without a count, and passes on every one after it."""
    calls = 0

    async def before() -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            await before_attempt()

    return before


async def _feed_until_done(reply: HttpReply, accumulator: StreamAccumulator) -> None:
    """Events into the accumulator up to the end mark, or the end of the body.

    Once the finish reason is there the answer is complete: whatever breaks or falls silent after it costs
    at most the usage count.
    """
    parser = SseParser()
    watch, draft = TokenWatch(reply.token_idle_seconds), accumulator.draft
    while not accumulator.is_done:
        pieces, was_finished = draft.pieces, draft.finish is not None
        try:
            chunk = await watch.next_chunk(reply)
        except TransportError:
            if not was_finished:
                raise
            return
        for event in parser.finish() if chunk is None else parser.feed(chunk):
            accumulator.feed(event)
        if chunk is None:
            return
        if draft.finish is not None and not was_finished:
            watch = TokenWatch(_TAIL_SECONDS)
        elif draft.pieces > pieces:
            watch.saw_token()
