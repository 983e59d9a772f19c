"""Which request a fault rule picks: deterministic, from the top, counted as the documentation says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.simulator.rehearsal import system_prompt
from workers.providers.simulator.faults.delivery import split_inside_characters
from workers.providers.simulator.faults.rule import Asked, Faults, refused_windows
from workers.providers.simulator.faults.script import read_script
from workers.providers.simulator.wire import Call


def faults(rules: str) -> Faults:
    return Faults(read_script(f"rules:\n{rules}\n", place="the test"))


def asked(digest: str = "a" * 24, *, role: str = "coder", **fields: Any) -> Asked:
    call = Call(
        asked_model=fields.pop("asked_model", "gpt-5"),
        model=fields.pop("model", "sim-alder-large"),
        system=system_prompt(role),
        user="",
        prompt_characters=1,
        max_tokens=1,
        is_streamed=fields.pop("stream", False),
        wants_usage=False,
    )
    plain: dict[str, Any] = {"wire": "openai", "fields": {"model"}, "elapsed_seconds": 0.0}
    return Asked(call=call, digest=digest, **(plain | fields))


def kinds(player: Faults, requests: list[Asked]) -> list[str | None]:
    return [fault.kind if (fault := player.decide(request)) else None for request in requests]


@pytest.mark.parametrize(
    ("when", "fits", "fails"),
    [
        ("model: gpt-*", {}, {"asked_model": "claude-x"}),
        ("model: sim-alder-*", {}, {"model": "sim-birch-small"}),
        ("family: sim-alder", {}, {"model": "sim-birch-large"}),
        ("role: coder", {}, {"role": "reviewer"}),
        ("wire: openai", {}, {"wire": "anthropic"}),
        ("stream: true", {"stream": True}, {}),
        ("stream: false", {}, {"stream": True}),
        ("from_seconds: 5", {"elapsed_seconds": 5.0}, {"elapsed_seconds": 4.9}),
        ("until_seconds: 5", {"elapsed_seconds": 4.9}, {"elapsed_seconds": 5.0}),
    ],
)
def test_a_condition_lets_through_what_meets_it(
    when: str, fits: dict[str, Any], fails: dict[str, Any]
) -> None:
    rule = f"- {{fault: empty, when: {{{when}}}}}"
    assert kinds(faults(rule), [asked(**fits), asked(**fails)]) == ["empty", None]


def test_all_conditions_must_hold() -> None:
    player = faults("- {fault: empty, when: {role: coder, wire: anthropic}}")
    assert kinds(player, [asked(), asked(role="lead", wire="anthropic"), asked(wire="anthropic")]) == [
        None,
        None,
        "empty",
    ]


def test_attempts_are_counted_for_the_same_bytes_only() -> None:
    player = faults("- {fault: reset, when: {attempt: 2}}")
    one, two = asked("1" * 24), asked("2" * 24)
    assert kinds(player, [one, two, one, one, two]) == [None, None, "reset", None, "reset"]


def test_nth_and_every_count_the_requests_that_meet_the_rest() -> None:
    birch = {"model": "sim-birch-large"}
    player = faults("- {fault: cut, when: {nth: 2, family: sim-birch}}")
    assert kinds(player, [asked(**birch), asked(), asked(**birch), asked(**birch)]) == [
        None,
        None,
        "cut",
        None,
    ]
    player = faults("- {fault: cut, when: {every: 3}}")
    assert kinds(player, [asked()] * 7) == [None, None, "cut", None, None, "cut", None]


def test_a_rule_below_the_one_that_fits_does_not_count_the_request() -> None:
    player = faults("- {fault: empty, when: {attempt: 1}}\n- {fault: cut, when: {nth: 1}}")
    assert kinds(player, [asked(), asked(), asked()]) == ["empty", "cut", None]


def test_chance_is_the_requests_own() -> None:
    requests = [asked(f"{number:024x}") for number in range(2000)]
    rule = "- {fault: empty, when: {probability: 0.2}}"
    first, again = kinds(faults(rule), requests), kinds(faults(rule), requests)
    assert first == again
    # 2000 draws of 0.2: 400 expected, with a standard deviation of 18.
    assert 330 < first.count("empty") < 470
    assert kinds(faults(rule), requests[1000:]) == first[1000:]


def test_asking_again_and_another_rule_are_other_draws() -> None:
    requests = [asked(f"{number:024x}") for number in range(300)]
    player = faults("- {fault: empty, when: {probability: 0.5}}")
    assert kinds(player, requests) != kinds(player, requests)
    both = kinds(
        faults("- {fault: empty, when: {probability: 0.5}}\n- {fault: cut, when: {probability: 0.5}}"),
        requests,
    )
    # Half of those whom the first spares; about 75 of 300, with a standard deviation of 7.5.
    assert 45 < both.count("cut") < 105


@pytest.mark.parametrize(("probability", "count"), [(0, 0), (1, 50)])
def test_impossible_and_certain_are_just_that(probability: int, count: int) -> None:
    player = faults(f"- {{fault: empty, when: {{probability: {probability}}}}}")
    assert kinds(player, [asked(f"{number:024x}") for number in range(50)]).count("empty") == count


def test_a_field_is_refused_only_where_it_was_sent() -> None:
    player = faults("- {fault: refused-field, field: temperature}")
    assert kinds(player, [asked(), asked(fields={"model", "temperature"})]) == [None, "refused-field"]


def test_repetitions_of_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.providers.simulator.faults.rule.MAX_REMEMBERED", 2)
    player = faults("- {fault: empty, when: {attempt: 2}}")
    requests = [asked(letter * 24) for letter in "abca"]
    assert kinds(player, requests) == [None] * 4
    assert kinds(player, [requests[2]]) == ["empty"]


def test_refused_connections_are_windows_and_no_requests_fault() -> None:
    rules = read_script(
        "rules:\n"
        "- {fault: refuse-connections, when: {from_seconds: 90, until_seconds: 120}}\n"
        "- {fault: refuse-connections, when: {until_seconds: 5}}\n"
        "- {fault: refuse-connections, when: {from_seconds: 300}}\n",
        place="the test",
    )
    assert refused_windows(rules) == ((0.0, 5), (90, 120), (300, None))
    assert kinds(Faults(rules), [asked()]) == [None]


@given(st.text())
def test_splitting_loses_nothing_and_cuts_every_wide_character_once(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    pieces = split_inside_characters(data)
    assert b"".join(pieces) == data
    assert len(pieces) == 1 + sum(ord(character) > 127 for character in text)
