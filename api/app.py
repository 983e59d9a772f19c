"""The application: routers, errors, body limit. Nothing happens at import."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

from fastapi import Depends, FastAPI
from fastapi_offline import FastAPIOffline
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import errors, interface_pages, known_query
from api.access import API_KEY, Guard
from api.arriving_bodies import ArrivingBodies
from api.batch_watch import Watches
from api.cut_streams import CutStreams
from api.dependencies import MAX_BODY_BYTES, Services
from api.foreign_pages import ForeignPages
from api.head_requests import HeadRequests
from api.json_size import JsonSize
from api.live import Hub
from api.metrics.scrape import Scrape, Sources
from api.metrics.traffic import Measured
from api.request_head import RequestHead
from api.routers import (
    batch_control,
    batch_events,
    batch_results,
    batches,
    events,
    health,
    metrics,
    provenance,
    providers,
    results,
    runs,
    scoring_reports,
    scoring_runs,
    scorings,
    teams,
    trajectories,
    trajectory_runs,
)
from api.run_pages import Pages, read_page
from api.security_headers import SecurityHeaders
from api.web import pages
from workers.celery_app import configure
from workers.enqueue import (
    bound_sending,
    broker_problem,
    queue_depths,
    send_dispatch,
    send_parts,
    send_sweep,
    submit_run,
)
from workers.errors import SettingsError
from workers.governor.look import look
from workers.inspection.inspector import Inspector
from workers.provenance.session import Database
from workers.providers.prices import price_of
from workers.providers.registry import enabled
from workers.settings import Settings, environment, load
from workers.webhooks.policy import WebhookPolicy

#: A statement of the API takes milliseconds, one that stores a hundred thousand lines some seconds.
_STATEMENT_SECONDS = 60.0


def services_of(settings: Settings) -> Services:
    """What the API holds open, from settings. Raises: SettingsError."""
    if settings.database_url is None:
        raise SettingsError(
            "CONSENSUS_DATABASE_URL is not set; `consensus up` starts an embedded database, or point it at yours"
        )
    celery = configure(settings)
    bound_sending(celery)
    database = Database(
        settings.database_url, pool_size=settings.database_pool, patience_seconds=_STATEMENT_SECONDS
    )
    database.sign_with(settings.signer)
    return Services(
        database=database,
        signer=settings.signer,
        hub=Hub(settings.database_url),
        submit=lambda run_id: submit_run(celery, run_id),
        broker_problem=lambda: broker_problem(celery),
        team_folders=settings.teams,
        enabled=lambda: enabled(environment()),
        price_of=price_of,
        max_batch_bytes=settings.max_batch_bytes,
        max_batch_runs=settings.max_batch_runs,
        dispatch=lambda: send_dispatch(celery),
        sweep=lambda batch_id: send_sweep(celery, batch_id),
        send_part=lambda key: send_parts(celery, [key]),
        max_upload_bytes=settings.max_upload_bytes,
        max_trajectory_bytes=settings.max_trajectory_bytes,
        snapshots=partial(look, settings.redis_url) if settings.redis_url else lambda _: {},
        queue_depths=lambda: queue_depths(celery),
        metrics_token=settings.metrics_token.get_secret_value() if settings.metrics_token else None,
        webhooks=WebhookPolicy(
            has_secret=bool(settings.webhook_keys), allow_private=settings.webhook_allow_private
        ),
    )


def from_environment() -> FastAPI:
    """The application for a server process that anybody may reach: nothing but health and the way in without a key."""
    return create_app(dataclasses.replace(services_of(load()), needs_key=True))


def on_loopback() -> FastAPI:
    """The application for a server process that only this machine reaches (`consensus api` unless told otherwise):
    keys are welcome, and asked for only if the settings say so."""
    settings = load()
    return create_app(
        dataclasses.replace(services_of(settings), needs_key=settings.require_keys, checks_host=True)
    )


def create_app(services: Services) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        services.hub.start()
        yield
        await services.hub.stop()
        services.database.close()

    # Its pages at /docs bring their own scripts: nothing here needs the network.
    app = FastAPIOffline(
        title="Consensus",
        summary="A distributed job queue for work that several language models do together.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    interface_pages.install(app, needs_key=services.needs_key)
    app.state.services = services
    app.state.batch_watches = Watches()
    app.state.run_pages = Pages(partial(read_page, services.database))
    app.state.scrape = Scrape(
        Sources(
            database=services.database,
            providers=services.enabled,
            depths=services.queue_depths,
            snapshots=services.snapshots,
        )
    )
    app.state.inspector = Inspector(services.database)
    app.add_middleware(CutStreams)
    app.add_middleware(ForeignPages)
    app.add_middleware(JsonSize)
    app.add_middleware(ArrivingBodies)
    app.add_middleware(BodyLimit, larger={"/v1/trajectories": services.max_upload_bytes})
    app.add_middleware(Guard, services=services)
    app.add_middleware(RequestHead)
    app.add_middleware(HeadRequests)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Measured, traffic=app.state.scrape.traffic)
    errors.install(app)
    app.include_router(health.router, responses=errors.DESCRIBED)
    app.include_router(metrics.router)
    for module in (
        runs,
        batches,
        batch_control,
        batch_events,
        batch_results,
        events,
        results,
        provenance,
        teams,
        providers,
        trajectories,
        trajectory_runs,
        scorings,
        scoring_runs,
        scoring_reports,
    ):
        app.include_router(
            module.router,
            responses=errors.DESCRIBED,
            dependencies=[Depends(API_KEY), Depends(known_query.refuse_unknown)],
        )
    pages.install(app)
    return app


class BodyLimit:
    """Refuses a body above the limit (that of its path, if `larger` has one) while it is being read, whatever its
    Content-Length claims."""

    def __init__(self, app: ASGIApp, *, larger: Mapping[str, int] | None = None) -> None:
        self._app = app
        self._larger = larger or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A batch has limits of its own and never lies in memory.
        if scope["type"] != "http" or (scope.get("method"), scope.get("path")) == ("POST", batches.PATH):
            await self._app(scope, receive, send)
            return
        limit = self._larger.get(scope.get("path", ""), MAX_BODY_BYTES)
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > limit:
            await _too_large(limit)(scope, receive, send)
            return
        seen = 0
        too_large = False
        has_begun = False

        async def counted() -> Message:
            nonlocal seen, too_large
            message = await receive()
            seen += len(message.get("body", b""))
            # Once the answer has begun the body is only drained, and a second answer would break the first.
            if seen > limit and not has_begun:
                too_large = True
                return {"type": "http.disconnect"}
            return message

        async def guarded(message: Message) -> None:
            nonlocal has_begun
            if not too_large:
                has_begun = True
                await send(message)

        try:
            await self._app(scope, counted, guarded)
        except Exception:
            if not too_large:
                raise
        if too_large:
            await _too_large(limit)(scope, receive, send)


def _too_large(limit: int) -> errors.ProblemResponse:
    return errors.problem(413, "Too large", f"the body has more than {limit:,} bytes")
