"""Kill mandates: who is asked, and when a kill counts (PANEL §3)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import FILES, make_claim, make_team
from workers.core.finding import Evidence, Evidenced, Severity
from workers.core.refutation import (
    Refutation,
    Standing,
    chain_of_other_families,
    claim_of,
    refuter_for,
    seat_of,
    to_refute,
    weigh,
)
from workers.core.team import Policy, Seat, family_of

STANDS = Evidence(path="a.py", line=3, quote="line_3   =  3")
STANDS_NOWHERE = Evidence(path="a.py", line=3, quote="line_3 = 4")


def refutation(**changes: Any) -> Refutation:
    values: dict[str, Any] = {
        "claim_id": "C1",
        "word": "killed",
        "ground": "intended",
        "reason": "the spec says so",
        "evidence": (STANDS,),
        "family": "elm",
    }
    return Refutation(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "void"),
    [
        ({}, ""),
        ({"evidence": (STANDS_NOWHERE,)}, "the quote is not found in 'a.py'"),
        ({"evidence": (STANDS, STANDS_NOWHERE)}, "the quote is not found in 'a.py'"),
        (
            {"evidence": (Evidence(path="b.py", line=1, quote="line_3 = 3"),)},
            "the quote is not found in 'b.py'",
        ),
        ({"evidence": (Evidence(path="a.py", line=1, quote="  "),)}, "the quote is not found in 'a.py'"),
        (
            {"evidence": (Evidence(path="a.py", line=3, quote=" = 3"),)},
            "the quote '= 3' is too short to show anything",
        ),
        ({"evidence": (Evidence(path="a.py", line=3, quote="3 = 3"),)}, ""),
        # A run from before that was asked for is recomputed as it was.
        ({"evidence": (Evidence(path="a.py", line=3, quote="="),), "least_quote_characters": 0}, ""),
        (
            {"evidence": (Evidence(path="b.py", line=3, quote="X"),), "least_quote_characters": 0},
            "the quote is not found in 'b.py'",
        ),
        ({"evidence": ()}, "the kill quotes nothing"),
        ({"ground": None}, "the kill names no ground"),
    ],
)
def test_a_kill_counts_only_with_a_ground_and_quotes_that_all_stand_in_the_code(
    changes: dict[str, Any], void: str
) -> None:
    worth = weigh(refutation(**changes), make_claim(), Evidenced(FILES))

    assert worth.void == void
    assert worth.standing is (Standing.SURVIVED if void else Standing.KILLED)
    assert (worth.claim_id, worth.reason) == ("C1", "the spec says so")
    assert worth.ground == changes.get("ground", "intended")


@pytest.mark.parametrize("word", ["survives", "cannot_tell"])
def test_what_is_no_kill_lets_the_claim_live_whatever_it_quotes(word: str) -> None:
    worth = weigh(refutation(word=word, evidence=(STANDS_NOWHERE,)), make_claim(), Evidenced(FILES))

    assert (worth.standing, worth.void, worth.ground) == (Standing.SURVIVED, "", None)


def test_a_refuter_of_the_proposers_own_family_is_marked() -> None:
    claim = make_claim(families=("birch", "cedar"))

    assert weigh(refutation(family="cedar"), claim, Evidenced(FILES)).is_same_family
    assert not weigh(refutation(family="elm"), claim, Evidenced(FILES)).is_same_family


def test_single_votes_and_high_severity_are_refuted_and_nothing_else() -> None:
    lone = make_claim("C1", severity=Severity.LOW)
    agreed = make_claim("C2", flagged_by=("left", "right"))
    high = make_claim("C3", severity=Severity.HIGH, flagged_by=("left", "right"))

    assert [claim.claim_id for claim in to_refute([lone, agreed, high], Policy())] == ["C3", "C1"]
    assert to_refute([lone, high], Policy(refute=False)) == ()
    assert [claim.claim_id for claim in to_refute([lone, high], Policy(max_refutations=1))] == ["C3"]


def test_of_equally_severe_claims_the_most_agreed_is_refuted_first_then_the_first() -> None:
    claims = [
        make_claim(f"C{number}", severity=Severity.HIGH, weighted_agreement=share)
        for number, share in ((10, 0.5), (2, 0.5), (3, 0.75))
    ]
    assert [claim.claim_id for claim in to_refute(claims, Policy())] == ["C3", "C2", "C10"]


def test_a_chain_of_one_seat_is_that_seat_and_one_of_several_is_nobody_s() -> None:
    one = Seat(models=("local/elm-1", "local/birch-1"), persona="be stern", temperature=0.25, max_tokens=100)
    other = Seat(models=("local/oak-1", "local/elm-1"), persona="be mild", temperature=0.5, max_tokens=200)

    def chain(*seats: Seat) -> Seat:
        return chain_of_other_families(seats, ["birch"], max_tokens=300, timeout_seconds=7)

    assert chain(one) == Seat(
        models=("local/elm-1",), persona="be stern", temperature=0.25, max_tokens=100, timeout_seconds=7
    )
    assert chain(one, other) == Seat(
        models=("local/elm-1", "local/oak-1"), temperature=None, max_tokens=300, timeout_seconds=7
    )
    three = chain(one, other, one)
    assert (three.persona, three.temperature, three.max_tokens) == ("", None, 300)


def test_a_chain_has_at_most_twenty_links() -> None:
    seats = [Seat(models=(f"local/{chr(97 + at)}x-1",)) for at in range(21)]
    chain = chain_of_other_families(seats, (), max_tokens=300, timeout_seconds=7)
    assert chain.models == tuple(f"local/{chr(97 + at)}x-1" for at in range(20))


def test_a_refuter_comes_from_another_family_than_the_proposers() -> None:
    """The team's reviewers are birch and cedar."""
    team = make_team()

    assert {
        family_of(link)
        for link in refuter_for(make_claim(families=("birch",)), team, coder_family="alder").models
    } == {"cedar"}
    # Nobody else sits there: those who proposed it are asked, and marked when they answer.
    both = refuter_for(make_claim(families=("birch", "cedar")), team, coder_family="alder")
    assert {family_of(link) for link in both.models} == {"birch", "cedar"}


def test_whose_code_it_is_does_not_judge_the_claim_where_somebody_else_can() -> None:
    team = make_team(refuter={"models": ["local/elm-1", "local/alder-3"]})

    def models(coder_family: str, *families: str) -> tuple[str, ...]:
        return refuter_for(make_claim(families=families), team, coder_family=coder_family).models

    assert models("alder", "birch") == ("local/elm-1",)
    assert models("alder", "elm") == ("local/alder-3",)


def test_a_team_s_own_refuter_is_asked_and_keeps_its_persona() -> None:
    team = make_team(refuter=Seat(models=("local/elm-1", "local/birch-9"), persona="be stern").model_dump())

    seat = refuter_for(make_claim(families=("birch",)), team, coder_family="alder")

    assert (seat.models, seat.persona) == (("local/elm-1",), "be stern")


def test_a_claim_s_seat_is_named_after_it() -> None:
    assert claim_of(seat_of("C12")) == "C12"
