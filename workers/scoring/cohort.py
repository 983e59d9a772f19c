"""What many scored runs are together, however they came to be scored: here and now, or through the queue."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from workers.agentlens.cohort import summarise
from workers.agentlens.duplicates import Duplicate, Original, copies
from workers.agentlens.settings import ScoringSettings
from workers.scoring.spool import Entry, InputFile, Scored, problem_donors
from workers.trajectories import Skipped

_RUNS_AT_ONCE = 256


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """Everything scored, in the order of paths and ids. Documents and kept assessments lie in the spool and
    go with it. comparison: with the night before, for a scoring that is made every night."""

    files: tuple[InputFile, ...]
    runs: tuple[Scored, ...]
    skipped: tuple[Skipped, ...]
    summary: dict[str, object]
    settings: ScoringSettings
    comparison: Mapping[str, object] | None = None

    @property
    def counted(self) -> Iterator[Scored]:
        """The runs without those that are copies of others."""
        return (run for run in self.runs if run.entry.original is None)

    @classmethod
    def of(
        cls,
        files: Iterable[InputFile],
        scored: Iterable[Scored],
        skipped: Iterable[Skipped],
        settings: ScoringSettings,
    ) -> Cohort:
        """All that was scored, put in order and summed up. The order of what is given changes nothing but which
        of two runs of one path and id comes first."""
        runs = sorted(scored, key=lambda s: (s.entry.path, s.entry.trajectory_id, s.entry.position))
        return cls(
            files=tuple(files),
            runs=tuple(runs),
            skipped=tuple(sorted(skipped, key=lambda s: (s.path, s.error))),
            summary=summarise(
                (run.row for run in runs if run.entry.original is None),
                seed=settings.seed,
                duplicates=[
                    Duplicate(
                        path=run.entry.path, trajectory_id=run.entry.trajectory_id, of=run.entry.original
                    )
                    for run in runs
                    if run.entry.original is not None
                ],
            ),
            settings=settings,
        )

    def problem(self, name: str | None) -> list[Entry]:
        """The runs of one problem."""
        return [run.entry for run in self.runs if run.entry.problem == name]


def without_copies(entries: Sequence[Entry], did: Callable[[int], Sequence[Hashable]]) -> list[Entry]:
    """The entries, those that are copies or beginnings of others marked as such. did: what the run at a position
    did, as in `copies`."""
    marked = list(entries)
    of_others = copies(entries, did)
    for position, original in of_others.items():
        of = Original(path=original.path, trajectory_id=original.trajectory_id)
        marked[position] = dataclasses.replace(entries[position], original=of)
    return marked


def groups(
    entries: Sequence[Entry], settings: ScoringSettings
) -> Iterator[tuple[tuple[Entry, ...], tuple[Entry, ...]]]:
    """Runs of one problem, some at a time, with the donors of that problem; runs without a problem, of which
    none knows another, without."""
    problems: dict[str, list[Entry]] = {}
    alone: list[Entry] = []
    for entry in entries:
        (alone if entry.problem is None else problems.setdefault(entry.problem, [])).append(entry)
    by_problem = [(group, problem_donors(group, settings)) for _, group in sorted(problems.items())]
    for group, donors in (*by_problem, (alone, ())):
        for start in range(0, len(group), _RUNS_AT_ONCE):
            yield tuple(group[start : start + _RUNS_AT_ONCE]), donors
