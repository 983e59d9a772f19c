"""The pipeline as plain functions, in flow order: coder, panel, consensus, refute, gate, lead, finish.

`STAGES` maps a stage to its own work; `seat.run_seat` gives all of them the same life."""

from workers.core.run import Stage
from workers.stages.coder import write_candidate
from workers.stages.consensus import count_panel
from workers.stages.gate import prove_claim
from workers.stages.lead import sign
from workers.stages.panel import review_candidate
from workers.stages.refute import refute_claim
from workers.stages.seat import Do

STAGES: dict[Stage, Do] = {
    Stage.CODER: write_candidate,
    Stage.PANEL: review_candidate,
    Stage.CONSENSUS: count_panel,
    Stage.REFUTE: refute_claim,
    Stage.GATE: prove_claim,
    Stage.LEAD: sign,
}
