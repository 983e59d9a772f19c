"""The references of one problem as arrays, so that a candidate is scored against every draw in one pass.

Draws share donors, and a node that one donor alone went through is that donor's state whichever tree it
stands in. So the pool keeps each different node as one column and each different path once, and trees point
there."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from workers.agentlens.equivalence import Code, Codebook, confidence_matrix
from workers.agentlens.reference import Donor, Reference, distinct, drawings
from workers.agentlens.settings import ScoringSettings
from workers.agentlens.signals.temporal import Profile
from workers.agentlens.trace import Trace

Ints = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Planted:
    """A tree in the pool's arrays. columns: of each node. paths: the pool's path of each donor. profile: mean
    of the donors' stage profiles."""

    reference: Reference
    columns: Ints
    paths: tuple[int, ...]
    profile: Profile


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tree:
    """A tree as part of a forest: which of the forest's paths each donor's is."""

    reference: Reference
    columns: Ints
    rows: tuple[int, ...]
    profile: Profile


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forest:
    """The trees of all draws that one candidate is scored against.

    donors: of all trees, each once. nodes: the node columns of all trees, one tree after the other. sizes:
    nodes of each tree. paths: shape (longest, different paths), node columns from first to last step, padded
    with the pool's empty column. lengths: of those paths. profiles: shape (draws, 3, 4).
    """

    trees: tuple[Tree, ...]
    donors: tuple[Donor, ...]
    nodes: Ints
    sizes: tuple[int, ...]
    paths: Ints
    lengths: Floats
    profiles: Floats


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """Candidates against all nodes of a pool. Steps that candidates have in common are compared once.

    table: confidences, shape (different states, node columns + 1); a node's is the maximum over its members;
    the last column is 0. rows: for each candidate the rows of its acting states, in order.
    """

    table: npt.NDArray[np.float32]
    rows: list[list[int]]


class DonorPool:
    """The donors of one problem and the references drawn from them, shared by all its candidates."""

    def __init__(self, donors: Iterable[Donor], settings: ScoringSettings) -> None:
        self.settings = settings
        self.donors = distinct(donors)
        drawn = drawings(self.donors, settings)
        reachable = {
            donor.sequence: donor for drawing in drawn.values() for donors in drawing for donor in donors
        }
        self._codebook = Codebook()
        self._codes: list[Code] = []
        self._starts: dict[str, int] = {}
        self._encoded: dict[Trace, list[Code]] = {}
        for sequence, donor in reachable.items():
            self._starts[sequence] = len(self._codes)
            self._encoded[donor.trace] = self._codebook.encode(donor.trace.signatures)
            self._codes += self._encoded[donor.trace]
        self._merged: dict[tuple[int, ...], int] = {}
        self._paths: dict[tuple[int, ...], int] = {}
        self._trees: dict[tuple[str, ...], Planted] = {}
        self._plantings = {
            excluded: tuple(self._plant(donors) for donors in drawing) if len(drawing[0]) > 1 else None
            for excluded, drawing in drawn.items()
        }
        self._forests: dict[str | None, Forest] = {}

    @property
    def columns(self) -> int:
        """With how many nodes each step of a candidate is compared."""
        return len(self._codes) + len(self._merged) + 1

    def forest(self, candidate: Trace) -> Forest | None:
        """The references for a candidate, none of them built from itself; None if fewer than 2 donors are
        left."""
        excluded = candidate.sequence if candidate.sequence in self._plantings else None
        trees = self._plantings[excluded]
        if trees is None:
            return None
        if excluded not in self._forests:
            self._forests[excluded] = self._assemble(trees)
        return self._forests[excluded]

    def compare(self, candidates: Sequence[Trace]) -> Comparison:
        """The confidence of every acting state of the candidates to every node."""
        # Candidates go by in any number: what only they know is forgotten with them.
        codebook = Codebook(self._codebook)
        coded = [
            self._encoded.get(candidate) or codebook.encode(candidate.signatures) for candidate in candidates
        ]
        places: dict[Code, int] = {}
        rows = [[places.setdefault(code, len(places)) for code in codes] for codes in coded]
        states = len(self._codes)
        table = confidence_matrix(
            list(places),
            self._codes,
            threshold=self.settings.match_threshold,
            line_overlap=self.settings.line_overlap,
            spare=self.columns - states,
        )
        if self._merged:
            joined = [column for members in self._merged for column in members]
            starts = [0, *itertools.accumulate(map(len, self._merged))][:-1]
            table[:, states:-1] = np.maximum.reduceat(table.take(joined, axis=1), starts, axis=1)
        return Comparison(table=table, rows=rows)

    def _plant(self, donors: Sequence[Donor]) -> Planted:
        key = tuple(sorted(donor.trace.sequence for donor in donors))
        if key not in self._trees:
            self._trees[key] = self._lay_out(Reference.build(donors, self.settings))
        return self._trees[key]

    def _lay_out(self, tree: Reference) -> Planted:
        starts = [self._starts[donor.trace.sequence] for donor in tree.donors]
        columns = [0] * len(tree)
        for start, path in zip(reversed(starts), reversed(tree.paths), strict=True):
            for step, node in enumerate(path):
                columns[node] = start + step
        for node, members in tree.joined.items():
            key = tuple(sorted(starts[donor] + step for donor, step in members))
            columns[node] = len(self._codes) + self._merged.setdefault(key, len(self._merged))
        paths = [tuple(columns[node] for node in path) for path in tree.paths]
        return Planted(
            reference=tree,
            columns=np.array(columns, dtype=np.intp),
            paths=tuple(self._paths.setdefault(path, len(self._paths)) for path in paths),
            profile=np.mean([donor.trace.profile for donor in tree.donors], axis=0),
        )

    def _assemble(self, trees: tuple[Planted, ...]) -> Forest:
        used = {path: row for row, path in enumerate(dict.fromkeys(p for tree in trees for p in tree.paths))}
        known = list(self._paths)
        steps = [known[path] for path in used]
        lengths = np.array([len(path) for path in steps], dtype=np.float64)
        table = np.full((int(lengths.max()), len(steps)), len(self._codes) + len(self._merged), dtype=np.intp)
        for row, path in enumerate(steps):
            table[: len(path), row] = path
        donors = {donor.trace.sequence: donor for tree in trees for donor in tree.reference.donors}
        return Forest(
            trees=tuple(
                Tree(
                    reference=tree.reference,
                    columns=tree.columns,
                    rows=tuple(used[path] for path in tree.paths),
                    profile=tree.profile,
                )
                for tree in trees
            ),
            donors=tuple(donors.values()),
            nodes=np.concatenate([tree.columns for tree in trees]),
            sizes=tuple(len(tree.columns) for tree in trees),
            paths=table,
            lengths=lengths,
            profiles=np.array([tree.profile for tree in trees]),
        )
