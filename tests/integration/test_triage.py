"""Alarms of a scanner through a whole run: judged by the panel, dismissed only by code."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tests.factories import team_data
from tests.integration.conftest import Bench
from tests.integration.model_server import ModelServer
from tests.integration.test_reviewed_code import shown, signs
from workers.core.alarm import Alarm
from workers.core.artefact import Span
from workers.core.finding import Severity
from workers.core.submission import check_reviewed
from workers.core.team import Team
from workers.stages.triage import ALARMS_PER_CALL

CODE = {"a.py": "NAME = 'x'\nrun(NAME)\ndef go(word):\n    run(word)\n"}


def alarm(number: int, line: int, *, cwe: int = 77, path: str = "a.py") -> Alarm:
    return Alarm(
        alarm_id=f"A{number}",
        tool="Bandit",
        rule="B602",
        message=f"shell at line {line}",
        severity=Severity.HIGH,
        span=Span(path=path, start=line, end=line),
        cwe=cwe,
    )


def judges(verdict: str, quote: str) -> Any:
    """Says the same of every alarm it is asked about."""

    def behave(_: str, body: dict[str, Any], __: int) -> str:
        lines = body["messages"][1]["content"].splitlines()
        asked = [json.loads(line)["id"] for line in lines if line.startswith('{"id"')]
        evidence = [{"path": "a.py", "line": 1, "quote": quote}]
        said = [
            {"alarm": name, "verdict": verdict, "ground": "reachability", "reason": "r", "evidence": evidence}
            for name in [*asked, "A99"]
        ]
        return json.dumps({"judgements": said, "summary": "judged"})

    return behave


def submit(bench: Bench, *alarms: Alarm, never: tuple[str, ...] = ()) -> str:
    files, existing = check_reviewed(CODE, diff=None, left_out=[])
    team = Team.model_validate({**team_data(), "never_dismiss_cwe": list(never)})
    return bench.submit(team, files=files, review=dataclasses.replace(existing, alarms=alarms).as_data())


def states(verdict: dict[str, Any]) -> dict[str, str]:
    return {item["claim"]["claim_id"]: item["state"] for item in verdict["claims"]}


def test_an_alarm_goes_only_with_verified_quotes_of_two_families(bench: Bench, models: ModelServer) -> None:
    models.behave |= {name: judges("benign", "NAME = 'x'") for name in ("birch-1", "cedar-1")}
    # The lead would throw everything out; it is not asked what stands.
    models.behave["cedar-2"] = signs({}, A1="dismissed", A2="dismissed")

    verdict = bench.verdict(submit(bench, alarm(1, 2), alarm(2, 4, cwe=78), never=("CWE-78",)))

    assert states(verdict) == {"A1": "dismissed", "A2": "upheld"}
    assert verdict["outcome"] == "rejected"
    assert "only_alarms_judged" in verdict["notes"]
    assert verdict["claims"][1]["why"] == "kept: no model may dismiss CWE-78"
    assert dict(models.requests) == {"birch-1": 1, "cedar-1": 1, "cedar-2": 1}, (
        "nobody merges a scanner's alarms"
    )
    material = shown(models, "birch-1")
    assert '"rule": "Bandit/B602"' in material
    assert "4 |     run(word)" in material


def test_an_invented_quote_keeps_the_alarm(bench: Bench, models: ModelServer) -> None:
    models.behave["birch-1"] = judges("benign", "NAME = 'x'")
    models.behave["cedar-1"] = judges("benign", "assert is_safe(word)")
    models.behave["cedar-2"] = signs({})

    verdict = bench.verdict(submit(bench, alarm(1, 4)))

    assert (states(verdict), verdict["outcome"]) == ({"A1": "upheld"}, "rejected")


def test_a_run_whose_alarms_all_go_is_accepted(bench: Bench, models: ModelServer) -> None:
    models.behave |= {name: judges("benign", "NAME = 'x'") for name in ("birch-1", "cedar-1")}
    models.behave["cedar-2"] = signs({})

    assert bench.verdict(submit(bench, alarm(1, 2)))["outcome"] == "accepted"


def test_a_lost_reviewer_dismisses_nothing(bench: Bench, models: ModelServer) -> None:
    models.behave["birch-1"] = judges("benign", "NAME = 'x'")
    models.behave["cedar-1"] = lambda *_: "no JSON today"
    models.behave["cedar-2"] = signs({})

    verdict = bench.verdict(submit(bench, alarm(1, 2)))

    assert (states(verdict), verdict["outcome"]) == ({"A1": "upheld"}, "degraded")


def test_many_alarms_are_asked_about_a_few_at_a_time(bench: Bench, models: ModelServer) -> None:
    models.behave |= {name: judges("benign", "NAME = 'x'") for name in ("birch-1", "cedar-1")}
    models.behave["cedar-2"] = signs({})

    verdict = bench.verdict(submit(bench, *(alarm(number, 2) for number in range(1, ALARMS_PER_CALL + 2))))

    assert set(states(verdict).values()) == {"dismissed"}
    assert models.requests["birch-1"] == 2
