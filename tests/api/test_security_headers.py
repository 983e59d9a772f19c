"""What browsers are told about every answer."""

from __future__ import annotations

import base64
import hashlib
import re

import httpx
import pytest
from fastapi import FastAPI

from tests.api.keys import calling, guarded


def policy(answer: httpx.Response) -> dict[str, list[str]]:
    parts = [part.split() for part in answer.headers["content-security-policy"].split(";")]
    return {part[0]: part[1:] for part in parts}


@pytest.mark.parametrize(
    "path",
    ["/", "/submit", "/login", "/teams/consensus", "/runs/none", "/v1/runs", "/v1/none", "/healthz", "/docs"],
)
async def test_every_answer_is_only_what_it_says_it_is(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"
    assert policy(answer)["default-src"] == ["'none'"]
    assert policy(answer)["frame-ancestors"] == ["'none'"]


async def test_a_refusal_has_the_headers_too(app: FastAPI) -> None:
    async with calling(guarded(app)) as client:
        answer = await client.get("/v1/runs")
    assert answer.status_code == 401
    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


async def test_an_error_that_nobody_expected_has_them_too(app: FastAPI) -> None:
    def broken() -> None:
        raise RuntimeError

    async with calling(guarded(app, broker_problem=broken)) as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 500
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert policy(answer) == {"default-src": ["'none'"], "frame-ancestors": ["'none'"]}


@pytest.mark.parametrize("path", ["/", "/submit", "/login", "/batches", "/teams"])
async def test_pages_run_our_own_files_and_nothing_written_into_them(
    client: httpx.AsyncClient, path: str
) -> None:
    answer = await client.get(path)
    assert policy(answer)["script-src"] == policy(answer)["style-src"] == ["'self'"]
    assert policy(answer)["form-action"] == ["'self'"]
    for script in re.findall(r"<script([^>]*)>", answer.text):
        assert "src=" in script or 'type="application/json"' in script
    assert not re.search(r"<style|\sstyle=|\son\w+=", answer.text)


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
async def test_the_interfaces_pages_run_their_own_scripts_by_digest(
    client: httpx.AsyncClient, path: str
) -> None:
    answer = await client.get(path)
    inline = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    allowed = policy(answer)["script-src"]
    assert "'unsafe-inline'" not in allowed
    for script in inline:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in allowed
    assert len(allowed) == 1 + len(inline)
    for address in re.findall(r'(?:src|href)="([^"]+)"', answer.text):
        assert address.startswith("/static-offline-docs/")
        assert (await client.get(address)).status_code == 200
