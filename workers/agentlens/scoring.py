"""The scorer for programs and notebooks, from what a log holds to an assessment. Nothing here opens a file:
`workers.trajectories` does."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workers.agentlens import intents
from workers.agentlens.assess import Assessment, assess, prepare
from workers.agentlens.forest import DonorPool
from workers.agentlens.formats import Beside, read, read_decoded
from workers.agentlens.formats.base import nothing_beside
from workers.agentlens.reference import Reference, donor_of
from workers.agentlens.settings import DEFAULT_SETTINGS, ScoringSettings
from workers.agentlens.trajectory import Trajectory
from workers.errors import InputError


def load(
    content: bytes | str | Mapping[str, Any] | Sequence[Any],
    name: str = "run.json",
    format_name: str | None = None,
    *,
    beside: Beside = nothing_beside,
) -> list[Trajectory]:
    """The runs in a log (AGENTLENS §1), not labelled yet.

    content: what a file holds, as bytes or text, or a record that is decoded already. name: the file's name;
    its ending tells JSON from JSON lines and Markdown, and a run without an id is named after it. format_name:
    the reader to use; None finds it out. beside: gives the bytes of a file named relative to this one
    (continuations, graders' reports), or None.

    Raises `TrajectoryError`, naming file, position and field, for what no reader can read. For files and
    folders use `workers.trajectories.load` and `load_all`."""
    if isinstance(content, bytes):
        return list(read(name, content, format_name, beside=beside))
    if isinstance(content, str):
        if "{" not in content and "\n" not in content:
            raise InputError(f"{content[:200]!r} is no log; to read a file use workers.trajectories.load")
        return list(read(name, content.encode("utf-8", "surrogatepass"), format_name, beside=beside))
    if isinstance(content, Mapping | Sequence):
        return list(read_decoded(name, content, format_name, beside=beside))
    raise InputError(f"{content!r} is no log; to read a file use workers.trajectories.load")


def label(trajectory: Trajectory) -> Trajectory:
    """The trajectory with an intent (E, I, V or O) and the number of the rule that gave it at every state, by
    the seven rules of AGENTLENS §2. Labels of a prefix are the prefix of the labels."""
    return dataclasses.replace(trajectory, states=intents.label(trajectory.states))


def score(
    run: Trajectory,
    reference: Reference | Iterable[Trajectory],
    settings: ScoringSettings = DEFAULT_SETTINGS,
) -> Assessment:
    """One run against a reference: signals, profiles and tiers, waste, mechanism and divergence (AGENTLENS §5
    to §8). A run that is not labelled is labelled first.

    reference: a `Reference`, which is taken whole and once; or other runs of the same problem, of which the
    passing ones are donors, k of them drawn `settings.draws` times and averaged (§4, §5). The run itself is
    never its own donor, even if it is among them. With fewer than 2 donors left the assessment has only the
    profile `unreferenced`, and a warning."""
    if isinstance(reference, Reference):
        donors = reference.donors
        settings = dataclasses.replace(settings, donors=max(2, len(donors)), draws=1)
    else:
        donors = tuple(donor_of(labelled(other)) for other in reference if other.outcome == "passed")
    return assess(prepare(labelled(run)), DonorPool(donors, settings))


def labelled(trajectory: Trajectory) -> Trajectory:
    """The trajectory, labelled if it is not yet."""
    return trajectory if all(state.intent is not None for state in trajectory.states) else label(trajectory)
