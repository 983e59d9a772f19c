"""What goes in and out of the endpoints of trajectories and scorings."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from api.known_fields import KnownFields
from api.moment import Moment
from api.plain_text import PlainText
from workers.agentlens.formats import format_names
from workers.core.scoring import ScoringStage, ScoringState
from workers.provenance.repository.scorings import Scoring, StageProgress
from workers.provenance.repository.trajectory_files import StoredFile

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the bytes, hexadecimal")]
Role = Literal["run", "beside"]


class UploadLine(KnownFields):
    """One line of an upload: a file's text, its bytes, or the digest of bytes that are there."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(description="below the folder that the upload set stands for, with /")
    content: str | None = Field(default=None, description="a text file")
    content_base64: str | None = Field(default=None, description="any file")
    digest: Digest | None = Field(default=None, description="of bytes that were stored before")
    prefix: PlainText = Field(default="", max_length=1024, description="put before the path in reports")
    role: Role | None = Field(default=None, description="run, or read beside one; default: found out by name")


class UploadedItem(BaseModel):
    """What became of a file. `missing`: its bytes are not there; send them."""

    path: str
    status: Literal["stored", "present", "missing", "refused"]
    digest: str | None = None
    problem: str | None = None


class UploadOut(BaseModel):
    upload_set: str
    stored: int = 0
    present: int = 0
    missing: int = 0
    refused: int = 0
    items: list[UploadedItem]


class TrajectoryOut(BaseModel):
    """An uploaded file."""

    id: str
    upload_set: str
    prefix: str
    path: str
    role: Role | None
    digest: str
    size_bytes: int
    stored_bytes: int
    created_at: dt.datetime

    @classmethod
    def of(cls, file: StoredFile) -> Self:
        return cls.model_validate(
            {
                "id": file.file_id,
                **{name: getattr(file, name) for name in cls.model_fields if name != "id"},
            }
        )


class TrajectoryPage(BaseModel):
    trajectories: list[TrajectoryOut]
    next_cursor: str | None


class LabelsIn(KnownFields):
    """Outcomes that win over those in the logs."""

    model_config = ConfigDict(extra="forbid")

    name: PlainText = Field(max_length=255, description="the file's name; messages use it")
    content: str = Field(description="JSON, JSON lines, CSV or a grader's report")


class Unopened(KnownFields):
    model_config = ConfigDict(extra="forbid")

    path: str
    error: str


class ScoringRequest(KnownFields):
    """Which trajectories to score, and how. Exactly one of `all`, `upload_set`, `since` and `ids`."""

    model_config = ConfigDict(extra="forbid")

    all: Literal[True] | None = Field(default=None, description="everything uploaded so far")
    upload_set: PlainText | None = Field(default=None, max_length=200)
    since: Moment | None = Field(default=None, description="uploaded at this moment or later")
    ids: list[PlainText] | None = Field(default=None, min_length=1, max_length=10_000)
    labels: LabelsIn | None = None
    format: str | None = Field(
        default=None,
        max_length=100,
        description="read every file as this format",
        json_schema_extra={"enum": [*format_names(), None]},
    )
    profile: Literal["paper", "tuned"] = "paper"
    k: int = Field(default=5, ge=2, le=10_000, description="passing runs in one reference")
    draws: int = Field(default=4, ge=1, le=1000, description="references drawn and averaged")
    seed: int = Field(default=0, ge=-(2**53), le=2**53)
    unopened: list[Unopened] = Field(
        default=[], max_length=10_000, description="what the client could not open, for the report"
    )

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        chosen = [name for name in ("all", "upload_set", "since", "ids") if getattr(self, name) is not None]
        if len(chosen) != 1:
            raise ValueError("give exactly one of all, upload_set, since and ids")
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """As the scorer's settings call them."""
        return {"profile": self.profile, "donors": self.k, "draws": self.draws, "seed": self.seed}


class StageOut(BaseModel):
    """total, done: runs or files; parts: by state."""

    stage: ScoringStage
    total: int
    done: int
    parts: dict[str, int]

    @classmethod
    def of(cls, progress: StageProgress) -> Self:
        return cls(stage=progress.stage, total=progress.total, done=progress.done, parts=dict(progress.parts))


class ScoringSummary(BaseModel):
    """A scoring. reused: runs whose assessment was there; computed: scored now, of which `stale` had an assessment
    against another reference or of another version."""

    id: str
    state: ScoringState
    stage: ScoringStage
    profile: str
    k: int
    draws: int
    seed: int
    schedule: str | None
    night: str | None
    night_before: str | None
    files: int
    runs: int
    problems: int
    reused: int
    computed: int
    stale: int
    skipped: int
    scoring_version: str | None
    error: str | None
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None

    @classmethod
    def values_of(cls, scoring: Scoring) -> dict[str, Any]:
        same = ("state", "stage", "profile", "schedule", "night", "scoring_version", "error")
        times = ("created_at", "started_at", "finished_at")
        counts = ("file", "run", "problem", "reused", "computed", "stale", "skipped")
        plural = {"file": "files", "run": "runs", "problem": "problems"}
        return {
            "id": scoring.scoring_id,
            "night_before": scoring.previous_id,
            "k": scoring.settings["donors"],
            "draws": scoring.settings["draws"],
            "seed": scoring.settings["seed"],
            **{name: getattr(scoring, name) for name in (*same, *times)},
            **{plural.get(name, name): getattr(scoring, f"{name}_count") for name in counts},
        }

    @classmethod
    def of(cls, scoring: Scoring) -> Self:
        return cls(**cls.values_of(scoring))


class ScoringDetail(ScoringSummary):
    """A scoring with how far its stages are, and what it said of the night before."""

    progress: list[StageOut]
    comparison: dict[str, Any] | None

    @classmethod
    def of_all(
        cls, scoring: Scoring, progress: Sequence[StageProgress], comparison: dict[str, Any] | None
    ) -> Self:
        stages = [StageOut.of(stage) for stage in progress]
        return cls(**cls.values_of(scoring), progress=stages, comparison=comparison)


class ScoringPage(BaseModel):
    scorings: list[ScoringSummary]
    next_cursor: str | None


class ProblemOut(BaseModel):
    """A piece of work of a scoring: a problem, or a part of a large one; null: runs that name no problem."""

    problem: str | None
    state: str
    runs: int
    computed: int
    error: str | None


class ProblemPage(BaseModel):
    problems: list[ProblemOut]
    next_cursor: str | None


class AssessmentPage(BaseModel):
    """Assessments in the JSON form of reports."""

    assessments: list[dict[str, Any]]
    next_cursor: str | None


class Leaderboard(BaseModel):
    """Both ranks of every model (AGENTLENS §9)."""

    scoring_id: str
    finished_at: dt.datetime | None
    profile: str
    runs: int
    problems: int
    models: list[dict[str, Any]]
    caution: str
