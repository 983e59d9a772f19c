"""Torn JSON: which rung saves what, and that nothing but one error ever comes out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cpu_time import within_cpu_seconds
from workers.core.reply_repair import (
    MAX_DEPTH,
    MAX_REPAIR_CHARACTERS,
    MAX_REPLY_CHARACTERS,
    MalformedReplyError,
    Repaired,
    Rung,
    _Metered,
    _OutOfLooksError,
    repair,
)

KEYS = ("a",)


@pytest.mark.parametrize(
    ("text", "rung", "value"),
    [
        # rung 1: JSON as it should be
        ('{"a": 1}', 1, {"a": 1}),
        (' \r\n\t{"a": 1}\n', 1, {"a": 1}),
        ('\ufeff{"a": 1}', 1, {"a": 1}),
        ('\ufeff\n\ufeff{"a": 1}', 1, {"a": 1}),
        ('{"a": 1, "a": 2}', 1, {"a": 2}),  # of two keys the last counts, as in every JSON reader
        ('{"a": "\\ud83d\\ude00"}', 1, {"a": "😀"}),
        ('{"a": "\\ud800"}', 1, {"a": "\ud800"}),  # refused where text is expected, not here
        ('{"a": "```{"}', 1, {"a": "```{"}),
        # rung 2: JSON with something around it
        ('```json\n{"a": 1}\n```', 2, {"a": 1}),
        ('```\n{"a": 1}\n```\nHope this helps {really}!', 2, {"a": 1}),
        ('I checked {x} and {"b": 2}, so: {"a": 1} as {"a": 9}', 2, {"a": 1}),
        ('{"b": 1}{"a": 2}', 2, {"a": 2}),
        ('{"a": 1}{"a": 2}', 2, {"a": 1}),  # two that fit: the first
        ('{"a": 1}}', 2, {"a": 1}),
        ('[{"a": 1}]', 2, {"a": 1}),
        ('A 3" pipe needs {"a": "' + "{" * 100 + '"}', 2, {"a": "{" * 100}),
        ("if (x) { y(); } " * 300 + '{"a": 1}', 2, {"a": 1}),
        ("<think>{ maybe {this} }</think>\n" + '{"a": {"b": [1, 2]}}', 2, {"a": {"b": [1, 2]}}),
        # rung 3: nearly JSON
        ("{'a': 'x'}", 3, {"a": "x"}),
        ('{"a": [1, 2,],}', 3, {"a": [1, 2]}),
        ('{"a": "cut off here', 3, {"a": "cut off here"}),
        ('{"a": [1, {"b": 2', 3, {"a": [1, {"b": 2}]}),
        ('{"a": "two\nlines"}', 3, {"a": "two\nlines"}),
        ("{a: 1}", 3, {"a": 1}),
        ('Sure:\n```json\n{"a": [1, 2,]}\n```\n', 3, {"a": [1, 2]}),
        ('```js\nif (x) { y }\n```\n```json\n{"a": 1,}\n```', 3, {"a": 1}),
        ('{"a": NaN}', 3, {"a": "NaN"}),  # a word, no number: what asks for one refuses it
        ('{"a": [1, Infinity]}', 3, {"a": [1, "Infinity"]}),
        ('{"a": 1 /* one */}', 3, {"a": 1}),
    ],
)
def test_a_reply_is_saved_on_the_lowest_rung_that_can(text: str, rung: int, value: dict[str, Any]) -> None:
    found = repair(text, expected_keys=KEYS)
    assert (found.value, found.rung) == (value, Rung(rung))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the reply is empty; one JSON object was expected"),
        (" \ufeff\n", "the reply is empty; one JSON object was expected"),
        ("I cannot help with that.", "the reply holds no JSON object"),
        ("[1, 2, 3]", "the reply holds no JSON object"),
        ("null", "the reply holds no JSON object"),
        ('"{}"', "no JSON object could be read with the key 'a'"),
        ("{}", "no JSON object could be read with the key 'a'"),
        ('{"b": 1}', "no JSON object could be read with the key 'a'"),
        ('[{"b": 1}]', "no JSON object could be read with the key 'a'"),
        ('{"a": 1e999}', "no JSON object could be read with the key 'a'"),  # reads as infinity
        ('{"a": ' * 100 + "1" + "}" * 100, f"the reply nests deeper than {MAX_DEPTH} levels"),
        ('{"a": ' + "[" * 100_000, f"the reply nests deeper than {MAX_DEPTH} levels"),
        (
            "{" + " " * MAX_REPLY_CHARACTERS,
            f"the reply has {MAX_REPLY_CHARACTERS + 1} characters; at most {MAX_REPLY_CHARACTERS} are read",
        ),
    ],
)
def test_a_reply_that_nothing_saves_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(MalformedReplyError) as caught:
        repair(text, expected_keys=KEYS)
    assert str(caught.value) == sentence


def test_depth_is_allowed_up_to_the_limit_exactly() -> None:
    # The object itself is level 1; MAX_DEPTH - 1 lists stand in it.
    fits = '{"a":' + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "}"
    assert repair(fits).rung is Rung.LOADS
    with pytest.raises(MalformedReplyError):
        repair('{"a":' + "[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH + "}")


@pytest.mark.parametrize(
    ("text", "is_too_deep"),
    [
        ('{"a": ' + "[" * (MAX_DEPTH - 1), False),
        ('{"a": ' + "[" * MAX_DEPTH, True),
        ("{" + '"a": {' * MAX_DEPTH, True),
        ('{"a": "' + "[" * 70 + '",}', False),
        ('{"a": "\\"' + "[" * 70 + '",}', False),
        ('{"a": "\\"", "b": ' + "[" * MAX_DEPTH, True),
        ('{"a": "\\\\", "b": ' + "[" * MAX_DEPTH, True),
        ('{"a": 1,} ' + "X " * 70, False),
        ('{"a": [' + "[1]," * 70 + "],}", False),
        ('{"a": [' + '{"b": 1},' * 70 + "],}", False),
        ("{]" * (MAX_DEPTH + 1), True),  # a bracket closes only its like
        ('{"a": ' + "[}" * MAX_DEPTH, True),
    ],
)
def test_what_is_repaired_may_nest_as_deeply_as_what_is_read(text: str, is_too_deep: bool) -> None:
    try:
        found = f"rung {repair(text, expected_keys=KEYS).rung}"
    except MalformedReplyError as error:
        found = str(error)
    too_deep = f"the reply nests deeper than {MAX_DEPTH} levels"
    assert (found == too_deep) is is_too_deep
    assert is_too_deep or found in {"rung 3", "no JSON object could be read with the key 'a'"}


@pytest.mark.parametrize(
    "text",
    [
        "```\n{" + "[" * 70 + "\n```\n```\n{'a': 1}\n```\n",
        "```\n{'b': 1}\n```\n```\n{'a': 1}\n```\n",
        "{'b': 1}\n{'a': 1}",
        "[{'b': 1}, {'a': 1}]",
    ],
)
def test_what_does_not_fit_is_passed_over_for_what_does(text: str) -> None:
    assert repair(text, expected_keys=KEYS) == Repaired(value={"a": 1}, rung=Rung.REPAIRED)


def test_a_text_is_repaired_and_read_up_to_its_limits_exactly() -> None:
    damaged = "{'a': 1}"
    assert repair(damaged + " " * (MAX_REPAIR_CHARACTERS - len(damaged))).rung is Rung.REPAIRED
    with pytest.raises(MalformedReplyError, match=r"^no JSON object could be read$"):
        repair(damaged + " " * (MAX_REPAIR_CHARACTERS + 1 - len(damaged)))
    whole = '{"a": 1}'
    assert repair(whole + " " * (MAX_REPLY_CHARACTERS - len(whole))).rung is Rung.LOADS


def test_every_key_that_would_do_is_named() -> None:
    with pytest.raises(MalformedReplyError, match=r"^no JSON object could be read with the key 'a' or 'b'$"):
        repair('{"c": 1}', expected_keys=("a", "b"))


def test_an_object_is_found_directly_behind_a_brace_that_begins_none() -> None:
    assert repair('{"{"a": 1}', expected_keys=KEYS) == Repaired(value={"a": 1}, rung=Rung.RAW_DECODE)


def test_an_x_in_front_is_no_white_space() -> None:
    assert repair('X{"a": 1}', expected_keys=KEYS).rung is Rung.RAW_DECODE


def test_looks_at_a_text_are_counted_on_one_meter() -> None:
    """One look a character, and one more for every 64 characters of a part."""
    looks = [10]
    text = _Metered.of("x" * 640, looks)
    assert (text[0], looks) == ("x", [9])
    part = text[:128]
    assert (len(part), looks) == (128, [6])  # 1 + 128 / 64
    assert (part[0], looks) == ("x", [5]), "a part counts on the same meter"
    assert (text[:127][:1], looks) == ("x", [2])  # 1 + 1, and 1
    assert ((text + "y")[640], looks) == ("y", [1]), "and so does a sum"
    assert (text[0], looks) == ("x", [0])
    with pytest.raises(_OutOfLooksError):
        text[0]


def test_a_number_of_5000_digits_never_becomes_a_number() -> None:
    found = repair('{"a": ' + "9" * 5000 + "}", expected_keys=KEYS)
    assert found.rung is Rung.REPAIRED
    assert isinstance(found.value["a"], str)


def test_without_expected_keys_any_object_will_do() -> None:
    assert repair('so {"b": 1}').value == {"b": 1}
    assert repair("{}").value == {}


MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        '{"a": ' + "[" * MEGABYTE,
        "{" * MEGABYTE,
        '{"a": ' + "[]" * (MEGABYTE // 2),
        "{}" * (MEGABYTE // 2),
        "{]" * 90_000,
        "{" + '"' * MEGABYTE,
        '{"' + "\\" * MEGABYTE,
        '{"a": "' + '\\"' * (MEGABYTE // 2),
        '"' + "{" * MEGABYTE,
        "```\n{" * (MEGABYTE // 5),
        '{"a":' * (MEGABYTE // 5),
        '{"' * (MEGABYTE // 2),
        '{"b": 1}' * (MEGABYTE // 8),
        # these two kept json_repair busy for minutes
        "{" + "(\\" * 40_000,
        "{,b:" + ")},NaN" * 25_000,
        "{/*-NaN" + "*/(.//" * 30_000,
    ],
    ids=lambda text: f"{text[:8]!r}…{len(text)}",
)
def test_a_hostile_megabyte_is_answered_at_once(text: str) -> None:
    def read() -> None:
        with pytest.raises(MalformedReplyError):
            repair(text, expected_keys=("missing",))

    within_cpu_seconds(2.5, read)  # about half a second on a quiet machine


def test_an_honest_long_reply_is_within_what_a_repair_may_cost() -> None:
    code = "".join(f'def f{number}(a, b):\n    return "x" + a[{number}]\n' for number in range(4000))
    assert len(code) > 150_000
    torn = json.dumps({"files": {"a.py": code}})[:-1] + ",}"
    found = repair(torn, expected_keys=("files",))
    assert found.rung is Rung.REPAIRED
    # json_repair drops white space at the end of a string: a final newline is the price of rung 3.
    assert found.value == {"files": {"a.py": code.rstrip()}}


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=8), VALUES, max_size=5)


@given(OBJECTS, st.booleans(), st.sampled_from([None, 2]))
def test_a_valid_object_comes_back_unchanged_from_the_first_rung(
    value: dict[str, Any], is_ascii: bool, indent: int | None
) -> None:
    found = repair(json.dumps(value, ensure_ascii=is_ascii, indent=indent))
    assert (found.value, found.rung) == (value, Rung.LOADS)


@given(OBJECTS, st.text(alphabet="abc `'\"\n.:{(x", max_size=40))
def test_prose_in_front_of_the_answer_does_not_change_it(value: dict[str, Any], prose: str) -> None:
    answer = {"answer-key": value}
    found = repair(f"{prose} is odd\n{json.dumps(answer)}", expected_keys=("answer-key",))
    assert found.value == answer


@given(st.text(max_size=200) | st.text(alphabet="{}[]\"'\\,:ab1-.eNnul \n`/#*()\ud800\ufeff", max_size=200))
def test_no_text_raises_anything_but_a_malformed_reply(text: str) -> None:
    try:
        found = repair(text)
    except MalformedReplyError:
        return
    assert isinstance(found.value, dict)


@given(OBJECTS, st.data())
def test_a_damaged_reply_is_saved_or_refused_and_what_is_saved_is_storable(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps({"a": value})
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 3))
        text = text[:at] + data.draw(st.text(alphabet="{}[]\"'\\,:1e9aN\n", max_size=3)) + text[at + cut :]
    try:
        found = repair(text, expected_keys=KEYS)
    except MalformedReplyError:
        return
    assert "a" in found.value
    json.dumps(found.value, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        pytest.param('{"files": {"a.py": "def f():\\n    return', True, id="inside a string"),
        pytest.param('{"files": {"a.py": "x = 1"', True, id="behind a string, two brackets open"),
        pytest.param('```json\n{"files": {"a.py": "x = 1', True, id="inside a fence"),
        pytest.param("{'files': {'a.py': 'x = 1'}}", False, id="single quotes, whole"),
        pytest.param('{"files": {"a.py": "x = 1",},}', False, id="trailing commas, whole"),
        pytest.param('```json\n{"files": {"a.py": "x",}}\n```', False, id="a whole fence"),
        pytest.param('```json\n{"files": [1, 2,]\n``` \n', False, id="a fence that ends on a list"),
        pytest.param('{"files": 1, "b": [1,2', True, id="two brackets open"),
        pytest.param('{"files": 1, "b": X', True, id="one bracket open"),
        pytest.param('{"files": 1,} X, and that is all', False, id="prose behind it"),
        pytest.param('{"files": "x{y",} and that', False, id="a bracket in a string"),
        pytest.param('{"files": "x}y", "b": 1', True, id="the other bracket in a string"),
        pytest.param('{"files": "say \\"{\\" now",} and that', False, id="escaped quotes in a string"),
        pytest.param('{"files": "a\\\\", "b": 1,} and that', False, id="a backslash at a string's end"),
    ],
)
def test_a_repaired_reply_says_whether_it_was_cut(text: str, is_cut: bool) -> None:
    repaired = repair(text, expected_keys=("files",))

    assert (repaired.rung, repaired.is_cut) == (Rung.REPAIRED, is_cut)
