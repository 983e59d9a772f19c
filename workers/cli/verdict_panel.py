"""The end of one run as the terminal shows it: claims, reasons, coverage, and what was done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from workers.cli.money import money
from workers.cli.view import (
    OUTCOME_STYLE,
    SEVERITY_STYLE,
    STATE_STYLE,
    RunView,
    counted,
    heading,
    outcome_text,
)

#: A verdict's notes in plain words.
NOTE_WORDS = {
    "code_submitted": "the code was given, no coder was asked",
    "only_alarms_judged": "the scanner's alarms were judged, nothing else was looked for",
    "reduced_diversity": "fewer model families looked than the team wants, or one shares the coder's model",
    "fix_unverified": "no test has shown that what the lead fixed is mended",
    "override": "the lead dismissed what a test had reproduced, and gave its reason",
    "no_tests": "the team runs tests, but there were none; give yours with --tests (those in --code are only read)",
    "unguarded_proof": "no test of somebody else guarded the control of a proof",
    "tampering": "the code reached for its tests' report in the cage",
    "tests_failing": "tests fail on the signed code",
    "rewrite_discarded": "the lead's version broke what was green and was discarded",
    "oscillation": "the coder came back to where it had been, so no other round was opened",
    "injection_found": "text in the code addresses its reviewers; it is listed and changes no verdict",
}


def verdict_panel(view: RunView) -> RenderableType:
    """The end of one run: claims, reasons, coverage."""
    verdict = view.verdict
    if verdict is None:
        return Panel(outcome_text(view.outcome), title=heading(view))
    parts: list[RenderableType] = []
    for reason in verdict["reasons"]:
        parts.append(Text(f"{reason['code']}: {reason['detail']}", style="yellow"))
    if verdict["claims"]:
        parts.append(_claims_table(verdict["claims"], valid=verdict["coverage"]["valid_reviews"]))
    coverage = verdict["coverage"]
    missing = ", ".join(f"{item['reviewer']} ({item['cause']})" for item in coverage["abstained"])
    receipt = f"{coverage['valid_reviews']} of {coverage['panel_size']} reviews"
    receipt += f"; missing: {missing}" if missing else ""
    if coverage["unsupported_findings"]:
        receipt += f"; {counted(coverage['unsupported_findings'], 'finding')} without evidence not counted"
    receipt += _not_reviewed(coverage)
    notes = [f"{note}: {NOTE_WORDS[note]}" if note in NOTE_WORDS else note for note in verdict["notes"]]
    parts += [Text(line, style="dim") for line in [receipt, *_weights(verdict), *notes, *_work_done(verdict)]]
    outcome = str(view.outcome)
    return Panel(
        Group(*parts),
        title=heading(view, outcome),
        subtitle=view.run_id,
        border_style=OUTCOME_STYLE[outcome],
    )


def _not_reviewed(coverage: Mapping[str, Any]) -> str:
    """What nobody, or too few, looked at."""
    parts = []
    for name, words in (("not_reviewed", "not reviewed"), ("thinly_reviewed", "seen by too few")):
        spans = coverage.get(name, ())
        shown = ", ".join(f"{span['path']}:{span['start']}-{span['end']}" for span in spans[:5])
        if spans:
            parts.append(f"{words}: {shown}" + (f" and {len(spans) - 5} more" if len(spans) > 5 else ""))
    left_out = coverage.get("left_out", ())
    shown = ", ".join(f"{item['path']} ({item['reason']})" for item in left_out[:5])
    if left_out:
        parts.append(f"left out: {shown}" + (f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""))
    return "".join(f"; {part}" for part in parts)


def _weights(verdict: Mapping[str, Any]) -> list[str]:
    """What each word weighed, and by which record, where there is one."""
    shown = ", ".join(
        f"{item['reviewer']} {item['weight']:g} ({item['upheld']} of {item['upheld'] + item['refuted']} upheld)"
        for item in verdict.get("weights", ())
    )
    return [f"weights: {shown}"] if shown else []


def _work_done(verdict: Mapping[str, Any]) -> list[str]:
    """What refuters, gate, tests and rounds did, a line each, where they did something."""
    lines = []
    if (refuted := verdict.get("refutation")) is not None:
        line = f"refuters: {refuted['killed']} of {counted(refuted['asked'], 'claim')} killed"
        line += f", {counted(refuted['void'], 'kill')} void" if refuted["void"] else ""
        line += f", {len(refuted['unanswered'])} without an answer" if refuted["unanswered"] else ""
        lines.append(line)
    if (gate := verdict.get("gate")) is not None:
        counts = ("reproduced", "not_reproduced", "inconclusive", "unprovable")
        done = ", ".join(f"{gate[name]} {name.replace('_', ' ')}" for name in counts if gate[name])
        undecided = ", ".join(f"{claim} {reason.replace('_', ' ')}" for claim, reason in gate["undecided"])
        lines.append(f"gate: {done or 'nothing tested'}" + (f" ({undecided})" if undecided else ""))
        lines += _without_a_cage(verdict)
    for cost in verdict.get("costs", ()):
        price = "" if cost["cost_usd"] is None else f", {money(cost['cost_usd'])}"
        lines.append(f"{counted(cost['claims'], 'claim')} {cost['state']}: {cost['seconds']:g} s{price}")
    if (tests := verdict.get("tests")) is not None:
        red = tests["red_after"]
        names = (
            ": " + ", ".join(red[:5]) + (f" and {len(red) - 5} more" if len(red) > 5 else "") if red else ""
        )
        lines.append(
            f"tests: {len(tests['green_after'])} green, {len(red)} red{names}"
            + (f" ({tests['problem']})" if tests["problem"] else "")
        )
    if (rounds := verdict.get("rounds")) is not None:
        lines.append(f"{counted(rounds['count'], 'round')}, {rounds['stopped'].replace('_', ' ')}")
    return lines


def _without_a_cage(verdict: Mapping[str, Any]) -> list[str]:
    """Why there was no cage, and what would give one: said once, not once a claim. A reason may have said it."""
    told = {reason["detail"] for reason in verdict["reasons"]}
    proofs = [item["proved"] for item in verdict["claims"] if item.get("proved")]
    details = {proof["detail"]: None for proof in proofs if proof["reason"] in ("no_sandbox", "cage_failed")}
    return [detail for detail in details if detail not in told][:1]


def _claims_table(judged: list[Mapping[str, Any]], *, valid: int) -> Table:
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("", no_wrap=True)
    table.add_column("severity", no_wrap=True)
    table.add_column("agreement", no_wrap=True)
    table.add_column("by weight", no_wrap=True)
    # Folded, not cut: a place or a quote without its end is none.
    table.add_column("claim", ratio=3, overflow="fold")
    table.add_column("why", ratio=2, style="dim", overflow="fold")
    for item in judged:
        claim = item["claim"]
        span = claim["span"]
        table.add_row(
            f"[{STATE_STYLE[item['state']]}]{item['state']}[/]",
            f"[{SEVERITY_STYLE[claim['severity']]}]{claim['severity']}[/]",
            f"{claim['agreement']:g} ({len(claim['flagged_by'])} of {valid})",
            f"{claim['weighted_agreement']:g}",
            escape(f"{claim['text']} ({span['path']}:{span['start']})"),
            escape(item["why"]),
        )
    return table
