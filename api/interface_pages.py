"""The description of the interface for readers, at /docs and /redoc: the libraries' own pages, served from here, with a
policy that names each of their inline scripts by its digest."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.docs import get_redoc_html, get_swagger_ui_html
from fastapi.responses import HTMLResponse

#: Where FastAPIOffline serves the pages' files.
_FILES = "/static-offline-docs"


def install(app: FastAPI, *, needs_key: bool) -> None:
    """Add the pages to an application made by FastAPIOffline without its own. The description says whether a key has
    to be sent or may be."""
    if not needs_key:
        _make_keys_optional(app)
    described = app.openapi_url or "/openapi.json"
    swagger = get_swagger_ui_html(
        openapi_url=described,
        title=app.title,
        swagger_js_url=f"{_FILES}/swagger-ui-bundle.js",
        swagger_css_url=f"{_FILES}/swagger-ui.css",
        swagger_favicon_url=f"{_FILES}/favicon.png",
    )
    redoc = get_redoc_html(
        openapi_url=described,
        title=app.title,
        redoc_js_url=f"{_FILES}/redoc.standalone.js",
        redoc_favicon_url=f"{_FILES}/favicon.png",
        with_google_fonts=False,
    )
    for path, page in (("/docs", swagger), ("/redoc", redoc)):
        app.add_api_route(path, _shown(page), include_in_schema=False)


def _make_keys_optional(app: FastAPI) -> None:
    """An empty requirement beside the key's: either is enough."""
    describe = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            for operations in describe()["paths"].values():
                for operation in operations.values():
                    if "security" in operation:
                        operation["security"].append({})
        return describe()

    app.openapi = described  # type: ignore[method-assign]


def _shown(page: HTMLResponse) -> Callable[[], HTMLResponse]:
    content = bytes(page.body)
    headers = {"Content-Security-Policy": policy_of(content.decode())}

    def shown() -> HTMLResponse:
        return HTMLResponse(content, headers=headers)

    return shown


def policy_of(page: str) -> str:
    """Its own scripts and no others. Both libraries style their elements in place and draw with `data:` pictures;
    ReDoc searches in a worker that it makes itself."""
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(["'self'", *(f"'sha256-{digest}'" for digest in digests)])
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "font-src 'self' data:; connect-src 'self'; worker-src blob:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
