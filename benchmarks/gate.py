"""Forty small programs, each with a planted defect and two invented ones, through the whole flow and the real cage.

    python benchmarks/gate.py [--programs N] [--only NAME]

Everything is real but the models: the simulator writes the code, says what is planted in it, and proves it, truly for
the true claim and by a trick for the false ones (`KINDS`). The bar: every true claim is reproduced, every false one is
killed or unproved, and a panel of ten that agrees on what is not so is overruled by one test. Exit 1 below the bar.
Needs a Docker engine with the cage's image: `consensus sandbox build`, CONSENSUS_DOCKER_HOST.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from gate_programs import HONEST, KILLED, KINDS, Program, load_programs
from rich.console import Console
from rich.table import Table

from workers import log
from workers.cli.client import Client
from workers.cli.sandbox import open_cage
from workers.cli.stack import Stack
from workers.providers.simulator.app import create_app
from workers.providers.simulator.catalogue import Catalogue
from workers.providers.simulator.server import SimulatorServer, listening_socket
from workers.settings import load, settings
from workers.stages.replay import replay

#: US dollars per million tokens in and out, to give simulated calls a price: that of a middling model.
PRICES = (3.0, 15.0)
DEADLINE_SECONDS = 3600.0

console = Console(width=150)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """What became of one claim. `word` is the refuter's or the gate's, `reason` the closed word behind it."""

    program: str
    kind: str
    word: str
    reason: str
    seconds: float
    cage_seconds: float
    cost_usd: float
    stands: bool

    @property
    def is_right(self) -> bool:
        if self.kind == "true":
            return self.word == "reproduced"
        return self.word != "reproduced" and not self.stands


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=None, help="only the first N")
    parser.add_argument("--only", default=None, help="only the program of this name")
    options = parser.parse_args()
    programs = [item for item in load_programs() if options.only in {None, item.name}][: options.programs]
    log.configure("ERROR", as_json=False)
    cage = open_cage(load())
    refused = cage.check()
    cage.close()
    if refused is not None:
        console.print(f"[bold red]{refused.sentence}[/]")
        return 1
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gate-benchmark-", dir="/var/tmp") as folder:
        rows, ten, replayed = _run(programs, Path(folder))
    return _report(rows, ten, replayed, programs, seconds=time.monotonic() - began)


def _run(programs: Sequence[Program], folder: Path) -> tuple[list[Row], Mapping[str, Any], int]:
    team = folder / "ten.yaml"
    team.write_text(yaml.safe_dump(_panel_of_ten()), encoding="utf-8")
    with _simulator([program.problem() for program in programs]) as url:
        os.environ |= {
            "CONSENSUS_SIMULATOR_URL": url,
            "CONSENSUS_HOME": str(folder / "home"),
            "CONSENSUS_TEAMS": str(team),
        }
        settings.cache_clear()
        stack = Stack(load(), say=lambda line: console.print(f"[dim]{line}[/]"))
        stack.start()
        try:
            with Client(stack.url) as client:
                ids = {program.name: _submit(client, program, "consensus") for program in programs}
                overruled = next((item for item in programs if item.fine_kind == HONEST), programs[0])
                ten_id = _submit(client, overruled, "ten")
                verdicts = {name: _verdict(client, run_id) for name, run_id in ids.items()}
                rows = [
                    row
                    for program in programs
                    for row in _rows(program, verdicts[program.name], client.provenance(ids[program.name]))
                ]
                ten = _judged(_verdict(client, ten_id), overruled, "fine")
                everything = [*ids.values(), ten_id]
                replayed = sum(replay(client.provenance(run_id)).problem is None for run_id in everything)
        finally:
            stack.stop()
    return rows, ten, replayed


def _submit(client: Client, program: Program, team: str) -> str:
    body = {"spec": program.spec, "team": team, "tests": program.guards()}
    return str(client.create_run(body)["id"])


def _verdict(client: Client, run_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while client.run(run_id)["state"] not in {"finished", "cancelled"}:
        if time.monotonic() > deadline:
            raise TimeoutError(run_id)
        time.sleep(0.3)
    finished = client.provenance(run_id)["events"][-1]["payload"]
    assert isinstance(finished, dict)
    return finished


def _judged(verdict: Mapping[str, Any], program: Program, part: str) -> dict[str, Any]:
    """The claim of the verdict that words this part of the program."""
    words = program.words(part)
    return next(item for item in verdict["claims"] if item["claim"]["text"] in words)


def _rows(program: Program, verdict: Mapping[str, Any], provenance: Mapping[str, Any]) -> Iterator[Row]:
    for part, kind in (("bug", "true"), ("wrong", program.wrong_kind), ("fine", program.fine_kind)):
        judged = _judged(verdict, program, part)
        proved = judged.get("proved")
        spent = judged.get("spent", {"seconds": 0.0, "cage_seconds": 0.0})
        yield Row(
            program=program.name,
            kind=kind,
            word="killed" if judged["state"] == "killed" else proved["proof"] if proved else "untested",
            reason="quote" if judged["state"] == "killed" else proved["reason"] if proved else "",
            seconds=spent["seconds"],
            cage_seconds=spent["cage_seconds"],
            cost_usd=_cost(provenance, judged["claim"]["claim_id"]),
            stands=judged["stands"],
        )


def _cost(provenance: Mapping[str, Any], claim_id: str) -> float:
    used = [
        event["payload"]["usage"]
        for event in provenance["events"]
        if event["kind"] in {"claim.refuted", "claim.tested"} and event["payload"]["claim"] == claim_id
    ]
    tokens_in, tokens_out = (sum(item[name] for item in used) for name in ("input_tokens", "output_tokens"))
    return float((tokens_in * PRICES[0] + tokens_out * PRICES[1]) / 1e6)


def _report(
    rows: Sequence[Row], ten: Mapping[str, Any], replayed: int, programs: Sequence[Program], *, seconds: float
) -> int:
    table = Table("claim", "of", "right", "ends", "s a claim", "of them in the cage", "USD a claim")
    for kind in ("true", *KINDS, HONEST, KILLED):
        chosen = [row for row in rows if row.kind == kind]
        if chosen:
            ends = sorted({f"{row.word}/{row.reason}" for row in chosen})
            table.add_row(
                kind,
                str(len(chosen)),
                str(sum(row.is_right for row in chosen)),
                ", ".join(ends),
                f"{statistics.median(row.seconds for row in chosen):.1f}",
                f"{statistics.median(row.cage_seconds for row in chosen):.1f}",
                f"{statistics.mean(row.cost_usd for row in chosen):.4f}",
            )
    console.print(table)
    for row in rows:
        if not row.is_right:
            console.print(f"[red]wrong[/] {row.program}: {row.kind} is {row.word} ({row.reason})")
    is_unanimous = ten["is_agreed"] and len(ten["claim"]["flagged_by"]) == 10
    is_overruled = is_unanimous and not ten["stands"] and ten["proved"]["proof"] == "not_reproduced"
    console.print(
        f"panel of ten: {len(ten['claim']['flagged_by'])} heads agree on a defect that is none; "
        f"{ten['state']}: {ten['why']}"
    )
    console.print(
        f"{len(programs)} programs, {len(rows)} claims in {seconds:.0f} s; "
        f"{replayed} of {len(programs) + 1} verdicts replayed to the byte; prices as if of a middling model, "
        "answers simulated"
    )
    is_good = all(row.is_right for row in rows) and is_overruled and replayed == len(programs) + 1
    return 0 if is_good else 1


@contextmanager
def _simulator(problems: Sequence[Any]) -> Iterator[str]:
    app = create_app(latency=0.01, catalogue=Catalogue.of(problems))
    listening = listening_socket("127.0.0.1", 0)
    server = SimulatorServer(app)
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listening.close()


def _panel_of_ten() -> dict[str, Any]:
    models = ["birch-large", "cedar-large", "birch-small", "cedar-small", "alder-small"] * 2

    def seat(model: str) -> dict[str, Any]:
        return {"models": [f"simulator/sim-{model}"]}

    return {
        "name": "ten",
        "description": "ten reviewers who all say the same",
        "coder": seat("alder-large"),
        "reviewers": {f"head-{number}": seat(model) for number, model in enumerate(models)},
        "consensus": seat("birch-large"),
        "lead": seat("cedar-large"),
        "policy": {"quorum": {"heads": 2, "families": 2}},
    }


if __name__ == "__main__":
    sys.exit(main())
