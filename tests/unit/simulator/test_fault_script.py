"""A fault script is read whole, or refused with one sentence: where, what is wrong, what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.providers.simulator.faults.kind import KINDS, PARAMETERS, parameter_check
from workers.providers.simulator.faults.rule import When
from workers.providers.simulator.faults.script import (
    MAX_SCRIPT_BYTES,
    FaultScriptError,
    load_faults,
    read_script,
    scenario_names,
)


def test_a_rule_has_what_it_says_and_its_kinds_defaults() -> None:
    (rule,) = read_script(
        "rules:\n"
        "  - fault: silence\n"
        "    seconds: 20\n"
        "    keep_alive_seconds: 5\n"
        "    when: {model: 'claude-*', stream: true, probability: 0.25, until_seconds: 60}\n",
        place="night.yaml",
    )
    assert (rule.fault.kind, rule.fault.seconds, rule.fault.keep_alive_seconds) == ("silence", 20, 5)
    assert rule.fault.after_pieces == 1
    assert rule.when == When(model="claude-*", stream=True, probability=0.25, until_seconds=60)


def test_a_script_may_have_no_rules() -> None:
    assert read_script("rules: []\n", place="night.yaml") == ()


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("", "night.yaml:1: a fault script is a mapping"),
        ("- fault: empty\n", "night.yaml:1: a fault script is a mapping"),
        ("{}", "night.yaml:1: a fault script is a mapping with the key 'rules', a list"),
        ("rules: 3\n", "night.yaml:1: a fault script is a mapping with the key 'rules', a list"),
        ("rule: []\n", "night.yaml:1: a fault script has no 'rule'; did you mean rules?"),
        ("rules:\n  - empty\n", "night.yaml:2: a rule is a mapping"),
        ("rules:\n  - {when: {nth: 1}}\n", "night.yaml:2: a rule needs the key 'fault'"),
        ("rules:\n- {fault: empty}\n- {fault: sielnce}\n", "night.yaml:3: there is no fault 'sielnce'; did you"),
        ("rules:\n- {fault: sielnce}\n", "did you mean silence?; there are rate-limit, "),
        ("rules:\n- {fault: [a]}\n", "night.yaml:2: there is no fault 'a list'"),
        (
            "rules:\n- fault: silence\n  second: 3\n",
            "night.yaml:3: the fault silence has no 'second'; did you mean seconds?; a rule for it may say "
            "after_pieces, seconds, keep_alive_seconds, when",
        ),
        ("rules:\n- {fault: empty, seconds: 3}\n", "the fault empty has no 'seconds'; a rule for it may say when"),
        ("rules:\n- {fault: silence, seconds: long}\n", "seconds is 'long'; it must be a number from 0 to 3600"),
        ("rules:\n- {fault: silence, seconds: true}\n", "seconds is true; it must be a number"),
        ("rules:\n- {fault: silence, seconds: .nan}\n", "seconds is nan; it must be a number"),
        ("rules:\n- {fault: silence, seconds: }\n", "seconds is empty; it must be a number"),
        ("rules:\n- {fault: cut, after_pieces: 1.5}\n", "after_pieces is 1.5; it must be a whole number"),
        ("rules:\n- {fault: overloaded, status: 429}\n", "status is 429; it must be 503 or 529"),
        ("rules:\n- {fault: rate-limit, status: 503}\n", "the fault rate-limit has no 'status'"),
        (
            "rules:\n- {fault: rate-limit, retry_after_as: date}\n",
            "retry_after_as is 'date'; it must be seconds, float, milliseconds, imf-date,",
        ),
        ("rules:\n- {fault: empty, fault: cut}\n", "night.yaml:2: 'fault' stands there twice"),
        ("rules:\n- {fault: empty, when: always}\n", "a rule's 'when' is a mapping"),
        ("rules:\n- {fault: empty, when: {stage: coder}}\n", "a rule's 'when' has no 'stage'; it may say model,"),
        ("rules:\n- {fault: empty, when: {family: gpt}}\n", "family is 'gpt'; it must be sim-alder, "),
        ("rules:\n- {fault: empty, when: {probability: 20}}\n", "probability is 20; it must be a number from 0 to 1"),
        ("rules:\n- {fault: empty, when: {stream: 1}}\n", "stream is 1; it must be true or false"),
        (
            "rules:\n- {fault: empty, when: {from_seconds: 9, until_seconds: 9}}\n",
            "until_seconds is 9; it must be above from_seconds, 9",
        ),
        (
            "rules:\n- {fault: refuse-connections, when: {role: lead}}\n",
            "the 'when' of refuse-connections has no 'role'; it may say from_seconds, until_seconds",
        ),
        ("rules:\n- {fault: empty, when: {model: 2026-13-45}}\n", "night.yaml:2: '2026-13-45' is no timestamp"),
        ("rules:\n  - {fault: empty\n", "night.yaml:3: this is not YAML:"),
        ("rules: \x00\n", "night.yaml:1: this is not YAML:"),
        ("rules: " + "[" * 5000, "night.yaml:1: this is not YAML:"),
        ("rules: [" + "{fault: empty}, " * 1001 + "]", "at most 1000 rules"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_file_line_and_what_would_be_right(script: str, sentence: str) -> None:
    with pytest.raises(FaultScriptError) as raised:
        read_script(script, place="night.yaml")
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@given(st.text(alphabet="rules:-{}[]fault, \nwhen#&*!|>'\"0\t", max_size=60))
def test_no_text_is_more_than_refused(script: str) -> None:
    try:
        read_script(script, place="night.yaml")
    except FaultScriptError as error:
        assert str(error).startswith("night.yaml")  # noqa: PT017 - most scripts are refused, some are not


def test_every_scenario_that_is_named_can_be_played() -> None:
    assert {"rough-night", "rate-limited", "outage", "empty-purse"} == set(scenario_names())
    for name in scenario_names():
        assert load_faults(name)


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "night.yaml"
    path.write_text("rules: [{fault: emptyy}]")
    with pytest.raises(FaultScriptError, match=f"{path}:1: there is no fault 'emptyy'; did you mean empty"):
        load_faults(str(path))
    path.write_text("rules: [{fault: empty}]")
    assert [rule.fault.kind for rule in load_faults(str(path))] == ["empty"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"\xff", "is a YAML file in UTF-8"), (b"#" * (MAX_SCRIPT_BYTES + 1), "at most 262144 bytes")],
)
def test_a_file_that_is_no_script_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "night.yaml"
    path.write_bytes(content)
    with pytest.raises(FaultScriptError, match=sentence):
        load_faults(str(path))


def test_a_name_that_is_neither_scenario_nor_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        FaultScriptError, match=r"no scenario and no file 'rough-nigth'; did you mean rough-night"
    ):
        load_faults("rough-nigth")
    with pytest.raises(FaultScriptError, match=r"no scenario and no file 'x'\. Scenarios: empty-purse, "):
        load_faults("x")
    with pytest.raises(FaultScriptError, match="cannot be read: No such file"):
        load_faults(str(tmp_path / "none.yaml"))
    with pytest.raises(FaultScriptError, match="cannot be read: Is a directory"):
        load_faults(str(tmp_path))


def test_every_default_is_a_value_that_a_script_may_give() -> None:
    assert {name for kind in KINDS.values() for name in kind.defaults} == {*PARAMETERS, "status"}
    for kind in KINDS.values():
        for name, value in kind.defaults.items():
            assert value is None or parameter_check(kind, name).fits(value)
