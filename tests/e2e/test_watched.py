"""An installation as its operator sees it: Flower, logs and metrics, with a secret planted wherever one can come from.

The provider quotes the key that it is sent in every way it can: nothing of it is to be found afterwards."""

from __future__ import annotations

import dataclasses
import json
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from sqlalchemy import create_engine, text
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tests.e2e.conftest import Installation, make_installation, until
from tests.exported_metrics import value
from tests.factories import team_data
from tests.integration.model_server import GOOD, Behaviour, model_server
from workers.cli.port import free_port
from workers.queues import TaskName

SPEC = "Add the two numbers of the parable of the zebra."
CODE = "def add(zebra_one, zebra_two):\n    return zebra_one + zebra_two\n"

PASSWORD = "flower-planted-0003"
KEY = "sk-local-planted-0001"
#: One in every place that secrets come from.
PLANTED = {
    "LOCAL_API_KEY": KEY,
    "CONSENSUS_WEBHOOK_SECRET": "whsec_cGxhbnRlZC0wMDAyLXBsYW50ZWQtMDAwMg==",
    "CONSENSUS_FLOWER_AUTH": f"ops:{PASSWORD}",
    "CONSENSUS_METRICS_TOKEN": "metrics-planted-0004",
    "OTEL_EXPORTER_OTLP_HEADERS": "api-key=otlp-planted-0005",
    "MY_TOOLS_TOKEN": "tools-planted-0006",
    "HTTPS_PROXY_URL": "http://me:proxy-planted-0007@127.0.0.1:9",
}
SECRETS = (
    KEY,
    "cGxhbnRlZC0wMDAy",
    "planted-0003",
    "planted-0004",
    "planted-0005",
    "planted-0006",
    "planted-0007",
)


def writes_code(role: str, _: dict[str, Any], __: int) -> str:
    files = {"files": {"a.py": CODE}} if role in ("coder", "lead") else {}
    return json.dumps({**GOOD[role], **files})


def quotes_in_a_refusal(*_: Any) -> Response:
    return JSONResponse({"error": {"message": f"Incorrect API key provided: {KEY}"}}, status_code=401)


def quotes_inside_a_200(*_: Any) -> Response:
    return JSONResponse({"error": {"message": f"no such key: Bearer {KEY}", "type": "server_error"}})


def quotes_as_a_page(*_: Any) -> Response:
    page = f"<html><title>Bearer {KEY} was refused</title></html>"
    return PlainTextResponse(page, status_code=500, media_type="text/html")


def quotes_where_json_should_be(*_: Any) -> str:
    return f"I cannot answer in JSON, my key is {KEY}"


#: Every way but the one after which nothing is sent for minutes.
QUOTES: dict[str, Behaviour | str] = {
    "cedar-1": quotes_inside_a_200,
    "dogwood-1": quotes_as_a_page,
    "elm-1": quotes_where_json_should_be,
}


@dataclasses.dataclass(frozen=True)
class Watched:
    """A serving installation; what its servers say is at `url`, `flower` and the workers' `ports`."""

    installation: Installation
    url: str
    ports: dict[str, int]

    @property
    def flower(self) -> str:
        """Flower's address, as `up` printed it."""
        (line,) = [line for line in self.installation.output().splitlines() if "Flower is at" in line]
        return line.split()[3]

    def ask_flower(self, path: str, *, user: str = "ops", password: str = PASSWORD) -> httpx.Response:
        return httpx.get(self.flower + path, auth=(user, password))

    def run(self, **changes: Any) -> dict[str, Any]:
        """Submit one and wait for its end."""
        body = {"spec": SPEC, "team": "watched", **changes}
        run_id = httpx.post(f"{self.url}/v1/runs", json=body).raise_for_status().json()["id"]
        until(lambda: self._read(run_id)["state"] == "finished", "the run does not end")
        return self._read(run_id)

    def _read(self, run_id: str) -> dict[str, Any]:
        return dict(httpx.get(f"{self.url}/v1/runs/{run_id}").raise_for_status().json())

    def scrape(self, url: str) -> str:
        headers = {"Authorization": "Bearer metrics-planted-0004"}
        return httpx.get(f"{url}/metrics", headers=headers).raise_for_status().text

    def logs(self) -> dict[str, str]:
        folder = self.installation.home / "logs"
        return {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.log")}


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with (
        tempfile.TemporaryDirectory(prefix="consensus-e2e-", dir="/var/tmp") as folder,
        model_server() as models,
    ):
        seat = {"timeout_seconds": 5, "max_tokens": 256}
        reviewers = {model.split("-")[0]: {"models": [f"local/{model}"], **seat} for model in QUOTES}
        reviewers |= {"sound": {"models": ["local/fir-1"], **seat}}
        teams = Path(folder) / "teams"
        teams.mkdir()
        refused = {"coder": {"models": ["local/birch-1"], **seat}}
        for team in (
            team_data(name="watched", reviewers=reviewers),
            team_data(name="refused", reviewers=reviewers, **refused),
        ):
            (teams / f"{team['name']}.yaml").write_text(yaml.safe_dump(team), encoding="utf-8")
        base = free_port()
        made = make_installation(
            Path(folder),
            **PLANTED,
            LOCAL_BASE_URL=models.url,
            CONSENSUS_TEAMS=str(teams),
            CONSENSUS_BREAKER_FAILURES="1000",
            CONSENSUS_LOG_JSON="true",
            CONSENSUS_METRICS_PORT=str(base),
            # Nobody takes the spans: the exporter complains, with all it knows.
            OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1",
            OTEL_EXPORTER_OTLP_TIMEOUT="1",
            OTEL_BSP_SCHEDULE_DELAY="200",
        )
        models.behave = dict.fromkeys(("alder-1", "birch-2", "cedar-2", "fir-1"), writes_code) | QUOTES
        port = free_port()
        up = made.start("up", "--port", str(port))
        try:
            until(lambda: "Ctrl-C" in made.output() or up.poll() is not None, "`up` does not serve")
            assert up.poll() is None, made.output()
            ports = {"llm": base, "sandbox": base + 1, "scoring": base + 2}
            served = Watched(installation=made, url=f"http://127.0.0.1:{port}", ports=ports)
            until(lambda: _answers(served.flower), "Flower does not serve")
            until(lambda: len(_workers(served)) == 3, "workers do not show in Flower")
            yield served
        finally:
            up.send_signal(signal.SIGINT)
            up.wait(timeout=60)
            for process in made.processes():
                process.kill()


def _workers(watched: Watched) -> dict[str, Any]:
    """As they answer Flower just now."""
    return dict(watched.ask_flower("/api/workers?refresh=1").json())


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 401
    except httpx.TransportError:
        return False


def test_flower_shows_the_tasks_of_a_run_by_name_and_with_its_id(watched: Watched) -> None:
    run = watched.run()

    def tasks() -> dict[str, dict[str, Any]]:
        listed = watched.ask_flower("/api/tasks", user="ops").json()
        return {key: task for key, task in listed.items() if run["id"] in key}

    until(lambda: any(task["name"] == "finish" for task in tasks().values()), "Flower misses the run's end")
    shown = tasks()
    names = [task["name"] for task in shown.values()]
    assert {name: names.count(name) for name in ("coder", "review", "consensus", "lead", "finish")} == {
        **{"coder": 1, "review": 4, "consensus": 1, "lead": 1, "finish": 1}
    }
    assert set(names) <= {name.value for name in TaskName}
    (sound,) = [task for key, task in shown.items() if ".sound." in key]
    assert sound["args"] == f"({run['id']!r}, 1, 'sound')"
    assert sound["uuid"].startswith(f"{run['id']}.1.sound.")
    assert {task["result"] for task in shown.values() if task["state"] == "SUCCESS"} == {"None"}


def test_flower_shows_what_each_pool_serves(watched: Watched) -> None:
    workers = _workers(watched)

    served = {
        name.split("@")[0]: (
            sorted(queue["name"] for queue in worker["active_queues"]),
            worker["stats"]["pool"]["implementation"].rsplit(":", 1)[-1],
        )
        for name, worker in workers.items()
    }
    assert served == {
        "llm1": (["control", "llm"], "TaskPool"),
        "sandbox": (["sandbox"], "TaskPool"),
        "scoring": (["scoring"], "TaskPool"),
    }


def test_nothing_of_a_prompt_or_of_code_is_in_flower(watched: Watched) -> None:
    run = watched.run()
    pages = ["/", "/tasks", "/broker", "/api/tasks", "/api/workers", "/api/task/types", "/metrics"]
    tasks = watched.ask_flower("/api/tasks").json()
    pages += [f"/task/{key}" for key in tasks] + [f"/api/task/info/{key}" for key in tasks]

    read = {path: watched.ask_flower(path) for path in pages}

    assert {path: answer.status_code for path, answer in read.items() if answer.status_code != 200} == {}
    assert any(run["id"] in answer.text for answer in read.values())
    assert [path for path, answer in read.items() if "zebra" in answer.text or "parable" in answer.text] == []


def test_flower_opens_nothing_without_the_password_and_changes_nothing_with_it(watched: Watched) -> None:
    pages = ("/", "/tasks", "/api/tasks", "/api/workers", "/metrics", "/healthcheck")

    assert {httpx.get(watched.flower + page).status_code for page in pages} == {401}
    assert {watched.ask_flower(page, password="wrong").status_code for page in pages} == {401}
    (worker,) = [name for name in _workers(watched) if name.startswith("scoring")]
    for order in (f"/api/worker/shutdown/{worker}", "/api/task/send-task/finish", "/api/task/apply/finish"):
        answer = httpx.post(watched.flower + order, auth=("ops", PASSWORD), json={"args": ["x"]})
        assert answer.status_code == 403, order


def test_flower_ends_when_it_is_told_to_although_the_broker_is_away(installation: Installation) -> None:
    port = free_port()
    environment = {
        **installation.environment,
        "CONSENSUS_REDIS_URL": "redis://127.0.0.1:1/0",
        "CONSENSUS_FLOWER_AUTH": f"ops:{PASSWORD}",
    }
    alone = dataclasses.replace(installation, environment=environment)
    flower = alone.start("flower", "--port", str(port))
    until(lambda: _answers(f"http://127.0.0.1:{port}"), "Flower does not serve")
    # By then all threads of it wait for the broker.
    until(lambda: "trying again in 4 seconds" in alone.output(), "Flower does not look for the broker")

    flower.send_signal(signal.SIGTERM)

    assert flower.wait(timeout=10) == 0
    assert PASSWORD not in alone.output()


def test_beats_own_tasks_do_not_bury_the_others(watched: Watched) -> None:
    until(
        lambda: (value(_llm(watched), "consensus_worker_tasks_total", task="dispatch") or 0) > 2,
        "nothing is dispatched",
    )
    names = {task["name"] for task in watched.ask_flower("/api/tasks").json().values()}

    assert names & {"dispatch", "rescue", "score-tend", "webhooks"} == set()


def _llm(watched: Watched) -> str:
    return watched.scrape(f"http://127.0.0.1:{watched.ports['llm']}")


def test_every_worker_serves_its_metrics_on_its_port(watched: Watched) -> None:
    watched.run()
    shown = {name: watched.scrape(f"http://127.0.0.1:{port}") for name, port in watched.ports.items()}

    assert (value(shown["llm"], "consensus_worker_tasks_total", task="review") or 0) >= 4
    queues = {"llm": "llm,control", "sandbox": "sandbox", "scoring": "scoring"}
    for name, text_ in shown.items():
        assert (value(text_, "consensus_worker_slots", queues=queues[name]) or 0) >= 1
    # Where the gate's cages are counted, they are so from the beginning.
    assert value(shown["sandbox"], "consensus_cages_ended_total", ending="timed_out") == 0
    assert httpx.get(f"http://127.0.0.1:{watched.ports['llm']}/metrics").status_code == 401


def test_the_api_tells_of_runs_queues_and_calls(watched: Watched) -> None:
    watched.run()

    def ended() -> float:
        shown = watched.scrape(watched.url)
        return sum(
            value(shown, "consensus_runs_ended_total", outcome=outcome, simulated="false") or 0
            for outcome in ("accepted", "rejected", "degraded")
        )

    until(lambda: ended() >= 1, "the run is not counted")
    shown = watched.scrape(watched.url)
    assert value(shown, "consensus_broker_up") == 1
    assert value(shown, "consensus_queue_messages", queue="llm") == 0
    assert value(shown, "consensus_provider_up", provider="local") is not None
    assert value(shown, "consensus_governor_running", provider="local", family="alder") is not None
    assert httpx.get(f"{watched.url}/metrics").status_code == 401


def test_every_line_about_a_seat_says_whose_it_is(watched: Watched) -> None:
    run = watched.run()

    lines = [json.loads(line) for line in watched.logs()["worker-1"].splitlines() if line.startswith("{")]
    of_seats = [line for line in lines if line["event"].startswith("seat.") and line.get("run") == run["id"]]

    said = {(line["stage"], line["seat"], line["round"]) for line in of_seats}
    assert {("coder", "coder", 1), ("panel", "sound", 1), ("panel", "cedar", 1), ("lead", "lead", 1)} <= said
    assert all({"run", "stage", "seat"} <= line.keys() for line in lines if line["event"].startswith("seat."))


def test_every_line_of_every_process_is_one_json_object(watched: Watched) -> None:
    watched.run()

    lines = [(name, line) for name, text_ in watched.logs().items() for line in text_.splitlines()]

    assert len(lines) > 10
    assert [(name, line) for name, line in lines if "event" not in _object(line)] == []


def _object(line: str) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except ValueError:
        return {}


def test_no_secret_is_in_a_log_an_event_a_metric_or_flower(watched: Watched) -> None:
    runs = [watched.run(), watched.run(team="refused")]
    found = dict(watched.logs())
    found["up"] = watched.installation.output().replace("flower-planted-0003)", "")
    for run in runs:
        for path in ("", "/provenance"):
            found[run["team"] + path] = httpx.get(f"{watched.url}/v1/runs/{run['id']}{path}").text
    found["providers"] = httpx.get(f"{watched.url}/v1/providers").text
    found["api metrics"] = watched.scrape(watched.url)
    found |= {name: watched.scrape(f"http://127.0.0.1:{port}") for name, port in watched.ports.items()}
    found["flower"] = "".join(
        watched.ask_flower(page).text for page in ("/api/tasks", "/api/workers", "/broker")
    )
    found |= _database(watched)

    # The provider was asked, and what it said is on record.
    assert "[key]" in found["watched/provenance"]
    assert "[key]" in found["refused/provenance"]
    assert len(found["worker-1"]) > 1000
    assert {name: secret for name, text_ in found.items() for secret in SECRETS if secret in text_} == {}


def _database(watched: Watched) -> dict[str, str]:
    """Every row of every table but those that hold a secret on purpose, as text."""
    from workers.cli.embedded import DATABASE
    from workers.provenance.models import metadata

    folder = watched.installation.home / "postgres"
    url = f"postgresql+psycopg://postgres:@/{DATABASE}?host={folder}"
    engine = create_engine(url)
    with engine.connect() as connection:
        rows = {
            f"table {table.name}": "\n".join(map(_as_text, connection.execute(table.select())))
            for table in metadata.sorted_tables
        }
        assert connection.scalar(text("SELECT count(*) FROM calls WHERE error IS NOT NULL"))
    engine.dispose()
    return rows


def _as_text(row: Any) -> str:
    return " ".join(
        bytes(cell).decode(errors="replace") if isinstance(cell, bytes | memoryview) else str(cell)
        for cell in row
    )
