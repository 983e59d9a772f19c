"""Scorings on a real database, their parts done one after the other in this process."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.unit.cli.scoring import scored
from workers.core.scoring import PartKey, ScoringState
from workers.provenance.models import DEFAULT_TENANT
from workers.provenance.repository import assessments, blobs, scorings, trajectory_files
from workers.provenance.repository.scorings import NewScoring, Scoring
from workers.provenance.repository.trajectory_files import NewFile, Selection
from workers.provenance.session import Database
from workers.scoring.context import ScoringContext
from workers.scoring.forms import write_json
from workers.scoring.parts import run_part
from workers.scoring.work import WORK
from workers.wiring import new_id

SETTINGS = {"profile": "paper", "donors": 5, "draws": 4, "seed": 0}
AT = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = AT

    def __call__(self) -> dt.datetime:
        return self.now


@dataclasses.dataclass(frozen=True)
class Desk:
    """Uploads folders, makes scorings of them, and works them off."""

    database: Database
    clock: Clock = dataclasses.field(default_factory=Clock)

    @property
    def context(self) -> ScoringContext:
        return ScoringContext(
            database=self.database,
            owner="here",
            lease_seconds=30,
            heartbeat_seconds=0.1,
            now=self.clock,
            new_id=new_id,
            max_file_bytes=1 << 20,
        )

    def upload(self, folder: Path, upload_set: str = "uploads") -> None:
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        with self.database.begin() as connection:
            named = []
            for path in files:
                with path.open("rb") as file:
                    stored = blobs.store(connection, file, tenant_id=DEFAULT_TENANT)
                named.append(
                    NewFile(
                        file_id=new_id("traj"),
                        upload_set=upload_set,
                        path=path.relative_to(folder).as_posix(),
                        digest=stored.digest,
                    )
                )
            trajectory_files.link(connection, named, tenant_id=DEFAULT_TENANT)

    def start(self, upload_set: str = "uploads", *, labels: str | None = None, **more: Any) -> str:
        with self.database.begin() as connection:
            files = trajectory_files.select_files(
                connection, Selection(upload_set=upload_set), tenant_id=DEFAULT_TENANT
            )
            if labels is not None:
                data = io.BytesIO(labels.encode())
                digest = blobs.store(connection, data, tenant_id=DEFAULT_TENANT).digest
                more |= {"labels_digest": digest, "labels_name": "labels.csv"}
            scoring, _ = scorings.create(
                connection,
                NewScoring(
                    scoring_id=new_id("scoring"),
                    manifest_digest=trajectory_files.store_manifest(
                        connection, files, tenant_id=DEFAULT_TENANT
                    ),
                    **{"settings": SETTINGS, **more},
                ),
            )
        return scoring.scoring_id

    def work(self, keys: Iterable[PartKey], **changes: Any) -> None:
        """Do the parts, and those that follow, until none is left."""
        waiting = list(keys)
        while waiting:
            waiting += run_part(self.context, waiting.pop(0), {**WORK, **changes})

    def score(self, upload_set: str = "uploads", **more: Any) -> Scoring:
        """Make a scoring and work it off."""
        scoring_id = self.start(upload_set, **more)
        self.work([scorings.first_part(scoring_id)])
        return self.scoring(scoring_id)

    def scoring(self, scoring_id: str) -> Scoring:
        with self.database.begin() as connection:
            return scorings.get(connection, scoring_id)

    def report(self, scoring: Scoring) -> bytes:
        """The JSON form, as the API puts it together."""
        assert scoring.state is ScoringState.FINISHED, scoring.error
        with self.database.begin() as connection:
            head, tail = (
                b"".join(assessments.report(connection, scoring.scoring_id, form))
                for form in ("json-head", "json-tail")
            )
            runs = assessments.report_rows(
                connection, scoring.scoring_id, tenant_id=DEFAULT_TENANT, limit=10_000
            )
        return head + b",".join(run.document for run in runs if run.document is not None) + tail

    def form(self, scoring: Scoring, form: str) -> bytes:
        with self.database.begin() as connection:
            return b"".join(assessments.report(connection, scoring.scoring_id, form))

    def counts(self, scoring: Scoring) -> tuple[int, int, int]:
        """(reused, computed, stale)."""
        return scoring.reused_count, scoring.computed_count, scoring.stale_count


def scored_here(folder: Path, spool: Path, **more: Any) -> bytes:
    """What `consensus score` writes for a folder, as JSON."""
    out = io.BytesIO()
    write_json(scored(folder, spool, **more), out)
    return out.getvalue()


def atif(*commands: str, **more: Any) -> str:
    """A run in ATIF."""
    steps = [
        {
            "step_id": number,
            "source": "agent",
            "message": "",
            "tool_calls": [{"tool_call_id": "1", "function_name": "bash", "arguments": {"command": command}}],
        }
        for number, command in enumerate(commands, start=1)
    ]
    return json.dumps({"schema_version": "ATIF-v1.7", "agent": {"name": "x"}, "steps": steps, **more})


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def write_mixed(folder: Path) -> Path:
    """Runs whose files belong together: a continuation and a result beside a log, a file of several runs with copies,
    a bad line, a file that is none."""
    write(
        folder / "trial/agent/trajectory.json",
        atif("ls", "cat a.py", continued_trajectory_ref="trajectory.cont-1.json"),
    )
    write(folder / "trial/agent/trajectory.cont-1.json", atif("sed -i s/a/b/ a.py", "pytest"))
    write(folder / "trial/result.json", json.dumps({"task_name": "p1", "verifier_result": {"reward": 1}}))
    lines = [
        atif("ls", "pytest", trajectory_id="one"),
        "{",
        atif("ls", "pytest", trajectory_id="one"),
        atif("pwd", "grep x y", trajectory_id="two"),
    ]
    write(folder / "output.jsonl", "\n".join(lines))
    write(folder / "bad.json", "{")
    return folder
