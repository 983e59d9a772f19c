"""A team's own rules: diverse, satisfiable, and named without clashes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.factories import make_team, team_data
from workers.core.run import Stage
from workers.core.team import bare_model, family_of


def seat(model: str) -> dict[str, Any]:
    return {"models": [model]}


def refusal(**changes: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        make_team(**changes)
    (error,) = caught.value.errors()
    return str(error["msg"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"reviewers": {"left": seat("local/alder-1"), "right": seat("local/cedar-1")}},
            "reviewer 'left' has the coder's model local/alder-1; give it another first choice",
        ),
        (
            {"reviewers": {"left": seat("router/local/Alder-1"), "right": seat("local/cedar-1")}},
            "reviewer 'left' has the coder's model local/alder-1; give it another first choice",
        ),
        (
            {"reviewers": {"left": seat("local/birch-1"), "right": seat("local/birch-2")}},
            "all reviewers are of the model family 'birch'; a panel needs at least two families",
        ),
        ({"policy": {"quorum": {"heads": 3}}}, "is 3 but there are 2 reviewers"),
        ({"policy": {"quorum": {"families": 3}}}, "is 3 but the reviewers are of 2 families"),
        (
            {"reviewers": {"lead": seat("local/birch-1"), "right": seat("local/cedar-1")}},
            "Value error, 'lead' is the name of another seat; call the reviewer something else",
        ),
    ],
)
def test_a_team_that_breaks_a_rule_is_refused_with_its_sentence(
    changes: dict[str, Any], sentence: str
) -> None:
    assert refusal(**changes) == sentence


def two_servers(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "command": ["serve"], "tools": ["find"]} for name in names]


@pytest.mark.parametrize(
    ("changes", "place", "sentence"),
    [
        (
            {"reviewers": {"left": seat("local/alder-1"), "right": seat("local/cedar-1")}},
            ("reviewers", "left", "models"),
            "reviewer 'left' has the coder's model local/alder-1; give it another first choice",
        ),
        (
            {"reviewers": {"left": seat("local/birch-1"), "right": seat("local/birch-2")}},
            ("reviewers",),
            "all reviewers are of the model family 'birch'; a panel needs at least two families",
        ),
        (
            {"policy": {"quorum": {"heads": 3}}},
            ("policy", "quorum", "heads"),
            "is 3 but there are 2 reviewers",
        ),
        (
            {"policy": {"quorum": {"families": 3}}},
            ("policy", "quorum", "families"),
            "is 3 but the reviewers are of 2 families",
        ),
        (
            {"mcp": two_servers("one", "two", "one")},
            ("mcp", 2, "name"),
            "'one' is the name of another server; give it its own",
        ),
        (
            {"prover": seat("local/elm-1"), "control": seat("local/elm-2")},
            ("control", "models"),
            "the control is of the prover's model family 'elm'; give it another first choice",
        ),
    ],
)
def test_a_broken_rule_names_the_field_where_it_can_be_mended(
    changes: dict[str, Any], place: tuple[str | int, ...], sentence: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        make_team(**changes)
    (error,) = caught.value.errors()
    assert (error["type"], error["msg"]) == ("team_rule", sentence)
    assert error["ctx"]["broken"][0] == (place, sentence)


@pytest.mark.parametrize(
    "changes",
    [
        {"prover": seat("local/elm-1"), "control": seat("local/oak-1")},
        {"prover": seat("local/elm-1")},
        {"control": seat("local/elm-1")},
        {"mcp": two_servers("one", "two")},
        {"policy": {"quorum": {"heads": 2, "families": 2}}},
    ],
)
def test_a_team_that_keeps_the_rules_is_one(changes: dict[str, Any]) -> None:
    assert make_team(**changes).name == "small"


def test_every_seat_of_the_file_is_named_with_its_field() -> None:
    team = make_team(prover=seat("local/elm-1"), refuter=seat("local/oak-1"), control=seat("local/yew-1"))
    assert [(field, seat.models[0]) for field, seat in team.chains()] == [
        (("coder",), "local/alder-1"),
        (("reviewers", "left"), "local/birch-1"),
        (("reviewers", "right"), "local/cedar-1"),
        (("consensus",), "local/birch-2"),
        (("lead",), "local/cedar-2"),
        (("refuter",), "local/oak-1"),
        (("prover",), "local/elm-1"),
        (("control",), "local/yew-1"),
    ]
    assert [field for field, _ in make_team(prover=seat("local/elm-1")).chains()][-2:] == [
        ("lead",),
        ("prover",),
    ]


@pytest.mark.parametrize("name", ["small", "SMALL", "testé", "teste\u0301", "TESTE", "straße", "STRASSE"])
def test_a_team_answers_to_its_names_accents_and_capitals_aside(name: str) -> None:
    assert make_team(aliases=["Testé", "Straße"]).answers_to(name)


@pytest.mark.parametrize("name", ["", "smal", "smaller", "tes"])
def test_a_team_answers_to_no_other_name(name: str) -> None:
    assert not make_team(aliases=["Testé"]).answers_to(name)


def test_a_manifest_is_the_team_without_the_texts_it_brought_along() -> None:
    team = make_team(texts={"documents": {"a.md": "x"}})
    assert team.as_data()["texts"] == {"skills": [], "documents": {"a.md": "x"}}
    assert team.manifest() == {key: value for key, value in team.as_data().items() if key != "texts"}
    # Plain data as JSON has it: lists, no tuples.
    assert team.as_data()["coder"]["models"] == team.manifest()["coder"]["models"] == ["local/alder-1"]


@pytest.mark.parametrize(
    ("link", "family"),
    [
        ("openrouter/openai/o3", "gpt"),  # the first word serves it, the second made it
        ("openai/o3", "gpt"),
        ("local/openai-o3/alder", "alder"),
        ("local/alder-1", "alder"),
    ],
)
def test_a_link_s_family_is_its_model_s(link: str, family: str) -> None:
    assert family_of(link) == family


@pytest.mark.parametrize("name", ["", "Big", "1st", "a_b", "a b", "ä", "-a", "a" * 41, "a\nb"])
def test_names_are_small_letters_digits_and_dashes(name: str) -> None:
    with pytest.raises(ValidationError):
        make_team(name=name)


@pytest.mark.parametrize(
    "link", ["gpt-5", "/gpt-5", "openai/", "Open AI/x", "openai/gpt 5", "openai/" + "x" * 200]
)
def test_a_link_is_provider_and_model(link: str) -> None:
    with pytest.raises(ValidationError):
        make_team(coder=seat(link))


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 2.1},
        {"temperature": float("nan")},
        {"timeout_seconds": 0},
        {"timeout_seconds": float("nan")},
        {"timeout_seconds": float("inf")},
        {"max_tokens": 63},
        {"models": []},
        {"model": "x"},
    ],
)
def test_a_seat_s_numbers_have_limits(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        make_team(coder={**seat("local/alder-1"), **changes})


@pytest.mark.parametrize("threshold", [-0.01, 1.01, float("nan")])
def test_a_threshold_is_a_share(threshold: float) -> None:
    with pytest.raises(ValidationError):
        make_team(policy={"threshold": threshold})


def test_seats_come_in_flow_order_and_are_found_by_name() -> None:
    team = make_team()
    assert [(place.index, place.stage, place.name) for place in team.seats()] == [
        (0, Stage.CODER, "coder"),
        (1, Stage.PANEL, "left"),
        (2, Stage.PANEL, "right"),
        (3, Stage.CONSENSUS, "consensus"),
        (4, Stage.LEAD, "lead"),
    ]
    assert team.seat_names(Stage.PANEL) == ("left", "right")
    assert team.place(Stage.PANEL, "right").seat.models == ("local/cedar-1",)
    with pytest.raises(KeyError, match=r"^'lead/right'$"):
        team.place(Stage.LEAD, "right")


def test_a_team_survives_being_stored() -> None:
    team = make_team()
    assert type(team).model_validate(team.as_data()) == team
    assert type(team).model_validate(team_data()) == team


def test_whoever_serves_a_model_it_is_the_same_model() -> None:
    assert bare_model("openrouter/openai/GPT-5") == bare_model("openai/gpt-5") == "gpt-5"
