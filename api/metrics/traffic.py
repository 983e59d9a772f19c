"""How the API itself is used: requests by route, never by address, since addresses hold ids."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Nobody knows these addresses; what they say was made up by the caller.
OTHER = "other"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Traffic:
    """This process's requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "consensus_api_requests_total",
            "Requests answered, by route",
            ("method", "route", "status"),
            registry=registry,
        )
        self.response = Histogram(
            "consensus_api_response_seconds",
            "From a request to the first byte of its answer",
            ("route",),
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
            registry=registry,
        )
        self.open = Gauge(
            "consensus_api_responses_open",
            "Answers under way: streams, for the routes of events",
            ("route",),
            registry=registry,
        )


class Measured:
    """Counts requests into a `Traffic`. The route is known once the router below has found it."""

    def __init__(self, app: ASGIApp, traffic: Traffic) -> None:
        self._app = app
        self._traffic = traffic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        traffic, began = self._traffic, time.perf_counter()
        route: str | None = None

        async def counted(message: Message) -> None:
            nonlocal route
            if message["type"] == "http.response.start" and route is None:
                route = _route(scope)
                method = scope["method"] if scope["method"] in _METHODS else OTHER
                traffic.requests.labels(method, route, str(message["status"])).inc()
                traffic.response.labels(route).observe(time.perf_counter() - began)
                traffic.open.labels(route).inc()
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            if route is not None:
                traffic.open.labels(route).dec()


def _route(scope: Scope) -> str:
    """The route's template, such as `/v1/runs/{run_id}`."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else OTHER
