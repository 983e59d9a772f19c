import dataclasses
import math
import random

import pytest

from tests.unit.agentlens.steps import edit, run, shell, trajectory, view
from workers.agentlens import cohort
from workers.agentlens.assess import assess_problem
from workers.agentlens.cohort import Row
from workers.agentlens.mechanisms import Mechanism
from workers.agentlens.report import as_json
from workers.agentlens.tier import Tier
from workers.agentlens.trajectory import RunOutcome

TIERS = {"I": Tier.IDEAL, "S": Tier.SOLID, "L": Tier.LUCKY, "P": Tier.PARTIAL_FAILURE, "O": Tier.OFF_TRACK}


def row(model: str, problem: str | None, score: float, tier: str, **more: object) -> Row:
    outcome: RunOutcome = "passed" if tier in "ISL" else "failed"
    base = Row(
        problem=problem,
        model=model,
        outcome=outcome,
        steps=10,
        profile="paper",
        scores={"paper": score, "tuned": score / 2},
        tiers={"paper": TIERS[tier], "tuned": TIERS[tier]},
        signals={"struct": score, "coh": 100 - score},
        mechanism=None,
        severity=0.0,
        wasted={},
        is_verified=True,
        tokens=None,
        cost_usd=None,
    )
    return dataclasses.replace(base, **more)  # type: ignore[arg-type]


ROWS = [
    row("alpha", "p1", 80, "I", tokens=100, cost_usd=1.0),
    row("alpha", "p2", 40, "L", mechanism=Mechanism.BRUTE_FORCE, wasted={"blind_retry": 4}, severity=0.4),
    row("alpha", "p1", 60, "S", tokens=300),
    row("beta", "p1", 90, "I", is_verified=False),
    row("beta", "p2", 70, "P"),
    row("beta", "p1", 20, "O", wasted={"blind_retry": 2}),
]


def test_models_are_ranked_by_pass_rate_and_by_quality() -> None:
    alpha, beta = cohort.models(ROWS, seed=0)
    assert (alpha["model"], alpha["passed"], alpha["pass_rate"]) == ("alpha", 3, 1.0)
    assert (beta["model"], beta["pass_rate"]) == ("beta", pytest.approx(1 / 3))
    # mean score: alpha (80 + 40 + 60)/3 = 60, beta (90 + 70 + 20)/3 = 60: a tie, both first by quality
    assert alpha["quality"]["value"] == beta["quality"]["value"] == pytest.approx(60.0)  # type: ignore[index]
    assert (beta["rank_by_pass_rate"], beta["rank_by_quality"], beta["shift"]) == (2, 1, 1)
    assert alpha["lucky_rate"] == pytest.approx(1 / 3)
    assert beta["quality_of_passes"] == 90.0


def test_tiers_are_counted_side_by_side_for_each_profile() -> None:
    tiers = cohort.summarise(ROWS)["tiers"]
    expected = {"ideal": 2, "solid": 1, "lucky": 1, "partial_failure": 1, "off_track": 1}
    assert tiers == {"paper": expected, "tuned": expected}


def test_waste_is_prevalence_and_mean_steps_among_those_that_show_it() -> None:
    waste = cohort.summarise(ROWS)["waste"]
    passed = waste["passed"]["categories"]["blind_retry"]  # type: ignore[index]
    assert passed == {"prevalence": pytest.approx(1 / 4), "steps": 4.0}
    # alpha's 40 wasted 0.4 of its steps, the other three passes nothing
    assert waste["passed"]["mean_severity"] == pytest.approx(0.1)  # type: ignore[index]
    one = cohort.summarise([row("alpha", "p", 80, "I", wasted={"cyclic_pattern": 1})])["waste"]
    assert one["ideal"]["categories"]["cyclic_pattern"] == {"prevalence": 1.0, "steps": 1.0}  # type: ignore[index]
    assert waste["failed"]["categories"]["cyclic_pattern"] == {"prevalence": 0.0, "steps": None}  # type: ignore[index]


def test_cost_is_averaged_over_the_runs_that_know_it() -> None:
    cost = cohort.summarise(ROWS)["cost"]
    assert cost["by_tier"]["ideal"] == {"runs": 2, "mean_tokens": 100.0, "mean_cost_usd": 1.0}  # type: ignore[index]
    assert cost["by_mechanism"]["C2"] == {"runs": 1, "mean_tokens": None, "mean_cost_usd": None}  # type: ignore[index]


def test_the_riskiest_model_comes_first() -> None:
    first, second = cohort.summarise(ROWS)["deployment_risk"]  # type: ignore[misc]
    # beta: its only pass is unverified, 1; alpha: 1/3 lucky and 1/3 with blind retries
    assert (first["model"], first["unverified_patches"], first["lucky"]) == ("beta", 1.0, 0.0)
    assert (second["model"], second["lucky"], second["blind_retries"]) == (
        "alpha",
        pytest.approx(1 / 3),
        pytest.approx(1 / 3),
    )


def test_mechanisms_are_counted_by_model_and_tested() -> None:
    lucky = [row("alpha", "p1", 10, "L", mechanism=Mechanism.BRUTE_FORCE) for _ in range(15)] + [
        row("beta", "p1", 10, "L", mechanism=Mechanism.INCOMPLETE) for _ in range(15)
    ]
    found = cohort.summarise(lucky)["mechanisms"]
    assert found["lucky"] == 30  # type: ignore[index]
    assert found["counts"] == {"C1": 0, "C2": 15, "C3": 15, "C4": 0, "C5": 0}  # type: ignore[index]
    assert found["by_model"] == {  # type: ignore[index]
        "alpha": {"C1": 0, "C2": 15, "C3": 0, "C4": 0, "C5": 0},
        "beta": {"C1": 0, "C2": 0, "C3": 15, "C4": 0, "C5": 0},
    }
    assert found["association"]["cramers_v"] == pytest.approx(1.0)  # type: ignore[index]


def test_the_summary_says_that_it_does_not_replace_correctness_checks() -> None:
    summary = cohort.summarise(ROWS)
    assert "does not replace" in str(summary["caution"])
    assert summary["outcomes"] == {"failed": 2, "passed": 4}


def test_discrimination_is_given_for_both_profiles_and_their_difference() -> None:
    found = cohort.summarise(ROWS)["discrimination"]
    # pairs: 80, 40, 60, 90 against 70, 20 → (2 + 1 + 1 + 2)/8
    assert found["paper"]["auroc"]["pooled"]["value"] == pytest.approx(6 / 8)  # type: ignore[index]
    assert found["tuned_minus_paper"]["pooled"]["value"] == 0.0  # type: ignore[index]
    # up to 20 lie one of two fails and no pass, up to 70 both fails and two of four passes: the gap is ½
    assert found["paper"]["kolmogorov_smirnov"]["statistic"] == pytest.approx(0.5)  # type: ignore[index]
    assert 0.0 < found["paper"]["kolmogorov_smirnov"]["p"] <= 1.0  # type: ignore[index]


def test_signals_are_told_apart_and_compared_with_each_other() -> None:
    found = cohort.summarise(ROWS)["signals"]
    # struct is the score, coh 100 minus it: 6 of 8 pairs right, and 2 of 8
    assert found["auroc"]["struct"]["pooled"]["value"] == pytest.approx(6 / 8)  # type: ignore[index]
    assert found["auroc"]["coh"]["pooled"]["value"] == pytest.approx(2 / 8)  # type: ignore[index]
    assert found["spearman"]["names"] == ["coh", "struct"]  # type: ignore[index]
    assert found["spearman"]["rho"] == [  # type: ignore[index]
        [pytest.approx(1.0), pytest.approx(-1.0)],
        [pytest.approx(-1.0), pytest.approx(1.0)],
    ]


def test_one_seed_gives_the_same_intervals_everywhere() -> None:
    rng = random.Random(5)
    rows = [row("alpha", f"p{n % 20}", rng.uniform(0, 100), "IP"[n // 20 % 2]) for n in range(80)]
    assert as_json(cohort.summarise(rows, seed=1)) == as_json(cohort.summarise(rows, seed=1))
    for part in ("discrimination", "signals", "models"):
        other = cohort.summarise(rows, seed=2)
        assert as_json({part: cohort.summarise(rows, seed=1)[part]}) != as_json({part: other[part]})


def test_the_order_of_rows_changes_nothing() -> None:
    shuffled = random.Random(3).sample(ROWS, len(ROWS))
    assert as_json(cohort.summarise(shuffled)) == as_json(cohort.summarise(ROWS))


@pytest.mark.parametrize(
    "rows", [[], ROWS[:1], [dataclasses.replace(ROWS[0], outcome="unknown", tiers={"paper": None})]]
)
def test_small_cohorts_are_summarised_without_tests(rows: list[Row]) -> None:
    summary = cohort.summarise(rows)
    assert summary["runs"] == len(rows)


def test_a_cohort_is_scored_problem_by_problem_and_nameless_runs_alone() -> None:
    routes = [(view("a.py"), edit("a.py", "x", str(n)), shell(f"pytest {n}")) for n in range(3)]
    mixed = [
        trajectory(*route, name=f"{problem}-{n}", problem=problem)
        for problem in ("q", "p", None)
        for n, route in enumerate(routes)
    ]
    assessments, summary = cohort.assess_cohort(mixed)
    assert [a.trajectory_id for a in assessments] == [
        *(f"p-{n}" for n in range(3)),
        *(f"q-{n}" for n in range(3)),
        *(f"None-{n}" for n in range(3)),
    ]
    assert [a.profile for a in assessments] == ["paper"] * 6 + ["unreferenced"] * 3
    assert all(d.startswith("p-") for d in assessments[0].reference.donors)  # type: ignore[union-attr]
    assert summary["runs"] == 9


def test_a_row_keeps_what_the_tables_need() -> None:
    donors = [
        run(view("a.py"), edit("a.py", "x", str(n)), shell(f"pytest {n}"), name=str(n)) for n in range(3)
    ]
    retry = shell("pytest t", outcome="error", seen="E")
    first = edit("a.py", "x", "q", tokens_in=5, tokens_out=2)
    mine = run(first, retry, retry, model="m", name="mine", outcome="failed")
    kept = cohort.row(list(assess_problem([*donors, mine]))[-1])
    assert (kept.model, kept.problem, kept.outcome, kept.steps) == ("m", "problem", "failed", 3)
    assert kept.wasted == {"blind_retry": 1}
    assert kept.severity == pytest.approx(1 / 3)
    assert kept.is_verified is True
    assert set(kept.signals) == {"struct", "cov", "coh", "temp", "edit"}
    assert 1.0 < kept.signals["temp"] <= 100.0
    told = list(assess_problem([*donors, mine]))[-1]
    in_percent = told.scores["tuned"].signals
    assert {name: kept.signals[name] for name in ("struct", "cov", "edit")} == {
        name: in_percent[name] for name in ("struct", "cov", "edit")
    }
    assert kept.signals["temp"] == 100.0 * in_percent["temp"]
    assert (kept.tokens, kept.cost_usd) == (7, None)
    assert cohort.row(list(assess_problem([*donors, run(view("a.py"))]))[-1]).is_verified is None


def test_runs_without_a_problem_are_no_problem() -> None:
    # Were they one problem, 90 and 10 would be a pass and a fail within it.
    nameless = [row("gamma", None, 10, "L"), row("gamma", None, 90, "P")]
    found = cohort.summarise([*ROWS, *nameless])
    assert (found["runs"], found["problems"], found["runs_without_problem"]) == (8, 2, 2)
    paper = found["discrimination"]["paper"]["auroc"]  # type: ignore[index]
    # p1: 80, 60, 90 against 20 → 1; p2: 40 against 70 → 0; mean ½
    assert (paper["problems"], paper["within"]["value"]) == (2, 0.5)
    assert cohort.summarise(ROWS)["discrimination"]["paper"]["auroc"]["within"] == paper["within"]  # type: ignore[index]
    # pooled takes them in: 80, 40, 60, 90, 10 against 70, 20, 90 → (2 + 1 + 1 + 2½ + 0)/15
    assert paper["pooled"]["value"] == pytest.approx(6.5 / 15)


def test_a_cohort_without_problems_has_no_within_and_intervals_over_runs() -> None:
    rows = [row("gamma", None, score, tier) for score, tier in ((80, "I"), (60, "S"), (40, "P"), (20, "O"))]
    found = cohort.summarise(rows)
    measured = found["discrimination"]["paper"]["auroc"]  # type: ignore[index]
    assert (found["problems"], measured["problems"]) == (0, 0)
    assert math.isnan(measured["within"]["value"])
    assert measured["pooled"]["value"] == 1.0
    quality = found["models"][0]["quality"]  # type: ignore[index]
    assert quality["low"] < quality["value"] == 50.0 < quality["high"]


def test_copies_are_assessed_and_not_counted() -> None:
    routes = [(view("a.py"), edit("a.py", "x", str(n)), shell(f"pytest {n}", seen="ok")) for n in range(3)]
    runs = [trajectory(*route, name=str(n)) for n, route in enumerate(routes)]
    again = dataclasses.replace(runs[1], trajectory_id="1 again", path="runs/1 again.json")
    assessments, summary = cohort.assess_cohort([*runs, again])
    assert summary == {
        **cohort.assess_cohort(runs)[1],
        "duplicates": [
            {
                "path": "runs/1 again.json",
                "trajectory_id": "1 again",
                "of": {"path": "runs/1.json", "trajectory_id": "1"},
            }
        ],
    }
    assert [a.trajectory_id for a in assessments] == ["0", "1", "2", "1 again"]
    assert assessments[3].scores == assessments[1].scores
