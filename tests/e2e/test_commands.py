"""What a user types, and what comes back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import ROOT, Installation, command_line, make_installation, until
from workers.cli.port import free_port

SPECS = {
    line["id"]: line
    for line in map(json.loads, (ROOT / "examples/specs.jsonl").read_text(encoding="utf-8").splitlines())
}


def test_the_demo_ends_every_run_says_simulated_and_leaves_nothing_running(
    installation: Installation,
) -> None:
    lines = [json.dumps(SPECS[name]) for name in ("roman", "ttl-cache")]
    (installation.home / "two.jsonl").write_text("\n".join(lines), encoding="utf-8")

    done = installation.consensus("demo", "two.jsonl")

    assert done.returncode == 0, done.stderr
    assert "roman: verdict: accepted (simulated)" in done.stdout
    assert "ttl-cache: verdict: rejected (simulated)" in done.stdout
    assert "2 runs ended: 1 accepted, 1 rejected   answers were simulated" in done.stdout
    assert installation.processes() == []


@pytest.mark.parametrize(
    ("spec", "code", "outcome"), [("roman", 0, "accepted"), ("split-money", 1, "rejected")]
)
def test_run_prints_the_verdict_and_exits_with_its_code(
    spec: str, code: int, outcome: str, serving: tuple[Installation, str]
) -> None:
    installation, _ = serving

    done = installation.consensus("run", "-", "--json", stdin=SPECS[spec]["spec"].encode())

    assert done.returncode == code, done.stderr
    detail = json.loads(done.stdout)
    assert (detail["outcome"], detail["simulated"], detail["usage"]["calls"]) == (outcome, True, 8)


def test_run_works_on_code_that_is_there_and_status_and_cancel_know_it_ended(
    serving: tuple[Installation, str],
) -> None:
    installation, _ = serving
    folder = installation.home / "code"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "mine.py").write_text("x = 1\n", encoding="utf-8")
    (folder / "__pycache__" / "mine.pyc").write_bytes(b"\x00")

    done = installation.consensus("run", "-", "--code", str(folder), "--json", stdin=b"Double x.")

    run = json.loads(done.stdout)
    files = run["verdict"]["files"]
    assert files == {"mine.py": "x = 1\n"}
    assert "code_submitted" in run["verdict"]["notes"]
    assert "coder" not in {seat["stage"] for seat in run["usage"]["seats"]}

    log = json.loads(installation.consensus("results", run["id"], "--format", "sarif").stdout)
    assert (log["version"], log["runs"][0]["properties"]["simulated"]) == ("2.1.0", True)

    # It has ended: status shows the verdict, and cancelling changes nothing.
    assert "simulated" in installation.consensus("status", run["id"]).stdout
    assert f"had already ended: {run['outcome']}" in installation.consensus("cancel", run["id"]).stdout


def test_a_second_up_on_the_same_data_says_where_the_first_serves(serving: tuple[Installation, str]) -> None:
    installation, url = serving

    done = installation.consensus("up", "--port", "8123")

    assert done.returncode == 3
    assert f"already serving at {url}" in done.stderr


def test_where_up_serves_stands_on_one_line_of_80_columns(serving: tuple[Installation, str]) -> None:
    installation, url = serving
    line = next(line for line in installation.output().splitlines() if "is serving at" in line)
    assert line.rstrip() == f"Consensus is serving at {url}   (interface: /docs there)"


def test_an_up_on_a_taken_port_says_so(serving: tuple[Installation, str], installation: Installation) -> None:
    _, url = serving

    done = installation.consensus("up", "--port", url.rpartition(":")[2])

    assert done.returncode == 3
    assert "is in use; choose another with --port" in done.stderr


BAD_INPUT = {
    "an empty spec": (("run", "-"), b"  \n", "the spec is empty"),
    "a spec above 1 MiB": (("run", "-"), b"x" * (1024 * 1024 + 1), "at most 1,048,576 (1 MiB)"),
    "binary bytes": (("run", "-"), b"\xff\xfe\x00\x01", "is not UTF-8"),
    "NUL in text": (("run", "-"), b"write \x00 code", "character 6 is U+0000"),
    "no such file": (("run", "nowhere.md"), b"", "nowhere.md: cannot be read"),
    "no such code": (("run", "-", "--code", "nowhere"), b"Do it.", "--code nowhere: no such file or folder"),
    "an unknown team": (("run", "-", "--team", "concensus"), b"Do it.", "did you mean 'consensus'?"),
    "no such run": (("status", "run_0"), b"", "there is no run 'run_0'"),
    "no such command": (("frobnicate",), b"", "No such command"),
    "a missing argument": (("run",), b"", "Missing argument"),
    "a bad port": (("up", "--port", "99999"), b"", "less than or equal to 65535"),
    "a wrong queue": (("worker", "--queues", "llm,typo"), b"", "known queues are"),
    "a demo without specs": (("demo", "nowhere.jsonl"), b"", "nowhere.jsonl: cannot be read"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_gets_a_sentence_and_exit_3(case: str, serving: tuple[Installation, str]) -> None:
    installation, _ = serving
    arguments, stdin, sentence = BAD_INPUT[case]

    done = installation.consensus(*arguments, stdin=stdin)

    assert done.returncode == 3, done.stdout + done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("changes", "arguments", "sentence"),
    [
        pytest.param(
            {"CONSENSUS_DATABASE_URL": "mysql://db/x"},
            ("migrate",),
            "CONSENSUS_DATABASE_URL: must look like postgresql+psycopg://",
            id="a bad database URL",
        ),
        pytest.param(
            {"CONSENSUS_REDIS_URL": "http://x"},
            ("doctor",),
            "CONSENSUS_REDIS_URL: must look like redis://",
            id="a bad broker URL",
        ),
        pytest.param(
            {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "nonsense"},
            ("providers", "list"),
            "OPENAI_BASE_URL",
            id="a bad base URL",
        ),
        pytest.param(
            {"CONSENSUS_DATABASE_URL": "postgresql://127.0.0.1:1/none"},
            ("migrate",),
            "the database does not answer",
            id="an unreachable database",
        ),
        pytest.param(
            {"CONSENSUS_URL": "http://127.0.0.1:1"},
            ("status", "run_0"),
            "does not answer",
            id="an API that is away",
        ),
        pytest.param(
            {"CONSENSUS_TEAMS": "/nowhere"},
            ("teams", "list"),
            "/nowhere: no such team file",
            id="no such team folder",
        ),
        pytest.param(
            {"CONSENSUS_LEASE_SECONDS": "soon"},
            ("doctor",),
            "CONSENSUS_LEASE_SECONDS",
            id="a setting that is no number",
        ),
    ],
)
def test_bad_settings_get_a_sentence_and_exit_3(
    changes: dict[str, str], arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    done = make_installation(tmp_path, **changes).consensus(*arguments)

    assert done.returncode == 3, done.stdout + done.stderr
    assert sentence in done.stderr + done.stdout
    assert "Traceback" not in done.stderr + done.stdout


def test_a_team_file_with_a_wrong_field_is_refused_with_line_and_allowed_fields(tmp_path: Path) -> None:
    team = (
        (ROOT / "teams/consensus.yaml")
        .read_text(encoding="utf-8")
        .replace("persona: You prefer", "persone: You prefer")
    )
    (tmp_path / "mine.yaml").write_text(team, encoding="utf-8")

    done = make_installation(tmp_path).consensus("teams", "validate", "mine.yaml")

    line = team.split("persone:")[0].count("\n") + 1
    assert done.returncode == 3
    assert (
        f"mine.yaml:{line}: coder.persone: no such field; allowed here: max_tokens, models, persona"
        in done.stdout
    )


def test_a_stranger_adds_a_team_by_one_file(tmp_path: Path) -> None:
    text = (ROOT / "teams/consensus.yaml").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(text.replace("name: consensus", "name: mine"), encoding="utf-8")

    done = make_installation(tmp_path, CONSENSUS_TEAMS=str(tmp_path)).consensus("teams", "show", "mine")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("name: mine\n")


def test_doctor_says_in_plain_words_what_is_there(tmp_path: Path) -> None:
    done = make_installation(tmp_path).consensus("doctor")

    assert done.returncode == 0, done.stdout
    assert "no key is set, so answers are simulated" in done.stdout
    assert "PostgreSQL: embedded" in done.stdout


def test_an_up_that_was_killed_leaves_nothing_behind_and_the_next_one_goes_on(
    installation: Installation,
) -> None:
    port = free_port()
    first = installation.start("up", "--port", str(port))
    until(lambda: "is serving at" in installation.output(), "`up` does not serve")
    run = httpx.post(f"http://127.0.0.1:{port}/v1/runs", json=SPECS["roman"]).json()
    first.send_signal(signal.SIGKILL)
    first.wait(timeout=30)
    until(
        lambda: not any("workers.cli.main" in command_line(p) for p in installation.processes()),
        "children outlive a killed `up`",
    )

    (installation.home / "output.txt").unlink()
    second = installation.start("up", "--port", str(port))
    until(lambda: "is serving at" in installation.output(), "the second `up` does not serve")
    _servers_come_back(installation, port)

    # The run that the first one took is ended by the second, after its servers died as well.
    until(lambda: _outcome(port, run["id"]) == "accepted", "the run does not end")
    second.send_signal(signal.SIGTERM)
    assert second.wait(timeout=30) == 0
    assert installation.processes() == []


def _servers_come_back(installation: Installation, port: int) -> None:
    """Kill the broker and the database of a serving installation; both are started again."""
    servers = [
        process for process in installation.processes() if process.name() in {"valkey-server", "postgres"}
    ]
    next(process for process in servers if process.name() == "valkey-server").kill()
    until(lambda: "the embedded broker died; starting it again" in installation.output(), "not noticed")
    next(process for process in servers if " -D " in command_line(process)).kill()
    until(lambda: "the embedded database died; starting it again" in installation.output(), "not noticed")
    until(lambda: _is_ready(port), "the API is not ready again")


def _outcome(port: int, run_id: str) -> str | None:
    outcome: str | None = httpx.get(f"http://127.0.0.1:{port}/v1/runs/{run_id}").json().get("outcome")
    return outcome


def test_a_closed_pipe_is_no_verdict(serving: tuple[Installation, str]) -> None:
    installation, _ = serving
    command = f"{sys.executable} -m workers.cli.main run - | true; exit ${{PIPESTATUS[0]}}"

    done = subprocess.run(
        ["/bin/bash", "-c", command],
        input=b"Anything.",
        env=installation.environment,
        timeout=60,
        check=False,
    )

    assert done.returncode == 141


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).is_success
    except httpx.HTTPError:
        return False


def test_a_batch_is_submitted_watched_to_its_end_and_fetched(serving: tuple[Installation, str]) -> None:
    installation, _ = serving
    names = ("roman", "ttl-cache", "split-money")
    lines = [json.dumps(SPECS[name]) for name in names]
    (installation.home / "three.jsonl").write_text("\n".join([*lines, lines[0]]), encoding="utf-8")

    done = installation.consensus("submit", "three.jsonl", "--name", "three", "--watch")

    # Two of the three are rejected.
    assert done.returncode == 1, done.stderr
    batch_id = done.stdout.strip()
    assert batch_id.startswith("batch_")
    assert f"{batch_id}: 3 runs; 1 line like an earlier one" in done.stderr
    assert "finished: 3 of 3 (100 %); 1 accepted, 2 rejected" in done.stderr
    assert done.stderr.rstrip().endswith("(simulated)")

    fetched = installation.consensus("results", batch_id, "-o", "out.jsonl")
    assert (fetched.returncode, fetched.stdout, fetched.stderr) == (0, "", "")
    runs = [json.loads(line) for line in (installation.home / "out.jsonl").read_text("utf-8").splitlines()]
    assert [(run["line"], run["external_id"], run["outcome"]) for run in runs] == [
        (1, "roman", "accepted"),
        (2, "ttl-cache", "rejected"),
        (3, "split-money", "rejected"),
    ]
    log = json.loads(installation.consensus("results", batch_id, "--format", "sarif").stdout)
    assert log["runs"][0]["properties"]["outcomes"] == {"accepted": 1, "rejected": 2}
    assert log["runs"][0]["results"]

    again = installation.consensus("submit", "three.jsonl", "--name", "three")
    assert again.stdout.strip() == batch_id
    assert "was submitted before" in again.stderr
