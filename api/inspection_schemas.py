"""What goes out of the endpoints that look into trajectories and scorings."""

from __future__ import annotations

import datetime as dt
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from api.scoring_schemas import TrajectoryOut
from workers.provenance.repository.scored_runs import ListedRun, Standing


class Read(BaseModel):
    """Read off a value of ours."""

    model_config = ConfigDict(from_attributes=True)


class BoundedOut(Read):
    """The beginning of a text."""

    text: str
    total_chars: int


class EditOut(Read):
    """What an edit replaced. path: of a call that edits several files."""

    path: str | None
    old: BoundedOut
    new: BoundedOut


class NodeOut(Read):
    """The node of the reference that a step is most like, and how sure that is. is_on_way: the walk through the tree
    goes by it here. support: of so many donors took that step."""

    node: int
    confidence: float
    is_on_way: bool
    action: str
    support: int
    donors: int


class WasteOut(Read):
    category: str
    evidence: str
    hint: str
    steps: list[int]


class StepOut(Read):
    """A step. Texts come with their beginning; the whole observation has an address of its own."""

    index: int
    intent: str = Field(description="E, I, V or O")
    intent_name: str
    rule: int = Field(description="which of the seven rules gave the intent")
    rule_meaning: str
    tool: str
    operation: str
    line: str = Field(description="what it did, in one line")
    call: str = Field(description="as the agent wrote it, shortened where it is very long")
    compared_as: str
    path: str | None
    scope: str | None
    edits: list[EditOut]
    more_edits: int
    thought: BoundedOut
    observation: BoundedOut
    outcome: str
    exit_code: int | None
    tokens_in: int | None
    tokens_out: int | None
    timestamp: float | None
    waste: list[WasteOut]
    node: NodeOut | None
    is_off: bool = Field(description="in a stretch off the reference")
    is_divergence: bool


class StepPage(BaseModel):
    run: str
    steps: list[StepOut]
    total: int
    next_from: int | None


class PieceOut(Read):
    """Characters of a text from `offset` on."""

    text: str
    offset: int
    total_chars: int
    next_offset: int | None


class StretchOut(Read):
    start: int
    end: int


class OverviewOut(Read):
    """All steps in little. intents, rules, outcomes: a character a step. matched: step, node, confidence."""

    steps: int
    intents: str
    rules: str
    outcomes: str
    wasted: list[int]
    matched: list[tuple[int, int, float]]
    off: list[StretchOut]
    divergence: int | None


class StandingOut(BaseModel):
    """A finished scoring that holds the run."""

    run: str
    scoring_id: str
    profile: str
    score: float
    tier: str | None

    @classmethod
    def of(cls, standing: Standing) -> Self:
        return cls(
            run=f"{standing.scoring_id}.{standing.place}",
            scoring_id=standing.scoring_id,
            profile=standing.profile,
            score=standing.score,
            tier=standing.tier,
        )


class RecordOut(BaseModel):
    """A record of an uploaded file. error: why it is no run."""

    run: str
    trajectory_id: str | None
    problem: str | None
    model: str | None
    outcome: str | None
    error: str | None
    standings: list[StandingOut]


class FileOut(TrajectoryOut):
    """An uploaded file. records: None until a scoring has read it."""

    records: list[RecordOut] | None


class RunOut(BaseModel):
    """A run. assessment: as in reports, None for a run that no scoring holds. note: why something is not shown."""

    run: str
    file_id: str | None
    scoring_id: str | None
    trajectory_id: str
    path: str
    format: str
    problem: str | None
    model: str | None
    outcome: str
    overview: OverviewOut
    assessment: dict[str, Any] | None
    warnings: list[str]
    note: str | None


class SideOut(Read):
    index: int
    intent: str
    line: str
    outcome: str


class RowOut(Read):
    """Steps beside each other. confidence: that they are one; null where only one run takes it."""

    left: SideOut | None
    right: SideOut | None
    confidence: float | None


class ComparisonOut(BaseModel):
    a: str
    b: str
    rows: list[RowOut]
    total: int
    next_from: int | None
    shared: int
    shared_a: float
    shared_b: float
    edit_agreement: float | None
    is_same: bool


class ListedRunOut(BaseModel):
    """A run of a scoring in a line."""

    run: str
    place: int
    path: str
    trajectory_id: str
    problem: str | None
    model: str
    outcome: str
    score: float
    tier: str | None
    mechanism: str | None
    steps: int
    waste_severity: float
    is_copy: bool

    @classmethod
    def of(cls, scoring_id: str, run: ListedRun) -> Self:
        return cls(
            run=f"{scoring_id}.{run.place}",
            place=run.place,
            path=run.entry["path"],
            trajectory_id=run.entry["trajectory_id"],
            problem=run.entry["problem"],
            model=run.row["model"],
            outcome=run.entry["outcome"],
            score=run.score,
            tier=run.tier,
            mechanism=run.row["mechanism"],
            steps=run.row["steps"],
            waste_severity=run.row["severity"],
            is_copy=run.entry["original"] is not None,
        )


class ListedRunPage(BaseModel):
    runs: list[ListedRunOut]
    next_cursor: str | None


class SlopeOut(Read):
    model: str
    pass_rank: int
    quality_rank: int
    pass_rate: float
    quality: float
    shift: int


class TierShareOut(Read):
    tier: str
    runs: int
    share: float


class ModelTiersOut(Read):
    model: str
    runs: int
    shares: list[TierShareOut]


class BinOut(Read):
    """Runs whose value lies from `start` to under `start` + 5."""

    start: float
    passed: int
    failed: int


class DistributionOut(Read):
    name: str
    title: str
    bins: list[BinOut]
    median_passed: float | None
    median_failed: float | None


class ExampleOut(Read):
    place: int
    path: str
    model: str
    score: float


class LuckyOut(Read):
    mechanism: str
    meaning: str
    runs: int
    by_model: dict[str, int]
    examples: list[ExampleOut]


class ChartsOut(Read):
    """What a scoring's page draws."""

    slope: list[SlopeOut]
    tiers: list[ModelTiersOut]
    score: DistributionOut
    signals: list[DistributionOut]
    lucky: list[LuckyOut]


class NightOut(Read):
    """A night of a schedule. Figures are null for a night that has no report."""

    schedule: str
    night: str
    scoring_id: str
    state: str
    error: str | None
    runs: int | None
    reused: int
    computed: int
    pass_rate: float | None
    mean_score: float | None
    lucky_share: float | None
    tiers: dict[str, int]
    changes: dict[str, int] | None
    night_before: str | None


class NightPage(BaseModel):
    nights: list[NightOut]


class UploadSetOut(BaseModel):
    name: str
    files: int
    newest_at: dt.datetime
