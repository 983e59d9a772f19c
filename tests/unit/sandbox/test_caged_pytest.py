"""What the keeper makes of the lines that a child wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from workers.sandbox.caged_pytest import verdict

SEALS = json.dumps({"seals": {"s1": "test_a", "s2": "TestB::test_b", "s3": ""}}).encode()


def told(*seals: bytes, passed: list[str]) -> Any:
    report = {"cases": [{"name": name, "outcome": "passed"} for name in passed], "has_reached": None}
    return verdict([SEALS, *seals, json.dumps(report).encode()])["told"]


def test_a_pass_with_its_seal_counts() -> None:
    assert told(b"s1", b"s2", b"s3", passed=["test_a", "TestB::test_b"]) == "reported"


def test_a_seal_for_each_set_of_parameters_is_wanted() -> None:
    assert told(b"s1", b"s1", b"s3", passed=["test_a[1]", "test_a[2]"]) == "reported"
    assert told(b"s1", b"s3", passed=["test_a[1]", "test_a[2]"]) == "tampered"


@pytest.mark.parametrize(
    "seals",
    [
        pytest.param((b"s1",), id="no end of the run"),
        pytest.param((b"s3", b"s1"), id="a test after the end of the run"),
        pytest.param((b"s1", b"s3", b"s3"), id="two ends"),
        pytest.param((b"s2", b"s3"), id="another test's"),
        pytest.param((b"s3",), id="none"),
    ],
)
def test_a_pass_without_its_seal_is_tampered_with(seals: tuple[bytes, ...]) -> None:
    assert told(*seals, passed=["test_a"]) == "tampered"


def test_what_is_not_defined_in_the_file_needs_no_seal() -> None:
    assert told(b"s1", b"s3", passed=["test_a", "TestB::test_inherited"]) == "reported"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([], id="nothing"),
        pytest.param([SEALS], id="no report"),
        pytest.param([SEALS, b"s1", b"s3", b"{"], id="half a report"),
        pytest.param([SEALS, b"x", b"s3", b'{"cases": []}'], id="an unknown seal"),
        pytest.param([SEALS, b"\xff", b"s3", b'{"cases": []}'], id="no text"),
        pytest.param([SEALS, b"s3", b'{"cases": 7}'], id="another shape"),
        pytest.param([b"[]", b"s3", b'{"cases": []}'], id="no seals"),
    ],
)
def test_what_cannot_be_read_is_no_report(lines: list[bytes]) -> None:
    assert verdict(lines) == {"told": "died"}
