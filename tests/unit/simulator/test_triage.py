"""A simulated reviewer judges alarms by rules of thumb, and slips now and then."""

from __future__ import annotations

import json

import pytest

from tests.unit.simulator.rehearsal import ask, material
from workers.core.artefact import numbered

CODE = """\
import subprocess

NAME = "x"


def constant():
    return subprocess.run(NAME, shell=True)


def outside(word):
    return subprocess.run(f"echo {word}", shell=True)


def unknown():
    value = ask()
    return subprocess.run(value, shell=True)
"""
#: A model without a size makes no slips.
STEADY = "sim-birch"


def judged(line: int, model: str = STEADY, *, path: str = "a.py") -> dict[str, object]:
    claims = json.dumps(
        {"id": "A1", "claim": "shell", "rule": "Bandit/B602", "path": path, "lines": [line, line]}
    )
    text = ask("triage", material("Judge.", files={"a.py": numbered(CODE)}, claims=claims), model=model)
    (one,) = json.loads(text)["judgements"]
    assert isinstance(one, dict)
    return one


@pytest.mark.parametrize(
    ("line", "word", "quotes"),
    [
        (1, "benign", ["import subprocess"]),
        (7, "benign", ["return subprocess.run(NAME, shell=True)", 'NAME = "x"']),
        (11, "exploitable", ["def outside(word):", 'return subprocess.run(f"echo {word}", shell=True)']),
        (16, "uncertain", []),
        (99, "uncertain", []),
        (2, "uncertain", []),
    ],
)
def test_names_decide(line: int, word: str, quotes: list[str]) -> None:
    one = judged(line)
    assert (one["alarm"], one["verdict"]) == ("A1", word)
    evidence = one["evidence"]
    assert isinstance(evidence, list)
    assert [item["quote"] for item in evidence] == quotes


def test_some_models_invent_quotes_and_always_the_same_ones() -> None:
    models = [f"sim-{name}-{size}" for name in ("alder", "birch", "cedar") for size in ("large", "small")]
    answers = [json.dumps(judged(line, model)) for model in models for line in (1, 7, 11, 16)]
    assert answers == [json.dumps(judged(line, model)) for model in models for line in (1, 7, 11, 16)]
    invented = [answer for answer in answers if "is_safe" in answer]
    assert 0 < len(invented) < len(answers) / 2


def test_odd_alarms_are_survived() -> None:
    for claims in ('{"id": 7}', '{"id": "A1", "lines": ["x"]}', '{"id": "A1", "path": 5, "lines": []}'):
        text = ask("triage", material("Judge.", claims=claims), model=STEADY)
        assert all(item["verdict"] == "uncertain" for item in json.loads(text)["judgements"])
