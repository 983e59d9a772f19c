"""Estimates before anything is sent."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.factories import make_price, make_team
from workers.core.budget import Amount, Budget
from workers.core.run import Stage
from workers.core.team import Team
from workers.errors import InputError
from workers.estimate import (
    FIRST_LISTED,
    RunEstimate,
    Submitted,
    check_priced,
    estimate,
    estimate_data,
    first_link,
)
from workers.providers.registry import enabled
from workers.teams import load_team, prompt_environment

LOCAL = {"LOCAL_BASE_URL": "http://127.0.0.1:9/v1"}
SIMULATOR = {"CONSENSUS_SIMULATOR_URL": "http://127.0.0.1:9/v1"}
#: One dollar a million in, ten out.
PRICE = make_price("1", "10")


def estimated(
    team: Team, variables: dict[str, str], *, unpriced: str = "", submitted: Submitted | None = None
) -> RunEstimate:
    """Every prompt is 40 characters long, so 10 likely tokens and 8 + 20 at most; there are two a call."""
    return estimate(
        team,
        submitted or Submitted(spec="s"),
        enabled=enabled(variables),
        price_of=lambda _, model: None if model == unpriced else PRICE,
        render=lambda *_, **__: "x" * 40,
    )


def test_every_seat_is_estimated_once_in_flow_order() -> None:
    result = estimated(make_team(), LOCAL)
    assert [seat.seat for seat in result.seats] == ["coder", "left", "right", "consensus", "lead"]
    coder, left, _, consensus, lead = result.seats
    # Two prompts of 10 tokens; 1500 are usual, but the seat may write 256.
    assert coder.expected == Amount(input_tokens=20, output_tokens=256, usd=Decimal("0.002580"))
    # 2 x 28 x 1 + 256 x 10 millionths.
    assert coder.worst == Amount(input_tokens=56, output_tokens=256, usd=Decimal("0.002616"))
    # The reviewer reads the candidate besides.
    assert (left.expected.input_tokens, left.worst.input_tokens) == (20 + 256, 56 + 256)
    # Claims: half of what two reviewers usually write, at most as much.
    assert (consensus.expected.input_tokens, consensus.worst.input_tokens) == (20 + 256, 56 + 512)
    assert (lead.expected.input_tokens, lead.worst.input_tokens) == (20 + 256 + 256, 56 + 256 + 512)
    assert result.lead_share == lead.worst
    assert result.worst.output_tokens == 5 * 256
    # Seats that may write a lot: 600 tokens of claims a reviewer are expected at most, of code all that fits.
    long = {"models": ["local/a-1"], "max_tokens": 9000}
    reviewers = {"left": {**long, "models": ["local/b-1"]}, "right": {**long, "models": ["local/c-1"]}}
    *_, lead = estimated(make_team(coder=long, reviewers=reviewers), LOCAL).seats
    assert (lead.expected.input_tokens, lead.worst.input_tokens) == (20 + 1500 + 600, 56 + 9000 + 1200)


def test_a_candidate_is_as_long_as_the_code_it_changes() -> None:
    team = make_team(coder={"models": ["local/alder-1"], "max_tokens": 9000})
    files = {"a.py": "x" * 8000}
    coder, left, *_ = estimated(team, LOCAL, submitted=Submitted(spec="s", files=files)).seats
    assert coder.expected.output_tokens == 2000
    assert left.expected.input_tokens == 20 + 2000


def test_code_that_is_judged_as_it_is_costs_no_coder_and_is_read_by_everybody() -> None:
    files = {"a.py": "x" * 8000}
    submitted = Submitted(spec="s", files=files, is_review=True)
    left, *_ = estimated(make_team(), LOCAL, submitted=submitted).seats
    assert (left.stage, left.seat) == (Stage.PANEL, "left")
    # 8000 characters at 4 a token; at most 2 a token.
    assert left.expected.input_tokens == 20 + 2000
    assert left.worst.input_tokens == 56 + 4000
    # No seat is shown more than the team's policy allows.
    team = make_team(policy={"context_tokens": 1500})
    left, _, consensus, *claims, lead = estimated(team, LOCAL, submitted=submitted).seats
    assert left.expected.input_tokens == 20 + 1500
    # Two refutations are usual; the control writes the code again, as far as its 256 tokens go.
    refuter, _, control = claims
    assert refuter.expected.input_tokens == 2 * (20 + 1500)
    assert control.expected.output_tokens == 256
    assert consensus.expected.input_tokens < 1000
    assert lead.worst.input_tokens > 56 + 3000


def test_alarms_of_a_scanner_are_neither_refuted_nor_tested() -> None:
    submitted = Submitted(spec="s", files={"a.py": "x"}, is_review=True, has_alarms=True)
    seats = [seat.seat for seat in estimated(make_team(), LOCAL, submitted=submitted).seats]
    assert seats == ["left", "right", "consensus", "lead"]


def test_a_price_nobody_knows_leaves_the_total_open_and_refuses_dollars_only() -> None:
    result = estimated(make_team(), LOCAL, unpriced="birch-1")
    assert (result.expected.usd, result.worst.usd) == (None, None)
    assert [seat.seat for seat in result.unpriced] == ["left"]
    check_priced(result, Budget(tokens=5))
    check_priced(result, Budget())
    with pytest.raises(InputError, match=r"no price is known for local/birch-1 \(seat 'left'\)"):
        check_priced(result, Budget(usd=Decimal(1)))
    check_priced(estimated(make_team(), LOCAL), Budget(usd=Decimal(1)))


def test_a_provider_asked_for_its_list_only_later_is_named_with_the_variable_that_helps() -> None:
    result = estimated(make_team(), {"OPENROUTER_API_KEY": "k"}, unpriced=FIRST_LISTED)
    assert {seat.link.provider for seat in result.seats} == {"openrouter"}
    with pytest.raises(InputError, match="name a model in OPENROUTER_MODEL"):
        check_priced(result, Budget(usd=Decimal(1)))


def test_the_link_is_the_one_that_the_seat_will_ask_first() -> None:
    team = load_team("consensus").team
    coder = team.place(Stage.CODER, "coder")
    first, at_openai, at_deepseek = coder.seat.models[:3]

    def chosen(variables: dict[str, str], priced: str = "") -> str:
        link = first_link(coder, enabled(variables), lambda _, model: PRICE if model == priced else None)
        return f"{link.provider}/{link.model}"

    assert chosen({"OPENAI_API_KEY": "k"}) == at_openai
    assert chosen(SIMULATOR) == "simulator/sim-alder-large"
    assert chosen({"GROQ_API_KEY": "k", "GROQ_MODEL": "m"}) == "groq/m"
    # Nothing is on in this process: the first that has a price, else the first.
    assert chosen({}, priced=at_deepseek.removeprefix("deepseek/")) == at_deepseek
    assert chosen({}) == first


def test_a_team_that_names_no_simulated_model_is_simulated_by_the_seats_number() -> None:
    result = estimated(make_team(), SIMULATOR)
    assert result.is_simulated
    assert all(seat.link.model.startswith("sim-") for seat in result.seats)


@pytest.mark.parametrize(
    ("budget", "fits"),
    [
        (Budget(), None),
        (Budget(usd=Decimal(1)), True),
        (Budget(usd=Decimal("0.001")), False),
        (Budget(tokens=100), False),
    ],
)
def test_the_estimate_says_whether_its_worst_case_fits(budget: Budget, fits: bool | None) -> None:
    data = estimate_data(estimated(make_team(), LOCAL), budget)
    assert data["fits_budget"] is fits


def test_the_real_prompts_are_counted() -> None:
    prompts = prompt_environment()

    def render(name: str, **values: Any) -> str:
        return prompts.get_template(name).render(**values)

    def first(spec: str) -> int:
        result = estimate(
            make_team(),
            Submitted(spec=spec, files={"a.py": "y" * 100}, tests={"t.py": "z" * 100}),
            enabled=enabled(LOCAL),
            price_of=lambda *_: PRICE,
            render=render,
        )
        return result.seats[0].expected.input_tokens

    # 4000 characters more are a thousand tokens more.
    assert first("s" * 4001) - first("s") == 1000


def test_skills_and_looked_up_passages_are_counted_for_the_seats_that_get_them() -> None:
    library = {
        "skills": [{"name": "one", "description": "d", "body": "b"}],
        "documents": {"docs/a.md": "s is here"},
    }
    plain = estimated(make_team(), LOCAL)
    brought = estimated(make_team(retrieval={"globs": ["docs/*.md"]}, texts=library), LOCAL)
    more = {
        seat.seat: seat.expected.input_tokens - before.expected.input_tokens
        for seat, before in zip(brought.seats, plain.seats, strict=True)
    }
    # Instructions and skills are one text of 40 + 2 + 40 characters, 21 tokens for 10; passages are one of 40.
    assert more == {"coder": 21, "left": 21, "right": 21, "consensus": 0, "lead": 21}
    assert all(seat.worst.input_tokens >= seat.expected.input_tokens for seat in brought.seats)


def test_refuters_and_the_gate_are_estimated_for_all_claims_together() -> None:
    team = make_team(policy={"quorum": {"heads": 2, "families": 2}, "max_refutations": 3, "max_proofs": 2})

    result = estimated(team, LOCAL)

    assert [seat.seat for seat in result.seats][4:] == ["refuter", "prover", "control", "lead"]
    refuter, prover, control = result.seats[4:7]
    # Two refutations are usual, three the most; the refuter reads two prompts and the candidate.
    assert (refuter.expected.input_tokens, refuter.expected.output_tokens) == (2 * (20 + 256), 2 * 200)
    assert (refuter.worst.input_tokens, refuter.worst.output_tokens) == (3 * (56 + 256), 3 * 2048)
    # One proof is usual, two the most; the control writes the files again.
    assert (prover.expected.output_tokens, prover.worst.output_tokens) == (500, 2 * 4096)
    assert (control.expected.output_tokens, control.worst.output_tokens) == (256, 2 * 256)
