from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.governor.base import Spent
from workers.governor.estimate import MEMORY_CALLS, Estimates


def learnt(*spent: tuple[int, int, int]) -> Estimates:
    """From (characters, input tokens, output tokens) of one model and stage."""
    estimates = Estimates()
    for characters, input_tokens, output_tokens in spent:
        estimates.learn(
            "model",
            "review",
            input_characters=characters,
            max_tokens=10_000,
            spent=Spent(input_tokens=input_tokens, output_tokens=output_tokens),
        )
    return estimates


def test_before_anything_is_learnt_four_characters_are_a_token_and_a_quarter_of_the_limit_is_written() -> (
    None
):
    assert Estimates().expect("model", "review", input_characters=4000, max_tokens=8000) == Spent(
        input_tokens=1000, output_tokens=2000
    )


def test_a_stage_is_expected_to_use_what_it_used_on_average() -> None:
    estimates = learnt((1000, 300, 100), (3000, 900, 500))

    # 1200 tokens for 4000 characters; (100 + 500) / 2 tokens written.
    assert estimates.expect("model", "review", input_characters=2000, max_tokens=8000) == Spent(
        input_tokens=600, output_tokens=300
    )


def test_stages_and_models_are_learnt_apart_and_a_new_stage_borrows_from_its_model() -> None:
    estimates = learnt((1000, 500, 400))
    estimates.learn(
        "model", "lead", input_characters=1000, max_tokens=100, spent=Spent(input_tokens=500, output_tokens=0)
    )

    def output_of(model: str, stage: str) -> int:
        return estimates.expect(model, stage, input_characters=0, max_tokens=8000).output_tokens

    assert output_of("model", "review") == 400
    assert output_of("model", "lead") == 0
    assert output_of("model", "refute") == 200
    assert output_of("other", "review") == 2000


def test_no_more_is_expected_than_the_call_may_write() -> None:
    assert (
        learnt((100, 50, 700)).expect("model", "review", input_characters=1, max_tokens=300).output_tokens
        == 300
    )


def test_a_prompt_without_characters_teaches_nothing_about_characters() -> None:
    assert learnt((0, 0, 5)).expect("model", "review", input_characters=40, max_tokens=9).input_tokens == 10


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=MEMORY_CALLS))
def test_at_first_the_mean_is_the_plain_one(outputs: list[int]) -> None:
    estimates = learnt(*((100, 25, output) for output in outputs))

    expected = estimates.expect("model", "review", input_characters=0, max_tokens=10_000).output_tokens
    assert expected == pytest.approx(sum(outputs) / len(outputs), abs=0.5 + 1e-6)


def test_a_changed_prompt_is_followed() -> None:
    estimates = learnt(*[(100, 25, 1000)] * 1000, *[(100, 25, 100)] * (4 * MEMORY_CALLS))

    # (63/64)^256 of the old mean is left: 900 · 0.0177 + 100.
    assert estimates.expect("model", "review", input_characters=0, max_tokens=10_000).output_tokens == 116
