"""Scorings through parts in a real database, beside scorings here and now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from tests.integration.scoring_desk import Desk, scored_here, write, write_mixed
from tests.recorded_runs import CHECK, FIX, LOOK, search, write_cohort, write_run
from workers.core.scoring import PartKey, PartState, ScoringStage, ScoringState
from workers.provenance.repository import scoring_parts, scorings
from workers.provenance.scoring_models import assessments, trajectory_blobs
from workers.provenance.scoring_models import scoring_parts as part_table
from workers.provenance.session import Database
from workers.scoring.parts import Held, LostPartError, advance, rescue, run_part
from workers.scoring.work import WORK
from workers.trajectories import Skipped, load_all


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


def rows(desk: Desk, table: object) -> int:
    with desk.database.begin() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())  # type: ignore[arg-type]


def part(scoring_id: str, stage: ScoringStage, number: int = 0) -> PartKey:
    return PartKey(scoring_id=scoring_id, stage=stage, number=number)


def test_the_report_is_that_of_a_scoring_here_and_now_to_the_last_byte(desk: Desk, tmp_path: Path) -> None:
    folder = write_mixed(write_cohort(tmp_path / "runs"))
    desk.upload(folder)
    assert desk.report(desk.score()) == scored_here(folder, tmp_path / "spool")


@pytest.mark.parametrize("profile", ["paper", "tuned"])
def test_labels_and_settings_change_the_report_as_they_do_here(
    desk: Desk, tmp_path: Path, profile: str
) -> None:
    from workers.agentlens.settings import ScoringSettings

    folder = write_mixed(write_cohort(tmp_path / "runs"))
    text = "path,outcome\n1/lucky_pta.json,failed\n3/unknown_pta.json,passed\n"
    labels = write(tmp_path / "labels.csv", text)
    desk.upload(folder)
    found = desk.score(labels=text, settings={"profile": profile, "donors": 2, "draws": 3, "seed": 7})
    settings = ScoringSettings(profile=profile, donors=2, draws=3, seed=7)
    assert desk.report(found) == scored_here(folder, tmp_path / "spool", labels=labels, settings=settings)


def test_a_second_night_computes_only_what_is_new(desk: Desk, tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    desk.upload(folder)
    first = desk.score()
    assert desk.counts(first) == (0, 10, 0)
    assert desk.counts(desk.score()) == (10, 0, 0)
    # A failure is nobody's donor: no reference changes.
    write_run(folder / "4/new_pta.json", LOOK, search("more"), passed=False)
    desk.upload(folder)
    third = desk.score()
    assert desk.counts(third) == (10, 1, 0)
    assert desk.report(third) == scored_here(folder, tmp_path / "spool")


def test_a_changed_reference_makes_the_assessments_of_its_problem_stale(desk: Desk, tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    desk.upload(folder)
    desk.score()
    # p2 has three runs, two of which are its donors; a third donor changes what all of them are compared with.
    write_run(folder / "4/donor_pta.json", search("third"), LOOK, FIX, CHECK, problem="p2")
    desk.upload(folder)
    found = desk.score()
    assert desk.counts(found) == (7, 4, 3)
    assert desk.report(found) == scored_here(folder, tmp_path / "spool")


def test_another_scoring_version_makes_everything_stale(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    desk.score()
    for module in ("gather", "work"):
        monkeypatch.setattr(f"workers.scoring.{module}.SCORING_VERSION", "next")
    assert desk.counts(desk.score()) == (0, 10, 10)
    assert desk.counts(desk.score()) == (10, 0, 0)


def test_other_parameters_have_assessments_of_their_own(desk: Desk, tmp_path: Path) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    desk.score()
    other = {"profile": "paper", "donors": 5, "draws": 2, "seed": 0}
    assert desk.counts(desk.score(settings=other)) == (0, 10, 0)
    assert desk.counts(desk.score()) == (10, 0, 0)


def test_a_changed_neighbour_is_read_again(desk: Desk, tmp_path: Path) -> None:
    folder = write_mixed(tmp_path / "runs")
    desk.upload(folder)
    desk.score()
    write(folder / "trial/result.json", json.dumps({"task_name": "p1", "verifier_result": {"reward": 0}}))
    desk.upload(folder)
    found = desk.score()
    assert found.computed_count == 1
    assert desk.report(found) == scored_here(folder, tmp_path / "spool")


def test_the_same_bytes_are_stored_once(desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    for name in ("a", "b", "c"):
        write_run(folder / f"{name}_pta.json", LOOK, FIX)
    desk.upload(folder, "one")
    desk.upload(folder, "two")
    assert rows(desk, trajectory_blobs) == 1


def test_a_part_that_is_delivered_twice_writes_once(desk: Desk, tmp_path: Path) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    scoring_id = desk.start()
    waiting = [scorings.first_part(scoring_id)]
    while waiting:
        key = waiting.pop(0)
        waiting += run_part(desk.context, key, WORK)
        assert run_part(desk.context, key, WORK) == []
    assert desk.scoring(scoring_id).state is ScoringState.FINISHED
    assert rows(desk, assessments) == 10


def test_a_problem_that_breaks_is_reported_and_the_others_are_scored(desk: Desk, tmp_path: Path) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))

    def score(held: Held) -> None:
        if held.part.label == "p2":
            raise MemoryError
        WORK[ScoringStage.SCORE](held)

    scoring_id = desk.start()
    desk.work([scorings.first_part(scoring_id)], score=score)
    found = desk.scoring(scoring_id)
    report = json.loads(desk.report(found))
    assert len(report["assessments"]) == 7
    assert [item["error"] for item in report["skipped"]] == [
        f"{path}: problem p2 could not be scored: MemoryError: "
        for path in ("0/second_pta.json", "1/second_pta.json", "3/second_lost_pta.json")
    ]
    assert desk.counts(found) == (0, 7, 0)


def test_a_file_that_breaks_its_reader_is_reported(desk: Desk, tmp_path: Path) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    scoring_id = desk.start()

    def read(held: Held) -> None:
        raise RuntimeError("no room")

    desk.work([scorings.first_part(scoring_id)], read=read)
    found = desk.scoring(scoring_id)
    assert found.state is ScoringState.FAILED
    assert found.error is not None
    assert found.error.startswith(
        "no trajectory could be read: 0/second_pta.json: could not be read: RuntimeError: no room; "
    )


def test_a_lost_worker_is_replaced_and_a_poisonous_part_given_up(desk: Desk, tmp_path: Path) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    scoring_id = desk.start()
    plan = scorings.first_part(scoring_id)
    for rescues in (1, 2):
        with desk.database.begin() as connection:
            assert scoring_parts.claim(connection, plan, owner="gone", lease_seconds=30) is not None
            assert scoring_parts.claim(connection, plan, owner="other", lease_seconds=30) is None
            connection.execute(
                update(part_table).values(
                    lease_expires_at=func.now() - func.make_interval(0, 0, 0, 0, 0, 0, 1)
                )
            )
        sent = rescue(desk.context, pending_seconds=60, stalled_seconds=60, max_rescues=1)
        assert sent == ([plan] if rescues == 1 else [])
    found = desk.scoring(scoring_id)
    assert (found.state, found.error) == (
        ScoringState.FAILED,
        "the worker was lost 2 times while working on it",
    )


def test_a_lost_message_is_sent_again(desk: Desk, tmp_path: Path) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    scoring_id = desk.start()
    assert rescue(desk.context, pending_seconds=60, stalled_seconds=60, max_rescues=1) == []
    plan = scorings.first_part(scoring_id)
    assert rescue(desk.context, pending_seconds=0, stalled_seconds=60, max_rescues=1) == [plan]


def test_a_scoring_that_nobody_went_on_with_is_gone_on_with(desk: Desk, tmp_path: Path) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    scoring_id = desk.start()
    with desk.database.begin() as connection:
        scoring_parts.claim(connection, scorings.first_part(scoring_id), owner="here", lease_seconds=30)
    held = Held(
        context=desk.context,
        part=scoring_parts.Part(
            key=scorings.first_part(scoring_id),
            state=PartState.RUNNING,
            label=None,
            work=(),
            donors=(),
            run_count=0,
            computed_count=0,
            detail=None,
        ),
        check=lambda: None,
    )
    # The worker died between its last write and its next message.
    WORK[ScoringStage.PLAN](held)
    sent = rescue(desk.context, pending_seconds=60, stalled_seconds=0, max_rescues=1)
    assert [key.stage for key in sent] == [ScoringStage.READ]
    assert advance(desk.context, scoring_id) == []
    desk.work(sent)
    assert desk.scoring(scoring_id).state is ScoringState.FINISHED


def test_a_cancelled_scoring_writes_nothing_more(desk: Desk, tmp_path: Path) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    scoring_id = desk.start()
    left_off = []

    def score(held: Held) -> None:
        with desk.database.begin() as connection:
            scorings.cancel(connection, scoring_id, tenant_id="default")
        try:
            while True:
                held.check()
        except LostPartError:
            left_off.append(held.part.label)
            raise

    desk.work([scorings.first_part(scoring_id)], score=score)
    assert desk.scoring(scoring_id).state is ScoringState.CANCELLED
    assert len(left_off) == 1
    assert rows(desk, assessments) == 0
    with desk.database.begin() as connection:
        parts = scoring_parts.of_stage(connection, scoring_id, ScoringStage.SCORE)
    assert {found.state for found in parts} == {PartState.CANCELLED}


def test_labels_that_name_no_run_fail_the_scoring_with_a_sentence(desk: Desk, tmp_path: Path) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    found = desk.score(labels="id,outcome\nnobody,passed\n")
    assert found.state is ScoringState.FAILED
    assert found.error == (
        "labels.csv: names none of the 10 runs by id, path or problem; the first run's id is second"
    )


def test_what_was_uploaded_under_the_same_name_later_is_not_in_an_earlier_scoring(
    desk: Desk, tmp_path: Path
) -> None:
    folder = write_cohort(tmp_path / "runs")
    desk.upload(folder)
    scoring_id = desk.start()
    before = scored_here(folder, tmp_path / "spool")
    write_run(folder / "0/sound_pta.json", LOOK)
    desk.upload(folder)
    desk.work([scorings.first_part(scoring_id)])
    assert desk.report(desk.scoring(scoring_id)) == before


def test_progress_is_told_by_stage_and_by_problem(desk: Desk, tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    desk.upload(folder)
    found = desk.score()
    with desk.database.begin() as connection:
        progress = scorings.progress(connection, found.scoring_id)
        parts = scoring_parts.of_stage(connection, found.scoring_id, ScoringStage.SCORE)
    done = {stage.stage: (stage.done, stage.total) for stage in progress}
    assert (done[ScoringStage.READ], done[ScoringStage.SCORE]) == ((10, 10), (10, 10))
    assert [(part.label, part.run_count) for part in parts] == [("p1", 6), ("p2", 3), (None, 1)]
    assert not any(isinstance(item, Skipped) for item in load_all(folder))
