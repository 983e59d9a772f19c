"""The coder writes the candidate."""

from __future__ import annotations

from typing import Any

from workers.core.answers import CoderAnswer
from workers.stages.ask import ask, provenance_of
from workers.stages.seat import Work


def write_candidate(work: Work) -> tuple[str, dict[str, Any]]:
    """Files for the spec, from the first model that gives some."""
    answered = ask(
        work,
        answer_type=CoderAnswer,
        render_user=lambda: work.context.render(
            "material.md",
            spec=work.material.spec,
            files=work.material.files,
            tests=work.material.tests,
            claims="",
            reviews="",
        ),
    )
    answer = answered.answer
    return "candidate.written", {
        "seat": work.key.seat,
        "files": answer.files,
        "tests": answer.tests,
        "notes": answer.notes,
        **provenance_of(answered),
    }
