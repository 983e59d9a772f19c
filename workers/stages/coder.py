"""The coder writes the candidate, unless code was submitted to be judged as it is."""

from __future__ import annotations

from typing import Any

from workers.core.answers import CoderAnswer
from workers.core.run import Stage
from workers.core.submission import Existing
from workers.stages.ask import ask, provenance_of
from workers.stages.rounds import standing_lines
from workers.stages.seat import Work


def write_candidate(work: Work) -> tuple[str, dict[str, Any]]:
    """Files for the spec, from the first model that gives some; submitted code is taken as it is, nobody is asked.

    In a further round the coder has its code back as the lead left it, with the claims that a test reproduced.
    """
    if work.material.existing is not None:
        return "candidate.submitted", {
            "seat": work.key.seat,
            "files": dict(work.material.files),
            "tests": dict(work.material.tests),
            **_kept_with(work.material.existing),
            # Nobody's: whoever must differ from the coder's family differs from this.
            **{"provider": "", "model": "", "family": "", "simulated": False},
        }
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


def _kept_with(existing: Existing) -> dict[str, Any]:
    """What the verdict needs to know of submitted code: what was left out, and the alarms, if there are any."""
    data = existing.as_data()
    return {name: data[name] for name in ("left_out", "alarms") if name in data}
