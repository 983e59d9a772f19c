"""What of a run takes part in scoring. A `Trace` holds no outcome, name, folder or id, so nothing that is
computed from it can depend on the pass/fail label, wherever a file hides it (AGENTLENS §5)."""

from __future__ import annotations

import dataclasses
import hashlib

from workers.agentlens.edit_region import Line, region, written_sources
from workers.agentlens.equivalence import Signature, signature, target_path
from workers.agentlens.signals.temporal import Profile, profile
from workers.agentlens.trajectory import Intent, State, Trajectory

# Bound once: looking a member up in its enum costs three times as much as a global.
_O, _I = Intent.O, Intent.I


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """A labelled run, prepared for comparison.

    states: all of them, O included. acting: indices of the non-O states, in order. signatures: of the acting
    states. region: lines changed in the end. profile: stages over thirds. sequence: digest of the acting
    states; two runs with one digest did the same things and count as one run. edited: source files changed,
    with the scopes known, each as (file, scope or "").
    """

    states: tuple[State, ...]
    intents: tuple[Intent, ...]
    acting: tuple[int, ...]
    signatures: tuple[Signature, ...]
    region: frozenset[Line]
    profile: Profile
    sequence: str
    edited: frozenset[tuple[str, str]]

    @property
    def edited_files(self) -> frozenset[str]:
        """The source files that the run changed with success."""
        return frozenset(path for path, _ in self.edited)


def trace(trajectory: Trajectory) -> Trace:
    """Prepare a labelled trajectory. Raises ValueError if its states carry no intents."""
    states = trajectory.states
    intents: list[Intent] = []
    for state in states:
        if state.intent is None:
            raise ValueError(f"state {state.index} has no intent: label the trajectory before scoring it")
        intents.append(state.intent)
    acting = tuple(position for position, intent in enumerate(intents) if intent is not _O)
    signed = tuple(signature(states[position]) for position in acting)
    steps = "\n".join(str(s.exact) for s in signed)
    return Trace(
        states=states,
        intents=tuple(intents),
        acting=acting,
        signatures=signed,
        region=region(states),
        profile=profile(intents),
        sequence=hashlib.sha256(steps.encode("utf-8", "surrogatepass")).hexdigest(),
        edited=frozenset(
            (path, state.scope if state.scope and path == target_path(state) else "")
            for state in states
            if state.intent is _I and state.outcome != "error"
            for path in written_sources(state)
        ),
    )
