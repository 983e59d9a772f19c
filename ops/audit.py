"""What `make audit` asks: known vulnerabilities, unsafe calls, licences.

Exit code 0: everything was asked and nothing found; 1: something was found; 2: nothing was found, but nobody could be
asked about known vulnerabilities. (make ends with 2 whatever its recipe ended with; scripts call this file.)
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/licences.md"
CONSTRAINTS = ROOT / "constraints.txt"
#: Ours, and what every virtual environment comes with.
NOT_OURS_TO_LIST = {"consensus", "pip", "setuptools", "wheel"}

#: Licences that ask for a notice at most, or for changes to the library's own files (MPL), by the words metadata has.
ALLOWED = {
    "0BSD", "3-Clause BSD License", "Apache 2.0", "Apache License 2.0", "Apache Software License", "Apache-2.0",
    "BSD", "BSD 2-Clause License", "BSD License", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC License",
    "ISC License (ISCL)", "MIT", "MIT License", "MIT style", "MIT-0", "MPL-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)", "New BSD", "PSF-2.0", "PSFL", "Python Software Foundation License",
    "Zlib",
}  # fmt: skip
#: Packages whose metadata says too little, or whose licence needs a reason. Name: licence, reason.
EXCEPTIONS = {
    "axe-playwright-python": ("MIT", "its file LICENSE; for tests alone"),
    "httpx-aiohttp": ("BSD-3-Clause", "its file LICENSE"),
    "promql-parser": ("MIT", "its file LICENSE; for tests alone"),
    "psycopg": ("LGPL-3.0-only", "used as a library, unchanged and replaceable; the LGPL asks for no more"),
    "psycopg-binary": ("LGPL-3.0-only", "as psycopg"),
}
_SHORT = 60
"""Longer texts in the field are licences themselves, not names."""


def normal(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence_of(package: Distribution) -> str:
    """What its metadata says: an SPDX expression, the old field, or classifiers, in this order; else "unknown"."""
    metadata = package.metadata
    fields = [name for name in ("License-Expression", "License") if name in metadata]
    named = metadata[fields[0]] if fields else ""
    if named.strip() and len(named) <= _SHORT and "\n" not in named and named != "Dual License":
        return named.strip()
    classifiers = [
        value.rpartition(" :: ")[2]
        for value in metadata.get_all("Classifier") or ()
        if value.startswith("License ::") and value != "License :: OSI Approved"
    ]
    return " OR ".join(classifiers) or "unknown"


def is_allowed(licence: str) -> bool:
    """Whether it asks for nothing beyond the list: one of its alternatives, or everything that is joined by AND."""
    names = [name.strip() for name in re.split(r"\s+(?:AND|OR)\s+", re.sub(r"[()]", "", licence))]
    allowed = [name in ALLOWED for name in names] if licence not in ALLOWED else [True]
    return all(allowed) if " AND " in licence else any(allowed)


def judged(licences: Mapping[str, str]) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """Of each package its licence and the reason for an exception; and what is wrong, in sentences."""
    found: dict[str, tuple[str, str]] = {}
    problems = []
    for name, licence in sorted(licences.items()):
        accepted, reason = EXCEPTIONS.get(name, (licence, ""))
        found[name] = (accepted, reason)
        if name not in EXCEPTIONS and not is_allowed(licence):
            problems.append(
                f"{name}: licence {licence}; is it one we can live with? (ops/audit.py, EXCEPTIONS)"
            )
        elif licence not in {accepted, "unknown"} and name in EXCEPTIONS:
            problems.append(f"{name}: its licence is {licence} now, not {accepted}; look at it again")
    return found, problems


def pinned(text: str) -> dict[str, str]:
    """Versions by name, of a file of constraints."""
    pairs = (line.split("==") for line in text.splitlines() if "==" in line)
    return {normal(name): version for name, version in pairs}


def page(versions: Mapping[str, str], found: Mapping[str, tuple[str, str]]) -> str:
    """The page of licences."""
    rows = [
        f"| {name} | {versions[name]} | {found[name][0]} | {found[name][1]} |"
        for name in sorted(versions)
        if name in found
    ]
    head = (
        "# Licences\n\nOf everything that `make install` installs, tools for development too, by their own metadata. "
        "`make audit` writes this page\nand refuses a licence that is unknown or asks for more than a notice; "
        "the last column says why one is here all the same.\n\n"
        "| package | version | licence | why |\n|---|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def audit_licences() -> Iterator[str]:
    """What is wrong with licences; the page is written anew."""
    versions = pinned(CONSTRAINTS.read_text(encoding="utf-8"))
    here = {normal(package.metadata["Name"]): package for package in distributions()}
    listed = {name: here[name] for name in versions if name in here}
    yield from (
        f"{name}: is installed and not in constraints.txt"
        for name in sorted(here.keys() - versions.keys() - NOT_OURS_TO_LIST)
    )
    yield from (
        f"{name}: {package.version} is installed, constraints.txt has {versions[name]}"
        for name, package in sorted(listed.items())
        if package.version != versions[name]
    )
    found, problems = judged({name: licence_of(package) for name, package in listed.items()})
    yield from problems
    PAGE.write_text(page(versions, found), encoding="utf-8")
    sys.stdout.write(
        f"licences: {len(found)} packages, {len(problems)} refused; the list is {PAGE.relative_to(ROOT)}\n"
    )


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A tool of this environment."""
    return subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, check=False, cwd=ROOT, text=True, timeout=900
    )


def audit_calls() -> Iterator[str]:
    """What bandit and ruff find."""
    for name, arguments in (
        ("bandit", ("bandit", "-q", "-c", "pyproject.toml", "-r", "api", "workers")),
        ("ruff, its rules S among others", ("ruff", "check", "--quiet", ".")),
    ):
        ended = run(*arguments)
        sys.stdout.write(f"{name}: {'something was found' if ended.returncode else 'nothing found'}\n")
        if ended.returncode:
            yield (ended.stdout or ended.stderr).strip()


def advisories(pins: Iterable[str]) -> tuple[list[str], list[str]] | None:
    """Known vulnerabilities of pinned packages, and packages that the source of advisories knows nothing of. None: it
    does not answer."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "pins.txt"
        wanted.write_text("\n".join(pins) + "\n", encoding="utf-8")
        try:
            ended = run(
                "pip_audit", "--requirement", str(wanted), "--no-deps", "--disable-pip", "--format", "json",
                "--progress-spinner", "off", "--timeout", "20",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None
    try:
        answer = json.loads(ended.stdout)["dependencies"]
    except (ValueError, KeyError):
        return None
    unknown = [entry["name"] for entry in answer if "skip_reason" in entry]
    if len(unknown) == len(answer):
        return None
    found = [
        f"{entry['name']} {entry['version']}: {found['id']}, mended in {', '.join(found['fix_versions']) or 'none yet'}"
        for entry in answer
        for found in entry.get("vulns", ())
    ]
    return found, unknown


def main() -> int:
    """Ask everybody, print what they say."""
    problems = [*audit_calls(), *audit_licences()]
    pins = [line for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines() if "==" in line]
    # One question first: a mirror without advisories gives the same answer to all.
    answer = advisories(pins) if advisories(pins[:1]) else None
    if answer is None:
        sys.stdout.write(
            "pip-audit: not asked; the package index that this machine reaches answers no question about advisories\n"
        )
    else:
        found, unknown = answer
        problems += found
        sys.stdout.write(
            f"pip-audit: {len(pins) - len(unknown)} packages asked about, {len(found)} known vulnerabilities\n"
        )
    sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 2 if answer is None else 0


if __name__ == "__main__":
    sys.exit(main())
