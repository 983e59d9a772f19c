"""A request for a run, checked as far as it can be without its team: one definition for single runs and for the lines
of a batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from api.run_request import RunRequest
from workers.core.artefact import Files
from workers.core.budget import Amount, Budget
from workers.core.slices import LeftOut
from workers.core.submission import Existing, check_files, check_reviewed, check_spec
from workers.errors import SpecError
from workers.estimate import Submitted
from workers.provenance.repository.runs import NewRun
from workers.sarif.read import alarms_in


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRun:
    """The request, its code, and what goes with code that is to be judged as it is."""

    body: RunRequest
    files: Files
    existing: Existing | None

    @property
    def budget(self) -> Budget:
        return Budget(usd=self.body.budget_usd, tokens=self.body.budget_tokens)

    @property
    def submitted(self) -> Submitted:
        """What an estimate looks at."""
        return Submitted(
            spec=self.body.spec,
            files=self.files,
            tests=self.body.tests,
            is_review=self.body.is_review,
            has_alarms=self.body.sarif is not None,
        )

    def new_run(
        self,
        *,
        run_id: str,
        team: Mapping[str, Any],
        tenant_id: str,
        idempotency_key: str | None = None,
        lead_share: Amount | None = None,
    ) -> NewRun:
        body = self.body
        return NewRun(
            run_id=run_id,
            team=team,
            spec=body.spec,
            files=self.files,
            review=None if self.existing is None else self.existing.as_data(),
            tests=body.tests,
            metadata=body.metadata,
            external_id=body.id,
            priority=body.priority,
            tenant_id=tenant_id,
            idempotency_key=idempotency_key,
            budget=self.budget,
            lead_share=lead_share or Amount(),
        )


def check_request(body: RunRequest) -> CheckedRun:
    """Raises: SpecError, SarifError."""
    check_spec(body.spec)
    files, existing = _code(body)
    check_files("tests", body.tests)
    return CheckedRun(body=body, files=files, existing=existing)


def _code(body: RunRequest) -> tuple[Files, Existing | None]:
    if body.is_review:
        left_out = [LeftOut(path=item.path, reason=item.reason) for item in body.left_out]
        files, existing = check_reviewed(body.files, diff=body.diff, left_out=left_out)
        alarms = () if body.sarif is None else alarms_in(body.sarif, files)
        return files, dataclasses.replace(existing, alarms=alarms)
    if body.left_out:
        raise SpecError("left_out: belongs to code that is to be judged; set review to true")
    check_files("files", body.files)
    return body.files, None
