"""What `consensus doctor` says of servers of one's own."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from workers.cli.doctor import Diagnosis, examine
from workers.provenance.migrate import head, migrate
from workers.provenance.session import Database
from workers.settings import load


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: object, empty_url: str, redis_url: str) -> None:
    monkeypatch.setenv("CONSENSUS_DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("CONSENSUS_HOME", str(tmp_path))
    monkeypatch.setenv("CONSENSUS_DATABASE_URL", empty_url)
    monkeypatch.setenv("CONSENSUS_REDIS_URL", redis_url)


def said(about: str) -> Diagnosis:
    (found,) = [finding for finding in examine(load()) if finding.text.startswith(about)]
    return found


def test_a_database_is_fine_empty_or_not_what_it_says(empty: Database) -> None:
    assert said("database:") == Diagnosis(
        "missing", f"database: schema empty, this version needs {head()}; run `consensus migrate`"
    )
    migrate(empty)
    assert said("database:") == Diagnosis("ok", f"database: your own, schema {head()}")
    with empty.begin() as connection:
        connection.execute(text("ALTER TABLE calls DROP COLUMN rung"))
    found = said("database:")
    assert found.state == "missing"
    assert "is not: it has no column calls.rung" in found.text


def test_servers_that_do_not_answer_are_named_with_the_variable_to_look_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CONSENSUS_DATABASE_URL", "postgresql+psycopg://nobody@127.0.0.1:1/none")
    monkeypatch.setenv("CONSENSUS_REDIS_URL", "redis://127.0.0.1:1/0")
    findings = [finding for finding in examine(load()) if finding.state == "missing"]
    texts = " ".join(finding.text for finding in findings)
    assert "check CONSENSUS_DATABASE_URL and that the server is up" in texts
    assert "check CONSENSUS_REDIS_URL and that the server is up" in texts


def test_with_both_servers_no_data_directory_is_needed_and_the_broker_says_its_version() -> None:
    assert said("data directory") == Diagnosis(
        "ok", "data directory: not needed, database and broker are your own"
    )
    assert said("broker:").text.startswith("broker: your own, version ")
