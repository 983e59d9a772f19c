"""`consensus simulate-llm` as a process: what it prints is what a rehearsal needs, and it ends when told to."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.contract.simulator_client import WHOLE_ANSWER, Anthropic, OpenAi
from tests.contract.test_simulator_with_providers import question
from tests.unit.simulator.rehearsal import ROOT
from workers.cli.main import execute
from workers.providers.attempts import AttemptCounter
from workers.providers.http import HttpClient
from workers.providers.registry import enabled
from workers.providers.wire_provider import WireProvider


@contextlib.contextmanager
def simulating(*options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """The process, once it listens, and the variables that it says to export."""
    process = subprocess.Popen(
        [sys.executable, "-m", "workers.cli.main", "simulate-llm", "--port", "0", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        exports: dict[str, str] = {}
        for line in process.stdout:
            if found := re.fullmatch(r"  export ([A-Z_]+)=(\S+)\n", line):
                exports[found[1]] = found[2]
            if "stay marked" in line:
                break
        yield process, exports
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The one line on standard error of a command that is refused."""
    assert execute(["simulate-llm", *options]) == 3
    output, errors = capsys.readouterr()
    assert (output, errors.count("\n")) == ("", 1)
    return errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_stop_and_ends_well(number: signal.Signals) -> None:
    with simulating("--latency-seconds", "0") as (process, exports):
        url = exports["CONSENSUS_SIMULATOR_URL"]
        reply = httpx.post(f"{url}/chat/completions", json=OpenAi().body(stream=False), timeout=20)
        assert OpenAi().hear(reply.json()).text == WHOLE_ANSWER
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
        assert (process.returncode, errors) == (0, "")


def test_a_silent_answer_does_not_keep_it_from_stopping(tmp_path: Path) -> None:
    script = tmp_path / "silent.yaml"
    script.write_text("rules: [{fault: silence}]")
    with simulating("--latency-seconds", "0", "--faults", str(script)) as (process, exports):
        url = exports["CONSENSUS_SIMULATOR_URL"]
        body = Anthropic().body(stream=True)
        with httpx.stream("POST", f"{url}/messages", json=body, timeout=20) as reply:
            pieces = reply.iter_raw()
            assert b"message_start" in next(pieces)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(httpx.TransportError):
                b"".join(pieces)
        _, errors = process.communicate(timeout=20)
        assert (process.returncode, errors) == (0, "")


async def test_what_it_prints_turns_the_real_providers_into_a_rehearsal() -> None:
    with simulating("--latency-seconds", "0", "--any-model") as (_, exports):
        assert set(exports) == {
            "OPENAI_BASE_URL",
            "OPENAI_API_KEY",
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_API_KEY",
        }
        configs = enabled(exports)
        assert set(configs) == {"openai", "anthropic"}
        async with HttpClient() as http:
            for name, model in (("openai", "gpt-5"), ("anthropic", "claude-sonnet-4-5")):
                provider = WireProvider(configs[name], http)
                completion = await provider.complete(question(stream=True, model=model), AttemptCounter(2))
                assert completion.is_simulated
                assert completion.model_served.startswith("sim-")


def test_limits_and_faults_of_the_command_line_hold(tmp_path: Path) -> None:
    script = tmp_path / "night.yaml"
    script.write_text("rules: [{fault: forbidden, when: {nth: 1}}]")
    options = ("--latency-seconds", "0", "--requests-per-minute", "1", "--faults", str(script))
    with simulating(*options) as (_, exports):
        url = exports["CONSENSUS_SIMULATOR_URL"]
        body = Anthropic().body(stream=False)
        statuses = [httpx.post(f"{url}/messages", json=body, timeout=20).status_code for _ in range(3)]
    assert statuses == [403, 200, 429]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--faults", "rough-nihgt"), "did you mean rough-night? Scenarios: empty-purse, outage,"),
        (("--latency-p95-seconds", "3"), "needs the median as well: give --latency-seconds"),
        (("--latency-seconds", "3", "--latency-p95-seconds", "2"), "at least the median, 3"),
        (("--first-piece-p95-seconds", "3"), "give --first-piece-seconds"),
        (("--requests-per-minute", "0"), "--requests-per-minute"),
        (("--host", "no.such.host.invalid"), "cannot listen on no.such.host.invalid"),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], sentence: str
) -> None:
    assert sentence in refused(capsys, *options)


def test_a_port_that_is_taken_is_refused_with_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1 port {port}" in refused(capsys, "--port", str(port))
