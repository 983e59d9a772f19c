"""How the command line writes money and what of a budget is spent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def money(usd: float | None) -> str:
    """US dollars: cents from ten dollars on, ten-thousandths below; `-` where no price is known."""
    if usd is None:
        return "-"
    if 0 < usd < 0.0001:
        return "<$0.0001"
    return f"${usd:,.2f}" if usd >= 10 else f"${usd:.4f}"


def spending_text(spent: Mapping[str, Any], *, budget_usd: float | None, budget_tokens: int | None) -> str:
    """What was used of what: `≈ $0.0123 of $0.5000 · 12,345 of 50,000 tokens`. The sign stands for estimates."""
    tokens = f"{spent['input_tokens'] + spent['output_tokens']:,}"
    tokens += f" of {budget_tokens:,} tokens" if budget_tokens is not None else " tokens"
    parts = [tokens]
    if spent["cost_usd"] is not None or budget_usd is not None:
        limit = f" of {money(budget_usd)}" if budget_usd is not None else ""
        parts.insert(0, money(spent["cost_usd"] or 0.0) + limit)
    return ("≈ " if spent["has_estimates"] else "") + " · ".join(parts)


def above_budget(spent: Mapping[str, Any], *, budget_usd: float | None, budget_tokens: int | None) -> str:
    """By how much a budget was passed, in words; empty if it was not."""
    tokens = spent["input_tokens"] + spent["output_tokens"]
    parts = []
    # Both sums have six decimals; half of the last one tells them apart.
    if budget_usd is not None and (spent["cost_usd"] or 0.0) > budget_usd + 5e-7:
        parts.append(money(spent["cost_usd"] - budget_usd))
    if budget_tokens is not None and tokens > budget_tokens:
        parts.append(f"{tokens - budget_tokens:,} tokens")
    return " and ".join(parts)


def usage_line(detail: Mapping[str, Any]) -> str:
    """A run's calls, cost, tokens and budget, and whatever is held back, lost or above it."""
    usage = detail["usage"]
    budget_usd, budget_tokens = detail["budget_usd"], detail["budget_tokens"]
    line = f"{usage['calls']} {'call' if usage['calls'] == 1 else 'calls'}, "
    line += spending_text(usage, budget_usd=budget_usd, budget_tokens=budget_tokens)
    line += f" ({usage['input_tokens']:,} in, {usage['output_tokens']:,} out)"
    if usage["reserved_tokens"]:
        line += (
            f"; calls under way may add {money(usage['reserved_usd'])}, {usage['reserved_tokens']:,} tokens"
        )
    if usage["unpriced_calls"] and usage["cost_usd"] is not None:
        unpriced = usage["unpriced_calls"]
        line += f"; {unpriced} {'call has' if unpriced == 1 else 'calls have'} no known price"
    if usage["orphaned"]:
        line += f"; {_lost(len(usage['orphaned']))}"
    above = above_budget(usage, budget_usd=budget_usd, budget_tokens=budget_tokens)
    return line + (f"; {above} above the budget: a provider billed more than was asked for" if above else "")


def _lost(calls: int) -> str:
    if calls == 1:
        return "1 call was lost with its worker and counts at its worst case"
    return f"{calls} calls were lost with their worker and count at their worst case"
