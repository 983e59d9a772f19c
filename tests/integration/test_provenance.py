"""A run's record against whoever may do anything to the database: append-only for everybody, and told on where not."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import psycopg
import pytest
from sqlalchemy import Column
from sqlalchemy.exc import DBAPIError

from tests.factories import make_team, team_data
from tests.integration.conftest import Bench
from tests.integration.model_server import ModelServer
from tests.integration.stored_records import completion, exported, signer, store_ended
from tests.integration.stored_runs import (
    AT,
    append,
    drop_bodies,
    events_of,
    kinds_of,
    open_seats,
    seat_key,
    store_run,
    tamper,
)
from workers.provenance import export, heads, ledger
from workers.provenance.check import Report, examine, examine_file
from workers.provenance.export import file_of, replayable
from workers.provenance.models import calls as calls_table
from workers.provenance.models import events as events_table
from workers.provenance.redaction import Selection, redact
from workers.provenance.repository import call_records, calls, runs
from workers.provenance.session import Database
from workers.stages.replay import replay


@pytest.fixture
def record(database: Database) -> Database:
    """Two finished runs with signed heads."""
    database.sign_with(signer())
    store_ended(database)
    store_ended(database, "run_2", prompt="other")
    return database


def report_on(database: Database, run_id: str = "run_1") -> Report:
    return examine(exported(database, run_id, by=signer()), trusted=signer().trusted, must_be_trusted=True)


def test_a_run_that_was_moved_to_another_tenant_is_told(record: Database) -> None:
    tamper(record, "UPDATE runs SET tenant_id = 'other'")
    with record.begin() as connection:
        run = runs.get(connection, "run_1", tenant_id="other")
        document = export.document_of(connection, run, signer=signer())
    assert examine(document).problems == ("the run's tenant is not what event 1 says",)


def test_an_untouched_record_holds_and_says_who_signed_it(record: Database) -> None:
    report = report_on(record)
    # run.created, review.arrived, calls.sealed, run.finished
    assert report == Report(problems=(), signed_by=(signer().key_id,), events=4)


@pytest.mark.parametrize("table", ["events", "anchors", "redactions", "ledger_heads", "payloads"])
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "TRUNCATE {} CASCADE", "DELETE FROM {} WHERE false"])
def test_nothing_is_ever_deleted_not_even_by_the_owner_of_the_tables(
    record: Database, table: str, statement: str
) -> None:
    with pytest.raises(DBAPIError, match="append-only"), record.begin() as connection:
        connection.exec_driver_sql(statement.format(table))
    assert report_on(record).problems == ()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET kind = kind",
        "UPDATE events SET at = now() WHERE false",
        "INSERT INTO events SELECT * FROM events ON CONFLICT (run_id, seq) DO UPDATE SET kind = 'x'",
        "UPDATE redactions SET at = now()",
        "UPDATE anchors SET body = ''",
    ],
)
def test_events_are_never_updated(record: Database, statement: str) -> None:
    with pytest.raises(DBAPIError, match="append-only"), record.begin() as connection:
        connection.exec_driver_sql(statement)


@pytest.mark.parametrize(
    "change",
    [
        "body = 'other'",
        "body = NULL",
        "body = NULL, dropped_at = now(), dropped_why = 'x'",
        "digest = repeat('0', 64)",
        "size_bytes = 1",
        "created_at = now() + interval '1 day'",
        "dropped_why = 'x'",
        "dropped_at = now()",
    ],
)
def test_a_payload_is_never_changed(record: Database, change: str) -> None:
    with pytest.raises(DBAPIError, match="payload"), record.begin() as connection:
        connection.exec_driver_sql(f"UPDATE payloads SET {change}")  # noqa: S608


@pytest.mark.parametrize(
    "change", ["seq = 9", "head = 'x'", "at = now()", "signature = NULL", "key_id = 'x'"]
)
def test_a_head_on_record_is_never_changed(record: Database, change: str) -> None:
    with pytest.raises(DBAPIError, match="never changed"), record.begin() as connection:
        connection.exec_driver_sql(f"UPDATE ledger_heads SET {change} WHERE run_id = 'run_1'")  # noqa: S608


def test_an_ordinary_role_is_refused_the_same(record: Database, database_url: str) -> None:
    plain = database_url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(plain) as connection:
        connection.execute("CREATE ROLE scribe; GRANT ALL ON ALL TABLES IN SCHEMA public TO scribe")
        connection.execute("SET ROLE scribe")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
            connection.execute("UPDATE events SET kind = 'x'")
        connection.rollback()


def test_bodies_go_through_one_door_and_say_why(record: Database) -> None:
    drop_bodies(record)
    with record.begin() as connection:
        left = connection.exec_driver_sql("SELECT count(*) FROM payloads WHERE body IS NOT NULL").scalar()
        why = connection.exec_driver_sql("SELECT DISTINCT dropped_why FROM payloads").scalars().all()
    assert (left, why) == (0, ["a test"])
    report = report_on(record)
    assert report.problems == ()
    assert any("redacted or dropped" in note for note in report.notes)
    # The door is shut again behind whoever went through it.
    with record.begin() as connection:
        connection.exec_driver_sql("SELECT drop_payload_bodies(ARRAY['x'], now(), 'a test')")
        with pytest.raises(DBAPIError, match="drop_payload_bodies"):
            connection.exec_driver_sql(
                "UPDATE payloads SET body = NULL, dropped_at = now(), dropped_why = 'x'"
            )


def test_a_dropped_body_comes_back_when_the_same_is_submitted_again(record: Database) -> None:
    drop_bodies(record)
    store_run(record, "run_3")
    with record.begin() as connection:
        assert runs.order_of(connection, "run_3").material["spec"] == "Add two numbers."
        row = connection.exec_driver_sql(
            "SELECT dropped_at, dropped_why FROM payloads JOIN runs ON digest = input_digest WHERE run_id = 'run_3'"
        ).one()
    assert tuple(row) == (None, None)


QUESTION = {"messages": [], "max_tokens": 1}

OTHER = {
    "Text": "'changed'",
    "Integer": "7",
    "SmallInteger": "7",
    "Float": "7.5",
    "Boolean": "true",
    "Numeric": "7.5",
    "DateTime": "'2030-01-01Z'::timestamptz",
}
#: Reservations are about budgets while a run is at work, and a duration follows from two times that are sealed.
_UNSEALED = {"run_id", "reserved_input_tokens", "reserved_output_tokens", "reserved_usd", "duration_seconds"}


@pytest.mark.parametrize(
    "column", [column for column in calls_table.c if column.name not in _UNSEALED], ids=str
)
def test_a_change_to_any_column_of_a_call_is_found_and_the_call_named(
    record: Database, column: Column[Any]
) -> None:
    value = OTHER[type(column.type).__name__]
    if column.name.endswith("_digest"):
        value = "(SELECT input_digest FROM runs WHERE run_id = 'run_2')"
    tamper(record, f"UPDATE calls SET {column.name} = {value} WHERE call_id = 'run_1_c1'")  # noqa: S608
    problems = report_on(record).problems
    assert any("call run_1_c1" in problem for problem in problems), problems


@pytest.mark.parametrize("column", [column for column in events_table.c if column.name != "run_id"], ids=str)
@pytest.mark.parametrize("seq", [1, 2, 3, 4])
def test_a_change_to_any_column_of_an_event_is_found_and_the_event_named(
    record: Database, column: Column[Any], seq: int
) -> None:
    value = "9" if column.name == "seq" else OTHER[type(column.type).__name__]
    if column.foreign_keys:
        value = "(SELECT input_digest FROM runs WHERE run_id = 'run_2')"
    tamper(record, f"UPDATE events SET {column.name} = {value} WHERE run_id = 'run_1' AND seq = {seq}")  # noqa: S608
    (first, *_) = report_on(record).problems
    assert f"event {seq} " in first


@pytest.mark.parametrize("seq", [1, 2, 3, 4])
def test_a_changed_payload_names_its_event(record: Database, seq: int) -> None:
    tamper(
        record,
        "UPDATE payloads SET body = '{}' FROM events WHERE digest = payload_digest "  # noqa: S608
        f"AND run_id = 'run_1' AND seq = {seq}",
    )
    assert f"the payload of event {seq} was changed" in report_on(record).problems


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("UPDATE runs SET outcome = 'rejected'", "outcome is rejected, and its ledger says accepted"),
        ("UPDATE runs SET state = 'cancelled'", "state is cancelled, and its ledger says finished"),
        ("UPDATE runs SET state = 'running'", "state is running, and its ledger says finished"),
        ("UPDATE runs SET verdict_digest = NULL", "verdict is not the one in its ledger"),
        ("UPDATE runs SET team = 'x'", "the run's team is not what event 1 says"),
        ("UPDATE runs SET external_id = 'x'", "external_id is not what event 1 says"),
        ("UPDATE runs SET input_digest = team_digest", "input_digest is not what event 1 says"),
        ("UPDATE runs SET team_digest = input_digest", "team_digest is not what event 1 says"),
        ("UPDATE runs SET is_simulated = true", "marked as simulated, and its ledger says otherwise"),
        ("UPDATE runs SET round = 2", "the run is in round 2, and its ledger in 1"),
        ("UPDATE runs SET ledger_seq = 3", "counts 3 events, and there are 4"),
        ("UPDATE runs SET ledger_head = repeat('0', 64)", "cut off after event 4"),
        ("DELETE FROM calls WHERE call_id = 'run_1_c2'", "call run_1_c2 is missing"),
        ("UPDATE calls SET call_id = 'z' WHERE call_id = 'run_1_c2'", "call z is not in the ledger"),
        (
            "UPDATE ledger_heads SET head = repeat('0', 64)",
            "event 4 is not the one whose hash was put on record",
        ),
        (
            "UPDATE ledger_heads SET signature = repeat('A', 86) || '=='",
            "signature of the head after event 4",
        ),
        ("UPDATE ledger_heads SET key_id = NULL, signature = NULL", "not signed by a key that you trust"),
        ("DELETE FROM ledger_heads", "not signed by a key that you trust"),
        (
            "UPDATE payloads SET body = NULL",
            "payload of event 1 is missing, and nothing says who took it away",
        ),
        (
            "UPDATE payloads SET body = NULL, dropped_at = now(), dropped_why = 'redacted'",
            "payload of event 1 is missing, and nothing says who took it away",
        ),
    ],
)
def test_whatever_a_superuser_changes_is_found(record: Database, statement: str, sentence: str) -> None:
    tamper(record, statement)
    problems = report_on(record).problems
    assert any(sentence in problem for problem in problems), problems


def cut_off(database: Database, after: int) -> None:
    """Take away the end of the ledger, and mend the run's row so that the chain alone shows nothing."""
    tamper(
        database,
        f"DELETE FROM events WHERE run_id = 'run_1' AND seq > {after};"  # noqa: S608
        f"UPDATE runs SET ledger_seq = {after}, state = 'running', outcome = NULL, verdict_digest = NULL, "
        f"ledger_head = (SELECT hash FROM events WHERE run_id = 'run_1' AND seq = {after}) WHERE run_id = 'run_1';",
    )


def test_a_ledger_whose_end_was_cut_off_is_told_by_its_head_on_record(record: Database) -> None:
    cut_off(record, 2)
    assert report_on(record).problems[0] == (
        "the ledger was cut off: it has 2 events, and had 4 when its head was put on record"
    )


def test_without_a_key_it_is_said_that_nothing_is_signed(database: Database) -> None:
    store_ended(database)
    report = examine(exported(database))
    assert report.problems == ()
    assert report.signed_by == ()
    assert report.notes == ("unsigned: no signing key was set when the head was put on record",)


def test_a_head_that_an_older_key_signed_holds_after_rotation(database: Database) -> None:
    database.sign_with(signer(1))
    store_ended(database)
    database.sign_with(signer(2))
    store_ended(database, "run_2")
    both = {**signer(1).trusted, **signer(2).trusted}
    for run_id, number in (("run_1", 1), ("run_2", 2)):
        report = examine(exported(database, run_id, by=signer(2)), trusted=both, must_be_trusted=True)
        assert report.problems == ()
        assert set(report.signed_by) == {signer(number).key_id, signer(2).key_id}
    document = exported(database, "run_1", by=signer(2))
    alone = examine(document, trusted=signer(2).trusted, must_be_trusted=True)
    assert alone.problems == ("the end of the ledger is not signed by a key that you trust",)


def test_what_goes_on_record_is_every_end(database: Database) -> None:
    database.sign_with(signer())
    store_run(database)
    with database.begin() as connection:
        runs.cancel(connection, "run_1", tenant_id="default", at=AT)
        (head,) = heads.of_run(connection, "run_1")
    assert (head.seq, head.head) == (2, events_of(database)[-1].hash)
    assert report_on(database).problems == ()


def test_a_call_that_ends_after_its_run_enters_the_ledger(database: Database) -> None:
    database.sign_with(signer())
    store_run(database)
    open_seats(database, seat_key())
    new = calls.NewCall(
        call_id="c1",
        key=seat_key(),
        link=0,
        provider="local",
        model="birch-1",
        family="birch",
        request={"messages": [], "max_tokens": 1},
    )
    with database.begin() as connection:
        calls.sent(connection, new)
        runs.cancel(connection, "run_1", tenant_id="default", at=AT)
    assert kinds_of(database) == ["run.created", "calls.sealed", "run.cancelled"]
    answered = partial(calls.done, completion=completion("{}"), rung=1)
    with database.single() as connection:
        assert not answered(connection, "c1")
    assert report_on(database).problems == ()
    with database.begin() as connection:
        late = partial(answered, connection, "c1", is_late=True)
        call_records.ended_late(connection, "run_1", "c1", late, at=AT)
    assert kinds_of(database)[-1] == "call.ended_late"
    assert events_of(database)[-1].payload["call"]["output_tokens"] == 5
    report = report_on(database)
    assert (report.problems, report.events) == ((), 4)
    with database.begin() as connection:
        assert [head.seq for head in heads.of_run(connection, "run_1")] == [3, 4]


def test_a_run_that_ended_before_there_were_heads_is_told_as_such_also_once_it_is_redacted(
    database: Database,
) -> None:
    store_ended(database)
    # As an earlier version left it: no calls in the ledger, no head.
    tamper(
        database,
        "DELETE FROM ledger_heads; DELETE FROM events WHERE kind = 'run.finished';"
        "UPDATE runs SET ledger_seq = 2, ledger_head = (SELECT hash FROM events WHERE seq = 2);"
        "DELETE FROM events WHERE seq = 3;",
    )
    append(database, "calls.none", {})
    with database.begin() as connection, ledger.writer(connection, "run_1") as log:
        verdict = log.append("run.finished", {"outcome": "accepted"}, at=AT)
    tamper(database, f"UPDATE runs SET verdict_digest = '{verdict}'; DELETE FROM ledger_heads")  # noqa: S608
    report = examine(exported(database))
    assert report.problems == ()
    assert "the run is of a version that kept no calls in the ledger" in report.notes
    assert "unsigned: no head is on record; what an anchor says is all there is" in report.notes
    with database.begin() as connection:
        redact(connection, "run_1", Selection(events=(2,)), who="ada", why="why", at=AT)
    assert examine(exported(database)).problems == ()


def test_a_call_row_that_was_put_in_after_the_end_is_found(record: Database) -> None:
    tamper(
        record,
        "CREATE TEMP TABLE forged ON COMMIT DROP AS SELECT * FROM calls WHERE call_id = 'run_1_c1';"
        "UPDATE forged SET call_id = 'forged'; INSERT INTO calls SELECT * FROM forged",
    )
    assert report_on(record).problems == ("call forged is not in the ledger",)


def test_a_whole_run_verifies_replays_and_knows_passes(bench: Bench, models: ModelServer) -> None:
    run_id = bench.submit(make_team(policy={**team_data()["policy"], "passes": 2}))
    bench.verdict(run_id)
    raw = file_of(exported(bench.database, run_id))
    document = json.loads(raw)
    assert examine_file(raw, document).problems == ()
    panel = [call["pass_number"] for call in document["calls"] if call["stage"] == "panel"]
    assert sorted(panel) == [1, 1, 2, 2]
    assert {call["attempt"] for call in document["calls"] if call["stage"] == "coder"} == {1}
    assert replay(replayable(document)).problem is None


def test_a_call_is_on_record_with_its_attempt_pass_and_rung(record: Database) -> None:
    first, second = exported(record)["calls"]
    assert (first["attempt"], first["pass_number"], first["rung"], first["cost_usd"]) == (1, 1, 2, "0.250000")
    assert (first["model_asked"], first["model_served"]) == ("birch-1", "birch-1-0613")
    assert (second["attempt"], second["pass_number"], second["error_kind"]) == (2, 2, "overloaded")


def test_a_file_written_here_verifies_where_there_is_no_database(record: Database) -> None:
    raw = file_of(exported(record, by=signer()))
    document = json.loads(raw)
    assert examine_file(raw, document, trusted=signer().trusted, must_be_trusted=True).problems == ()
    # Somebody without the key is told which one it is.
    stranger = examine_file(raw, document)
    assert stranger.problems == ()
    assert [note for note in stranger.notes if signer().key_id in note]
    assert examine_file(raw, document, trusted=signer(2).trusted, must_be_trusted=True).problems == (
        "the end of the ledger is not signed by a key that you trust",
        "the export is not signed by a key that you trust",
    )
