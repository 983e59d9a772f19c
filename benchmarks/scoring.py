"""Scoring through the queue beside `consensus score --jobs N` on the same files: throughput, a second night of which
little is new, and what storing by content saves. Every figure is a ratio of two measured in this run.

    python benchmarks/scoring.py FOLDER_WITH_TRAJECTORIES [--processes N] [--new SHARE]

Ends with 1 if the two reports differ in a byte."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from workers.cli.score_cohort import find_files
from workers.cli.score_progress import Silent
from workers.cli.score_upload import Uploaded, upload
from workers.cli.scoring_client import ScoringClient
from workers.cli.stack import Stack
from workers.settings import Settings

LOOK_SECONDS = 0.1


def here(folder: Path, jobs: int, output: Path) -> float:
    """Seconds of `consensus score` over the folder."""
    begun = time.perf_counter()
    command = ["score", str(folder), "--json", "--jobs", str(jobs), "-o", str(output)]
    ended = subprocess.run(
        [sys.executable, "-m", "workers.cli.main", *command], check=False, stderr=subprocess.PIPE
    )
    if ended.returncode not in (0, 2):
        raise SystemExit(ended.stderr.decode())
    return time.perf_counter() - begun


def sent(client: ScoringClient, folder: Path) -> tuple[Uploaded, float]:
    """The folder uploaded, and how long it took."""
    begun = time.perf_counter()
    files, _ = find_files((folder,))
    found = upload(client, files, (folder,), Silent())
    return found, time.perf_counter() - begun


def queued(client: ScoringClient, upload_set: str) -> tuple[dict[str, Any], float]:
    """A finished scoring, and its seconds from the request to the report."""
    scoring_id = client.start_scoring({"upload_set": upload_set})["id"]
    while (scoring := client.scoring(scoring_id))["state"] in ("queued", "running"):
        time.sleep(LOOK_SECONDS)
    if scoring["state"] != "finished":
        raise SystemExit(f"the scoring {scoring['state']}: {scoring['error']}")
    begun, ended = (dt.datetime.fromisoformat(scoring[name]) for name in ("created_at", "finished_at"))
    return scoring, (ended - begun).total_seconds()


def evening(folder: Path, into: Path, share: float) -> Path:
    """The folder without the newest share of its runs."""
    files, _ = find_files((folder,))
    left_out = set(range(0, len(files), max(2, round(1 / share))))
    for number, file in enumerate(files):
        if number not in left_out:
            place = into / Path(file.place).relative_to(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(file.place)
    return into


def line(name: str, value: str) -> None:
    print(f"  {name:<58}{value:>12}")


def measure(folder: Path, scratch: Path, url: str, processes: int, share: float) -> bool:
    before = evening(folder, scratch / "before", share)
    with ScoringClient(url) as client:
        warm, _ = sent(client, before)
        first, first_seconds = queued(client, warm.upload_set)
        # What the first night takes here, with the same number of processes.
        here_first = here(before, processes, scratch / "before.json")
        whole, whole_seconds = sent(client, folder)
        second, second_seconds = queued(client, whole.upload_set)
        here_whole = here(folder, processes, scratch / "whole.json")
        again, again_seconds = sent(client, folder)
        third, third_seconds = queued(client, again.upload_set)
        page = scratch / "queue.json"
        with page.open("wb") as out:
            client.report(second["id"], "json", out)
        stored = stored_bytes(client, whole.upload_set)
    print(
        f"\n{first['runs']} runs, then {second['runs'] - first['runs']} more; {processes} processes on both sides"
    )
    line("first night: queue / `consensus score --jobs N`", f"{first_seconds / here_first:.2f}")
    line("  runs a second through the queue", f"{first['runs'] / first_seconds:.0f}")
    line("  runs a second here and now", f"{first['runs'] / here_first:.0f}")
    line("second night: runs computed / runs", f"{second['computed'] / second['runs']:.3f}")
    line("  of these anew, because their reference changed", f"{second['stale'] / second['runs']:.3f}")
    line(
        "  its time / the first night's, a run", f"{_rate(second, second_seconds, first, first_seconds):.2f}"
    )
    line("  its time / `consensus score --jobs N` of all", f"{second_seconds / here_whole:.2f}")
    line(
        "nothing new: its time / the first night's, a run",
        f"{_rate(third, third_seconds, first, first_seconds):.2f}",
    )
    line("  runs computed", str(third["computed"]))
    line("bytes sent for the second night / all bytes", f"{whole.sent_bytes / stored[0]:.3f}")
    line("  sent again when nothing is new", str(again.sent_bytes))
    line("bytes stored / bytes of the files", f"{stored[1] / stored[0]:.3f}")
    line("uploading the second night / scoring it", f"{whole_seconds / second_seconds:.2f}")
    line("  naming all files again / the same", f"{again_seconds / third_seconds:.2f}")
    same = page.read_bytes() == (scratch / "whole.json").read_bytes()
    line("the two reports", "same bytes" if same else "DIFFER")
    return same


def _rate(one: dict[str, Any], seconds: float, other: dict[str, Any], others: float) -> float:
    return (seconds / one["runs"]) / (others / other["runs"])


def stored_bytes(client: ScoringClient, upload_set: str) -> tuple[int, int]:
    """(bytes of an upload set's files, bytes that they take in the store, each content once)."""
    sizes, stored, cursor = 0, {}, None
    while True:
        query: dict[str, Any] = {"set": upload_set, "limit": 1000} | ({"cursor": cursor} if cursor else {})
        answer = httpx.get(f"{client.url}/v1/trajectories", params=query, timeout=60).json()
        sizes += sum(file["size_bytes"] for file in answer["trajectories"])
        stored |= {file["digest"]: file["stored_bytes"] for file in answer["trajectories"]}
        cursor = answer["next_cursor"]
        if cursor is None:
            return sizes, sum(stored.values())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--new", type=float, default=0.05, help="share of the runs that come the second night"
    )
    chosen = parser.parse_args()
    # Not under a home directory: the PostgreSQL wheel opens the folders above its data to its own user.
    with tempfile.TemporaryDirectory(prefix="consensus-bench-", dir="/var/tmp") as home:
        os.environ["CONSENSUS_SCORING_PROCESSES"] = str(chosen.processes)
        settings = Settings(home=Path(home) / "home")
        stack = Stack(settings, say=print)
        try:
            stack.start()
            return 0 if measure(chosen.folder, Path(home), stack.url, chosen.processes, chosen.new) else 1
        finally:
            stack.stop()


if __name__ == "__main__":
    raise SystemExit(main())
