"""`make two-hosts`: workers on one host, database and broker on another, and a line between them that is cut.

python -m tests.e2e.two_hosts [--seed N] [--runs N]        as root
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from tests.e2e.chaos.site import ROOT
from tests.e2e.two_hosts.network import ForbiddenError, Network, at


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    try:
        with Network() as network:
            return play(network, seed=options.seed, runs=options.runs)
    except ForbiddenError as error:
        print(f"no network namespaces here, so there are no two hosts: {error}", file=sys.stderr)  # noqa: T201
        return 3


def play(network: Network, *, seed: int, runs: int) -> int:
    """The play itself belongs to the host that has the database. Its exit code."""
    command = [sys.executable, "-m", "tests.e2e.two_hosts.play", network.away, str(seed), str(runs)]
    return subprocess.run([*at(network.home), *command], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
