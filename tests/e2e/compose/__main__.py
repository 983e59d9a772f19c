"""`make compose-proof`: docker-compose.yml brought up with images made on this machine, one batch, and down again.

python -m tests.e2e.compose [--socket PATH]        as root; without --socket on an engine of its own
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.compose.installation import ROOT, BrokenError
from tests.e2e.compose.play import play


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--socket", type=Path, help="a Docker engine's socket")
    options = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="consensus-compose-", dir="/var/tmp") as name:
        folder = Path(name)
        try:
            with _engine(options.socket, folder / "engine") as socket:
                play(socket, folder / "proof", say=lambda line: print(line, flush=True))  # noqa: T201
        except BrokenError as error:
            print(f"compose-proof: {error}", file=sys.stderr)  # noqa: T201
            return 1
    print(f"{time.monotonic() - begun:6.1f} s  in all")  # noqa: T201
    return 0


@contextmanager
def _engine(given: Path | None, folder: Path) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    script = str(ROOT / ".ci/docker-engine")
    started = subprocess.run([script, "start", str(folder)], capture_output=True, text=True, check=False)
    try:
        if started.returncode != 0:
            raise BrokenError(f"no Docker engine: {started.stderr.strip()}")
        yield folder / "docker.sock"
    finally:
        subprocess.run([script, "stop", str(folder)], check=False)


if __name__ == "__main__":
    sys.exit(main())
