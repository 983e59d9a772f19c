"""The command line's way to the API: plain calls, and a stream of events that survives a broken connection."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote as _quote

import httpx
from pydantic import SecretStr

from workers.errors import InputError, NotFoundError, SpecLinesError, UnavailableError
from workers.providers.sse import SseParser

#: A stream that cannot be had again for this long is given up, and so is a submission.
GIVE_UP_SECONDS = 60.0
#: Who watches a batch watches for hours, and a server that is being moved comes back.
GIVE_UP_BATCH_SECONDS = 600.0
_TRY_AGAIN_SECONDS = 0.5
#: A stream that is alive says so every ten seconds.
_PATIENT = httpx.Timeout(30.0, connect=5.0)
#: Storing a hundred thousand runs takes a while, and the answer comes behind it.
_STORE_SECONDS = 1800.0
#: A whole detail of a batch with a thousand skipped lines, and room.
_MAX_EVENT_BYTES = 16 * 1024 * 1024


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

    def __init__(
        self, url: str, *, api_key: SecretStr | None = None, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.url = url
        self._http = httpx.Client(
            base_url=url,
            headers={} if api_key is None else {"Authorization": f"Bearer {api_key.get_secret_value()}"},
            timeout=httpx.Timeout(30.0, connect=5.0),
            transport=transport,
        )

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

    def provenance_export(self, run_id: str) -> bytes:
        """A run's whole record as a file."""
        return self._request("GET", f"/v1/runs/{quote(run_id)}/provenance/export").content

    @contextmanager
    def results(self, kind: str, name: str, format: str) -> Iterator[Iterator[bytes]]:
        """How a run's claims or a batch's runs ended, as a file in pieces; `kind` is `runs` or `batches`.

        Raises: UnavailableError, also from the pieces when the API breaks off: what came until then is no whole file.
        """
        path = f"/v1/{kind}/{quote(name)}/results"
        try:
            with self._http.stream("GET", path, params={"format": format}, timeout=_PATIENT) as response:
                if not response.is_success:
                    response.read()
                    raise _error(response)
                yield response.iter_bytes()
        except httpx.HTTPError as error:
            raise UnavailableError(f"the API at {self.url} broke off: {error}") from None

    def submit_batch(
        self,
        pieces: Callable[[], Iterator[bytes]],
        *,
        size_bytes: int,
        is_packed: bool,
        options: Mapping[str, Any],
        idempotency_key: str,
    ) -> tuple[dict[str, Any], bool]:
        """Send lines as a batch; (batch, whether it is new). `pieces` gives the body anew each time it is called.

        Sent again while the API is away, which the key makes safe.
        Raises: SpecLinesError; InputError; UnavailableError when the API stays away.
        """
        headers = {
            "Content-Type": "application/jsonl",
            "Content-Length": str(size_bytes),
            "Idempotency-Key": idempotency_key,
            **({"Content-Encoding": "gzip"} if is_packed else {}),
        }
        lost_at: float | None = None
        while True:
            try:
                response = self._http.post(
                    "/v1/batches",
                    content=pieces(),
                    params=options,
                    headers=headers,
                    timeout=httpx.Timeout(_STORE_SECONDS, connect=5.0),
                )
                if response.is_success:
                    return _object(response), response.status_code != 200
                if response.status_code != 503:
                    raise _error(response)
                problem = str(_error(response))
            except httpx.HTTPError as error:
                problem = f"the API at {self.url} does not answer: {error}"
                if lost_at is None and isinstance(error, httpx.ConnectError):
                    # It was never there.
                    raise UnavailableError(problem) from None
            lost_at = lost_at or time.monotonic()
            if time.monotonic() - lost_at > GIVE_UP_SECONDS:
                raise UnavailableError(problem)
            time.sleep(_TRY_AGAIN_SECONDS)

    def batch(self, batch_id: str) -> dict[str, Any]:
        return self._call("GET", f"/v1/batches/{quote(batch_id)}")

    def change_batch(
        self, batch_id: str, change: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """`change` is pause, resume (with a larger budget in `body`) or cancel; the batch as it is then."""
        options = {"json": body} if body else {}
        return self._call("POST", f"/v1/batches/{quote(batch_id)}/{change}", **options)

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
        path = f"/v1/runs/{quote(run_id)}/events"
        for data in self._messages(path, str(after), give_up_seconds=GIVE_UP_SECONDS):
            if data is not None:
                yield RunEvent(
                    seq=data["seq"], kind=data["kind"], at=data["at"], payload=data["payload"] or {}
                )

    def batch_events(self, batch_id: str) -> Iterator[dict[str, Any] | None]:
        """A batch's detail whenever it has changed, until it has ended; None whenever the API went away.

        Raises: NotFoundError; UnavailableError when the API stays away.
        """
        # Every event tells the whole state: there is nothing to resume behind.
        path = f"/v1/batches/{quote(batch_id)}/events"
        return self._messages(path, None, give_up_seconds=GIVE_UP_BATCH_SECONDS)

    def _messages(
        self, path: str, last_id: str | None, *, give_up_seconds: float
    ) -> Iterator[dict[str, Any] | None]:
        """What the stream's events say until it ends; None each time it was lost, and is tried again.

        With a `last_id` it is resumed behind the event that came last.
        """
        lost_at: float | None = None
        problem = ""
        while True:
            try:
                for data in self._connection(path, last_id):
                    lost_at = None
                    if data is None:
                        return
                    if last_id is not None:
                        last_id = str(data["seq"])
                    yield data
            except (httpx.HTTPError, UnavailableError) as error:
                problem = str(error)
            now = time.monotonic()
            lost_at = lost_at or now
            if now - lost_at > give_up_seconds:
                raise UnavailableError(f"the API at {self.url} went away: {problem}")
            yield None
            time.sleep(_TRY_AGAIN_SECONDS)

    def _connection(self, path: str, last_id: str | None) -> Iterator[dict[str, Any] | None]:
        """What the events of one connection say; None at the stream's end.

        Raises: httpx.HTTPError when it breaks off before.
        """
        parser = SseParser(max_event_bytes=_MAX_EVENT_BYTES)
        headers = {"Accept": "text/event-stream", **({} if last_id is None else {"Last-Event-ID": last_id})}
        with self._http.stream("GET", path, headers=headers, timeout=_PATIENT) as response:
            if response.status_code == 204:
                yield None
                return
            if not response.is_success:
                response.read()
                raise _error(response)
            for chunk in response.iter_bytes():
                for message in parser.feed(chunk):
                    yield None if message.name == "end" else json.loads(message.data)
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
    problem: dict[str, Any] = {}
    try:
        problem = response.json()
        detail = str(problem.get("detail") or response.reason_phrase)
    except (ValueError, AttributeError):
        detail = f"{response.url} answered {response.status_code}; is this a Consensus API?"
    if response.status_code == 404:
        return NotFoundError(detail)
    if response.status_code == 422 and problem.get("bad_lines"):
        faults = tuple((_line_number(item["field"]), item["message"]) for item in problem["errors"])
        return SpecLinesError(detail, faults=faults, count=problem["bad_lines"])
    if response.status_code == 401:
        return InputError(f"{detail}; commands take a key from CONSENSUS_API_KEY or CONSENSUS_API_KEY_FILE")
    if 400 <= response.status_code < 500:
        return InputError(detail)
    return UnavailableError(detail)


def _line_number(field: str) -> int:
    return int(field.removeprefix("line "))
