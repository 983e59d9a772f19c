"""Browsers: a key is shown once, a session stands for it, and nothing is changed without the session's own token."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import select, update

from api.access import CSRF_HEADER, SESSION_COOKIE
from api.web import static_files
from tests.api.keys import any_key, bearer, calling, guarded, stored_key
from tests.api.problem_documents import problem
from workers.core.access import Scope
from workers.key_text import read_key
from workers.provenance.access_models import web_sessions
from workers.provenance.repository import api_keys
from workers.provenance.session import Database

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def browser(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Keeps cookies, follows nothing."""
    async with calling(guarded(app), url="https://consensus.example") as opened:
        opened.headers["Accept"] = "text/html"
        yield opened


async def form_of(browser: httpx.AsyncClient, address: str = "/login") -> dict[str, str]:
    page = await browser.get(address)
    assert page.status_code == 200
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text))


async def log_in(browser: httpx.AsyncClient, key: str, **changes: str) -> httpx.Response:
    return await browser.post("/login", data={**await form_of(browser), "key": key, **changes})


async def token_of(browser: httpx.AsyncClient) -> str:
    page = await browser.get("/submit")
    found = re.search(r'<meta name="csrf-token" content="([0-9a-f]{64})">', page.text)
    assert found is not None, page.text[:500]
    return found[1]


async def test_a_key_opens_a_session_whose_cookie_no_script_and_no_other_site_gets(
    browser: httpx.AsyncClient, database: Database
) -> None:
    key = stored_key(database, tenant="acme")
    answer = await log_in(browser, key, next="/batches?state=paused")
    assert (answer.status_code, answer.headers["location"]) == (303, "/batches?state=paused")
    cookie = next(c for c in answer.headers.get_list("set-cookie") if c.startswith(SESSION_COOKIE))
    assert {part.strip() for part in cookie.split(";")[1:]} == {
        "HttpOnly",
        "Max-Age=43200",
        "Path=/",
        "SameSite=strict",
        "Secure",
    }
    assert (await browser.get("/runs")).status_code == 200
    # Neither the key nor the cookie's value is kept.
    with database.begin() as connection:
        rows = str(connection.execute(select(web_sessions)).all())
    assert cookie.split(";")[0].partition("=")[2] not in rows
    assert key not in rows


async def test_a_page_that_is_closed_leads_back_after_the_login(
    browser: httpx.AsyncClient, database: Database
) -> None:
    sent = await browser.get("/runs?state=queued")
    assert sent.status_code == 303
    form = await form_of(browser, sent.headers["location"])
    assert form["next"] == "/runs?state=queued"


@pytest.mark.parametrize(
    "elsewhere",
    ["https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "javascript:1", ""],
)
async def test_a_login_leads_nowhere_else(
    browser: httpx.AsyncClient, database: Database, elsewhere: str
) -> None:
    answer = await log_in(browser, stored_key(database), next=elsewhere)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


async def test_a_wrong_key_is_told_on_the_form_and_not_shown_again(
    browser: httpx.AsyncClient, database: Database
) -> None:
    expired = stored_key(database, expires_at=dt.datetime.now(dt.UTC))
    for key, sentence in (
        ("sk-planted", "This is no API key; one looks like csk_…_…."),
        (any_key(), "This key is not known here."),
        (expired, " is expired."),
    ):
        answer = await log_in(browser, key)
        assert answer.status_code == 401
        assert sentence in answer.text
        assert key not in answer.text
        assert SESSION_COOKIE not in browser.cookies


async def test_a_form_that_was_not_asked_for_here_logs_nobody_in(
    browser: httpx.AsyncClient, database: Database
) -> None:
    key = stored_key(database)
    for changes in ({"csrf": ""}, {"csrf": "0" * 64}):
        answer = await log_in(browser, key, **changes)
        assert answer.status_code == 403
    browser.cookies.clear()
    assert (await browser.post("/login", data={"key": key})).status_code == 403
    assert SESSION_COOKIE not in browser.cookies


async def test_a_session_changes_nothing_without_its_token(
    browser: httpx.AsyncClient, database: Database
) -> None:
    await log_in(browser, stored_key(database, Scope.SUBMIT))
    token = await token_of(browser)
    spec = {"spec": "Add two numbers."}
    for sent in ({}, {CSRF_HEADER: "0" * 64}, {CSRF_HEADER: "ü".encode()}):
        told = problem(await browser.post("/v1/runs", json=spec, headers=sent), 403)
        assert CSRF_HEADER in told
    assert (await browser.post("/v1/runs", json=spec, headers={CSRF_HEADER: token})).status_code == 202
    # A header that no form and no other site can send is proof enough.
    browser.cookies.clear()
    key = bearer(stored_key(database, Scope.SUBMIT))
    assert (await browser.post("/v1/runs", json=spec, headers=key)).status_code == 202


async def test_a_session_may_do_what_its_key_may(browser: httpx.AsyncClient, database: Database) -> None:
    await log_in(browser, stored_key(database, Scope.READ))
    sent = {CSRF_HEADER: await token_of(browser)}
    told = problem(await browser.post("/v1/runs", json={"spec": "Add."}, headers=sent), 403)
    assert "has the scope read, and this needs submit" in told


async def test_a_session_ends_with_its_key(browser: httpx.AsyncClient, database: Database) -> None:
    key = stored_key(database)
    await log_in(browser, key)
    assert (await browser.get("/runs")).status_code == 200
    found = read_key(key)
    assert found is not None
    with database.begin() as connection:
        api_keys.revoke(connection, found.key_id, at=dt.datetime.now(dt.UTC))
    assert (await browser.get("/runs")).status_code == 303
    problem(await browser.get("/v1/runs"), 401)


async def test_a_session_ends_by_itself_and_is_swept_at_the_next_login(
    browser: httpx.AsyncClient, database: Database
) -> None:
    await log_in(browser, stored_key(database))
    past = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    with database.begin() as connection:
        connection.execute(update(web_sessions).values(expires_at=past))
    assert (await browser.get("/runs")).status_code == 303
    await log_in(browser, stored_key(database))
    with database.begin() as connection:
        assert len(connection.execute(select(web_sessions)).all()) == 1


async def test_a_session_never_outlives_its_key(browser: httpx.AsyncClient, database: Database) -> None:
    end = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=5)
    await log_in(browser, stored_key(database, expires_at=end))
    with database.begin() as connection:
        assert connection.scalar(select(web_sessions.c.expires_at)) == end


async def test_logging_out_needs_the_token_and_ends_the_session(
    browser: httpx.AsyncClient, database: Database
) -> None:
    await log_in(browser, stored_key(database))
    token = await token_of(browser)
    assert (await browser.post("/logout", data={"csrf": "x"})).status_code == 403
    cookie = browser.cookies[SESSION_COOKIE]
    assert (await browser.post("/logout", data={"csrf": token})).status_code == 303
    assert SESSION_COOKIE not in browser.cookies
    browser.cookies.set(SESSION_COOKIE, cookie)
    assert (await browser.get("/runs")).status_code == 303


async def test_every_form_and_every_post_of_a_page_carries_a_token(
    browser: httpx.AsyncClient, database: Database
) -> None:
    """Forms that get something only change the address; what scripts send has the header."""
    await log_in(browser, stored_key(database))
    token = await token_of(browser)
    forms = {
        f"{path.name}: {form}"
        for path in (ROOT / "api/web/templates").glob("*.html")
        for form in re.findall(r'<form[^>]*method="post".*?</form>', path.read_text("utf-8"), re.DOTALL)
    }
    assert len(forms) >= 2
    assert all('name="csrf"' in form for form in forms), forms
    assert token in (await browser.get("/runs")).text
    scripts = {
        name: content.decode() for name, content in static_files.files().items() if name.endswith(".js")
    }
    posting = {
        name for name, text in scripts.items() if re.search(r"method:|XMLHttpRequest|sendBeacon", text)
    }
    assert "post.js" in posting
    assert {name for name in posting if "session()" not in scripts[name]} == set()
    assert "X-CSRF-Token" in scripts["post.js"]


async def test_without_keys_pages_need_no_login(client: httpx.AsyncClient) -> None:
    page = await client.get("/submit")
    assert page.status_code == 200
    assert "csrf-token" not in page.text
    assert "Log out" not in page.text


async def test_cookies_that_are_broken_or_double_are_no_session(browser: httpx.AsyncClient) -> None:
    for cookie in (
        "a=b; " * 500,
        f"{SESSION_COOKIE}=",
        f"{SESSION_COOKIE}=x; {SESSION_COOKIE}=y",
        "=;=",
        "\xff",
    ):
        answer = await browser.get("/v1/runs", headers={"Cookie": cookie.encode("latin-1")})
        problem(answer, 401)
