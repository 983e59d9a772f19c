"""The compose file brought up, used and taken down, step by step; what does not hold is a sentence."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.compose.installation import COMPOSE_FILE, ROOT, BrokenError, Installation, describe

#: Stages of a run with a gate, by the names of their tasks.
TASKS = {"coder", "review", "consensus", "gate", "lead", "finish"}
OURS = ("api", "worker-llm", "worker-sandbox", "worker-scoring", "beat", "flower", "simulator")


def play(socket: Path, folder: Path, *, say: Callable[[str], None]) -> None:
    """Raises: BrokenError when the compose file does not do what its page says."""
    installation = Installation(socket, folder)
    before = installation.leftovers()
    with installation:
        _refuse_without_passwords(installation)
        with _step(say, "images for Python, PostgreSQL and Redis from this machine"):
            installation.build_bases()
        with _step(say, "docker compose build"):
            installation.compose("build")
        with _step(say, "docker compose up, until every service is healthy"):
            installation.compose("up", "--detach", "--no-build")
            installation.wait_until_healthy()
        _look_at_containers(installation, say)
        with _step(say, "health checks that can fail"):
            _ask_for_what_is_not_there(installation)
        with _step(say, "a key, without which the API serves nobody"):
            _make_key(installation)
        with _step(say, "a batch through it, one run with tests"):
            runs = _send_batch(installation, folder)
        with _step(say, "its tasks in Flower"):
            _read_flower(installation, runs)
        with _step(say, "docker compose down"):
            installation.compose("down", "--volumes", "--timeout", "20")
        left = sorted(set(installation.leftovers()) - set(before))
        if left:
            raise BrokenError(f"left behind: {', '.join(left)}")
        say("nothing is left behind")


@contextmanager
def _step(say: Callable[[str], None], what: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    say(f"{time.monotonic() - begun:6.1f} s  {what}")


def _refuse_without_passwords(installation: Installation) -> None:
    """In one sentence that names the variable and says where it belongs."""
    command = (
        "docker",
        "compose",
        "--file",
        str(COMPOSE_FILE),
        "--env-file",
        "/dev/null",
        "config",
        "--quiet",
    )
    try:
        installation.run(*command)
    except BrokenError as error:
        said = str(error).splitlines()[1:]
        if len(said) == 1 and "_PASSWORD is missing a value: is not set; copy .env.example" in said[0]:
            return
        raise
    raise BrokenError("without passwords the compose file is content")


def _look_at_containers(installation: Installation, say: Callable[[str], None]) -> None:
    found = installation.containers()
    for service in OURS:
        entry = found[service]
        if entry["Config"]["User"] != "10001:10001" or entry["HostConfig"]["CapDrop"] != ["ALL"]:
            raise BrokenError(f"{service} is not confined to an unprivileged user")
        if entry["HostConfig"]["RestartPolicy"]["Name"] != "unless-stopped":
            raise BrokenError(f"{service} would not be started again")
    published = {
        (service, port["HostIp"], port["HostPort"])
        for service, entry in found.items()
        for bindings in (entry["NetworkSettings"]["Ports"] or {}).values()
        for port in bindings or ()
    }
    if published != {("api", "127.0.0.1", "8000"), ("flower", "127.0.0.1", "5555")}:
        raise BrokenError(f"published ports: {sorted(published)}")
    states = ", ".join(sorted(f"{service} {describe(entry)}" for service, entry in found.items()))
    say(f"          {states}")


def _make_key(installation: Installation) -> None:
    status, _ = installation.get("http://127.0.0.1:8000/v1/runs")
    if status != 401:
        raise BrokenError(f"without a key the API answered {status}")
    made = installation.compose(
        "exec", "--no-TTY", "api", "consensus", "keys", "create", "me", "--scope", "admin"
    )
    installation.key = made.strip()


def basic(user_and_password: str) -> str:
    return f"Basic {base64.b64encode(user_and_password.encode()).decode()}"


def _ask_for_what_is_not_there(installation: Installation) -> None:
    """Each check, asked for something that is not so, must say no."""
    for command in (
        ("worker-llm", "sh", "-c", 'test -n "$(find /tmp/heartbeat -mmin +1)"'),
        ("api", "python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/readyz/no')"),
        ("redis", "sh", "-c", "REDISCLI_AUTH=wrong redis-cli ping | grep -qx PONG"),
    ):
        try:
            installation.compose("exec", "--no-TTY", *command)
        except BrokenError:
            continue
        raise BrokenError(f"{' '.join(command)} was content")
    status, _ = installation.get("http://127.0.0.1:5555/api/workers")
    if status != 401:
        raise BrokenError(f"Flower answered {status} to a stranger")


def _send_batch(installation: Installation, folder: Path) -> list[str]:
    """A batch of three specs; the ids of its runs. The first has tests, which the gate runs in cages."""
    tested = (ROOT / "examples/teams.jsonl").read_text(encoding="utf-8").splitlines()[:1]
    plain = (ROOT / "examples/specs.jsonl").read_text(encoding="utf-8").splitlines()[:2]
    lines = folder / "batch.jsonl"
    lines.write_text("\n".join([*tested, *plain]) + "\n", encoding="utf-8")
    done = installation.consensus("submit", str(lines), "--watch")
    # 0 and 1 say that every run ended with a verdict, 2 that one was degraded.
    if done.returncode not in {0, 1}:
        raise BrokenError(f"the batch ended with code {done.returncode}:\n{done.stdout}{done.stderr}")
    batch = done.stdout.split()[0]
    results = installation.consensus("results", batch, "--format", "jsonl").stdout.splitlines()
    runs = [json.loads(line) for line in results]
    if [run["state"] for run in runs] != ["finished"] * 3:
        raise BrokenError(f"the runs of the batch: {results}")
    _, ledger = installation.get(
        f"http://127.0.0.1:8000/v1/runs/{runs[0]['id']}/provenance",
        authorization=f"Bearer {installation.key}",
    )
    faults = [word for word in ("no_sandbox", "no_prover", "cage_failed") if word in ledger]
    if faults or '"reproduced"' not in ledger:
        raise BrokenError(f"the gate proved nothing ({', '.join(faults)}): {ledger[-3000:]}")
    # A test that reproduces a claim, and the submitted tests on the lead's version: each where its stage is served.
    for service, stage in (("worker-sandbox", "gate"), ("worker-llm", "lead")):
        lines = installation.compose("logs", "--no-color", service).splitlines()
        # One of them is the canary.
        if sum("cage.ran" in line and f"stage={stage}" in line for line in lines) < 2:
            raise BrokenError(f"{service} has run nothing in a cage:\n" + "\n".join(lines[-20:]))
    return [run["id"] for run in runs]


def _read_flower(installation: Installation, runs: list[str]) -> None:
    status, body = installation.get(
        "http://127.0.0.1:5555/api/tasks", authorization=basic(installation.flower_auth)
    )
    if status != 200:
        raise BrokenError(f"Flower answered {status}: {body[:300]}")
    tasks = list(json.loads(body).values())
    missing = TASKS - {task["name"] for task in tasks}
    if missing:
        raise BrokenError(f"Flower has seen no {', '.join(sorted(missing))}")
    failed = {task["name"] for task in tasks if task["state"] in {"FAILURE", "RETRY", "REVOKED"}}
    if failed:
        raise BrokenError(f"Flower shows failures of {', '.join(sorted(failed))}")
    strangers = [run for run in runs if run not in body]
    if strangers:
        raise BrokenError(f"Flower does not show the runs {', '.join(strangers)}")
    spec = json.loads((ROOT / "examples/specs.jsonl").read_text(encoding="utf-8").splitlines()[0])["spec"]
    if spec[:30] in body:
        raise BrokenError("Flower shows what a spec says")
