"""How a run is named from outside: as a record of an uploaded file, or by its place in a scoring."""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from workers.errors import NotFoundError

_ADDRESS: Final = re.compile(r"((traj|scoring)_[0-9a-hjkmnp-tv-z]{26})(?:\.(0|[1-9]\d{0,8}))?")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunAddress:
    """`traj_….2`: the third record of an uploaded file, without a number its first. `scoring_….7`: the run at place 7
    of a scoring's report."""

    owner: str
    number: int

    @classmethod
    def parse(cls, text: str) -> RunAddress:
        """Raises: NotFoundError for what names no run."""
        match = _ADDRESS.fullmatch(text)
        if match is None or (match[2] == "scoring" and match[3] is None):
            raise NotFoundError(
                f"there is no trajectory {text[:80]!r}; GET /v1/trajectories and GET /v1/scorings/{{id}}/runs list them"
            )
        return cls(owner=match[1], number=int(match[3] or 0))

    @property
    def is_scored(self) -> bool:
        """Whether it names a run by its place in a scoring."""
        return self.owner.startswith("scoring_")

    def __str__(self) -> str:
        return f"{self.owner}.{self.number}"
