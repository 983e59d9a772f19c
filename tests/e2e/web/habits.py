"""A cohort to look at: models with habits on a handful of problems, and nights on which they ran. Made up, and the same
every time."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.web.site import Site
from tests.integration.scoring_desk import Desk
from tests.recorded_runs import document, write_run
from workers.provenance.session import Database

Step = tuple[str, dict[str, Any]]

PROBLEMS = {
    "ledger-rounding-118": ("ledger/money.py", "split_evenly", "tests/test_money.py"),
    "parser-escapes-42": ("parser/strings.py", "unescape", "tests/test_strings.py"),
    "cache-expiry-77": ("cache/store.py", "expire", "tests/test_store.py"),
    "routes-trailing-slash-9": ("web/routes.py", "match", "tests/test_routes.py"),
}
#: How likely a model passes, and how it works: careful, hasty, wandering or stubborn.
MODELS = {
    "alder-large": (0.9, {"careful": 8, "wandering": 1}),
    "birch-large": (0.85, {"hasty": 5, "careful": 3}),
    "cedar-medium": (0.7, {"careful": 5, "stubborn": 2}),
    "cedar-small": (0.5, {"wandering": 4, "careful": 2}),
    "elm-medium": (0.6, {"stubborn": 5, "hasty": 2, "careful": 1}),
}


def _shell(command: str) -> Step:
    return "run_in_terminal", {"command": f"cd /testbed && {command}"}


def _view(path: str, first: int, last: int) -> Step:
    return "read_file", {"filePath": f"/testbed/{path}", "startLine": first, "endLine": last}


def _edit(path: str, old: str, new: str) -> Step:
    edit = {"command": "str_replace", "filePath": f"/testbed/{path}", "oldString": old, "newString": new}
    return "replace_string_in_file", edit


def steps_of(habit: str, problem: str, chance: random.Random) -> list[Step]:
    """What a run of this habit does about a problem."""
    path, name, tests = PROBLEMS[problem]
    folder = path.partition("/")[0]
    first = chance.choice((1, 20, 40))
    look = [_shell(f"grep -rn {name} {folder}"), _view(path, first, first + 60)]
    fix = _edit(
        path, f"def {name}(value):\n    return value", f"def {name}(value):\n    return checked(value)"
    )
    reproduce = [
        ("create_file", {"filePath": "/testbed/reproduce.py", "content": f"from {folder} import {name}\n"}),
        _shell("python reproduce.py"),
    ]
    check = _shell(f"pytest {tests}")
    if habit == "hasty":
        return [*look[: chance.randint(0, 1)], fix]
    if habit == "careful":
        begin = [_shell("ls"), *look, _view(tests, 1, 40)] if chance.random() < 0.7 else look
        return [*begin, *reproduce, fix, _shell("python reproduce.py"), check, _shell("git diff")]
    if habit == "wandering":
        away = [_shell(f"grep -rn {name}_{number} docs") for number in range(chance.randint(6, 14))]
        return [*look, *away[:4], _view(path, 1, 200), *away[4:], _view(path, 1, 200), fix, check]
    tries = [
        step
        for number in range(chance.randint(3, 6))
        for step in (
            _edit(path, f"return try_{number}", f"return try_{number + 1}"),
            _shell("python reproduce.py"),
            _shell("python reproduce.py"),
        )
    ]
    return [*look, *reproduce, *tries, fix, check]


def write_habits(folder: Path, *, runs: int = 4, seed: int = 7) -> Path:
    """So many runs of every model on every problem."""
    chance = random.Random(seed)
    for problem in PROBLEMS:
        for model, (passing, habits) in MODELS.items():
            for number in range(runs):
                habit = chance.choices([*habits], [*habits.values()])[0]
                write_run(
                    folder / problem / f"{model}-{number + 1}_pta.json",
                    *steps_of(habit, problem, chance),
                    problem=problem,
                    model=model,
                    passed=chance.random() < passing,
                    seen="Ran 14 tests in 0.21s\n\nOK",
                )
    return folder


def write_long(path: Path, *, steps: int, long_at: int, long_chars: int, seed: int) -> Path:
    """A run of many steps, one of which printed very much."""
    chance = random.Random(seed)
    taken: list[Step] = []
    while len(taken) < steps:
        taken += steps_of(
            chance.choice(("careful", "wandering", "stubborn")), chance.choice([*PROBLEMS]), chance
        )
    made = document(*taken[:steps], problem="long", seen="as expected")
    # State 0 is where a run of this format begins, before its first step.
    entry = made["states"][f"state_{long_at + 1}"]["log_entry"]
    entry["response_preview"] = ("0123456789" * 9 + "end of it\n") * (long_chars // 100)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made))
    return path


def upload(site: Site, folder: Path, upload_set: str) -> None:
    """Every file below a folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for start in range(0, len(files), 50):
        parts = [
            ("file", (path.relative_to(folder).as_posix(), path.read_bytes()))
            for path in files[start : start + 50]
        ]
        answer = httpx.post(
            f"{site.url}/v1/trajectories", params={"set": upload_set}, files=parts, timeout=60
        )
        assert answer.json()["refused"] == 0, answer.text


def score(site: Site, upload_set: str) -> str:
    """Score a set through the queue; the scoring's id."""
    answer = httpx.post(f"{site.url}/v1/scorings", json={"upload_set": upload_set}, timeout=60)
    scoring_id = str(answer.json()["id"])
    site.ended(f"/v1/scorings/{scoring_id}")
    assert site.get(f"/v1/scorings/{scoring_id}")["state"] == "finished"
    return scoring_id


def run_of(site: Site, scoring_id: str, path: str) -> str:
    """The address of a run of a scoring."""
    listed = site.get(f"/v1/scorings/{scoring_id}/runs?limit=500")["runs"]
    return next(str(run["run"]) for run in listed if run["path"] == path)


def _database_url(site: Site) -> str:
    """Where the stack's own processes are told that the database is."""
    for process in site.installation.processes():
        if (url := process.environ().get("CONSENSUS_DATABASE_URL")) is not None:
            return url
    raise AssertionError("no process of the stack knows a database")


def make_nights(site: Site, scratch: Path, *, nights: int = 6) -> None:
    """Nights of one schedule, each with a few more runs than the one before. Worked off here: no test waits for a
    night."""
    database = Database(_database_url(site), pool_size=2)
    desk = Desk(database)
    for number in range(nights):
        desk.upload(
            write_habits(scratch / f"night-{number}", runs=1 + number % 2, seed=number), f"night-{number}"
        )
        # What lies in a later set has the names of the earlier one, with what that night's runs did.
        desk.score(f"night-{number}", schedule="nightly", night=f"2026-03-{number + 1:02}")
    database.close()
