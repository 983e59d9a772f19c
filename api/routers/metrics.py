"""What Prometheus scrapes. Numbers of an installation are its operator's: not everybody's who can reach the API."""

from __future__ import annotations

import ipaddress
import secrets

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from api import errors
from api.dependencies import ServicesHere

router = APIRouter(include_in_schema=False)

#: Whoever sends one of these speaks for somebody else, who may be anywhere.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@router.get("/metrics")
def metrics(request: Request, services: ServicesHere) -> Response:
    """With CONSENSUS_METRICS_TOKEN set, for those who bring it; else for this machine alone."""
    if services.metrics_token is not None:
        # As bytes: a text that is not ASCII cannot be compared.
        offered = request.headers.get("authorization", "").removeprefix("Bearer ").strip().encode()
        if not secrets.compare_digest(offered, services.metrics_token.encode()):
            return errors.problem(
                401,
                "Not allowed",
                "metrics need the token of CONSENSUS_METRICS_TOKEN, as Authorization: Bearer …",
                headers={"WWW-Authenticate": "Bearer"},
            )
    elif not _is_local(request):
        return errors.problem(
            403,
            "Not allowed",
            "metrics are for this machine alone; with CONSENSUS_METRICS_TOKEN set, others may have them too",
        )
    return Response(request.app.state.scrape(), media_type=CONTENT_TYPE_LATEST)


def _is_local(request: Request) -> bool:
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
