"""Licences are judged by what packages say of themselves, and the page says it."""

from __future__ import annotations

import itertools
import re
import subprocess
import tomllib
from collections.abc import Sequence
from email.message import Message
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from ops import audit
from ops.audit import EXCEPTIONS, is_allowed, judged, licence_of, normal, pinned

ROOT = Path(__file__).parents[2]


def package(folder: Path, fields: Sequence[tuple[str, str]]) -> PathDistribution:
    metadata = Message()
    for name, value in (("Name", "some"), ("Version", "1"), *fields):
        metadata[name] = value
    home = folder / "some-1.dist-info"
    home.mkdir()
    (home / "METADATA").write_text(metadata.as_string(), encoding="utf-8")
    return PathDistribution(home)


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ([("License-Expression", "MIT"), ("License", "GPL")], "MIT"),
        ([("License", "BSD")], "BSD"),
        (
            [
                (
                    "License",
                    "Copyright 2025, somebody. All rights reserved, and then the whole text follows here.",
                )
            ],
            "unknown",
        ),
        (
            [("License", "Dual License"), ("Classifier", "License :: OSI Approved :: BSD License")],
            "BSD License",
        ),
        ([("Classifier", "License :: OSI Approved")], "unknown"),
        ([], "unknown"),
    ],
)
def test_a_package_s_licence_is_what_its_metadata_says(
    tmp_path: Path, fields: Sequence[tuple[str, str]], licence: str
) -> None:
    assert licence_of(package(tmp_path, fields)) == licence


@pytest.mark.parametrize(
    "licence",
    ["MIT", "GPL-3.0-only OR MIT", "MPL-2.0 AND (Apache-2.0 OR MIT)", "Mozilla Public License 2.0 (MPL 2.0)"],
)
def test_a_licence_that_asks_for_a_notice_is_allowed(licence: str) -> None:
    assert is_allowed(licence)


@pytest.mark.parametrize(
    "licence",
    ["GPL-3.0-only", "AGPL-3.0", "LGPL-3.0-only", "MIT AND GPL-2.0-only", "unknown", "", "Proprietary"],
)
def test_another_is_refused_until_somebody_gives_a_reason(licence: str) -> None:
    assert judged({"some": licence})[1] == [
        f"some: licence {licence}; is it one we can live with? (ops/audit.py, EXCEPTIONS)"
    ]


def test_an_exception_is_for_the_licence_it_was_made_for() -> None:
    assert judged({"psycopg": EXCEPTIONS["psycopg"][0]})[1] == []
    assert judged({"psycopg": "AGPL-3.0"})[1] == [
        "psycopg: its licence is AGPL-3.0 now, not LGPL-3.0-only; look at it again"
    ]


def test_every_dependency_has_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    names = {normal(re.split(r"[^\w.-]", entry)[0]) for entry in wanted} - {"consensus"}
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert names <= pinned(text).keys()
    assert [line for line in text.splitlines() if line and not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_the_page_lists_what_is_installed_at_the_versions_that_are() -> None:
    page = (ROOT / "docs/licences.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| ([a-z0-9-]+) \| ([^ |]+) \|", page, re.MULTILINE))
    versions = pinned((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    listed.pop("package")
    assert listed.items() <= versions.items()
    # What no platform of ours installs may stand in the file all the same.
    assert len(versions.keys() - listed.keys()) <= 2
    assert {normal(name) for name in EXCEPTIONS} <= listed.keys()


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("", None),
        ('{"dependencies": [{"name": "a", "skip_reason": "not found"}]}', None),
        ('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', ([], [])),
        (
            '{"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "X-1", "fix_versions": ["2", "3"]}]},'
            ' {"name": "b", "skip_reason": "not found"}]}',
            (["a 1: X-1, mended in 2, 3"], ["b"]),
        ),
    ],
)
def test_a_source_of_advisories_that_knows_nothing_is_told_from_one_that_finds_nothing(
    monkeypatch: pytest.MonkeyPatch, output: str, answer: tuple[list[str], list[str]] | None
) -> None:
    monkeypatch.setattr(audit, "run", lambda *_: subprocess.CompletedProcess((), 1, output, ""))
    assert audit.advisories(["a==1"]) == answer


def test_a_source_of_advisories_that_hangs_is_one_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hang(*arguments: str) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(arguments, 900)

    monkeypatch.setattr(audit, "run", hang)
    assert audit.advisories(["a==1"]) is None


@pytest.mark.parametrize(
    ("answer", "problems", "code", "told"),
    [
        (([], []), [], 0, "pip-audit: 2 packages asked about, 0 known vulnerabilities"),
        ((["a 1: X-1, mended in 2"], []), [], 1, "a 1: X-1, mended in 2"),
        (None, [], 2, "pip-audit: not asked"),
        (None, ["a call that is unsafe"], 1, "a call that is unsafe"),
    ],
)
def test_the_exit_code_tells_found_from_not_asked(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    answer: tuple[list[str], list[str]] | None,
    problems: list[str],
    code: int,
    told: str,
) -> None:
    monkeypatch.setattr(audit, "audit_calls", lambda: problems)
    monkeypatch.setattr(audit, "audit_licences", list)
    monkeypatch.setattr(audit, "advisories", lambda *_: answer)
    pins = tmp_path / "constraints.txt"
    pins.write_text("a==1\nb==2\n")
    monkeypatch.setattr(audit, "CONSTRAINTS", pins)
    assert audit.main() == code
    assert told in capsys.readouterr().out
