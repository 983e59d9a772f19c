"""The report page: nothing in a log can act in it, it needs no network, and it stays small."""

from __future__ import annotations

import io
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.recorded_runs import CHECK, FIX, LOOK, search, write_cohort, write_run
from tests.unit.cli.scoring import scored
from workers.agentlens.tier import Tier
from workers.scoring.page import DETAILED, REASONS, select, write_html

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}"
_VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})


class Page(HTMLParser):
    """Counts elements, gathers attributes, and checks that all are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.counts: dict[str, int] = {}
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def values(self, tag: str, name: str) -> list[str]:
        return [value for of, attribute, value in self.attributes if (of, attribute) == (tag, name)]


def page(folder: Path, spool: Path) -> Page:
    out = io.BytesIO()
    write_html(scored(folder, spool), out)
    return Page(out.getvalue().decode())


def test_every_part_of_the_report_is_there(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    (folder / "broken.json").write_text("{")
    report = page(folder, tmp_path / "spool")
    assert report.open == []
    for words in (
        "Process scores of 10 runs",
        "it does not replace them",
        "Rank by pass rate, rank by quality",
        "Tiers by model",
        "Leaderboard",
        "Deployment risk",
        "Lucky mechanisms",
        "Every run, by what is most telling about it",
        "broken.json: not JSON",
        "minimal and unverified",
        "Reference tree of 4 other passing runs",
    ):
        assert words in report.text, words
    assert report.values("details", "class").count("run") == 10
    assert {"E", "I", "V"} <= set(report.values("rect", "class"))
    assert "ring" in report.values("circle", "class")


def test_text_of_a_log_cannot_act_in_the_page(tmp_path: Path) -> None:
    for number in range(4):
        write_run(
            tmp_path / f"runs/{number}_pta.json",
            search(f"name_{number}"),
            ("run_in_terminal", {"command": f"cat '{EVIL}' \x1b[31m"}),
            ("read_file", {"filePath": f"/testbed/{EVIL}.py"}),
            FIX,
            CHECK,
            model=EVIL,
            problem=EVIL,
        )
    (tmp_path / "runs/<b>bad<b>.json").write_text("{")
    report = page(tmp_path / "runs", tmp_path / "spool")
    assert report.open == []
    assert report.counts["script"] == 1
    assert "img" not in report.counts
    assert not [name for _, name, _ in report.attributes if name.startswith("on")]
    assert "&lt;script&gt;alert(1)" in report.text
    assert "{{ 7*7 }}" in report.text
    assert "\x1b" not in report.text
    assert EVIL in report.values("details", "data-model")


def test_the_page_needs_and_allows_no_network(tmp_path: Path) -> None:
    report = page(write_cohort(tmp_path / "runs"), tmp_path / "spool")
    assert "default-src 'none'" in report.values("meta", "content")[0]
    assert not [item for item in report.attributes if item[1] in ("src", "href", "action", "srcset")]
    assert not re.search(r"https?://|url\(|@import|fetch\(|XMLHttp", report.text)


def test_a_big_cohort_shows_a_bounded_number_of_runs_and_says_which(tmp_path: Path) -> None:
    for number in range(DETAILED + 12):
        write_run(
            tmp_path / f"runs/{number}_pta.json", search(f"n{number}"), LOOK, FIX, passed=number % 3 > 0
        )
    report = page(tmp_path / "runs", tmp_path / "spool")
    assert report.values("details", "class").count("run") == DETAILED
    assert f"{DETAILED} of {DETAILED + 12} runs, those that have most to tell" in report.text


def test_a_run_of_thousands_of_steps_is_cut_in_the_picture(tmp_path: Path) -> None:
    write_run(tmp_path / "runs/long_pta.json", *(search(f"name_{n}") for n in range(1500)))
    report = page(tmp_path / "runs", tmp_path / "spool")
    assert "The first 400 of 1,500 steps." in report.text
    assert len(report.text) < 400_000


def test_runs_without_any_outcome_make_a_page_without_a_leaderboard(tmp_path: Path) -> None:
    write_run(tmp_path / "runs/a_pta.json", LOOK, problem=None, model=None, passed=None)
    write_run(tmp_path / "runs/empty_pta.json", problem=None, model=None, passed=None)
    report = page(tmp_path / "runs", tmp_path / "spool")
    assert report.open == []
    assert "Leaderboard" not in report.text
    assert "no outcome" in report.text
    assert "The run has no step." in report.text


def test_reasons_take_turns_and_no_run_is_shown_twice(tmp_path: Path) -> None:
    cohort = scored(write_cohort(tmp_path / "runs"), tmp_path / "spool")
    all_of_them = select(cohort.runs, 100)
    assert len({id(run) for _, run in all_of_them}) == len(cohort.runs) == len(all_of_them)
    few = select(cohort.runs, 3)
    assert len(few) == 3
    assert next(run.tier for reason, run in few if reason == "Lucky pass") is Tier.LUCKY
    order = list(REASONS)
    assert [order.index(reason) for reason, _ in few] == sorted(order.index(reason) for reason, _ in few)


def test_the_same_runs_make_the_same_page(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    assert page(folder, tmp_path / "one").text == page(folder, tmp_path / "two").text


@pytest.mark.parametrize("name", ["page.html", "page.css", "page.js"])
def test_the_parts_of_the_page_are_package_data(name: str) -> None:
    import tomllib

    config = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert f"*{Path(name).suffix}" in config["tool"]["setuptools"]["package-data"]["*"]
    assert (Path(__file__).parents[3] / "workers/scoring" / name).is_file()


def test_a_step_is_shown_as_it_was_typed_and_what_it_is_compared_as_below(tmp_path: Path) -> None:
    for number in range(3):
        write_run(tmp_path / f"runs/{number}_pta.json", search(f"n{number}"), LOOK, FIX, CHECK)
    report = page(tmp_path / "runs", tmp_path / "spool")
    assert "cd /testbed &amp;&amp; pytest tests/test_core.py" in report.text
    assert "compared as pytest tests/test_core.py" in report.text


def test_without_problems_no_figure_within_problems_is_shown(tmp_path: Path) -> None:
    for number in range(4):
        write_run(
            tmp_path / f"runs/{number}_pta.json",
            search(f"n{number}"),
            FIX,
            problem=None,
            passed=number % 2 > 0,
        )
    report = page(tmp_path / "runs", tmp_path / "spool")
    assert "<b>0</b><span>problems</span>" in report.text
    assert "<b>–</b><span>AUROC within problems</span>" in report.text
    assert not re.search(r"\b(nan|inf|None)\b", report.text)


def test_copies_and_skipped_records_are_told_and_in_no_figure(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    shutil.copy(folder / "0/sound_pta.json", folder / "0/sound_copy_pta.json")
    (folder / "rows.jsonl").write_text('{"messages": [{"role": "user", "content": "x"}]}\n{\n')
    report = page(folder, tmp_path / "spool")
    assert "Process scores of 11 runs" in report.text
    assert "1 run given again, counted once: sound_copy in 0/sound_copy_pta.json" in report.text
    assert "1 record could not be read and is in no figure" in report.text
    assert "rows.jsonl: line 2: not JSON" in report.text
