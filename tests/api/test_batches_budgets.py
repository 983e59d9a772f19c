"""Budgets of a batch and of its lines: models must have prices, and every lead has its share kept."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from api.estimates import CODE_STEP_CHARACTERS, STEP_BYTES
from tests.api.problem_documents import problem
from tests.api.test_batches_create import OTHER_TEAM, lines, post, stored
from tests.factories import make_price
from workers.core.budget import Price
from workers.provenance.models import runs as runs_table
from workers.provenance.session import Database
from workers.providers.registry import enabled

#: A written token costs a tenth of a cent, and one that is read half of that.
PRICE = make_price("500", "1000")


class Prices:
    """Every model but birch-9 has the same price; counts how often one is asked for the lead's."""

    def __init__(self) -> None:
        self.asked = 0

    def of(self, _provider: str, model: str) -> Price | None:
        self.asked += model == "cedar-2"
        return None if model == "birch-9" else PRICE


@pytest.fixture
def prices(app: FastAPI, team_folder: Path) -> Prices:
    """The local provider is on; teams are `other-team`, whose models have prices, and `dear-team`, with one that has
    none."""
    prices = Prices()
    app.state.services = dataclasses.replace(
        app.state.services,
        enabled=lambda: enabled({"LOCAL_BASE_URL": "http://127.0.0.1:9/v1"}),
        price_of=prices.of,
    )
    dear = OTHER_TEAM.replace("other-team", "dear-team").replace("birch-1", "birch-9").replace("the-", "a-")
    for name, text in (("other", OTHER_TEAM), ("dear", dear)):
        (team_folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return prices


def rows(database: Database) -> list[Any]:
    with database.begin() as connection:
        return list(connection.execute(runs_table.select().order_by(runs_table.c.position)))


async def test_without_a_budget_nothing_is_estimated_and_nothing_kept(
    client: httpx.AsyncClient, prices: Prices, database: Database
) -> None:
    await post(client, lines({"spec": "a"}), team="dear-team")
    (row,) = rows(database)
    assert (row.budget_usd, row.lead_share_usd, row.lead_share_tokens, prices.asked) == (None, None, 0, 0)


async def test_a_line_with_a_budget_has_its_share_kept_and_others_do_not(
    client: httpx.AsyncClient, prices: Prices, database: Database
) -> None:
    body = lines({"spec": "a", "budget_usd": 9.25, "budget_tokens": 90_000}, {"spec": "b"})
    await post(client, body, team="other-team")
    first, second = rows(database)
    assert (first.budget_usd, first.budget_tokens) == (Decimal("9.25"), 90_000)
    assert first.lead_share_usd > Decimal("4.096")  # the lead may write 4096 tokens, and reads some
    assert first.lead_share_tokens > 4096
    assert (second.budget_usd, second.lead_share_usd, second.lead_share_tokens) == (None, None, 0)


async def test_a_batch_with_a_budget_keeps_a_share_for_every_run_that_has_none_of_its_own(
    client: httpx.AsyncClient, prices: Prices, database: Database
) -> None:
    answer = await post(
        client, lines({"spec": "a"}, {"spec": "b"}), team="other-team", budget_tokens=1_000_000
    )
    assert (answer.json()["budget_usd"], answer.json()["budget_tokens"]) == (None, 1_000_000)
    first, second = rows(database)
    assert first.budget_tokens is None
    assert first.lead_share_tokens == second.lead_share_tokens > 4096


@pytest.mark.parametrize(
    "line",
    [
        {"spec": "Write slugify(text)."},
        {"spec": "é" * 5_000},
        {"spec": "a", "tests": {"tests/a & b.py": "assert True\n" * 400, "tests/b.py": ""}},
        {"spec": "a", "files": {"a.py": "x = 1\n" * 3_000}},
        {"spec": "a", "files": {"a.py": "x = 1\n" * 3_000}, "review": True},
        {"spec": "a", "files": {"a.py": "x = 1\n" * 30_000, "b.py": "y = 2\n"}, "review": True},
    ],
)
async def test_the_share_of_a_line_is_that_of_a_single_run_rounded_up_by_a_step(
    client: httpx.AsyncClient, prices: Prices, database: Database, line: dict[str, Any]
) -> None:
    asked = {**line, "team": "other-team", "budget_usd": 90}
    await client.post("/v1/runs", json=asked)
    await post(client, lines(asked))
    of_batch, alone = rows(database)
    assert alone.position is None
    # Two bytes a token at worst; code is put at four characters a token, and twice that at worst.
    step = STEP_BYTES // 2 + CODE_STEP_CHARACTERS // 2
    above = of_batch.lead_share_tokens - alone.lead_share_tokens
    assert 0 <= above <= step
    assert 0 <= of_batch.lead_share_usd - alone.lead_share_usd <= step * Decimal("0.0005")


async def test_lines_of_one_size_are_estimated_once(
    client: httpx.AsyncClient, prices: Prices, database: Database
) -> None:
    one = lines({"spec": "spec", "budget_tokens": 90_000})
    await post(client, one, team="other-team")
    asked = prices.asked
    assert asked > 0
    many = lines(*({"spec": f"spec {n}", "budget_tokens": 90_000} for n in range(200)))
    await post(client, many, team="other-team", budget_usd=9)
    assert prices.asked == 2 * asked


async def test_a_team_that_looks_passages_up_is_estimated_line_by_line(
    client: httpx.AsyncClient, prices: Prices, database: Database, team_folder: Path
) -> None:
    # Passages go by the words of a spec, and a lead is shown them.
    (team_folder / "lore").mkdir()
    (team_folder / "lore" / "a.md").write_text("# Zebra\n\n" + "A zebra has stripes. " * 40, encoding="utf-8")
    looking = OTHER_TEAM.replace("other-team", "looking").replace("the-other", "lookers")
    (team_folder / "looking.yaml").write_text(looking + "retrieval: {globs: [lore/*.md]}\n", encoding="utf-8")
    body = lines(
        *({"spec": spec, "budget_usd": 90} for spec in ("Draw a zebra's stripes.", "Sum two numbers."))
    )
    answer = await post(client, body, team="looking")
    assert answer.status_code == 202, answer.text
    zebra, numbers = rows(database)
    assert zebra.lead_share_tokens > numbers.lead_share_tokens + 100


@pytest.mark.parametrize("options", [{"budget_usd": 5}, {}])
async def test_a_budget_in_dollars_wants_prices_and_names_the_line_that_has_none(
    client: httpx.AsyncClient, prices: Prices, database: Database, options: dict[str, Any]
) -> None:
    own = {} if options else {"budget_usd": 5}
    body = lines({"spec": "a", "team": "other-team", **own}, {"spec": "b", "team": "dear-team", **own})
    answer = await post(client, body, **options)
    assert "line 2: no price is known for local/birch-9 (seat 'left')" in problem(answer, 422)
    assert stored(database)["batches"] == 0
    tokens = lines({"spec": "b", "team": "dear-team"})
    assert (await post(client, tokens, budget_tokens=5000)).status_code == 202
