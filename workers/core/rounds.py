"""Whether the code goes back to the coder (PANEL §4, §5): the lead may send it with what a test reproduced."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from workers.core.receipt import Stopped
from workers.core.team import Policy


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a finished round left. `code_digest`: of the candidate it judged; `standing`: the claims, by place and
    words, that a test reproduced and that stand on what the lead signed. `has_coder`: somebody wrote the code and can
    be asked again; submitted code has nobody."""

    code_digest: str
    standing: frozenset[str]
    wants_another: bool
    has_coder: bool = True


def stopped(rounds: Sequence[Round], policy: Policy) -> Stopped | None:
    """Why the run ends with the last of these rounds, or None: another one is opened.

    The same code or the same set of standing claims as in an earlier round means that the coder walks in a circle.
    """
    last, before = rounds[-1], rounds[:-1]
    if not last.wants_another:
        return "signed"
    if not last.has_coder:
        return "coder_missing"
    if not last.standing:
        return "nothing_reproduced"
    if any(last.code_digest == item.code_digest or last.standing == item.standing for item in before):
        return "oscillation"
    return "round_limit" if len(rounds) >= policy.rounds else None
