"""Runs that were given twice: a log beside its copy, an episode exported again. They are answered as often as
they were given and counted once (AGENTLENS §9); in references they count once anyway (§4)."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Protocol, TypeVar

from workers.agentlens.trajectory import RunOutcome, State, Trajectory


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """Which run counts in place of a copy."""

    path: str
    trajectory_id: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """A copy, and the run that counts."""

    path: str
    trajectory_id: str
    of: Original


class Given(Protocol):
    """A run as far as telling copies goes. content: its `content_digest`. model, problem: None or "" where
    the log does not know them."""

    @property
    def content(self) -> bytes: ...
    @property
    def path(self) -> str: ...
    @property
    def trajectory_id(self) -> str: ...
    @property
    def problem(self) -> str | None: ...
    @property
    def model(self) -> str | None: ...
    @property
    def outcome(self) -> RunOutcome: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The least that is a `Given`."""

    content: bytes
    path: str
    trajectory_id: str
    problem: str | None
    model: str | None
    outcome: RunOutcome

    @classmethod
    def of(cls, trajectory: Trajectory) -> Content:
        """A trajectory's."""
        return cls(
            content=content_digest(trajectory),
            path=trajectory.path,
            trajectory_id=trajectory.trajectory_id,
            problem=trajectory.problem,
            model=trajectory.model,
            outcome=trajectory.outcome,
        )


_Given = TypeVar("_Given", bound=Given)
_SEEN = 200
"""Characters of an answer that are compared, beside its length: more would cost time and tell no more."""


def content_digest(trajectory: Trajectory) -> bytes:
    """Digest of what a log says about a run's steps, answers, thoughts, times and tokens, and of the run's id
    where it is the log's own and not taken from the file's name.

    Outcome, problem and model are left out: a copy may lie far from the files that tell them. A log that
    knows no answer, thought or time cannot tell a copy from a run that went the same way; its place counts."""
    states = trajectory.states
    name = trajectory.path.replace("\\", "/").rpartition("/")[2]
    identifier = trajectory.trajectory_id
    parts: list[object] = ["" if identifier.partition("#")[0] in name else identifier]
    if not any(state.observation or state.thought or state.timestamp is not None for state in states):
        parts += (trajectory.path, identifier)
    for state in states:
        parts += (
            state.tool,
            state.path,
            state.content_digest,
            state.outcome,
            state.exit_code,
            len(state.observation),
            state.observation[:_SEEN],
            state.thought,
            state.tokens_in,
            state.tokens_out,
            state.timestamp,
        )
    text = "\0".join(map(str, parts))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def copies(runs: Sequence[_Given], did: Callable[[int], Sequence[Hashable]]) -> dict[int, _Given]:
    """For the positions of runs that are not counted: the run that is counted in their place, of which they
    are a copy (`originals`) or the beginning (`earlier_episodes`)."""
    found = earlier_episodes(runs, did) | originals(runs)
    places = {id(run): position for position, run in enumerate(runs)}
    counted: dict[int, _Given] = {}
    for position in sorted(found):
        way = [position]
        while (of := places[id(found[way[-1]])]) in found and of not in way:
            way.append(of)
        counted[position] = found[way[-1]]
    return counted


def originals(runs: Sequence[_Given]) -> dict[int, _Given]:
    """For the positions of runs that are copies: the run that counts. Copies have one content and do not
    contradict each other in problem, model or outcome; the one that knows most of these counts, of equals the
    one with the shortest path, for copies are named after what they copy.

    The order of the runs changes nothing but the positions. Time is linear in the number of runs."""
    seen = Counter(run.content for run in runs)
    several = [position for position, run in enumerate(runs) if seen[run.content] > 1]
    order = sorted(several, key=lambda n: (_gaps(runs[n]), *_place(runs[n]), n))
    # Counted runs by content and by every part of what they know: a copy agrees in the part that both know.
    counted: dict[tuple[object, ...], int] = {}
    found: dict[int, _Given] = {}
    for place, position in enumerate(order):
        run = runs[position]
        fields = _known(run)
        agreeing = [
            counted.get(
                (run.content, known, tuple(fields[n] if fields[n] and n in known else None for n in _ALL))
            )
            for known in _PARTS
        ]
        first = min((other for other in agreeing if other is not None), default=None)
        if first is not None:
            found[position] = runs[order[first]]
            continue
        own = tuple(n for n in _ALL if fields[n])
        for part in _PARTS:
            key = (run.content, own, tuple(fields[n] if n in part else None for n in _ALL))
            counted.setdefault(key, place)
    return dict(sorted(found.items()))


def actions(states: Iterable[State]) -> list[Hashable]:
    """What each step did, without its answer: the last step of an episode has none yet."""
    return [(state.tool, state.path, state.content_digest) for state in states]


def earlier_episodes(runs: Sequence[_Given], did: Callable[[int], Sequence[Hashable]]) -> dict[int, _Given]:
    """For the positions of runs that are the beginning of another one: that one. Harbor's export writes a
    row for each of a trial's episodes, with all that went before in it, so the last row is the run and the
    others are its beginnings. did: what the run at a position did, step by step (`actions`); asked only of rows that
    call themselves episodes of one trial in one file."""
    trials: dict[tuple[object, ...], list[int]] = {}
    for position, run in enumerate(runs):
        trial, _, episode = run.trajectory_id.rpartition("#")
        if trial and episode.startswith("episode-"):
            trials.setdefault((run.path, trial, *_known(run)), []).append(position)
    found: dict[int, _Given] = {}
    for positions in trials.values():
        done = {position: tuple(did(position)) for position in positions} if len(positions) > 1 else {}
        whole: list[int] = []
        for position in sorted(done, key=lambda n: (-len(done[n]), n)):
            steps = done[position]
            longer = next((n for n in whole if done[n][: len(steps)] == steps), None)
            if longer is None:
                whole.append(position)
            else:
                found[position] = runs[longer]
    return found


_ALL = (0, 1, 2)
_PARTS = tuple(part for size in range(4) for part in itertools.combinations(_ALL, size))


def _known(run: Given) -> tuple[str | None, ...]:
    return run.problem, run.model, None if run.outcome == "unknown" else run.outcome


def _place(run: Given) -> tuple[int, str, int, str]:
    return len(run.path), run.path, len(run.trajectory_id), run.trajectory_id


def _gaps(run: Given) -> int:
    return sum(not value for value in _known(run))
