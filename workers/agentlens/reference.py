"""The reference of a problem: a prefix tree of k passing runs (AGENTLENS §4).

The tree keeps every donor as one root-to-leaf path. Runs only share nodes while they have done the same
things; after the first difference they branch for good, so every path is one real solution."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence

from workers.agentlens.equivalence import Signature, confidence
from workers.agentlens.settings import DEFAULT_SETTINGS, ScoringSettings
from workers.agentlens.trace import Trace
from workers.agentlens.trajectory import State
from workers.agentlens.waste.finding import Finding

ROOT = -1


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
    """A step of the reference. `members` are (donor, acting position) pairs, the representative first;
    `parent` is ROOT for a first step; `ends` are the donors whose run ends here; the nodes below it have an
    `entry` greater than its own and less than `exit`."""

    index: int
    parent: int
    depth: int
    entry: int
    exit: int
    members: tuple[tuple[int, int], ...]
    children: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def support(self) -> int:
        """How many donors went through this step."""
        return len(self.members)


@dataclasses.dataclass(slots=True)
class _Growing:
    parent: int
    depth: int
    members: list[tuple[int, int]]
    children: list[int] = dataclasses.field(default_factory=list)
    ends: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reference:
    """A built tree. `donors` are in building order, which is the order of their sequence digests and so does
    not depend on the order in which files were given. `paths[d]` are the nodes of donor d from root to end."""

    donors: tuple[Donor, ...]
    nodes: tuple[Node, ...]
    roots: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]

    @classmethod
    def build(cls, donors: Iterable[Donor], settings: ScoringSettings = DEFAULT_SETTINGS) -> Reference:
        """Insert each donor: at a node take the child with the highest confidence of at least θ (ties: the
        larger support, then the older child), else branch. Donors with one sequence count once.

        Raises ValueError if fewer than 2 different donors with at least one acting state are given."""
        usable = distinct(donors)
        if len(usable) < 2:
            raise ValueError(f"a reference needs at least 2 different passing runs, got {len(usable)}")
        growing: list[_Growing] = []
        roots: list[int] = []
        paths = tuple(_insert(usable, position, growing, roots, settings) for position in range(len(usable)))
        spans = _spans(growing, roots)
        nodes = tuple(
            Node(
                index=index,
                parent=node.parent,
                depth=node.depth,
                entry=spans[index][0],
                exit=spans[index][1],
                members=tuple(node.members),
                children=tuple(node.children),
                ends=tuple(node.ends),
            )
            for index, node in enumerate(growing)
        )
        return cls(donors=usable, nodes=nodes, roots=tuple(roots), paths=paths)

    def state(self, node: int) -> State:
        """The representative state of a node: the first donor's."""
        donor, position = self.nodes[node].members[0]
        trace = self.donors[donor].trace
        return trace.states[trace.acting[position]]

    def signature(self, node: int) -> Signature:
        """The representative's signature."""
        donor, position = self.nodes[node].members[0]
        return self.donors[donor].trace.signatures[position]

    def is_below(self, node: int, ancestor: int) -> bool:
        """Whether a node lies below another one; everything lies below ROOT."""
        if ancestor == ROOT:
            return True
        above = self.nodes[ancestor]
        return above.entry < self.nodes[node].entry < above.exit

    def next_nodes(self, node: int) -> tuple[int, ...]:
        """The children of a node; the first steps for ROOT."""
        return self.roots if node == ROOT else self.nodes[node].children


def _insert(
    donors: Sequence[Donor],
    position: int,
    growing: list[_Growing],
    roots: list[int],
    settings: ScoringSettings,
) -> tuple[int, ...]:
    path: list[int] = []
    here = ROOT
    for step, signature in enumerate(donors[position].trace.signatures):
        children = roots if here == ROOT else growing[here].children
        best, best_rank = ROOT, (settings.match_threshold, 0)
        for child in children:
            sure = max(
                confidence(signature, donors[d].trace.signatures[p], line_overlap=settings.line_overlap)
                for d, p in growing[child].members
            )
            rank = (sure, len(growing[child].members))
            if rank > best_rank:
                best, best_rank = child, rank
        if best == ROOT:
            best = len(growing)
            children.append(best)
            growing.append(_Growing(parent=here, depth=step, members=[]))
        growing[best].members.append((position, step))
        path.append(best)
        here = best
    growing[here].ends.append(position)
    return tuple(path)


def _spans(growing: Sequence[_Growing], roots: Sequence[int]) -> list[tuple[int, int]]:
    """Preorder number of each node and the number after its last descendant's. Without recursion: a run may
    be longer than Python's stack is deep."""
    size = [1] * len(growing)
    for index in range(len(growing) - 1, -1, -1):  # children are always younger than their parent
        parent = growing[index].parent
        if parent != ROOT:
            size[parent] += size[index]
    entry = [0] * len(growing)
    following = 0
    for root in roots:
        entry[root] = following
        following += size[root]
    for index, node in enumerate(growing):
        following = entry[index] + 1
        for child in node.children:
            entry[child] = following
            following += size[child]
    return [(entry[index], entry[index] + size[index]) for index in range(len(growing))]


def distinct(donors: Iterable[Donor]) -> tuple[Donor, ...]:
    """Donors that did something, each sequence once, in the order of the sequence digests."""
    ordered = sorted(donors, key=lambda donor: (donor.trace.sequence, donor.model, donor.donor_id))
    kept: dict[str, Donor] = {}
    for donor in ordered:
        if donor.trace.acting:
            kept.setdefault(donor.trace.sequence, donor)
    return tuple(kept.values())


def draw(
    pool: Sequence[Donor], *, number: int, excluded: str | None, settings: ScoringSettings
) -> tuple[Donor, ...]:
    """The donors of draw `number`: k of the pool, without the run whose sequence is `excluded`.

    Each model gives one donor before any gives a second. Within that, the order is that of a digest over
    seed, draw and sequence: it depends neither on the order of files nor on names, which may hold a label."""
    ranked = sorted(
        (donor for donor in pool if donor.trace.sequence != excluded),
        key=lambda donor: _lot(donor.trace.sequence, number, settings.seed),
    )
    taken: dict[str, int] = {}
    strata: list[tuple[int, int]] = []
    for position, donor in enumerate(ranked):
        strata.append((taken.get(donor.model, 0), position))
        taken[donor.model] = strata[-1][0] + 1
    return tuple(ranked[position] for _, position in sorted(strata)[: settings.donors])


def _lot(sequence: str, number: int, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{number}:{sequence}".encode()).digest()
