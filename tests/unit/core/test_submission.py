"""What may be submitted, at the exact limits."""

from __future__ import annotations

import pytest

from workers.core.alarm import Alarm
from workers.core.artefact import Span
from workers.core.finding import Severity
from workers.core.slices import LeftOut, Removed
from workers.core.submission import (
    MAX_LEFT_OUT,
    MAX_REVIEWED_CHARACTERS,
    MAX_REVIEWED_FILES,
    MAX_SPEC_BYTES,
    Existing,
    check_files,
    check_reviewed,
    check_spec,
    decode_spec,
)
from workers.errors import SpecError

TOO_LARGE = "the spec has 1,048,577 bytes; at most 1,048,576 (1 MiB) are accepted"


def refusal(spec: str | bytes) -> str:
    with pytest.raises(SpecError) as caught:
        decode_spec(spec) if isinstance(spec, bytes) else check_spec(spec)
    return str(caught.value)


def test_a_spec_of_exactly_one_mebibyte_is_accepted_and_a_byte_more_is_not() -> None:
    check_spec("x" * MAX_SPEC_BYTES)
    assert decode_spec(b"x" * MAX_SPEC_BYTES) == "x" * MAX_SPEC_BYTES
    assert refusal("x" * (MAX_SPEC_BYTES + 1)) == TOO_LARGE
    assert refusal(b"x" * (MAX_SPEC_BYTES + 1)) == TOO_LARGE


def test_bytes_are_counted_and_not_characters() -> None:
    check_spec("é" * (MAX_SPEC_BYTES // 2))
    assert refusal("é" * (MAX_SPEC_BYTES // 2) + "x") == TOO_LARGE


@pytest.mark.parametrize(
    "spec", ["", " ", "\n\t\r\f", "\u00a0\u2003", b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf \n"]
)
def test_an_empty_spec_is_told_what_would_be_right(spec: str | bytes) -> None:
    assert refusal(spec) == "the spec is empty; say in words what the code should do"


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ("a\x00b", "character 1 is U+0000"),
        ("\x1b[31mred", "character 0 is U+001B"),
        ("ok\ud800", "character 2 is U+D800"),
        ("ok\udfff", "character 2 is U+DFFF"),
        (b"\x89PNG\r\n", "byte 0 is not UTF-8"),
        (b"ok \xff", "byte 3 is not UTF-8"),
        (b"\xed\xa0\x80", "byte 0 is not UTF-8"),  # a surrogate in UTF-8 clothes
        (b"a\x00", "character 1 is U+0000"),
        ("text".encode("utf-16"), "byte 0 is not UTF-8"),
    ],
)
def test_what_is_not_text_is_refused_with_its_place(spec: str | bytes, what: str) -> None:
    assert refusal(spec) == f"the spec is not text: {what}; send UTF-8 text"


def test_a_byte_order_mark_is_taken_off() -> None:
    assert decode_spec(b"\xef\xbb\xbfsum two numbers") == "sum two numbers"


@pytest.mark.parametrize("spec", ["tab\there", "line\r\nline\n", "page\fbreak", "日本語 😀", "\ue000"])
def test_ordinary_text_passes(spec: str) -> None:
    check_spec(spec)
    assert decode_spec(spec.encode()) == spec


DIFF = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n--- a/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n"
GONE = LeftOut(path="b.py", reason="deleted by the change")
LARGE = LeftOut(path="c.bin", reason="too large")


def refused(files: dict[str, str], *, diff: str | None = None, left_out: tuple[LeftOut, ...] = ()) -> str:
    with pytest.raises(SpecError) as caught:
        check_reviewed(files, diff=diff, left_out=left_out)
    return str(caught.value)


def test_files_to_judge_are_taken_as_they_are() -> None:
    assert check_reviewed({"a.py": "x"}, diff=None, left_out=(LARGE,)) == (
        {"a.py": "x"},
        Existing(left_out=(LARGE,)),
    )


def test_a_diff_is_files_with_what_is_known_of_them() -> None:
    files, existing = check_reviewed({}, diff=DIFF, left_out=[LARGE])
    assert files == {"a.py": "y\n"}
    assert existing == Existing(
        left_out=(LARGE, GONE),
        parts={"a.py": (Span(path="a.py", start=1, end=1),)},
        removed={"a.py": (Removed(before=1, text="x"),)},
    )


def test_code_to_judge_is_refused_with_what_would_be_right() -> None:
    assert refused({"a": "x"}, diff=DIFF) == (
        "files and diff: give either the files that are to be judged or a diff, not both"
    )
    assert refused({}) == "files: there is no code to judge; give files or a diff"
    everything = "files: there is no code to judge; everything was left out"
    assert refused({}, left_out=(LARGE,)) == everything
    assert refused({}, diff=DIFF[DIFF.index("--- a/b.py") :]) == everything
    assert refused({"../a": "x"}).startswith("files: file path '../a' has an empty")


def test_more_than_one_prompt_s_worth_may_be_judged_up_to_its_own_limits() -> None:
    most = {f"f{number}": "" for number in range(MAX_REVIEWED_FILES)}
    assert check_reviewed(most, diff=None, left_out=())[0] == most
    assert refused({**most, "one": ""}) == "files: 1001 files; at most 1000 are allowed"
    long = "x" * MAX_REVIEWED_CHARACTERS
    assert check_reviewed({"a": long}, diff=None, left_out=())[0] == {"a": long}
    assert refused({"a": long + "x"}) == "files: 4000001 characters in all; at most 4000000 are allowed"
    left = (LARGE,) * MAX_LEFT_OUT
    assert check_reviewed({"a": "x"}, diff=None, left_out=left)[1].left_out == left
    assert refused({"a": "x"}, left_out=(*left, LARGE)) == "left_out: 1001 entries; at most 1000 are allowed"


def test_what_goes_with_existing_code_survives_as_data() -> None:
    existing = check_reviewed({}, diff=DIFF, left_out=[LARGE])[1]
    data = existing.as_data()
    assert data == {
        "left_out": [
            {"path": "c.bin", "reason": "too large"},
            {"path": "b.py", "reason": "deleted by the change"},
        ],
        "parts": {"a.py": [[1, 1]]},
        "removed": {"a.py": [{"before": 1, "text": "x"}]},
    }
    assert Existing.of(data) == existing
    alarm = Alarm(
        alarm_id="A1",
        tool="t",
        rule="r",
        message="m",
        severity=Severity.LOW,
        span=Span(path="a", start=1, end=2),
    )
    judged = Existing(alarms=(alarm,))
    assert judged.as_data()["alarms"] == [alarm.as_data()]
    assert Existing.of(judged.as_data()) == judged


def test_files_are_called_what_the_sender_calls_them() -> None:
    check_files("tests", {"test_a.py": "x"})
    with pytest.raises(SpecError, match=r"^tests: file path '\.\./a' has an empty"):
        check_files("tests", {"../a": "x"})
