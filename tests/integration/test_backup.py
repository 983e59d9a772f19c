"""A backup holds everything as of one moment, and a restore brings back all of it or nothing."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Callable

import pytest
from sqlalchemy import text

from tests.integration.filled_tables import contents, fill
from workers.errors import InputError, StateError
from workers.provenance import migrate as migrating
from workers.provenance.backup.dump import dump
from workers.provenance.backup.restore import check, restore
from workers.provenance.backup.tables import present
from workers.provenance.migrate import head, migrate
from workers.provenance.session import Database


def dumped(database: Database) -> bytes:
    file = io.BytesIO()
    dump(database, file)
    return file.getvalue()


@pytest.fixture
def backup(database: Database, empty: Database) -> bytes:
    """Of a database with rows in every table."""
    with database.begin() as connection:
        fill(connection)
    return dumped(database)


def in_database(database: Database) -> str:
    """Every row of every table; as text, because NaN equals nothing."""
    with database.begin() as connection:
        return repr(contents(connection))


def test_every_row_of_every_table_comes_back_as_it_was(
    backup: bytes, database: Database, empty: Database
) -> None:
    done = restore(empty, io.BytesIO(backup))

    assert in_database(empty) == in_database(database)
    # Every table has its three rows; what else has rows is alembic's.
    assert done.rows == 3 * done.tables
    assert (done.head.revision, done.revision) == (head(), head())


def test_a_restored_database_has_its_triggers_at_work(backup: bytes, empty: Database) -> None:
    restore(empty, io.BytesIO(backup))
    with empty.begin() as connection:
        states = connection.scalars(text("SELECT tgenabled FROM pg_trigger WHERE NOT tgisinternal")).all()
    assert set(states) == {"O"}


def test_a_row_that_refers_to_nothing_is_refused(backup: bytes, empty: Database) -> None:
    """Foreign keys check what comes in, whatever else is switched off."""
    spoilt = gzip.decompress(backup).replace(b"1 tenants tenant_id", b"9 tenants tenant_id", 1)
    with pytest.raises(InputError, match=r"rows that .* refuses?: insert or update on table"):
        restore(empty, io.BytesIO(gzip.compress(spoilt)))


def resealed(content: bytes) -> bytes:
    """With a digest that is right again."""
    *lines, end, _ = content.split(b"\n")
    body = b"\n".join(lines) + b"\n"
    sealed = {**json.loads(end), "sha256": hashlib.sha256(body).hexdigest()}
    return gzip.compress(body + json.dumps(sealed).encode() + b"\n")


def test_a_row_that_is_checked_last_is_refused_too(backup: bytes, empty: Database) -> None:
    """A verdict is looked for when everything is there."""
    with empty.begin() as connection:
        migrating.upgrade(connection, "head")
        columns = next(table.columns for table in present(connection) if table.name == "runs")
    lines = gzip.decompress(backup).split(b"\n")
    at = next(number for number, line in enumerate(lines) if b'{"table": "runs"' in line) + 2
    values = lines[at].split(b"\t")
    values[columns.index("verdict_digest")] = b"9"
    lines[at] = b"\t".join(values)

    with pytest.raises(InputError, match="refer to others that it does not have: insert or update on table"):
        restore(empty, io.BytesIO(resealed(b"\n".join(lines))))


def test_the_same_rows_give_the_same_bytes_but_for_the_moment(backup: bytes, database: Database) -> None:
    again = gzip.decompress(dumped(database)).split(b"\n")
    first = gzip.decompress(backup).split(b"\n")

    # The first line has the moment, the last one the digest over it.
    assert again[1:-2] == first[1:-2]


def test_what_is_written_while_it_is_made_is_not_in_it(backup: bytes, database: Database) -> None:
    def write(_: str) -> None:
        with database.begin() as connection:
            number = connection.scalar(text("SELECT count(*) FROM tenants"))
            values = {"id": f"meanwhile {number}"}
            connection.execute(text("INSERT INTO tenants (tenant_id, name) VALUES (:id, 'x')"), values)
            connection.execute(text("DELETE FROM limits"))

    file = io.BytesIO()
    done = dump(database, file, say=write)

    # As many as before the first of those writes, of each table.
    assert done.rows == 3 * done.tables
    with database.begin() as connection:
        assert connection.scalar(text("SELECT count(*) FROM tenants")) == 3 + done.tables
    assert b"meanwhile" not in gzip.decompress(file.getvalue())


def test_a_database_with_rows_is_left_alone_unless_told(
    backup: bytes, database: Database, empty: Database
) -> None:
    migrate(empty)
    with empty.begin() as connection:
        connection.execute(text("INSERT INTO tenants (tenant_id, name) VALUES ('mine', 'mine')"))
    with pytest.raises(
        StateError, match=r"not empty \(tenants\); restore into another one, or pass --replace"
    ):
        restore(empty, io.BytesIO(backup))
    with empty.begin() as connection:
        assert connection.scalars(text("SELECT tenant_id FROM tenants")).all() == ["mine"]

    restore(empty, io.BytesIO(backup), replace=True)

    assert in_database(empty) == in_database(database)


def test_a_migrated_database_without_rows_counts_as_empty(
    backup: bytes, database: Database, empty: Database
) -> None:
    migrate(empty)
    restore(empty, io.BytesIO(backup))
    assert in_database(empty) == in_database(database)


def test_a_database_that_workers_use_is_left_alone(backup: bytes, empty: Database, empty_url: str) -> None:
    worker = Database(empty_url, pool_size=1)
    with worker.begin(), pytest.raises(StateError, match=r"in use by 1 other connections.*stop workers"):
        restore(empty, io.BytesIO(backup))
    worker.close()
    assert empty.schema_revision() is None


def test_a_backup_of_an_older_schema_is_brought_to_this_one(empty: Database, database: Database) -> None:
    with empty.begin() as connection:
        migrating.upgrade(connection, "0001")
        fill(connection)
        before = contents(connection)
    file = dumped(empty)

    done = restore(empty, io.BytesIO(file), replace=True)

    assert (done.head.revision, done.revision, empty.schema_revision()) == ("0001", head(), head())
    with empty.begin() as connection:
        after = contents(connection)
    for table, rows in before.items():
        if table != "alembic_version":
            assert repr([{name: row[name] for name in rows[0]} for row in after[table]]) == repr(rows)


@pytest.mark.parametrize("revision", ["9999", "None"])
def test_a_backup_of_a_later_schema_is_refused(revision: str, backup: bytes, empty: Database) -> None:
    later = gzip.decompress(backup).replace(
        f'"revision": "{head()}"'.encode(), f'"revision": "{revision}"'.encode(), 1
    )
    with pytest.raises(InputError, match=f"made at schema {revision}, which this version does not know"):
        restore(empty, io.BytesIO(gzip.compress(later)))


def test_a_database_of_a_later_schema_is_not_backed_up(empty: Database) -> None:
    migrate(empty)
    with empty.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StateError, match="schema 9999, which this version does not know"):
        dumped(empty)


def test_a_database_without_a_schema_has_nothing_to_back_up(empty: Database) -> None:
    with pytest.raises(StateError, match="holds no Consensus"):
        dumped(empty)


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def without_end(data: bytes) -> bytes:
    return gzip.compress(b"\n".join(gzip.decompress(data).split(b"\n")[:-2]) + b"\n")


def changed_row(data: bytes) -> bytes:
    return gzip.compress(gzip.decompress(data).replace(b"1 tenants name", b"1 tenants nome"))


def lost_row(data: bytes) -> bytes:
    lines = gzip.decompress(data).split(b"\n")
    (number,) = [number for number, line in enumerate(lines) if line.startswith(b"2 limits")]
    return gzip.compress(b"\n".join([*lines[:number], *lines[number + 1 :]]))


def with_more(data: bytes) -> bytes:
    return gzip.compress(gzip.decompress(data) + b"more")


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :]


def unreadable_row(data: bytes) -> bytes:
    return gzip.compress(gzip.decompress(data).replace(b"2026-01-03", b"2026-13-03", 1))


@pytest.mark.parametrize(
    "harm", [cut, without_end, changed_row, lost_row, with_more, flipped, unreadable_row]
)
@pytest.mark.parametrize("replace", [False, True])
def test_of_a_damaged_file_nothing_is_restored_and_nothing_is_removed(
    harm: Callable[[bytes], bytes], replace: bool, backup: bytes, empty: Database
) -> None:
    if replace:
        migrate(empty)
        with empty.begin() as connection:
            fill(connection)
    before = in_database(empty)

    with pytest.raises(InputError, match=r"is damaged|has rows that table") as caught:
        restore(empty, io.BytesIO(harm(backup)), replace=replace)

    assert "\n" not in str(caught.value)
    assert in_database(empty) == before


@pytest.mark.parametrize("harm", [cut, without_end, changed_row, lost_row, with_more, flipped])
def test_damage_is_found_without_a_database(harm: Callable[[bytes], bytes], backup: bytes) -> None:
    with pytest.raises(InputError, match="is damaged"):
        check(io.BytesIO(harm(backup)))


def test_a_whole_file_is_found_whole_without_a_database(backup: bytes, database: Database) -> None:
    done = check(io.BytesIO(backup))
    assert (done.rows, done.head.revision) == (3 * done.tables, head())


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is no backup"),
        (b"plain text\n", "is no backup"),
        (gzip.compress(b"[]\n"), "is no backup"),
        (gzip.compress(b"x" * 100_000), "is no backup"),
        (gzip.compress(b"[" * 60_000 + b"\n"), "is no backup"),
        (
            gzip.compress(b'{"format": "consensus-backup", "version": 1}\n' + b"[" * 60_000 + b"\n"),
            "is damaged",
        ),
        (gzip.compress(b'{"format": "consensus-backup", "version": 2}\n'), "is a backup in form 2"),
        (gzip.compress(b'{"format": "consensus-backup", "version": 1}\n{"a": 1}\n'), "is damaged"),
        (gzip.compress(b'{"format": "consensus-backup", "version": 1}\n[]\n'), "is damaged"),
    ],
)
def test_what_is_no_backup_is_refused_in_a_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check(io.BytesIO(data))


def test_a_table_that_the_schema_does_not_have_is_refused(empty: Database) -> None:
    lines = [
        {"format": "consensus-backup", "version": 1, "revision": head(), "server": "18", "at": "now"},
        {"table": "pg_authid", "columns": ["rolname"]},
    ]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    with pytest.raises(InputError, match="names a table 'pg_authid'"):
        restore(empty, io.BytesIO(gzip.compress(data)))


def test_no_table_counts_with_a_sequence_which_a_backup_would_not_hold(database: Database) -> None:
    with database.begin() as connection:
        assert connection.scalar(text("SELECT count(*) FROM pg_sequences")) == 0
