"""Training data: the trajectories that deserve it, as conversations with their scores (AGENTLENS §9)."""

from __future__ import annotations

from collections.abc import Collection

from workers.agentlens.assess import Assessment
from workers.agentlens.settings import SCORING_VERSION
from workers.agentlens.tier import Tier
from workers.agentlens.trajectory import State, Trajectory

CURATED_TIERS = frozenset({Tier.IDEAL, Tier.SOLID})


def sft_record(
    trajectory: Trajectory, assessment: Assessment, tiers: Collection[Tier] = CURATED_TIERS
) -> dict[str, object] | None:
    """One line of the export, or None if the run's tier is not wanted.

    `messages` holds one assistant message with one tool call a state, followed by the tool's reply, in the
    function-calling form of chat data. Arguments are those of the internal form, so that runs of all formats
    come out alike; wasted steps are named so that a trainer can mask them."""
    if assessment.tier is None or assessment.tier not in tiers:
        return None
    return {
        "trajectory_id": assessment.trajectory_id,
        "problem": assessment.problem,
        "model": assessment.model,
        "tier": assessment.tier.value,
        "profile": assessment.profile,
        "scores": {name: round(score.score, 6) for name, score in assessment.scores.items()},
        "scoring_version": SCORING_VERSION,
        "wasted_steps": list(assessment.waste.steps),
        "messages": [message for state in trajectory.states for message in _messages(state)],
    }


def _messages(state: State) -> list[dict[str, object]]:
    call_id = f"call_{state.index}"
    call = {
        "id": call_id,
        "type": "function",
        "function": {"name": state.tool, "arguments": _arguments(state)},
    }
    return [
        {"role": "assistant", "content": state.thought, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": state.observation},
    ]


def _arguments(state: State) -> dict[str, object]:
    arguments: dict[str, object] = {"operation": state.operation.value}
    if state.command is not None:
        arguments["command"] = state.command.text
    if state.path is not None:
        arguments["path"] = state.path
    if state.lines is not None:
        arguments["lines"] = [state.lines.start, state.lines.end]
    if state.edits:
        arguments["edits"] = [{"old": edit.old, "new": edit.new} for edit in state.edits]
    return arguments
