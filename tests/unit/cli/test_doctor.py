"""What `consensus doctor` says about the parts that runs can do without."""

from __future__ import annotations

import importlib.util
import json

import pytest

from workers.cli.doctor import Diagnosis, examine
from workers.settings import load


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("CONSENSUS_DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("CONSENSUS_HOME", str(tmp_path))


def said(about: str) -> Diagnosis:
    (found,) = [finding for finding in examine(load()) if finding.text.startswith(f"{about}:")]
    return found


def test_an_address_where_nothing_answers_is_not_said_to_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSENSUS_URL", "http://127.0.0.1:1")
    found = said("serving")
    assert found.state == "note"
    assert "answers at http://127.0.0.1:1 (CONSENSUS_URL)" in found.text


def test_webhooks_and_the_setting_that_turns_them_on_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONSENSUS_WEBHOOK_SECRET", raising=False)
    assert said("webhooks").state == "note"
    assert "set CONSENSUS_WEBHOOK_SECRET" in said("webhooks").text
    monkeypatch.setenv("CONSENSUS_WEBHOOK_SECRET", "x" * 24)
    assert said("webhooks") == Diagnosis("ok", "webhooks: signed, to public addresses only")


def test_nights_are_named_and_missing_libraries_come_with_their_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CONSENSUS_SCHEDULES", json.dumps([{"name": "nightly", "at": "02:30"}]))
    assert said("scoring") == Diagnosis("ok", "scoring: nightly at 02:30 UTC")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "scipy" else name)
    assert said("scoring").state == "note"
    assert "scipy not there; pip install 'consensus[score]'" in said("scoring").text
