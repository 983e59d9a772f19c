"""All references of one candidate as arrays, so that every draw is scored in one pass.

Draws share donors, and a node with one member is that donor's state whichever tree it stands in. So the
forest keeps each different node and each different path once, and each tree points into them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from workers.agentlens.equivalence import Codebook, Coded, confidence_matrix
from workers.agentlens.reference import Donor, Reference, distinct, draw, lots
from workers.agentlens.settings import ScoringSettings
from workers.agentlens.trace import Trace

_DONOR, _CANDIDATE = -1, -2
Ints = npt.NDArray[np.intp]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forest:
    """The trees of all draws.

    coded: signatures of the donors' acting states side by side. merged: for each node with several members,
    the columns of `coded` that it joins. paths: shape (longest, paths), node columns from first to last step,
    padded with the column after the last, which is always 0. lengths: of the paths. tree_paths, tree_nodes:
    for each draw the paths and the node columns that its tree holds. node_columns: for draw 0, the column of
    each tree node by node index. profiles: mean stage profile of each draw's donors, shape (draws, 3, 4).
    """

    trees: tuple[Reference, ...]
    coded: Coded
    merged: tuple[Ints, ...]
    paths: Ints
    lengths: npt.NDArray[np.float64]
    tree_paths: tuple[Ints, ...]
    tree_nodes: tuple[Ints, ...]
    node_columns: Ints
    profiles: npt.NDArray[np.float64]

    def confidences(self, coded_candidate: Coded, settings: ScoringSettings) -> npt.NDArray[np.float64]:
        """Confidence of each candidate state to each node column, shape (states, columns + 1).

        A node's is the maximum over its members; the last column is the padding and is 0."""
        direct = confidence_matrix(
            coded_candidate,
            self.coded,
            threshold=settings.match_threshold,
            line_overlap=settings.line_overlap,
        )
        states, columns = direct.shape
        result = np.zeros((states, columns + len(self.merged) + 1))
        result[:, :columns] = direct
        for offset, members in enumerate(self.merged):
            result[:, columns + offset] = direct[:, members].max(axis=1)
        return result

    def matches(self, confidences: npt.NDArray[np.float64]) -> list[dict[int, float]]:
        """For each candidate state its confidence to each node of draw 0's tree that it matches."""
        first = confidences[:, self.node_columns]
        matches: list[dict[int, float]] = [{} for _ in range(len(first))]
        for state, node in zip(*(axis.tolist() for axis in np.nonzero(first)), strict=True):
            matches[state][node] = float(first[state, node])
        return matches

    def donor_of_path(self, path: int) -> Donor:
        """The donor of draw 0 whose run a path is."""
        position: int = self.tree_paths[0].tolist().index(path)
        return self.trees[0].donors[position]


class DonorPool:
    """The donors of one problem and the references drawn from them, shared by all its candidates."""

    def __init__(self, donors: Sequence[Donor], settings: ScoringSettings) -> None:
        self.settings = settings
        self.donors = distinct(donors)
        self._codebook = Codebook()
        self._coded: dict[str, Coded] = {}
        self._trees: dict[tuple[str, ...], Reference] = {}
        self._forests: dict[str | None, Forest | None] = {}
        self._orders = [
            lots(self.donors, number=number, seed=settings.seed) for number in range(settings.draws)
        ]
        self._drawn = frozenset(donor.trace.sequence for donors in self._draws(None) for donor in donors)

    def forest(self, candidate: Trace) -> Forest | None:
        """The references for a candidate, none of them built from itself; None if fewer than 2 donors are
        left."""
        excluded = candidate.sequence if candidate.sequence in self._drawn else None
        if excluded not in self._forests:
            self._forests[excluded] = self._plant(self._draws(excluded))
        return self._forests[excluded]

    def encode(self, candidate: Trace) -> Coded:
        """The candidate's acting states in this problem's codes."""
        return self._codebook.encode(candidate.signatures, absent=_CANDIDATE)

    def _draws(self, excluded: str | None) -> list[tuple[Donor, ...]]:
        return [draw(order, count=self.settings.donors, excluded=excluded) for order in self._orders]

    def _columns(self, donor: Donor) -> Coded:
        key = donor.trace.sequence
        if key not in self._coded:
            self._coded[key] = self._codebook.encode(donor.trace.signatures, absent=_DONOR)
        return self._coded[key]

    def _tree(self, donors: Sequence[Donor]) -> Reference:
        key = tuple(sorted(donor.trace.sequence for donor in donors))
        if key not in self._trees:
            self._trees[key] = Reference.build(donors, self.settings)
        return self._trees[key]

    def _plant(self, draws: Sequence[Sequence[Donor]]) -> Forest | None:
        if len(draws[0]) < 2:
            return None
        trees = tuple(self._tree(donors) for donors in draws)
        used = {donor.trace.sequence: donor for tree in trees for donor in tree.donors}
        coded = [self._columns(donor) for donor in used.values()]
        widths = np.cumsum([0, *(columns.shape[1] for columns in coded)])
        offset = {sequence: int(start) for sequence, start in zip(used, widths[:-1], strict=True)}
        layout = _Layout(int(widths[-1]))
        placed = [layout.place(tree, offset) for tree in trees]
        paths, lengths = layout.padded()
        return Forest(
            trees=trees,
            coded=np.concatenate(coded, axis=1),
            merged=tuple(np.array(members, dtype=np.intp) for members in layout.merged),
            paths=paths,
            lengths=lengths,
            tree_paths=tuple(rows for _, rows in placed),
            tree_nodes=tuple(columns for columns, _ in placed),
            node_columns=placed[0][0],
            profiles=np.array(
                [np.mean([donor.trace.profile for donor in tree.donors], axis=0) for tree in trees]
            ),
        )


class _Layout:
    """Gives nodes their columns and paths their numbers, each different one once."""

    def __init__(self, states: int) -> None:
        self._states = states
        self.merged: dict[tuple[int, ...], int] = {}
        self._paths: dict[tuple[int, ...], int] = {}

    def place(self, tree: Reference, offset: dict[str, int]) -> tuple[Ints, Ints]:
        """The column of every node of a tree, and the numbers of its paths."""
        starts = [offset[donor.trace.sequence] for donor in tree.donors]
        columns = [
            starts[members[0][0]] + members[0][1] if len(members) == 1 else self._merged(members, starts)
            for members in tree.members
        ]
        rows = [self._row(tuple(columns[node] for node in path)) for path in tree.paths]
        return np.array(columns, dtype=np.intp), np.array(rows, dtype=np.intp)

    def _merged(self, members: Sequence[tuple[int, int]], starts: Sequence[int]) -> int:
        key = tuple(sorted(starts[donor] + step for donor, step in members))
        return self._states + self.merged.setdefault(key, len(self.merged))

    def _row(self, path: tuple[int, ...]) -> int:
        return self._paths.setdefault(path, len(self._paths))

    def padded(self) -> tuple[Ints, npt.NDArray[np.float64]]:
        """Paths as the columns of one array, padded with the column after the last node's; their lengths."""
        lengths = np.array([len(path) for path in self._paths], dtype=np.float64)
        table = np.full((int(lengths.max()), len(self._paths)), self._states + len(self.merged), np.intp)
        for row, path in enumerate(self._paths):
            table[: len(path), row] = path
        return table, lengths
