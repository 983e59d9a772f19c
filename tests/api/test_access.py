"""Keys at the API: who gets in, what they may do, and how often. The routes are those of the application itself."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from api.access import ADMIN_FOLDERS, OPEN_FOLDERS, OPEN_PATHS
from api.app import create_app
from tests.api.keys import any_key, bearer, calling, guarded, made, stored_key
from tests.api.problem_documents import problem
from workers.core.access import Scope
from workers.errors import KeyRefusedError, NotFoundError, StateError, TooManyRequestsError
from workers.key_text import read_key
from workers.provenance.repository import api_keys
from workers.provenance.session import Database

NOW = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
MINUTE, DAY = dt.timedelta(minutes=1), dt.timedelta(days=1)


def routes_of(app: Any) -> list[tuple[str, str]]:
    """(method, path with its parameters filled) of whatever is served, mounted files too."""
    found = []
    for route in iter_route_contexts(app.routes):
        path = re.sub(r"\{[^}]*\}", "x", required(route.path))
        found += [(method, path) for method in route.methods or {"GET"}]
    return found


def is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDERS)


async def test_every_route_but_health_and_the_way_in_is_closed_without_a_key(app: FastAPI) -> None:
    routes = [(method, path) for method, path in routes_of(app) if not is_open(path)]
    assert {("POST", "/v1/runs"), ("GET", "/v1/runs/x"), ("GET", "/"), ("GET", "/docs")} <= set(routes)
    async with calling(guarded(app)) as client:
        for method, path in [
            *routes,
            ("GET", "/v1/nothing"),
            ("DELETE", "/x"),
            ("GET", "/static-offline-docs/x"),
        ]:
            for sent in ({}, bearer(any_key()), bearer("sk-x"), {"Authorization": "Basic eDp5"}):
                answer = await client.request(method, path, headers=sent)
                assert answer.status_code == 401, (method, path, sent)
                assert answer.headers["www-authenticate"] == "Bearer"
                assert method == "HEAD" or problem(answer, 401)


@pytest.mark.parametrize(
    "host", ["x/static/?", "x/static/#", "127.0.0.1/healthz?", "/static/", "[::1]/static/?"]
)
async def test_no_host_header_opens_a_route(app: FastAPI, host: str) -> None:
    async with calling(guarded(app)) as client:
        answer = await client.get("/v1/runs", headers={"Host": host})
        assert problem(answer, 401)


async def test_what_is_open_is_this_and_tells_of_nobody(app: FastAPI) -> None:
    opened = {path for _, path in routes_of(app) if is_open(path)}
    assert opened == {"/healthz", "/readyz", "/metrics", "/login", "/logout", "/static/x/x"}
    async with calling(guarded(app)) as client:
        assert (await client.get("/healthz")).json() == {"status": "alive"}
        assert (await client.get("/readyz")).json().keys() == {"status", "schema"}
        # It has a guard of its own, against everybody who is elsewhere.
        problem(await client.get("/metrics"), 403)


async def test_every_operation_asks_for_its_scope_and_no_more(app: FastAPI, database: Database) -> None:
    described = app.openapi()["paths"]
    keys = {scope: stored_key(database, scope) for scope in Scope}
    async with calling(guarded(app)) as client:
        for path, methods in described.items():
            if is_open(path):
                continue
            for method in methods:
                needed = Scope.READ if method == "get" else Scope.SUBMIT
                if method != "get" and path.startswith(ADMIN_FOLDERS):
                    needed = Scope.ADMIN
                address = re.sub(r"\{[^}]*\}", "x", path)
                if address.endswith("/events"):
                    address = address.replace("/x/", "/nobody/")
                for scope, key in keys.items():
                    answer = await client.request(method, address, headers=bearer(key))
                    is_refused = answer.status_code == 403
                    assert is_refused != scope.includes(needed), (method, path, scope, answer.text)
                    assert not is_refused or f"this needs {needed}" in problem(answer, 403)


async def test_limits_are_changed_by_admins_alone(app: FastAPI, database: Database) -> None:
    limits = {"requests_per_minute": 5}
    async with calling(guarded(app)) as client:
        for scope, status in ((Scope.SUBMIT, 403), (Scope.ADMIN, 200)):
            key = bearer(stored_key(database, scope))
            answer = await client.put("/v1/limits/openai/*", json=limits, headers=key)
            assert answer.status_code == status, answer.text


async def test_a_key_is_refused_once_it_is_revoked_and_once_it_has_expired(
    app: FastAPI, database: Database
) -> None:
    now = dt.datetime.now(dt.UTC)
    revoked, expired = stored_key(database), stored_key(database, expires_at=now - MINUTE)
    async with calling(guarded(app)) as client:
        assert (await client.get("/v1/runs", headers=bearer(revoked))).status_code == 200
        with database.begin() as connection:
            api_keys.revoke(connection, key_id_of(revoked), at=now)
        for key, word in ((revoked, "revoked"), (expired, "expired")):
            told = problem(await client.get("/v1/runs", headers=bearer(key)), 401)
            assert told == f"the key {key_id_of(key)} is {word}"


async def test_a_known_prefix_with_another_secret_opens_nothing(app: FastAPI, database: Database) -> None:
    key = stored_key(database)
    forged = key_id_of(key) + any_key()[17:]
    assert read_key(forged) is not None
    async with calling(guarded(app)) as client:
        assert (
            problem(await client.get("/v1/runs", headers=bearer(forged)), 401) == "this key is not known here"
        )


async def test_a_key_that_asks_too_often_is_told_when_it_may_again(app: FastAPI, database: Database) -> None:
    key, other = stored_key(database, per_minute=3), stored_key(database, per_minute=3)
    async with calling(guarded(app)) as client:
        answers = [await client.get("/v1/runs", headers=bearer(key)) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        # A third of a minute is the share of one request.
        assert 1 <= int(answers[3].headers["retry-after"]) <= 20
        assert "may send 3 requests a minute" in problem(answers[3], 429)
        assert (await client.get("/v1/runs", headers=bearer(other))).status_code == 200


def test_so_many_requests_go_at_once_and_then_one_each_share(database: Database) -> None:
    key = read_key(stored_key(database, per_minute=4))
    assert key is not None

    waits = []

    def admitted(seconds: float) -> bool:
        try:
            with database.begin() as connection:
                api_keys.use(connection, key, at=NOW + dt.timedelta(seconds=seconds))
        except TooManyRequestsError as error:
            waits.append(round(error.retry_after_seconds, 1))
            return False
        return True

    # Four a minute is a share of 15 seconds each.
    asked = [(0, True), (0, True), (0, True), (0, True), (1, False), (14.9, False), (15, True), (15, False)]
    asked += [(45, True), (45, True), (45, False), (3600, True), (3600, True), (3600, True), (3600, True)]
    assert [(seconds, admitted(seconds)) for seconds, _ in asked] == asked
    assert waits == [14.0, 0.1, 15.0, 15.0]


async def test_when_a_key_was_used_last_is_true_to_the_minute(database: Database) -> None:
    key = read_key(stored_key(database))
    assert key is not None
    seen = []
    for seconds in (0, 59, 60, 90, 121):
        with database.begin() as connection:
            api_keys.use(connection, key, at=NOW + dt.timedelta(seconds=seconds))
            seen.append(api_keys.listed(connection)[0].last_used_at)
    assert seen == [NOW, NOW, NOW + MINUTE, NOW + MINUTE, NOW + 2 * MINUTE + dt.timedelta(seconds=1)]


def test_a_replaced_key_goes_on_for_its_grace_and_the_new_one_has_its_rights(database: Database) -> None:
    now = dt.datetime.now(dt.UTC)
    old = stored_key(database, Scope.ADMIN, tenant="acme", per_minute=7, expires_at=now + 30 * DAY)
    fresh = made()
    with database.begin() as connection:
        before, after = api_keys.rotate(connection, key_id_of(old), fresh, at=now + DAY, grace=DAY)
        assert (after.scope, after.tenant_id, after.requests_per_minute) == (Scope.ADMIN, "acme", 7)
        # The same span of life, from its own beginning.
        assert after.expires_at is not None
        assert abs(after.expires_at - (now + 31 * DAY)) < MINUTE
        assert before.replaced_by == fresh.key_id
        assert before.state(now + 2 * DAY - MINUTE) == "usable"
        assert before.state(now + 2 * DAY) == "expired"
        with pytest.raises(StateError, match=f"was replaced by {fresh.key_id}"):
            api_keys.rotate(connection, key_id_of(old), made(), at=now + DAY, grace=DAY)
        with pytest.raises(NotFoundError, match="there is no key 'csk_none'"):
            api_keys.rotate(connection, "csk_none", made(), at=now, grace=DAY)


def test_a_key_that_opens_nothing_is_not_replaced(database: Database) -> None:
    key = stored_key(database)
    with database.begin() as connection:
        api_keys.revoke(connection, key_id_of(key), at=NOW)
        with pytest.raises(StateError, match="is revoked; make a new one"):
            api_keys.rotate(connection, key_id_of(key), made(), at=NOW, grace=DAY)
        with pytest.raises(KeyRefusedError):
            api_keys.use(connection, required(read_key(key)), at=NOW)
        assert not api_keys.is_any_usable(connection, at=NOW)


async def test_without_keys_only_this_machine_is_served_under_its_own_name(
    app: FastAPI, database: Database
) -> None:
    local = create_app(changed(app, checks_host=True))
    here = ("127.0.0.1", 1)
    async with calling(local, client=here, url="http://localhost:8000") as client:
        assert (await client.get("/v1/runs")).status_code == 200
        # A key is welcome, and a wrong one is not passed over.
        problem(await client.get("/v1/runs", headers=bearer(any_key())), 401)
        key = bearer(stored_key(database, Scope.READ, tenant="acme"))
        problem(await client.post("/v1/runs", json={"spec": "x"}, headers=key), 403)
    for url in ("http://evil.example", "http://192.0.2.1:8000", "http://127.0.0.1.evil.example"):
        async with calling(local, client=here, url=url) as client:
            assert "is no name of this machine" in problem(await client.get("/v1/runs"), 403)
    async with calling(local, url="http://127.0.0.1") as client:
        assert "is another machine" in problem(await client.get("/v1/runs"), 403)
    async with calling(local, client=("::1", 1), url="http://[::1]:8000") as client:
        assert (await client.get("/v1/runs")).status_code == 200


async def test_a_database_that_is_away_lets_nobody_in(app: FastAPI) -> None:
    away = Database("postgresql+psycopg://nobody@127.0.0.1:1/none", pool_size=2)
    async with calling(guarded(app, database=away)) as client:
        assert "the database does not answer" in problem(
            await client.get("/v1/teams", headers=bearer(any_key())), 503
        )
    away.close()


def key_id_of(key: str) -> str:
    return required(read_key(key)).key_id


def required(value: Any) -> Any:
    assert value is not None
    return value


def changed(app: FastAPI, **changes: Any) -> Any:
    return dataclasses.replace(app.state.services, **changes)


async def test_a_page_that_needs_a_key_leads_to_the_way_in_and_back(app: FastAPI) -> None:
    async with calling(guarded(app)) as client:
        answer = await client.get("/runs?state=queued", headers={"Accept": "text/html"})
        assert answer.status_code == 303
        assert answer.headers["location"] == "/login?next=%2Fruns%3Fstate%3Dqueued"
