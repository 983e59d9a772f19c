"""Model providers: which are on, how their accounts are doing, and the limits that hold for them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from sqlalchemy import Connection

from api.dependencies import ServicesHere
from api.schemas import LimitsIn, LimitsOut, ProviderOut, ProviderStateOut
from workers.core.model_family import model_family
from workers.errors import InputError, NotFoundError
from workers.governor.base import Limits
from workers.governor.limit_book import ANY_FAMILY, LimitBook, LimitsSet
from workers.provenance.repository import accounts, limits
from workers.provenance.repository.call_history import families_asked
from workers.providers.registry import PROVIDERS, bucket_key

router = APIRouter(prefix="/v1", tags=["providers"])

Provider = Annotated[
    str, Path(max_length=40, description="a provider's name, as `GET /v1/providers` lists it")
]
Family = Annotated[
    str,
    Path(
        max_length=80,
        pattern=r"^(\*|[A-Za-z0-9_.-]+)$",
        description="a model family, or * for all others",
    ),
]
#: Families that were asked within this time are listed with what is going on in them.
RECENT_SECONDS = 3600.0


@router.get("/providers", summary="List providers and how their accounts are doing")
def list_providers(services: ServicesHere) -> list[ProviderOut]:
    """`state` is what workers found out by calling: good, low (low-quota mode is on because of it), or the kind of
    error because of which nothing is sent to it until `until`."""
    with services.database.begin() as connection:
        known = {
            (entry.state.provider, entry.state.key_digest): entry for entry in accounts.published(connection)
        }
    enabled = services.enabled()
    listed = []
    for name, spec in PROVIDERS.items():
        config = enabled.get(name)
        entry = known.get((name, config.key_digest)) if config else None
        listed.append(
            ProviderOut(
                name=name,
                on=config is not None,
                wire=spec.wire,
                address=config.base_url if config else spec.base_url,
                cheap_model=spec.cheap_model,
                account=ProviderStateOut.of(entry) if entry else None,
            )
        )
    return listed


@router.get("/limits", summary="Show the limits that hold, and what is going on")
def show_limits(services: ServicesHere) -> list[LimitsOut]:
    """One entry for each enabled provider, for each family with limits of its own, and for each family that was
    asked within the last hour."""
    with services.database.begin() as connection:
        entries = limits.all_set(connection)
        recent = families_asked(connection, within_seconds=RECENT_SECONDS)
    enabled = services.enabled()
    book = LimitBook({name: config.limits for name, config in enabled.items()})
    book.replace(entries)
    is_set = {(entry.provider, entry.family) for entry in entries}
    shown = {(name, ANY_FAMILY) for name in enabled} | is_set
    shown |= {(provider, family) for provider, family in recent if provider in enabled}
    buckets = {
        (provider, family): bucket_key(enabled[provider], family)
        for provider, family in shown
        if family != ANY_FAMILY and provider in enabled
    }
    live = services.snapshots({key: book.of_key(key) for key in buckets.values()})
    return [
        LimitsOut.of(
            provider,
            family,
            book.of(provider, family),
            is_set=(provider, family) in is_set,
            live=live.get(buckets.get((provider, family), "")),
        )
        for provider, family in sorted(shown)
    ]


@router.put("/limits/{provider}/{family}", summary="Set limits; every worker keeps to them within seconds")
def set_limits(provider: Provider, family: Family, body: LimitsIn, services: ServicesHere) -> LimitsOut:
    """All five at once: a limit that is null does not hold. Repeating it changes nothing."""
    _check(provider)
    _check_family(provider, family)
    entry = LimitsSet(provider=provider, family=family, limits=Limits(**body.model_dump()))
    with services.database.begin() as connection:
        limits.put(connection, entry)
    return LimitsOut.of(provider, family, entry.limits, is_set=True, live=None)


@router.delete("/limits/{provider}/{family}", status_code=204, summary="Go back to the default limits")
def reset_limits(provider: Provider, family: Family, services: ServicesHere) -> Response:
    _check(provider)
    with services.database.begin() as connection:
        _reset(connection, provider, family)
    return Response(status_code=204)


def _reset(connection: Connection, provider: str, family: str) -> None:
    if not limits.reset(connection, provider, family):
        raise NotFoundError(f"no limits are set for {provider}/{family}; the defaults hold")


def _check_family(provider: str, family: str) -> None:
    """Limits under a model's name would be kept and never looked up."""
    own = model_family(provider, family)
    if family not in (ANY_FAMILY, own):
        raise InputError(
            f"{family!r} is a model of the family {own!r}, and limits hold for families; set those of {provider}/{own}"
        )


def _check(provider: str) -> None:
    if provider not in PROVIDERS:
        raise InputError(f"there is no provider {provider!r}; known are {', '.join(PROVIDERS)}")
