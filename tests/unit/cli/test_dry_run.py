"""`run --dry-run` without any server, and how spending reads."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.factories import make_price
from workers.cli.client import RunEvent
from workers.cli.dry_run import estimate_here, print_estimate
from workers.cli.main import execute
from workers.cli.money import above_budget, money, spending_text, usage_line
from workers.cli.view import RunView, live_panel

PRICE = make_price("3", "15")
DEAR = make_price("300", "15000")


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONSENSUS_HOME", str(tmp_path / "home"))
    file = tmp_path / "spec.md"
    file.write_text("Write slugify(text).", encoding="utf-8")
    return file


def test_a_dry_run_needs_no_server_and_ends_well(spec: Path, capsysbinary: Any) -> None:
    assert execute(["run", str(spec), "--dry-run", "--json"]) == 0
    estimate = json.loads(capsysbinary.readouterr().out)
    assert (estimate["dry_run"], estimate["simulated"], estimate["team"]) == (True, True, "consensus")
    assert len(estimate["seats"]) == 11
    assert not (spec.parent / "home").exists()


@pytest.mark.parametrize("name", ["a.py", "a.diff"])
def test_a_dry_run_of_existing_code_has_no_coder(spec: Path, capsysbinary: Any, name: str) -> None:
    code = spec.parent / name
    code.write_text("--- a/a.py\n+++ b/a.py\n@@ -0,0 +1 @@\n+x = 1\n", encoding="utf-8")
    assert execute(["run", str(spec), "--code", str(code), "--dry-run", "--json"]) == 0
    estimate = json.loads(capsysbinary.readouterr().out)
    assert {seat["stage"] for seat in estimate["seats"]} == {"panel", "consensus", "refute", "gate", "lead"}


def test_spec_and_code_cannot_both_come_from_standard_input(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Do it.")))
        assert execute(["run", "-", "--code", "-", "--dry-run"]) == 3
    assert "SPEC and --code are both -" in capsys.readouterr().err


def test_a_dry_run_prints_a_table(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", str(spec), "--dry-run", "--budget-tokens", "1000000"]) == 0
    out = capsys.readouterr().out
    assert "Nothing was sent" in " ".join(out.split())
    assert "fits the budget of 1,000,000 tokens" in out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--budget-usd", "0"], "--budget-usd is 0; give US dollars from 0.000001 to 999,999.999999"),
        (["--budget-usd", "1e30"], "--budget-usd is 1e+30; give US dollars from 0.000001 to 999,999.999999"),
        # Less than the millionth of a dollar that budgets are counted in.
        (["--budget-usd", "1e-9"], "--budget-usd is 1e-09; give US dollars from 0.000001"),
        (["--budget-tokens", "9007199254740993"], "give from 1 to 9007199254740992 tokens"),
        (["--budget-usd", "nan"], "--budget-usd is nan"),
        (["--budget-usd", "inf"], "--budget-usd is inf"),
        (["--budget-tokens", "-3"], "--budget-tokens is -3; give from 1 to"),
        (["--budget-tokens", "5", "--team", "nobody"], "there is no team 'nobody'"),
    ],
)
def test_a_wrong_budget_is_refused_in_one_sentence(
    spec: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    assert execute(["run", str(spec), "--dry-run", *options]) == 3
    assert sentence in capsys.readouterr().err


def printed(estimate: dict[str, Any]) -> str:
    console = Console(width=80, record=True, file=io.StringIO())
    print_estimate(estimate, console)
    return console.export_text()


def body(**changes: Any) -> dict[str, Any]:
    return {"spec": "Write slugify(text).", "team": "consensus", **changes}


def test_the_table_fits_80_columns_and_shows_seats_totals_and_the_budget() -> None:
    text = printed(estimate_here(body(budget_usd=5), {"OPENAI_API_KEY": "k"}, lambda *_: PRICE))
    assert max(map(len, text.splitlines())) <= 80
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    assert rows["rigor"][1] == "openai/gpt-6.2-sol"
    # 2 x 8000 and 6 x 4096 tokens at most, 12 refuters of 2048, 6 provers of 4096 and 6 controls of 8000.
    assert rows["total"][3] == "137,728"
    assert "fits the budget of $5.0000" in text


def test_no_number_of_the_table_is_ever_cut() -> None:
    text = printed(
        estimate_here(body(files={"a.py": "x = 1\n" * 200_000}), {"OPENAI_API_KEY": "k"}, lambda *_: DEAR)
    )
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    total = next(line for line in text.splitlines() if line.startswith("total"))
    # At most 137 728 tokens out at 0.015 dollars: 2065.92. 600 000 tokens into the coder at 0.0003: 180. 29 seats that
    # read 8000 of the candidate: 69.60. And the prompts.
    assert total.split()[3] == "137,728"
    assert 2315.52 < float(total.split()[5].removeprefix("$").replace(",", "")) < 2400


def test_simulated_prices_are_called_simulated() -> None:
    text = printed(estimate_here(body(), {}, lambda *_: PRICE))
    assert "simulated" in text
    assert "sim-alder-large" in text


def test_a_model_without_a_price_is_named() -> None:
    estimate = estimate_here(
        body(), {"OPENAI_API_KEY": "k"}, lambda _, model: None if model == "gpt-6.2-sol" else PRICE
    )
    text = " ".join(printed(estimate).split())
    assert "No price is known for openai/gpt-6.2-sol." in text


def test_a_worst_case_above_the_budget_is_said_before() -> None:
    text = printed(estimate_here(body(budget_tokens=40_000), {}, lambda *_: PRICE))
    assert "may not fit the budget of 40,000 tokens; seats that do not" in " ".join(text.split())


@pytest.mark.parametrize(
    ("change", "whom"), [({}, "the coder"), ({"files": {"a.py": "x = 1\n"}, "review": True}, "any reviewer")]
)
def test_a_budget_with_which_no_run_gets_anywhere_is_said_not_to_fit(
    change: dict[str, Any], whom: str
) -> None:
    estimate = estimate_here(body(**change), {}, lambda *_: PRICE)
    seats = estimate["seats"]
    worst = [seat["worst_input_tokens"] + seat["worst_output_tokens"] for seat in seats]
    reviews = [tokens for tokens, seat in zip(worst, seats, strict=True) if seat["stage"] == "panel"]
    first = worst[0] if seats[0]["stage"] == "coder" else min(reviews)

    def said(budget_tokens: int) -> str:
        return " ".join(
            printed(estimate_here(body(**change, budget_tokens=budget_tokens), {}, lambda *_: PRICE)).split()
        )

    assert f"no room for {whom}, and the run would end degraded" in said(first + worst[-1] - 1)
    assert "may not fit" in said(first + worst[-1])


def test_the_same_goes_for_dollars() -> None:
    seats = estimate_here(body(), {}, lambda *_: PRICE)["seats"]
    least = seats[0]["worst_cost_usd"] + seats[-1]["worst_cost_usd"]
    enough, short = (
        " ".join(printed(estimate_here(body(budget_usd=usd), {}, lambda *_: PRICE)).split())
        for usd in (round(least, 6), round(least - 0.000001, 6))
    )
    assert "may not fit" in enough
    assert "does not fit" in short


def test_the_longest_name_of_a_built_in_model_is_not_broken_at_80_columns() -> None:
    text = printed(estimate_here(body(), {"ANTHROPIC_API_KEY": "k"}, lambda *_: PRICE))
    assert "anthropic/claude-sonnet-5-5 " in text


@pytest.mark.parametrize(
    ("usd", "text"),
    [(None, "-"), (0.0, "$0.0000"), (0.00005, "<$0.0001"), (0.1234567, "$0.1235"), (1234.5, "$1,234.50")],
)
def test_money_reads_as_money(usd: float | None, text: str) -> None:
    assert money(usd) == text


def spent(cost: float | None, tokens: int = 10, *, estimated: bool = False) -> dict[str, Any]:
    return {"input_tokens": tokens, "output_tokens": 5, "cost_usd": cost, "has_estimates": estimated}


def test_spending_reads_as_what_of_what() -> None:
    assert spending_text(spent(0.5), budget_usd=1, budget_tokens=20) == "$0.5000 of $1.0000 · 15 of 20 tokens"
    assert spending_text(spent(0.5, estimated=True), budget_usd=None, budget_tokens=None) == (
        "≈ $0.5000 · 15 tokens"
    )
    assert spending_text(spent(None), budget_usd=None, budget_tokens=None) == "15 tokens"
    assert spending_text(spent(None), budget_usd=2, budget_tokens=None) == "$0.0000 of $2.0000 · 15 tokens"


def test_what_is_above_the_budget_is_said_in_its_own_unit() -> None:
    assert above_budget(spent(0.3), budget_usd=0.1 + 0.2, budget_tokens=15) == ""
    assert above_budget(spent(1.5), budget_usd=1, budget_tokens=10) == "$0.5000 and 5 tokens"
    assert above_budget(spent(None), budget_usd=1, budget_tokens=None) == ""


def event(kind: str, **payload: Any) -> RunEvent:
    return RunEvent(seq=1, kind=kind, at="", payload=payload)


def test_the_live_view_adds_up_what_the_seats_spent_against_the_budget() -> None:
    view = RunView(title="t")
    view.apply(event("run.created", budget_usd=0.5, budget_tokens=None))
    view.apply(event("stage.opened", stage="coder", seats=["coder"]))
    view.apply(event("candidate.written", seat="coder", files={}, usage=spent(0.1)))
    view.apply(event("stage.opened", stage="panel", seats=["left", "right"]))
    view.apply(event("review.arrived", seat="left", findings=[], usage=spent(0.2, estimated=True)))
    line = view.apply(
        event(
            "budget.exhausted",
            stage="panel",
            seat="right",
            scope="run",
            unit="usd",
            budget=0.5,
            spent=0.3,
            reserved=0.0,
            lead_share=0.1,
            wanted=0.2,
        )
    )
    assert line == "panel right: the run's budget of $0.5000 is used up"
    view.apply(event("review.abstained", seat="right", cause="budget", detail="d", usage=spent(None, 0)))
    # 15 + 15 + 5 tokens.
    assert view.spending() == "≈ $0.3000 of $0.5000 · 35 tokens"
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(live_panel(view, spinner="*"))
    assert "≈ $0.3000 of $0.5000" in console.export_text()


def test_the_end_of_a_run_has_the_last_word_on_what_it_spent() -> None:
    view = RunView(title="t")
    view.apply(event("candidate.written", seat="coder", files={}, usage=spent(0.1)))
    view.apply(event("run.finished", outcome="degraded", reasons=[], spending=spent(0.4, estimated=True)))
    assert view.spending() == "≈ $0.4000 · 15 tokens"


def test_events_from_before_spending_was_recorded_are_read() -> None:
    view = RunView(title="t")
    view.apply(event("run.created", team="t"))
    view.apply(event("candidate.written", seat="coder", files={}))
    view.apply(event("run.finished", outcome="accepted", reasons=[]))
    assert view.spending() == "0 tokens"


def detail(**usage: Any) -> dict[str, Any]:
    counts = {"calls": 3, "unpriced_calls": 0, "reserved_usd": 0.0, "reserved_tokens": 0, "orphaned": []}
    return {"budget_usd": 0.4, "budget_tokens": None, "usage": {**spent(0.3), **counts, **usage}}


def test_the_closing_line_names_cost_budget_and_what_is_out_of_the_ordinary() -> None:
    assert usage_line(detail()) == "3 calls, $0.3000 of $0.4000 · 15 tokens (10 in, 5 out)"
    assert "calls under way may add $0.1000, 70 tokens" in usage_line(
        detail(reserved_usd=0.1, reserved_tokens=70)
    )
    assert "2 calls have no known price" in usage_line(detail(unpriced_calls=2))
    assert "; 1 call has no known price" in usage_line(detail(unpriced_calls=1))
    assert usage_line(detail(calls=1)).startswith("1 call, ")
    assert "1 call was lost with its worker and counts at its worst case" in usage_line(detail(orphaned=[{}]))
    assert "2 calls were lost with their worker" in usage_line(detail(orphaned=[{}, {}]))
    assert "$0.1000 above the budget: a provider billed more than was asked for" in usage_line(
        detail(cost_usd=0.5)
    )
