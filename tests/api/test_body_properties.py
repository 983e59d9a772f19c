"""No JSON whatever makes the server fail: it is taken, or refused with a problem."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.streams import LiveServer

# All of Unicode and what Unicode forbids: JSON's escapes let a client send lone surrogates.
TEXT = st.text(
    st.one_of(st.characters(), st.characters(categories=["Cs"]), st.sampled_from('\x00\x1b\u2028\\"')),
    max_size=12,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.integers(10**300, 10**310),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
PATHS = st.dictionaries(TEXT | st.sampled_from(["a.py", "../a", "/a", "b/c.py"]), TEXT | JSON, max_size=3)
#: Bodies near enough to good ones to get past the first check.
BODIES = st.fixed_dictionaries(
    {"spec": st.sampled_from(["add", "sum"]) | TEXT},
    optional={
        "id": TEXT | JSON,
        "team": st.sampled_from(["consensus", "Consensus", "../x"]) | TEXT,
        "files": PATHS | JSON,
        "tests": PATHS | JSON,
        "priority": st.integers(-1, 10) | JSON,
        "metadata": st.dictionaries(TEXT, JSON, max_size=3) | JSON,
    },
)
FIELDS = st.dictionaries(
    st.sampled_from(["spec", "id", "team", "files", "tests", "priority", "metadata"]) | TEXT, JSON, max_size=4
)

GENTLY = settings(
    max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


@pytest.fixture
def wire(live: LiveServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=live.url, timeout=15) as client:
        yield client


def _post(wire: httpx.Client, content: bytes, key: str | None = None) -> httpx.Response:
    headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
    answer = wire.post("/v1/runs", content=content, headers=headers)
    assert answer.status_code in {200, 202, 400, 422}, (answer.status_code, content)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]
    return answer


@GENTLY
@given(body=BODIES)
def test_nearly_good_bodies_are_taken_or_refused(wire: httpx.Client, body: dict[str, Any]) -> None:
    answer = _post(wire, json.dumps(body).encode())
    if answer.status_code == 202:
        shown = wire.get(f"/v1/runs/{answer.json()['id']}").json()
        assert shown["metadata"] == body.get("metadata", {})
        assert shown["external_id"] == body.get("id")


@GENTLY
@given(body=FIELDS | JSON)
def test_any_json_is_taken_or_refused(wire: httpx.Client, body: Any) -> None:
    answer = _post(wire, json.dumps(body).encode())
    # What is taken is on record, what is refused has no address.
    assert ("Location" in answer.headers) == answer.is_success


@settings(GENTLY, max_examples=25)
@given(body=st.binary(max_size=60))
def test_any_bytes_are_taken_or_refused(wire: httpx.Client, body: bytes) -> None:
    # Sixty bytes of chance are no spec line: every one is refused with a sentence.
    assert _post(wire, body).status_code in {400, 422}


@settings(GENTLY, max_examples=25)
@given(metadata=st.dictionaries(TEXT, JSON, max_size=3))
def test_a_repeated_key_recognises_any_accepted_body(wire: httpx.Client, metadata: dict[str, Any]) -> None:
    content = json.dumps({"spec": "add", "metadata": metadata}).encode()
    key = hashlib.sha256(content).hexdigest()
    first = _post(wire, content, key)
    if first.status_code in {200, 202}:
        again = _post(wire, content, key)
        assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
