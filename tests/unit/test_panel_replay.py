"""The count of the panel benchmark, by hand: what is right strictly, leniently and counted once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.panel_replay import counts, figures, judge, panels_of, read_changes, records_of
from workers.core.weights import Record


@pytest.fixture
def data(tmp_path: Path) -> Path:
    def said(reviewer: str, *matches: str) -> dict[str, object]:
        return {"reviewer": reviewer, "text": f"remark of {reviewer}", "matches": list(matches)}

    path = tmp_path / "remarks.jsonl"
    change = {
        "pr": "p/1",
        "project": "p",
        "golden": [{"id": "G0"}, {"id": "G1"}],
        "reviewers": ["a", "b", "c"],
        # a/1/1, a/1/2, b/1/1, c/1/1
        "comments": [said("a", "G0"), said("a"), said("b", "G0", "G1"), said("c")],
    }
    path.write_text(json.dumps(change) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("claim", "found", "touched"),
    [
        (["a/1/1"], "G0", {"G0"}),
        (["a/1/2"], None, set()),
        (["a/1/1", "b/1/1"], "G0", {"G0", "G1"}),  # both match G0; G1 is not found by it
        (["a/1/1", "c/1/1"], None, {"G0"}),  # 1 of 2 is not more than half
        (["b/1/1", "c/1/1", "a/1/1"], "G0", {"G0", "G1"}),  # 2 of 3
        (["a/1/1", "a/1/2"], "G0", {"G0"}),  # reviewers are counted, not remarks
        (["b/1/1"], "G0", {"G0", "G1"}),  # it finds one of the two, the first by name
    ],
)
def test_a_claim_is_right_if_most_of_its_reviewers_match_one_issue(
    data: Path, claim: list[str], found: str | None, touched: set[str]
) -> None:
    (change,) = read_changes(data)
    judged = judge(change, claim)
    assert (judged.found, judged.touched) == (found, touched)


def test_figures_by_hand(data: Path) -> None:
    (change,) = read_changes(data)
    # Four claims of single remarks: three promoted, two strictly right (G0 twice), one issue of two found.
    table = counts(change, [["a/1/1"], ["b/1/1"], ["c/1/1"]])
    assert table.tolist() == [3, 2, 1, 2, 2]
    result = figures(table, 2)
    assert result.precision == pytest.approx(2 / 3)
    assert result.recall == pytest.approx(1 / 2)
    assert result.strict == pytest.approx(4 / 7)  # 2·(2/3)(1/2) / (7/6)
    assert result.lenient == pytest.approx(4 / 5)  # 2/3 and 2/2
    assert result.once == pytest.approx(2 / 5)  # the second G0 is a false alarm: 1/3 and 1/2


def test_nothing_promoted_is_no_division_by_zero() -> None:
    assert float(figures(np.zeros(5), 0).strict) == 0.0


def test_records_count_matched_remarks_as_upheld(data: Path) -> None:
    assert records_of(read_changes(data)) == {
        "a": Record(upheld=1, refuted=1),
        "b": Record(upheld=1, refuted=0),
        "c": Record(upheld=0, refuted=1),
    }


def test_panels_are_all_or_a_fixed_sample() -> None:
    assert len(panels_of("abcde", 3)) == 10
    assert panels_of("abcde", 3, at_most=4) == panels_of("abcde", 3, at_most=4)
    assert len(panels_of("abcde", 3, at_most=4)) == 4


@pytest.mark.parametrize("text", ["", "{}", "[1]", "no json", '{"pr": "x", "project": "p"}'])
def test_a_file_of_something_else_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"other\.jsonl"):
        read_changes(path)
