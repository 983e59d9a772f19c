"""A seeded play: runs are submitted while faults strike, until every run has ended; then the audit."""

from __future__ import annotations

import dataclasses
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.e2e.chaos.audit import Audit, audit
from tests.e2e.chaos.faults import FAULTS, Fault, Scene
from tests.e2e.chaos.load import Load
from tests.e2e.chaos.material import LIMITED, environment, write_faults, write_team
from tests.e2e.chaos.poison import Poison, chase
from tests.e2e.chaos.site import Site
from tests.e2e.chaos.watch import Watch
from workers.cli.client import Client

_LOOK_SECONDS = 0.1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """`rounds`: so often each kind strikes alone, in an order of its own each time; after that two strike at a time,
    of different resources, while runs are left. `gap_seconds`: between two faults, from and to."""

    seed: int
    runs: int
    #: Batches beside the single runs, and the lines of each.
    batches: int
    lines: int
    window: int
    workers: int
    threads: int
    rounds: int
    mixed: bool
    gap_seconds: tuple[float, float]
    latency_seconds: float
    per_minute: float
    fault_probability: float
    outages: int
    #: How often a seat may lose its worker before it gives up.
    max_rescues: int
    deadline_seconds: float


@dataclasses.dataclass(slots=True)
class Strikes:
    """How often each kind struck, and the runs it hit."""

    injected: Counter[str] = dataclasses.field(default_factory=Counter)
    hit: dict[str, list[set[str]]] = dataclasses.field(default_factory=dict)
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def note(self, fault: Fault, hit: set[str]) -> None:
        with self.lock:
            self.injected[fault.name] += 1
            self.hit.setdefault(fault.name, []).append(hit)


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    play: Play
    audit: Audit
    strikes: Strikes
    seconds: float
    tracebacks: Counter[str]
    restarts: dict[str, int]
    repeats: int
    streams_broken: int
    poison: Poison


def perform(play: Play, say: Callable[[str], None]) -> Result:
    """Raises: AssertionError when runs have not ended in time."""
    # Not under a home directory: the PostgreSQL wheel opens the folders above its data to its own user.
    with tempfile.TemporaryDirectory(prefix="consensus-chaos-", dir="/var/tmp") as name:
        folder = Path(name)
        dice = random.Random(play.seed)
        script = write_faults(
            folder / "faults.yaml", dice=dice, probability=play.fault_probability, outages=play.outages
        )
        site = Site(
            folder,
            workers=play.workers,
            threads=play.threads,
            simulator=(
                *("--any-model", "--seed", str(play.seed), "--faults", str(script)),
                *("--latency-seconds", str(play.latency_seconds)),
                *("--latency-p95-seconds", str(play.latency_seconds * 3)),
            ),
            environment={
                **environment(),
                "CONSENSUS_TEAMS": str(write_team(folder / "teams")),
                "CONSENSUS_MAX_RESCUES": str(play.max_rescues),
                "CONSENSUS_BATCH_WINDOW": str(play.window),
            },
        )
        try:
            site.start()
            return _play(play, site, dice, say)
        except BaseException:
            for log in sorted(folder.glob("*.log")):
                say(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}")
            raise
        finally:
            site.close()


def _play(play: Play, site: Site, dice: random.Random, say: Callable[[str], None]) -> Result:
    _set_limits(site, play.per_minute)
    watch = Watch(site.database)
    load = Load(
        site,
        watch,
        count=play.runs,
        window=play.window,
        batches=play.batches,
        lines=play.lines,
        name=f"chaos-{play.seed}",
    )
    scene = Scene(site=site, watch=watch, load=load, dice=dice)
    strikes = Strikes()
    begun = time.monotonic()
    is_over = threading.Event()
    load.start()
    load.batch()
    with ThreadPoolExecutor(max_workers=1) as stage:
        drama = stage.submit(_drama, play, scene, strikes, is_over)
        try:
            deadline = begun + play.deadline_seconds
            shown = 0
            while not (drama.done() and load.is_submitted and watch.ended() == load.total):
                # A fault that could not be done is a fault of the play.
                if drama.done() and (error := drama.exception()) is not None:
                    raise error
                ended = watch.ended()
                if ended >= shown + max(50, load.total // 10):
                    shown = ended
                    say(f"{ended} of {load.total} runs have ended, {strikes.injected.total()} faults so far")
                if ended == load.total:
                    is_over.set()
                if time.monotonic() > deadline:
                    left = sorted(watch.open_runs())[:5]
                    raise AssertionError(
                        f"seed {play.seed}: {ended} of {load.total} runs have ended within {play.deadline_seconds:g} "
                        f"s; waiting: {site.broker.waiting()}; open: {left}\n"
                        + "\n".join([*watch.seats_of(left), *site.said_of(left)])
                    )
                time.sleep(_LOOK_SECONDS)
        finally:
            is_over.set()
    seconds = time.monotonic() - begun
    site.until(lambda: watch.open_batches() == 0, "a batch does not end with its last run", seconds=60)
    load.close()
    found = audit(site, load, per_minute=play.per_minute)
    return Result(
        play=play,
        audit=found,
        poison=chase(site, watch, seconds=play.deadline_seconds),
        strikes=strikes,
        seconds=seconds,
        tracebacks=site.tracebacks(),
        restarts={name: site.starts(name) - 1 for name in ("api", "beat", *site.workers)},
        repeats=load.repeats,
        streams_broken=load.streams_broken,
    )


def _set_limits(site: Site, per_minute: float) -> None:
    with Client(site.url) as client:
        for provider, families in zip(LIMITED, ("gpt", "claude", "deepseek"), strict=True):
            client.set_limits(provider, families, {"requests_per_minute": per_minute, "concurrency": 200})


def _drama(play: Play, scene: Scene, strikes: Strikes, is_over: threading.Event) -> None:
    names = list(FAULTS)
    strikes_to_come = play.rounds * len(names)
    runs = play.runs // 2 if play.mixed else play.runs
    # Before anything is broken something must be under way.
    scene.watch.wait_for(scene.watch.calling, 30)
    for number in range(strikes_to_come):
        # Runs are spread over the faults: the last ones begin after the last fault of its round.
        scene.load.allowed = max(play.window, runs * (number + 1) // strikes_to_come)
        if number % len(names) == 0:
            scene.dice.shuffle(names)
        _strike(scene, FAULTS[names[number % len(names)]], strikes)
        is_over.wait(scene.dice.uniform(*play.gap_seconds))
    scene.load.allowed = play.runs
    while scene.load.batch() is not None:
        pass
    with ThreadPoolExecutor(max_workers=2) as pool:
        while play.mixed and not is_over.wait(scene.dice.uniform(*play.gap_seconds)):
            for done in [pool.submit(_strike, scene, fault, strikes) for fault in _pair(scene.dice)]:
                done.result()


def _pair(dice: random.Random) -> Sequence[Fault]:
    """Two faults that do not need the same thing."""
    first = dice.choice(list(FAULTS.values()))
    return first, dice.choice([fault for fault in FAULTS.values() if fault.resource != first.resource])


def _strike(scene: Scene, fault: Fault, strikes: Strikes) -> None:
    strikes.note(fault, fault.inject(scene))


def show(result: Result) -> None:
    """Print the tables."""
    console = Console(highlight=False, width=120)
    found, strikes = result.audit, result.strikes
    faults = Table("kind of fault", "injected", "runs hit", "survived", "lost", "duplicated")
    for name in FAULTS:
        hits = [run for hit in strikes.hit.get(name, []) for run in hit]
        lost = sum(run in found.lost for run in hits)
        twice = sum(run in found.duplicated for run in hits)
        numbers = (strikes.injected[name], len(hits), len(hits) - lost - twice, lost, twice)
        faults.add_row(name, *map(str, numbers))
    simulated = sum(found.faults.values())
    numbers = (simulated, found.runs, found.runs - len(found.lost | found.duplicated), len(found.lost))
    faults.add_row(f"provider: {len(found.faults)} kinds", *map(str, numbers), str(len(found.duplicated)))
    console.print(faults)
    sums = Table("what", "figure")
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(found.outcomes.items()))
    rows = {
        "seed": result.play.seed,
        "runs submitted / there / ended": f"{found.submitted} / {found.runs} / {found.outcomes.total()} ({outcomes})",
        "batches": found.batches,
        "submissions sent again": result.repeats,
        "seats / rescued from a lost worker / given up": f"{found.seats} / {found.rescues} / {found.gave_up}",
        "calls": ", ".join(f"{count} {state}" for state, count in sorted(found.calls.items())),
        "requests at the provider": found.arrivals,
        "tokens of finished calls, ours / its": f"{found.tokens_ours:,} / {found.tokens_theirs:,}",
        "answers nobody counted (broken off, orphaned)": found.unfinished_arrivals,
        "orphaned calls listed": len(found.orphans),
        "most requests in 60 s / limit": ", ".join(
            f"{name} {most} / {limit:g}" for name, (most, limit) in found.limits.items()
        ),
        "streams followed / broken off on the way": f"{found.streams} / {result.streams_broken}",
        "a run that kills every worker that touches it": str(result.poison),
        "processes started again": sum(result.restarts.values()),
        "tracebacks in logs": result.tracebacks.total(),
        "seconds": round(result.seconds, 1),
    }
    for name, value in rows.items():
        sums.add_row(name, str(value))
    console.print(sums)
    for line, count in result.tracebacks.most_common(20):
        console.print(f"{count} x {line}", markup=False)
    for problem in found.problems:
        console.print(f"[red]{problem}[/]")
