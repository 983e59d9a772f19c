"""`submit`, `status`, `pause`, `resume`, `cancel` and `results` of batches, against a server that serves."""

from __future__ import annotations

import gzip
import io
import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from tests.api.batch_rows import end, end_batch, store_batch
from tests.api.streams import DEADLINE_SECONDS, LiveServer
from workers import log
from workers.cli.main import execute
from workers.core.batch import BatchState
from workers.core.run import Outcome
from workers.provenance.models import batches as batches_table
from workers.provenance.models import runs as runs_table
from workers.provenance.session import Database

Captured = pytest.CaptureFixture[str]
SOME = (Outcome.ACCEPTED, Outcome.REJECTED, None)


@pytest.fixture(autouse=True)
def _found(live: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the server and write into a folder of their own."""
    monkeypatch.setenv("CONSENSUS_URL", live.url)
    monkeypatch.setenv("CONSENSUS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


def specs_file(*lines: Any, name: str = "specs.jsonl") -> str:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    Path(name).write_text(text, encoding="utf-8")
    return name


TWO = ({"spec": "Write slugify(text).", "id": "a"}, {"spec": "Write median(numbers).", "id": "b"})


def stored(database: Database) -> int:
    with database.begin() as connection:
        return int(connection.execute(select(func.count()).select_from(runs_table)).scalar_one())


def test_submit_prints_the_id_alone_where_nobody_reads_it(database: Database, capsys: Captured) -> None:
    assert execute(["submit", specs_file(*TWO)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("batch_")
    assert out.count("\n") == 1
    assert f"{out.strip()}: 2 runs" in err
    assert stored(database) == 2


def test_the_same_text_and_options_are_the_same_batch_however_they_come(
    database: Database, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = specs_file(*TWO)
    body = Path(plain).read_bytes()
    Path("packed.gz").write_bytes(gzip.compress(body))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
    ids = []
    for place in (plain, "packed.gz", "-"):
        assert execute(["submit", place, "--name", "two"]) == 0
        ids.append(capsys.readouterr().out)
    assert len(set(ids)) == 1
    assert execute(["submit", plain, "--name", "two", "--again"]) == 0
    assert execute(["submit", plain, "--name", "other"]) == 0
    assert len({*ids, *capsys.readouterr().out.split()}) == 3
    assert stored(database) == 6


def test_every_bad_line_is_named_and_nothing_is_stored(database: Database, capsys: Captured) -> None:
    place = specs_file(TWO[0], {"spec": 3}, "no json", TWO[1])
    assert execute(["submit", place]) == 3
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert lines[0].startswith("consensus: specs.jsonl:2: spec: ")
    assert lines[1].startswith("specs.jsonl:3: is not JSON")
    assert lines[2] == (
        "nothing was stored, because 2 lines cannot be used; mend them, or leave them out with --skip-bad"
    )
    assert (out, stored(database)) == ("", 0)


def test_of_many_bad_lines_twenty_are_named_and_the_others_counted(
    database: Database, capsys: Captured
) -> None:
    assert execute(["submit", specs_file(*["no json"] * 1025)]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 22
    assert lines[20] == "… and 1,005 more lines that cannot be used"


def test_bad_lines_can_be_left_out_and_are_told(database: Database, capsys: Captured) -> None:
    assert execute(["submit", specs_file(TWO[0], "no json", TWO[0]), "--skip-bad"]) == 0
    out, err = capsys.readouterr()
    assert "1 run; 1 line like an earlier one, run once with it; 1 bad line left out" in err
    assert "left out line 2: is not JSON" in err
    assert execute(["status", out.strip()]) == 0
    assert "left out line 2: is not JSON" in capsys.readouterr().out


def test_an_unknown_team_for_all_lines_is_one_sentence_about_the_option(
    database: Database, capsys: Captured
) -> None:
    for extra in ([], ["--skip-bad"]):
        assert execute(["submit", specs_file(*TWO), "--team", "consensu", *extra]) == 3
        assert capsys.readouterr().err.startswith(
            "consensus: there is no team 'consensu'; did you mean 'consensus'?"
        )
    assert stored(database) == 0


def test_a_wrong_word_for_an_option_is_told_without_the_checkers_own_prefix(capsys: Captured) -> None:
    assert execute(["results", "batch_1", "--format", "xml"]) == 3
    err = capsys.readouterr().err
    assert err == "consensus: Invalid value for '--format': 'xml' is not one of 'jsonl', 'csv', 'sarif'.\n"


def test_the_options_arrive(database: Database, capsys: Captured) -> None:
    options = ["--priority", "3", "--concurrency", "4"]
    assert execute(["submit", specs_file(*TWO), *options, "--budget-tokens", "700000", "--json"]) == 0
    batch = json.loads(capsys.readouterr().out)
    assert (batch["priority"], batch["concurrency"], batch["budget_tokens"]) == (3, 4, 700_000)


def test_a_webhook_that_nobody_could_sign_is_refused(database: Database, capsys: Captured) -> None:
    assert execute(["submit", specs_file(*TWO), "--webhook-url", "https://hooks.example/x"]) == 3
    assert "webhook_url: this installation cannot sign webhooks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: "missing.jsonl", "missing.jsonl: cannot be read: No such file or directory"),
        (lambda: ".", ".: cannot be read: Is a directory"),
        (lambda: specs_file("", "  "), "specs.jsonl: holds no spec"),
    ],
)
def test_a_file_that_cannot_be_used_gets_one_sentence(
    database: Database, capsys: Captured, make: Any, sentence: str
) -> None:
    assert execute(["submit", make()]) == 3
    assert sentence in capsys.readouterr().err


def test_half_a_gzip_file_is_refused(database: Database, capsys: Captured) -> None:
    Path("half.gz").write_bytes(gzip.compress(json.dumps(TWO[0]).encode() * 1000)[:40])
    assert execute(["submit", "half.gz"]) == 3
    assert "half.gz: is no whole gzip file" in capsys.readouterr().err


def test_status_shows_a_batch(database: Database, capsys: Captured) -> None:
    store_batch(database, SOME, name="nightly")
    assert execute(["status", "batch_1"]) == 0
    out = capsys.readouterr().out
    assert "running · nightly simulated" in out
    assert "2 of 3 runs ended · 66 %" in out


@pytest.mark.parametrize(
    ("outcomes", "state", "code"),
    [
        ([Outcome.ACCEPTED] * 2, BatchState.FINISHED, 0),
        ([Outcome.ACCEPTED, Outcome.REJECTED], BatchState.FINISHED, 1),
        ([Outcome.DEGRADED, Outcome.REJECTED], BatchState.FINISHED, 2),
        ([Outcome.ACCEPTED], BatchState.CANCELLED, 4),
    ],
)
def test_watching_ends_with_the_batch_and_its_code(
    database: Database, capsys: Captured, outcomes: list[Outcome], state: BatchState, code: int
) -> None:
    store_batch(database, outcomes, "batch_2")
    end_batch(database, "batch_2", state)
    assert execute(["status", "batch_2", "--watch"]) == code
    assert capsys.readouterr().err.startswith(f"{state}: ")


def test_watching_goes_on_until_the_last_run_has_ended(database: Database, capsys: Captured) -> None:
    first, second = store_batch(database, [None, None])
    codes: list[int] = []
    watcher = threading.Thread(target=lambda: codes.append(execute(["status", "batch_1", "--watch"])))
    watcher.start()
    end(database, first, Outcome.ACCEPTED)
    end(database, second, Outcome.REJECTED)
    end_batch(database)
    watcher.join(timeout=DEADLINE_SECONDS)
    assert codes == [1]
    assert "finished: 2 of 2 (100 %); 1 accepted, 1 rejected" in capsys.readouterr().err


def test_pause_resume_and_cancel_say_what_they_came_to(database: Database, capsys: Captured) -> None:
    store_batch(database, SOME)
    told = []
    for command in ("pause", "resume", "cancel"):
        assert execute([command, "batch_1"]) == 0
        told.append(capsys.readouterr().out)
    assert told[0].startswith("paused batch_1: 1 run waiting, 0 runs under way")
    assert told[1].startswith("running batch_1: 0 runs under way, 1 run waiting")
    assert told[2].startswith("cancelled batch_1: 2 runs had ended")
    assert execute(["resume", "batch_1"]) == 3
    assert "batch_1 is cancelled" in capsys.readouterr().err


def test_a_batch_out_of_budget_is_resumed_with_a_larger_one(database: Database, capsys: Captured) -> None:
    store_batch(database, budget_usd=1, state=BatchState.PAUSED, pause_cause="budget")
    assert execute(["resume", "batch_1"]) == 3
    assert "resume it with a larger one" in capsys.readouterr().err
    assert execute(["resume", "batch_1", "--budget-usd", "2.5"]) == 0
    with database.begin() as connection:
        row = connection.execute(select(batches_table.c.state, batches_table.c.budget_usd)).one()
    assert (row.state, float(row.budget_usd)) == ("running", 2.5)


@pytest.mark.parametrize("command", ["status", "cancel", "results"])
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("batch_9", "there is no batch 'batch_9'"),
        ("run_9", "there is no run 'run_9'"),
        ("nightly", "'nightly' is no id"),
        ("../runs", "'../runs' is no id"),
    ],
)
def test_an_id_that_nobody_has_is_said_to_be_unknown(
    database: Database, capsys: Captured, command: str, name: str, sentence: str
) -> None:
    assert execute([command, name]) == 3
    assert sentence in capsys.readouterr().err


def test_a_run_can_be_neither_paused_nor_resumed(database: Database, capsys: Captured) -> None:
    for command in ("pause", "resume"):
        assert execute([command, "run_1"]) == 3
        assert "run_1 is a run, and only batches can be" in capsys.readouterr().err


def test_results_are_written_whole_and_partial_ones_are_said_to_be(
    database: Database, capsys: Captured
) -> None:
    run_ids = store_batch(database, SOME)
    assert execute(["results", "batch_1", "-o", "out.jsonl"]) == 0
    lines = [json.loads(line) for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == run_ids
    assert "partial: 1 run of 3 had not ended" in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir() if path.is_file()) == ["out.jsonl"]


def test_results_of_a_run_and_of_a_batch_go_to_standard_output(
    database: Database, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run_ids = store_batch(database, SOME)
    assert execute(["results", "batch_1", "--format", "csv"]) == 0
    assert capfdbinary.readouterr().out.count(b"\n") == 4
    assert execute(["results", run_ids[1], "--format", "sarif"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["version"] == "2.1.0"


def test_a_failed_download_leaves_the_old_file_and_nothing_else(database: Database, capsys: Captured) -> None:
    # The error lands in the server's log, and structlog's own way to draw one takes seconds.
    log.configure("CRITICAL", as_json=True)
    store_batch(database, SOME)
    Path("out.jsonl").write_text("from yesterday", encoding="utf-8")
    with database.begin() as connection:
        # A run without a state that is one: reading it fails in the middle of the stream.
        connection.execute(update(runs_table).where(runs_table.c.position == 2).values(state="lost"))
    assert execute(["results", "batch_1", "-o", "out.jsonl"]) == 3
    assert "broke off" in capsys.readouterr().err
    assert Path("out.jsonl").read_text(encoding="utf-8") == "from yesterday"
    assert [path.name for path in Path().iterdir() if path.is_file()] == ["out.jsonl"]
