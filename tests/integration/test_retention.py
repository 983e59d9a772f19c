"""After a while bodies go that only ended runs refer to; runs, verdicts, ledgers and digests stay."""

from __future__ import annotations

import datetime as dt
import threading

import pytest
from sqlalchemy import text

from tests.integration.stored_records import exported, signer, store_ended
from tests.integration.stored_runs import append, events_of, finish, open_seats, run_of, seat_key, store_run
from workers.core.reply import Completion, FinishReason, Usage
from workers.core.run import Outcome
from workers.provenance import ledger, payload
from workers.provenance.check import examine
from workers.provenance.digest import GENESIS, canonical, digest
from workers.provenance.redaction import Selection, redact
from workers.provenance.repository import calls, runs
from workers.provenance.retention import bodies
from workers.provenance.retention.bodies import Dropped, gone, prune_runs
from workers.provenance.session import Database

BEFORE = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
OLD, YOUNG = BEFORE - dt.timedelta(microseconds=1), BEFORE


def ended(database: Database, run_id: str, *, at: dt.datetime | None, says: str) -> None:
    """A run that ended at that moment (None: has not ended), with input, event, request, reply and verdict."""
    store_run(database, run_id, spec=f"spec {says}")
    append(database, "candidate.written", {"code": says}, run_id)
    call(database, run_id, says)
    if at is not None:
        with database.begin() as connection, ledger.writer(connection, run_id) as entries:
            runs.start(connection, run_id)
            verdict = entries.append("run.finished", {"verdict": says}, at=at)
            runs.finish(connection, run_id, outcome=Outcome.ACCEPTED, verdict_digest=verdict)
        with database.begin() as connection:
            statement = text("UPDATE runs SET finished_at = :at WHERE run_id = :id")
            connection.execute(statement, {"at": at, "id": run_id})


def call(database: Database, run_id: str, says: str) -> None:
    key = seat_key(run_id=run_id)
    open_seats(database, key)
    answer = Completion(
        text=says,
        reasoning="",
        model_served="birch-1",
        finish_reason=FinishReason.STOP,
        usage=Usage(),
        is_simulated=False,
    )
    asked = {"call_id": f"call of {run_id}", "provider": "local", "model": "birch-1", "family": "birch"}
    with database.begin() as connection:
        calls.sent(connection, calls.NewCall(key=key, link=0, request={"request": says}, **asked))
        calls.done(connection, f"call of {run_id}", answer, rung=1)


def kept(database: Database) -> set[str]:
    """The bodies that are there, as text."""
    with database.begin() as connection:
        rows = connection.execute(text("SELECT body FROM payloads WHERE body IS NOT NULL"))
        return {bytes(row.body).decode() for row in rows}


def of_run(database: Database, run_id: str) -> dict[str, bool]:
    """Whether each body that the run refers to is there."""
    statement = text(
        """
        SELECT what, body IS NOT NULL AS there FROM (
            SELECT kind AS what, payload_digest AS digest FROM events WHERE run_id = :id
            UNION ALL SELECT 'request', request_digest FROM calls WHERE run_id = :id
            UNION ALL SELECT 'reply', reply_digest FROM calls WHERE run_id = :id
            UNION ALL SELECT 'input', input_digest FROM runs WHERE run_id = :id
            UNION ALL SELECT 'team', team_digest FROM runs WHERE run_id = :id
            UNION ALL SELECT 'verdict', verdict_digest FROM runs WHERE run_id = :id
        ) AS referred JOIN payloads USING (digest)
        """
    )
    with database.begin() as connection:
        return {row.what: row.there for row in connection.execute(statement, {"id": run_id})}


EVERYTHING = {
    "run.created",
    "candidate.written",
    "run.finished",
    "request",
    "reply",
    "input",
    "team",
    "verdict",
}


def test_of_an_old_run_the_verdict_stays_and_the_rest_goes(database: Database) -> None:
    ended(database, "old", at=OLD, says="a")
    dropped = prune_runs(database, before=BEFORE)

    there = of_run(database, "old")
    assert set(there) == EVERYTHING
    assert {what for what in there if there[what]} == {"run.finished", "team", "verdict"}
    assert (dropped.runs, dropped.bodies, dropped.busy_runs) == (1, 5, 0)


def test_the_ledger_of_a_pruned_run_still_holds(database: Database) -> None:
    ended(database, "old", at=OLD, says="a")
    before = run_of(database, "old")
    prune_runs(database, before=BEFORE)

    entries = events_of(database, "old")
    assert [entry.payload for entry in entries] == [None, None, {"verdict": "a"}]
    assert ledger.verify(entries, run_id="old", head=before.ledger_head, genesis=GENESIS) is None


def test_a_run_that_was_redacted_before_still_says_who_took_what(database: Database) -> None:
    database.sign_with(signer())
    store_ended(database)
    with database.begin() as connection:
        redact(connection, "run_1", Selection(containing="look"), who="ada", why="a secret", at=OLD)
        connection.execute(text("UPDATE runs SET finished_at = :at"), {"at": OLD})
    prune_runs(database, before=BEFORE)

    assert run_of(database).pruned_at is not None
    document = exported(database, by=signer())
    assert examine(document, trusted=signer().trusted, must_be_trusted=True).problems == ()
    told = events_of(database)[-1].payload
    assert (told["who"], told["why"]) == ("ada", "a secret")


@pytest.mark.parametrize("at", [None, YOUNG])
def test_of_an_open_and_of_a_young_run_nothing_goes(at: dt.datetime | None, database: Database) -> None:
    ended(database, "other", at=at, says="a")
    before = kept(database)
    assert prune_runs(database, before=BEFORE) == Dropped()
    assert kept(database) == before


@pytest.mark.parametrize("at", [None, YOUNG])
def test_what_an_open_or_a_young_run_refers_to_stays_for_the_old_one_too(
    at: dt.datetime | None, database: Database
) -> None:
    ended(database, "old", at=OLD, says="shared")
    ended(database, "other", at=at, says="shared")
    prune_runs(database, before=BEFORE)

    assert all(of_run(database, "other").values())
    # Its ledger begins with an entry of its own: the run's own id is no part of it, so that even this is shared.
    assert all(of_run(database, "old").values())


def test_what_two_old_runs_share_goes(database: Database) -> None:
    ended(database, "one", at=OLD, says="shared")
    ended(database, "two", at=OLD, says="shared")
    dropped = prune_runs(database, before=BEFORE)
    assert (dropped.runs, dropped.bodies) == (2, 5)


def test_a_verdict_stays_even_if_another_run_refers_to_it_otherwise(database: Database) -> None:
    ended(database, "one", at=OLD, says="a")
    ended(database, "two", at=None, says="b")
    append(database, "note", {"verdict": "a"}, "two")
    finish(database, "two")
    with database.begin() as connection:
        connection.execute(text("UPDATE runs SET finished_at = :at"), {"at": OLD})
    prune_runs(database, before=BEFORE)
    assert of_run(database, "one")["verdict"] is True


def test_a_dry_run_counts_the_same_and_changes_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "RUNS_AT_ONCE", 2)
    for number in range(5):
        ended(database, f"old {number}", at=OLD, says=str(number % 3))
    ended(database, "young", at=YOUNG, says="2")
    before = kept(database)

    counted = prune_runs(database, before=BEFORE, is_dry=True)

    assert kept(database) == before
    assert run_of(database, "old 0").pruned_at is None
    assert prune_runs(database, before=BEFORE) == counted
    # Specs 0 and 1, five bodies each; those of 2 are the young run's too.
    assert (counted.runs, counted.bodies) == (5, 10)
    gone_bytes = sum(map(len, (body.encode() for body in before - kept(database))))
    assert counted.bytes == gone_bytes


def test_pruning_again_finds_nothing(database: Database) -> None:
    ended(database, "old", at=OLD, says="a")
    prune_runs(database, before=BEFORE)
    assert prune_runs(database, before=BEFORE) == Dropped()


def test_a_run_that_is_submitted_again_brings_its_bodies_back(database: Database) -> None:
    ended(database, "old", at=OLD, says="a")
    prune_runs(database, before=BEFORE)
    ended(database, "again", at=None, says="a")

    assert all(of_run(database, "again").values())
    with database.begin() as connection:
        assert runs.order_of(connection, "again").material["spec"] == "spec a"
        left = connection.execute(text("SELECT DISTINCT dropped_why FROM payloads WHERE body IS NOT NULL"))
        assert left.scalars().all() == [None]


def test_what_is_gone_is_marked_with_when_and_why(database: Database) -> None:
    ended(database, "old", at=OLD, says="a")
    prune_runs(database, before=BEFORE)
    with database.begin() as connection:
        rows = connection.execute(text("SELECT body, dropped_at, dropped_why FROM payloads")).all()
    assert [row for row in rows if (row.body is None) != (row.dropped_at is not None)] == []
    assert {row.dropped_why for row in rows} == {None, "retention"}
    assert run_of(database, "old").pruned_at is not None


def test_what_a_transaction_that_has_not_ended_writes_cannot_go(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It found the body there, and nobody else can see yet that it refers to it."""
    monkeypatch.setattr(bodies, "TRIES", 1)
    ended(database, "old", at=OLD, says="a")
    with database.begin() as connection:
        payload.store(connection, {"code": "a"})
        first = prune_runs(database, before=BEFORE)
        assert (first.runs, first.busy_runs) == (0, 1)
        with ledger.writer(connection, "old") as entries:
            entries.append("late", {"code": "a"}, at=OLD)
    assert '{"code":"a"}' in kept(database)

    assert prune_runs(database, before=BEFORE).runs == 1


def test_who_writes_while_a_body_is_dropped_waits_and_writes_it_anew(database: Database) -> None:
    ended(database, "old", at=OLD, says="a")
    key = digest(canonical({"code": "a"}))
    store_run(database, "new", spec="b")
    writer = threading.Thread(target=append, args=(database, "candidate.written", {"code": "a"}, "new"))
    with database.begin() as connection:
        taken = {"class": bodies.LOCK_CLASS, "key": key}
        connection.execute(text("SELECT pg_advisory_xact_lock(:class, hashtext(:key) & 63)"), taken)
        connection.execute(text("SELECT drop_payload_bodies(ARRAY[:key], now(), 'retention')"), {"key": key})
        writer.start()
        wait_until_blocked(database)
    writer.join(timeout=10)

    assert events_of(database, "new")[-1].payload == {"code": "a"}


def wait_until_blocked(database: Database) -> None:
    """Until some transaction waits for an advisory lock."""
    statement = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    for _ in range(1000):
        with database.begin() as connection:
            if connection.scalar(statement):
                return
            connection.execute(text("SELECT pg_sleep(0.01)"))
    pytest.fail("nobody waits")


def test_runs_that_are_written_while_everything_is_pruned_lose_nothing(database: Database) -> None:
    """Two writers use the same few bodies again and again while all that has ended is pruned at once."""
    is_over = threading.Event()
    made: list[str] = []

    def write(name: str) -> None:
        for number in range(40):
            run_id = f"{name} {number}"
            ended(database, run_id, at=OLD if number % 2 else None, says=str(number % 4))
            made.append(run_id)

    def prune() -> None:
        while not is_over.is_set():
            prune_runs(database, before=BEFORE)

    writers = [threading.Thread(target=write, args=(name,)) for name in ("left", "right")]
    pruner = threading.Thread(target=prune)
    for thread in (*writers, pruner):
        thread.start()
    for thread in writers:
        thread.join(timeout=60)
    is_over.set()
    pruner.join(timeout=60)

    assert len(made) == 80
    missing = {run_id: of_run(database, run_id) for run_id in made if int(run_id.split()[1]) % 2 == 0}
    assert {run_id: there for run_id, there in missing.items() if not all(there.values())} == {}


def test_a_sentence_says_what_is_gone(database: Database) -> None:
    assert gone(None) is None
    assert gone(dt.datetime(2026, 3, 4, 23, 59, tzinfo=dt.UTC)) == (
        "the spec, code, prompts and replies of this run were dropped on 2026-03-04 by `consensus prune`, unless "
        "other runs share them; the verdict, the ledger and all digests are kept"
    )
