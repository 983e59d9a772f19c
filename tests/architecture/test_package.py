"""What an installed Consensus needs beside its modules is in the wheel: the CLI works from any folder."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from setuptools import find_namespace_packages
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

ROOT = Path(__file__).parents[2]


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The files that setuptools would put into the wheel, by its own reckoning."""
    monkeypatch.chdir(ROOT)
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert config["packages"]["find"]["namespaces"] is True
    packages = find_namespace_packages(".", include=config["packages"]["find"]["include"])
    data = {package.replace("*", ""): names for package, names in config["package-data"].items()}
    command = build_py(Distribution({"script_name": "setup.py", "packages": packages, "package_data": data}))
    command.finalize_options()
    found = {Path(module[2]).as_posix() for module in command.find_all_modules()}
    for _, folder, _, names in command.get_data_files_without_manifest():
        found |= {(Path(folder) / name).as_posix() for name in names}
    return found


def test_every_file_of_the_packages_is_shipped(shipped: set[str]) -> None:
    present = {
        path.relative_to(ROOT).as_posix()
        for folder in ("api", "workers", "teams", "migrations")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"__pycache__", ".hypothesis"} & set(path.parts) and path.suffix != ".pyc"
    }
    assert present - shipped == set()


@pytest.mark.parametrize(
    "pattern",
    [
        "teams/consensus.yaml",
        "teams/prompts/reviewer.md",
        "migrations/script.py.mako",
        "migrations/versions/0001_runs.py",
        "workers/providers/simulator/problems/*/problem.yaml",
        "workers/cli/main.py",
    ],
)
def test_what_a_run_needs_is_shipped(shipped: set[str], pattern: str) -> None:
    assert any(Path(path).match(pattern) for path in shipped)


def test_scripts_for_the_store_are_shipped_wherever_they_lie(shipped: set[str]) -> None:
    scripts = {path.relative_to(ROOT).as_posix() for path in (ROOT / "workers").rglob("*.lua")}
    assert scripts <= shipped


def test_no_test_and_no_benchmark_is_shipped(shipped: set[str]) -> None:
    assert {path.split("/")[0] for path in shipped} == {"api", "workers", "teams", "migrations"}
