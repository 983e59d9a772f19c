"""A person submits a file, watches the batch, stops it and takes the results along."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.e2e.web.conftest import Expected, Line
from tests.e2e.web.site import SPECS, Site

pytestmark = pytest.mark.browser


def lines(*names: str) -> list[dict[str, str]]:
    return [{"id": name, "spec": SPECS[name]} for name in names]


def a_file(*rows: object) -> FilePayload:
    body = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    return {"name": "nightly.jsonl", "mimeType": "application/jsonl", "buffer": body.encode()}


def test_a_file_is_looked_at_estimated_and_submitted(
    page: Page, site: Site, expected_errors: Expected
) -> None:
    expected_errors.append("422")  # the browser's own word on the refusal that is provoked here
    page.goto(f"{site.url}/submit")
    page.locator("#lines").set_input_files(a_file(*lines("roman", "duration"), '{"id": 1}', "{"))
    summary = page.locator("#many-summary")
    expect(summary).to_contain_text("nightly.jsonl: 4 lines, 2 of them bad")
    expect(summary).to_contain_text('line 3 has no "spec"')
    expect(summary).to_contain_text("line 4 is not JSON")
    expect(summary).to_contain_text("Roman numerals")
    expect(page.locator("#many-estimate")).to_contain_text("(simulated)")

    page.get_by_role("button", name="Submit batch").click()
    expect(page.locator("#many-error")).to_contain_text("line 3")
    page.get_by_label("Leave bad lines out").check()
    page.get_by_role("button", name="Submit batch").click()

    page.wait_for_url("**/batches/batch_*")
    expect(page.locator("h1")).to_have_text("nightly")
    expect(page.locator("#progress-head")).to_have_text("2 of 2 runs ended")
    expect(page.locator("main")).to_contain_text("2 bad lines left out")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)


def test_a_file_can_be_dropped(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/submit")
    page.evaluate(
        """(text) => {
          const data = new DataTransfer();
          data.items.add(new File([text], "dropped.jsonl"));
          const event = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
          document.getElementById("drop").dispatchEvent(event);
        }""",
        json.dumps(lines("roman")[0]),
    )
    expect(page.locator("#many-summary")).to_contain_text("dropped.jsonl: 1 line")


def test_a_batch_is_paused_resumed_and_cancelled(page: Page, site: Site) -> None:
    batch_id = site.submit_lines(lines("roman", "duration", "toposort", "csv-line"), concurrency=1)
    page.goto(f"{site.url}/batches/{batch_id}")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("main")).to_contain_text("Paused by hand")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.get_by_role("button", name="Cancel batch").click()
    page.get_by_role("button", name="Really cancel?").click()
    expect(page.get_by_role("button", name="Cancel batch")).to_have_count(0)
    site.ended(f"/v1/batches/{batch_id}")
    assert site.get(f"/v1/batches/{batch_id}")["state"] == "cancelled"


def test_failures_are_grouped_and_results_are_downloaded(page: Page, site: Site, tmp_path: Path) -> None:
    batch_id = site.submit_lines([{**line, "team": "fragile"} for line in lines("roman", "duration")])
    page.goto(f"{site.url}/batches/{batch_id}")
    expect(page.locator("#progress-head")).to_have_text("2 of 2 runs ended")
    failures = page.get_by_role("row").filter(has_text="lead")
    expect(failures).to_contain_text("2")
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON lines").click()
    download.value.save_as(tmp_path / "results.jsonl")
    assert len((tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    page.get_by_role("link", name="2 degraded").click()
    expect(page.locator(".list tbody tr")).to_have_count(2)


def test_a_batch_goes_on_being_shown_after_the_line_was_cut(
    page: Page, site: Site, line: Line, expected_errors: Expected
) -> None:
    expected_errors += ["net::ERR_"]
    batch_id = site.submit_lines(lines("roman", "toposort"), concurrency=1)
    page.goto(f"{line.url}/batches/{batch_id}")
    expect(page.locator("#live-mark")).to_have_text("live")
    line.cut()
    expect(page.locator("#away")).to_be_visible()
    line.mend()
    expect(page.locator("#away")).to_be_hidden()
    expect(page.locator("#progress-head")).to_have_text("2 of 2 runs ended")
