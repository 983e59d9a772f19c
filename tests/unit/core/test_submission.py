"""What may be submitted, at the exact limits."""

from __future__ import annotations

import pytest

from workers.core.submission import MAX_SPEC_BYTES, check_files, check_spec, decode_spec
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


def test_files_are_called_what_the_sender_calls_them() -> None:
    check_files("tests", {"test_a.py": "x"})
    with pytest.raises(SpecError, match=r"^tests: file path '\.\./a' has an empty"):
        check_files("tests", {"../a": "x"})
