"""The reference of a problem: a prefix tree of k passing runs (AGENTLENS §4).

The tree keeps every donor as one root-to-leaf path. Runs only share nodes while they have done the same
things; after the first difference they branch for good, so every path is one real solution."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Sequence

from workers.agentlens.equivalence import Signature, confidence
from workers.agentlens.settings import DEFAULT_SETTINGS, ScoringSettings
from workers.agentlens.trace import Trace
from workers.agentlens.trajectory import State
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
    """A prefix tree; its columns have one entry a node, in the order of creation.

    donors: in building order, which is that of their sequence digests and so not that of the files given.
    parents, depths: the tree. members: (donor, acting position) pairs, the representative first. children: of
    each node. roots: the first steps. paths: the nodes of each donor from its first to its last step.
    """

    def __init__(self, donors: Sequence[Donor], settings: ScoringSettings) -> None:
        self.donors = tuple(donors)
        self.parents: list[int] = []
        self.depths: list[int] = []
        self.members: list[list[tuple[int, int]]] = []
        self.children: list[list[int]] = []
        self.roots: list[int] = []
        self._settings = settings
        self.paths = tuple(self._insert(position) for position in range(len(self.donors)))

    @classmethod
    def build(cls, donors: Iterable[Donor], settings: ScoringSettings = DEFAULT_SETTINGS) -> Reference:
        """Insert each donor: at a node take the child with the highest confidence of at least θ (ties: the
        larger support, then the older child), else branch. Donors with one sequence count once.

        Raises ValueError if fewer than 2 different donors with at least one acting state are given."""
        usable = distinct(donors)
        if len(usable) < 2:
            raise ValueError(f"a reference needs at least 2 different passing runs, got {len(usable)}")
        return cls(usable, settings)

    def __len__(self) -> int:
        return len(self.parents)

    def node(self, index: int) -> Node:
        """One node with its representative, the first donor that took the step."""
        donor, position = self.members[index][0]
        trace = self.donors[donor].trace
        return Node(
            index=index,
            parent=self.parents[index],
            depth=self.depths[index],
            state=trace.states[trace.acting[position]],
            action=trace.signatures[position].action,
            support=self.support(index),
            ends=sum(path[-1] == index for path in self.paths),
        )

    def support(self, node: int) -> int:
        """How many donors went through a node."""
        return len(self.members[node])

    def is_end(self, node: int) -> bool:
        """Whether some donor's run ends at a node."""
        return any(path[-1] == node for path in self.paths)

    def next_nodes(self, node: int) -> Sequence[int]:
        """The children of a node; the first steps for ROOT."""
        return self.roots if node == ROOT else self.children[node]

    def is_below(self, node: int, ancestor: int) -> bool:
        """Whether a node lies below another one; everything lies below ROOT."""
        if ancestor == ROOT:
            return True
        entries, exits = self._spans
        return entries[ancestor] < entries[node] < exits[ancestor]

    @functools.cached_property
    def _spans(self) -> tuple[list[int], list[int]]:
        """Preorder number of each node, and the number after its last descendant's. Without recursion: a run
        may be longer than Python's stack is deep."""
        size = [1] * len(self)
        for index in range(len(self) - 1, -1, -1):  # children are always younger than their parent
            parent = self.parents[index]
            if parent != ROOT:
                size[parent] += size[index]
        entries = [0] * len(self)
        following = 0
        for root in self.roots:
            entries[root] = following
            following += size[root]
        for index in range(len(self)):
            following = entries[index] + 1
            for child in self.children[index]:
                entries[child] = following
                following += size[child]
        return entries, [entry + count for entry, count in zip(entries, size, strict=True)]

    def _insert(self, donor: int) -> tuple[int, ...]:
        """Add a donor and return its path: along existing nodes as long as they match, then a chain of its
        own."""
        signatures = self.donors[donor].trace.signatures
        path: list[int] = []
        here = ROOT
        for step, signature in enumerate(signatures):
            best = self._matching_child(here, signature)
            if best is None:
                break
            self.members[best].append((donor, step))
            path.append(best)
            here = best
        first, shared = len(self), len(path)
        fresh = range(first, first + len(signatures) - shared)
        if fresh:
            (self.roots if here == ROOT else self.children[here]).append(first)
            self.parents += [here, *fresh[:-1]]
            self.depths += range(shared, len(signatures))
            self.members += [[(donor, step)] for step in range(shared, len(signatures))]
            self.children += [[child] for child in fresh[1:]]
            self.children.append([])
        return (*path, *fresh)

    def _matching_child(self, here: int, signature: Signature) -> int | None:
        best, best_rank = None, (self._settings.match_threshold, 0)
        for child in self.next_nodes(here):
            sure = max(
                confidence(
                    signature,
                    self.donors[donor].trace.signatures[position],
                    line_overlap=self._settings.line_overlap,
                )
                for donor, position in self.members[child]
            )
            rank = (sure, self.support(child))
            if rank > best_rank:
                best, best_rank = child, rank
        return best


def distinct(donors: Iterable[Donor]) -> tuple[Donor, ...]:
    """Donors that did something, each sequence once, in the order of the sequence digests."""
    ordered = sorted(donors, key=lambda donor: (donor.trace.sequence, donor.model, donor.donor_id))
    kept: dict[str, Donor] = {}
    for donor in ordered:
        if donor.trace.acting:
            kept.setdefault(donor.trace.sequence, donor)
    return tuple(kept.values())


def lots(pool: Iterable[Donor], *, number: int, seed: int) -> list[Donor]:
    """The pool in the order of draw `number`: that of a digest over seed, draw and sequence. It depends
    neither on the order of files nor on their names, which may hold a label."""

    def lot(donor: Donor) -> bytes:
        return hashlib.sha256(f"{seed}:{number}:{donor.trace.sequence}".encode()).digest()

    return sorted(pool, key=lot)


def draw(ordered: Sequence[Donor], *, count: int, excluded: str | None = None) -> tuple[Donor, ...]:
    """The first `count` donors of a pool in drawing order (`lots`), without the run whose sequence is
    `excluded`; each model gives one donor before any gives a second."""
    taken: dict[str, int] = {}
    strata: list[tuple[int, int]] = []
    for position, donor in enumerate(ordered):
        if donor.trace.sequence != excluded:
            turn = taken.get(donor.model, 0)
            taken[donor.model] = turn + 1
            strata.append((turn, position))
    return tuple(ordered[position] for _, position in sorted(strata)[:count])
