"""The reference of a problem: a prefix tree of k passing runs (AGENTLENS §4).

The tree keeps every donor as one root-to-leaf path. Runs only share nodes while they have done the same
things; after the first difference they branch for good, so every path is one real solution."""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from workers.agentlens.equivalence import Signature, confidence
from workers.agentlens.settings import DEFAULT_SETTINGS, ScoringSettings
from workers.agentlens.trace import Trace, trace
from workers.agentlens.trajectory import State, Trajectory
from workers.agentlens.waste import scan
from workers.agentlens.waste.finding import Finding

ROOT = -1
"""The place before the first step, the parent of every first step."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Donor:
    """A passing run that may stand in a reference. `donor_id` and `model` are for reports and for the
    stratified draw; nothing is scored by them. `findings` are the waste patterns of the run itself: what the
    reference also shows is not waste (§7)."""

    donor_id: str
    trace: Trace
    model: str = ""
    findings: tuple[Finding, ...] = ()

    @property
    def sequence(self) -> str:
        """Digest of what it did, as in `Trace`."""
        return self.trace.sequence


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A step of the reference, as reports and pictures need it. `support` is how many donors took it,
    `ends` how many ended here."""

    index: int
    parent: int
    depth: int
    state: State
    action: str
    support: int
    ends: int


class Reference:
    """A prefix tree. Nodes are numbered as they are created, so the nodes that a donor does not share with an
    earlier one are a range, a chain that hangs on the last shared node; only shared nodes are stored
    one by one.

    donors: in building order, which is that of their sequence digests, not that of the files given.
    paths: the nodes of each donor from its first to its last step. joined: the members, as (donor, acting
    position) pairs with the representative first, of every node that more than one donor went through.
    """

    def __init__(self, donors: Sequence[Donor], settings: ScoringSettings) -> None:
        self.donors = tuple(donors)
        self.joined: dict[int, list[tuple[int, int]]] = {}
        self._settings = settings
        self._owners: list[int] = []
        self._depths: list[int] = []
        self._forks: dict[int, list[int]] = {ROOT: []}
        self.paths: list[list[int]] = []
        for donor in range(len(self.donors)):
            self.paths.append(self._insert(donor))

    @classmethod
    def build(
        cls, donors: Iterable[Donor | Trajectory], settings: ScoringSettings = DEFAULT_SETTINGS
    ) -> Reference:
        """Build the tree of AGENTLENS §4 from passing runs of one problem, labelled trajectories or donors.
        Insert each: at a node take the child with the highest confidence of at least θ (ties: the larger
        support, then the older child), else branch. Donors with one sequence count once; their order changes
        nothing.

        Raises ValueError for a trajectory that did not pass or is not labelled, and if fewer than 2 different
        donors with at least one acting state are given."""
        usable = distinct(item if isinstance(item, Donor) else donor_of(item) for item in donors)
        if len(usable) < 2:
            raise ValueError(f"a reference needs at least 2 different passing runs, got {len(usable)}")
        return cls(usable, settings)

    def __len__(self) -> int:
        return len(self._owners)

    def members(self, node: int) -> list[tuple[int, int]]:
        """The (donor, acting position) pairs that a node stands for, the representative first."""
        return self.joined.get(node) or [(self._owners[node], self._depths[node])]

    def depth(self, node: int) -> int:
        """How many steps come before a node; −1 for ROOT."""
        return ROOT if node == ROOT else self._depths[node]

    def support(self, node: int) -> int:
        """How many donors went through a node."""
        return len(self.members(node))

    def node(self, index: int) -> Node:
        """One node with its representative, the first donor that took the step."""
        donor, position = self.members(index)[0]
        trace = self.donors[donor].trace
        path = self.paths[donor]
        return Node(
            index=index,
            parent=path[position - 1] if position else ROOT,
            depth=position,
            state=trace.states[trace.acting[position]],
            action=trace.signatures[position].action,
            support=self.support(index),
            ends=sum(path[-1] == index for path in self.paths),
        )

    def is_end(self, node: int) -> bool:
        """Whether some donor's run ends at a node."""
        return any(path[-1] == node for path in self.paths)

    def next_nodes(self, node: int) -> list[int]:
        """The children of a node, oldest first; the first steps for ROOT."""
        forks = self._forks.get(node, [])
        if node == ROOT:
            return forks
        path = self.paths[self._owners[node]]
        depth = self._depths[node] + 1
        return [path[depth], *forks] if depth < len(path) else forks

    def is_below(self, node: int, ancestor: int) -> bool:
        """Whether a node lies below another one; everything lies below ROOT."""
        if ancestor == ROOT:
            return True
        depth = self._depths[ancestor]
        return self._depths[node] > depth and self.paths[self._owners[node]][depth] == ancestor

    def first_below(self, here: int, matches: Sequence[Mapping[int, float]], *, start: int) -> int | None:
        """The first position from `start` on whose matches hold a node below `here`; None if none does."""
        depths, owners, paths = self._depths, self._owners, self.paths
        depth_here = self.depth(here)
        for position in range(start, len(matches)):
            for node in matches[position]:
                if depths[node] > depth_here and (here == ROOT or paths[owners[node]][depth_here] == here):
                    return position
        return None

    def closest_below(self, here: int, match: Mapping[int, float], *, reach: int | None = None) -> int | None:
        """Of the nodes in `match` (with their confidences) that lie below `here`, at most `reach` levels: the
        one of the least depth; ties: the surest, then the oldest. None if there is none."""
        best: int | None = None
        best_depth, best_sure = 0, 0.0
        depth_here = self.depth(here)
        deepest = len(self) if reach is None else depth_here + reach
        for node, sure in match.items():
            depth = self._depths[node]
            if not depth_here < depth <= deepest or not self.is_below(node, here):
                continue
            if best is None or (-depth, sure, -node) > (-best_depth, best_sure, -best):
                best, best_depth, best_sure = node, depth, sure
        return best

    def _insert(self, donor: int) -> list[int]:
        """Add a donor and return its path: along existing nodes as long as they match, then a chain of its
        own."""
        signatures = self.donors[donor].trace.signatures
        path: list[int] = []
        here = ROOT
        for step, signature in enumerate(signatures):
            child = self._matching_child(here, signature)
            if child is None:
                break
            self.joined.setdefault(child, self.members(child)).append((donor, step))
            path.append(child)
            here = child
        first, shared = len(self), len(path)
        if shared < len(signatures):
            self._forks.setdefault(here, []).append(first)
            self._owners += [donor] * (len(signatures) - shared)
            self._depths += range(shared, len(signatures))
            path += range(first, len(self._owners))
        return path

    def _matching_child(self, here: int, signature: Signature) -> int | None:
        best, best_rank = None, (self._settings.match_threshold, 0)
        for child in self.next_nodes(here):
            members = self.members(child)
            sure = max(
                confidence(
                    signature,
                    self.donors[donor].trace.signatures[position],
                    line_overlap=self._settings.line_overlap,
                )
                for donor, position in members
            )
            rank = (sure, len(members))
            if rank > best_rank:
                best, best_rank = child, rank
        return best


def donor_of(trajectory: Trajectory) -> Donor:
    """A passing, labelled trajectory as a donor.

    Raises ValueError if it did not pass or is not labelled."""
    if trajectory.outcome != "passed":
        raise ValueError(
            f"{trajectory.trajectory_id}: its outcome is {trajectory.outcome}; references are built from passing runs"
        )
    prepared = trace(trajectory)
    return Donor(
        donor_id=trajectory.trajectory_id,
        trace=prepared,
        model=trajectory.model or "",
        findings=scan(prepared),
    )


def distinct(donors: Iterable[Donor]) -> tuple[Donor, ...]:
    """Donors that did something, each sequence once, in the order of the sequence digests."""
    ordered = sorted(donors, key=lambda donor: (donor.trace.sequence, donor.model, donor.donor_id))
    kept: dict[str, Donor] = {}
    for donor in ordered:
        if donor.trace.acting:
            kept.setdefault(donor.trace.sequence, donor)
    return tuple(kept.values())


class Lot(Protocol):
    """What a draw must know of a passing run: the digest of what it did, and its model ("" if unknown)."""

    @property
    def sequence(self) -> str: ...
    @property
    def model(self) -> str: ...


_Lot = TypeVar("_Lot", bound=Lot)


def lots(pool: Iterable[_Lot], *, number: int, seed: int) -> list[_Lot]:
    """The pool in the order of draw `number`: that of a digest over seed, draw and sequence. It depends
    neither on the order of files nor on their names, which may hold a label."""

    def lot(donor: Lot) -> bytes:
        return hashlib.sha256(f"{seed}:{number}:{donor.sequence}".encode()).digest()

    return sorted(pool, key=lot)


def draw(ordered: Sequence[_Lot], *, count: int, excluded: str | None = None) -> tuple[_Lot, ...]:
    """The first `count` donors of a pool in drawing order (`lots`), without the run whose sequence is
    `excluded`; each model gives one donor before any gives a second."""
    taken: dict[str, int] = {}
    strata: list[tuple[int, int]] = []
    for position, donor in enumerate(ordered):
        if donor.sequence != excluded:
            turn = taken.get(donor.model, 0)
            taken[donor.model] = turn + 1
            strata.append((turn, position))
    return tuple(ordered[position] for _, position in heapq.nsmallest(count, strata))


def drawings(pool: Sequence[_Lot], settings: ScoringSettings) -> dict[str | None, list[tuple[_Lot, ...]]]:
    """All draws that any candidate can meet: under None those for a candidate that is in none of them, under
    the sequence of each run in them those without it. `pool` holds each sequence once."""
    orders = [lots(pool, number=number, seed=settings.seed) for number in range(settings.draws)]
    base = [draw(order, count=settings.donors) for order in orders]
    drawn = dict.fromkeys(donor.sequence for donors in base for donor in donors)
    return {None: base} | {
        sequence: [draw(order, count=settings.donors, excluded=sequence) for order in orders]
        for sequence in drawn
    }


def reachable(pool: Sequence[_Lot], settings: ScoringSettings) -> list[_Lot]:
    """The donors that some draw takes, each once. The others of a pool may be forgotten: drawing from the
    reachable ones alone gives the same draws, because before a donor that is taken only taken ones of its
    model come. How many they are depends on k and the draws, not on the pool."""
    found = {
        donor.sequence: donor
        for drawing in drawings(pool, settings).values()
        for donors in drawing
        for donor in donors
    }
    return list(found.values())
