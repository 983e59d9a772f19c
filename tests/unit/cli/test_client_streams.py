"""The client's streams survive an API that goes away, and a submission does too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from workers.cli import client as client_module
from workers.cli.client import Client
from workers.errors import InputError, NotFoundError, SpecLinesError, UnavailableError


class Api:
    """Answers each request with the next of its answers; an error is raised, as by a broken connection."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.bodies: list[bytes] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.bodies.append(request.read())
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_TRY_AGAIN_SECONDS", 0.0)


def client_of(api: Api) -> Client:
    return Client("http://api", transport=httpx.MockTransport(api))


def frame(name: str, **data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def stream(*frames: bytes) -> httpx.Response:
    return httpx.Response(200, content=b"".join(frames))


REFUSED = httpx.ConnectError("connection refused")


def test_a_batch_is_followed_across_restarts_of_the_api() -> None:
    api = Api(
        stream(frame("progress", n=1)),  # breaks off without an end
        REFUSED,
        httpx.Response(503, json={"detail": "the database does not answer"}),
        stream(frame("progress", n=2), frame("end")),
    )
    with client_of(api) as client:
        told = list(client.batch_events("batch_1"))
    assert told == [{"n": 1}, None, None, None, {"n": 2}]
    assert {request.url.path for request in api.requests} == {"/v1/batches/batch_1/events"}


def test_a_run_is_resumed_behind_its_last_event() -> None:
    def event(seq: int) -> bytes:
        return frame("stage.opened", seq=seq, kind="stage.opened", at="", payload=None)

    api = Api(stream(event(1), event(2)), REFUSED, stream(event(3), frame("end")))
    with client_of(api) as client:
        assert [told.seq for told in client.events("run_1")] == [1, 2, 3]
    assert [request.headers["last-event-id"] for request in api.requests] == ["0", "2", "2"]


def test_an_api_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "GIVE_UP_BATCH_SECONDS", -1.0)
    with (
        client_of(Api(REFUSED)) as client,
        pytest.raises(UnavailableError, match="went away: connection refused"),
    ):
        list(client.batch_events("batch_1"))


def test_an_unknown_batch_is_not_asked_for_again() -> None:
    api = Api(httpx.Response(404, json={"detail": "there is no batch 'batch_1'"}))
    with client_of(api) as client, pytest.raises(NotFoundError, match="there is no batch"):
        list(client.batch_events("batch_1"))


def submitted(api: Api, pieces: Callable[[], Iterator[bytes]], **changes: Any) -> tuple[dict[str, Any], bool]:
    given = {
        "size_bytes": 4,
        "is_packed": False,
        "options": {"team": "small"},
        "idempotency_key": "k",
        **changes,
    }
    with client_of(api) as client:
        return client.submit_batch(pieces, **given)


def two_pieces() -> Iterator[bytes]:
    yield b"ab"
    yield b"cd"


def test_a_submission_is_sent_whole_again_when_the_api_went_away_in_the_middle() -> None:
    api = Api(
        httpx.ReadError("connection reset"),
        REFUSED,
        httpx.Response(503, json={"detail": "the database does not answer"}),
        httpx.Response(202, json={"id": "batch_1"}),
    )
    assert submitted(api, two_pieces) == ({"id": "batch_1"}, True)
    assert api.bodies == [b"abcd"] * 4
    assert {request.headers["idempotency-key"] for request in api.requests} == {"k"}
    last = api.requests[-1]
    assert (last.headers["content-length"], last.url.params["team"]) == ("4", "small")
    assert "transfer-encoding" not in last.headers


def test_a_submission_that_is_there_already_is_said_to_be() -> None:
    assert submitted(Api(httpx.Response(200, json={"id": "batch_1"})), two_pieces) == (
        {"id": "batch_1"},
        False,
    )


def test_an_api_that_was_never_there_is_said_at_once() -> None:
    api = Api(REFUSED)
    with pytest.raises(UnavailableError, match="does not answer: connection refused"):
        submitted(api, two_pieces)
    assert len(api.requests) == 1


def test_a_packed_file_is_sent_as_it_is() -> None:
    api = Api(httpx.Response(202, json={"id": "batch_1"}))
    submitted(api, two_pieces, is_packed=True)
    assert api.requests[0].headers["content-encoding"] == "gzip"


def test_bad_lines_come_with_their_numbers() -> None:
    problem = {"detail": "no", "bad_lines": 30, "errors": [{"field": "line 7", "message": "is not JSON"}]}
    with pytest.raises(SpecLinesError) as caught:
        submitted(Api(httpx.Response(422, json=problem)), two_pieces)
    assert (caught.value.faults, caught.value.count) == (((7, "is not JSON"),), 30)


def test_another_refusal_is_not_tried_again() -> None:
    api = Api(httpx.Response(413, json={"detail": "too large"}))
    with pytest.raises(InputError, match="too large"):
        submitted(api, two_pieces)
    assert len(api.requests) == 1


class Torn(httpx.SyncByteStream):
    """A body that breaks off."""

    def __iter__(self) -> Iterator[bytes]:
        yield b"one\n"
        raise httpx.RemoteProtocolError("incomplete chunked read")


def test_results_that_break_off_are_an_error_and_not_the_end() -> None:
    arrived: list[bytes] = []
    with client_of(Api(httpx.Response(200, stream=Torn()))) as client:

        def read() -> None:
            with client.results("batches", "batch_1", "jsonl") as pieces:
                arrived.extend(pieces)

        with pytest.raises(UnavailableError, match="broke off: incomplete chunked read"):
            read()
