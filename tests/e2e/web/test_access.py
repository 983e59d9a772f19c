"""Every page for everybody: what axe finds, keyboards, phones, both schemes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.web.site import SPECS, Site

pytestmark = pytest.mark.browser

Checked = Callable[[Page], None]


@pytest.fixture(scope="module")
def paths(site: Site) -> list[str]:
    """Every kind of page, with something on it."""
    rejected = site.submit(spec=SPECS["split-money"])
    degraded = site.submit(spec=SPECS["roman"], team="fragile")
    batch = site.submit_lines(
        [{"spec": SPECS["roman"], "team": "fragile"}, {"spec": SPECS["duration"]}], name="n"
    )
    for path in (f"/v1/runs/{rejected}", f"/v1/runs/{degraded}", f"/v1/batches/{batch}"):
        site.ended(path)
    return [
        "/runs",
        f"/runs/{rejected}",
        f"/runs/{degraded}",
        "/batches",
        f"/batches/{batch}",
        "/teams",
        "/teams/consensus-teste",
        "/teams/wrong",
        "/submit",
        "/runs?state=queued&outcome=rejected",
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(
    new_page: Callable[..., Page], site: Site, paths: list[str], accessible: Checked, scheme: str
) -> None:
    page = new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    for path in paths:
        page.goto(f"{site.url}{path}")
        accessible(page)


def test_axe_finds_nothing_serious_while_a_run_goes_on(page: Page, site: Site, accessible: Checked) -> None:
    run_id = site.submit(spec=SPECS["toposort"])
    page.goto(f"{site.url}/runs/{run_id}")
    expect(page.locator(".seat--done").first).to_be_visible()
    accessible(page)


def test_a_phone_shows_in_the_strip_of_pages_which_one_is_open(
    new_page: Callable[..., Page], site: Site
) -> None:
    page = new_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    for path, name in (("/runs", "Runs"), ("/nights", "Nights")):
        page.goto(f"{site.url}{path}")
        expect(page.get_by_role("link", name=name, exact=True)).to_be_in_viewport(ratio=1)


def test_no_page_is_wider_than_a_phone(new_page: Callable[..., Page], site: Site, paths: list[str]) -> None:
    page = new_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    widths = {}
    for path in paths:
        page.goto(f"{site.url}{path}")
        widths[path] = page.evaluate("document.documentElement.scrollWidth")
    assert widths == dict.fromkeys(paths, 390)


def test_the_first_tab_stop_leads_past_the_navigation(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/teams")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_a_spec_is_submitted_without_a_mouse(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/submit")
    page.get_by_label("What should the code do?").focus()
    page.keyboard.insert_text(SPECS["roman"])
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/runs/run_*")
    expect(page.get_by_role("heading", level=1)).to_contain_text(SPECS["roman"].splitlines()[0][:40])


def test_an_empty_spec_is_refused_in_words_and_gets_the_focus(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/submit")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("alert").first).to_have_text("Write what the code should do.")
    expect(page.get_by_label("What should the code do?")).to_be_focused()


def test_the_chosen_scheme_is_kept(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/teams")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    button = page.get_by_role("button", name="Colour scheme")
    button.click()
    button.click()
    assert page.evaluate(ground) != light
    page.reload()
    assert page.evaluate(ground) != light
    button.click()
    assert page.evaluate(ground) == light


def test_faults_of_a_team_lead_to_their_lines(page: Page, site: Site, expected_errors: list[str]) -> None:
    page.goto(f"{site.url}/teams/wrong")
    expect(page.locator(".faults li").first).to_contain_text("line 2")
    page.locator(".pin").first.click()
    expect(page.locator("#fault-F1")).to_be_in_viewport()


def test_a_page_that_is_not_there_says_so(page: Page, site: Site, expected_errors: list[str]) -> None:
    expected_errors.append("404 (Not Found)")
    page.goto(f"{site.url}/runs/run_none")
    expect(page.locator("main")).to_contain_text("there is no run 'run_none'")
