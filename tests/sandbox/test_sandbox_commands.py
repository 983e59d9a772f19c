"""`consensus sandbox …` and the doctor, with a real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.cli.doctor import examine
from workers.cli.main import execute
from workers.sandbox.recipe import default_image
from workers.settings import load

pytestmark = [pytest.mark.cage, pytest.mark.usefixtures("engine")]


@pytest.fixture
def engine(docker_host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSENSUS_DOCKER_HOST", docker_host)


def test_the_doctor_has_looked_inside_a_cage() -> None:
    said = [finding.text for finding in examine(load()) if finding.state == "ok"]

    assert f"sandbox: the Docker engine and {default_image()} are there, and its limits hold" in said


def test_the_doctor_says_how_to_get_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSENSUS_CAGE_IMAGE", "consensus-cage:never-built")

    (said,) = [finding for finding in examine(load()) if "sandbox" in finding.text]

    assert said.state == "note"
    assert (
        "the engine has no image consensus-cage:never-built; `consensus sandbox build` makes it" in said.text
    )


def test_check_says_ok(capfd: pytest.CaptureFixture[str]) -> None:
    assert execute(["sandbox", "check"]) == 0
    assert f"ok a program in {default_image()} is confined" in capfd.readouterr().out


def test_run_gives_the_programs_output_and_exit_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "say.py").write_text("import sys; print('said'); sys.exit('wrong')", encoding="utf-8")

    code = execute(["sandbox", "run", "--code", str(tmp_path), "--timeout", "30", "--", "python", "say.py"])

    assert code == 1
    assert capfd.readouterr() == ("said\n", "wrong\n")


def test_run_tells_a_timeout_as_other_tools_do(capfd: pytest.CaptureFixture[str]) -> None:
    assert execute(["sandbox", "run", "--timeout", "0.5", "--", "sleep", "60"]) == 124
    assert "timed out after 0.5 s" in capfd.readouterr().err


def test_run_refuses_a_folder_with_a_link_in_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")

    assert execute(["sandbox", "run", "--code", str(tmp_path), "--", "true"]) == 3
    assert "link is a symbolic link; a workspace takes regular files only" in capfd.readouterr().err


def test_sweep_says_what_it_removed(capfd: pytest.CaptureFixture[str]) -> None:
    assert execute(["sandbox", "sweep"]) == 0
    assert capfd.readouterr().out == "removed 0 containers and 0 volumes\n"


def test_a_build_that_fails_says_why_in_a_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    # The finished image as base: whoever runs commands there is nobody, and may change nothing.
    assert execute(["sandbox", "build", "--base", default_image(), "--network", "none"]) == 3

    said = capfd.readouterr().err
    assert said.startswith("consensus: the cage's image cannot be built: The command '/bin/sh -c ")
    assert "Traceback" not in said
