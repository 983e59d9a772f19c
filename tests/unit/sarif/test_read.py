"""Alarms are read whatever habits the tool has; what is no SARIF is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cpu_time import within_cpu_seconds
from workers.core.artefact import Span
from workers.core.finding import Severity
from workers.errors import SarifError
from workers.sarif.read import alarms_in, read_sarif

BANDIT = Path(__file__).parents[3] / "benchmarks" / "data" / "sast_triage"
PATHS = ("src/a.py", "lib/util.py", "a b.py")


def log(*results: Any, rules: list[Any] | None = None, **run: Any) -> dict[str, Any]:
    driver = {"name": "Tool", "rules": rules or []}
    return {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": list(results), **run}]}


def result(uri: str = "src/a.py", line: int | None = 3, **changes: Any) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if line is not None:
        physical["region"] = {"startLine": line}
    return {
        "ruleId": "R1",
        "message": {"text": "bad"},
        "locations": [{"physicalLocation": physical}],
        **changes,
    }


def only(value: dict[str, Any]) -> Any:
    (alarm,) = read_sarif(value, paths=PATHS).alarms
    return alarm


def test_bandit_s_file_is_read_whole() -> None:
    paths = {f"programs/{path.name}" for path in (BANDIT / "programs").glob("*.py")}
    read = read_sarif(json.loads((BANDIT / "bandit.sarif").read_text(encoding="utf-8")), paths=paths)
    assert (len(read.alarms), read.skipped) == (54, 0)
    shell = next(alarm for alarm in read.alarms if alarm.rule == "B605" and alarm.severity is Severity.HIGH)
    assert (shell.tool, shell.cwe, shell.span) == (
        "Bandit",
        78,
        Span(path="programs/network.py", start=7, end=7),
    )
    assert all(alarm.span.path in paths and alarm.cwe for alarm in read.alarms)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("src/a.py", "src/a.py"),
        ("./src/a.py", "src/a.py"),
        ("file:///home/me/project/src/a.py", "src/a.py"),
        ("src%2Fa.py", "src/a.py"),
        ("src\\a.py", "src/a.py"),
        ("a%20b.py", "a b.py"),
        ("a.py", "src/a.py"),
        ("project/lib/util.py", "lib/util.py"),
        ("other.py", "other.py"),
    ],
)
def test_a_place_is_found_whatever_the_tool_calls_it(uri: str, path: str) -> None:
    assert only(log(result(uri))).span.path == path


def test_a_path_is_found_by_its_base_and_by_its_index() -> None:
    bases = {"ROOT": {"uri": "file:///w/"}}
    one = result("file:///w/src/a.py")
    one["locations"][0]["physicalLocation"]["artifactLocation"]["uriBaseId"] = "ROOT"
    assert only(log(one, originalUriBaseIds=bases)).span.path == "src/a.py"
    by_index = result()
    by_index["locations"][0]["physicalLocation"]["artifactLocation"] = {"index": 0}
    assert only(log(by_index, artifacts=[{"location": {"uri": "lib/util.py"}}])).span.path == "lib/util.py"


def test_a_name_that_two_files_have_is_no_match() -> None:
    (alarm,) = read_sarif(log(result("x.py")), paths=["a/x.py", "b/x.py"]).alarms
    assert alarm.span.path == "x.py"


@pytest.mark.parametrize(
    ("changes", "rule", "cwe"),
    [
        ({}, {"id": "R1", "properties": {"tags": ["security", "external/cwe/cwe-079"]}}, 79),
        ({}, {"id": "R1", "properties": {"tags": ["CWE-89: SQL Injection"]}}, 89),
        ({}, {"id": "R1", "properties": {"cwe": "CWE-22"}}, 22),
        ({}, {"id": "R1", "properties": {"cwe": ["CWE-327"]}}, 327),
        ({}, {"id": "R1", "properties": {"cwe": [78]}}, 78),
        (
            {},
            {"id": "R1", "relationships": [{"target": {"id": "611", "toolComponent": {"name": "CWE"}}}]},
            611,
        ),
        ({"taxa": [{"id": "502", "toolComponent": {"name": "CWE"}}]}, {"id": "R1"}, 502),
        ({"properties": {"issue_cwe": {"id": 94}}}, {"id": "R1"}, 94),
        ({}, {"id": "R1", "properties": {"tags": ["owasp-a03"]}}, None),
    ],
)
def test_a_weakness_is_found_where_tools_put_it(changes: Any, rule: Any, cwe: int | None) -> None:
    assert only(log(result(**changes), rules=[rule])).cwe == cwe


@pytest.mark.parametrize(
    ("changes", "rule", "severity"),
    [
        ({"level": "error"}, {}, Severity.HIGH),
        ({}, {"defaultConfiguration": {"level": "note"}}, Severity.LOW),
        ({}, {}, Severity.MEDIUM),
        ({"level": "note"}, {"properties": {"security-severity": "9.1"}}, Severity.CRITICAL),
        ({"level": "error"}, {"properties": {"security-severity": "4.0"}}, Severity.MEDIUM),
        ({"properties": {"issue_severity": "LOW"}, "level": "error"}, {}, Severity.LOW),
        ({"properties": {"security-severity": "n/a"}, "level": "error"}, {}, Severity.HIGH),
    ],
)
def test_a_severity_is_worked_out_from_what_there_is(changes: Any, rule: Any, severity: Severity) -> None:
    assert only(log(result(**changes), rules=[{"id": "R1", **rule}])).severity is severity


def test_a_rule_is_found_by_index_by_reference_and_by_its_parent() -> None:
    rules = [{"id": "R0"}, {"id": "CA1", "shortDescription": {"text": "short"}}]
    by_index = result(ruleIndex=1)
    del by_index["ruleId"]
    assert only(log(by_index, rules=rules)).rule == "CA1"
    by_reference = result(rule={"id": "CA1"}, message={})
    del by_reference["ruleId"]
    assert only(log(by_reference, rules=rules)).message == "short"
    assert only(log(result(ruleId="CA1/2", message={}), rules=rules)).message == "short"


def test_a_message_is_filled_in_from_its_rule() -> None:
    rule = {"id": "R1", "messageStrings": {"default": {"text": "{0} is used in {1}"}}}
    assert (
        only(log(result(message={"id": "default", "arguments": ["md5", "f"]}), rules=[rule])).message
        == "md5 is used in f"
    )


def test_what_is_settled_is_skipped_and_a_rejected_suppression_is_not() -> None:
    read = read_sarif(
        log(
            result(kind="pass"),
            result(suppressions=[{"kind": "inSource"}]),
            result(baselineState="absent"),
            result(suppressions=[{"kind": "external", "status": "rejected"}]),
        ),
        paths=PATHS,
    )
    assert (len(read.alarms), read.skipped) == (1, 3)
    assert read.alarms[0].alarm_id == "A1"
    with pytest.raises(SarifError, match="runs: hold no alarm that is open; 1 results are settled already"):
        alarms_in(log(result(kind="pass")), PATHS)


def test_the_way_through_the_code_is_kept_where_the_code_has_it() -> None:
    steps = [{"location": result("src/a.py", line)["locations"][0]} for line in (1, 2)]
    flows = [{"threadFlows": [{"locations": [*steps, {"location": 7}]}]}]
    alarm = only(log(result(codeFlows=flows, partialFingerprints={"hash/v1": "abc", "n": 1})))
    assert [(span.path, span.start) for span in alarm.flow] == [("src/a.py", 1), ("src/a.py", 2)]
    assert alarm.fingerprints == {"hash/v1": "abc"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "the file: is an array; SARIF has an object there"),
        ({}, "runs: is missing; SARIF has an array there"),
        ({"runs": [7]}, "runs[0]: is a number; SARIF has an object there"),
        ({"version": "1.0.0", "runs": []}, "version: is '1.0.0'; SARIF 2.1.0 is read"),
        (log("x"), "runs[0].results[0]: is a text; SARIF has an object there"),
        (
            log(result(), result(line="3")),
            "runs[0].results[1].locations[0].physicalLocation.region.startLine: "
            "is '3'; a line is a whole number from 1",
        ),
        (
            log({"locations": {"a": 1}}),
            "runs[0].results[0].locations: is an object; SARIF has an array there",
        ),
        ({"runs": []}, "runs: hold no alarm that is open"),
    ],
)
def test_what_is_no_sarif_gets_one_sentence_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(SarifError) as refused:
        alarms_in(value, PATHS)
    assert str(refused.value) == message


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "uri", "text", "rules", "tags", "cwe", "level", "locations", "target", "region"]
            ),
            inner,
        )
    ),
    max_leaves=8,
)


@settings(derandomize=True, deadline=None, max_examples=80)
@given(
    st.dictionaries(
        st.sampled_from([*result(), "rule", "taxa", "codeFlows", "properties", "suppressions"]), JUNK
    ),
    JUNK,
)
def test_junk_is_read_or_refused_but_never_breaks(junk: dict[str, Any], rule: Any) -> None:
    try:
        read = read_sarif(log({**result(), **junk}, rules=[rule]), paths=PATHS)
    except SarifError:
        return
    assert all(alarm.span.start >= 1 and alarm.message for alarm in read.alarms)


def test_arguments_that_name_each_other_are_filled_in_once() -> None:
    """Filled in one after the other, these would be 50 to the power of 20 characters."""
    chain = [f"{{{number + 1}}}" * 50 for number in range(20)]
    alarm = only(log(result(message={"text": "{0} and {1} and {99}", "arguments": chain})))

    assert alarm.message == f"{chain[0]} and {chain[1]} and {{99}}"


def test_a_thousand_files_of_one_name_cost_no_search_each() -> None:
    """A search through all files of a name for every alarm took 37 s of 25,000 alarms and 5,000 such files."""
    files = [f"package{number}/__init__.py" for number in range(5000)]
    alarms = log(*(result(f"/home/scan/package{number}/__init__.py") for number in range(5000)))

    found = within_cpu_seconds(2, lambda: read_sarif(alarms, paths=files)).alarms

    assert [alarm.span.path for alarm in found] == files
