"""Text that no database, no terminal and no UTF-8 can hold, in every place where the interface takes text."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI

from tests.integration.stored_runs import store_run
from workers.provenance.session import Database
from workers.webhooks.policy import WebhookPolicy

#: NUL, lone surrogates, an escape sequence, line ends, SQL, a format, a template, too much, no number.
TEXTS = (
    *("a\x00b", "\ud800", "\x1b[2J", "\r\nX-Injected: 1", "\ufeff", "'; DROP TABLE runs; --", "' OR '1'='1"),
    *("%s%(x)s{0}{{7*7}}", "", "../../etc/passwd", "x" * 5000, "9" * 400, "-1", "1e400", "NaN"),
)
#: A header has Latin-1 and no line ends, or the server does not pass it on.
HEADER_TEXTS = ("\xff", "a\tb", "' OR '1'='1", "", "x" * 9000, "9" * 400, "-1", "1e400", "{{7*7}}")
#: What no text may be: refused in every field of a body, but where bytes are taken or a scanner's words are cleaned.
UNKEEPABLE = ("\x00", "a\x00b", "\ud800", "a\udfff")

SARIF = {
    "version": "2.1.0",
    "runs": [
        {
            "tool": {"driver": {"name": "t", "rules": [{"id": "r", "shortDescription": {"text": "q"}}]}},
            "results": [
                {
                    "ruleId": "r",
                    "level": "error",
                    "message": {"text": "m"},
                    "locations": [
                        {
                            "physicalLocation": {
                                "artifactLocation": {"uri": "a.py"},
                                "region": {"startLine": 1},
                            }
                        }
                    ],
                }
            ],
        }
    ],
}
SPEC = {
    "spec": "a",
    "id": "x",
    "team": "consensus",
    "files": {"a.py": "x"},
    "tests": {"t.py": "x"},
    "budget_usd": "1",
}
REVIEW = {"spec": "a", "files": {"a.py": "x"}, "review": True, "left_out": [{"path": "p", "reason": "r"}]}
BODIES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/runs", {**SPEC, "metadata": {"a": {"b": "c"}}, "webhook_url": "https://example.org/x"}),
    ("POST", "/v1/runs", REVIEW),
    ("POST", "/v1/runs", {"spec": "a", "diff": "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+x\n"}),
    ("POST", "/v1/runs", {"spec": "a", "files": {"a.py": "x"}, "sarif": SARIF}),
    (
        "POST",
        "/v1/batches",
        {"specs": [SPEC], "team": "consensus", "name": "n", "webhook_url": "https://example.org/x"},
    ),
    ("POST", "/v1/batches", {"specs": [REVIEW]}),
    ("PUT", "/v1/limits/openai/*", {"requests_per_minute": 1.0}),
    ("POST", "/v1/trajectories", {"path": "a/b.json", "content": "x", "prefix": "p", "role": "run"}),
    ("POST", "/v1/trajectories", {"path": "a/b.json", "digest": "0" * 64}),
    ("POST", "/v1/scorings", {"all": True, "labels": {"name": "l", "content": "{}"}, "profile": "paper"}),
    ("POST", "/v1/scorings", {"upload_set": "s", "format": "x"}),
    ("POST", "/v1/scorings", {"since": "2026-01-01T00:00:00Z"}),
    ("POST", "/v1/scorings", {"ids": ["traj_x"], "unopened": [{"path": "a", "error": "b"}]}),
]


def quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def parameters(app: FastAPI) -> Iterator[tuple[str, str, str, str]]:
    for path, methods in app.openapi()["paths"].items():
        for method, operation in methods.items():
            for found in operation.get("parameters", ()):
                yield method.upper(), path, found["in"], found["name"]


def address_with(path: str, place: str, name: str, text: str) -> str:
    """Of a run that is there; but a stream is asked of one that is not, as it would go on."""
    if place == "path":
        path = path.replace(f"{{{name}}}", quoted(text))
    run = "run_2" if path.endswith("/events") else "run_1"
    path = path.replace("{run_id}", run).replace("{index}", "0").replace("{", "").replace("}", "")
    return f"{path}?{name}={quoted(text)}" if place == "query" else path


async def test_no_text_in_an_address_or_a_header_is_an_unexpected_error(
    client: httpx.AsyncClient, app: FastAPI, database: Database
) -> None:
    store_run(database)
    wrong, asked = [], 0
    for method, path, place, name in parameters(app):
        for text in HEADER_TEXTS if place == "header" else TEXTS:
            headers = {name: text.encode("latin-1")} if place == "header" else {}
            answer = await client.request(method, address_with(path, place, name, text), headers=headers)  # type: ignore[arg-type]
            asked += 1
            kind = answer.headers.get("Content-Type")
            if answer.status_code >= 500 or (
                answer.status_code >= 400 and kind != "application/problem+json"
            ):
                wrong.append((method, path, name, text[:30], answer.status_code))
    assert wrong == []
    assert asked > 1000


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the strings of a body are."""
    if isinstance(value, str):
        yield at
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*at, key))


def changed(body: dict[str, Any], at: tuple[Any, ...], text: str, *, key: bool = False) -> bytes:
    """The body with another text there, or, if that has a name, with another name."""
    body = copy.deepcopy(body)
    inside: Any = body
    for part in at[:-1]:
        inside = inside[part]
    if key and isinstance(inside, dict):
        inside[text] = inside.pop(at[-1])
    else:
        inside[at[-1]] = text
    return json.dumps(body).encode()


@pytest.mark.parametrize(("method", "path", "body"), BODIES)
async def test_no_text_in_a_body_is_an_unexpected_error(
    client: httpx.AsyncClient, app: FastAPI, method: str, path: str, body: dict[str, Any]
) -> None:
    app.state.services = dataclasses.replace(app.state.services, webhooks=WebhookPolicy(has_secret=True))
    headers = {"Content-Type": "application/jsonl" if path == "/v1/trajectories" else "application/json"}
    wrong = []
    for at in places(body):
        for text in (*UNKEEPABLE, *TEXTS):
            for key in (False, True):
                answer = await client.request(
                    method, path, content=changed(body, at, text, key=key), headers=headers
                )
                is_taken = answer.is_success and not answer.json().get("refused")
                is_foreign = at[-1] == "content" or {"sarif", "unopened"} & set(at)
                if answer.status_code >= 500 or (is_taken and text in UNKEEPABLE and not is_foreign):
                    wrong.append((at, text[:30], key, answer.status_code))
    assert wrong == []
