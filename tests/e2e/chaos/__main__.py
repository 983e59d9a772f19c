"""`make chaos`: a thousand runs on real servers that fail in every way; the tables at the end, exit 1 if one is bad.

python -m tests.e2e.chaos [--seed N] [--runs N]
"""

from __future__ import annotations

import argparse
import secrets
import sys

from rich.console import Console

from tests.e2e.chaos.play import Play, perform, show


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="that of a play to be repeated; default: a new one")
    parser.add_argument("--runs", type=int, default=1000)
    options = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    console.print(f"seed {seed}")
    play = Play(
        seed=seed,
        runs=options.runs // 2,
        batches=10,
        lines=options.runs // 20,
        window=30,
        workers=3,
        threads=48,
        rounds=3,
        mixed=True,
        gap_seconds=(0.5, 2.0),
        latency_seconds=0.5,
        per_minute=300,
        fault_probability=0.08,
        outages=8,
        max_rescues=3,
        deadline_seconds=120 + 1.5 * options.runs,
    )
    result = perform(play, lambda line: console.print(f"[dim]{line}[/]", markup=True))
    show(result)
    found = result.audit
    return 1 if found.lost or found.duplicated or found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
