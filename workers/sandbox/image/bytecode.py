"""Runs while the image is built: bytecode for everything that Python can import there."""

from __future__ import annotations

import compileall
import sys
from pathlib import Path
from py_compile import PycInvalidationMode


def main() -> None:
    for folder in {*filter(None, sys.path), str(Path(__file__).parent)}:
        # Bytecode that is checked against a file's time goes stale where a layer resets times.
        compileall.compile_dir(folder, quiet=2, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)


if __name__ == "__main__":
    main()
