"""What a scrape of /metrics costs on top of a large history: 100,000 runs, ten seats and ten calls each.

Prints, for a history of nothing and of that, the time of a first and of later looks, and how much of them the database
takes; and the same for the obvious way, counting all rows each time."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import text

from api.metrics.scrape import Installation, Sources
from workers.cli.embedded import EmbeddedServers
from workers.provenance.migrate import migrate
from workers.provenance.session import Database

_FILL = """
SET LOCAL session_replication_role = replica;
INSERT INTO runs (run_id, tenant_id, team, team_digest, input_digest, state, outcome, request_digest, ledger_head,
                  created_at, dispatched_at, started_at, finished_at)
SELECT 'run_' || lpad(n::text, 26, '0'), 'default', 'consensus', 'd', 'd', 'finished',
       (ARRAY['accepted', 'rejected', 'degraded'])[1 + n % 3], 'd', 'h', at, at, at, at + interval '40 seconds'
FROM (SELECT n, now() - (:runs - n) * interval '8 seconds' AS at FROM generate_series(1, :runs) AS n) AS r;
INSERT INTO stages (run_id, round, stage, seat, state, enqueued_at, started_at, finished_at)
SELECT run_id, 1,
       (ARRAY['coder', 'panel', 'panel', 'panel', 'panel', 'panel', 'consensus', 'refute', 'gate', 'lead'])[s],
       'seat' || s, 'done', started_at, started_at, started_at + s * interval '4 seconds'
FROM runs, generate_series(1, 10) AS s;
INSERT INTO calls (call_id, run_id, round, stage, seat, link, provider, model_asked, family, state, request_digest,
                   input_tokens, output_tokens, cost_usd, sent_at, ended_at, duration_seconds)
SELECT 'call_' || run_id || s, run_id, 1, 'panel', 'seat' || s, 0, 'openai', 'm', 'm', 'done', 'd', 1000, 500, 0.01,
       started_at, started_at + s * interval '4 seconds', s * 4
FROM runs, generate_series(1, 10) AS s;
"""
_LATELY = """
SET LOCAL session_replication_role = replica;
UPDATE runs SET state = 'running', outcome = NULL, finished_at = NULL WHERE finished_at > now() - interval '10 minutes';
"""
#: A batch that has just come: everything waits for the dispatcher.
_WAITING = """
SET LOCAL session_replication_role = replica;
UPDATE runs SET state = 'queued', outcome = NULL, finished_at = NULL, dispatched_at = NULL;
"""
_OBVIOUS = (
    "SELECT state, outcome, count(*) FROM runs GROUP BY 1, 2",
    "SELECT stage, state, count(*), sum(extract(epoch FROM finished_at - started_at)) FROM stages GROUP BY 1, 2",
    "SELECT provider, state, count(*), sum(input_tokens), sum(cost_usd) FROM calls GROUP BY 1, 2",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="consensus-bench-", dir="/var/tmp") as folder:
        servers = EmbeddedServers(Path(folder))
        database = Database(servers.start()[0], pool_size=4)
        try:
            migrate(database)
            print(f"{'history':>33}  {'first look':>10}  {'later looks':>11}  {'counting all':>12}")
            _report("nothing", database)
            began = time.perf_counter()
            _execute(database, _FILL, runs)
            _execute(database, _LATELY, runs)
            filled = time.perf_counter() - began
            _report(f"{runs:,} runs, {10 * runs:,} seats", database)
            _execute(database, _WAITING, runs)
            _report("all runs waiting", database)
            print(f"(filled in {filled:.0f} s)")
        finally:
            database.close()
            servers.stop()


def _execute(database: Database, statements: str, runs: int) -> None:
    with database.begin() as connection:
        for statement in statements.split(";\n")[:-1]:
            connection.execute(text(statement), {"runs": runs} if ":runs" in statement else {})
    with database.single() as connection:
        connection.execute(text("VACUUM ANALYZE"))


def _report(name: str, database: Database) -> None:
    now = [0.0]
    looked = Installation(
        Sources(database=database, providers=dict, depths=lambda: None, snapshots=lambda _: {}),
        clock=lambda: now[0],
    )

    def look() -> None:
        # An hour that has to be counted the first time, 15 seconds afterwards.
        now[0] += 3600 if now[0] == 0 else 15
        list(looked.collect())

    def obvious() -> None:
        with database.begin() as connection:
            for statement in _OBVIOUS:
                connection.execute(text(statement)).all()

    first = _seconds(look)
    later = statistics.median(_seconds(look) for _ in range(20))
    everything = statistics.median(_seconds(obvious) for _ in range(3))
    print(f"{name:>33}  {first:>8.3f} s  {later:>9.4f} s  {everything:>10.3f} s")


def _seconds(what: Callable[[], None]) -> float:
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
