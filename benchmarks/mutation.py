"""What a run of mutmut found, module by module; `make mutate` makes the run and then calls this.

    python benchmarks/mutation.py [--only PART] [--least PERCENT] [--alive]

The score is the share of mutants that a test noticed, by failing or by not coming to its end. A mutant of a function
that no test reaches is alive; one that was not tried is not counted. `--only core` takes the modules of one part,
`--alive` names every mutant that lives, for `mutmut show`. Exit 1 if a part named in `HELD` is below `--least`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

#: Parts that have to reach the score; of the others it is told.
HELD = ("core", "agentlens")
LEAST_PERCENT = 90.0

#: mutmut stores the exit code of the test process: 1 and 3 are failures, 36 and SIGXCPU are its limits of time.
_KILLED = frozenset({1, 3, 37})
_TIMEOUT = frozenset({-24, 24, 36, 152, 255})
_UNREACHED = frozenset({5, 33})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Mutants of a module or of a part, by how they ended."""

    mutants: int
    killed: int
    timeouts: int
    unreached: int

    @property
    def alive(self) -> int:
        return self.mutants - self.killed - self.timeouts

    @property
    def percent(self) -> float:
        """100 for nothing to notice."""
        return 100.0 if self.mutants == 0 else 100.0 * (self.killed + self.timeouts) / self.mutants

    def __add__(self, other: Score) -> Score:
        mine, theirs = dataclasses.asdict(self), dataclasses.asdict(other)
        return Score(**{name: mine[name] + theirs[name] for name in mine})

    def row(self, name: str) -> str:
        numbers = (self.mutants, self.killed, self.alive, self.timeouts, self.unreached)
        return f"{name:<42}" + "".join(f"{number:>10,}" for number in numbers) + f"{self.percent:>9.1f}"


def score(ends: Iterable[int]) -> Score:
    """Of mutants by their exit codes."""
    kinds = Counter(
        "killed"
        if end in _KILLED
        else "timeouts"
        if end in _TIMEOUT
        else "unreached"
        if end in _UNREACHED
        else "alive"
        for end in ends
    )
    return Score(
        mutants=kinds.total(),
        killed=kinds["killed"],
        timeouts=kinds["timeouts"],
        unreached=kinds["unreached"],
    )


def read(folder: Path) -> dict[str, dict[str, int]]:
    """By module below `workers`: its mutants that were tried, with their exit codes."""
    modules = {}
    for path in sorted(folder.glob("workers/**/*.py.meta")):
        ends = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
        tried = {name: end for name, end in ends.items() if end is not None}
        if tried:
            place = path.relative_to(folder / "workers").with_suffix("").with_suffix("")
            modules[".".join(place.parts)] = tried
    return modules


def main() -> int:
    parser = argparse.ArgumentParser(description="What a run of mutmut found.")
    parser.add_argument("--only", default="", help="one part, `core`")
    parser.add_argument("--least", type=float, default=LEAST_PERCENT, help="score that a part must reach")
    parser.add_argument("--alive", action="store_true", help="name the mutants that live")
    parser.add_argument("--folder", type=Path, default=Path("mutants"), help="where mutmut ran")
    options = parser.parse_args()
    modules = {
        name: ends
        for name, ends in read(options.folder).items()
        if options.only in {"", name.partition(".")[0]}
    }
    if not modules:
        sys.exit("no mutant was tried; run `make mutate` first")
    columns = ("mutants", "killed", "alive", "timeouts", "unreached")
    print(f"{'module':<42}" + "".join(f"{name:>10}" for name in columns) + "  score, %")
    parts: dict[str, Score] = {}
    for name, ends in modules.items():
        one, part = score(ends.values()), name.partition(".")[0]
        print(one.row(name))
        parts[part] = parts[part] + one if part in parts else one
    print()
    for part, whole in parts.items():
        print(whole.row(f"all of {part}"))
    if options.alive:
        print()
        for ends in modules.values():
            print("\n".join(name for name, end in ends.items() if end not in _KILLED | _TIMEOUT))
    low = [part for part in HELD if part in parts and parts[part].percent < options.least]
    for part in low:
        print(f"{part} is below {options.least:g} %", file=sys.stderr)
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
