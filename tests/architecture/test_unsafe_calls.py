"""What turns data into code stands nowhere, or at the places named here with what makes each of them safe."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from celery import Celery

from workers.celery_app import configure
from workers.settings import Settings

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for folder in ("api", "workers", "teams", "migrations", "ops")
    for path in (ROOT / folder).rglob("*.py")
    if "problems" not in path.parts  # the simulator's programs are material, with faults that were planted
)
#: Modules that make objects, and so calls, of bytes.
MODULES = {"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "jsonpickle"}
CALLS = {
    "eval",
    "exec",
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
    "yaml.load",
    "yaml.load_all",
    "yaml.unsafe_load",
    "yaml.full_load",
    "tempfile.mktemp",
    "ssl._create_unverified_context",
}
#: Arguments that switch a wall off.
ARGUMENTS = {
    ("shell", True), ("verify", False), ("verify_ssl", False), ("check_hostname", False), ("autoescape", False),
}  # fmt: skip
ALLOWED = {
    # Its reader makes the scorer's own types and no others (tests/unit/scoring/test_packing.py).
    ("workers/scoring/packing.py", "pickle"),
    # The output is a prompt, never HTML.
    ("workers/teams.py", "autoescape=False"),
}


def unsafe(tree: ast.AST) -> set[str]:
    """What of the above a module has, however it was imported."""
    aliases: dict[str, str] = {}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {alias.asname or alias.name: alias.name for alias in node.names}
            found |= {alias.name for alias in node.names if alias.name.partition(".")[0] in MODULES}
        elif isinstance(node, ast.ImportFrom) and node.module:
            aliases |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {node.module} if node.module.partition(".")[0] in MODULES else set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        first, dot, rest = ast.unparse(node.func).partition(".")
        found |= {aliases.get(first, first) + dot + rest} & CALLS
        found |= {
            f"{keyword.arg}={keyword.value.value}"
            for keyword in node.keywords
            if isinstance(keyword.value, ast.Constant) and (keyword.arg, keyword.value.value) in ARGUMENTS
        }
    return found


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import pickle", "pickle"),
        ("from pickle import loads", "pickle"),
        ("import yaml as y\ny.load(text)", "yaml.load"),
        ("from yaml import load as read\nread(text)", "yaml.load"),
        ("from os import system\nsystem('x')", "os.system"),
        ("import subprocess\nsubprocess.run(words, shell=True)", "shell=True"),
        ("import httpx\nhttpx.get(url, verify=False)", "verify=False"),
        ("eval(text)", "eval"),
    ],
)
def test_what_is_unsafe_would_be_seen(code: str, name: str) -> None:
    assert unsafe(ast.parse(code)) == {name}


def test_nothing_turns_data_into_code_or_switches_a_wall_off() -> None:
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in SOURCES
        for name in unsafe(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == ALLOWED


def test_the_broker_s_messages_are_json_and_nothing_else_is_read() -> None:
    configured = configure(Settings(redis_url="redis://127.0.0.1:1/0"), Celery("test")).conf
    assert (configured.task_serializer, configured.result_serializer) == ("json", "json")
    assert set(configured.accept_content) == {"json"}
    assert set(configured.result_accept_content or {"json"}) == {"json"}


def test_every_finding_of_an_auditor_that_is_passed_over_has_its_reason_beside_it() -> None:
    silent = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(r"# (?:noqa: S\d+|nosec)", line)
        and not re.search(r"# (?:noqa: [A-Z0-9, ]+?|nosec B\d+)(?: -|  ?#(?! nosec)) \w+", line)
    ]
    assert silent == []
