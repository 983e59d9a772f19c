"""What the models of a team with skills and documents are really sent, through a real worker."""

from __future__ import annotations

from tests.factories import make_team, team_data
from tests.integration.conftest import Bench
from tests.integration.model_server import ModelServer

LIBRARY = {
    "skills": [{"name": "seals", "description": "When wax is used.", "body": "Check the seal."}],
    "documents": {"laws/one.md": "Two numbers are added in order.", "laws/dairy.md": "Cheese."},
}


def test_skills_stand_with_the_instructions_and_passages_with_the_material(
    bench: Bench, models: ModelServer
) -> None:
    seats = team_data()["reviewers"]
    reviewers = {name: {**seat, "persona": f"You are {name}."} for name, seat in seats.items()}
    team = make_team(reviewers=reviewers, retrieval={"globs": ["laws/*.md"]}, texts=LIBRARY)

    assert bench.verdict(bench.submit(team))["outcome"] == "accepted"

    sent = {body["model"]: [message["content"] for message in body["messages"]] for body in models.bodies}
    passage = '<reference path="laws/one.md" lines="1-1">\nTwo numbers are added in order.\n</reference>'
    for model in ("alder-1", "birch-1", "cedar-1", "cedar-2"):
        instructions, material = sent[model]
        assert "Check the seal." in instructions
        assert passage in material
        assert "Cheese" not in material
    assert "Check the seal." not in "".join(sent["birch-2"]), "consensus judges nothing"
    left, right = sent["birch-1"], sent["cedar-1"]
    assert left[0] == right[0]
    assert left[1].removesuffix("You are left.") == right[1].removesuffix("You are right."), (
        "what differs between seats comes last, so that a provider can cache what comes before"
    )
