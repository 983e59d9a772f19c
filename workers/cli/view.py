"""A run as the terminal shows it: events go in, a picture comes out. No clock, no network."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from workers.cli.client import RunEvent
from workers.cli.money import money, spending_text

#: What an outcome looks like, everywhere.
OUTCOME_STYLE = {
    "accepted": "bold green",
    "rejected": "bold red",
    "degraded": "bold yellow",
    "cancelled": "dim",
}
SEVERITY_STYLE = {"low": "dim", "medium": "yellow", "high": "red", "critical": "bold red"}
_RANK = {"low": 1, "medium": 2, "high": 3, "critical": 4}
STATE_STYLE = {"killed": "dim", "upheld": "red", "fixed": "green", "dismissed": "dim", "advisory": "yellow"}


#: Characters that move a cursor, change colours or turn text around: a model's words must not steer a terminal.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(value: Any) -> Any:
    """The value with every text in it safe to print; what would steer a terminal becomes U+FFFD."""
    if isinstance(value, str):
        return _STEERING.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, Mapping):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    return value


_NOTHING: Mapping[str, Any] = {
    "input_tokens": 0,
    "output_tokens": 0,
    "cost_usd": None,
    "has_estimates": False,
}


@dataclasses.dataclass(slots=True, kw_only=True)
class SeatView:
    """One seat: `state` is waiting, thinking, done or gave up."""

    stage: str
    name: str
    state: str = "waiting"
    note: str = ""
    model: str = ""
    findings: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class RunView:
    """What is known of a run so far."""

    title: str
    run_id: str = ""
    seats: dict[tuple[str, str], SeatView] = dataclasses.field(default_factory=dict)
    claims: list[Mapping[str, Any]] = dataclasses.field(default_factory=list)
    verdict: Mapping[str, Any] | None = None
    is_cancelled: bool = False
    is_simulated: bool = False
    budget_usd: float | None = None
    budget_tokens: int | None = None
    #: What the seats that have ended used; in the end, the whole run.
    spent: Mapping[str, Any] = dataclasses.field(default_factory=lambda: dict(_NOTHING))

    @property
    def outcome(self) -> str | None:
        if self.is_cancelled:
            return "cancelled"
        return None if self.verdict is None else str(self.verdict["outcome"])

    def apply(self, event: RunEvent) -> str | None:
        """Take an event in; the line to print where nothing can be redrawn, None if it is not worth one."""
        payload = clean(event.payload)
        if payload.get("simulated"):
            self.is_simulated = True
        if "usage" in payload:
            self.spent = _sum(self.spent, payload["usage"])
        handler = getattr(self, "_on_" + event.kind.replace(".", "_"), None)
        if handler is not None:
            return str(handler(payload) or "") or None
        if event.kind.endswith(".failed"):
            return self._gave_up(event.kind.removesuffix(".failed"), payload)
        return None

    def reviewers(self) -> list[SeatView]:
        return [seat for (stage, _), seat in self.seats.items() if stage == "panel"]

    def spending(self) -> str:
        """What was used so far, of which budget."""
        return spending_text(self.spent, budget_usd=self.budget_usd, budget_tokens=self.budget_tokens)

    def _on_run_created(self, payload: Mapping[str, Any]) -> None:
        self.budget_usd, self.budget_tokens = payload.get("budget_usd"), payload.get("budget_tokens")

    def _on_budget_exhausted(self, payload: Mapping[str, Any]) -> str:
        shown = money(payload["budget"]) if payload["unit"] == "usd" else f"{payload['budget']:,} tokens"
        seat = _seat_words(payload["stage"], payload["seat"])
        return f"{seat}: the {payload['scope']}'s budget of {shown} is used up"

    def _on_stage_opened(self, payload: Mapping[str, Any]) -> None:
        for name in payload["seats"]:
            self.seats[payload["stage"], name] = SeatView(stage=payload["stage"], name=name, state="thinking")

    def _on_seat_deferred(self, payload: Mapping[str, Any]) -> str:
        seat = self.seats[payload["stage"], payload["seat"]]
        seat.note = f"waiting {payload['wait_seconds']:g} s for its provider"
        return f"{_seat_words(seat.stage, seat.name)}: {seat.note} ({payload['detail']})"

    def _on_tool_called(self, payload: Mapping[str, Any]) -> None:
        seat = self.seats.get((payload["stage"], payload["seat"]))
        if seat is not None:
            seat.note = f"called {payload['server']}.{payload['tool']}"

    def _on_tool_missing(self, payload: Mapping[str, Any]) -> str:
        seat = _seat_words(payload["stage"], payload["seat"])
        return f"{seat}: no tools of {payload['server']} ({payload['cause']})"

    def _done(self, stage: str, payload: Mapping[str, Any], note: str) -> SeatView:
        seat = self.seats.setdefault((stage, payload["seat"]), SeatView(stage=stage, name=payload["seat"]))
        seat.state, seat.note = "done", note + _detours(payload)
        seat.model = str(payload.get("model_served") or payload.get("model") or "")
        return seat

    def _on_candidate_written(self, payload: Mapping[str, Any]) -> str:
        lines = sum(len(text.splitlines()) for text in payload["files"].values())
        seat = self._done("coder", payload, f"{', '.join(payload['files'])} ({lines} lines)")
        return f"coder {seat.model} wrote {seat.note}"

    def _on_candidate_submitted(self, payload: Mapping[str, Any]) -> str:
        lines = sum(len(text.splitlines()) for text in payload["files"].values())
        left_out = f", {len(payload['left_out'])} left out" if payload["left_out"] else ""
        seat = self._done(
            "coder", payload, f"{counted(len(payload['files']), 'file')} submitted ({lines} lines){left_out}"
        )
        return f"code: {seat.note}; no coder is asked"

    def _on_review_arrived(self, payload: Mapping[str, Any]) -> str:
        count = len(payload["findings"])
        seat = self._done("panel", payload, counted(count, "finding"))
        seat.findings = count
        return f"review by {seat.name} ({seat.model}): {seat.note}"

    def _on_review_abstained(self, payload: Mapping[str, Any]) -> str:
        self._gave_up("panel", payload)
        return f"review by {payload['seat']}: abstained, {payload['cause']}"

    def _on_consensus_counted(self, payload: Mapping[str, Any]) -> str:
        self.claims = list(payload["claims"])
        thrown = len(payload["unsupported"])
        note = counted(len(self.claims), "claim")
        if thrown:
            note += f", {counted(thrown, 'finding')} without evidence thrown away"
        self._done("consensus", payload, note)
        return f"consensus: {note}; agreement {self.agreement()}"

    def _on_claim_refuted(self, payload: Mapping[str, Any]) -> str:
        word = str(payload["standing"])
        if payload["void"]:
            word = f"survived, the kill is void: {payload['void']}"
        elif word == "killed":
            word = f"killed, {payload['ground']}: {payload['reason']}"
        seat = self._done("refute", payload, word[:200])
        return f"refuter {seat.model} on {payload['claim']}: {seat.note}"

    def _on_claim_tested(self, payload: Mapping[str, Any]) -> str:
        word = str(payload["proof"]).replace("_", " ")
        seat = self._done("gate", payload, f"{word}: {payload['detail']}"[:200])
        seat.model = str(payload.get("prover", {}).get("model_served", ""))
        return f"gate on {payload['claim']}: {seat.note}"

    def _on_round_opened(self, payload: Mapping[str, Any]) -> str:
        self.seats.clear()
        self.claims = []
        return f"round {payload['round']}: sent back with {counted(len(payload['standing']), 'reproduced claim')}"

    def _on_lead_signed(self, payload: Mapping[str, Any]) -> str:
        word = "sent back" if payload.get("decision") == "send_back" else "signed"
        seat = self._done("lead", payload, str(payload["summary"])[:200])
        return f"lead {seat.model} {word}: {seat.note}"

    def _gave_up(self, stage: str, payload: Mapping[str, Any]) -> str:
        seat = self.seats.setdefault((stage, payload["seat"]), SeatView(stage=stage, name=payload["seat"]))
        seat.state, seat.note = "gave up", str(payload["cause"])
        return f"{stage} gave up: {payload['cause']}: {payload['detail']}"

    def _on_run_finished(self, payload: Mapping[str, Any]) -> str:
        self.verdict = payload
        self.spent = payload.get("spending", self.spent)
        return f"verdict: {payload['outcome']}"

    def _on_run_cancelled(self, _: Mapping[str, Any]) -> str:
        self.is_cancelled = True
        return "cancelled"

    def agreement(self) -> str:
        """The highest agreement on any claim: "0.6 (3 of 5)", or "-"."""
        if not self.claims:
            return "-"
        best = max(self.claims, key=lambda claim: (claim["agreement"], claim["weighted_agreement"]))
        valid = sum(seat.state == "done" for seat in self.reviewers())
        return f"{best['agreement']:g} ({len(best['flagged_by'])} of {valid})"

    def names(self) -> Text:
        """The panel by name: who has arrived (with findings or without), abstained or is still thinking."""
        text = Text()
        for seat in self.reviewers():
            style = {"done": "cyan" if seat.findings else "green", "gave up": "yellow strike"}.get(
                seat.state, "dim"
            )
            text.append(seat.name, style=style)
            text.append(" ")
        return text

    def marks(self) -> Text:
        """The panel in one character a reviewer: filled when arrived, a cross when it abstained."""
        text = Text()
        for seat in self.reviewers():
            mark, style = {"done": ("●", "green"), "gave up": ("✗", "yellow")}.get(seat.state, ("○", "dim"))
            text.append(mark, style=style if not seat.findings else "cyan")
        return text

    def reason(self) -> str:
        """Why the run ended as it did, in a few words."""
        if self.verdict is None:
            return ""
        if self.verdict["reasons"]:
            return "; ".join(f"{item['code']} ({item['cause']})" for item in self.verdict["reasons"])
        judged = sorted(self.verdict["claims"], key=lambda item: -_RANK[item["claim"]["severity"]])
        standing = [item for item in judged if item["stands"]]
        if self.outcome == "rejected":
            if not standing:
                return f"fails {', '.join(self.verdict['tests']['red_submitted'])}"
            return f"{standing[0]['claim']['text']} ({standing[0]['why']})"
        untested = [item for item in judged if item["state"] == "advisory" and item["is_agreed"]]
        killed = sum(item["state"] == "killed" for item in judged)
        shown_false = sum(item["why"].startswith("shown false") for item in judged)
        fixed = sum(item["state"] == "fixed" for item in judged)
        short = sum(
            item["state"] in {"advisory", "dismissed"}
            and not item["is_agreed"]
            and not item["why"].startswith("shown false")
            for item in judged
        )
        untried = sum(item["state"] == "fixed" and item["why"].endswith("not tested") for item in judged)
        parts = [f"{counted(fixed, 'claim')} fixed" + _not_tested(untried, of=fixed)] if fixed else []
        parts += [f"{counted(killed, 'claim')} killed"] if killed else []
        parts += [f"{counted(shown_false, 'claim')} shown false by a test"] if shown_false else []
        parts += [f"low: {item['claim']['text']}" for item in standing]
        parts += [f"agreed but untested, {i['claim']['severity']}: {i['claim']['text']}" for i in untested]
        parts += [f"{counted(short, 'claim')} short of the quorum"] if short else []
        return "; ".join(parts) or "no claim"

    def stage_word(self) -> str:
        """Where the run is now."""
        if self.outcome:
            return self.outcome
        busy = [seat for seat in self.seats.values() if seat.state == "thinking"]
        return busy[-1].stage if busy else "queued"


def _detours(payload: Mapping[str, Any]) -> str:
    """Which models failed before this one answered, and whether the cheap ones had to go first."""
    tried = ", ".join(f"{item['model']} ({item['cause']})" for item in payload.get("fallback", ()))
    words = f"; after {tried}" if tried else ""
    return words + ("; quota is low" if payload.get("low_quota") else "")


def _not_tested(number: int, *, of: int) -> str:
    if not number:
        return ""
    return ", not tested" if number == of else f", {number} of them not tested"


def _seat_words(stage: str, seat: str) -> str:
    return stage if stage == seat else f"{stage} {seat}"


def heading(view: RunView, outcome: str | None = None) -> Text:
    """What stands on the edge of a run's panel. One that is too long loses the end of its title, never a mark."""
    text = Text(overflow="ellipsis")
    if outcome is not None:
        text.append(f"{outcome} ", style=OUTCOME_STYLE[outcome])
    if view.is_simulated:
        text.append("simulated ", style="magenta")
    return text.append(view.title)


def label(view: RunView) -> str:
    return " [magenta]simulated[/]" if view.is_simulated else ""


def outcome_text(outcome: str | None) -> Text:
    return Text(outcome or "running", style=OUTCOME_STYLE.get(outcome or "", "cyan"))


def live_panel(view: RunView, *, spinner: str) -> RenderableType:
    """One run while it is under way: a row a seat."""
    table = Table.grid(padding=(0, 2))
    for seat in view.seats.values():
        mark = {"done": "[green]✓[/]", "gave up": "[yellow]✗[/]", "thinking": f"[cyan]{spinner}[/]"}.get(
            seat.state, "·"
        )
        note = seat.note or ("thinking …" if seat.state == "thinking" else "")
        table.add_row(mark, seat.stage if seat.stage != "panel" else "  reviewer", seat.name, escape(note))
    return Panel(
        Group(table, Text(f"agreement {view.agreement()} · {view.spending()}", style="dim")),
        title=heading(view),
        subtitle=view.run_id,
        border_style="cyan",
    )


#: Columns from which on a table of runs has room for the names of their reviewers.
_WIDE = 140


def overview(views: Sequence[RunView], *, is_final: bool, width: int) -> Table:
    """Many runs, one a row, for a terminal of `width` columns."""
    table = Table(expand=True, pad_edge=False, box=None)
    table.add_column("run", no_wrap=True)
    table.add_column("panel", no_wrap=True)
    table.add_column("agreement", no_wrap=True)
    table.add_column("verdict" if is_final else "now", no_wrap=True)
    table.add_column("why", ratio=1, overflow="fold" if is_final else "ellipsis", no_wrap=not is_final)
    for view in views:
        table.add_row(
            escape(view.title) + label(view),
            view.marks() if is_final or width < _WIDE else view.names(),
            view.agreement(),
            Text(view.stage_word(), style=OUTCOME_STYLE.get(view.outcome or "", "cyan")),
            escape(view.reason()),
        )
    return table


def _sum(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    costs = [item["cost_usd"] for item in (one, other) if item["cost_usd"] is not None]
    return {
        "input_tokens": one["input_tokens"] + other["input_tokens"],
        "output_tokens": one["output_tokens"] + other["output_tokens"],
        "cost_usd": sum(costs) if costs else None,
        "has_estimates": one["has_estimates"] or other["has_estimates"],
    }


def counted(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
