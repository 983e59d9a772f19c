"""What runs will cost, and what a budget keeps for their leads: exactly for one run, by size for lines of a batch."""

from __future__ import annotations

import dataclasses
import math
from typing import Self

from api.checked_run import CheckedRun
from api.dependencies import Services
from workers.core.budget import Amount, Budget
from workers.core.fence import label
from workers.core.team import EquippedTeam
from workers.estimate import RunEstimate, Submitted, check_priced, estimate
from workers.teams import prompt_environment

#: Sizes are rounded up to these, so that ten thousand lines ask for a handful of estimates. What is kept for a lead is
#: above its exact share by at most the worst case of one step: half as many tokens.
STEP_BYTES = 2048
CODE_STEP_CHARACTERS = 16384
#: What the prompt puts around each file of tests, at most.
_FRAME_BYTES = 64


def estimate_of(team: EquippedTeam, submitted: Submitted, services: Services) -> RunEstimate:
    prompts = prompt_environment()
    return estimate(
        team,
        submitted,
        enabled=services.enabled(),
        price_of=services.price_of,
        render=lambda name, **values: prompts.get_template(name).render(**values),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """All of a submission that its lead's share depends on."""

    shown_steps: int
    code_steps: int
    is_review: bool
    has_alarms: bool

    @classmethod
    def of(cls, submitted: Submitted) -> Self:
        tests = sum(
            _FRAME_BYTES + _bytes(label(path)) + _bytes(text) for path, text in submitted.tests.items()
        )
        code = sum(map(len, submitted.files.values())) if submitted.is_review else 0
        return cls(
            shown_steps=math.ceil((_bytes(submitted.spec) + tests) / STEP_BYTES),
            code_steps=math.ceil(code / CODE_STEP_CHARACTERS),
            is_review=submitted.is_review,
            has_alarms=submitted.has_alarms,
        )

    def stand_in(self) -> Submitted:
        """A submission of this size, rounded up."""
        return Submitted(
            spec="x" * (self.shown_steps * STEP_BYTES),
            files={"stand_in": "x" * (self.code_steps * CODE_STEP_CHARACTERS)} if self.code_steps else {},
            is_review=self.is_review,
            has_alarms=self.has_alarms,
        )


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


class LeadShares:
    """What is kept for the lead in each run of a batch that has a budget, or whose batch has one.

    A lead's first call depends on its team and on how much it is shown, not on the words: of each team one stand-in a
    size is estimated. Only a team that looks passages up gets an estimate a line, since passages go by the words.
    """

    def __init__(self, services: Services, batch_budget: Budget) -> None:
        self._services = services
        self._batch_budget = batch_budget
        self._known: dict[tuple[str, _Size], RunEstimate] = {}

    def share_of(self, team: EquippedTeam, checked: CheckedRun) -> Amount | None:
        """None without a budget. Raises: InputError when a budget in dollars could not be kept."""
        if not (checked.budget.is_set or self._batch_budget.is_set):
            return None
        estimated = self._estimate(team, checked.submitted)
        for budget in (checked.budget, self._batch_budget):
            check_priced(estimated, budget)
        return estimated.lead_share

    def _estimate(self, team: EquippedTeam, submitted: Submitted) -> RunEstimate:
        if team.retrieval is not None:
            return estimate_of(team, submitted, self._services)
        key = (team.name, _Size.of(submitted))
        if key not in self._known:
            self._known[key] = estimate_of(team, key[1].stand_in(), self._services)
        return self._known[key]
