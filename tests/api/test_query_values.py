"""Whatever a query says, the answer is never an unexpected error."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.api.problem_documents import problem
from tests.integration.scoring_desk import Desk
from tests.recorded_runs import write_cohort
from workers.provenance.session import Database

VALUES = ("\x00", "a\x00b", "9" * 24, "-1", "1e999:1", "1e999:999999999", "\u202e", "nan", "", "9" * 5000)


@pytest.mark.parametrize(
    "path",
    [
        "/scorings/{}",
        "/v1/scorings/{}/runs",
        "/v1/scorings/{}/assessments",
        "/v1/scorings/{}/problems",
        "/v1/scorings",
        "/v1/nights",
        "/nights",
        "/leaderboard",
        "/trajectories",
        "/v1/trajectories",
        "/runs",
        "/v1/runs",
    ],
)
async def test_no_value_of_a_query_is_an_unexpected_error(
    client: httpx.AsyncClient, database: Database, tmp_path: Path, path: str
) -> None:
    desk = Desk(database)
    desk.upload(write_cohort(tmp_path / "runs"))
    address = path.format(desk.score().scoring_id)
    names = (
        "cursor",
        "limit",
        "order",
        "tier",
        "model",
        "problem",
        "mechanism",
        "outcome",
        "schedule",
        "scoring",
    )
    names += ("set", "path", "since", "state", "team", "batch")
    wrong = []
    for name in names:
        for value in VALUES:
            answer = await client.get(address, params={name: value})
            if answer.status_code not in (200, 404, 422):
                wrong.append((name, value[:30], answer.status_code))
    assert wrong == []


async def test_a_name_that_no_query_has_is_refused_with_the_one_that_was_meant(
    client: httpx.AsyncClient,
) -> None:
    assert problem(await client.get("/v1/runs", params={"stat": "running"}), 422) == (
        "there is no query parameter 'stat'; did you mean 'state'? "
        "allowed are limit, state, outcome, team, batch, cursor"
    )
    assert problem(await client.get("/v1/teams", params={"x\x00": "1"}), 422) == (
        "there is no query parameter 'x\\x00'; this address takes none"
    )


@pytest.mark.parametrize("since", ["5", "1777000000", "1777000000.5", "-3", " 7 "])
async def test_a_bare_number_is_no_moment(client: httpx.AsyncClient, since: str) -> None:
    """It would be seconds since 1970, and everything would be listed."""
    sentence = "since: give a date and a time with its offset, such as 2026-05-01T12:00:00Z"
    assert problem(await client.get("/v1/trajectories", params={"since": since}), 422) == sentence
    assert problem(await client.post("/v1/scorings", json={"since": float(since)}), 422) == sentence


async def test_a_name_that_comes_twice_is_refused_instead_of_one_of_its_values_taken(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/v1/trajectories?path=a&limit=5&path=b")
    assert problem(answer, 422) == "the query parameter 'path' is given 2 times; give it once"


@pytest.mark.parametrize("value", ["%ff", "a%80b", "%ed%a0%80", "%c3", "%C0%AF"])
async def test_a_value_that_is_not_utf_8_is_named(client: httpx.AsyncClient, value: str) -> None:
    """Half a character, a surrogate, a slash in too many bytes: each would be looked for as U+FFFD, and not found."""
    for query, name in ((f"state=ended&team={value}", "team"), (f"te{value}am=x", "te")):
        detail = problem(await client.get(f"/v1/runs?{query}"), 422)
        assert detail.startswith(f"the query parameter '{name}")
        assert detail.endswith("is not UTF-8 text; percent-encode the bytes of its UTF-8")


async def test_what_is_text_is_found_by_any_of_its_spellings(client: httpx.AsyncClient) -> None:
    for query in ("set=%C3%A9+%E2%82%AC", "set=a%20b", "path=%F0%9F%98%80", "set=", "&&", "set"):
        assert (await client.get(f"/v1/trajectories?{query}")).status_code == 200
