"""Dashboard, alerts and the page about them speak of metrics that exist, with the labels they have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from tests.exported_metrics import OF_A_TARGET, exported

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "ops/grafana/consensus.json"
ALERTS = ROOT / "ops/prometheus/alerts.yml"
EXAMPLE = ROOT / "ops/prometheus/prometheus.yml"
PAGE = ROOT / "docs/operations.md"

#: What Grafana puts in the place of its own variable.
_INTERVAL = {"$__rate_interval": "1m"}


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """(where it stands, the expression)"""
    for panel in panels():
        for target in panel["targets"]:
            yield f"panel {panel['title']!r}", target["expr"]
    for rule in rules():
        yield f"alert {rule['alert']}", rule["expr"]


def faults(expression: str) -> list[str]:
    """What an expression says that the code does not: unknown metrics, unknown labels, values no metric takes."""
    for variable, text in _INTERVAL.items():
        expression = expression.replace(variable, text)
    return list(_faults(promql.parse(expression)))


def _faults(node: Any) -> Iterator[str]:
    if isinstance(node, promql.VectorSelector):
        labels = KNOWN.get(node.name)
        if labels is None:
            yield f"no metric {node.name}"
            return
        used = {matcher.name for matcher in node.matchers.matchers}
        yield from (f"{node.name} has no label {label}" for label in used - labels - OF_A_TARGET)
    elif isinstance(node, promql.AggregateExpr):
        yield from _faults(node.expr)
        available = _labels(node.expr)
        if node.modifier is not None:
            unknown = set(node.modifier.labels) - available
            yield from (f"nothing to group by {label} in {node.expr}" for label in unknown)
    else:
        for child in _children(node):
            yield from _faults(child)


def _labels(node: Any) -> frozenset[str]:
    """The labels that an expression's result can have."""
    if isinstance(node, promql.VectorSelector):
        return KNOWN.get(node.name, frozenset()) | OF_A_TARGET
    if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
        named = frozenset(node.modifier.labels)
        is_by = node.modifier.type == promql.AggModifierType.By
        return named if is_by else _labels(node.expr) - named
    return frozenset().union(*(map(_labels, _children(node))))


def _children(node: Any) -> list[Any]:
    if isinstance(node, promql.BinaryExpr):
        return [node.lhs, node.rhs]
    if isinstance(node, promql.Call):
        return list(node.args)
    if isinstance(node, promql.MatrixSelector):
        return [node.vector_selector]
    if isinstance(node, promql.NumberLiteral | promql.StringLiteral):
        return []
    return [node.expr]


KNOWN = exported()


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("rate(consensus_calls_total[5m])", []),
        ("rate(consensus_call_total[5m])", ["no metric consensus_call_total"]),
        ('consensus_calls_total{seat="left"}', ["consensus_calls_total has no label seat"]),
        (
            "sum by (stage) (consensus_cost_usd_total)",
            ["nothing to group by stage in consensus_cost_usd_total{}"],
        ),
        ("sum by (job) (up)", []),
        (
            "histogram_quantile(0.9, sum by (le, stage) (rate(consensus_stage_duration_seconds_bucket[5m])))",
            [],
        ),
    ],
)
def test_the_check_sees_what_does_not_exist(expression: str, found: list[str]) -> None:
    assert faults(expression) == found


def test_dashboard_and_alerts_name_only_metrics_and_labels_that_are_exported() -> None:
    wrong = {where: found for where, expression in expressions() if (found := faults(expression))}

    assert wrong == {}


def test_every_legend_and_sentence_names_labels_that_its_expression_leaves() -> None:
    texts = [
        (panel["title"], target["legendFormat"], target["expr"])
        for panel in panels()
        if panel["type"] == "timeseries"
        for target in panel["targets"]
    ]
    texts += [(rule["alert"], rule["annotations"]["summary"], rule["expr"]) for rule in rules()]
    wrong = []
    for where, text, expression in texts:
        named = set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", text))
        left = _labels(promql.parse(expression.replace("$__rate_interval", "1m")))
        wrong += [f"{where}: {label}" for label in named - left]

    assert wrong == []


def test_every_metric_of_ours_is_on_the_dashboard_or_in_an_alert() -> None:
    said = "\n".join(expression for _, expression in expressions())
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in KNOWN if name.startswith("consensus_")}

    assert {name for name in families if name not in said} == set()


def test_every_alert_has_a_section_that_says_what_to_do() -> None:
    sections = re.findall(r"^### (\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert sections == [rule["alert"] for rule in rules()]
    for rule in rules():
        assert rule["annotations"]["runbook"] == f"docs/operations.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in {"page", "warn"}


def test_the_jobs_that_alerts_name_are_those_of_the_example() -> None:
    example = yaml.safe_load(EXAMPLE.read_text())
    jobs = {job["job_name"] for job in example["scrape_configs"]}
    named = {job for rule in rules() for job in re.findall(r'job="([^"]+)"', rule["expr"])}

    assert named == jobs
    assert example["rule_files"] == [ALERTS.name]


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert max(x for x, _ in cells) < 24


def test_the_limits_of_the_page_are_the_code_s() -> None:
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8").split("## Limits")[1].split("\n## ")[0]
    rows = re.findall(r"^\| [^|]+ \| ([\d,]+)[^|]* \| `(\w+)` in `([\w/]+)\.py` \|$", page, re.MULTILINE)
    assert len(rows) == page.count("\n| ") - 1 > 15
    told = {(file, name): int(number.replace(",", "")) for number, name, file in rows}
    assert told == {(file, name): getattr(import_module(file.replace("/", ".")), name) for file, name in told}
