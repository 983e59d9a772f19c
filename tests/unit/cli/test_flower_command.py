"""What `consensus flower` refuses, and whom it lets in."""

from __future__ import annotations

import socket

import pytest

from workers.cli.flower import credentials_of, made_credentials
from workers.cli.main import EXIT_REFUSED, execute
from workers.settings import load


def test_it_needs_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["flower"]) == EXIT_REFUSED
    assert "CONSENSUS_REDIS_URL is not set" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["ops", "ops:", ":secret-0001", "ops:a,guest"])
def test_who_is_let_in_must_be_a_user_and_a_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    monkeypatch.setenv("CONSENSUS_FLOWER_AUTH", wrong)

    assert execute(["flower"]) == EXIT_REFUSED
    said = capsys.readouterr().err
    assert "CONSENSUS_FLOWER_AUTH: must look like user:password" in said
    assert wrong not in said


def test_a_port_in_use_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONSENSUS_REDIS_URL", "redis://127.0.0.1:1/0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert execute(["flower", "--port", str(port)]) == EXIT_REFUSED
    assert f"port {port} is in use; choose another with --port" in capsys.readouterr().err


def test_several_are_let_in_and_without_any_new_ones_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    assert credentials_of(load()) is None
    monkeypatch.setenv("CONSENSUS_FLOWER_AUTH", " ops:one , guest:two ")
    assert credentials_of(load()) == "ops:one,guest:two"
    first, second = made_credentials(), made_credentials()
    assert first != second
    assert first.startswith("consensus:")
    assert len(first.split(":")[1]) >= 16
