"""A run of hundreds of steps with an observation of a megabyte stays smooth. Bounds are generous: what they catch is a
page that grows with the run."""

from __future__ import annotations

import time

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.web.habits import run_of, score, upload, write_long
from tests.e2e.web.site import Site

STEPS = 500
LONG_AT = 250
LONG_CHARS = 1_000_000
INTERACTIVE_SECONDS = 4.0
#: From a key to the frame that shows the step: at the median, and at worst with a page of steps to be fetched.
MOVE_SECONDS, WORST_MOVE_SECONDS = 0.1, 1.5
MOST_ELEMENTS = 2_500

#: Presses a key and measures until the pane shows the step and a frame has been painted.
MOVE = """
async ([key, index]) => {
  const begun = performance.now();
  document.getElementById("step-list").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const pane = document.getElementById("pane");
  while (pane.dataset.shown !== String(index)) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return (performance.now() - begun) / 1000;
}
"""


@pytest.fixture(scope="module")
def long_run(site: Site, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A scored run of 500 steps, one of which printed a megabyte, with a reference of two more such runs."""
    folder = tmp_path_factory.mktemp("long")
    for seed in range(3):
        chars = LONG_CHARS if seed == 0 else 1_000
        write_long(folder / f"{seed}_pta.json", steps=STEPS, long_at=LONG_AT, long_chars=chars, seed=seed)
    upload(site, folder, "long")
    return run_of(site, score(site, "long"), "0_pta.json")


def test_a_long_run_is_usable_at_once_and_moves_without_waiting(
    site: Site, page: Page, long_run: str, record_property: pytest.RecordProperty
) -> None:
    # Whoever opens the first run loads the scorer's libraries; the file is read then too.
    site.get(f"/v1/trajectories/{long_run}")
    begun = time.monotonic()
    page.goto(f"{site.url}/trajectories/{long_run}", wait_until="commit")
    page.locator("html[data-ready]").wait_for(state="attached")
    interactive = time.monotonic() - begun
    moves = [page.evaluate(MOVE, ["j", index]) for index in range(1, 121)]
    moves += [page.evaluate(MOVE, ["PageDown", index]) for index in range(130, STEPS, 10)]
    to_the_long_one = page.evaluate(MOVE, ["Home", 0])
    elements = page.evaluate("document.querySelectorAll('*').length")
    figures = {
        "interactive_seconds": round(interactive, 3),
        "move_median_seconds": round(sorted(moves)[len(moves) // 2], 4),
        "move_worst_seconds": round(max(moves), 4),
        "home_seconds": round(to_the_long_one, 4),
        "elements": elements,
    }
    for name, value in figures.items():
        record_property(name, value)
    assert figures["interactive_seconds"] < INTERACTIVE_SECONDS, figures
    assert figures["move_median_seconds"] < MOVE_SECONDS, figures
    assert figures["move_worst_seconds"] < WORST_MOVE_SECONDS, figures
    assert elements < MOST_ELEMENTS, figures


def test_a_megabyte_comes_when_it_is_asked_for_and_in_pieces(site: Site, page: Page, long_run: str) -> None:
    fetched: list[int] = []
    page.on(
        "response",
        lambda answer: fetched.append(len(answer.body())) if "/steps" in answer.url and answer.ok else None,
    )
    page.goto(f"{site.url}/trajectories/{long_run}?step={LONG_AT}")
    observation = page.locator("[data-field=observation]")
    expect(page.locator("[data-field=observation-size]")).to_have_text("1,000,000 characters")
    assert len(observation.text_content() or "") == 2_000
    more = page.get_by_role("button", name="Show more")
    for shown in (52_000, 102_000, 152_000):
        more.click()
        expect(more).to_contain_text(f"{LONG_CHARS - shown:,} characters left")
        assert len(observation.text_content() or "") == shown
    assert page.evaluate(MOVE, ["j", LONG_AT + 1]) < WORST_MOVE_SECONDS
    # Nobody asked for the whole.
    assert max(fetched) < 400_000
    page.evaluate(MOVE, ["k", LONG_AT])
    address = page.locator("[data-field=observation-whole]").get_attribute("href")
    assert len(httpx.get(f"{site.url}{address}").text) == LONG_CHARS


def test_a_large_reference_is_drawn_when_somebody_comes_near_it(
    site: Site, page: Page, long_run: str
) -> None:
    page.goto(f"{site.url}/trajectories/{long_run}")
    expect(page.locator("html[data-ready]")).to_be_attached()
    assert page.locator(".tree").count() == 0
    page.locator("#tree-later").scroll_into_view_if_needed()
    expect(page.locator(".tree svg")).to_be_visible()
    assert page.locator(".tree circle").count() > 600


def test_two_long_runs_side_by_side_come_some_rows_at_a_time(site: Site, page: Page, long_run: str) -> None:
    page.goto(f"{site.url}/trajectories/compare?a={long_run}&b={long_run}")
    rows = page.locator("#pairs tr")
    for count in (200, 400, STEPS):
        expect(rows).to_have_count(count)
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(page.locator("#more [data-next]")).to_have_count(0)
