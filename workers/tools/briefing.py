"""What a seat is told besides its task: the team's skills with its instructions, looked-up passages with its material.

Both come before what differs from seat to seat, and are the same for all seats of a role, so that a provider that
caches prefixes reads them once for the whole panel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from workers.core.team import EquippedTeam
from workers.tools.retrieval import passages_for

#: Roles that are told the team's skills: all that judge or write. Consensus only says which claims are the same.
SKILLED = frozenset({"coder", "reviewer", "lead", "refuter", "prover", "control"})
#: Roles that are shown passages. A refuter sees the bare claim and the code and nothing else (PANEL §3).
INFORMED = SKILLED - {"refuter"}

#: A prompt template's name and its values → the text.
Render = Callable[..., str]


def instructions(render: Render, role: str, team: EquippedTeam) -> str:
    """The system prompt of a role, the team's skills included."""
    text = render(f"{role}.md")
    if role not in SKILLED or not team.texts.skills:
        return text
    return f"{text}\n\n{render('skills.md', skills=team.texts.skills)}"


def references(
    render: Render, role: str, team: EquippedTeam, *, spec: str, submitted: Mapping[str, str]
) -> str:
    """The passages nearest to the spec, as data; "" where there are none. `submitted` are the task's own files."""
    if role not in INFORMED or team.retrieval is None:
        return ""
    passages = passages_for(spec, team.retrieval, team.texts.documents, submitted)
    # A passage that closes its own fence would speak from outside of it.
    fenced = [
        dataclasses.replace(passage, text=passage.text.replace("</reference", "<\\/reference"))
        for passage in passages
    ]
    return render("references.md", passages=fenced) if fenced else ""
