"""`limits show|set` and `providers list` against a server that serves."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from rich.console import Console
from rich.text import Text

from api.app import create_app
from api.dependencies import Services
from tests.api.conftest import served
from tests.api.streams import CountingHub
from tests.api.test_providers import ON, OPENAI_DEFAULT, tell
from workers.cli.inspect import print_providers
from workers.cli.main import execute
from workers.governor.base import Limits, Snapshot
from workers.provenance.repository import limits
from workers.provenance.session import Database
from workers.providers.registry import PROVIDERS, enabled

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data directory in which nothing serves."""
    monkeypatch.setenv("CONSENSUS_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def _served(database_url: str) -> Iterator[tuple[FastAPI, str]]:
    services = Services(
        database=Database(database_url, pool_size=4),
        hub=CountingHub(database_url),
        submit=lambda _: None,
        broker_problem=lambda: None,
        enabled=lambda: ON,
    )
    app = create_app(services)
    with served(app) as url:
        yield app, url


@pytest.fixture
def server(
    _served: tuple[FastAPI, str], database: Database, home: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FastAPI]:
    """A server with three providers on, over the emptied database; commands find it."""
    app, url = _served
    monkeypatch.setenv("CONSENSUS_URL", url)
    services = app.state.services
    yield app
    app.state.services = services


def all_set(database: Database) -> dict[str, Limits]:
    with database.begin() as connection:
        return {f"{entry.provider}/{entry.family}": entry.limits for entry in limits.all_set(connection)}


def rows(out: str) -> dict[str, list[str]]:
    """The words of each line, by its first."""
    return {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}


def test_show_lists_defaults_and_what_is_set(server: FastAPI, capsys: Captured) -> None:
    assert execute(["limits", "show"]) == 0
    table = rows(capsys.readouterr().out)
    assert table["openai/*"] == ["500", "-", "-", "-", "64"]
    assert table["mistral/*"] == ["60", "500k", "-", "-", "16"]
    assert "(set)" not in table

    assert execute(["limits", "set", "openai", "input_tokens_per_minute=1234567"]) == 0
    capsys.readouterr()
    assert execute(["limits", "show"]) == 0
    out = capsys.readouterr().out
    assert rows(out)["openai/*"] == ["(set)", "500", "1,234,567", "-", "-", "64"]
    assert "(set): by `consensus limits set`; the others are defaults" in out


def test_show_as_json_is_what_the_server_says(server: FastAPI, capsys: Captured) -> None:
    assert execute(["limits", "show", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [f"{entry['provider']}/{entry['family']}" for entry in entries] == [
        "local/*",
        "mistral/*",
        "openai/*",
    ]
    assert OPENAI_DEFAULT.items() <= entries[2].items()


def test_set_begins_with_the_limits_that_are_shown(
    server: FastAPI, database: Database, capsys: Captured
) -> None:
    assert execute(["limits", "set", "openai", "requests_per_minute=300"]) == 0
    assert capsys.readouterr().out == (
        "openai/*: requests/min 300, tokens in/min none, tokens out/min none, requests/day none, at once 64\n"
    )
    assert all_set(database) == {"openai/*": Limits(requests_per_minute=300, concurrency=64)}

    # A family begins with what holds for all of the provider's, and changes add up.
    assert execute(["limits", "set", "openai/gpt", "concurrency=4", "requests_per_day=1000"]) == 0
    assert execute(["limits", "set", "openai/gpt", "requests_per_minute=0.5", "concurrency=none"]) == 0
    assert "requests/min 0.50, " in capsys.readouterr().out
    assert all_set(database)["openai/gpt"] == Limits(requests_per_minute=0.5, requests_per_day=1000)


def test_a_limit_of_less_than_a_hundredth_is_not_shown_as_0(server: FastAPI, capsys: Captured) -> None:
    assert execute(["limits", "set", "openai", "requests_per_minute=0.001"]) == 0
    assert "requests/min 0.001, " in capsys.readouterr().out
    assert execute(["limits", "show"]) == 0
    assert rows(capsys.readouterr().out)["openai/*"] == ["(set)", "0.001", "-", "-", "-", "64"]


def test_set_for_a_provider_that_is_off_on_the_server_begins_with_what_it_is_known_to_allow(
    server: FastAPI, database: Database
) -> None:
    """Its key may be where the workers are."""
    assert execute(["limits", "set", "anthropic", "concurrency=2"]) == 0

    default = enabled({"ANTHROPIC_API_KEY": "k"})["anthropic"].limits
    assert default.input_tokens_per_minute is not None
    assert all_set(database) == {"anthropic/*": dataclasses.replace(default, concurrency=2)}


def test_default_forgets_what_was_set(server: FastAPI, database: Database, capsys: Captured) -> None:
    execute(["limits", "set", "openai", "concurrency=1"])
    capsys.readouterr()

    assert execute(["limits", "set", "openai", "default"]) == 0

    assert capsys.readouterr().out == "openai/*: the defaults hold again\n"
    assert all_set(database) == {}
    assert execute(["limits", "set", "openai", "default"]) == 3
    assert "no limits are set for openai/*; the defaults hold" in capsys.readouterr().err


KINDS = (
    "requests_per_minute, input_tokens_per_minute, output_tokens_per_minute, requests_per_day, concurrency"
)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["openai", "requests_per_minute"], "'requests_per_minute' is not a change; write NAME=NUMBER with"),
        (["openai", "rpm=3"], f"'rpm=3' is not a change; write NAME=NUMBER with a name out of {KINDS}"),
        (["openai", "default", "concurrency=1"], "'default' is not a change"),
        (["openai", "requests_per_minute=many"], "requests_per_minute is 'many'; give a number above 0, or none"),
        (["openai", "requests_per_minute="], "requests_per_minute is ''; give a number above 0"),
        (["openai", "requests_per_minute=0"], "requests_per_minute is '0'; give a number above 0"),
        (["openai", "requests_per_minute=-3"], "requests_per_minute is '-3'"),
        (["openai", "requests_per_minute=nan"], "requests_per_minute is 'nan'"),
        (["openai", "requests_per_minute=inf"], "requests_per_minute is 'inf'"),
        (["openai", "requests_per_minute=1e999"], "requests_per_minute is '1e999'"),
        (["openai", "concurrency=1.5"], "concurrency is '1.5'; give a whole number above 0, or none"),
        (["openai", "concurrency=" + "9" * 5000], "concurrency is '" + "9" * 40 + "'; give a whole number"),
        (["openai", "concurrency=1000000"], "concurrency: Input should be less than or equal to 100000"),
        (["opnai", "concurrency=1"], "there is no provider 'opnai'; known are openai, "),
        (["opnai", "default"], "there is no provider 'opnai'; known are openai, "),
        (["openai/gpt-5-mini", "concurrency=1"], "limits hold for families; set those of openai/gpt"),
        (["openai/", "concurrency=1"], "'openai/' is no place for limits; write PROVIDER, or PROVIDER/FAMILY"),
        (["/gpt", "concurrency=1"], "'/gpt' is no place for limits"),
        (["openrouter/openai/gpt-5", "concurrency=1"], "is no place for limits"),
        (["openai"], "Missing argument"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_sentence_and_changes_nothing(
    arguments: list[str], sentence: str, server: FastAPI, database: Database, capsys: Captured
) -> None:
    assert execute(["limits", "set", *arguments]) == 3

    captured = capsys.readouterr()
    assert sentence in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert (captured.out, all_set(database)) == ("", {})


@pytest.mark.parametrize("arguments", [["show"], ["set", "openai", "concurrency=1"]])
def test_limits_without_a_server_say_how_to_start_one(
    home: None, arguments: list[str], capsys: Captured
) -> None:
    assert execute(["limits", *arguments]) == 3
    assert "no Consensus is serving here; start one with `consensus up`" in capsys.readouterr().err


def test_a_busy_table_fits_a_terminal_of_80_columns(
    server: FastAPI, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest provider and family, the largest limits, and everything going on at once."""
    on = enabled(
        {f"{name.upper()}_API_KEY": "k" for name in PROVIDERS} | {"OLLAMA_BASE_URL": "http://127.0.0.1:9"}
    )
    snapshot = Snapshot(
        is_shared=True,
        running=1234,
        waiting_interactive=10,
        waiting_batch=20_000,
        blocked_seconds=271.2,
        next_start_seconds=0.0,
        concurrency=64,
        adaptive_concurrency=4,
        requests_today=123_456,
        requests_remaining=None,
    )
    server.state.services = dataclasses.replace(
        server.state.services, enabled=lambda: on, snapshots=lambda keys: dict.fromkeys(keys, snapshot)
    )
    names = ("requests_per_minute", "input_tokens_per_minute", "output_tokens_per_minute")
    big = [f"{name}=1234567" for name in names]
    assert execute(["limits", "set", "openrouter/deepseek", *big, "requests_per_day=10000"]) == 0
    capsys.readouterr()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")

    assert execute(["limits", "show"]) == 0

    lines = [Text.from_ansi(line).plain.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    for piece in ("1,234 running", "20,010 waiting", "blocked 272 s", "slowed to 4", "123,456 today"):
        assert piece in plain_words(lines), piece
    for number in ("1,234,567", "10k", "500k", "2M", "1,000"):
        assert number in text


def plain_words(lines: list[str]) -> str:
    """What stands in the last column, read downwards."""
    start = lines[0].index("now")
    return " ".join(" ".join(line[start:].strip() for line in lines[1:]).split())


def test_nothing_slowed_is_not_called_slowed(server: FastAPI, capsys: Captured) -> None:
    calm = Snapshot(
        is_shared=True,
        running=0,
        waiting_interactive=0,
        waiting_batch=0,
        blocked_seconds=0.0,
        next_start_seconds=0.0,
        concurrency=64,
        adaptive_concurrency=64,
        requests_today=0,
        requests_remaining=None,
    )
    server.state.services = dataclasses.replace(
        server.state.services, snapshots=lambda keys: dict.fromkeys(keys, calm)
    )
    execute(["limits", "set", "openai/gpt", "concurrency=64"])
    capsys.readouterr()

    execute(["limits", "show"])

    assert rows(capsys.readouterr().out)["openai/gpt"][-2:] == ["0", "running"]


def test_providers_are_listed_as_the_server_knows_them(
    server: FastAPI, database: Database, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "k")  # this shell's, which is not the server's
    tell(database, "quota")
    tell(database, "overload", provider="mistral", seconds_left=1e-6)

    assert execute(["providers", "list"]) == 0

    captured = capsys.readouterr()
    lines = {line.split()[0]: line for line in captured.out.splitlines() if line.strip()}
    assert " left alone: quota, until " in lines["openai"]
    assert " UTC " in lines["openai"]
    assert " left alone: overload, the next call tries it " in lines["mistral"]
    assert " off " in lines["groq"]
    assert lines["local"].split()[1] == "on"
    assert (
        "low-quota mode is on (openai: HTTP 402: no credit): cheap models for everyone but the lead"
        in captured.out
    )
    assert captured.err == ""


@pytest.mark.parametrize(
    ("state", "seconds_left", "is_on"),
    [
        ("low", 600, True),
        ("low", 1e-6, False),
        ("quota", 1e-6, False),
        ("auth", 600, False),
        ("good", 0, False),
    ],
)
def test_the_line_about_low_quota_mode_is_there_while_it_is_on(
    state: str, seconds_left: float, is_on: bool, server: FastAPI, database: Database, capsys: Captured
) -> None:
    tell(database, state, seconds_left=seconds_left)

    assert execute(["providers", "list"]) == 0

    out = capsys.readouterr().out
    assert ("low-quota mode is on" in out) is is_on
    assert ("low quota until" in out) is (state == "low" and is_on)


def test_providers_as_json(server: FastAPI, capsys: Captured) -> None:
    assert execute(["providers", "list", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in entries if entry["on"]] == ["openai", "mistral", "local"]


def test_without_a_server_this_shells_providers_are_shown_and_it_says_so(
    home: None, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk-secret")

    assert execute(["providers", "list", "--json"]) == 0

    captured = capsys.readouterr()
    entries: list[dict[str, Any]] = json.loads(captured.out)
    assert [entry["name"] for entry in entries if entry["on"]] == ["groq"]
    assert "no Consensus is serving here" in captured.err
    assert "shown is what this shell's environment turns on" in captured.err
    assert "gsk-secret" not in captured.out + captured.err


def test_an_address_that_this_shell_has_wrong_is_one_sentence(
    home: None, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_BASE_URL", "localhost:8000")
    assert execute(["providers", "list"]) == 3
    assert "LOCAL_BASE_URL is 'localhost:8000', which does not start with http://" in capsys.readouterr().err


def test_the_providers_table_fits_80_columns(
    server: FastAPI, database: Database, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(database, "quota")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")

    assert execute(["providers", "list"]) == 0

    lines = [Text.from_ansi(line).plain.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 80


def test_addresses_of_local_providers_are_not_broken_at_80_columns() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    entries = [
        {"name": name, "on": False, "wire": spec.wire, "address": spec.base_url, "account": None}
        for name, spec in PROVIDERS.items()
    ]
    print_providers(entries, console, now=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    for name, spec in PROVIDERS.items():
        # Gemini's has 55 characters and cannot fit beside the rest.
        assert f" {spec.base_url} " in text or name == "gemini"
