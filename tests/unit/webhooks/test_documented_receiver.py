"""The receiver of docs/webhooks.md is run as it is printed and tells genuine messages from others."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.unit.webhooks.test_signature import SECRET
from workers.webhooks.signature import signed_headers, signing_keys

PAGE = Path(__file__).parents[3] / "docs" / "webhooks.md"
BODY = b'{"type":"run.finished"}'


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where the page's receiver listens."""
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    program, _, serving = program.strip().rpartition("\n")
    assert serving == 'ThreadingHTTPServer(("127.0.0.1", 9000), Receiver).serve_forever()'
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - our own page

    class Quiet(names["Receiver"]):  # type: ignore[misc]
        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    assert issubclass(Quiet, BaseHTTPRequestHandler)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def signed(secrets: str = SECRET, age_seconds: int = 0) -> dict[str, str]:
    at = int(time.time()) - age_seconds
    return dict(signed_headers(signing_keys(secrets), delivery_id="whd_1", epoch_seconds=at, body=BODY))


def status_of(url: str, headers: Mapping[str, str], body: bytes = BODY) -> int:
    return httpx.post(url, content=body, headers=headers).status_code


def test_a_message_of_ours_is_genuine(url: str) -> None:
    assert status_of(url, signed()) == 204


def test_so_it_is_while_secrets_are_replaced(url: str) -> None:
    assert status_of(url, signed(f"{'x' * 24} {SECRET}")) == 204


def test_a_changed_body_is_not(url: str) -> None:
    assert status_of(url, signed(), BODY + b" ") == 401


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_changed_or_missing_header_is_not(url: str, name: str) -> None:
    headers = signed()
    assert status_of(url, {**headers, name: headers[name] + "1"}) == 401
    del headers[name]
    assert status_of(url, headers) == 401


def test_another_key_s_message_is_not(url: str) -> None:
    assert status_of(url, signed("y" * 24)) == 401


def test_an_old_message_is_not(url: str) -> None:
    assert status_of(url, signed(age_seconds=280)) == 204
    assert status_of(url, signed(age_seconds=320)) == 401
