"""What people are asked to rate: a stratified draw of steps, and what a rater gets to see of each. Nothing here
shows a label, a rule, an outcome of the run, or a name that could hold one."""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from workers.agentlens.shell import Group, Segment
from workers.agentlens.trajectory import Operation, State, Trajectory

THIRDS: Final = ("early", "middle", "late")
_EDITING: Final = (Operation.CREATE, Operation.REPLACE, Operation.INSERT, Operation.UNDO, Operation.PATCH)
_BEFORE_SHOWN: Final = 5
_CHANGES_SHOWN_FIRST, _CHANGES_SHOWN_LAST = 3, 12
_EDITS_SHOWN: Final = 3


class Stratum(NamedTuple):
    """What a draw keeps a mixture of: the log's format, what the tool does, and the third of the run."""

    format: str
    operation: str
    third: str


class Place(NamedTuple):
    """Where a step is: the file, the run in it and the state of the run, both counted from 0."""

    file: str
    run: int
    state: int


def third(index: int, states: int) -> str:
    """In which proportional third of a run its state begins."""
    return THIRDS[index * len(THIRDS) // states]


def step_id(place: Place) -> str:
    """The name of a step in a sheet: says nothing, is the same in every draw, and is no number to a
    spreadsheet (`12e45678` would be)."""
    return "s" + hashlib.sha256("\0".join(map(str, place)).encode()).hexdigest()[:10]


def quotas(sizes: Mapping[Stratum, int], wanted: int) -> dict[Stratum, int]:
    """How many steps to take of each stratum, `wanted` in all if there are as many.

    Shares grow with the square root of a stratum's size: in proportion, one large data set would be all there
    is; in equal parts, a tool used twice would count as much as the shell (power allocation, M. D. Bankier, The
    American Statistician 42 (1988) 174-177, with exponent ½). Parts are rounded along the sorted strata, so
    that many small strata of one format get together what they would get as one. No stratum gives more than it
    has; what it cannot give is shared among the others."""
    given = dict.fromkeys(sorted(sizes), 0)
    while (left := min(wanted, sum(sizes.values())) - sum(given.values())) > 0:
        roots = {stratum: math.sqrt(sizes[stratum]) for stratum in given if given[stratum] < sizes[stratum]}
        total, passed, taken = sum(roots.values()), 0.0, 0
        for stratum, root in roots.items():
            passed += root
            part = min(left, math.floor(left * passed / total + 0.5)) - taken
            taken += part
            given[stratum] += min(part, sizes[stratum] - given[stratum])
    return given


class Draw:
    """Draws steps while runs stream by. A step's lot follows from the seed and from what the run did up to it,
    not from a file's name; of several steps with the same past the first stands for all."""

    def __init__(self, *, wanted: int, seed: int) -> None:
        self._wanted = wanted
        self._seed = seed
        self._sizes: dict[Stratum, int] = {}
        self._kept: dict[Stratum, list[tuple[int, Place]]] = {}
        self._seen: set[int] = set()

    def offer(self, run: Trajectory, *, file: str, number: int) -> None:
        """Take a run into account. `number` is its position in the file."""
        past = hashlib.sha256(str(self._seed).encode())
        for index, state in enumerate(run.states):
            past.update(state.content_digest.encode() + state.observation_digest.encode())
            lot = int.from_bytes(past.digest()[:8], "big")
            if lot in self._seen:
                continue
            self._seen.add(lot)
            stratum = Stratum(run.format, state.operation.value, third(index, len(run.states)))
            self._sizes[stratum] = self._sizes.get(stratum, 0) + 1
            kept = self._kept.setdefault(stratum, [])
            # The heap's top is the largest lot kept, as its negative.
            entry = (-lot, Place(file, number, index))
            if len(kept) < self._wanted:
                heapq.heappush(kept, entry)
            else:
                heapq.heappushpop(kept, entry)

    def drawn(self) -> list[tuple[Place, Stratum]]:
        """The steps, in an order that says nothing about where they come from."""
        found: list[tuple[int, Place, Stratum]] = []
        for stratum, quota in quotas(self._sizes, self._wanted).items():
            kept = sorted(self._kept[stratum], reverse=True)[:quota]
            found += [(-lot, place, stratum) for lot, place in kept]
        return [(place, stratum) for _, place, stratum in sorted(found)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a rater sees of a step. number: counted from 1. changes: earlier calls that write files or run one
    that the agent wrote, one a line. before: the calls just before, and what the last of them printed."""

    step: str
    tool: str
    number: int
    changes: str
    before: str
    action: str
    observation: str


def question(states: Sequence[State], place: Place) -> Question:
    """The question about one step of a run; only that step and earlier ones are looked at."""
    state, past = states[place.state], states[: place.state]
    changes = _changes(past)
    hidden = len(changes) - _CHANGES_SHOWN_FIRST - _CHANGES_SHOWN_LAST
    if hidden > 0:
        changes[_CHANGES_SHOWN_FIRST:-_CHANGES_SHOWN_LAST] = [f"… {hidden} more …"]
    first = max(0, len(past) - _BEFORE_SHOWN)
    before = [_line(number, earlier, 200) for number, earlier in enumerate(past[first:], start=first + 1)]
    if past and past[-1].observation.strip():
        before.append(f"   printed: {_cut(past[-1].observation.strip(), 150, 300)}")
    return Question(
        step=step_id(place),
        tool=state.tool,
        number=place.state + 1,
        changes="\n".join(changes),
        before="\n".join(before),
        action=action(state),
        observation=_cut(state.observation.strip(), 700, 500),
    )


def action(state: State) -> str:
    """A call as the agent wrote it, as far as the log's reader keeps it: a command line, or the operation with
    its path, lines and texts."""
    if state.command is not None and state.operation is not Operation.PATCH:
        return _cut(state.command.text.strip(), 1000, 500)
    lines = "" if state.lines is None else f" lines {state.lines.start}-{_end(state.lines.end)}"
    where = "" if state.path is None else f" {state.path or '.'}"
    parts = [f"{state.operation.value}{where}{lines}"]
    for edit in state.edits[:_EDITS_SHOWN]:
        if edit.old:
            parts.append(f"--- old\n{_cut(edit.old, 350, 150)}")
        # Some logs say that a file was written, but not what.
        parts.append(f"+++ new\n{_cut(edit.new, 350, 150)}" if edit.new else "+++ no text")
    if len(state.edits) > _EDITS_SHOWN:
        parts.append(f"… {len(state.edits) - _EDITS_SHOWN} more edits")
    return "\n".join(parts)


def action_digest(state: State) -> str:
    """Tells whether a step is still the one that was shown."""
    return hashlib.sha256(action(state).encode("utf-8", "replace")).hexdigest()[:16]


def _end(line: int) -> str:
    return "end" if line >= 1_000_000_000 else str(line)


def _changes(past: Sequence[State]) -> list[str]:
    """The calls that write files, or that run a file which an earlier one wrote: a script may edit."""
    written: set[str] = set()
    found = []
    for number, state in enumerate(past, start=1):
        segments = () if state.command is None else state.command.segments
        runs = {word for part in segments if part.group is Group.EXECUTE for word in _named(part)}
        writes = {path for part in segments if part.group is Group.WRITE for path in part.writes}
        if state.operation in _EDITING and state.path is not None:
            writes.add(state.path)
        if writes or state.operation in _EDITING or not written.isdisjoint(runs):
            found.append(_line(number, state, 200))
        written |= writes
    return found


def _named(part: Segment) -> tuple[str, ...]:
    return (part.program, *part.arguments[:1])


def _line(number: int, state: State, most: int) -> str:
    text = " ".join(action(state).split())
    text = text if len(text) <= most else text[: most - 1] + "…"
    return f"{number}. {state.tool}: {text}" + (" [failed]" if state.outcome == "error" else "")


def _cut(text: str, head: int, tail: int) -> str:
    """The beginning and the end of a text, and how much is missing between them."""
    if len(text) <= head + tail + 40:
        return text
    return f"{text[:head]}\n[… {len(text) - head - tail} characters …]\n{text[-tail:]}"
