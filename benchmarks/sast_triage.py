"""Bandit's alarms on small programs of ours, before and after the panel's triage.

    python benchmarks/sast_triage.py [--max-recall-lost 0.15]

Programs, labels and Bandit's SARIF as it came are in `benchmarks/data/sast_triage`. The alarms go through a whole
embedded installation: HTTP, queue, prompts, the panel, the arithmetic. The models are those of the keys in the
environment; without one the simulator answers by rules of thumb that know no labels, and what is printed says so: its
figures show that the way works, not how well models judge. The second row keeps the weaknesses that no model may
dismiss. Exit 1 when F1 does not rise or more recall is lost than allowed.

Published on other data: QASecClaw on OWASP Benchmark v1.2, F1 0.784 to 0.909 for 3.1 % of recall (arXiv 2605.01885); at
Tencent 94 to 98 % of false alarms removed, 2.1 to 109.5 s and 0.0011 to 0.12 USD an alarm (arXiv 2601.18844)."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from workers.cli.client import Client
from workers.cli.code import read_alarms, read_code
from workers.cli.run import TRIAGE_SPEC
from workers.cli.stack import Stack
from workers.sarif.read import alarms_in
from workers.settings import load

DATA = Path(__file__).parent / "data" / "sast_triage"
#: What a wrong dismissal would cost most: command and SQL injection, deserialisation.
NEVER = ("CWE-78", "CWE-89", "CWE-502")

console = Console(highlight=False, width=150)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Score:
    """Kept alarms against labels; recall is of the true alarms that the scanner raised."""

    true_kept: int
    false_kept: int
    true_in_all: int

    @property
    def precision(self) -> float:
        kept = self.true_kept + self.false_kept
        return self.true_kept / kept if kept else 0.0

    @property
    def recall(self) -> float:
        return self.true_kept / self.true_in_all

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--max-recall-lost", type=float, default=0.15, metavar="SHARE")
    options = parser.parse_args()
    fields = read_code(DATA / "programs")
    fields["sarif"] = read_alarms(DATA / "bandit.sarif", fields)
    truth = set(json.loads((DATA / "labels.json").read_text(encoding="utf-8"))["true"])
    alarms = {
        alarm.alarm_id: f"{alarm.span.path.rpartition('/')[2]}:{alarm.span.start}:{alarm.rule}"
        for alarm in alarms_in(fields["sarif"], fields["files"])
    }
    assert truth <= set(alarms.values()), f"labels without an alarm: {sorted(truth - set(alarms.values()))}"
    before = score(alarms, frozenset(), truth)
    table = Table(
        "",
        "kept",
        "false kept",
        "precision",
        "recall",
        "F1",
        "USD an alarm",
        "s an alarm",
        "model s an alarm",
    )
    table.add_row(*_cells(f"Bandit alone, {len(alarms)} alarms", before), "-", "-", "-")
    worst = best = before
    with tempfile.TemporaryDirectory(prefix="consensus-bench-", dir="/var/tmp") as folder:
        teams = _teams(Path(folder))
        # Read by the processes that the stack starts.
        os.environ["CONSENSUS_TEAMS"] = str(teams)
        settings = load(home=Path(folder), database_url=None, redis_url=None)
        stack = Stack(settings, say=lambda _: None)
        stack.start()
        try:
            with Client(stack.url) as client:
                for team, name in (
                    ("triage-bench", "any weakness"),
                    ("triage-guarded", f"never {', '.join(NEVER)}"),
                ):
                    run = _triage(client, fields, team)
                    after = score(alarms, dismissed(run), truth)
                    simulated = " (simulated)" if run["simulated"] else ""
                    table.add_row(*_cells(f"panel, {name}{simulated}", after), *_prices(run, len(alarms)))
                    worst = min(worst, after, key=lambda item: item.recall)
                    _list_losses(run, alarms, truth, name)
                    best = max(best, after, key=lambda item: item.f1)
        finally:
            stack.stop()
    console.print(table)
    lost, allowed = 1 - worst.recall / before.recall, options.max_recall_lost
    console.print(f"F1 {before.f1:.3f} -> {best.f1:.3f}; recall lost at most {lost:.3f}, allowed {allowed:g}")
    return 0 if best.f1 > before.f1 and lost <= allowed else 1


def score(alarms: dict[str, str], gone: frozenset[str], truth: set[str]) -> Score:
    """`alarms`: id to `file:line:rule`; `gone`: the ids that were dismissed."""
    kept = [name for alarm_id, name in alarms.items() if alarm_id not in gone]
    true_kept = sum(name in truth for name in kept)
    return Score(true_kept=true_kept, false_kept=len(kept) - true_kept, true_in_all=len(truth))


def dismissed(run: dict[str, Any]) -> frozenset[str]:
    claims = run["verdict"]["claims"]
    return frozenset(item["claim"]["claim_id"] for item in claims if item["state"] == "dismissed")


def _teams(folder: Path) -> Path:
    """The team, and the same with a list of weaknesses that no model may dismiss."""
    teams = folder / "teams"
    teams.mkdir()
    text = (DATA / "teams" / "triage-bench.yaml").read_text(encoding="utf-8")
    (teams / "triage-bench.yaml").write_text(text, encoding="utf-8")
    guarded = text.replace("triage-bench", "triage-guarded") + f"never_dismiss_cwe: [{', '.join(NEVER)}]\n"
    (teams / "triage-guarded.yaml").write_text(guarded, encoding="utf-8")
    return teams


def _triage(client: Client, fields: dict[str, Any], team: str) -> dict[str, Any]:
    created = client.create_run({"spec": TRIAGE_SPEC, "team": team, **fields})
    for _ in client.events(created["id"]):
        pass
    run = client.run(created["id"])
    assert run["outcome"] != "degraded", run["verdict"]["reasons"]
    return run


def _cells(name: str, after: Score) -> tuple[str, ...]:
    kept = after.true_kept + after.false_kept
    return (
        name,
        str(kept),
        str(after.false_kept),
        *(f"{value:.3f}" for value in (after.precision, after.recall, after.f1)),
    )


def _prices(run: dict[str, Any], alarms: int) -> tuple[str, str, str]:
    usage = run["usage"]
    wall = dt.datetime.fromisoformat(run["finished_at"]) - dt.datetime.fromisoformat(run["started_at"])
    cost = "no price" if usage["cost_usd"] is None else f"{usage['cost_usd'] / alarms:.5f}"
    busy = sum(seat["seconds"] for seat in usage["seats"])
    return cost, f"{wall.total_seconds() / alarms:.3f}", f"{busy / alarms:.3f}"


def _list_losses(run: dict[str, Any], alarms: dict[str, str], truth: set[str], name: str) -> None:
    gone = dismissed(run)
    for item in run["verdict"]["claims"]:
        alarm_id = item["claim"]["claim_id"]
        if alarm_id in gone and alarms[alarm_id] in truth:
            console.print(f"lost ({name}): {alarms[alarm_id]}: {item['why']}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
