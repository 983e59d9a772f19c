"""Pictures of the pages, with something on them: `python -m tests.e2e.web.screenshots FOLDER` (`make screenshots`)."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.e2e.web.site import SPECS, Site, serving

#: A repository is no place for large pictures.
MOST_BYTES = 150_000
PATIENCE_MS = 30_000.0
DESKTOP = (1160, 720)
PHONE = (390, 844)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A picture: what is submitted first (giving the page's path), the page, and what must be on it."""

    name: str
    path: Callable[[Site], str]
    until: Callable[[Page], None] = lambda _: None
    scheme: str = "light"
    size: tuple[int, int] = DESKTOP
    scroll_to: str = ""
    #: Which end of that stands at its end of the window.
    block: str = "start"


def _ended_run(site: Site, team: str = "consensus-teste", spec: str = "split-money") -> str:
    run_id = site.submit(spec=SPECS[spec], team=team, id=spec)
    site.ended(f"/v1/runs/{run_id}")
    return f"/runs/{run_id}"


def _ended_batch(site: Site) -> str:
    lines = [{"id": name, "spec": spec} for name, spec in SPECS.items()]
    lines += [
        {"id": f"{name}-fragile", "spec": SPECS[name], "team": "fragile"} for name in ("roman", "duration")
    ]
    batch = site.submit_lines(lines, name="nightly", budget_tokens=2_000_000)
    site.ended(f"/v1/batches/{batch}")
    return f"/batches/{batch}"


def _three_reviews(page: Page) -> None:
    expect(page.locator(".seat--done")).to_have_count(3, timeout=PATIENCE_MS)


RUNS: Sequence[Scene] = (
    Scene(
        name="run-live",
        path=lambda site: f"/runs/{site.submit(spec=SPECS['split-money'], id='split-money')}",
        until=_three_reviews,
        scroll_to="#panel",
        block="end",
    ),
    Scene(name="run-verdict-dark", path=_ended_run, scheme="dark", scroll_to="#panel"),
    Scene(name="run-phone", path=_ended_run, size=PHONE),
    Scene(name="batch", path=_ended_batch),
    Scene(name="runs-dark", path=lambda _: "/runs", scheme="dark"),
    Scene(name="team-with-faults", path=lambda _: "/teams/wrong"),
)
SCENES = (*RUNS,)


def take(scene: Scene, site: Site, browser: Browser, folder: Path) -> int:
    """Write the picture; its size in bytes."""
    width, height = scene.size
    page = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scene.scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page.goto(site.url + scene.path(site))
    scene.until(page)
    if scene.scroll_to:
        page.locator(scene.scroll_to).evaluate(
            "(element, block) => element.scrollIntoView({ block })", scene.block
        )
    body = page.screenshot(path=folder / f"{scene.name}.png")
    page.close()
    return len(body)


def main(folder: Path) -> int:
    """The number of pictures that are too large."""
    folder.mkdir(parents=True, exist_ok=True)
    too_large = 0
    with serving() as site, sync_playwright() as playwright:
        path = shutil.which("chromium")
        if path is None:
            print("there is no chromium in the PATH: install the package `chromium`")
            return 1
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for scene in SCENES:
            size = take(scene, site, browser, folder)
            print(f"{folder / scene.name}.png  {size / 1000:.0f} kB")
            too_large += size > MOST_BYTES
        browser.close()
    return too_large


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
