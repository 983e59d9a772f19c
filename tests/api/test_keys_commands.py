"""`consensus keys`, what `consensus api` does without one, and the command line that shows one."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from tests.api.conftest import served
from tests.api.keys import any_key, guarded, stored_key
from tests.api.test_runs_read import an_id
from tests.integration.stored_runs import finish, store_run
from workers.cli.client import Client
from workers.cli.main import execute
from workers.cli.port import free_port
from workers.core.access import Scope
from workers.errors import InputError, NotFoundError
from workers.key_text import read_key
from workers.provenance.repository import api_keys
from workers.provenance.session import Database


@pytest.fixture(autouse=True)
def _own_database(database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSENSUS_DATABASE_URL", database_url)
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def url(app: FastAPI) -> Iterator[str]:
    """A server that asks for keys."""
    with served(guarded(app)) as address:
        yield address


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    assert execute(["keys", *words]) == code
    told = capsys.readouterr()
    return told.out, " ".join(told.err.split())


def admitted(database: Database, key: str, after: dt.timedelta = dt.timedelta(0)) -> api_keys.ApiKey:
    found = read_key(key)
    assert found is not None
    with database.begin() as connection:
        return api_keys.use(connection, found, at=dt.datetime.now(dt.UTC) + after)


def test_the_first_key_is_made_on_the_database_and_printed_alone_and_once(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "create",
        "ci of acme",
        "--scope",
        "read",
        "--tenant",
        "acme",
        "--expires",
        "2h",
        "--per-minute",
        "60",
    )
    out, err = said(capsys, *words)
    key = out.strip()
    assert key not in err
    assert f"{key[:17]} (ci of acme): read for the tenant acme, 60 requests a minute, until 20" in err
    known = admitted(database, key)
    assert (known.tenant_id, known.scope, known.requests_per_minute) == ("acme", Scope.READ, 60)
    assert known.expires_at is not None
    assert known.expires_at - known.created_at == dt.timedelta(hours=2)
    listed, _ = said(capsys, "list")
    assert re.search(rf"{key[:17]} +ci of acme +read +acme +usable +60 +20", listed)
    assert key[17:] not in listed


def test_an_installation_without_keys_says_how_to_make_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "list")[0] == "there is no key; `consensus keys create NAME` makes one\n"
    assert said(capsys, "list", "--json")[0] == "[]\n"


def test_a_replaced_key_gives_way_at_once_without_grace(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    old = stored_key(database, Scope.ADMIN, tenant="acme")
    out, err = said(capsys, "rotate", old[:17], "--grace", "0m")
    assert f"{old[:17]} goes on until 20" in err
    with pytest.raises(Exception, match="is expired"):
        admitted(database, old)
    assert admitted(database, out.strip()).scope is Scope.ADMIN
    states = {entry["id"]: entry for entry in json.loads(said(capsys, "list", "--json")[0])}
    assert states[old[:17]]["replaced_by"] == out[:17]
    assert (states[old[:17]]["state"], states[out[:17]]["state"]) == ("expired", "usable")


def test_a_key_that_leaked_is_revoked_as_it_was_found(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    key = stored_key(database)
    for _ in range(2):
        _, err = said(capsys, "revoke", key)
        assert err == f"{key[:17]} (a test) opens nothing any more"
    with pytest.raises(Exception, match="is revoked"):
        admitted(database, key)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("create", " "), "a key's name must have 1 to 100 printable characters"),
        (("create", "x", "--tenant", "A b"), "--tenant 'A b': write 1 to 63 of a-z, 0-9 and -"),
        (("create", "x", "--expires", "0d"), "--expires '0d': write a number and m, h or d"),
        (("create", "x", "--expires", "soon"), "--expires 'soon': write a number and m, h or d"),
        (("create", "x", "--scope", "root"), "'root' is not one of"),
        (("create", "x", "--per-minute", "0"), "Input should be greater than or equal to 1"),
        (("rotate", "csk_x", "--grace", "-1h"), "--grace '-1h': write a number and m, h or d"),
        (("rotate", "csk_x"), "there is no key 'csk_x'; `consensus keys list` shows them all"),
        (("revoke", "all"), "there is no key 'all'"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_sentence(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    _, err = said(capsys, *words, code=3)
    assert sentence in err


def test_a_key_is_no_name_of_a_key_and_is_not_shown_back(capsys: pytest.CaptureFixture[str]) -> None:
    key = any_key()
    for words in (("create", f"old {key}"), ("revoke", f"x{key}"), ("create", "x", "--tenant", key)):
        _, err = said(capsys, *words, code=3)
        assert key[18:30] not in err


@pytest.mark.parametrize(
    ("host", "required", "asks", "factory"),
    [
        ("127.0.0.1", "0", False, "api.app:on_loopback"),
        ("localhost", "0", False, "api.app:on_loopback"),
        ("::1", "0", False, "api.app:on_loopback"),
        ("127.0.0.1", "1", True, "api.app:on_loopback"),
        ("0.0.0.0", "0", True, "api.app:from_environment"),
        ("::", "0", True, "api.app:from_environment"),
        ("192.0.2.1", "0", True, "api.app:from_environment"),
        ("consensus.example", "0", True, "api.app:from_environment"),
    ],
)
def test_an_api_that_asks_for_keys_says_so_while_there_is_none(
    database: Database,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    required: str,
    asks: bool,
    factory: str,
) -> None:
    started: list[tuple[str, str]] = []
    monkeypatch.setattr("uvicorn.run", lambda name, *, host, **_: started.append((name, host)))
    monkeypatch.setenv("CONSENSUS_REQUIRE_KEYS", required)
    words = ["api", "--host", host, "--port", str(free_port())]
    expired = dt.datetime.now(dt.UTC)
    stored_key(database, expires_at=expired)
    said = f"the API asks for keys at {host}, and there is none that can be used"
    assert execute(words) == 0
    assert (said in " ".join(capsys.readouterr().err.split())) == asks
    stored_key(database)
    assert execute(words) == 0
    assert said not in " ".join(capsys.readouterr().err.split())
    assert started == [(factory, host)] * 2


def test_an_api_starts_while_its_database_is_away(
    monkeypatch: pytest.MonkeyPatch, servers: tuple[str, str]
) -> None:
    started: list[str] = []
    monkeypatch.setattr("uvicorn.run", lambda name, **_: started.append(name))
    monkeypatch.setenv("CONSENSUS_REDIS_URL", servers[1])
    monkeypatch.setenv("CONSENSUS_DATABASE_URL", f"postgresql://nobody@127.0.0.1:{free_port()}/none")
    assert execute(["api", "--host", "0.0.0.0", "--port", str(free_port())]) == 0
    assert started == ["api.app:from_environment"]


def test_who_made_the_application_without_the_command_gets_one_that_asks(
    database: Database, monkeypatch: pytest.MonkeyPatch, servers: tuple[str, str]
) -> None:
    from api import app as module

    monkeypatch.setenv("CONSENSUS_REDIS_URL", servers[1])
    closed, local = module.from_environment(), module.on_loopback()
    assert (closed.state.services.needs_key, local.state.services.needs_key) == (True, False)
    assert local.state.services.checks_host
    for made in (closed, local):
        made.state.services.database.close()


def test_the_command_line_shows_its_key(database: Database, url: str) -> None:
    store_run(database, an_id(1), tenant_id="acme")
    finish(database, an_id(1))
    key = SecretStr(stored_key(database, tenant="acme"))
    with Client(url, api_key=key) as client:
        assert client.run(an_id(1))["id"] == an_id(1)
        assert [event.kind for event in client.events(an_id(1))][-1] == "run.finished"
        with pytest.raises(NotFoundError):
            client.run(an_id(2))
        with pytest.raises(InputError, match="has the scope read, and this needs submit"):
            client.cancel(an_id(1))
    with Client(url) as client:
        assert client.readiness()["status"] == "ready"
        with pytest.raises(InputError, match="commands take a key from CONSENSUS_API_KEY"):
            client.run(an_id(1))


def test_commands_take_the_key_of_the_settings(
    database: Database,
    url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
) -> None:
    store_run(database, an_id(1))
    file = tmp_path / "key"
    file.write_text(f"{stored_key(database)}\n", encoding="utf-8")
    monkeypatch.setenv("CONSENSUS_URL", url)
    assert execute(["status", an_id(1), "--json"]) == 3
    assert "CONSENSUS_API_KEY_FILE" in capsys.readouterr().err
    monkeypatch.setenv("CONSENSUS_API_KEY_FILE", str(file))
    assert execute(["status", an_id(1), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == an_id(1)
    spec = tmp_path / "spec.md"
    spec.write_text("Add two numbers.", encoding="utf-8")
    assert execute(["run", str(spec), "--dry-run"]) == 3
    assert "needs submit" in " ".join(capsys.readouterr().err.split())
