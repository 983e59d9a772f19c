"""Weights earned from outcomes of the gate: what one run leaves behind, and what the next one makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import text

from tests.cages import TestsCage, failed, passed
from tests.integration.conftest import Bench
from tests.integration.model_server import GOOD, ModelServer
from tests.integration.stored_runs import store_run
from tests.integration.test_gate_flow import Give, by_role, complains, gated_team, names, says
from workers.core.submission import check_reviewed
from workers.core.weights import Record
from workers.provenance.repository import records
from workers.provenance.session import Database
from workers.sandbox.base import Workspace
from workers.stages.replay import replay

#: Places far enough from each other that remarks about them are claims of their own.
PLACES = range(20, 420, 20)
CODE = {"a.py": "".join(f"value_{number} = {number}\n" for number in range(1, 421))}
MENDED = {"a.py": CODE["a.py"].replace("value_1 = 1", "value_1 = 2")}
GUARD = {"test_guard.py": "def test_guard():\n    pass\n"}


def remark(line: int) -> dict[str, Any]:
    return {
        "claim": f"value_{line} is not what the sum of sheet {line} asks for",
        "severity": "medium",
        "location": {"path": "a.py", "start": line, "end": line},
        "evidence": [{"path": "a.py", "line": line, "quote": f"value_{line} = {line}"}],
    }


def prover(_: str, body: dict[str, Any], __: int) -> str:
    """A test whose name says whether the claim is true: those about the first half of the places are."""
    asked = json.dumps(body["messages"])
    word = "true" if any(f"sheet {line} " in asked for line in PLACES[:10]) else "false"
    return json.dumps({**GOOD["prover"], "test": f"def test_{word}():\n    pass\n"})


def runs(workspace: Workspace, path: str) -> dict[str, Any]:
    found = names(workspace, path)
    is_hit = "test_true" in found and workspace["a.py"] == CODE["a.py"]
    return failed(*found) if is_hit else passed(*found)


@pytest.fixture
def truthful_birch(models: ModelServer, caged: Give) -> ModelServer:
    """Of ten remarks of birch all are true, of ten of cedar none."""
    caged(TestsCage(runs))
    models.behave["birch-1"] = complains(*(remark(line) for line in PLACES[:10]))
    models.behave["cedar-1"] = complains(*(remark(line) for line in PLACES[10:]))
    models.behave["elm-1"] = prover
    models.behave["fir-1"] = says({"files": MENDED, "reason": "mended"})
    models.behave["cedar-2"] = by_role(lead={"files": {}, "rulings": [], "summary": "signed"})
    return models


def submit(bench: Bench, spec: str) -> str:
    team = gated_team(refute=False, max_proofs=20, quorum={"heads": 1, "families": 1}, threshold=0.6)
    files, existing = check_reviewed(CODE, diff=None, left_out=[])
    return bench.submit(team, spec=spec, files=files, tests=GUARD, review=existing.as_data())


def shares(verdict: dict[str, Any]) -> dict[str, set[float]]:
    found: dict[str, set[float]] = {}
    for item in verdict["claims"]:
        (name,) = item["claim"]["flagged_by"]
        found.setdefault(name, set()).add(item["claim"]["weighted_agreement"])
    return found


def test_what_two_runs_showed_moves_the_third_and_none_of_their_replays(
    bench: Bench, truthful_birch: ModelServer
) -> None:
    ids = [submit(bench, f"Add two numbers. Sheet {number}.") for number in range(2)]
    first, second = (bench.verdict(run_id) for run_id in ids)

    assert (first["gate"]["reproduced"], first["gate"]["not_reproduced"]) == (10, 10)
    assert shares(first) == shares(second) == {"left": {0.5}, "right": {0.5}}
    assert "weights" not in first

    # From now on nothing is tested: what is said of the third run is said by the record.
    truthful_birch.behave["birch-1"] = complains(remark(PLACES[0]))
    truthful_birch.behave["cedar-1"] = complains(remark(PLACES[10]))
    truthful_birch.behave["elm-1"] = says({"test": "", "spec_quote": "", "reason": ""})
    third_id = submit(bench, "Add two numbers. Sheet 2.")
    third = bench.verdict(third_id)

    # birch: (20 + 1) / (20 + 2) = 21/22; cedar: 1/22, raised to 1/2. 21/22 / (21/22 + 11/22) = 21/32, 11/32.
    assert third["weights"] == [
        {"reviewer": "left", "weight": 0.955, "upheld": 20, "refuted": 0},
        {"reviewer": "right", "weight": 0.5, "upheld": 0, "refuted": 20},
    ]
    assert shares(third) == {"left": {0.656}, "right": {0.344}}
    assert [item["is_agreed"] for item in third["claims"]] == [True, False]
    (frozen,) = [
        event["payload"]
        for event in bench.provenance(third_id)["events"]
        if event["kind"] == "consensus.counted"
    ]
    assert frozen["weights"] == {"left": pytest.approx(21 / 22), "right": 0.5}
    assert frozen["records"] == {
        "left": {"upheld": 20, "refuted": 0},
        "right": {"upheld": 0, "refuted": 20},
    }
    assert [replay(bench.provenance(run_id)).problem for run_id in (*ids, third_id)] == [None] * 3


def test_the_same_submission_again_earns_nothing(bench: Bench, truthful_birch: ModelServer) -> None:
    ids: list[str] = []
    for _ in range(3):
        ids.append(submit(bench, "Add two numbers. Again."))
        verdict = bench.verdict(ids[-1])
        assert shares(verdict) == {"left": {0.5}, "right": {0.5}}
    assert read(bench.database, ids[-1], "birch-1", "cedar-1") == {
        "birch-1": Record(upheld=10),
        "cedar-1": Record(refuted=10),
    }


def test_the_question_to_the_consensus_model_depends_on_no_weight(
    bench: Bench, truthful_birch: ModelServer
) -> None:
    bench.verdict(submit(bench, "Add two numbers. Once."))

    (asked,) = [body for body in truthful_birch.bodies if body["model"] == "birch-2"]
    assert "flagged_by" in json.dumps(asked["messages"])
    assert "weighted_agreement" not in json.dumps(asked["messages"])


def keep(database: Database, run_id: str, **upheld: int) -> None:
    """A run of a submission of its own that ends with these findings upheld, by model."""
    with database.begin() as connection:
        records.keep(connection, run_id, {model: Record(upheld=count) for model, count in upheld.items()})


def read(database: Database, run_id: str, *models: str) -> dict[str, Record]:
    with database.begin() as connection:
        return records.read(connection, run_id, models)


def test_one_tenant_s_runs_say_nothing_to_another(database: Database) -> None:
    store_run(database, "run_1", tenant_id="ours", spec="one")
    store_run(database, "run_2", tenant_id="theirs", spec="two")
    keep(database, "run_1", birch=7)
    keep(database, "run_2", birch=1, cedar=2)

    assert read(database, "run_1", "birch", "cedar", "elm") == {"birch": Record(upheld=7)}
    assert read(database, "run_2", "cedar") == {"cedar": Record(upheld=2)}


def test_a_record_is_of_the_newest_submissions(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "NEWEST_SUBMISSIONS", 2)
    for number, upheld in enumerate((8, 4, 1), 1):
        store_run(database, f"run_{number}", spec=f"submission {number}")
        keep(database, f"run_{number}", birch=upheld)

    assert read(database, "run_1", "birch") == {"birch": Record(upheld=5)}


def test_records_are_read_by_their_index(database: Database) -> None:
    wanted = {"run_id": "run_1", "models": ["birch"], "newest": 200}
    with database.begin() as connection:
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        connection.execute(text("SET LOCAL enable_sort = off"))
        plan = connection.execute(text(f"EXPLAIN {records._READ.text}"), wanted).scalars().all()

    assert any("ix_gate_records_newest" in line for line in plan)
