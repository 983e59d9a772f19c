"""Verdicts recomputed from ledgers. `before-the-gate-*.json` were written by the version without refuters and gate."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workers.cli.main import execute
from workers.provenance.digest import GENESIS, canonical, chain_hash, digest
from workers.stages.replay import replay

LEDGERS = sorted((Path(__file__).parents[1] / "data" / "ledgers").glob("*.json"))


def document(name: str = "before-the-gate-duration.json") -> dict[str, Any]:
    (path,) = [path for path in LEDGERS if path.name == name]
    value = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


def rechained(changed: dict[str, Any]) -> dict[str, Any]:
    """The document with a chain that holds again, as a forger with access to everything would leave it."""
    previous = GENESIS
    for event in changed["events"]:
        event["payload_digest"] = digest(canonical(event["payload"]))
        event["previous_hash"] = previous
        at = event["at"].replace("Z", "+00:00")
        previous = event["hash"] = chain_hash(
            run_id=changed["run_id"],
            seq=event["seq"],
            kind=event["kind"],
            at=at,
            payload_digest=event["payload_digest"],
            previous_hash=previous,
        )
    changed["head"] = previous
    return changed


def event(value: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(item for item in value["events"] if item["kind"] == kind)


@pytest.mark.parametrize("path", LEDGERS, ids=lambda path: path.stem)
def test_a_verdict_from_before_there_was_a_gate_is_recomputed_to_the_byte(path: Path) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))

    replayed = replay(value)

    assert replayed.problem is None
    assert replayed.digest == event(value, "run.finished")["payload_digest"]


def test_a_changed_payload_breaks_the_chain() -> None:
    changed = document()
    event(changed, "run.finished")["payload"]["outcome"] = "accepted"

    assert replay(changed).problem == f"the payload of event {len(changed['events'])} was changed"


def outcome(value: dict[str, Any]) -> None:
    event(value, "run.finished")["payload"]["outcome"] = "accepted"


def vote(value: dict[str, Any]) -> None:
    event(value, "consensus.counted")["payload"]["claims"][0]["flagged_by"] = ["craft"]


@pytest.mark.parametrize(("change", "fields"), [(outcome, "outcome"), (vote, "claims, outcome")])
def test_a_forged_ledger_whose_chain_holds_is_found_by_the_arithmetic(
    change: Callable[[dict[str, Any]], None], fields: str
) -> None:
    changed = copy.deepcopy(document())
    change(changed)

    assert replay(rechained(changed)).problem == f"the recomputed verdict differs in {fields}"


def test_another_team_than_the_submitted_one_is_refused() -> None:
    changed = document()
    changed["team"]["policy"]["quorum"]["heads"] = 5

    assert replay(changed).problem == "the team is not the one that the run was submitted with"


def test_a_run_without_a_verdict_and_a_redacted_one_say_so() -> None:
    cut = document()
    cut["events"].pop()
    redacted = document()
    redacted["events"][3]["payload"] = None

    assert replay(rechained(cut)).problem == "the run has no verdict: it has not ended, or it was cancelled"
    assert "redacted" in str(replay(redacted).problem)


@pytest.mark.parametrize("is_running", [True, False])
def test_the_command_tells_a_verdict_that_differs_from_none_at_all(
    is_running: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = document()
    if is_running:
        changed["events"].pop()
        changed = rechained(changed)
    else:
        changed["team"]["policy"]["quorum"]["heads"] = 5
    path = tmp_path / "run.json"
    path.write_text(json.dumps(changed), encoding="utf-8")

    code = execute(["replay", str(path)])

    said = capsys.readouterr()
    assert code == (3 if is_running else 1)
    assert ("differs" in said.out) is not is_running
    assert ("has no verdict" in said.err) is is_running
