"""Runs through two hosts; the line between them is cut for longer than a lease and healed. Runs on the host that has
database, broker, API, beat and one worker; the other workers are on the other host, whose name is the argument."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from tests.e2e.chaos.audit import Audit, audit
from tests.e2e.chaos.load import Load
from tests.e2e.chaos.material import LIMITED, environment, write_team
from tests.e2e.chaos.site import SETTINGS, Placement, Site
from tests.e2e.chaos.watch import Watch
from tests.e2e.two_hosts.network import HOME, NETWORK, at, cut, heal, switch_of
from workers.cli.client import Client

CUT_SECONDS = 3 * float(SETTINGS["CONSENSUS_LEASE_SECONDS"])
PER_MINUTE = 900.0
_PASSWORD = "not-a-secret"


def main(away: str, seed: int, runs: int) -> int:
    console = Console(highlight=False, soft_wrap=True, width=120)
    # Not under a home directory: the PostgreSQL wheel opens the folders above its data to its own user.
    with tempfile.TemporaryDirectory(prefix="consensus-hosts-", dir="/var/tmp") as name:
        folder = Path(name)
        site = Site(
            folder,
            workers=3,
            threads=32,
            simulator=("--any-model", "--seed", str(seed), "--latency-seconds", "0.5"),
            environment={**environment(), "CONSENSUS_TEAMS": str(write_team(folder / "teams"))},
            placement=Placement(
                address=HOME,
                network=NETWORK,
                password=_PASSWORD,
                elsewhere=at(away),
                workers_elsewhere=2,
            ),
        )
        try:
            site.start()
            return _play(site, away, runs, console)
        except BaseException:
            for log in sorted(folder.glob("*.log")):
                console.print(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}", markup=False)
            raise
        finally:
            site.close()


def _play(site: Site, away: str, runs: int, console: Console) -> int:
    watch = Watch(site.database)
    with Client(site.url) as client:
        for provider, family in zip(LIMITED, ("gpt", "claude", "deepseek"), strict=True):
            client.set_limits(provider, family, {"requests_per_minute": PER_MINUTE, "concurrency": 200})
    load = Load(site, watch, count=runs, window=min(20, runs), batches=0, lines=0, name="hosts")
    # Some are kept back until the line is whole again: the host that stays could end all the others by then.
    load.allowed = runs * 2 // 3
    begun = time.monotonic()
    load.start()
    site.until(
        lambda: watch.ended() >= runs // 8 and _seats(site)[1] > 0, "nothing comes from there", seconds=90
    )
    seats_before, ended_before = _seats(site), watch.ended()
    held = sum(site.worker_of(seat.owner) in site.workers_elsewhere for seat in watch.held())
    cut(switch_of(away))
    time.sleep(CUT_SECONDS)
    seats_cut, ended_cut = _seats(site), watch.ended()
    heal(switch_of(away))
    load.allowed = runs
    healed = time.monotonic()
    site.until(lambda: _seats(site)[1] > seats_cut[1], "the other host does not come back", seconds=90)
    back_seconds = time.monotonic() - healed
    site.until(
        lambda: load.is_submitted and watch.ended() == runs, "some runs have not ended", seconds=120 + runs
    )
    seconds = time.monotonic() - begun
    load.close()
    found = audit(site, load, per_minute=PER_MINUTE)
    seats = _seats(site)
    table = Table("phase", "seconds", "runs ended", "seats done here", "seats done there")
    table.add_row("line whole", "", str(ended_before), *map(str, seats_before))
    during = (seats_cut[0] - seats_before[0], seats_cut[1] - seats_before[1])
    table.add_row("line cut", f"{CUT_SECONDS:g}", str(ended_cut - ended_before), *map(str, during))
    after = (seats[0] - seats_cut[0], seats[1] - seats_cut[1])
    table.add_row("line whole again", "", str(watch.ended() - ended_cut), *map(str, after))
    table.add_row("all", f"{seconds:.1f}", str(found.outcomes.total()), *map(str, seats))
    console.print(table)
    console.print(
        f"seats under way there when the line was cut: {held}; rescued from a lost worker: {found.rescues}; "
        f"first seat from there again after {back_seconds:.1f} s\n"
        f"runs {found.runs}, lost {len(found.lost)}, duplicated {len(found.duplicated)}; "
        f"calls {dict(found.calls)}, orphaned ones listed: {len(found.orphans)}\n"
        f"tokens of finished calls, ours / the provider's: {found.tokens_ours:,} / {found.tokens_theirs:,}\n"
        f"most requests in 60 s / limit: {found.limits}\n"
        f"processes started again: {sum(site.starts(name) - 1 for name in ('api', 'beat', *site.workers))}; "
        f"tracebacks: {dict(site.tracebacks())}"
    )
    return _verdict(found, during, after, console)


def _verdict(found: Audit, during: tuple[int, int], after: tuple[int, int], console: Console) -> int:
    problems = [*found.problems, *(f"{run} was lost" for run in found.lost)]
    problems += [f"{run} ended twice" for run in found.duplicated]
    if during[0] == 0:
        problems.append("the host that has the database did nothing while the line was cut")
    if after[1] == 0:
        problems.append("the other host did nothing after the line was healed")
    for problem in problems:
        console.print(f"[red]{problem}[/]")
    return 1 if problems else 0


def _seats(site: Site) -> tuple[int, int]:
    """Seats that workers here and there have done."""
    query = text(
        "SELECT owner, count(*) FROM stages WHERE state = 'done' AND owner IS NOT NULL GROUP BY owner"
    )
    with site.database.begin() as connection:
        counts = connection.execute(query).all()
    there = sum(count for owner, count in counts if site.worker_of(owner) in site.workers_elsewhere)
    return sum(count for _, count in counts) - there, there


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
