"""Whatever is wrong with a request is one problem document with one sentence, and leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.app import BodyLimit
from api.dependencies import MAX_BODY_BYTES
from tests.api.problem_documents import problem
from tests.api.streams import DEADLINE_SECONDS, LiveServer
from tests.integration.stored_runs import count
from workers.provenance.session import Database

MIB = 1024 * 1024


async def refused(client: httpx.AsyncClient, database: Database, body: Any, status: int = 422) -> str:
    """The sentence for a refused POST that wrote nothing."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await client.post("/v1/runs", content=content, headers={"Content-Type": "application/json"})
    detail = problem(answer, status)
    with database.begin() as connection:
        for table in ("runs", "events", "payloads", "stages"):
            assert count(connection, table) == 0
    return detail


@pytest.mark.parametrize("spec", ["", " \n\t", "\u3000"])
async def test_an_empty_spec_is_refused(client: httpx.AsyncClient, database: Database, spec: str) -> None:
    detail = await refused(client, database, {"spec": spec})
    assert detail == "the spec is empty; say in words what the code should do"


async def test_a_spec_of_one_mebibyte_is_taken_and_one_byte_more_is_refused(
    client: httpx.AsyncClient, database: Database
) -> None:
    detail = await refused(client, database, {"spec": "x" * (MIB + 1)})
    assert detail == "the spec has 1,048,577 bytes; at most 1,048,576 (1 MiB) are accepted"
    assert (await client.post("/v1/runs", json={"spec": "x" * MIB})).status_code == 202


async def test_the_limit_of_a_spec_counts_bytes_and_not_characters(
    client: httpx.AsyncClient, database: Database
) -> None:
    # Three bytes each in UTF-8: 349,526 times three is 1,048,578.
    detail = await refused(client, database, {"spec": "\u20ac" * 349_526})
    assert "1,048,578 bytes" in detail


@pytest.mark.parametrize(("character", "name"), [("\x00", "U+0000"), ("\x1b", "U+001B")])
async def test_a_spec_with_control_characters_is_not_text(
    client: httpx.AsyncClient, database: Database, character: str, name: str
) -> None:
    detail = await refused(client, database, {"spec": f"ab{character}"})
    assert "character 2" in detail
    assert name in detail


async def test_a_lone_surrogate_in_the_spec_is_refused(client: httpx.AsyncClient, database: Database) -> None:
    assert "spec" in await refused(client, database, b'{"spec": "ab\\ud800"}')


@pytest.mark.parametrize(
    "body",
    [b"", b"not json", b'{"spec": "x"', b'{"spec": "x"} more', b"{'spec': 'x'}", b"\x00\x01\x02"],
)
async def test_a_body_that_is_not_json_is_refused(
    client: httpx.AsyncClient, database: Database, body: bytes
) -> None:
    detail = await refused(client, database, body, 422 if body == b"" else 400)
    assert "JSON" in detail
    assert "send a JSON object in UTF-8, as described at /docs" in detail


@pytest.mark.parametrize("body", [b'{"spec": "\xff\xfe"}', b"\x80", '{"spec": "\u00e9"}'.encode("latin-1")])
async def test_a_body_that_is_not_utf_8_is_refused(
    client: httpx.AsyncClient, database: Database, body: bytes
) -> None:
    assert "UTF-8" in await refused(client, database, body, 400)


@pytest.mark.parametrize("body", [[], "x", 1, None, True, [{"spec": "x"}]])
async def test_json_that_is_no_object_is_refused(
    client: httpx.AsyncClient, database: Database, body: Any
) -> None:
    assert "object" in await refused(client, database, body)


async def test_json_that_nests_too_deeply_is_refused(client: httpx.AsyncClient, database: Database) -> None:
    await refused(client, database, b"[" * 500_000, 400)
    deep = b'{"spec": "x", "metadata": {"a": ' + b"[" * 700 + b"]" * 700 + b"}}"
    assert "metadata" in await refused(client, database, deep)


async def test_a_missing_spec_is_named(client: httpx.AsyncClient, database: Database) -> None:
    assert "spec" in await refused(client, database, {"team": "consensus"})


async def test_an_unknown_field_is_named_and_the_allowed_ones_are_listed(
    client: httpx.AsyncClient, database: Database
) -> None:
    detail = await refused(client, database, {"spec": "x", "priorty": 1})
    assert "'priorty'" in detail
    assert "did you mean 'priority'" in detail
    for name in ("spec", "id", "team", "files", "tests", "priority", "metadata"):
        assert name in detail


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"spec": 1}, "spec"),
        ({"spec": None}, "spec"),
        ({"id": ""}, "id"),
        ({"id": "x" * 201}, "id"),
        ({"id": "a\x00b"}, "id"),
        ({"team": []}, "team"),
        ({"files": {"a.py": 1}}, "files.a.py"),
        ({"files": []}, "files"),
        ({"priority": 10}, "priority"),
        ({"priority": -1}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"a": "b\x00"}}, "metadata"),
        ({"metadata": {"a\x00": 1}}, "metadata"),
        ({"metadata": {"a": [{"b": "\x00"}]}}, "metadata"),
        ({"metadata": {"a": "\ud800"}}, "metadata"),
        ({"metadata": {"\udfff": 1}}, "metadata"),
        ({"metadata": {"a": float("nan")}}, "metadata"),
        ({"metadata": {"a": [float("inf")]}}, "metadata"),
        ({"id": "\ud800"}, "id"),
        ({"files": {"\ud800": "x"}}, "files"),
        ({"files": {"a.py": "\ud800"}}, "files"),
        ({"files": {"a.py": "\x00"}}, "files"),
        ({"files": {"a\x00.py": "x"}}, "files"),
        ({"\ud800": 1}, "field"),
        ({"team": "\ud800"}, "team"),
        ({"team": "a\x00"}, "team"),
        ({"team": "x" * 101}, "team"),
        ({"files": {f"f{n}.py": "" for n in range(65)}}, "files: 65 files; at most 64"),
        ({"tests": {"t.py": "x" * 1_000_001}}, "tests"),
        ({"review": True}, "files: there is no code to judge; give files or a diff"),
        ({"review": True, "files": {f"f{n}.py": "" for n in range(1001)}}, "1001 files; at most 1000"),
        ({"diff": "x = 1"}, "the diff changes no file"),
        ({"diff": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n"}, "the diff, line 3"),
        ({"diff": "x\x00"}, "diff"),
        ({"diff": "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+x\n", "files": {"a": "b"}}, "files and diff"),
        ({"left_out": [{"path": "a", "reason": "binary"}]}, "set review to true"),
        ({"review": True, "left_out": [{"path": "a\n", "reason": "b"}]}, "left_out"),
        ({"review": True, "left_out": [{"path": "a"}]}, "left_out.0.reason"),
    ],
)
async def test_a_wrong_field_is_named(
    client: httpx.AsyncClient, database: Database, change: dict[str, Any], place: str
) -> None:
    detail = await refused(client, database, {"spec": "x", **change})
    assert place in detail
    assert "Value error" not in detail


@pytest.mark.parametrize(
    "path", ["../a.py", "/etc/passwd", "a/../../b", "C:/a", "a\\b", "", ".", "a//b", "~/a", "a/", "a\nb"]
)
@pytest.mark.parametrize("field", ["files", "tests"])
async def test_a_path_that_leaves_the_folder_is_refused(
    client: httpx.AsyncClient, database: Database, field: str, path: str
) -> None:
    assert (await refused(client, database, {"spec": "x", field: {path: "y"}})).startswith(
        f"{field}: file path"
    )


async def test_an_unknown_team_lists_the_known_ones_and_suggests_the_nearest(
    client: httpx.AsyncClient, database: Database
) -> None:
    detail = await refused(client, database, {"spec": "x", "team": "concensus"})
    assert "no team 'concensus'" in detail
    assert "did you mean 'consensus'" in detail
    assert "Known teams: consensus" in detail


async def test_a_team_is_a_name_and_never_a_path(client: httpx.AsyncClient, database: Database) -> None:
    assert "no team" in await refused(client, database, {"spec": "x", "team": "../../etc/passwd"})


WRONG_TEAM = """
name: wrong
description: a team with a wrong field
coder: {models: [local/alder-1], temprature: 1}
reviewers:
  left: {models: [local/birch-1]}
  right: {models: [local/cedar-1]}
consensus: {models: [local/birch-2]}
lead: {models: [local/cedar-2]}
"""


async def test_a_team_file_with_a_wrong_field_names_file_line_field_and_what_is_allowed(
    client: httpx.AsyncClient, database: Database, team_folder: Path
) -> None:
    (team_folder / "wrong.yaml").write_text(WRONG_TEAM, encoding="utf-8")
    detail = await refused(client, database, {"spec": "x", "team": "wrong"})
    assert "wrong.yaml:4: coder.temprature: no such field; allowed here: " in detail
    assert "temperature" in detail


async def test_one_bad_team_file_spoils_no_other_team(client: httpx.AsyncClient, team_folder: Path) -> None:
    (team_folder / "wrong.yaml").write_text(WRONG_TEAM, encoding="utf-8")
    assert (await client.post("/v1/runs", json={"spec": "x"})).status_code == 202
    listed = (await client.get("/v1/teams")).json()
    by_name = {team["name"]: team for team in listed}
    assert by_name["consensus"]["error"] is None
    assert by_name["consensus"]["team"]["coder"]["models"]
    assert by_name["wrong"]["team"] is None
    assert "temprature" in by_name["wrong"]["error"]
    assert (await client.get("/v1/teams/consensus")).status_code == 200
    assert "temprature" in problem(await client.get("/v1/teams/wrong"), 422)
    assert "Known teams" in problem(await client.get("/v1/teams/none"), 404)


async def test_a_body_above_sixteen_mebibytes_is_refused(
    client: httpx.AsyncClient, database: Database
) -> None:
    body = b'{"spec": "' + b"x" * (17 * MIB) + b'"}'
    assert await refused(client, database, body, 413) == "the body has more than 16,777,216 bytes"


async def test_a_large_body_that_hides_its_length_is_refused(
    client: httpx.AsyncClient, database: Database
) -> None:
    taken = 0

    async def endless() -> Any:
        nonlocal taken
        while taken < 64 * MIB:
            taken += MIB
            yield b"x" * MIB

    answer = await client.post("/v1/runs", content=endless())
    problem(answer, 413)
    assert taken <= 17 * MIB + MIB  # it was not read to its end


def test_over_a_socket_too_a_large_body_gets_its_answer(live: LiveServer) -> None:
    answer = httpx.post(f"{live.url}/v1/runs", content=b"x" * (17 * MIB), timeout=DEADLINE_SECONDS)
    assert problem(answer, 413)


async def test_the_body_limit_leaves_an_answer_alone_that_has_begun() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.body", "body": b"done"})

    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"x" * (MAX_BODY_BYTES + 1), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await BodyLimit(app)({"type": "http", "headers": []}, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[1]["body"] == b"done"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/runs", "GET, HEAD, POST"),
        ("PUT", "/v1/runs/run_1", "GET, HEAD"),
        ("POST", "/v1/runs/run_1/events", "GET, HEAD"),
        ("GET", "/v1/runs/x/cancel", "POST"),
    ],
)
async def test_a_wrong_method_says_so_and_which_are_allowed(
    client: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    answer = await client.request(method, path)
    assert problem(answer, 405) == f"{method} is not possible on {path}, which takes {allowed}"
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/v1", "/v1/nothing", "/v1/runs/a/b", "/v2/runs", "/%00", "/%ff"])
async def test_an_unknown_address_points_to_the_description(client: httpx.AsyncClient, path: str) -> None:
    assert "/docs" in problem(await client.get(path), 404)


@pytest.mark.parametrize("run_id", ["run_none", "a%00b", "%ff", "x" * 5000, "'; DROP TABLE runs; --"])
@pytest.mark.parametrize(
    ("method", "rest"), [("GET", ""), ("GET", "/events"), ("GET", "/provenance"), ("POST", "/cancel")]
)
async def test_no_such_run_is_a_sentence(
    client: httpx.AsyncClient, method: str, rest: str, run_id: str
) -> None:
    detail = problem(await client.request(method, f"/v1/runs/{run_id}{rest}"), 404)
    assert detail.startswith("there is no run ")
    assert len(detail) < 300


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "201"}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"limit": "-5"}, "limit"),
        ({"cursor": "\x00"}, "cursor"),
        ({"cursor": "page-2"}, "cursor"),
        ({"cursor": ""}, "cursor"),
        ({"cursor": "x" * 101}, "cursor"),
        ({"cursor": "run_" + "i" * 26}, "cursor"),
        ({"state": "done"}, "state"),
        ({"outcome": "good"}, "outcome"),
        ({"team": "\x00"}, "team"),
        ({"team": "x" * 101}, "team"),
    ],
)
async def test_a_bad_query_names_the_parameter(
    client: httpx.AsyncClient, query: dict[str, str], place: str
) -> None:
    assert place in problem(await client.get("/v1/runs", params=query), 422)


async def test_a_number_of_too_many_digits_is_named_as_what_is_wrong(client: httpx.AsyncClient) -> None:
    body = '{"spec": "x", "priority": ' + "9" * 5000 + "}"
    answer = await client.post("/v1/runs", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["detail"] == (
        "the body's JSON has a number of too many digits; send a JSON object in UTF-8, as described at /docs"
    )
