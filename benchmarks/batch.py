"""What batches cost, and what they do to others: submission, dispatch, memory, latency, fairness, cancel, a burst.

    python benchmarks/batch.py [--quick] [--only PART …]

Everything real but the models, which the simulator plays with a fixed time per answer; two workers. Ratios are of
figures from this one run, so they mean something on a busy machine; absolute figures do not. Exit 1 when a bar is
missed."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from installation import Installation, Memory, installed
from pipeline import bare
from rich.console import Console
from rich.table import Table

MEMORY_BAR, LATENCY_BAR, BURST_BAR, FAIR_BAR, CANCEL_BAR_SECONDS = 1.2, 1.5, 1.5, 1.25, 10.0

console = Console(width=130)


class Findings:
    """The table, and whether every bar was kept."""

    def __init__(self) -> None:
        self.table = Table("measurement", "figure", "against", "ratio", "bar", "")
        self.is_good = True

    def add(
        self,
        name: str,
        figure: str,
        against: str = "",
        *,
        ratio: float | None = None,
        bar: float | None = None,
    ) -> None:
        kept = ratio is None or bar is None or ratio <= bar
        self.is_good = self.is_good and kept
        self.table.add_row(
            name,
            figure,
            against,
            "" if ratio is None else f"{ratio:.2f}",
            "" if bar is None else f"<= {bar:g}",
            "" if bar is None else "[green]kept[/]" if kept else "[red]missed[/]",
        )
        console.print(f"[dim]{name}: {figure} {against} {'' if ratio is None else f'{ratio:.2f}'}[/]")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller batches and shorter calls")
    parser.add_argument("--only", nargs="*", choices=sorted(PARTS), default=list(PARTS))
    options = parser.parse_args()
    findings = Findings()
    for name in options.only:
        PARTS[name](findings, quick=options.quick)
    console.print(findings.table)
    return 0 if findings.is_good else 1


def sizes(findings: Findings, *, quick: bool) -> None:
    """Submission and dispatch rate, and memory after the same time at work, whatever waits in the database."""
    counts = (100, 1_000, 3_000) if quick else (1_000, 10_000, 100_000)
    first: Memory | None = None
    for count in counts:
        with installed(6.0) as (here, _):
            batch_id, seconds = here.submit(count, label="sizes")
            findings.add(f"submit {count:,} lines", f"{count / seconds:,.0f} lines/s")
            started = time.monotonic()
            here.wait_for_window(batch_id, runs=1)
            time.sleep(max(0.0, started + (15 if quick else 40) - time.monotonic()))
            sent, window_seconds = here.value(_SENT, batch=batch_id).split()
            findings.add(
                f"dispatch, {count:,} queued",
                f"{int(sent):,} sent in {float(window_seconds):.1f} s",
                f"{here.messages():,} messages wait",
            )
            memory = here.memory()
            first = first or memory
            for part in ("api", "workers", "redis"):
                now, before = getattr(memory, part), getattr(first, part)
                findings.add(
                    f"memory of {part}, {count:,} queued",
                    f"{now:.1f} MiB",
                    f"{before:.1f} MiB at {counts[0]:,}",
                    ratio=now / before,
                    bar=None if memory is first else MEMORY_BAR,
                )


_SENT = """
    SELECT count(dispatched_at) || ' ' || coalesce(extract(epoch FROM max(dispatched_at) - min(dispatched_at)), 0)
    FROM runs WHERE batch_id = :batch
"""


def latency(findings: Findings, *, quick: bool) -> None:
    """An interactive run's time to its first review: alone, and beside a huge batch; then the same where a provider
    allows little, so that the batch's seats stand in the governor's line."""
    count, samples = (2_000, 3) if quick else (10_000, 8)
    for name, call_seconds, per_minute in (
        ("slow calls", 2.0 if quick else 6.0, None),
        ("few calls a minute", 0.5, 300),
    ):
        with installed(call_seconds) as (here, _):
            if per_minute is not None:
                limits = {"requests_per_minute": per_minute}
                here.api.put("/v1/limits/simulator/*", json=limits).raise_for_status()
                # Workers hear of it with their next heartbeat.
                time.sleep(5)
            _first_review(here)
            idle = [_first_review(here) for _ in range(samples)]
            batch_id, _ = here.submit(count, label=name)
            here.wait_for_window(batch_id, runs=50)
            time.sleep(10 if quick else 20)
            loaded = [_first_review(here) for _ in range(samples)]
        findings.add(
            f"first review beside {count:,} queued, {name}",
            f"{statistics.median(loaded):.2f} s (worst {max(loaded):.2f})",
            f"{statistics.median(idle):.2f} s idle (worst {max(idle):.2f})",
            ratio=statistics.median(loaded) / statistics.median(idle),
            bar=LATENCY_BAR,
        )


def _first_review(here: Installation) -> float:
    """Seconds from the submission of one interactive run to its first review, by the database's clock."""
    run_id = here.run()
    here.wait_for(lambda: here.value(_REVIEWS, run=run_id) > 0, seconds=120, what="a first review")
    return float(here.value(_FIRST_REVIEW, run=run_id))


_REVIEWS = "SELECT count(*) FROM stages WHERE run_id = :run AND stage = 'panel' AND state = 'done'"
_FIRST_REVIEW = """
    SELECT extract(epoch FROM min(stages.finished_at) - runs.created_at) FROM stages JOIN runs USING (run_id)
    WHERE run_id = :run AND stage = 'panel' AND stages.state = 'done' GROUP BY runs.created_at
"""


def fairness(findings: Findings, *, quick: bool) -> None:
    """A batch that comes second and is ten times smaller gets the same share of the window."""
    big, small = (1_500, 300) if quick else (10_000, 1_000)
    with installed(2.0 if quick else 4.0) as (here, _):
        first, _ = here.submit(big, label="big")
        here.wait_for_window(first, runs=50)
        second, _ = here.submit(small, label="small")
        here.wait_for(
            lambda: here.under_way(second) >= 0.9 * here.under_way(first), seconds=120, what="an equal share"
        )
        shares = []
        for _ in range(10 if quick else 30):
            shares.append((here.under_way(first), here.under_way(second)))
            time.sleep(0.5)
    ours, theirs = (statistics.mean(part) for part in zip(*shares, strict=True))
    findings.add(
        f"two batches, {big:,} and {small:,}",
        f"{ours:.0f} runs under way",
        f"{theirs:.0f}",
        ratio=max(ours, theirs) / min(ours, theirs),
        bar=FAIR_BAR,
    )


def cancel(findings: Findings, *, quick: bool) -> None:
    """How long a cancelled batch goes on spending, and until its last row says so."""
    count = 2_000 if quick else 10_000
    with installed(6.0) as (here, _):
        batch_id, _ = here.submit(count, label="cancel")
        here.wait_for_window(batch_id, runs=50)
        time.sleep(10)
        at = here.value("SELECT clock_timestamp()")
        started = time.perf_counter()
        here.api.post(f"/v1/batches/{batch_id}/cancel").raise_for_status()
        answered = time.perf_counter() - started
        here.wait_for(
            lambda: here.value(
                "SELECT finished_at IS NOT NULL FROM batches WHERE batch_id = :batch", batch=batch_id
            ),
            seconds=120,
            what="the end of the sweep",
        )
        swept = time.perf_counter() - started
        time.sleep(8)
        sent = here.value(_LAST_CALL, at=at)
        stopped = here.value(_LAST_END, at=at)
        left = here.value("SELECT count(*) FROM runs WHERE state IN ('queued', 'running')")
    findings.add(f"cancel {count:,} queued: answered", f"{answered:.2f} s")
    findings.add("cancel: the last call was sent after", f"{float(sent):.2f} s")
    findings.add(
        "cancel: the last connection closed after",
        f"{float(stopped):.2f} s",
        ratio=float(stopped),
        bar=CANCEL_BAR_SECONDS,
    )
    findings.add(
        "cancel: every run's row closed after", f"{swept:.1f} s", f"{left} left", ratio=float(left), bar=0.0
    )


_LAST_CALL = "SELECT coalesce(extract(epoch FROM max(sent_at) - :at), 0) FROM calls WHERE sent_at > :at"
_LAST_END = """
    SELECT coalesce(extract(epoch FROM max(ended_at) - :at), 0) FROM calls
    WHERE ended_at > :at AND error_kind IS DISTINCT FROM 'lost_worker'
"""


def burst(findings: Findings, *, quick: bool) -> None:
    """200 runs at once, as a batch, against the same calls from a bare asyncio script."""
    count, call_seconds = (60, 2.0) if quick else (200, 6.0)
    with installed(call_seconds) as (here, url):
        warm, _ = here.submit(4, label="warm")
        _await_end(here, warm)
        alone = asyncio.run(bare(url, count))
        batch_id, _ = here.submit(count, label="burst")
        _await_end(here, batch_id)
        ours = float(here.value(_WHOLE, batch=batch_id))
        degraded = here.value(
            "SELECT count(*) FROM runs WHERE batch_id = :batch AND outcome = 'degraded'", batch=batch_id
        )
    findings.add(
        f"{count} runs of {call_seconds:g} s calls, 2 workers",
        f"{ours:.1f} s, {degraded} degraded",
        f"{alone:.1f} s bare",
        ratio=ours / alone,
        bar=None if quick else BURST_BAR,
    )


_WHOLE = """
    SELECT extract(epoch FROM max(runs.finished_at) - batches.created_at) FROM runs JOIN batches USING (batch_id)
    WHERE batch_id = :batch GROUP BY batches.created_at
"""


def _await_end(here: Installation, batch_id: str) -> None:
    query = "SELECT state = 'finished' FROM batches WHERE batch_id = :batch"
    here.wait_for(lambda: here.value(query, batch=batch_id), seconds=600, what="the batch's end")


PARTS: dict[str, Callable[..., Any]] = {
    "burst": burst,
    "latency": latency,
    "fairness": fairness,
    "cancel": cancel,
    "sizes": sizes,
}

if __name__ == "__main__":
    sys.exit(main())
