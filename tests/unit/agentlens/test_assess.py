"""The whole chain, and the properties of AGENTLENS §10."""

import dataclasses
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.agentlens.steps import edit, finish, run, shell, think, trajectory, view
from workers.agentlens import cohort, report
from workers.agentlens.assess import Assessment, Run, assess, assess_problem, pool, prepare
from workers.agentlens.intents import label
from workers.agentlens.settings import SCORING_VERSION, ScoringSettings
from workers.agentlens.signals.structure import Candidate, align
from workers.agentlens.tier import Tier
from workers.agentlens.trajectory import Intent, RunOutcome, State, Trajectory

STEPS = st.sampled_from(
    [
        view("a.py"),
        view("a.py", (1, 40)),
        view("b.py", (2, 30)),
        edit("a.py", "x", "y"),
        edit("a.py", "x\nk", "z\nk", scope="f"),
        edit("b.py", "p", "q", at=(3, 9), outcome="error"),
        shell("pytest t", seen="ok"),
        shell("pytest t", outcome="error", seen="E"),
        shell("grep -n foo a.py"),
        shell("python repro.py", seen="r"),
        shell("pip install x"),
        think(),
        finish(),
    ]
)
PROBLEMS = st.lists(
    st.tuples(st.lists(STEPS, max_size=10), st.sampled_from(["passed", "failed", "unknown"])),
    min_size=1,
    max_size=9,
)
Problem = list[tuple[list[State], RunOutcome]]


def labelled(*states: State, **more: object) -> Trajectory:
    made = trajectory(*states, **more)  # type: ignore[arg-type]
    return dataclasses.replace(made, states=label(made.states))


def runs_of(problem: Problem) -> list[Run]:
    return [
        prepare(labelled(*states, name=f"run-{n}-{outcome}", outcome=outcome, model=f"m{n % 3}"))
        for n, (states, outcome) in enumerate(problem)
    ]


def scores(assessment: Assessment) -> dict[str, object]:
    return {name: (s.score, s.signals, s.spread) for name, s in assessment.scores.items()}


FLIPPED: dict[str, RunOutcome] = {"passed": "failed", "failed": "passed", "unknown": "unknown"}


@given(PROBLEMS, st.data())
def test_a_runs_own_label_changes_nothing_of_its_score_wherever_it_hides(
    problem: Problem, data: st.DataObject
) -> None:
    runs = runs_of(problem)
    mine = data.draw(st.integers(0, len(runs) - 1))
    before = list(assess_problem(runs))[mine]
    old = runs[mine].trajectory
    for outcome in ("passed", "failed", "unknown"):
        flipped = dataclasses.replace(
            old, outcome=outcome, trajectory_id=f"logs-{outcome}-7", path=f"{outcome}/logs-{outcome}-7.json"
        )
        changed = [*runs[:mine], prepare(flipped), *runs[mine + 1 :]]
        after = list(assess_problem(changed))[mine]
        assert scores(after) == scores(before)
        assert (after.waste, after.divergence, after.intents) == (
            before.waste,
            before.divergence,
            before.intents,
        )


@given(PROBLEMS)
def test_names_and_folders_decide_nothing(problem: Problem) -> None:
    runs = runs_of(problem)
    renamed = [
        prepare(
            dataclasses.replace(
                r.trajectory,
                trajectory_id=f"other-{FLIPPED[r.trajectory.outcome]}-{len(runs) - n}",
                path=f"{FLIPPED[r.trajectory.outcome]}/{n}.json",
            )
        )
        for n, r in enumerate(runs)
    ]
    for before, after in zip(assess_problem(runs), assess_problem(renamed), strict=True):
        assert scores(before) == scores(after)


@given(PROBLEMS, st.randoms(use_true_random=False))
def test_the_order_of_the_files_changes_no_assessment(problem: Problem, rng: random.Random) -> None:
    runs = runs_of(problem)
    shuffled = rng.sample(runs, len(runs))
    by_id = {a.trajectory_id: report.assessment_document(a) for a in assess_problem(shuffled)}
    for assessment in assess_problem(runs):
        assert report.assessment_document(assessment) == by_id[assessment.trajectory_id]


@given(PROBLEMS)
def test_every_index_in_a_report_exists(problem: Problem) -> None:
    runs = runs_of(problem)
    for one, assessment in zip(runs, assess_problem(runs), strict=True):
        steps = range(len(one.trajectory.states))
        assert len(assessment.intents) == len(assessment.rules) == len(steps)
        assert set(assessment.waste.steps) <= set(steps)
        assert {step for found in assessment.disorder for step in found.steps} <= set(steps)
        assert {step for step, _ in assessment.matched} <= set(steps)
        assert 0.0 <= assessment.waste.severity <= 1.0
        for score in assessment.scores.values():
            assert 0.0 <= score.score <= 100.0
            assert all(0.0 <= value <= 100.0 for value in score.signals.values())
        if assessment.reference is not None:
            assert {node for _, node in assessment.matched} <= set(range(assessment.reference.nodes))
            assert assessment.trajectory_id not in assessment.reference.donors


def test_many_long_runs_are_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = passing(*(run(view(f"{n}.py"), *ROUTES[n % 4], name=f"more-{n}") for n in range(6)))
    expected = [report.assessment_document(a) for a in assess_problem(runs)]
    for cells in (1, 100):
        monkeypatch.setattr("workers.agentlens.assess._CELLS", cells)
        assert [report.assessment_document(a) for a in assess_problem(runs)] == expected


def test_no_runs_give_no_assessments() -> None:
    assert list(assess_problem([])) == []


@given(PROBLEMS)
def test_one_run_alone_gets_what_it_gets_among_the_others(problem: Problem) -> None:
    runs = runs_of(problem)
    donors = pool(runs)
    for one, together in zip(runs, assess_problem(runs), strict=True):
        assert report.assessment_document(assess(one, donors)) == report.assessment_document(together)


@given(PROBLEMS)
def test_the_same_input_gives_the_same_bytes(problem: Problem) -> None:
    def written() -> bytes:
        found = list(assess_problem(runs_of(problem)))
        summary = cohort.summarise([cohort.row(a) for a in found])
        documents = [report.assessment_document(a) for a in found]
        return report.to_bytes(report.report_document(documents, cohort=summary, settings=ScoringSettings()))

    assert written() == written()


ROUTES = [
    (view("a.py"), view("b.py"), edit("a.py", "x", "y"), shell("pytest t")),
    (view("b.py"), edit("a.py", "x", "z"), shell("pytest t"), shell("tox")),
    (view("a.py"), shell("python repro.py", intent=Intent.E), edit("c.py", "p", "q"), shell("pytest u")),
    (view("c.py"), edit("c.py", "p", "r"), shell("pytest u")),
]


def passing(*extra: Run) -> list[Run]:
    return [*(run(*route, name=f"donor-{n}") for n, route in enumerate(ROUTES)), *extra]


def test_a_run_that_did_what_a_donor_did_is_that_donor_and_not_its_match() -> None:
    copies = [run(*ROUTES[0], name=f"copy-{n}") for n in range(5)]
    alone = next(assess_problem(passing()))
    for assessment in list(assess_problem(passing(*copies)))[4:]:
        assert scores(assessment) == scores(alone)
        assert assessment.scores["paper"].signals["struct"] < 100.0


def test_five_copies_of_one_run_leave_the_scores_of_the_others_as_they_were() -> None:
    copies = [run(*ROUTES[0], name=f"copy-{n}") for n in range(5)]
    with_copies = list(assess_problem(passing(*copies)))
    for before, after in zip(list(assess_problem(passing()))[1:], with_copies[1:4], strict=True):
        assert scores(before) == scores(after)


def test_a_run_that_takes_a_donors_steps_by_other_means_scores_100_in_structure() -> None:
    # the same files and checks; only the text of one edit differs, in the same scope: 0.90 on 1 of 3 nodes
    twin = (view("z.py"), edit("z.py", "1", "2", scope="f"), shell("pytest z"))
    mine = run(
        view("z.py"), edit("z.py", "1", "3", scope="f"), shell("pytest z"), name="mine", outcome="failed"
    )
    found = list(assess_problem([*passing(run(*twin, name="twin")), mine]))[-1]
    recall = (1 + 0.9 + 1) / 3
    assert found.scores["paper"].signals["struct"] == pytest.approx(200 * recall / (1 + recall))


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(st.lists(st.lists(STEPS, min_size=1, max_size=8), min_size=2, max_size=5))
def test_a_donor_scores_100_on_the_tree_that_holds_it(traces: list[list[State]]) -> None:
    runs = [prepare(labelled(*states, name=str(n))) for n, states in enumerate(traces)]
    donors = pool(runs, ScoringSettings(draws=1))
    if len(donors.donors) < 2:
        return
    # an unacting run excludes nobody, so its forest is the one that holds every donor
    forest = donors.forest(prepare(trajectory(think(), outcome="failed")).trace)
    assert forest is not None
    compared = donors.compare([donor.trace for donor in forest.donors])
    aligned = align(
        compared.table,
        [Candidate(rows=rows, paths=forest.paths, lengths=forest.lengths) for rows in compared.rows],
    )
    for alignment in aligned:
        assert alignment.struct.max() == pytest.approx(100.0)


def test_fewer_than_two_other_passing_runs_leave_only_the_unreferenced_profile() -> None:
    mine = run(*ROUTES[1], name="mine")
    found = next(assess_problem([mine, run(*ROUTES[0], name="other")]))
    assert list(found.scores) == ["unreferenced"]
    assert found.profile == "unreferenced"
    assert found.reference is None
    assert found.divergence is None
    assert "1 other passing runs" in found.warnings[-1]


def test_the_reference_says_what_was_used_and_warns_when_it_is_small() -> None:
    found = list(assess_problem(passing(run(view("a.py"), name="mine", outcome="failed"))))[-1]
    assert found.reference is not None
    assert sorted(found.reference.donors) == ["donor-0", "donor-1", "donor-2", "donor-3"]
    assert (found.reference.k, found.reference.donors_drawn, found.reference.draws) == (4, 4, 4)
    assert "the reference has 4 donors instead of 5" in found.warnings
    assert found.scoring_version == SCORING_VERSION


def test_the_driving_profile_decides_tier_and_mechanism() -> None:
    bare = run(edit("q.py", "1", "2"), name="bare")
    paper = list(assess_problem(passing(bare)))[-1]
    tuned = list(assess_problem(passing(bare), ScoringSettings(profile="tuned")))[-1]
    assert (paper.profile, tuned.profile) == ("paper", "tuned")
    assert paper.scores["paper"].score == tuned.scores["paper"].score
    assert tuned.tier is tuned.scores["tuned"].tier is Tier.LUCKY
    assert tuned.mechanism is not None
    unreferenced = list(assess_problem(passing(bare), ScoringSettings(profile="unreferenced")))[-1]
    assert unreferenced.score == unreferenced.scores["unreferenced"].score


def test_a_log_that_cannot_feed_a_signal_is_named_in_the_warnings() -> None:
    blind = dataclasses.replace(
        trajectory(*ROUTES[0], name="blind", outcome="failed"), blind_signals=("line ranges",)
    )
    found = list(assess_problem(passing(prepare(blind))))[-1]
    assert "this log's format has no line ranges" in found.warnings


def test_a_good_process_with_a_fix_elsewhere_is_marked_as_a_c5_candidate() -> None:
    elsewhere = run(view("a.py"), view("b.py"), edit("new.py", "1", "2"), shell("pytest t"), name="elsewhere")
    found = list(assess_problem(passing(elsewhere)))[-1]
    assert found.scores["tuned"].signals["edit"] == 0.0
    assert found.warnings[-1] == (
        "little edit agreement with a good process: a divergent but valid fix (C5) is likely"
    )


def test_a_reference_of_as_many_donors_as_asked_for_is_not_small() -> None:
    mine = run(view("a.py"), name="mine", outcome="failed")
    found = list(assess_problem(passing(run(view("e.py"), edit("e.py"), name="donor-4"), mine)))[-1]
    assert found.reference is not None
    assert found.reference.k == 5
    assert found.warnings == ()


def test_what_no_donor_looked_at_is_charged_as_exploration() -> None:
    looks = (view("q.py"), view("r.py"))
    mine = run(edit("a.py", "x", "y"), shell("pytest t"), *looks, name="mine", outcome="failed")
    found = list(assess_problem(passing(mine)))[-1]
    assert (found.trajectory_id, found.path) == ("mine", "runs/mine.json")
    assert [(f.category, f.steps) for f in found.waste.findings] == [("unnecessary_exploration", (2, 3))]


def test_an_unlabelled_trajectory_is_refused_with_the_step() -> None:
    state = dataclasses.replace(view("a.py"), intent=None)
    with pytest.raises(ValueError, match="state 1 has no intent: label the trajectory"):
        prepare(trajectory(view("a.py"), state))


def test_the_evidence_says_how_each_signal_came_about() -> None:
    near = run(view("a.py"), edit("a.py", "x", "y"), shell("pytest t"), name="near")
    far = run(view("a.py"), edit("b.py", "p", "q"), shell("pytest t"), name="far")
    mine = run(view("a.py"), edit("a.py", "x", "y"), shell("tox"), name="mine", outcome="failed")
    found = list(assess_problem([near, far, mine]))[-1]
    thirds = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    # two checks of one group with the same flags only: 0.75; 1 + 1 + 0.75 of 3 steps
    # the tree: the view, two edits and two checks; all but the other edit are matched
    temp = found.evidence["temp"]
    assert {name: value.tolist() for name, value in temp.items()} == {"run": thirds, "reference": thirds}  # type: ignore[attr-defined]
    assert {name: value for name, value in found.evidence.items() if name != "temp"} == {
        "struct": {"donor": "near", "ordered_recall": pytest.approx(2.75 / 3), "unordered_precision": 1.0},
        "cov": {"matched_nodes": 4, "nodes": 5},
        "coh": {"forward": 2, "backward": 0, "blind_retries": 0, "verified": 1.0},
        "edit": {"lines_changed": 1},
    }
    assert found.scores["tuned"].signals == {
        "struct": pytest.approx(200 * (2.75 / 3) / (2.75 / 3 + 1)),
        "cov": 80.0,
        "edit": 100.0,
        "coh": 1.0,
        "temp": 1.0,
    }
    assert found.matched == ((0, 0), (1, found.matched[1][1]), (2, found.matched[2][1]))
    assert found.reference is not None
    assert (found.reference.k, found.reference.nodes, found.reference.match_threshold) == (2, 5, 0.70)


def test_of_equally_near_donors_the_first_of_the_reference_is_named() -> None:
    found = list(assess_problem(passing(run(view("q.py"), name="mine", outcome="failed"))))[-1]
    assert found.scores["paper"].signals["struct"] == 0.0
    assert found.reference is not None
    assert found.evidence["struct"]["donor"] == found.reference.donors[0]  # type: ignore[index]


def test_tokens_are_added_over_the_states_that_have_them() -> None:
    mine = run(view("a.py", tokens_in=10, tokens_out=2), view("b.py"), name="mine", outcome="failed")
    assert list(assess_problem(passing(mine)))[-1].tokens == 12
    assert next(assess_problem(passing())).tokens is None
