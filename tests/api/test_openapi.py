"""The description at /docs says what the server does."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from api.access import OPEN_PATHS
from tests.api.keys import any_key, bearer, calling, guarded


@pytest.fixture
async def description(client: httpx.AsyncClient) -> dict[str, Any]:
    answer = await client.get("/openapi.json")
    assert answer.status_code == 200
    return dict(answer.json())


async def test_every_endpoint_of_the_interface_is_described(description: dict[str, Any]) -> None:
    offered = {(method.upper(), path) for path, methods in description["paths"].items() for method in methods}
    assert {
        ("POST", "/v1/runs"),
        ("GET", "/v1/runs"),
        ("GET", "/v1/runs/{run_id}"),
        ("GET", "/v1/runs/{run_id}/events"),
        ("POST", "/v1/runs/{run_id}/cancel"),
        ("GET", "/v1/runs/{run_id}/provenance"),
        ("POST", "/v1/batches"),
        ("GET", "/v1/batches"),
        ("GET", "/v1/batches/{batch_id}"),
        ("GET", "/v1/teams"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
    } <= offered


async def test_every_endpoint_lists_its_problems_and_only_problem_documents(
    description: dict[str, Any],
) -> None:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            answers = operation["responses"]
            faults = {status: answer for status, answer in answers.items() if int(status) >= 400}
            assert {"422", "503"} <= faults.keys(), (method, path)
            for answer in faults.values():
                (media,) = answer["content"]
                assert media == "application/problem+json", (method, path)
                schema = answer["content"][media]["schema"]
                assert {"type", "title", "status", "detail"} <= schema["properties"].keys()
            assert operation["summary"]


async def test_the_answers_of_create_and_events_are_described(description: dict[str, Any]) -> None:
    create = description["paths"]["/v1/runs"]["post"]
    assert {"200", "202", "400", "413", "422", "503"} <= create["responses"].keys()
    headers = {parameter["name"] for parameter in create["parameters"]}
    assert "Idempotency-Key" in headers
    events = description["paths"]["/v1/runs/{run_id}/events"]["get"]
    assert {"200", "204", "404"} <= events["responses"].keys()
    assert "text/event-stream" in events["responses"]["200"]["content"]
    assert "Last-Event-ID" in {parameter["name"] for parameter in events["parameters"]}


async def test_a_spec_line_is_described_field_by_field(description: dict[str, Any]) -> None:
    request = description["components"]["schemas"]["RunRequest"]
    assert request["required"] == ["spec"]
    fields = {"spec", "id", "team", "files", "tests", "priority", "metadata"}
    fields |= {"review", "diff", "left_out", "sarif"}
    fields |= {"budget_usd", "budget_tokens", "dry_run", "webhook_url"}
    assert request["properties"].keys() == fields
    assert request["additionalProperties"] is False


async def test_both_bodies_of_a_batch_and_its_options_are_described(description: dict[str, Any]) -> None:
    create = description["paths"]["/v1/batches"]["post"]
    assert {"200", "202", "413", "415", "422", "503"} <= create["responses"].keys()
    options = {
        "team",
        "name",
        "priority",
        "budget_usd",
        "budget_tokens",
        "concurrency",
        "skip_bad",
        "webhook_url",
    }
    named = {parameter["name"] for parameter in create["parameters"]}
    assert named == {*options, "Idempotency-Key"}
    bodies = create["requestBody"]["content"]
    assert bodies.keys() == {"application/jsonl", "application/json"}
    fields = bodies["application/json"]["schema"]["properties"]
    assert fields.keys() == {*options, "specs"}
    assert fields["specs"]["items"] == {"$ref": "#/components/schemas/RunRequest"}


async def test_the_page_for_readers_is_there(client: httpx.AsyncClient) -> None:
    answer = await client.get("/docs")
    assert answer.status_code == 200
    assert "/openapi.json" in answer.text


async def test_whatever_asks_for_a_key_says_so(app: FastAPI) -> None:
    async with calling(guarded(app), headers=bearer(any_key())) as outside:
        assert (await outside.get("/openapi.json")).status_code == 401
    description = guarded(app).openapi()
    assert description["components"]["securitySchemes"]["API key"]["scheme"] == "bearer"
    for path, methods in description["paths"].items():
        for operation in methods.values():
            assert operation.get("security") == (None if path in OPEN_PATHS else [{"API key": []}]), path


async def test_where_none_is_asked_for_one_may_be_sent(description: dict[str, Any]) -> None:
    for path, methods in description["paths"].items():
        for operation in methods.values():
            assert operation.get("security") == (None if path in OPEN_PATHS else [{"API key": []}, {}]), path
