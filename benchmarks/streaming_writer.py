"""Commits reviews to ledgers at given moments and tells when each commit had returned; a process of `streaming.py`.

Standard input: one JSON object, `database_url`, `runs` and `gaps` (seconds before each review). Standard output: a line
of JSON for each review.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import random
import sys
import time
from typing import Any

from pydantic import TypeAdapter

from workers.provenance import ledger
from workers.provenance.session import Database


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """`at_seconds` on the machine's monotonic clock, when the commit had returned."""

    run_id: str
    seq: int
    at_seconds: float


SEEN: TypeAdapter[Committed] = TypeAdapter(Committed)


def review(dice: random.Random) -> dict[str, Any]:
    """About as long as real ones: a few findings with their evidence."""
    finding = {
        "title": "The upper bound is left out",
        "severity": "medium",
        "evidence": "range(low, high) ends before high. " * dice.randint(2, 12),
        "location": {"path": "module.py", "line": dice.randint(1, 200)},
    }
    return {"seat": "left", "findings": [finding] * dice.randint(1, 6), "nonce": dice.random()}


def main() -> None:
    plan = json.load(sys.stdin)
    dice = random.Random(1)
    database = Database(plan["database_url"], pool_size=1)
    noted = []
    due = time.monotonic()
    for gap in plan["gaps"]:
        due += gap
        time.sleep(max(0.0, due - time.monotonic()))
        run_id = dice.choice(plan["runs"])
        with database.begin() as connection, ledger.writer(connection, run_id) as entries:
            entries.append("review.arrived", review(dice), at=dt.datetime.now(dt.UTC))
        noted.append(Committed(run_id=run_id, seq=entries.seq, at_seconds=time.monotonic()))
    database.close()
    for entry in noted:
        print(SEEN.dump_json(entry).decode())


if __name__ == "__main__":
    main()
