"""Which simulated model answers for a real one's name, and what it would cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.providers.simulator.problem import MODELS, family
from workers.providers.simulator.stand_in import any_model, cost_usd, known_model
from workers.providers.simulator.wire_error import RequestError


@pytest.mark.parametrize(
    ("asked", "size"),
    [
        ("gpt-5", "large"),
        ("gpt-5-mini", "small"),
        ("claude-opus-4-1", "large"),
        ("claude-haiku-4-5", "small"),
        ("gemini-2.5-pro", "large"),
        ("gemini-2.5-flash", "small"),
        ("meta-llama/llama-3.1-8b-instruct", "small"),
    ],
)
def test_a_stand_in_has_about_the_size_of_the_model_asked_for(asked: str, size: str) -> None:
    assert any_model(asked).endswith(f"-{size}")


def test_makers_that_sit_in_one_panel_get_families_of_their_own() -> None:
    stand_ins = {family(any_model(asked)) for asked in ("gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro")}
    assert len(stand_ins) == 3
    assert family(any_model("o3")) == family(any_model("gpt-5"))


@given(st.text(min_size=1, max_size=50))
def test_every_name_has_one_stand_in(name: str) -> None:
    assert any_model(name) in MODELS
    assert any_model(name) == any_model(name)


def test_the_simulators_own_models_stand_for_themselves() -> None:
    assert [any_model(model) for model in MODELS] == [known_model(model) for model in MODELS] == list(MODELS)


def test_a_strange_model_is_refused_where_only_its_own_are_known() -> None:
    with pytest.raises(RequestError) as raised:
        known_model("gpt-5")
    assert (raised.value.status, raised.value.code) == (404, "model_not_found")


def test_cost_is_by_size_and_by_the_million() -> None:
    assert cost_usd("sim-alder-large", input_tokens=1_000_000, output_tokens=100_000) == pytest.approx(4.5)
    assert cost_usd("sim-birch-small", input_tokens=1_000_000, output_tokens=100_000) == pytest.approx(0.375)
