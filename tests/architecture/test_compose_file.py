"""docker-compose.yml, Dockerfile and .env.example are held against the code, without an engine."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from tests.e2e.compose.installation import EXTRAS
from workers.cli.main import app
from workers.providers.registry import PROVIDERS
from workers.settings import Settings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
FILE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")

ONE_SHOT = {"migrate", "cage-image"}
#: Of other people's images.
SERVERS = {"postgres", "redis"}
OURS = set(SERVICES) - SERVERS
#: Embedded servers and the command line's own; the container's socket is always in the same place.
NOT_FOR_CONTAINERS = {
    "CONSENSUS_HOME",
    "CONSENSUS_URL",
    "CONSENSUS_API_KEY",
    "CONSENSUS_REQUIRE_KEYS",
    "CONSENSUS_DOCKER_HOST",
}
SETTINGS = {f"CONSENSUS_{name.upper()}" for name in Settings.model_fields}
PROVIDER_VARIABLES = {
    variable
    for spec in PROVIDERS.values()
    if spec.needs_key or spec.key_variables
    for variable in (*spec.key_variables, spec.url_variable, spec.model_variable)
}
OTEL = {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"}


def environment(service: str) -> dict[str, Any]:
    return dict(SERVICES[service].get("environment", {}))


def test_the_services_are_those_that_the_page_names() -> None:
    page = (ROOT / "docs/compose.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \|", page.split("## Services")[1].split("\n## ")[0], re.M)) == set(
        SERVICES
    )


@pytest.mark.parametrize("service", sorted(OURS))
def test_every_command_is_one_of_ours_with_options_that_it_has(service: str) -> None:
    words = SERVICES[service]["command"]
    if isinstance(words, str):
        words = shlex.split(re.sub(r"\$\{\w+:-(.*?)\}", r"\1", words))
    command = get_command(app)
    context = command.make_context("consensus", list(words), resilient_parsing=False)
    with context:
        # Parses the options of the command itself; whatever it does not know is refused.
        name, inner, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert name == words[0]
        while hasattr(inner, "resolve_command"):
            name, inner, rest = inner.resolve_command(context, rest)
        inner.make_context(name, rest, parent=context)


@pytest.mark.parametrize("service", ["worker-llm", "worker-sandbox", "worker-scoring", "beat"])
def test_a_check_looks_at_the_file_that_its_service_touches(service: str) -> None:
    command = SERVICES[service]["command"]
    heartbeat = command[command.index("--heartbeat") + 1]
    assert SERVICES[service]["healthcheck"]["test"] == [
        "CMD-SHELL",
        f'test -n "$$(find {heartbeat} -mmin -1)"',
    ]


def test_every_queue_is_served() -> None:
    served = [
        queue
        for service in OURS
        if "--queues" in (command := SERVICES[service]["command"])
        for queue in command[command.index("--queues") + 1].split(",")
    ]
    assert sorted(served) == ["control", "llm", "sandbox", "scoring"]


def test_every_variable_is_one_that_the_code_reads_and_none_is_out_of_reach() -> None:
    named = {name for service in OURS for name in environment(service)}
    assert named == (SETTINGS - NOT_FOR_CONTAINERS) | PROVIDER_VARIABLES | OTEL


def test_keys_of_models_go_only_where_models_are_asked_or_estimated() -> None:
    keys = {variable for spec in PROVIDERS.values() for variable in spec.key_variables}
    with_keys = {service for service in OURS if keys & set(environment(service))}
    assert with_keys == {"api", "worker-llm", "worker-sandbox"}
    assert {service for service in OURS if "CONSENSUS_FLOWER_AUTH" in environment(service)} == {"flower"}


def test_only_what_needs_cages_has_the_engines_socket() -> None:
    with_socket = {service for service, entry in SERVICES.items() if "docker.sock" in str(entry)}
    assert with_socket == {"cage-image", "worker-llm", "worker-sandbox"}
    assert all(":/var/run/docker.sock" in str(SERVICES[service]["volumes"]) for service in with_socket)


def test_whatever_may_be_set_is_in_the_example_or_on_the_settings_page() -> None:
    asked = set(re.findall(r"(?<!\$)\$\{(\w+)", TEXT))
    shown = set(re.findall(r"^(?:# )?([A-Z_]+)=", EXAMPLE, re.MULTILINE))
    assert asked - SETTINGS - {"CONSENSUS_IMAGE"} <= shown
    assert shown <= asked | SETTINGS | PROVIDER_VARIABLES | {"COMPOSE_PROFILES"}


def test_passwords_are_asked_for_and_have_no_default() -> None:
    secrets = re.findall(r"\$\{((?:POSTGRES_PASSWORD|REDIS_PASSWORD|CONSENSUS_FLOWER_AUTH)[^}]*)\}", TEXT)
    assert {secret.partition(":")[0] for secret in secrets} == {
        "POSTGRES_PASSWORD",
        "REDIS_PASSWORD",
        "CONSENSUS_FLOWER_AUTH",
    }
    assert all(
        secret.partition(":?")[2] == "is not set; copy .env.example to .env and fill it in"
        for secret in secrets
    )


def test_the_example_is_what_settings_accept_once_the_passwords_are_filled_in() -> None:
    given = dict(line.split("=", 1) for line in EXAMPLE.splitlines() if re.match("[A-Z]", line))
    assert (
        Settings(simulator_url=given["CONSENSUS_SIMULATOR_URL"]).simulator_url == "http://simulator:8001/v1"
    )
    assert [name for name, value in given.items() if not value] == [
        "POSTGRES_PASSWORD",
        "REDIS_PASSWORD",
        "CONSENSUS_FLOWER_AUTH",
    ]


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_what_serves_is_checked_and_started_again_and_what_ends_is_not(service: str) -> None:
    entry = SERVICES[service]
    assert entry["restart"] == ("no" if service in ONE_SHOT else "unless-stopped")
    assert ("healthcheck" in entry) == (service not in ONE_SHOT)


def test_ports_are_the_loopbacks_unless_told_otherwise_and_servers_have_none() -> None:
    ports = {service: entry["ports"] for service, entry in SERVICES.items() if "ports" in entry}
    assert ports == {
        "api": ["${BIND_ADDRESS:-127.0.0.1}:${API_PORT:-8000}:8000"],
        "flower": ["${BIND_ADDRESS:-127.0.0.1}:${FLOWER_PORT:-5555}:5555"],
    }
    assert FILE["networks"]["servers"] == {"internal": True}
    assert {service: SERVICES[service]["networks"] for service in SERVERS} == {
        service: ["servers"] for service in SERVERS
    }


def test_nothing_of_ours_begins_before_the_schema_is_there() -> None:
    for service in OURS - {"migrate"}:
        assert SERVICES[service]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    assert SERVICES["migrate"]["depends_on"]["postgres"] == {"condition": "service_healthy"}


def test_one_image_serves_all_and_only_migrate_builds_it() -> None:
    assert {SERVICES[service]["image"] for service in OURS} == {"${CONSENSUS_IMAGE:-consensus:local}"}
    assert {service for service, entry in SERVICES.items() if "build" in entry} == {"migrate"}
    # Anything else would ask a registry for an image that only exists here.
    assert {SERVICES[service]["pull_policy"] for service in OURS - {"migrate"}} == {"never"}


def test_the_dockerfile_copies_what_there_is_and_what_the_ignore_file_lets_through() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.MULTILINE)
    sources = {source for line in lines for source in line.split()}
    assert {source for source in sources if not (ROOT / source).exists()} == set()
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    assert sources == {line[1:] for line in ignored if line.startswith("!")}
    assert dockerfile.rstrip().splitlines()[-4:-2] == ["USER 10001:10001", "WORKDIR /home/consensus"]


def test_the_image_and_its_stand_in_have_the_same_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = re.search(r"'\.\[([\w,]+)\]'", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert wanted is not None
    assert tuple(wanted[1].split(",")) == EXTRAS
    assert set(EXTRAS) == set(project["optional-dependencies"]) - {"dev"}
