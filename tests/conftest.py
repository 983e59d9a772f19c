"""What every test gets: an environment without anybody's settings, and real servers where they are asked for.

The servers are those of CONSENSUS_TEST_DATABASE_URL and CONSENSUS_TEST_REDIS_URL, which the tests empty, or
embedded ones started once per session. Neither is ever skipped: a server that does not start is a failure."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
import structlog
from hypothesis import Phase, settings
from sqlalchemy import delete

from tests.cpu_time import within_cpu_seconds
from tests.e2e.two_hosts.network import ForbiddenError, Network
from workers import settings as settings_module
from workers.cli.embedded import EmbeddedServers
from workers.provenance.migrate import migrate
from workers.provenance.models import metadata
from workers.provenance.session import Database
from workers.providers.registry import PROVIDERS

# The same examples on every machine, and no claim about how fast it is: that is what `within_cpu_seconds` is for.
settings.register_profile("repository", deadline=None, derandomize=True, max_examples=60)
# Of a mutant only the first failure counts: making its example small takes most of the time.
settings.register_profile(
    "mutation", parent=settings.get_profile("repository"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("repository")

#: Real logs of agents lie beside the checkout, not in it (their licences, their size).
_ZOO = Path(__file__).parents[1] / "../shared/data/formats"
_NEED_ZOO = ["contract/test_trajectory_formats.py"]
collect_ignore = [] if _ZOO.exists() or os.environ.get("CI") == "true" else _NEED_ZOO


def pytest_report_header() -> str | None:
    """In CI the data must be there, and a missing folder fails; elsewhere its tests are left out, and said so."""
    if not collect_ignore:
        return None
    return f"left out, because {_ZOO.name} is not beside the checkout: {', '.join(collect_ignore)}"


#: The engine that the tests of the cage use. In CI there must be one.
_TEST_DOCKER = os.environ.get("CONSENSUS_TEST_DOCKER")
_WITHOUT_CAGE = not _TEST_DOCKER and os.environ.get("CI") != "true"
_LEFT_OUT = pytest.StashKey[list[str]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[_LEFT_OUT] = []
    for item in items:
        code = getattr(getattr(item, "function", None), "__code__", None)
        if code is not None and within_cpu_seconds.__name__ in code.co_names:
            item.add_marker("cpu")
    _leave_out("cage", "of the cage", _no_cage, config, items)
    _leave_out("namespaces", "of two hosts", _no_namespaces, config, items)
    _leave_out("compose", "of the compose file brought up", _no_compose, config, items)
    _leave_out("browser", "of pages in a browser", _no_browser, config, items)


def _leave_out(
    marker: str,
    what: str,
    obstacle: Callable[[], str | None],
    config: pytest.Config,
    items: list[pytest.Item],
) -> None:
    marked = [item for item in items if item.get_closest_marker(marker)]
    why = obstacle() if marked else None
    if why is not None:
        config.stash[_LEFT_OUT].append(f"left out: {len(marked)} tests {what}, because {why}")
        config.hook.pytest_deselected(items=marked)
        items[:] = [item for item in items if item not in marked]


def _no_cage() -> str | None:
    return "CONSENSUS_TEST_DOCKER names no Docker engine" if _WITHOUT_CAGE else None


def _no_compose() -> str | None:
    """It takes minutes, so only the gate asks for it; entering the network that the engine publishes in needs root."""
    if not _TEST_DOCKER or os.environ.get("CI") != "true":
        return "only the gate takes the minutes that it needs (`make compose-proof` does it by itself)"
    return None if os.geteuid() == 0 else "the engine's network can only be entered as root"


def _no_browser() -> str | None:
    is_missing = shutil.which("chromium") is None and os.environ.get("CI") != "true"
    return "there is no chromium here" if is_missing else None


def _no_namespaces() -> str | None:
    """They are the machine's to give and no service that could be started: where it refuses, that is said."""
    try:
        with Network():
            return None
    except ForbiddenError as error:
        return f"this machine makes no network namespaces ({error})"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_LEFT_OUT, []):
        terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Commands set up the process's logs: the next test finds them as this one did."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def docker_host() -> str:
    """The address of a real engine that has the cage's image."""
    if _TEST_DOCKER is None:
        pytest.fail("CONSENSUS_TEST_DOCKER must name a Docker engine, such as unix:///var/run/docker.sock")
    return _TEST_DOCKER


_TEST_DATABASE = os.environ.get("CONSENSUS_TEST_DATABASE_URL")
_TEST_REDIS = os.environ.get("CONSENSUS_TEST_REDIS_URL")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No setting, key or address of the machine reaches a test."""
    names = {variable for spec in PROVIDERS.values() for variable in (*spec.key_variables, spec.url_variable)}
    names |= {spec.model_variable for spec in PROVIDERS.values()}
    for name in [*names, *(name for name in os.environ if name.startswith("CONSENSUS_"))]:
        monkeypatch.delenv(name, raising=False)
    settings_module.settings.cache_clear()
    yield
    settings_module.settings.cache_clear()


@pytest.fixture(scope="session")
def servers() -> Iterator[tuple[str, str]]:
    """(database URL, broker URL) of real, running servers."""
    if _TEST_DATABASE and _TEST_REDIS:
        yield _TEST_DATABASE, _TEST_REDIS
        return
    # Not under a home directory: the PostgreSQL wheel opens the folders above its data to its own user.
    with tempfile.TemporaryDirectory(prefix="consensus-test-", dir="/var/tmp") as folder:
        embedded = EmbeddedServers(Path(folder))
        urls = embedded.start()
        try:
            yield urls
        finally:
            embedded.stop()


@pytest.fixture(scope="session")
def database_url(servers: tuple[str, str]) -> str:
    """A database at the newest schema, built by the migrations."""
    database = Database(servers[0], pool_size=2)
    migrate(database)
    database.close()
    return servers[0]


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An empty database."""
    opened = Database(database_url, pool_size=8)
    with opened.begin() as connection:
        # Deleting a few rows is ten times faster than TRUNCATE, which writes new files for every table.
        # The ledger refuses both from everybody who does not say, as only a superuser can, that it is no change at all.
        connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        for table in reversed(metadata.sorted_tables):
            connection.execute(delete(table))
    yield opened
    opened.close()


@pytest.fixture
def redis_url(servers: tuple[str, str]) -> str:
    """An empty broker."""
    client = redis.Redis.from_url(servers[1])
    client.flushdb()
    client.close()
    return servers[1]
