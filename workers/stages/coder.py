"""The coder writes the candidate."""

from __future__ import annotations

from typing import Any

from workers.core.answers import CoderAnswer
from workers.core.run import Stage
from workers.stages.ask import ask, provenance_of
from workers.stages.rounds import standing_lines
from workers.stages.seat import Work


def write_candidate(work: Work) -> tuple[str, dict[str, Any]]:
    """Files for the spec, from the first model that gives some. In a further round it has its code back as the lead
    left it, with the claims that a test reproduced."""
    sent_back = work.previous.get((Stage.LEAD, "lead"))
    answered = ask(
        work,
        answer_type=CoderAnswer,
        render_user=lambda: work.context.render(
            "material.md",
            spec=work.material.spec,
            files=sent_back["files"] if sent_back else work.material.files,
            tests=work.material.tests,
            claims=standing_lines(work.previous) if sent_back else "",
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
