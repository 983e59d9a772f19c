"""The command line's way to the API: plain calls, and a stream of events that survives a broken connection."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote as _quote

import httpx

from workers.errors import InputError, NotFoundError, UnavailableError
from workers.providers.sse import SseParser

#: A stream that cannot be had again for this long is given up.
GIVE_UP_SECONDS = 60.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """One event of a run's ledger."""

    seq: int
    kind: str
    at: str
    payload: Mapping[str, Any]


def quote(part: str) -> str:
    """A part of a path, whatever it holds."""
    return _quote(part, safe="")


class Client:
    """A client of one API. Its errors are sentences."""

    def __init__(self, url: str, *, transport: httpx.BaseTransport | None = None) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=httpx.Timeout(30.0, connect=5.0), transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def create_run(self, body: Mapping[str, Any], *, idempotency_key: str | None = None) -> dict[str, Any]:
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self._call("POST", "/v1/runs", json=body, headers=headers)

    def run(self, run_id: str) -> dict[str, Any]:
        return self._call("GET", f"/v1/runs/{quote(run_id)}")

    def runs(self, **filters: Any) -> list[dict[str, Any]]:
        """The newest runs that fit (`GET /v1/runs`)."""
        return list(self._call("GET", "/v1/runs", params=filters)["runs"])

    def cancel(self, run_id: str) -> dict[str, Any]:
        return self._call("POST", f"/v1/runs/{quote(run_id)}/cancel")

    def provenance(self, run_id: str) -> dict[str, Any]:
        return self._call("GET", f"/v1/runs/{quote(run_id)}/provenance")

    def results(self, run_id: str, format: str) -> bytes:
        """A run's claims as a file (`GET /v1/runs/{id}/results`)."""
        return self._request("GET", f"/v1/runs/{quote(run_id)}/results", params={"format": format}).content

    def providers(self) -> list[dict[str, Any]]:
        return list(self._request("GET", "/v1/providers").json())

    def limits(self) -> list[dict[str, Any]]:
        return list(self._request("GET", "/v1/limits").json())

    def set_limits(self, provider: str, family: str, limits: Mapping[str, Any]) -> dict[str, Any]:
        return self._call("PUT", f"/v1/limits/{quote(provider)}/{quote(family)}", json=limits)

    def reset_limits(self, provider: str, family: str) -> None:
        self._request("DELETE", f"/v1/limits/{quote(provider)}/{quote(family)}")

    def readiness(self) -> dict[str, Any]:
        return self._call("GET", "/readyz")

    def _call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        return _object(self._request(method, path, **options))

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **options)
        except httpx.HTTPError as error:
            raise UnavailableError(f"the API at {self.url} does not answer: {error}") from None
        if response.is_success:
            return response
        raise _error(response)

    def events(self, run_id: str, *, after: int = 0) -> Iterator[RunEvent]:
        """The run's events until it has ended; connects again, behind the last event, when the stream breaks.

        Raises: NotFoundError; UnavailableError when the API stays away.
        """
        lost_at: float | None = None
        while True:
            try:
                for event in self._stream(run_id, after):
                    lost_at = None
                    if event is None:
                        return
                    after = event.seq
                    yield event
            except httpx.HTTPError as error:
                lost_at = lost_at or time.monotonic()
                if time.monotonic() - lost_at > GIVE_UP_SECONDS:
                    raise UnavailableError(f"the API at {self.url} went away: {error}") from None
                time.sleep(0.5)

    def _stream(self, run_id: str, after: int) -> Iterator[RunEvent | None]:
        """Events of one connection; None when the run has ended."""
        parser = SseParser()
        with self._http.stream(
            "GET",
            f"/v1/runs/{quote(run_id)}/events",
            headers={"Last-Event-ID": str(after), "Accept": "text/event-stream"},
            timeout=httpx.Timeout(30.0, connect=5.0),
        ) as response:
            if response.status_code == 204:
                yield None
                return
            if not response.is_success:
                response.read()
                raise _error(response)
            for chunk in response.iter_bytes():
                for message in parser.feed(chunk):
                    if message.name == "end":
                        yield None
                        return
                    data = json.loads(message.data)
                    yield RunEvent(
                        seq=data["seq"], kind=data["kind"], at=data["at"], payload=data["payload"] or {}
                    )
        raise httpx.ReadError("the stream broke off")


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        value = response.json()
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UnavailableError(f"{response.url.copy_with(path='/')} is not a Consensus API")
    return value


def _error(response: httpx.Response) -> Exception:
    try:
        detail = str(response.json().get("detail") or response.reason_phrase)
    except (ValueError, AttributeError):
        detail = f"{response.url} answered {response.status_code}; is this a Consensus API?"
    if response.status_code == 404:
        return NotFoundError(detail)
    if 400 <= response.status_code < 500:
        return InputError(detail)
    return UnavailableError(detail)
