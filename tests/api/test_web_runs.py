"""The pages of runs, as the server renders them: whole without JavaScript, whatever state the run is in."""

from __future__ import annotations

import html
import re
from typing import Any

import httpx
import pytest

from tests.api.batch_rows import reject, store_batch
from tests.api.test_runs_read import an_id
from tests.factories import FILES
from tests.integration.stored_runs import (
    AT,
    append,
    drop_bodies,
    finish,
    open_seats,
    run_of,
    seat_key,
    set_seat,
    start_run,
    store_run,
    tamper,
)
from workers.core.run import Outcome, SeatState, Stage
from workers.provenance.redaction import Selection, redact
from workers.provenance.repository import runs
from workers.provenance.session import Database

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


async def page(client: httpx.AsyncClient, path: str, status: int = 200) -> str:
    answer = await client.get(path)
    assert answer.status_code == status, answer.text[:500]
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return answer.text


def words(text: str) -> str:
    """The page's text without its marks, in one line."""
    return " ".join(html.unescape(re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", text, flags=re.S)).split())


async def test_an_empty_list_says_what_to_do(client: httpx.AsyncClient) -> None:
    for path in ("/", "/runs"):
        assert "Nothing has been submitted yet" in words(await page(client, path))
    assert "No run matches" in words(await page(client, "/runs?state=queued"))


async def test_the_list_shows_names_first_lines_and_states(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database, an_id(1), spec="# Slugs\n\nWrite slugify(text).", external_id="slug")
    store_run(database, an_id(2), spec="\n\nAdd two numbers.\n")
    finish(database, an_id(1), Outcome.DEGRADED)
    shown = words(await page(client, "/runs"))
    assert "slug Slugs degraded" in shown
    assert "Add two numbers. queued" in shown


async def test_a_spec_too_large_for_a_list_is_listed_by_its_id(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database, an_id(1), spec="Long. " * 30_000)
    shown = words(await page(client, "/runs"))
    assert an_id(1) in shown
    assert "Long." not in shown


async def test_filters_choose_and_stay_chosen(client: httpx.AsyncClient, database: Database) -> None:
    store_run(database, an_id(1), spec="First.")
    store_run(database, an_id(2), spec="Second.")
    finish(database, an_id(2))
    shown = await page(client, "/runs?state=finished&outcome=&team=")
    assert "Second." in shown
    assert "First." not in shown
    assert "<option selected>finished</option>" in shown
    assert "First." in await page(client, "/runs?state=queued")
    assert "No run matches" in await page(client, "/runs?team=other")


async def test_pages_follow_each_other(client: httpx.AsyncClient, database: Database) -> None:
    for number in range(52):
        store_run(database, an_id(number), spec=f"Spec number {number}.")
    first = await page(client, "/runs")
    assert "Spec number 51." in first
    assert "Spec number 1." not in first
    (older,) = re.findall(r'rel="next" href="([^"]+)"', first)
    second = await page(client, html.unescape(older))
    assert "Spec number 1." in second
    assert "Spec number 2." not in second
    assert 'rel="next"' not in second


async def test_runs_of_one_batch_are_listed_with_a_way_back(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_batch(database, (None, None))
    store_run(database, an_id(1), spec="Not of the batch.")
    shown = await page(client, "/runs?batch=batch_1")
    assert "Not of the batch." not in shown
    assert 'href="/batches/batch_1"' in shown


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/runs/run_none", 404, "there is no run 'run_none'"),
        ("/runs?state=asleep", 422, " state: Input should be 'queued', 'running', 'finished' or 'cancelled'"),
        ("/runs?cursor=nonsense", 422, "the cursor 'nonsense' is not the next_cursor of a page"),
        ("/runs?batch=batch_none", 404, "there is no batch 'batch_none'"),
        ("/batches/batch_none", 404, "there is no batch 'batch_none'"),
        ("/teams/none", 404, "there is no team 'none'"),
    ],
)
async def test_what_cannot_be_shown_is_a_page_that_says_why(
    client: httpx.AsyncClient, path: str, status: int, says: str
) -> None:
    assert says in words(await page(client, path, status))


async def test_an_address_without_a_page_is_a_page_for_browsers_only(client: httpx.AsyncClient) -> None:
    browser = {"accept": "text/html,application/xhtml+xml"}
    shown = await client.get("/nowhere", headers=browser)
    assert shown.status_code == 404
    assert "There is no page at /nowhere." in words(shown.text)
    for path, headers in (("/v1/nowhere", browser), ("/nowhere", {})):
        answer = await client.get(path, headers=headers)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


async def test_a_fault_of_our_own_is_a_page_too(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> list[str]:
        raise ZeroDivisionError

    monkeypatch.setattr("api.web.runs.team_names", broken)
    assert "It is in the server's log." in words(await page(client, "/runs", 500))


async def test_a_queued_run_shows_its_spec_and_the_panel_to_come(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database, spec="Add two numbers.")
    shown = words(await page(client, "/runs/run_1"))
    assert "Waiting for a worker" in shown
    assert "Add two numbers." in shown
    assert "left waiting for the code" in shown
    assert "right waiting for the code" in shown
    assert "verified" in shown


async def test_reviewers_arrive_one_by_one(client: httpx.AsyncClient, database: Database) -> None:
    store_run(database)
    start_run(database)
    append(database, "candidate.written", {"seat": "coder", "files": FILES, "simulated": True})
    append(database, "stage.opened", {"stage": "panel", "seats": ["left", "right"]})
    open_seats(database, seat_key("left"), seat_key("right"))
    set_seat(database, seat_key("left"), state=SeatState.RUNNING, started_at=run_of(database).started_at)
    first = words(await page(client, "/runs/run_1/live"))
    assert "left thinking for" in first
    assert "right waiting for a free slot" in first
    assert "simulated" in first
    append(database, "review.arrived", {"seat": "left", "findings": [], "summary": "", "model": "birch"})
    second = words(await page(client, "/runs/run_1/live"))
    assert "left 0 findings" in second
    assert "1 of 2 reviews" in second
    abstained = {"seat": "right", "cause": "no_provider", "detail": "nobody answers"}
    append(database, "review.abstained", abstained)
    assert "right abstained no provider" in words(await page(client, "/runs/run_1/live"))


async def test_a_dead_coder_and_a_dead_lead_are_said_and_not_hidden(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database)
    start_run(database)
    append(database, "coder.failed", {"seat": "coder", "cause": "empty_reply", "detail": "three times"})
    shown = words(await page(client, "/runs/run_1"))
    assert "The coder gave up : empty reply. three times" in shown
    append(database, "candidate.written", {"seat": "coder", "files": FILES})
    append(database, "lead.failed", {"seat": "lead", "cause": "overloaded", "detail": "too long"})
    append(database, "consensus.failed", {"seat": "consensus", "cause": "overloaded", "detail": "too long"})
    shown = words(await page(client, "/runs/run_1"))
    assert "The lead gave up : overloaded. too long" in shown
    assert "The lead arbitrates on the raw reviews." in shown


async def test_a_cancelled_run_keeps_what_had_arrived(client: httpx.AsyncClient, database: Database) -> None:
    store_run(database)
    append(database, "candidate.written", {"seat": "coder", "files": FILES})
    with database.begin() as connection:
        runs.cancel(connection, "run_1", tenant_id="default", at=run_of(database).created_at)
    shown = await page(client, "/runs/run_1")
    assert "What had arrived by then is below." in shown
    assert "line_3" in words(shown)
    assert 'id="cancel"' not in shown


async def test_a_finished_run_shows_claims_verdict_and_results(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database)
    reject(database, "run_1")
    shown = words(await page(client, "/runs/run_1"))
    assert "Verdict: rejected" in shown
    assert "1 claim stands on the signed code" in shown
    assert "the sum overflows for large input" in shown
    assert "JSONL CSV SARIF" in shown


async def test_a_verdict_with_the_least_that_one_can_have_is_shown(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database)
    finish(database)
    assert "Verdict: accepted" in words(await page(client, "/runs/run_1"))


async def test_a_changed_ledger_is_shown_with_what_is_wrong_in_it(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database)
    append(database, "run.started", {"team": "small"})
    tamper(database, "UPDATE events SET kind = 'run.blessed' WHERE seq = 2")
    shown = words(await page(client, "/runs/run_1"))
    assert "not intact" in shown
    assert "event 2 was changed" in shown


async def test_a_redacted_run_is_still_a_page(client: httpx.AsyncClient, database: Database) -> None:
    store_run(database, spec="A secret.")
    append(database, "candidate.written", {"seat": "coder", "files": FILES})
    finish(database)
    drop_bodies(database)
    shown = words(await page(client, "/runs/run_1"))
    assert "The spec was redacted." in shown
    assert "redacted" in shown
    assert "A secret." not in shown


async def test_what_a_run_hides_is_hidden_although_another_run_shows_it(
    client: httpx.AsyncClient, database: Database
) -> None:
    for run_id in (an_id(1), an_id(2)):
        store_run(database, run_id, spec="A secret.")
        finish(database, run_id)
    with database.begin() as connection:
        redact(connection, an_id(1), Selection(everything=True), who="me", why="a test", at=AT)
    assert "A secret." not in await page(client, f"/runs/{an_id(1)}")
    assert "A secret." in await page(client, f"/runs/{an_id(2)}")
    assert (await page(client, "/runs")).count("A secret.") == 1


async def test_nothing_that_a_model_wrote_becomes_markup(
    client: httpx.AsyncClient, database: Database
) -> None:
    span = {"path": HOSTILE, "start": 1, "end": 1}
    finding = {
        "finding_id": "left/1/1",
        "claim": HOSTILE,
        "severity": HOSTILE,
        "span": span,
        "evidence": [{"path": HOSTILE, "line": 1, "quote": HOSTILE}],
        "suggested_test": HOSTILE,
        "suggested_fix": HOSTILE,
    }
    claim = {
        "claim_id": "C1",
        "text": HOSTILE,
        "severity": "high",
        "span": span,
        "flagged_by": ["left"],
        "agreement": 0.5,
        "weighted_agreement": 0.5,
    }
    seat = {"seat": "claim-C1", "claim": "C1", "model_served": HOSTILE, "reason": HOSTILE}
    entries: list[tuple[str, dict[str, Any]]] = [
        ("candidate.written", {"seat": "coder", "files": {HOSTILE: HOSTILE}, "notes": HOSTILE}),
        ("review.arrived", {"seat": "left", "findings": [finding], "model_served": HOSTILE}),
        ("review.abstained", {"seat": "right", "cause": HOSTILE, "detail": HOSTILE}),
        ("consensus.counted", {"seat": "consensus", "claims": [claim], "unsupported": []}),
        ("claim.refuted", {**seat, "standing": "survived", "void": HOSTILE, "ground": None, "evidence": []}),
        ("claim.tested", {**seat, "proof": "reproduced", "detail": HOSTILE, "test": HOSTILE}),
        (
            "lead.signed",
            {"seat": "lead", "files": {HOSTILE: "x"}, "rulings": [], "summary": HOSTILE, "decision": "sign"},
        ),
    ]
    store_run(database, spec=HOSTILE, external_id=HOSTILE, files={"a.py": "x"})
    for kind, payload in entries:
        append(database, kind, payload)
    for path in ("/runs/run_1", "/runs/run_1/live", "/runs"):
        shown = await page(client, path)
        assert "alert(1)" in shown
        assert "<script>alert" not in shown
        assert "<img src=x" not in shown
        assert not re.search(r"<[^>]*\sonerror=", re.sub(r'"[^"]*"', '""', shown))


async def test_letters_that_turn_code_around_do_not_reach_a_page(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database, spec="Check \u202eadmin\u202c.")
    append(database, "candidate.written", {"seat": "coder", "files": {"a.py": "ok = True \u2066# no\u2069"}})
    shown = await page(client, "/runs/run_1")
    assert not set(shown) & set("\u202e\u202c\u2066\u2069")


async def test_very_many_files_are_named_and_not_all_shown(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database)
    files = {f"file_{number:03}.py": "x = 1\n" for number in range(60)}
    append(database, "candidate.submitted", {"seat": "coder", "files": files})
    shown = words(await page(client, "/runs/run_1"))
    assert "file_039.py" in shown
    assert "and 20 more files" in shown


async def test_pages_let_no_foreign_script_in_and_are_not_kept(client: httpx.AsyncClient) -> None:
    answer = await client.get("/runs")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    assert " style=" not in answer.text
    assert not re.search(r"<script(?![^>]*(src=|application/json))", answer.text)


async def test_the_submit_page_offers_the_teams(client: httpx.AsyncClient) -> None:
    shown = await page(client, "/submit?team=pentest")
    assert '<option value="pentest" selected>pentest</option>' in shown
    assert "Drop a JSONL file here" in shown


async def test_another_round_leaves_the_one_before_on_the_page(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database)
    append(database, "candidate.written", {"seat": "coder", "files": {"a.py": "first = 1\n"}})
    append(database, "round.opened", {"round": 2, "standing": ["wrong"], "killed": []})
    append(database, "candidate.written", {"seat": "coder", "files": {"a.py": "second = 2\n"}})
    open_seats(database, seat_key("coder", Stage.CODER, round_=2))
    shown = words(await page(client, "/runs/run_1"))
    assert "Round 1 was sent back" in shown
    assert shown.index("second = 2") < shown.index("first = 1")
