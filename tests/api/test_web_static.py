"""Files that pages ask for."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import httpx
import pytest

from api.web import static_files


async def test_every_file_that_a_page_names_is_there_and_may_be_kept(client: httpx.AsyncClient) -> None:
    page = (await client.get("/runs")).text
    asked = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert any(path.endswith("base.css") for path in asked)
    for path in asked:
        answer = await client.get(path)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_batch_with_little_left_to_send_does_not_look_stopped() -> None:
    """The bar is stretched to the page's width; an outline that went with it would fill what waits with grey."""
    (rule,) = re.findall(r"\.fill-none \{ (stroke:[^}]*)\}", static_files.files()["batch.css"].decode())
    assert "vector-effect: non-scaling-stroke" in rule


def test_a_form_that_needs_its_script_cannot_be_sent_before_that_is_there() -> None:
    """A browser would put its fields, a spec among them, into the page's address."""
    templates = Path(str(files("api.web"))) / "templates"
    forms = {
        form: path.name
        for path in sorted(templates.glob("*.html"))
        for form in re.findall(r"<form.*?</form>", path.read_text(encoding="utf-8"), re.DOTALL)
        if "action=" not in form.partition(">")[0]
    }
    assert sorted(forms.values()) == ["_scoring_parts.html", "submit.html", "submit.html"]
    for form, name in forms.items():
        (button,) = re.findall(r'<button[^>]*type="submit"[^>]*>', form)
        assert " disabled" in button, name


async def test_a_file_asked_for_under_an_old_version_is_the_new_one_and_not_kept(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/static/0123456789ab/base.css")
    assert answer.content == static_files.files()["base.css"]
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("name", ["none.css", "..%2Frendering.py", "%2e%2e", "base.css%00"])
async def test_what_is_no_file_of_ours_is_not_found(client: httpx.AsyncClient, name: str) -> None:
    assert (await client.get(f"/static/{static_files.version()}/{name}")).status_code == 404


async def test_modules_import_each_other_by_names_that_exist() -> None:
    for name, content in static_files.files().items():
        if name.endswith(".js"):
            for imported in re.findall(r'from "\./([^"]+)"', content.decode()):
                assert imported in static_files.files(), f"{name} imports {imported}"


async def test_nothing_is_fetched_from_another_host() -> None:
    for name, content in static_files.files().items():
        addresses = set(re.findall(r"(?:https?:)?//[a-z][a-z0-9.-]+\.[a-z]{2,}[^\s\"']*", content.decode()))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name


async def test_types_are_those_that_browsers_ask_for(client: httpx.AsyncClient) -> None:
    types = {
        name.rpartition(".")[2]: (await client.get(static_files.address(name))).headers["content-type"]
        for name in ("base.css", "page.js", "mark.svg")
    }
    assert types == {
        "css": "text/css; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    }
