import dataclasses

from tests.unit.agentlens.steps import edit, patch, run, shell, view
from workers.agentlens.assess import Assessment, assess_problem
from workers.agentlens.curation import sft_record
from workers.agentlens.settings import SCORING_VERSION
from workers.agentlens.tier import Tier
from workers.agentlens.trajectory import Trajectory

STATES = (view("a.py", (1, 9), thought="look", observation="1 x"), edit("a.py", "x", "y"), shell("pytest t"))


def assessed(tier: Tier | None) -> tuple[Trajectory, Assessment]:
    others = [run(view("a.py"), edit("a.py", "x", str(n)), shell(f"pytest {n}")) for n in range(3)]
    mine = run(*STATES, name="mine")
    found = list(assess_problem([*others, mine]))[-1]
    scores = {name: dataclasses.replace(score, tier=tier) for name, score in found.scores.items()}
    return mine.trajectory, dataclasses.replace(found, scores=scores)


def test_a_wanted_run_becomes_a_conversation_with_its_scores() -> None:
    trajectory, assessment = assessed(Tier.IDEAL)
    record = sft_record(trajectory, assessment)
    assert record is not None
    assert (record["trajectory_id"], record["tier"], record["profile"]) == ("mine", "ideal", "paper")
    assert set(record["scores"]) == {"paper", "tuned"}  # type: ignore[call-overload]
    assert {name: record[name] for name in record if name not in ("scores", "messages")} == {
        "trajectory_id": "mine",
        "problem": "problem",
        "model": None,
        "tier": "ideal",
        "profile": "paper",
        "scoring_version": SCORING_VERSION,
        "wasted_steps": [],
    }
    odd = {"paper": dataclasses.replace(assessment.scores["paper"], score=200 / 3)}
    rounded = sft_record(trajectory, dataclasses.replace(assessment, scores=odd))
    assert rounded is not None
    assert rounded["scores"] == {"paper": 66.666667}
    messages = record["messages"]
    assert [m["role"] for m in messages] == ["assistant", "tool"] * 3  # type: ignore[attr-defined]
    first, answer = messages[:2]  # type: ignore[index]
    assert (first["content"], answer["content"]) == ("look", "1 x")
    assert first["tool_calls"][0]["id"] == answer["tool_call_id"]
    assert first["tool_calls"][0]["function"] == {
        "name": "read",
        "arguments": {"operation": "view", "path": "a.py", "lines": [1, 9]},
    }
    change, check = messages[2], messages[4]  # type: ignore[index]
    assert change["tool_calls"][0]["function"]["arguments"]["edits"] == [{"old": "x", "new": "y"}]
    assert check["tool_calls"][0]["function"]["arguments"]["command"] == "pytest t"


def test_the_edits_of_a_patch_say_their_files() -> None:
    both = patch(("a.py", "x", "y"), ("b.py", "p", "q"))
    _, assessment = assessed(Tier.IDEAL)
    record = sft_record(run(both).trajectory, assessment)
    assert record is not None
    call = record["messages"][0]["tool_calls"][0]["function"]  # type: ignore[index]
    assert call["arguments"]["edits"] == [
        {"old": "x", "new": "y", "path": "a.py"},
        {"old": "p", "new": "q", "path": "b.py"},
    ]


def test_only_the_wanted_tiers_are_exported() -> None:
    assert sft_record(*assessed(Tier.LUCKY)) is None
    assert sft_record(*assessed(Tier.OFF_TRACK)) is None
    assert sft_record(*assessed(None)) is None
    assert sft_record(*assessed(Tier.SOLID)) is not None
    assert sft_record(*assessed(Tier.SOLID), tiers={Tier.IDEAL}) is None
