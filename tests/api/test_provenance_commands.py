"""`provenance`, against a server that serves and against a file alone."""

from __future__ import annotations

import io
import json
import stat
import sys
from pathlib import Path

import httpx
import pytest

from tests.api.streams import LiveServer
from tests.integration.stored_records import signer, store_ended
from tests.integration.stored_runs import events_of, store_run, tamper
from tests.unit.webhooks.receiver import receiver
from workers.cli.client import Client
from workers.cli.main import execute
from workers.provenance.session import Database
from workers.provenance.signing import new_private_key, public_text

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _found(live: LiveServer, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the server and the database, and write into a folder of their own."""
    monkeypatch.setenv("CONSENSUS_URL", live.url)
    monkeypatch.setenv("CONSENSUS_DATABASE_URL", database_url)
    monkeypatch.setenv("CONSENSUS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The public half of a key that this shell signs with."""
    pem, public = new_private_key()
    (tmp_path / "key.pem").write_text(pem)
    monkeypatch.setenv("CONSENSUS_SIGNING_KEY_FILE", "key.pem")
    return public_text(public)


@pytest.fixture
def record(database: Database) -> Database:
    database.sign_with(signer())
    store_ended(database)
    return database


PUBLIC = public_text(next(iter(signer().trusted.values())))


def test_an_export_verifies_without_server_and_database(
    record: Database, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert execute(["provenance", "export", "run_1", "-o", "run.json"]) == 0
    monkeypatch.setenv("CONSENSUS_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("CONSENSUS_DATABASE_URL", "postgresql://127.0.0.1:9/x")
    assert execute(["provenance", "verify", "run.json"]) == 0
    out = capsys.readouterr().out
    assert "holds run.json: 4 events" in out
    # The server of these tests has no key, so the heads' key is unknown to the file.
    assert f"signed by key {signer().key_id}, which is not known here" in out
    changed = Path("run.json").read_text().replace('"attempt":1', '"attempt":3', 1)
    Path("changed.json").write_text(changed)
    assert execute(["provenance", "verify", "changed.json"]) == 1
    assert "call run_1_c1 was changed: attempt" in capsys.readouterr().out


def test_a_key_that_must_have_signed_is_asked_for(record: Database, capsys: Captured) -> None:
    assert execute(["provenance", "verify", "run_1", "--key", PUBLIC]) == 1
    out = capsys.readouterr().out
    assert "the export is not signed by a key that you trust" in out
    assert "the end of the ledger" not in out
    assert execute(["provenance", "verify", "run_1", "--key", "nonsense"]) == 3
    assert "--key nonsense" in capsys.readouterr().err


def test_verify_names_what_was_changed_whatever_the_server_says(record: Database, capsys: Captured) -> None:
    tamper(record, "UPDATE events SET kind = 'x' WHERE seq = 2")
    assert execute(["provenance", "verify", "run_1", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["verified"] is False
    assert told["problems"][0] == "event 2 was changed: its hash does not follow from event 1"
    assert execute(["provenance", "show", "run_1"]) == 0
    shown = capsys.readouterr().out
    assert "review.arrived" not in shown
    assert "local/birch-1" in shown


def test_the_api_tells_a_ledger_that_was_cut_off(record: Database, live: LiveServer) -> None:
    tamper(
        record,
        "DELETE FROM events WHERE seq > 2; UPDATE runs SET ledger_seq = 2, state = 'running', "
        "ledger_head = (SELECT hash FROM events WHERE seq = 2)",
    )
    told = httpx.get(f"{live.url}/v1/runs/run_1/provenance").json()
    assert (told["verified"], told["signed_by"]) == (False, [signer().key_id])
    assert told["problem"].startswith("the ledger was cut off: it has 2 events, and had 4")


def test_a_server_that_hands_out_the_record_of_another_run_is_not_believed(
    record: Database, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    export, told = Client.provenance_export, Client.provenance
    monkeypatch.setattr(Client, "provenance_export", lambda self, _: export(self, "run_1"))
    monkeypatch.setattr(Client, "provenance", lambda self, _: told(self, "run_1"))
    sentence = "the server gave the record of run 'run_1' for run_2"
    assert execute(["provenance", "verify", "run_2"]) == 1
    assert sentence in capsys.readouterr().out
    for command in (["provenance", "show"], ["provenance", "export"], ["replay"]):
        assert execute([*command, "run_2"]) == 3
        captured = capsys.readouterr()
        assert (sentence in captured.err, captured.out) == (True, "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["verify", "run_nobody"], "there is no run 'run_nobody'"),
        (["verify", "no/such.json"], "no such file"),
        (["export", "run_nobody", "-o", "x"], "there is no run 'run_nobody'"),
        (["redact", "run_1", "--why", "x"], "name what is to go"),
        (["redact", "run_nobody", "--why", "x", "--all"], "there is no run 'run_nobody'"),
        (["keys"], "consensus provenance keygen"),
        (["anchor", "--url", "https://example.org"], "CONSENSUS_WEBHOOK_SECRET"),
        (["verify", "run_1", "--anchor", "nothing"], "holds no anchor"),
    ],
)
def test_wrong_input_gets_a_sentence(
    record: Database, capsys: Captured, arguments: list[str], sentence: str
) -> None:
    assert execute(["provenance", *arguments]) == 3
    assert sentence in capsys.readouterr().err
    assert not Path("x").exists()


def test_redact_takes_a_secret_from_standard_input_and_from_every_run(
    record: Database, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_ended(record, "run_2", prompt="other")
    monkeypatch.setattr(sys, "stdin", io.StringIO("Add two numbers.\n"))
    assert execute(["provenance", "redact", "run_1", "--containing", "-", "--why", "it was private"]) == 0
    out = capsys.readouterr().out
    assert "redacted 1 payloads of run_1" in out
    assert "other run(s) hold the same: run_2" in out
    monkeypatch.setattr(sys, "stdin", io.StringIO("look"))
    options = ["--containing", "-", "--why", "all of it", "--everywhere", "--by", "ada"]
    assert execute(["provenance", "redact", "run_1", *options]) == 0
    told = events_of(record)[-1].payload
    assert (told["who"], told["why"]) == ("ada", "all of it")
    assert execute(["provenance", "verify", "run_1"]) == 0


def test_everywhere_takes_a_payload_from_all_that_hold_it(record: Database, capsys: Captured) -> None:
    store_ended(record, "run_2", prompt="other")
    options = ["--containing", "Add two", "--why", "w", "--everywhere"]
    assert execute(["provenance", "redact", "run_1", *options]) == 0
    assert "payloads of run_2" in capsys.readouterr().out
    with record.begin() as connection:
        left = connection.exec_driver_sql(
            "SELECT body FROM payloads, runs WHERE digest = input_digest"
        ).scalars()
        assert set(left) == {None}


def test_anchors_grow_in_a_file_and_tell_a_run_that_is_gone(
    record: Database, capsys: Captured, key: str
) -> None:
    anchor = ["provenance", "anchor", "--file", "anchors.jsonl"]
    assert execute(anchor) == 0
    assert "anchored 1 heads" in capsys.readouterr().err
    store_ended(record, "run_2", prompt="other")
    assert execute(anchor) == execute(anchor) == 0
    assert len(Path("anchors.jsonl").read_bytes().splitlines()) == 2
    verify = ["provenance", "verify", "--anchor", "anchors.jsonl"]
    assert execute([*verify, "run_2"]) == 0
    store_run(record, "run_3")
    assert execute([*verify, "run_3"]) == 0
    assert "no anchor in that file names this run" in capsys.readouterr().out
    tamper(record, "DELETE FROM events; DELETE FROM calls; DELETE FROM ledger_heads; DELETE FROM runs")
    assert execute([*verify, "run_2"]) == 1
    assert "the run is gone: anchor 2" in capsys.readouterr().out
    tamper(record, "DELETE FROM anchors")
    assert execute(anchor) == 3
    assert "is not in this database" in capsys.readouterr().err


def test_an_anchor_is_sent_signed_and_again_when_it_did_not_arrive(
    record: Database, capsys: Captured, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("CONSENSUS_WEBHOOK_SECRET", "twenty-four-bytes-of-a-secret")
    monkeypatch.setenv("CONSENSUS_WEBHOOK_ALLOW_PRIVATE", "1")
    assert execute(["provenance", "anchor", "--url", "http://127.0.0.1:9/x"]) == 3
    assert "anchor 1 did not arrive" in capsys.readouterr().err
    with receiver() as served:
        assert execute(["provenance", "anchor", "--url", served.url, "--from", "1"]) == 0
    (request,) = served.requests
    told = json.loads(request.body)
    assert (told["type"], told["data"]["heads"][0][:2]) == ("ledger.anchored", ["run_1", 4])


def test_keygen_makes_a_key_that_only_its_owner_can_read(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert execute(["provenance", "keygen", "-o", "new.pem"]) == 0
    public = capsys.readouterr().out.split()[0]
    assert stat.S_IMODE(Path("new.pem").stat().st_mode) == 0o600
    assert execute(["provenance", "keygen", "-o", "new.pem"]) == 3
    monkeypatch.setenv("CONSENSUS_SIGNING_KEY_FILE", "new.pem")
    assert execute(["provenance", "keys"]) == 0
    assert capsys.readouterr().out.split()[0] == public
