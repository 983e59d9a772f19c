"""A `Provider`: one wire format, one address, one key, over the shared HTTP client."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

from workers.core.reply import Completion, CompletionRequest, Usage
from workers.providers.anthropic_messages import ANTHROPIC_MESSAGES
from workers.providers.attempts import AttemptCounter
from workers.providers.base import (
    AttemptsExhaustedError,
    BadRequestError,
    BeforeAttempt,
    CallTimeoutError,
    MalformedResponseError,
    ProviderError,
    TransportError,
)
from workers.providers.compat import Compat
from workers.providers.error_class import FieldRefusedError, classify, refused_field
from workers.providers.http import HttpCall, HttpClient, HttpReply, OnRateLimited
from workers.providers.openai_chat import OPENAI_CHAT
from workers.providers.registry import ProviderConfig, WireName
from workers.providers.sse import SseParser
from workers.providers.usage import record
from workers.providers.wire import StreamAccumulator, Wire, decode_model_list

WIRES: Mapping[WireName, Wire] = {"openai": OPENAI_CHAT, "anthropic": ANTHROPIC_MESSAGES}

_LIST_TIMEOUT_SECONDS = 15.0
_LIST_REQUESTS = 3
#: After the finish reason only the usage and the end mark can follow; they are worth this much patience.
_TAIL_SECONDS = 5.0


class WireProvider:
    """Implements `Provider`. Keep one instance per process: it remembers which fields each model refused."""

    def __init__(
        self, config: ProviderConfig, http: HttpClient, *, on_rate_limited: OnRateLimited | None = None
    ) -> None:
        self.name = config.name
        self._config = config
        self._wire = WIRES[config.wire]
        self._http = http
        self._on_rate_limited = on_rate_limited
        self._learned: dict[str, Compat] = {}

    async def complete(self, request: CompletionRequest, before_attempt: BeforeAttempt) -> Completion:
        """Ask once; see `Provider.complete`. The usage, returned or on the error, includes that of streams
        that were cut and asked again, and is counted in every open `usage_scope()`."""
        wasted: list[Usage] = []
        try:
            completion = await self._complete(request, before_attempt, wasted)
        except BaseException as error:
            # A cancelled run has paid for what was streamed so far, too.
            if wasted:
                spent = sum(wasted, Usage())
                record(self.name, request.model, spent)
                if isinstance(error, ProviderError):
                    error.usage = spent
            raise
        completion = dataclasses.replace(
            completion,
            text=self._without_key(completion.text),
            reasoning=self._without_key(completion.reasoning),
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
        return await self._http.send(call, read, AttemptCounter(_LIST_REQUESTS), self._on_rate_limited)

    async def _complete(
        self, request: CompletionRequest, before_attempt: BeforeAttempt, wasted: list[Usage]
    ) -> Completion:
        """Ask, and ask again without each optional field that is refused.

        Ends: a refused field is never sent again, so there are at most as many rounds as optional fields.
        """
        clock = asyncio.get_running_loop().time
        ends_at = clock() + request.timeout_seconds
        refusal: FieldRefusedError | None = None
        while True:
            compat = self._learned.get(request.model, self._config.compat)
            body = self._wire.encode(request, compat)
            try:
                return await self._ask(request, body, ends_at - clock(), before_attempt, wasted)
            except FieldRefusedError as error:
                refusal = error
                # Read again: a call beside this one may have learned something else meanwhile.
                known = self._learned.get(request.model, self._config.compat)
                self._learned[request.model] = known.without(error.field)
            except AttemptsExhaustedError:
                if refusal is None:
                    raise
                raise refusal from None
            except CallTimeoutError:
                raise CallTimeoutError(f"no complete answer within {request.timeout_seconds:g} s") from None

    async def _ask(
        self,
        request: CompletionRequest,
        body: dict[str, Any],
        timeout_seconds: float,
        before_attempt: BeforeAttempt,
        wasted: list[Usage],
    ) -> Completion:
        async def read(reply: HttpReply) -> Completion:
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
        return await self._http.send(call, read, before_attempt, self._on_rate_limited)

    async def _read_body(
        self, reply: HttpReply, request: CompletionRequest, wasted: list[Usage]
    ) -> Completion:
        try:
            return self._wire.decode(await reply.body(), request)
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
            if isinstance(error, ProviderError) and error.usage is not None:
                wasted.append(error.usage)
            elif draft.has_output or draft.output_tokens is not None:
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


async def _feed_until_done(reply: HttpReply, accumulator: StreamAccumulator) -> None:
    """Events into the accumulator up to the end mark, or the end of the body.

    Once the finish reason is there the answer is complete: whatever breaks or falls silent after it costs
    at most the usage count.
    """
    parser = SseParser()
    while not accumulator.is_done:
        has_finish = accumulator.draft.finish is not None
        try:
            chunk = await reply.chunk(idle_seconds=_TAIL_SECONDS if has_finish else None)
        except TransportError:
            if not has_finish:
                raise
            return
        for event in parser.finish() if chunk is None else parser.feed(chunk):
            accumulator.feed(event)
        if chunk is None:
            return
