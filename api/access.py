"""Stands before every route: who asks, for which tenant, and whether that may be done."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, urlsplit

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from api import errors
from api.dependencies import Services, now
from api.web.rendering import csrf_token, error_page
from workers.address_guard import is_loopback
from workers.core.access import Scope as Right
from workers.errors import ConsensusError, ForbiddenError, KeyRefusedError
from workers.key_text import read_key
from workers.provenance.models import DEFAULT_TENANT
from workers.provenance.repository import api_keys, web_sessions
from workers.provenance.repository.api_keys import ApiKey

SESSION_COOKIE = "consensus_session"
CSRF_HEADER = "X-CSRF-Token"

#: Open to everybody: whether the process lives, the way in, what pages look like. Metrics have a guard of their own.
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/metrics", "/login", "/logout"})
OPEN_FOLDERS = ("/static/",)
#: What changes the installation for all tenants.
ADMIN_FOLDERS = ("/v1/limits",)
#: How routes are described; the guard has looked at the key before they are reached.
API_KEY = HTTPBearer(
    scheme_name="API key",
    bearerFormat="csk_…",
    description="of `consensus keys create`; asked for wherever the API listens beyond its own machine",
    auto_error=False,
)
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who a request is from. `key_id` is None where no key is asked for and none came."""

    tenant_id: str
    scope: Right
    key_id: str | None


#: Whoever sits at this machine, as long as nobody else can reach the API.
_LOCAL = Principal(tenant_id=DEFAULT_TENANT, scope=Right.ADMIN, key_id=None)


def needed_right(method: str, path: str) -> Right:
    """What a route asks of a key."""
    if method in _SAFE:
        return Right.READ
    return Right.ADMIN if path.startswith(ADMIN_FOLDERS) else Right.SUBMIT


def is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDERS)


def csrf_of(token: str) -> str:
    """What pages of a session send with whatever they change; no other site can read it."""
    return hashlib.sha256(b"csrf:" + token.encode()).hexdigest()


def is_csrf_of(token: str, offered: str) -> bool:
    return hmac.compare_digest(csrf_of(token).encode(), offered.encode())


def session_token(request: Request) -> str | None:
    """The cookie, read with care: some browsers send several of the name."""
    try:
        cookie = SimpleCookie(request.headers.get("cookie", "")).get(SESSION_COOKIE)
    except CookieError:
        return None
    return cookie.value if cookie is not None and cookie.value else None


class Guard:
    """Middleware. Lets a request pass with its principal in `request.state`, or answers it."""

    def __init__(self, app: ASGIApp, *, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            principal = await self._principal(request)
        except ConsensusError as error:
            await _refusal(request, error)(scope, receive, send)
            return
        scope.setdefault("state", {})["principal"] = principal
        await self._app(scope, receive, send)

    async def _principal(self, request: Request) -> Principal:
        """Raises: KeyRefusedError, ForbiddenError, TooManyRequestsError, UnavailableError."""
        # Not that of `request.url`, which is made of the Host header: what is routed is what is asked about.
        path = request.scope["path"]
        if is_open(path):
            return _NOBODY
        if not self._services.needs_key:
            _refuse_others(request, checks_host=self._services.checks_host)
        key = await self._key(request)
        if key is None:
            if self._services.needs_key:
                raise KeyRefusedError(
                    "send an API key as `Authorization: Bearer csk_…`; `consensus keys create` makes one"
                )
            principal = _LOCAL
        else:
            principal = Principal(tenant_id=key.tenant_id, scope=key.scope, key_id=key.key_id)
        needed = needed_right(request.method, path)
        if not principal.scope.includes(needed):
            raise ForbiddenError(
                f"the key {principal.key_id} has the scope {principal.scope}, and this needs {needed}"
            )
        return principal

    async def _key(self, request: Request) -> ApiKey | None:
        """The key that came, itself or by a browser's session; None where neither did."""
        authorization = request.headers.get("authorization")
        if authorization is not None:
            return await run_in_threadpool(self._by_header, authorization)
        token = session_token(request)
        if token is None:
            return None
        try:
            key = await run_in_threadpool(self._by_session, token)
        except KeyRefusedError:
            if self._services.needs_key:
                raise
            return None
        if request.method not in _SAFE and not is_csrf_of(token, request.headers.get(CSRF_HEADER, "")):
            raise ForbiddenError(f"{CSRF_HEADER} is missing or not that of this session; load the page again")
        csrf_token.set(csrf_of(token))
        return key

    def _by_header(self, authorization: str) -> ApiKey:
        kind, _, text = authorization.partition(" ")
        key = read_key(text.strip())
        if kind.lower() != "bearer" or key is None:
            raise KeyRefusedError(
                "the Authorization header holds no API key; one looks like `Bearer csk_…_…`"
            )
        with self._services.database.begin() as connection:
            return api_keys.use(connection, key, at=now())

    def _by_session(self, token: str) -> ApiKey:
        with self._services.database.begin() as connection:
            return web_sessions.use(connection, token, at=now())


#: On the open paths, which know no tenant.
_NOBODY = Principal(tenant_id="", scope=Right.READ, key_id=None)


def _refuse_others(request: Request, *, checks_host: bool) -> None:
    """Without keys, only this machine is served, under its own name: a page elsewhere may have its name lead here.

    Raises: ForbiddenError."""
    if request.client is not None and not is_loopback(request.client.host):
        raise ForbiddenError(
            f"{request.client.host} is another machine, and no API key is asked for here; "
            "CONSENSUS_REQUIRE_KEYS=1 asks for keys and lets others in"
        )
    host = _name_of(request.headers.get("host", ""))
    if checks_host and not is_loopback(host):
        raise ForbiddenError(
            f"{host[:100]!r} is no name of this machine, and no API key is asked for here; "
            "use http://127.0.0.1, or set CONSENSUS_REQUIRE_KEYS=1"
        )


def _name_of(host: str) -> str:
    """A Host header without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return host


def _refusal(request: Request, error: ConsensusError) -> Response:
    """A page for who looks at pages, a problem document for everybody else."""
    known = errors.status_of(error)
    if known is None:
        raise error
    is_page = (
        request.method == "GET"
        and not request.url.path.startswith("/v1/")
        and "text/html" in request.headers.get("accept", "")
    )
    if not is_page:
        return errors.problem(*known, str(error), headers=errors.headers_of(error))
    if isinstance(error, KeyRefusedError):
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(wanted, safe='')}", status_code=303)
    return error_page(*known, str(error))
