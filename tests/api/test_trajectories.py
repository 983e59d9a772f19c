"""Uploading trajectories: what is stored, what was there, what is refused and why."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from api import upload
from api.app import create_app
from api.dependencies import Services
from api.upload import path_problem
from tests.api.streams import CountingHub
from workers.provenance.session import Database

LINES = {"content-type": "application/x-ndjson"}


async def send(client: httpx.AsyncClient, *lines: Any, **query: str) -> dict[str, Any]:
    body = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    answer = await client.post("/v1/trajectories", content=body, headers=LINES, params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def statuses(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(item["path"], item["status"]) for item in answer["items"]]


async def test_each_file_is_answered_and_equal_bytes_are_kept_once(client: httpx.AsyncClient) -> None:
    answer = await send(
        client,
        {"path": "a.json", "content": "{}"},
        {"path": "b/b.json", "content_base64": base64.b64encode(b"{}").decode()},
        {"path": "c.json", "digest": hashlib.sha256(b"{}").hexdigest()},
        {"path": "d.json", "digest": "0" * 64},
    )
    # A digest counts as there only from the next request on: one request is looked up at once.
    assert statuses(answer) == [
        ("a.json", "stored"),
        ("b/b.json", "present"),
        ("c.json", "missing"),
        ("d.json", "missing"),
    ]
    again = await send(client, {"path": "c.json", "digest": hashlib.sha256(b"{}").hexdigest()})
    assert statuses(again) == [("c.json", "present")]
    listed = (await client.get("/v1/trajectories")).json()["trajectories"]
    assert sorted(file["path"] for file in listed) == ["a.json", "b/b.json", "c.json"]
    assert {file["digest"] for file in listed} == {hashlib.sha256(b"{}").hexdigest()}


async def test_a_form_with_files_is_stored_as_lines_are(client: httpx.AsyncClient) -> None:
    files = [("file", ("x/a.json", b"{}")), ("file", ("x/b.json", b"[]"))]
    answer = await client.post("/v1/trajectories", files=files, params={"prefix": "there/", "role": "run"})
    assert statuses(answer.json()) == [("x/a.json", "stored"), ("x/b.json", "stored")]
    listed = (await client.get("/v1/trajectories", params={"path": "x/"})).json()["trajectories"]
    assert {(file["prefix"], file["role"]) for file in listed} == {("there/", "run")}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 1: not JSON: "),
        ({"path": "a.json"}, "line 1: give one of content, content_base64 and digest"),
        ({"path": "a.json", "content": "", "content_base64": ""}, "line 1: give one of"),
        ({"path": "a.json", "content_base64": "%"}, "line 1: content_base64: is not base64"),
        ({"content": "{}"}, "line 1: path: Field required"),
        ({"path": "a.json", "digest": "abc"}, "line 1: digest: String should match pattern"),
        ({"path": "../a.json", "content": "{}"}, "the path '../a.json' must not hold empty parts, . or .."),
        ({"path": "/a.json", "content": "{}"}, "the path '/a.json' must be relative"),
        ({"path": "a\u0000.json", "content": "{}"}, "the path 'a\\x00.json' must be relative"),
    ],
)
async def test_what_cannot_be_stored_is_refused_with_a_sentence_and_the_rest_is_stored(
    client: httpx.AsyncClient, line: Any, problem: str
) -> None:
    answer = await send(client, line, {"path": "good.json", "content": "{}"})
    assert (answer["refused"], answer["stored"]) == (1, 1)
    assert answer["items"][0]["problem"].startswith(problem)


def test_a_path_of_any_depth_within_bounds_is_fine() -> None:
    assert path_problem("a/b c/ü.json") is None
    assert path_problem("a/" * 600 + "b") is not None
    assert path_problem("x" * 256) is not None


async def test_another_kind_of_body_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/trajectories", content="a", headers={"content-type": "text/csv"})
    assert answer.status_code == 422
    assert answer.json()["detail"] == (
        "Content-Type 'text/csv': send application/jsonl or multipart/form-data"
    )


@pytest.fixture
def narrow(database: Database, database_url: str) -> FastAPI:
    return create_app(
        Services(
            database=database,
            hub=CountingHub(database_url),
            submit=lambda _: None,
            broker_problem=lambda: None,
            max_upload_bytes=2000,
            max_trajectory_bytes=1000,
        )
    )


async def test_files_and_bodies_above_the_limits_are_refused(narrow: FastAPI) -> None:
    transport = httpx.ASGITransport(app=narrow, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        answer = await send(client, {"path": "a.json", "content": "x" * 1001})
        assert answer["items"][0]["problem"] == (
            "has 1,001 bytes, more than the 1,000 of CONSENSUS_MAX_TRAJECTORY_BYTES"
        )
        large = await client.post("/v1/trajectories", content=b"x" * 2001, headers=LINES)
        assert (large.status_code, large.json()["detail"]) == (413, "the body has more than 2,000 bytes")


async def test_pages_follow_each_other(client: httpx.AsyncClient) -> None:
    await send(client, *({"path": f"{n}.json", "content": str(n)} for n in range(5)))
    found, cursor = [], None
    while True:
        query = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/v1/trajectories", params=query)).json()
        found += [file["path"] for file in page["trajectories"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(found) == [f"{n}.json" for n in range(5)]
    bad = await client.get("/v1/trajectories", params={"cursor": "traj_x"})
    assert bad.status_code == 422


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/trajectories?path=%00", None),
        ("GET", "/v1/trajectories?set=%00", None),
        ("GET", "/v1/scorings?schedule=%00", None),
        ("GET", "/v1/runs?batch=%00", None),
        ("POST", "/v1/trajectories?prefix=%1b%5b31m", {}),
        ("POST", "/v1/trajectories?prefix=%e2%80%ae", {}),
        ("POST", "/v1/scorings", {"upload_set": "\x00"}),
        ("POST", "/v1/scorings", {"ids": ["\x00"]}),
        ("POST", "/v1/scorings", {"all": True, "labels": {"name": "\x00", "content": "{}"}}),
    ],
)
async def test_a_name_with_control_characters_is_refused_wherever_it_is_given(
    method: str, path: str, body: dict[str, Any] | None, client: httpx.AsyncClient
) -> None:
    answer = await client.request(method, path, json=body)
    assert (answer.status_code, "holds control characters; use printable ones" in answer.text) == (422, True)


async def test_a_prefix_of_a_line_is_printable(client: httpx.AsyncClient) -> None:
    answer = await send(client, {"path": "a.json", "content": "{}", "prefix": "\x00"})
    assert answer["items"][0]["problem"] == "line 1: prefix: holds control characters; use printable ones"


async def test_a_packed_upload_is_refused_as_such(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/v1/trajectories", content=b"\x1f\x8b", headers={**LINES, "content-encoding": "gzip"}
    )
    assert answer.status_code == 415


async def test_lines_are_counted_so_that_their_answers_fit_in_memory(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six megabytes of bad lines took three gigabytes."""
    monkeypatch.setattr(upload, "MAX_LINES", 3)
    assert (await send(client, "x", "", "x", "x"))["refused"] == 3
    answer = await client.post("/v1/trajectories", content="x\n" * 4, headers=LINES)
    assert answer.status_code == 413
    assert "more than 3 lines" in answer.json()["detail"]


def test_uploads_of_the_same_files_in_another_order_never_wait_for_each_other(database: Database) -> None:
    numbers = itertools.count()
    taking = upload.Upload(
        database=database,
        tenant_id="default",
        upload_set="set",
        max_file_bytes=1000,
        new_id=lambda: f"traj_{next(numbers)}",
    )

    def take(order: list[int]) -> list[str]:
        given = [upload.Given(path=f"{n}.json", file=io.BytesIO(b"%d" % n)) for n in order]
        return [item.status for item in taking.take(given)]

    take([-1])  # the tenant's own row is there
    places = list(range(150))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(take, [places, places[::-1]]))
    assert sorted(found[0] + found[1]) == ["present"] * 150 + ["stored"] * 150
