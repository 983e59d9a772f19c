"""The import contracts of pyproject.toml hold: dependencies point down, pure code stays pure."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parents[2]


def test_the_import_contracts_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    report = capsys.readouterr().out
    assert status == EXIT_STATUS_SUCCESS, report
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    assert f"{len(contracts)} kept, 0 broken" in report
    assert len(contracts) >= 4


def test_a_broken_contract_would_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = tmp_path / "contracts.toml"
    contract.write_text(
        "[tool.importlinter]\nroot_package = 'workers'\n"
        "[[tool.importlinter.contracts]]\nname = 'upside down'\ntype = 'forbidden'\n"
        "source_modules = ['workers.stages']\nforbidden_modules = ['workers.core']\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(ROOT)
    assert lint_imports(config_filename=str(contract), no_cache=True) != EXIT_STATUS_SUCCESS
    assert "upside down BROKEN" in capsys.readouterr().out


def test_the_api_and_workers_that_wait_for_models_load_no_numpy() -> None:
    code = (
        "import sys, api.app, workers.tasks.pipeline, workers.tasks.rescue, workers.tasks.scoring, workers.cli.main;"
        "print([name for name in ('numpy', 'scipy', 'pyarrow') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT, text=True)
    assert ended.stdout.strip() == "[]"
