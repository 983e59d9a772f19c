"""One attempt: a POST, and what its answer means. Whatever happens, it becomes an `Answer`."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

import aiohttp
import httpx
import structlog

from workers.core.webhook import Answer
from workers.errors import AddressRefusedError
from workers.providers.retry_after import retry_after_seconds

log = structlog.get_logger(__name__)

#: From the first look at the name to the last byte of the answer.
TIMEOUT_SECONDS = 10.0
#: So much of an answer's body is read, so that its sender can end in peace; none of it is looked at.
MOST_BODY_BYTES = 65_536
_USER_AGENT = "Consensus-Webhooks/1"


async def post(
    client: httpx.AsyncClient,
    url: str,
    *,
    body: bytes,
    headers: Mapping[str, str],
    now_epoch_seconds: float,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Answer:
    """Send and judge by the status alone. Never raises but when cancelled."""
    answer: Answer | None = None
    sent = {
        "content-type": "application/json",
        "user-agent": _USER_AGENT,
        "accept-encoding": "identity",
        **headers,
    }
    try:
        async with (
            asyncio.timeout(timeout_seconds),
            client.stream("POST", url, content=body, headers=sent) as response,
        ):
            answer = _judged(response, now_epoch_seconds)
            await _drain(response)
    except Exception as error:  # noqa: BLE001 - a receiver can make anything happen, and none of it is our end
        # Once the status is known, nothing that follows it changes the answer.
        return answer or _failed(error, timeout_seconds)
    return answer


def _judged(response: httpx.Response, now_epoch_seconds: float) -> Answer:
    status = response.status_code
    problem = None
    if not response.is_success:
        problem = f"answered {status}"
        if 300 <= status < 400:
            problem += "; redirects are not followed"
    wait = retry_after_seconds(response.headers, b"", now_epoch_seconds=now_epoch_seconds)
    return Answer(status=status, problem=problem, retry_after_seconds=wait)


async def _drain(response: httpx.Response) -> None:
    seen = 0
    async for chunk in response.aiter_raw():
        seen += len(chunk)
        if seen >= MOST_BODY_BYTES:
            return


def _failed(error: Exception, timeout_seconds: float) -> Answer:
    """In our own words: a library's would repeat the URL, whose path may be a secret, or what the receiver sent."""
    causes = list(_causes(error))
    if any(isinstance(cause, AddressRefusedError) for cause in causes):
        refused = next(cause for cause in causes if isinstance(cause, AddressRefusedError))
        return Answer(problem=f"the URL {refused}", is_refused=True)
    # The client's own limit for each step can strike a moment before ours for all of them.
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return Answer(problem=f"no answer within {timeout_seconds:g} s")
    for kind, words in _WORDS:
        if any(isinstance(cause, kind) for cause in causes):
            return Answer(problem=words)
    if not isinstance(error, (httpx.HTTPError, aiohttp.ClientError, OSError)):
        log.error("webhook.broke", error=type(error).__name__, exc_info=error)
    return Answer(problem=f"the connection broke off ({type(error).__name__})")


#: The most special first.
_WORDS: tuple[tuple[type[BaseException], str], ...] = (
    (aiohttp.ClientConnectorDNSError, "its host name leads nowhere"),
    (aiohttp.ClientConnectorCertificateError, "its certificate is not valid for its name"),
    (ssl.SSLError, "TLS cannot be agreed on"),
    (ConnectionRefusedError, "nothing listens there: connection refused"),
    (aiohttp.ClientConnectorError, "it cannot be connected to"),
    (aiohttp.ServerDisconnectedError, "it hung up without an answer"),
    (aiohttp.ClientResponseError, "it answered something that is not HTTP"),
)


def _causes(error: BaseException | None) -> list[BaseException]:
    """The error and what led to it."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
