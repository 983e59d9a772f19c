"""The way in for browsers: a key is shown once, a cookie that no script can read stands for it then."""

from __future__ import annotations

import datetime as dt
import secrets
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from api.access import SESSION_COOKIE, csrf_of, is_csrf_of, session_token
from api.dependencies import ServicesHere, now
from api.web.rendering import PageRoute, render
from workers.errors import ForbiddenError, KeyRefusedError
from workers.key_text import read_key
from workers.provenance.repository import api_keys, web_sessions

router = APIRouter(route_class=PageRoute)

#: Holds what the form has to send back, so that no other site can log somebody in.
_FORM_COOKIE = "consensus_login"
SESSION_TIME = dt.timedelta(hours=12)
_FORM_TIME = dt.timedelta(minutes=30)

_Next = Annotated[str, Query(max_length=2000)]


@router.get("/login")
def login_page(request: Request, next: _Next = "/") -> Response:
    return _form(request, next=next, status=200)


@router.post("/login")
def login(
    request: Request,
    services: ServicesHere,
    key: Annotated[str, Form(max_length=200)] = "",
    csrf: Annotated[str, Form(max_length=100)] = "",
    next: Annotated[str, Form(max_length=2000)] = "/",
) -> Response:
    """303 to where the reader wanted to go, with the session's cookie; 401 with the form again."""
    if not is_csrf_of(request.cookies.get(_FORM_COOKIE, "") or secrets.token_hex(), csrf):
        return _form(request, next=next, status=403, problem="The form was too old. Try again.")
    found = read_key(key.strip())
    token = secrets.token_urlsafe(32)
    at = now()
    try:
        if found is None:
            raise KeyRefusedError("this is no API key; one looks like csk_…_…")
        with services.database.begin() as connection:
            known = api_keys.use(connection, found, at=at)
            expires_at = min(at + SESSION_TIME, known.expires_at or at + SESSION_TIME)
            web_sessions.begin(connection, token, known.key_id, at=at, expires_at=expires_at)
    except KeyRefusedError as error:
        return _form(request, next=next, status=401, problem=f"{str(error)[0].upper()}{str(error)[1:]}.")
    answer = RedirectResponse(_own(next), status_code=303)
    answer.delete_cookie(_FORM_COOKIE, path="/login")
    _set(request, answer, SESSION_COOKIE, token, path="/", lasts=expires_at - at)
    return answer


@router.post("/logout")
def logout(
    request: Request, services: ServicesHere, csrf: Annotated[str, Form(max_length=100)] = ""
) -> Response:
    token = session_token(request)
    if token is not None:
        if not is_csrf_of(token, csrf):
            raise ForbiddenError("the form is not that of this session; load the page again")
        with services.database.begin() as connection:
            web_sessions.end(connection, token)
    answer = RedirectResponse("/login", status_code=303)
    answer.delete_cookie(SESSION_COOKIE, path="/")
    return answer


def _form(request: Request, *, next: str, status: int, problem: str | None = None) -> Response:
    token = secrets.token_urlsafe(32)
    answer = render(
        "login.html",
        status=status,
        values={"form_token": csrf_of(token), "next": _own(next), "problem": problem},
    )
    _set(request, answer, _FORM_COOKIE, token, path="/login", lasts=_FORM_TIME)
    return answer


def _set(
    request: Request, answer: Response, name: str, value: str, *, path: str, lasts: dt.timedelta
) -> None:
    answer.set_cookie(
        name,
        value,
        max_age=int(lasts.total_seconds()),
        path=path,
        httponly=True,
        samesite="strict",
        # Without TLS a browser would never send it back.
        secure=request.url.scheme == "https",
    )


def _own(address: str) -> str:
    """Where to go then: a path here. A second slash, or what browsers take for one, would lead elsewhere."""
    is_own = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if is_own else "/"
