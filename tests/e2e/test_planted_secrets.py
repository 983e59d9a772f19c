"""Secrets are planted wherever an installation takes them, and found nowhere that it writes or answers to."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy.engine import make_url
from starlette.responses import JSONResponse, Response

from tests.e2e.conftest import Installation, make_installation, until
from tests.integration.model_server import ModelServer, good, model_server
from workers.cli.embedded import running_database
from workers.cli.port import free_port

#: What must be found nowhere, by where it was given.
PLANTED = {
    "LOCAL_API_KEY": "sk-local-planted-1f2e3d4c5b6a",
    "CONSENSUS_WEBHOOK_SECRET": "whsec_cGxhbnRlZC13ZWJob29rLXNlY3JldC1vZi0zMi1ieXRlcw==",
    "CONSENSUS_METRICS_TOKEN": "planted-metrics-token-9a8b7c",
    "CONSENSUS_FLOWER_AUTH": "watcher:planted-flower-word-42",
}
IN_A_FILE = "sk-file-planted-6f5e4d3c2b1a"


#: What each model is asked with.
KEYS = {"local-model": PLANTED["LOCAL_API_KEY"], "ollama-model": IN_A_FILE}


def quoting(role: str, body: dict[str, Any], before: int) -> str | Response:
    """Two of three requests fail, each time in another way, and quote the key that came, as some gateways do."""
    if before % 3 == 2:
        return good(role, body, before)
    error = {"message": f"Incorrect API key provided: {KEYS[body['model']]}", "code": "bad"}
    return JSONResponse({"error": error}, status_code=(400, 500, 503, 422, 200)[before % 5])


@pytest.fixture
def models() -> Iterator[ModelServer]:
    with model_server() as server:
        server.behave.update(dict.fromkeys(KEYS, quoting))
        yield server


@pytest.fixture
def planted(models: ModelServer, tmp_path: Path) -> Iterator[Installation]:
    """An installation in whose environment, and one file, secrets are planted."""
    file = tmp_path / "key"
    file.write_text(f"{IN_A_FILE}\n", encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="consensus-e2e-", dir="/var/tmp") as folder:
        yield make_installation(
            Path(folder),
            LOCAL_BASE_URL=models.url,
            LOCAL_MODEL="local-model",
            OLLAMA_BASE_URL=models.url,
            OLLAMA_MODEL="ollama-model",
            OLLAMA_API_KEY_FILE=str(file),
            CONSENSUS_WEBHOOK_ALLOW_PRIVATE="1",
            CONSENSUS_LOG_LEVEL="DEBUG",
            **PLANTED,
        )


def test_a_planted_secret_is_in_no_log_event_row_page_or_error(planted: Installation) -> None:
    made = planted.consensus("keys", "create", "for the test", "--scope", "admin")
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    assert re.fullmatch(r"csk_[a-z2-7]{13}_[\w-]{43}", key)
    assert key not in made.stderr

    port = free_port()
    up = planted.start("up", "--port", str(port))
    until(lambda: "is serving at" in planted.output() or up.poll() is not None, "`up` does not serve")
    api = httpx.Client(
        base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=30
    )
    hook = f"http://127.0.0.1:{free_port()}/hook"
    seen: list[str] = []
    spec = {"spec": "Add two numbers.", "webhook_url": hook}
    run_id = api.post("/v1/runs", json=spec).json()["id"]
    until(lambda: _state(api, run_id) == "finished", "the run does not end")
    addresses = ("", "/events", "/results", "/provenance")
    seen += [api.get(f"/v1/runs/{run_id}{part}").text for part in addresses]
    seen += [api.get(f"/runs/{run_id}{part}").text for part in ("", "/live")]
    # Errors quote what was sent.
    seen += [
        api.get("/v1/runs", params={"cursor": key}, headers={"Authorization": f"Bearer {key}x"}).text,
        api.get("/v1/runs", params={"cursor": key}).text,
        api.get("/runs", params={"cursor": key}, headers={"Accept": "text/html"}).text,
        api.get("/v1/runs", headers={"Authorization": f"Basic {key}"}).text,
        api.get("/login", params={"next": "/runs"}).text,
        *(api.get(path).text for path in ("/v1/providers", "/v1/limits", "/readyz", "/openapi.json")),
        api.get("/metrics", headers={"Authorization": f"Bearer {PLANTED['CONSENSUS_METRICS_TOKEN']}"}).text,
    ]
    listed = planted.consensus("keys", "list", "--json")
    assert [entry["name"] for entry in json.loads(listed.stdout)] == ["for the test"]
    told = [listed, planted.consensus("doctor"), planted.consensus("providers", "list")]
    seen += [done.stdout + done.stderr for done in told]
    seen += _rows(planted)
    up.terminate()
    up.wait(timeout=30)
    logs = {path.name: path.read_text("utf-8", "replace") for path in (planted.home / "logs").iterdir()}
    assert {"api.log", "worker-1.log"} <= logs.keys()

    # It was really asked with the keys, and the refusals are kept.
    assert any("Incorrect API key provided" in text for text in seen)
    secrets = [*PLANTED.values(), IN_A_FILE, "planted-flower-word-42", key, key[18:]]
    for where, text in [*logs.items(), *((f"answer {number}", text) for number, text in enumerate(seen))]:
        for secret in secrets:
            at = text.find(secret)
            assert at < 0, (where, text[max(0, at - 300) : at + 100])


def _state(api: httpx.Client, run_id: str) -> str:
    return str(api.get(f"/v1/runs/{run_id}").json()["state"])


def _rows(installation: Installation) -> list[str]:
    """Every table as text, payloads as they are read."""
    url = running_database(installation.home)
    assert url is not None
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        found = [
            str(connection.execute(f'SELECT * FROM "{name}"').fetchall())  # type: ignore[arg-type]  # noqa: S608
            for (name,) in names
        ]
    assert len(found) > 15
    return found
