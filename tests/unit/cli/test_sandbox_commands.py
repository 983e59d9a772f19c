"""`consensus sandbox …` and the doctor where there is no engine: a sentence, exit 3, nothing uncaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.cli.doctor import examine
from workers.cli.main import execute
from workers.settings import load


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    address = f"unix://{tmp_path}/none.sock"
    monkeypatch.setenv("CONSENSUS_DOCKER_HOST", address)
    return address


@pytest.mark.parametrize(
    "arguments", [["check"], ["run", "--", "touch", "ran"], ["build"], ["sweep"]], ids=lambda words: words[0]
)
def test_every_command_says_what_is_missing(
    arguments: list[str],
    nowhere: str,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert execute(["sandbox", *arguments]) == 3

    said = "".join(capfd.readouterr())
    assert f"no Docker engine answers at {nowhere}; start one, or set CONSENSUS_DOCKER_HOST to yours" in said
    assert "Traceback" not in said
    assert not (tmp_path / "ran").exists()


def test_the_doctor_says_it_in_one_sentence_and_what_follows(nowhere: str) -> None:
    (said,) = [finding for finding in examine(load()) if "sandbox" in finding.text]

    assert said.state == "note"
    assert said.text == (
        f"no sandbox: no Docker engine answers at {nowhere}; start one, or set CONSENSUS_DOCKER_HOST to yours. "
        "Runs work, but claims of high severity stay advisory, untested"
    )


def test_an_address_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONSENSUS_DOCKER_HOST", "/var/run/docker.sock")

    assert execute(["sandbox", "check"]) == 3
    assert "CONSENSUS_DOCKER_HOST: must look like unix:///var/run/docker.sock" in capfd.readouterr().err


def test_a_limit_out_of_bounds_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert execute(["sandbox", "run", "--timeout", "0", "--", "true"]) == 3
    assert "cage limit timeout_seconds is 0 seconds" in capfd.readouterr().err
