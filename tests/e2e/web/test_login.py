"""A browser where keys are asked for: in, at work, and out again; and the interface's own pages under their policy."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from api.app import create_app
from api.dependencies import Services
from api.live import Hub
from tests.api.conftest import served
from tests.api.keys import stored_key
from tests.e2e.web.conftest import Expected
from workers.core.access import Scope
from workers.key_text import read_key
from workers.provenance.repository import api_keys
from workers.provenance.session import Database


@pytest.fixture
def closed(database: Database, database_url: str) -> Iterator[str]:
    """The address of an API that asks for keys, without workers behind it."""
    services = Services(
        database=database,
        hub=Hub(database_url),
        submit=lambda _: None,
        broker_problem=lambda: None,
        needs_key=True,
    )
    with served(create_app(services)) as url:
        yield url


def log_in(page: Page, url: str, key: str) -> None:
    page.goto(url)
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Log in").click()


def test_a_reader_logs_in_submits_and_logs_out(
    page: Page, closed: str, database: Database, accessible: Callable[[Page], None]
) -> None:
    page.goto(f"{closed}/submit?team=pentest")
    expect(page).to_have_url(f"{closed}/login?next=%2Fsubmit%3Fteam%3Dpentest")
    accessible(page)
    log_in(page, f"{closed}/submit?team=pentest", stored_key(database, Scope.SUBMIT, tenant="acme"))
    expect(page).to_have_url(f"{closed}/submit?team=pentest")
    page.get_by_label("What should the code do?").fill("Add two numbers.")
    page.locator("#one").get_by_role("button", name="Submit").click()
    page.wait_for_url("**/runs/run_*")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Add two numbers.")
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_a_page_whose_session_has_ended_asks_for_a_key_by_itself(
    page: Page, closed: str, database: Database, expected_errors: Expected
) -> None:
    # The stream that the page listens to is refused, which browsers write down.
    expected_errors += ["401", "Failed to load"]
    key = stored_key(database)
    log_in(page, f"{closed}/runs", key)
    expect(page.get_by_role("heading", level=1, name="Runs")).to_be_visible()
    found = read_key(key)
    assert found is not None
    with database.begin() as connection:
        api_keys.revoke(connection, found.key_id, at=dt.datetime.now(dt.UTC))
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_a_wrong_key_is_told_beside_the_field(
    page: Page, closed: str, accessible: Callable[[Page], None], expected_errors: Expected
) -> None:
    expected_errors += ["401"]
    log_in(page, f"{closed}/", "sk-of-another-service")
    expect(page.get_by_role("alert")).to_have_text("This is no API key; one looks like csk_…_….")
    accessible(page)


@pytest.mark.parametrize(("path", "word"), [("/docs", "Submit one spec"), ("/redoc", "Consensus (")])
def test_the_interfaces_pages_work_under_their_policy(
    page: Page, closed: str, database: Database, path: str, word: str, expected_errors: Expected
) -> None:
    # ReDoc asks its maker for a picture, and the policy lets nothing out.
    expected_errors += ["cdn.redoc.ly"]
    log_in(page, f"{closed}{path}", stored_key(database))
    expect(page.get_by_text(word).first).to_be_visible()
