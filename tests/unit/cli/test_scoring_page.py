"""docs/scoring.md: its commands and its Python run, its tables are those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.recorded_runs import write_cohort
from workers.agentlens.formats import FORMATS
from workers.agentlens.formats.refused import REFUSED
from workers.cli.main import execute
from workers.scoring.forms import COLUMNS

PAGE = (Path(__file__).parents[3] / "docs/scoring.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines()]


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_cohort(tmp_path / "runs")
    (tmp_path / "labels.csv").write_text("trajectory_id,passed\nlucky,1.0\nlost,0.0\n")


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_of_the_page_does_what_it_says(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, _, comment = line.partition("#")
    program, *arguments = shlex.split(command)
    assert program == "consensus"
    expected = re.search(r"exit (\d)", comment)
    assert execute(arguments) == (int(expected[1]) if expected else 0), capsys.readouterr().err
    if "-o" in arguments:
        assert Path(arguments[arguments.index("-o") + 1]).stat().st_size > 100


def test_the_page_shows_all_commands_about_runs() -> None:
    shown = {tuple(shlex.split(line)[1:3]) for line in COMMANDS}
    assert {("score", "runs"), ("trajectories", "inspect"), ("trajectories", "compare")} <= shown
    assert ("reference", "build") in shown


@pytest.mark.usefixtures("_here")
def test_the_python_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks("python")
    exec(compile(block, "docs/scoring.md", "exec"), {})  # noqa: S102 - our own page
    labels, best, signals = capsys.readouterr().out.splitlines()
    assert labels == "['E6', 'E6', 'I2', 'V4']"
    assert re.match(r"\d/\w+_pta\.json \d+\.\d ideal \{'paper'", best)
    assert signals.startswith("{'struct': ")


def test_the_table_of_formats_is_that_of_the_readers() -> None:
    rows = re.findall(r"^\| `([a-z][a-z0-9-]+)` \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE)
    assert dict(rows) == {
        reader.name: ", ".join(reader.blind_signals) or "–" for reader in FORMATS if reader not in REFUSED
    }


def test_every_column_is_explained() -> None:
    table = PAGE.partition("| column of CSV")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", table))
    spread = {name for name in COLUMNS if name.endswith(("_tier", "_spread"))}
    assert set(COLUMNS) - spread <= named
    assert "never part of the run's own score" in PAGE
    assert "does not replace them" in PAGE
