"""Trajectories in a browser: uploaded, scored, looked into with the keyboard, put side by side."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.web.habits import make_nights, run_of, score, upload
from tests.e2e.web.site import Site
from tests.integration.scoring_desk import atif, write
from tests.recorded_runs import CHECK, FIX, LOOK, search, write_cohort, write_run

Checked = Callable[[Page], None]


@pytest.fixture(scope="module")
def scored(site: Site, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of a finished scoring of two problems, in which a run wanders before it comes back to the reference."""
    folder = write_cohort(tmp_path_factory.mktemp("cohort"))
    wander = [search(f"away_{number}") for number in range(4)]
    write_run(folder / "4/wanders_pta.json", LOOK, *wander, *[LOOK] * 3, FIX, CHECK, CHECK, model="gamma")
    make_nights(site, tmp_path_factory.mktemp("nights"), nights=2)
    upload(site, folder, "cohort")
    return score(site, "cohort")


def chosen(page: Page, index: int) -> None:
    """Wait until list, timeline and pane show this step."""
    expect(page.locator("#pane h2 [data-field=index]")).to_have_text(str(index))
    expect(page.locator(f"#step-row-{index}")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#strip")).to_have_attribute("aria-valuenow", str(index))


def test_files_are_uploaded_scored_and_the_scoring_is_watched_to_its_end(
    site: Site, page: Page, accessible: Checked, tmp_path: Path
) -> None:
    folder = write_cohort(tmp_path / "runs")
    write(folder / "trial/trajectory.json", atif("ls", "cat a.py", "sed -i s/a/b/ a.py", "pytest"))
    write(folder / "trial/result.json", json.dumps({"task_name": "p3", "verifier_result": {"reward": 1}}))
    write(folder / "broken_pta.json", "{")
    page.goto(f"{site.url}/trajectories")
    accessible(page)
    page.get_by_label("Into the set").fill("by-hand")
    page.locator("#upload-folder").set_input_files(folder)
    expect(page.locator("#upload-results")).to_contain_text("13 stored, 0 were there, 0 refused")
    accessible(page)
    # The same again changes nothing, and says so.
    page.locator("#upload-folder").set_input_files(folder)
    expect(page.locator("#upload-results")).to_contain_text("0 stored, 13 were there, 0 refused")
    expect(page.get_by_label("Which trajectories")).to_have_value("by-hand")
    page.get_by_role("button", name="Start scoring").click()
    page.wait_for_url(re.compile(r"/scorings/scoring_\w+$"))
    expect(page.get_by_role("heading", name="Process scores of 11 runs")).to_be_visible()
    accessible(page)
    # What could not be read is said, with the reason.
    expect(page.get_by_role("heading", name="Skipped")).to_be_visible()
    expect(page.get_by_text("broken_pta.json: not JSON")).to_be_visible()


def test_what_is_refused_is_said_with_the_reason(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/trajectories")
    files = [
        {"name": "fine_pta.json", "mimeType": "application/json", "buffer": b"{}"},
        {"name": " x\u0007.json", "mimeType": "application/json", "buffer": b"{}"},
    ]
    page.locator("#upload-files").set_input_files(files)  # type: ignore[arg-type]
    expect(page.locator("#upload-results")).to_contain_text("1 refused")
    first = page.locator("#upload-rows tr").first
    expect(first).to_contain_text("refused")
    expect(first).to_contain_text("must be relative, of printable characters")


def test_a_start_that_cannot_be_is_refused_in_a_sentence(
    site: Site, page: Page, expected_errors: list[str]
) -> None:
    expected_errors.append("422")
    page.goto(f"{site.url}/scorings")
    if not page.get_by_label("Seed").is_visible():
        page.get_by_text("Start a scoring").click()
    page.get_by_label("Passing runs in a reference").fill("1")
    page.get_by_role("button", name="Start scoring").click()
    expect(page.locator("#start-error")).to_contain_text("k: Input should be greater than or equal to 2")


def test_the_timeline_is_walked_with_the_keyboard(
    site: Site, page: Page, accessible: Checked, scored: str
) -> None:
    run = run_of(site, scored, "4/wanders_pta.json")
    page.goto(f"{site.url}/trajectories/{run}")
    chosen(page, 0)
    accessible(page)
    page.locator("#strip").focus()
    for key, index in (("ArrowRight", 1), ("j", 2), ("ArrowLeft", 1), ("End", 10), ("k", 9), ("Home", 0)):
        page.keyboard.press(key)
        chosen(page, index)
    overview = site.get(f"/v1/trajectories/{run}")["overview"]
    page.keyboard.press("d")
    chosen(page, overview["divergence"])
    expect(page.locator("[data-field=divergence]")).to_be_visible()
    page.keyboard.press("w")
    wasted = next(step for step in overview["wasted"] if step > overview["divergence"])
    chosen(page, wasted)
    expect(page.locator("[data-field=wastes] .note--bad").first).to_be_visible()
    page.keyboard.press("Home")
    step = site.get(f"/v1/trajectories/{run}/steps")["steps"][0]
    expect(page.locator("[data-field=node-confidence]")).to_have_text(f"{step['node']['confidence']:.2f}")
    expect(page.locator("[data-field=rule]")).to_have_text(str(step["rule"]))
    # The list has the same keys, and the address keeps the place.
    page.locator("#step-list").focus()
    page.keyboard.press("PageDown")
    chosen(page, 10)
    assert page.url.endswith("?step=10")
    page.reload()
    chosen(page, 10)


def test_the_reference_leads_to_the_steps_that_went_along_it(site: Site, page: Page, scored: str) -> None:
    run = run_of(site, scored, "0/sound_pta.json")
    page.goto(f"{site.url}/trajectories/{run}")
    overview = site.get(f"/v1/trajectories/{run}")["overview"]
    last = overview["matched"][-1][0]
    dots = page.locator(".tree a[data-step]")
    expect(dots).to_have_count(len(overview["matched"]))
    dots.last.click()
    chosen(page, last)
    expect(page.locator(".tree .here")).to_have_count(1)


def test_two_runs_stand_side_by_side(site: Site, page: Page, accessible: Checked, scored: str) -> None:
    run = run_of(site, scored, "4/wanders_pta.json")
    page.goto(f"{site.url}/trajectories/{run}")
    page.get_by_label("Compare with a run of the same problem").select_option(
        value=run_of(site, scored, "0/sound_pta.json")
    )
    page.get_by_role("button", name="Side by side").click()
    expect(page.get_by_role("heading", name="Two runs side by side")).to_be_visible()
    expect(page.locator("#pairs tr.both")).to_have_count(3)
    accessible(page)
    page.locator("#pairs tr.both a").first.click()
    page.wait_for_url(re.compile(r"step=\d+#steps$"))


def test_a_scorings_charts_lead_to_its_runs(site: Site, page: Page, accessible: Checked, scored: str) -> None:
    page.goto(f"{site.url}/scorings/{scored}")
    accessible(page)
    expect(
        page.get_by_role("img", name=re.compile("rank by pass rate to its rank by quality"))
    ).to_be_visible()
    page.get_by_label("Tier", exact=True).select_option("lucky")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#runs tbody tr")).to_have_count(1)
    page.locator(".lucky-group a").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("lucky")
    expect(page.get_by_text("minimal and unverified")).to_be_visible()


@pytest.mark.parametrize("address", ["/leaderboard", "/nights", "/scorings", "/trajectories"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_listing_can_be_used_by_everybody(
    site: Site, new_page: Callable[..., Page], accessible: Checked, scored: str, address: str, scheme: str
) -> None:
    tab = new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    tab.goto(f"{site.url}{address}")
    accessible(tab)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_run_can_be_used_on_a_phone(
    site: Site, new_page: Callable[..., Page], accessible: Checked, scored: str, scheme: str
) -> None:
    tab = new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme, has_touch=True)
    for address in (f"/trajectories/{run_of(site, scored, '4/wanders_pta.json')}", f"/scorings/{scored}"):
        tab.goto(f"{site.url}{address}")
        accessible(tab)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), address


def test_nights_are_compared_with_the_night_before(
    site: Site, page: Page, accessible: Checked, scored: str
) -> None:
    page.goto(f"{site.url}/nights")
    accessible(page)
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("the first night")
    expect(rows.first).to_contain_text("in another tier")
    rows.first.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Since the night of 2026-03-01")).to_be_visible()


def test_pages_say_all_of_it_without_a_script(site: Site, new_page: Callable[..., Page], scored: str) -> None:
    tab = new_page(java_script_enabled=False)
    tab.goto(f"{site.url}/trajectories/{run_of(site, scored, '0/sound_pta.json')}")
    tab.get_by_label("The next step").click()
    expect(tab.locator("#pane h2 [data-field=index]")).to_have_text("1")
    expect(tab.locator(".step-row")).to_have_count(4)
