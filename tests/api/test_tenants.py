"""A tenant sees its own and nothing of another's. The routes are those of the OpenAPI document and of the pages: one
that is added later is tried too, and one with a parameter that nobody filled here fails."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from tests.api.keys import bearer, calling, guarded, stored_key
from tests.integration.scoring_desk import Desk
from tests.integration.stored_batches import set_batch
from tests.integration.stored_runs import AT, finish
from tests.recorded_runs import write_cohort
from workers.core.access import Scope
from workers.core.batch import BatchState
from workers.provenance.repository import scorings
from workers.provenance.session import Database

#: It is in everything that the first tenant submits.
MARK = "acme-alone"
#: What parameters may be filled with that are nobody's own.
_SHARED = {"name": "consensus", "provider": "openai", "family": "*", "version_asked": "x", "index": "0"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """What the first tenant has, by the name of the parameter that names it."""

    ids: dict[str, str]
    digest: str
    file_id: str

    def is_told_in(self, text: str) -> bool:
        return any(word in text for word in (MARK, self.digest, self.file_id, *self.ids.values()))


@pytest.fixture
def closed(app: FastAPI) -> FastAPI:
    return guarded(app)


@pytest.fixture
def acme(database: Database) -> dict[str, str]:
    return bearer(stored_key(database, Scope.ADMIN, tenant="acme"))


@pytest.fixture
def rival(database: Database) -> dict[str, str]:
    return bearer(stored_key(database, Scope.ADMIN, tenant="rival"))


@pytest.fixture
async def owned(closed: FastAPI, database: Database, acme: dict[str, str], tmp_path: Path) -> Owned:
    """A run with a verdict, a batch that has ended, trajectories, and a scoring with a report."""
    async with calling(closed, headers=acme) as client:
        run = await created(client, "/v1/runs", json={"spec": f"Write {MARK}.", "id": MARK})
        line = json.dumps({"spec": f"Write {MARK} again.", "id": f"{MARK}-1"})
        batch = await created(
            client,
            f"/v1/batches?name={MARK}",
            content=line,
            headers={"Content-Type": "application/jsonl"},
        )
        folder = write_cohort(tmp_path / MARK)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        body = "\n".join(
            json.dumps({"path": path.relative_to(folder).as_posix(), "content": path.read_text("utf-8")})
            for path in files
        )
        await created(
            client,
            f"/v1/trajectories?set={MARK}",
            content=body,
            headers={"Content-Type": "application/x-ndjson"},
        )
        scoring = await created(client, "/v1/scorings", json={"upload_set": MARK})
        (listed,) = (await client.get("/v1/trajectories?limit=1")).json()["trajectories"]
    finish(database, run["id"])
    set_batch(database, batch["id"], state=BatchState.FINISHED, finished_at=AT)
    Desk(database).work([scorings.first_part(scoring["id"])])
    return Owned(
        ids={
            "run_id": run["id"],
            "batch_id": batch["id"],
            "batch": batch["id"],
            "scoring_id": scoring["id"],
            "scoring": scoring["id"],
            "file_id": listed["id"],
            # Of scored runs, which are named by their place.
            "a": f"{scoring['id']}.0",
            "b": f"{scoring['id']}.1",
        },
        digest=hashlib.sha256(files[0].read_bytes()).hexdigest(),
        file_id=listed["id"],
    )


async def created(client: httpx.AsyncClient, path: str, **sent: Any) -> dict[str, Any]:
    answer = await client.post(path, **sent)
    assert answer.is_success, answer.text
    return dict(answer.json())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request to a route; `names`: whether it names something of the first tenant."""

    method: str
    path: str
    names: bool


def asked(app: FastAPI, owned: Owned) -> Iterator[Asked]:
    """Every operation, with whatever of its parameters can name something, and without those it can do without."""
    fill = {**_SHARED, **owned.ids}
    for path, operations in app.openapi()["paths"].items():
        for method, operation in operations.items():
            queries = {
                parameter["name"]: (True,) if parameter["required"] else (False, True)
                for parameter in operation.get("parameters", [])
                if parameter["in"] == "query" and parameter["name"] in owned.ids
            }
            for chosen in product(*queries.values()):
                query = [f"{name}={fill[name]}" for name, is_in in zip(queries, chosen, strict=True) if is_in]
                yield _asked(method, path, fill, owned, query)
    for route in iter_route_contexts(app.routes):
        # Pages are in no document.
        if route.path and route.path not in app.openapi()["paths"] and "GET" in (route.methods or ()):
            yield _asked("get", route.path, fill, owned, [])
            if route.path in ("/", "/runs"):
                yield _asked("get", route.path, fill, owned, [f"batch={owned.ids['batch']}"])


def _asked(method: str, path: str, fill: dict[str, str], owned: Owned, query: list[str]) -> Asked:
    if path.startswith(("/trajectories/", "/v1/trajectories/")):
        fill = {**fill, "run_id": owned.ids["a"]}
    parameters = re.findall(r"\{(\w+)(?::\w+)?\}", path)
    unknown = [name for name in parameters if name not in fill]
    assert not unknown, f"{method} {path}: say in this test what {unknown} may be filled with"
    filled = re.sub(r"\{(\w+)(?::\w+)?\}", lambda match: fill[match[1]], path)
    return Asked(
        method=method.upper(),
        path=filled + (f"?{'&'.join(query)}" if query else ""),
        names=bool(query) or any(name in owned.ids for name in parameters),
    )


async def test_no_route_tells_or_changes_anything_of_another_tenant(
    closed: FastAPI, owned: Owned, acme: dict[str, str], rival: dict[str, str]
) -> None:
    requests = list(asked(closed, owned))
    assert sum(request.names for request in requests) >= 20
    reads = [request.path for request in requests if request.method == "GET" and request.names]
    async with calling(closed, headers=acme) as client:
        before = {path: await client.get(path) for path in reads}
        # So that a wrong address does not pass for a closed door. Some reads want what not every run has (422).
        wrong = {
            path for path, answer in before.items() if not answer.is_success and answer.status_code != 422
        }
        assert wrong == set()
        seen = "".join(answer.text for answer in before.values())
        assert owned.is_told_in(seen)
    async with calling(closed, headers=rival) as client:
        for request in requests:
            answer = await client.request(request.method, request.path)
            assert not request.names or answer.status_code == 404, (request, answer.text[:500])
            # The sentence says what was asked for, which is no news.
            told = answer.text
            for name in owned.ids.values() if request.names else ():
                told = told.replace(name, "")
            assert not owned.is_told_in(told), (request, told[:2000])
    async with calling(closed, headers=acme) as client:
        for path, answer in before.items():
            again = await client.get(path)
            assert again.status_code == answer.status_code, path
            assert _still(again.text) == _still(answer.text), path


def _still(text: str) -> str:
    """Without the moment that a page was made at."""
    return re.sub(r'data-now="[^"]*"', "", text)


async def test_bytes_and_files_of_another_tenant_cannot_be_named(
    closed: FastAPI, owned: Owned, rival: dict[str, str]
) -> None:
    async with calling(closed, headers=rival) as client:
        named = await client.post(
            "/v1/trajectories",
            content=json.dumps({"path": "mine.json", "digest": owned.digest}),
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert [item["status"] for item in named.json()["items"]] == ["missing"]
        for selection in ({"ids": [owned.file_id]}, {"upload_set": MARK}, {"all": True}):
            answer = await client.post("/v1/scorings", json=selection)
            assert answer.status_code in (404, 422), answer.text


async def test_the_same_idempotency_key_is_another_one_for_another_tenant(
    closed: FastAPI, acme: dict[str, str], rival: dict[str, str]
) -> None:
    ids = set()
    for sender in (acme, rival, acme):
        async with calling(closed, headers={**sender, "Idempotency-Key": "one"}) as client:
            ids.add((await created(client, "/v1/runs", json={"spec": "Add."}))["id"])
    assert len(ids) == 2
