"""A person watches a run: in a browser, on the real stack."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.web.conftest import Expected, Line
from tests.e2e.web.site import ARRIVALS, SPECS, Site

pytestmark = pytest.mark.browser

#: Notes the order in which reviews arrive, as the page shows them, from before its first script runs.
_WATCH = """
addEventListener("DOMContentLoaded", () => {
  window.arrivals = [];
  window.moments = new Set();
  window.empty = 0;
  const look = () => {
    const shown = [...document.querySelectorAll(".seat--done h3")].map((name) => name.textContent);
    for (const name of shown) if (!window.arrivals.includes(name)) window.arrivals.push(name);
    window.moments.add(shown.length);
    if (!document.querySelector("main h1")) window.empty += 1;
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, attributes: true });
});
"""


def test_a_spec_is_submitted_and_five_reviews_arrive_one_by_one(page: Page, site: Site) -> None:
    page.add_init_script(_WATCH)
    page.goto(f"{site.url}/submit")
    page.get_by_label("What should the code do?").fill(SPECS["split-money"])
    expect(page.locator("#one-estimate")).to_contain_text("(simulated)")
    page.get_by_role("button", name="Submit", exact=True).click()

    page.wait_for_url("**/runs/run_*")
    expect(page.locator(".seat")).to_have_count(5)
    expect(page.locator(".seat--thinking .elapsed").first).to_have_text(re.compile(r"[1-9]\.\d s|0\.[1-9] s"))
    expect(page.locator("#verdict h2")).to_have_text("Verdict: rejected")

    assert page.evaluate("window.arrivals") == ARRIVALS
    # Two may come within one look on a busy machine, but never all at once.
    assert page.evaluate("window.moments.size") >= 4
    assert page.evaluate("window.empty") == 0
    expect(page.locator("#verified")).to_have_text("✓ verified")
    expect(page.locator(".head")).to_contain_text("simulated")
    expect(page.locator("#live-mark")).to_have_count(0)
    assert page.locator(".agreement tbody tr").count() >= 1
    assert page.locator(".code .t-k").count() > 0


def test_what_arrives_is_said_to_those_who_cannot_see_it(page: Page, site: Site) -> None:
    page.add_init_script("""
    addEventListener("DOMContentLoaded", () => {
      window.said = [];
      const place = document.getElementById("announcer");
      new MutationObserver(() => window.said.push(place.textContent)).observe(place, { childList: true });
    });
    """)
    run_id = site.submit(spec=SPECS["roman"])
    page.goto(f"{site.url}/runs/{run_id}")
    expect(page.locator("#verdict")).to_be_visible()
    said = " ".join(page.evaluate("window.said"))
    # The first may have been there when the page opened.
    for name in ARRIVALS[2:]:
        assert f"review by {name}:" in said
    assert "ended: accepted" in said


def test_a_dropped_connection_is_said_and_the_page_goes_on_where_it_was(
    page: Page, site: Site, line: Line, expected_errors: Expected
) -> None:
    expected_errors += ["net::ERR_"]
    run_id = site.submit(spec=SPECS["toposort"], team="patient")
    page.goto(f"{line.url}/runs/{run_id}")
    expect(page.locator(".seat--done").first).to_be_visible()
    line.cut()
    expect(page.locator("#away")).to_be_visible()
    expect(page.locator("#away")).to_contain_text("The connection was lost at")
    expect(page.locator("#live-mark")).to_have_text("connection lost")
    expect(page.locator("#spec")).to_contain_text("Topological order")
    assert page.locator(".seat").count() == 3

    site.ended(f"/v1/runs/{run_id}")
    line.mend()
    expect(page.locator("#verdict")).to_be_visible()
    expect(page.locator("#away")).to_be_hidden()
    expect(page.locator(".seat--done")).to_have_count(3)
    seen = page.locator("#story tr").evaluate_all("rows => rows.map((row) => Number(row.dataset.seq))")
    assert seen == list(range(1, len(site.get(f"/v1/runs/{run_id}/provenance")["events"]) + 1))


def test_a_connection_that_comes_back_while_the_run_goes_on_is_followed_again(
    page: Page, site: Site, line: Line, expected_errors: Expected
) -> None:
    expected_errors += ["net::ERR_"]
    run_id = site.submit(spec=SPECS["duration"], team="patient")
    page.goto(f"{line.url}/runs/{run_id}")
    expect(page.locator("#live-mark")).to_have_text("live")
    line.cut()
    expect(page.locator("#away")).to_be_visible()
    line.mend()
    expect(page.locator("#away")).to_be_hidden()
    site.cancel(run_id)
    expect(page.locator("#cancelled")).to_be_visible()


def test_a_stream_that_has_nothing_more_to_say_is_no_lost_connection(page: Page, site: Site) -> None:
    # As when the line breaks between a run's last event and the stream's end: whoever comes back gets a 204.
    page.route("**/events*", lambda route: route.fulfill(status=204))
    run_id = site.submit(spec=SPECS["roman"])
    page.goto(f"{site.url}/runs/{run_id}")
    expect(page.locator("#verdict")).to_be_visible()
    expect(page.locator("#away")).to_be_hidden()


def test_a_server_that_answers_with_errors_is_asked_again_and_then_followed(
    page: Page, site: Site, expected_errors: Expected
) -> None:
    expected_errors += ["503"]
    page.route("**/events*", lambda route: route.fulfill(status=503))
    page.route("**/live", lambda route: route.fulfill(status=503))
    run_id = site.submit(spec=SPECS["word-wrap"])
    page.goto(f"{site.url}/runs/{run_id}")
    expect(page.locator("#away")).to_be_visible()
    page.unroute_all()
    expect(page.locator("#verdict")).to_be_visible()
    expect(page.locator("#away")).to_be_hidden()


def test_a_run_is_cancelled_by_a_button_that_asks_once_more(page: Page, site: Site) -> None:
    run_id = site.submit(spec=SPECS["word-wrap"], team="patient")
    page.goto(f"{site.url}/runs/{run_id}")
    page.get_by_role("button", name="Cancel run").click()
    page.get_by_role("button", name="Really cancel?").click()
    expect(page.locator("#cancelled")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)
    assert site.get(f"/v1/runs/{run_id}")["state"] == "cancelled"


def test_a_dead_seat_and_a_dead_stage_are_shown_with_their_causes(page: Page, site: Site) -> None:
    run_id = site.submit(spec=SPECS["roman"], team="fragile")
    page.goto(f"{site.url}/runs/{run_id}")
    expect(page.locator(".seat--abstained")).to_have_count(1)
    expect(page.locator(".seat--abstained h3")).to_have_text("ghost")
    expect(page.locator("#lead")).to_contain_text("The lead gave up")
    expect(page.locator("#verdict")).to_contain_text("lead missing")
    expect(page.locator(".step--failed")).to_contain_text("lead")
    expect(page.locator("#coder")).to_contain_text("roman.py")
    expect(page.locator(".step--partly")).to_contain_text("3 of 3")


def test_what_a_reader_closed_and_the_focus_survive_what_arrives(page: Page, site: Site) -> None:
    run_id = site.submit(spec=SPECS["split-money"], team="patient")
    page.goto(f"{site.url}/runs/{run_id}")
    file = page.locator("#coder details.file")
    file.locator("summary").click()
    file.locator("summary").focus()
    expect(page.locator("#verdict")).to_be_visible()
    assert not file.evaluate("details => details.open")
    assert page.evaluate("document.activeElement.nodeName") == "SUMMARY"


def test_the_page_is_whole_without_javascript(new_page: Callable[..., Page], site: Site) -> None:
    run_id = site.submit(spec=SPECS["split-money"])
    site.ended(f"/v1/runs/{run_id}")
    page = new_page(java_script_enabled=False)
    page.goto(f"{site.url}/runs/{run_id}")
    expect(page.locator("#verdict")).to_contain_text("Verdict: rejected")
    expect(page.locator(".seat--done")).to_have_count(5)


def test_the_list_shows_a_run_end_and_its_filters_lead_to_it(page: Page, site: Site) -> None:
    run_id = site.submit(spec=SPECS["split-money"], id="to be found")
    page.goto(f"{site.url}/runs")
    row = page.locator(f'tr[data-key="{run_id}"]')
    expect(row).to_contain_text("to be found")
    expect(row).to_contain_text("rejected")
    page.get_by_label("Outcome").select_option("rejected")
    page.wait_for_url("**outcome=rejected**")
    page.get_by_role("link", name="to be found").click()
    expect(page.locator("h1")).to_have_text("to be found")
