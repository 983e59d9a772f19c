"""The hash-chained ledger on a real database: what it proves, and what it survives."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.stored_runs import (
    AT,
    append,
    count,
    drop_bodies,
    events_of,
    kinds_of,
    run_of,
    store_run,
    tamper,
)
from workers.errors import NotFoundError
from workers.provenance import ledger
from workers.provenance.digest import GENESIS, canonical, chain_hash, digest
from workers.provenance.ledger import Event
from workers.provenance.session import Database


def fault_in(database: Database, entries: list[Event] | None = None, run_id: str = "run_1") -> str | None:
    """What `verify` says of the run's ledger, or of other entries under its head."""
    head = run_of(database, run_id).ledger_head
    entries = events_of(database, run_id) if entries is None else entries
    return ledger.verify(entries, run_id=run_id, head=head, genesis=GENESIS)


@pytest.fixture
def written(database: Database) -> Database:
    """A run whose ledger has four events."""
    store_run(database)
    for kind in ("run.started", "stage.opened", "candidate.written"):
        append(database, kind, {"kind": kind, "n": 1.5})
    return database


def test_the_hash_of_an_event_can_be_recomputed_by_hand(database: Database) -> None:
    store_run(database)
    append(database, "run.started", {"team": "petit\u00e9", "n": 1})
    first, second = events_of(database)
    # The payload's one byte form: keys sorted, no blanks, UTF-8.
    body = '{"n":1,"team":"petit\u00e9"}'.encode()
    assert second.payload_digest == hashlib.sha256(body).hexdigest()
    link = (
        '{"at":"2026-01-02T03:04:05.678901+00:00","kind":"run.started","payload":"'
        + hashlib.sha256(body).hexdigest()
        + '","previous":"'
        + first.hash
        + '","run":"run_1","seq":2}'
    )
    assert second.hash == hashlib.sha256(link.encode()).hexdigest()
    assert second.previous_hash == first.hash
    assert first.previous_hash == "0" * 64
    assert run_of(database).ledger_head == second.hash


def test_an_untouched_ledger_verifies(written: Database) -> None:
    assert [event.seq for event in events_of(written)] == [1, 2, 3, 4]
    assert fault_in(written) is None


def test_a_ledger_with_times_of_another_zone_verifies_and_reads_in_utc(written: Database) -> None:
    local = AT.astimezone(dt.timezone(dt.timedelta(hours=5, minutes=30)))
    with written.begin() as connection, ledger.writer(connection, "run_1") as entries:
        entries.append("lead.signed", {}, at=local)
    with written.begin() as connection:
        connection.exec_driver_sql("SET LOCAL TIME ZONE 'America/St_Johns'")
        entry = ledger.read(connection, "run_1", after=4)[0]
    assert entry.at == AT
    assert fault_in(written) is None


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("UPDATE events SET kind = 'x' WHERE seq = 2", "event 2 was changed"),
        ("UPDATE events SET at = at + interval '1 microsecond' WHERE seq = 2", "event 2 was changed"),
        (
            "UPDATE events SET payload_digest = (SELECT payload_digest FROM events WHERE seq = 3) WHERE seq = 2",
            "event 2 was changed",
        ),
        ("UPDATE events SET hash = repeat('0', 64) WHERE seq = 4", "event 4 was changed"),
        ("UPDATE events SET previous_hash = repeat('1', 64) WHERE seq = 1", "event 1 was changed"),
        ("DELETE FROM events WHERE seq = 1", "event 1 is missing"),
        ("DELETE FROM events WHERE seq = 3", "event 3 is missing"),
        ("DELETE FROM events WHERE seq = 4", "cut off after event 3"),
        ("DELETE FROM events", "cut off after event 0"),
        ("UPDATE events SET seq = 9 WHERE seq = 4", "event 4 is missing or out of order"),
        (
            "UPDATE payloads SET body = '{\"n\":2}' WHERE digest = "
            "(SELECT payload_digest FROM events WHERE seq = 3)",
            "payload of event 3 was changed",
        ),
        (
            "UPDATE payloads SET body = '\\xff7b' WHERE digest = "
            "(SELECT payload_digest FROM events WHERE seq = 3)",
            "payload of event 3 was changed",
        ),
        (
            "UPDATE events SET seq = CASE seq WHEN 2 THEN 30 ELSE 20 END WHERE seq IN (2, 3);"
            "UPDATE events SET seq = seq / 10 WHERE seq >= 20",
            "event 2 was changed",
        ),
        ("UPDATE runs SET ledger_head = repeat('0', 64)", "cut off after event 4"),
    ],
)
def test_whatever_is_changed_is_found(written: Database, statement: str, sentence: str) -> None:
    tamper(written, statement)
    fault = fault_in(written)
    assert fault is not None
    assert sentence in fault


def test_an_event_put_in_with_a_good_hash_of_its_own_breaks_the_next_one(written: Database) -> None:
    forged = events_of(written)
    # The forger hashes what he changed, but cannot change who points to it.
    entry = dataclasses.replace(forged[1], kind="run.stopped")
    forged[1] = dataclasses.replace(
        entry,
        hash=chain_hash(
            run_id="run_1",
            seq=entry.seq,
            kind=entry.kind,
            at=ledger.stamp(entry.at),
            payload_digest=entry.payload_digest,
            previous_hash=entry.previous_hash,
        ),
    )
    assert fault_in(written, forged) == "event 3 was changed: its hash does not follow from event 2"


def test_events_of_another_run_do_not_pass_for_ones_own(written: Database) -> None:
    store_run(written, "run_2")
    assert "event 1" in str(fault_in(written, events_of(written, "run_2")))


def test_a_redacted_payload_keeps_the_chain(written: Database) -> None:
    drop_bodies(written)
    assert [event.payload for event in events_of(written)] == [None] * 4
    assert fault_in(written) is None
    tamper(written, "UPDATE events SET kind = 'x' WHERE seq = 3")
    assert "event 3" in str(fault_in(written))


def test_several_events_of_one_block_are_chained_in_order(database: Database) -> None:
    store_run(database)
    with database.begin() as connection, ledger.writer(connection, "run_1") as entries:
        keys = [entries.append(f"kind.{number}", {"n": number % 2}, at=AT) for number in range(5)]
    found = events_of(database)[1:]
    assert [event.kind for event in found] == [f"kind.{number}" for number in range(5)]
    assert [event.payload_digest for event in found] == keys
    assert fault_in(database) is None


def test_a_block_without_events_writes_nothing(database: Database) -> None:
    store_run(database)
    before = run_of(database)
    with database.begin() as connection, ledger.writer(connection, "run_1"):
        pass
    assert run_of(database) == before


def test_what_is_rolled_back_leaves_nothing(written: Database) -> None:
    before = events_of(written), run_of(written)
    with written.begin() as connection:
        payloads = count(connection, "payloads")

    def fail_after_writing() -> None:
        with written.begin() as connection:
            with ledger.writer(connection, "run_1") as entries:
                entries.append("lead.signed", {"only": "here"}, at=AT)
            raise RuntimeError("later in the same transaction")

    def fail_inside() -> None:
        with written.begin() as connection, ledger.writer(connection, "run_1") as entries:
            entries.append("lead.signed", {"only": "there"}, at=AT)
            raise RuntimeError("inside the block")

    for failing in (fail_after_writing, fail_inside):
        with pytest.raises(RuntimeError):
            failing()
    assert (events_of(written), run_of(written)) == before
    with written.begin() as connection:
        assert count(connection, "payloads") == payloads
    append(written, "lead.signed")
    assert [event.seq for event in events_of(written)] == [1, 2, 3, 4, 5]
    assert fault_in(written) is None


def in_threads(count_: int, work: Callable[[int], None]) -> None:
    """Start all at once; fail if one fails or does not end."""
    faults: list[BaseException] = []
    gate = threading.Barrier(count_)

    def run(number: int) -> None:
        try:
            gate.wait(timeout=10)
            work(number)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            faults.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count_)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
        assert not thread.is_alive()
    assert faults == []


def test_writers_at_once_number_without_gap_or_repeat(database: Database) -> None:
    store_run(database)

    def write(number: int) -> None:
        for turn in range(5):
            append(database, f"writer.{number}", {"turn": turn})

    in_threads(6, write)
    found = events_of(database)
    assert [event.seq for event in found] == list(range(1, 32))
    for number in range(6):
        turns = [event.payload["turn"] for event in found if event.kind == f"writer.{number}"]
        assert turns == [0, 1, 2, 3, 4]
    assert fault_in(database) is None


def test_a_second_writer_waits_for_the_first_and_goes_on_from_there(database: Database) -> None:
    store_run(database)
    with database.begin() as connection, ledger.writer(connection, "run_1") as entries:
        other = threading.Thread(target=append, args=(database, "second"))
        other.start()
        entries.append("first", {}, at=AT)
        assert other.is_alive()
    other.join(timeout=10)
    assert kinds_of(database) == ["run.created", "first", "second"]
    assert fault_in(database) is None


def test_writers_of_the_same_payloads_in_many_runs_do_not_lock_each_other_out(database: Database) -> None:
    for number in range(6):
        store_run(database, f"run_{number}")

    def write(number: int) -> None:
        order = range(20) if number % 2 else reversed(range(20))
        with database.begin() as connection, ledger.writer(connection, f"run_{number}") as entries:
            for value in order:
                entries.append("same", {"value": value}, at=AT)

    in_threads(6, write)
    for number in range(6):
        assert fault_in(database, run_id=f"run_{number}") is None


def test_no_such_run_is_said(database: Database) -> None:
    with (
        pytest.raises(NotFoundError, match="there is no run 'run_none'"),
        database.begin() as connection,
        ledger.writer(connection, "run_none"),
    ):
        pass


def _write_and_roll_back(database: Database) -> None:
    with database.begin() as connection:
        with ledger.writer(connection, "run_1") as entries:
            entries.append("never", {}, at=AT)
        raise RuntimeError("later in the same transaction")


def test_a_committed_event_is_announced_and_a_rolled_back_one_is_not(
    database: Database, database_url: str
) -> None:
    store_run(database)
    plain = database_url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(plain, autocommit=True) as listener:
        listener.execute(f"LISTEN {ledger.CHANNEL}")
        with pytest.raises(RuntimeError):
            _write_and_roll_back(database)
        append(database, "once")
        heard = next(listener.notifies(timeout=10, stop_after=1))
        assert heard.payload == "run_1"
        assert list(listener.notifies(timeout=0)) == []


def test_the_mark_of_a_simulated_reply_sticks_to_the_run(database: Database) -> None:
    store_run(database)
    append(database, "candidate.written", {"simulated": False})
    append(database, "candidate.written", {"simulated": "true"})
    assert run_of(database).is_simulated is False
    append(database, "review.arrived", {"simulated": True})
    append(database, "review.arrived", {"simulated": False})
    assert run_of(database).is_simulated is True


@pytest.mark.parametrize(
    "value",
    [
        {"nul": "a\x00b", "k\x00": 1},
        {"lone": "\ud800", "\udfff": [1, "\udc80"]},
        # Sorted as they came, the surrogate is the first key; as U+FFFD it is the second.
        {"\ud800": 1, "\uf000": 2, "\U0001f600": 3},
        {chr(0xD800): 1, chr(0xD801): 2},
        {"pair": "\ud83d\ude00"},
        {"tiny": 5e-324, "big": 1.7976931348623157e308, "tenth": 0.1, "minus": -0.0, "whole": 1.0, "e": 1e22},
        {"int": 2**70, "neg": -(2**70), "bool": True, "none": None},
        {"": "", " ": " "},
        {"separators": '\u2028\u2029\x85\x0b\x1c\r\n\t\\"/'},
        {"megabyte": "x\u00e9" * 500_000},
        {"deep": json.loads("[" * 200 + "]" * 200)},
    ],
    ids=lambda value: next(iter(value)).encode("ascii", "replace").decode() or "empty",
)
def test_odd_payloads_survive_and_verify(database: Database, value: dict[str, Any]) -> None:
    store_run(database)
    append(database, "odd", value)
    read = events_of(database)[1].payload
    assert canonical(read) == canonical(value)
    assert fault_in(database) is None


def test_what_json_cannot_hold_is_refused_before_anything_is_written(database: Database) -> None:
    store_run(database)
    for value in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            append(database, "odd", {"n": value})
    assert kinds_of(database) == ["run.created"]
    assert fault_in(database) is None


TEXT = st.text(st.one_of(st.characters(), st.characters(categories=["Cs"])), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(value=VALUES)
def test_the_byte_form_of_what_is_read_back_is_the_byte_form_written(value: Any) -> None:
    body = canonical(value)
    assert canonical(json.loads(body)) == body
    assert digest(body) == hashlib.sha256(body).hexdigest()
