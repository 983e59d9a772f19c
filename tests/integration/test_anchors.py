"""Heads exported to where the database's owner cannot change them, and held against a database that was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.stored_records import exported, signer, store_ended
from tests.integration.stored_runs import AT, tamper
from workers.cli.anchor_file import anchors_in, append
from workers.errors import InputError
from workers.provenance import anchor
from workers.provenance.anchor import Anchor
from workers.provenance.check import examine
from workers.provenance.digest import GENESIS, canonical, chain_hash, digest
from workers.provenance.ledger import stamp
from workers.provenance.redaction import Selection, redact
from workers.provenance.session import Database


def make(database: Database) -> int:
    with database.begin() as connection:
        return anchor.make(connection, signer=signer(), at=AT)


def lines(database: Database) -> list[bytes]:
    with database.begin() as connection:
        return [body for _, body in anchor.bodies_after(connection, 0)]


def read(database: Database) -> list[Anchor]:
    return anchor.read(b"\n".join(lines(database)), name="a file")


@pytest.fixture
def anchored(database: Database) -> Database:
    """Two anchors: run_1 is in the first and, having grown since, in the second; run_2 in the second alone."""
    database.sign_with(signer())
    store_ended(database)
    assert make(database) == 1
    store_ended(database, "run_2", prompt="other")
    with database.begin() as connection:
        redact(connection, "run_1", Selection(events=(2,)), who="ada", why="why", at=AT)
    assert make(database) == 2
    return database


def test_each_head_is_anchored_once_and_each_anchor_names_the_one_before(anchored: Database) -> None:
    assert make(anchored) == 0
    first, second = read(anchored)
    assert [(head[0], head[1]) for head in first.heads] == [("run_1", 4)]
    assert sorted((head[0], head[1]) for head in second.heads) == [("run_1", 5), ("run_2", 4)]
    assert (first.previous, second.previous) == (GENESIS, digest(first.body))
    assert anchor.fault_in([first, second], trusted=signer().trusted) is None


def test_many_heads_take_several_anchors(database: Database) -> None:
    for number in range(3):
        store_ended(database, f"run_{number}")
    with database.begin() as connection:
        made = [anchor.make(connection, signer=None, at=AT, most=2) for _ in range(3)]
    assert made == [2, 1, 0]


def test_a_ledger_that_was_cut_off_with_all_its_heads_is_told_by_an_anchor(anchored: Database) -> None:
    said = anchor.heads_of(read(anchored))["run_1"]
    tamper(
        anchored,
        "DELETE FROM ledger_heads; DELETE FROM redactions; DELETE FROM events WHERE run_id = 'run_1' AND seq > 2;"
        "DELETE FROM calls WHERE run_id = 'run_1';"
        "UPDATE runs SET ledger_seq = 2, state = 'running', outcome = NULL, verdict_digest = NULL, "
        "ledger_head = (SELECT hash FROM events WHERE run_id = 'run_1' AND seq = 2) WHERE run_id = 'run_1'",
    )
    report = examine(exported(anchored), anchored=said)
    assert [problem for problem in report.problems if "cut off" in problem] == [
        f"the ledger was cut off: it has 2 events, and had {seq} in anchor {number} of {stamp(AT)}"
        for seq, number in ((4, 1), (5, 2))
    ]


def test_a_ledger_that_was_rewritten_from_end_to_end_is_told_by_an_anchor(database: Database) -> None:
    store_ended(database)
    make(database)
    said = anchor.heads_of(read(database))["run_1"]
    document = exported(database)
    # A forger with the whole database in hand makes everything fit: another time, and all hashes after it.
    previous = GENESIS
    for event in document["events"]:
        at = event["at"].replace("2026", "2025")
        previous = chain_hash(
            run_id="run_1",
            seq=event["seq"],
            kind=event["kind"],
            at=at,
            payload_digest=event["payload_digest"],
            previous_hash=previous,
        )
        event |= {"at": at, "hash": previous}
    for earlier, later in zip(document["events"], document["events"][1:], strict=False):
        later["previous_hash"] = earlier["hash"]
    document["run"]["head"] = document["heads"][0]["head"] = previous
    document.pop("seal")
    document["seal"] = {"digest": digest(canonical(document)), "signature": None}
    assert examine(document).problems == ()
    assert examine(document, anchored=said).problems == (
        f"event 4 is not the one in anchor 1 of {stamp(AT)}: the ledger was rewritten",
    )


def test_an_anchor_file_that_was_changed_is_told(anchored: Database) -> None:
    first, second = lines(anchored)
    trusted = signer().trusted

    def fault(*changed: bytes) -> str | None:
        return anchor.fault_in(anchor.read(b"\n".join(changed), name="a file"), trusted=trusted)

    assert fault(first, second) is None
    assert "anchor 2 does not follow from anchor 0" in str(fault(second))
    assert "anchor 1 does not follow from anchor 2" in str(fault(first, second, first))
    assert "signature of anchor 1" in str(fault(first.replace(b"2026", b"2025")))
    assert "signature of anchor 1" in str(fault(first.replace(b',4,"', b',3,"')))
    assert "written anew" in str(fault(first + b" "))
    with pytest.raises(InputError, match="line 2 is no anchor"):
        fault(first, b"{}")


def test_an_unsigned_anchor_under_another_number_is_told(database: Database) -> None:
    store_ended(database)
    with database.begin() as connection:
        anchor.make(connection, signer=None, at=AT)
    (line,) = lines(database)
    changed = anchor.read(line.replace(b'"number":1', b'"number":2'), name="a file")
    assert "anchor 2 does not follow from anchor 0" in str(anchor.fault_in(changed, trusted={}))


def test_a_file_is_only_appended_to(anchored: Database, tmp_path: Path) -> None:
    path = tmp_path / "anchors.jsonl"
    first, second = lines(anchored)
    append(path, [first])
    append(path, [second])
    assert path.read_bytes() == first + b"\n" + second + b"\n"
    assert [item.number for item in anchors_in(path)] == [1, 2]
    path.write_bytes(first + b"\n" + second[:40])
    with pytest.raises(InputError, match="last line is cut off"):
        anchors_in(path)
