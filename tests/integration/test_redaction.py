"""Payloads of an ended run taken away: what stays, what goes, and who is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.stored_batches import store_batch
from tests.integration.stored_records import exported, signer, store_ended
from tests.integration.stored_runs import AT, append, events_of, finish, run_of, store_run, tamper
from workers.errors import InputError, NotFoundError, StateError
from workers.provenance import payload
from workers.provenance.check import examine
from workers.provenance.export import replayable
from workers.provenance.models import metadata
from workers.provenance.redaction import Redacted, Selection, redact
from workers.provenance.repository import batch_results, runs
from workers.provenance.session import Database
from workers.stages.replay import replay


@pytest.fixture
def record(database: Database) -> Database:
    database.sign_with(signer())
    store_ended(database)
    return database


def take(database: Database, run_id: str = "run_1", **what: Any) -> Redacted:
    with database.begin() as connection:
        return redact(connection, run_id, Selection(**what), who="ada", why="a secret", at=AT)


def problems(database: Database, run_id: str = "run_1") -> tuple[str, ...]:
    document = exported(database, run_id, by=signer())
    return examine(document, trusted=signer().trusted, must_be_trusted=True).problems


def test_the_body_goes_the_digest_stays_and_the_ledger_says_who_and_why(record: Database) -> None:
    before = events_of(record)
    gone = take(record, events=(2,))
    after = events_of(record)
    assert gone.digests == (before[1].payload_digest,)
    assert (after[1].payload, after[1].hash) == (None, before[1].hash)
    assert after[-1].kind == "payload.redacted"
    assert after[-1].payload == {"digests": list(gone.digests), "calls": [], "who": "ada", "why": "a secret"}
    assert problems(record) == ()
    with record.begin() as connection, pytest.raises(NotFoundError):
        payload.load(connection, gone.digests[0])


def test_prompt_and_reply_of_one_call_go_and_the_other_call_stays(record: Database) -> None:
    take(record, calls=("run_1_c1",))
    document = exported(record)
    first, second = document["calls"]
    assert {first["request_digest"], first["reply_digest"]} == document["dropped"].keys()
    assert second["request_digest"] in document["payloads"]
    assert problems(record) == ()


def test_everything_but_the_team_goes_and_what_checks_need_stays(record: Database) -> None:
    take(record, everything=True)
    document = exported(record)
    kinds = {event["payload_digest"]: event["kind"] for event in document["events"]}
    assert {kinds.get(key, "the team") for key in document["payloads"]} == {
        "the team",
        "calls.sealed",
        "payload.redacted",
    }
    assert problems(record) == ()


def test_a_payload_that_another_run_holds_stays_there_and_is_hidden_here(record: Database) -> None:
    store_ended(record, "run_2", prompt="other")
    shared = run_of(record).input_digest
    assert shared == run_of(record, "run_2").input_digest
    gone = take(record, everything=True)
    assert gone.shared[shared] == ["run_2"]
    assert shared not in exported(record)["payloads"]
    with record.begin() as connection:
        assert runs.order_of(connection, "run_2").material["spec"] == "Add two numbers."
        with pytest.raises(NotFoundError):
            payload.load(connection, shared, run_id="run_1")
    # The last one that shows it takes the body with it.
    take(record, "run_2", digests=(shared,))
    with record.begin() as connection, pytest.raises(NotFoundError):
        payload.load(connection, shared)
    assert problems(record) == problems(record, "run_2") == ()


def test_what_is_submitted_anew_is_there_for_the_new_run_and_stays_hidden_in_the_old(
    record: Database,
) -> None:
    take(record, everything=True)
    store_run(record, "run_3")
    shared = run_of(record, "run_3").input_digest
    with record.begin() as connection:
        assert runs.order_of(connection, "run_3").material["spec"] == "Add two numbers."
    assert shared in exported(record, "run_3")["payloads"]
    assert shared not in exported(record)["payloads"]
    assert problems(record) == ()


def test_a_verdict_that_another_run_shares_is_hidden_in_results_too(database: Database) -> None:
    one, two = store_batch(database, count=2)
    for run_id in (one, two):
        finish(database, run_id)
    shared = run_of(database, one).verdict_digest
    assert shared == run_of(database, two).verdict_digest
    for run_id in (one, two):
        append(database, "candidate.written", {"files": {"a.py": "x"}}, run_id)
    candidate = events_of(database, one)[-1].payload_digest
    take(database, one, digests=(str(shared), candidate))
    with database.begin() as connection:
        told = {run.run_id: run.verdict for run in batch_results.page(connection, "batch_1", after=0)}
        seen = {name: batch_results.reviewed(connection, name).files for name in (one, two)}
    assert told == {one: None, two: {"outcome": "accepted", "files": {}}}
    assert seen == {one: {}, two: {"a.py": "x"}}


SECRET = 'sk-"7f\\né'


def everything_in(database: Database) -> str:
    """Every row of every table, as text, with whatever JSON strings in JSON strings there are taken apart."""
    found = []
    with database.begin() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(table.select()):
                found += [value.decode() if isinstance(value, bytes) else str(value) for value in row]
    text = "\n".join(found)
    for _ in range(4):
        text += "\n" + text.replace("\\\\", "\\").replace('\\"', '"')
    return text + "\n" + text.replace("\\u00e9", "é")


def test_a_secret_is_found_wherever_it_stands_and_is_nowhere_afterwards(database: Database) -> None:
    nested = json.dumps({"reply": json.dumps({"code": SECRET})})
    store_ended(
        database,
        spec=f"the key is {SECRET}",
        metadata={"note": SECRET},
        prompt=nested,
        idempotency_key=SECRET,
    )
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE stages SET detail = %s", (f"no {SECRET}",))
    tamper(database, "UPDATE calls SET error = 'plain'")
    assert SECRET in everything_in(database)
    gone = take(database, containing=SECRET)
    assert SECRET not in everything_in(database)
    assert gone.calls == ()
    # What does not hold it stays: run.created, the reply of the one call.
    assert events_of(database)[0].payload is not None
    assert exported(database)["calls"][0]["reply_digest"] in exported(database)["payloads"]


@pytest.mark.parametrize(
    "where", [{"metadata": {"note": SECRET}}, {"idempotency_key": SECRET}, {"external_id": SECRET}]
)
def test_a_secret_that_stands_beside_the_payloads_alone_goes_too(
    database: Database, where: dict[str, Any]
) -> None:
    store_ended(database, **where)
    gone = take(database, containing=SECRET)
    assert gone.beside == 1
    assert SECRET not in everything_in(database)
    assert examine(exported(database)).problems == ()
    with pytest.raises(InputError, match="nothing of run run_1 is left"):
        take(database, containing=SECRET)


@pytest.mark.parametrize("words", [{"who": SECRET, "why": "w"}, {"who": "ada", "why": f"it was {SECRET}"}])
def test_the_text_that_is_to_go_cannot_come_back_with_the_reason(
    database: Database, words: dict[str, str]
) -> None:
    store_ended(database, spec=SECRET)
    with database.begin() as connection, pytest.raises(InputError, match="both stay for good"):
        redact(connection, "run_1", Selection(containing=SECRET), **words, at=AT)


def test_an_error_that_holds_the_text_goes_and_the_call_still_verifies(record: Database) -> None:
    gone = take(record, containing="busy")
    assert gone.calls == ("run_1_c2",)
    assert exported(record)["calls"][1]["error_digest"] is None
    assert problems(record) == ()


@pytest.mark.parametrize(
    ("what", "error", "sentence"),
    [
        ({"events": (9,)}, NotFoundError, "no event of run run_1 that can be redacted: 9"),
        ({"events": (3,)}, NotFoundError, "no event of run run_1 that can be redacted: 3"),  # calls.sealed
        ({"calls": ("x",)}, NotFoundError, "no call of run run_1 that can be redacted: x"),
        ({"containing": "nowhere"}, InputError, "nothing of run run_1 is left"),
    ],
)
def test_what_cannot_be_redacted_is_refused_and_nothing_changes(
    record: Database, what: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    before = exported(record)
    with pytest.raises(error, match=sentence):
        take(record, **what)
    assert exported(record) == before


def test_a_redaction_cannot_be_repeated_or_made_without_a_reason_or_under_a_run_at_work(
    record: Database,
) -> None:
    take(record, events=(2,))
    with pytest.raises(NotFoundError):
        take(record, events=(2,))
    with record.begin() as connection, pytest.raises(InputError, match="who made it and why"):
        redact(connection, "run_1", Selection(everything=True), who="ada", why=" ", at=AT)
    store_run(record, "run_2")
    with pytest.raises(StateError, match="at work"):
        take(record, "run_2", everything=True)


def test_who_redacted_cannot_be_changed_afterwards(record: Database) -> None:
    take(record, events=(2,))
    tamper(
        record,
        "UPDATE payloads SET body = replace(body::text, '616461', '626f62')::bytea "
        "WHERE digest = (SELECT payload_digest FROM events WHERE kind = 'payload.redacted')",
    )
    assert "the payload of event 5 was changed" in problems(record)


def test_a_replay_of_a_redacted_run_says_so(record: Database) -> None:
    take(record, events=(2,))
    replayed = replay(replayable(exported(record)))
    assert not replayed.is_compared
    assert "redacted" in str(replayed.problem)
