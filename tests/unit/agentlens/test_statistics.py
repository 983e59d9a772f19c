import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from workers.agentlens import statistics


def numbers(values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(values, dtype=float)


def flags(letters: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([letter == "p" for letter in letters])


def groups(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.array(values, dtype=np.intp)


def test_auroc_pooled_and_within_derived_by_hand() -> None:
    # problem 0: passes 3, 1, fail 2 → 1 of 2 pairs; problem 1: pass 5, fail 5 → a tie, ½ of 1 pair
    scores, passed, problems = numbers([3, 1, 2, 5, 5]), flags("ppfpf"), groups([0, 0, 0, 1, 1])
    found = statistics.discrimination(scores, passed, problems, seed=0)
    assert found is not None
    assert found.within.value == pytest.approx((0.5 + 0.5) / 2)
    # pooled pairs: 3>2, 1<2, 5>2 and 3<5, 1<5, 5=5 → (1 + 0 + 1 + 0 + 0 + ½) of 6
    assert found.pooled.value == pytest.approx(2.5 / 6)
    assert found.problems == 2


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 3)), min_size=2, max_size=40))
def test_pooled_auroc_is_the_mann_whitney_statistic(rows: list[tuple[int, bool, int]]) -> None:
    scores, passed = numbers([r[0] for r in rows]), np.array([r[1] for r in rows])
    found = statistics.discrimination(scores, passed, groups([r[2] for r in rows]), seed=0)
    if passed.all() or not passed.any():
        assert found is None
        return
    u = stats.mannwhitneyu(scores[passed], scores[~passed])
    assert found is not None
    assert found.pooled.value == pytest.approx(u.statistic / (passed.sum() * (~passed).sum()))
    assert found.p == pytest.approx(u.pvalue)


def test_intervals_resample_problems_and_hold_the_value() -> None:
    rng = np.random.default_rng(1)
    passed = rng.random(200) < 0.5
    scores = rng.normal(size=200) + passed
    found = statistics.discrimination(scores, passed, groups([n % 10 for n in range(200)]), seed=0)
    again = statistics.discrimination(scores, passed, groups([n % 10 for n in range(200)]), seed=0)
    assert found == again
    assert found is not None
    assert found.pooled.low < found.pooled.value < found.pooled.high
    assert found.within.low < found.within.value < found.within.high


def test_one_problem_has_no_spread_over_problems() -> None:
    found = statistics.discrimination(numbers([1, 2, 3]), flags("fpp"), groups([0, 0, 0]), seed=0)
    assert found is not None
    assert (found.pooled.low, found.pooled.high) == (1.0, 1.0)


def test_without_a_problem_of_both_outcomes_there_is_no_within() -> None:
    found = statistics.discrimination(numbers([1, 2]), flags("fp"), groups([0, 1]), seed=0)
    assert found is not None
    assert math.isnan(found.within.value)
    assert found.pooled.value == 1.0


def test_a_score_that_is_better_everywhere_gains_with_a_lower_end_above_zero() -> None:
    passed, problems = flags("pf" * 12), groups([n // 2 for n in range(24)])
    good = numbers([1, 0] * 12)
    bad = numbers([0, 1] * 4 + [1, 0] * 8)
    pooled, within = statistics.paired_difference(good, bad, passed, problems, seed=0)
    # within: 4 of 12 problems ordered wrongly
    assert within.value == pytest.approx(4 / 12)
    assert within.low > 0
    assert pooled.low > 0


def test_youdens_threshold_is_the_lowest_best_score() -> None:
    # ≥ 3 keeps both passes and drops 2 of 3 fails: J = 1 − 1/3; nothing is better
    assert statistics.youden(numbers([1, 2, 3, 4, 5]), flags("fffpp")) == 4
    assert statistics.youden(numbers([1, 2, 3, 4, 4]), flags("ffpfp")) == 3


def test_equal_scores_are_never_split_by_a_threshold() -> None:
    # at 2: no fail below, 1 of 3 passes below; at 3: both fails below, 2 of 3 passes below: J = 1 − 2/3.
    # A cut between the equal scores would look better (1 − 1/3) and cannot exist.
    assert statistics.youden(numbers([1, 2, 2, 2, 3]), flags("pffpp")) == 3


def test_a_threshold_is_judged_on_problems_it_has_not_seen() -> None:
    # Without problem 1 the threshold is 10, without problem 0 it is 2: each fits the other problem badly.
    scores, passed, problems = numbers([1, 10, 1, 2]), flags("fpfp"), groups([0, 0, 1, 1])
    found = statistics.held_out_classification(scores, passed, problems)
    assert found is not None
    # problem 0 at 2: both right; problem 1 at 10: the pass is missed
    assert found.accuracy == 0.75
    assert found.f1 == pytest.approx(2 * 1 / (1 + 2))
    assert found.threshold == 2


def test_each_problem_is_judged_by_all_the_others_and_not_by_one() -> None:
    # the others say 2 for every problem, also for the last, whose own runs would say 10 for them
    scores, passed, problems = numbers([1, 2, 1, 2, 1, 10]), flags("fpfpfp"), groups([0, 0, 1, 1, 2, 2])
    found = statistics.held_out_classification(scores, passed, problems)
    assert found == statistics.Classification(accuracy=1.0, f1=1.0, threshold=2.0)


def test_one_problem_leaves_nothing_to_hold_out() -> None:
    assert statistics.held_out_classification(numbers([1, 2]), flags("fp"), groups([0, 0])) is None


def test_a_contingency_table_gives_chi2_and_cramers_v_by_hand() -> None:
    # expected 10 in each cell, deviations 5: χ² = 4·25/10 = 10, V = √(10/40)
    found = statistics.association([[15, 5], [5, 15]])
    assert found is not None
    assert (found.chi2, found.degrees_of_freedom) == (pytest.approx(10.0), 1)
    assert found.cramers_v == pytest.approx(0.5)


def test_empty_rows_and_columns_of_a_table_are_left_out() -> None:
    found = statistics.association([[15, 0, 5], [0, 0, 0], [5, 0, 15]])
    assert found is not None
    assert found.degrees_of_freedom == 1
    assert statistics.association([[3, 4], [0, 0]]) is None
    assert statistics.association([]) is None


def test_the_kolmogorov_smirnov_distance_is_the_largest_gap() -> None:
    # below 3 lie all fails and half of the passes
    found = statistics.kolmogorov_smirnov(numbers([1, 2, 2, 5]), flags("ffpp"))
    assert found is not None
    assert found[0] == pytest.approx(0.5)
    assert statistics.kolmogorov_smirnov(numbers([1, 2]), flags("pp")) is None


def test_rank_correlations_are_none_for_constant_columns() -> None:
    table = statistics.spearman([numbers([1, 2, 3]), numbers([30, 20, 10]), numbers([7, 7, 7])])
    assert table[0][:2] == [pytest.approx(1.0), pytest.approx(-1.0)]
    assert table[0][2] is None


def test_runs_without_a_problem_are_clusters_of_their_own() -> None:
    assert statistics.clusters(groups([5, -1, 2, 5, -1])).tolist() == [1, 2, 0, 1, 3]
    assert statistics.clusters(groups([-1, -1])).tolist() == [0, 1]
    assert statistics.clusters(groups([])).tolist() == []


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(-1, 3)), min_size=1, max_size=20),
    st.integers(0, 9),
)
def test_a_weighted_auroc_is_that_of_the_runs_taken_so_often(
    rows: list[tuple[int, bool, int]], seed: int
) -> None:
    scores, passed = numbers([r[0] for r in rows]), np.array([r[1] for r in rows])
    problems = groups([r[2] for r in rows])
    members = statistics.clusters(problems)
    counts = statistics.pair_counts(scores, passed, problems)
    (weights,) = statistics.resamples(len(counts.passes), seed=seed, draws=3)
    for weight, pooled, within in zip(weights, counts.pooled(weights), counts.within(weights), strict=True):
        pairs = [
            (
                weight[members[i]] * weight[members[j]],
                (a > b) + (a == b) / 2,
                members[i] == members[j],
                members[i],
            )
            for i, a in enumerate(scores)
            for j, b in enumerate(scores)
            if passed[i] and not passed[j]
        ]
        total = sum(pair[0] for pair in pairs)
        expected = sum(pair[0] * pair[1] for pair in pairs) / total if total else math.nan
        assert pooled == pytest.approx(expected, nan_ok=True)
        each = {c: [pair[1] for pair in pairs if pair[2] and pair[3] == c] for c in set(members.tolist())}
        shares = [(weight[c], sum(right) / len(right)) for c, right in each.items() if right and weight[c]]
        mean = sum(w * s for w, s in shares) / sum(w for w, _ in shares) if shares else math.nan
        assert within == pytest.approx(mean, nan_ok=True)


def test_the_parts_of_a_bootstrap_change_no_number() -> None:
    whole = np.concatenate(list(statistics.resamples(7, seed=3)))
    parts = list(statistics.resamples(7, seed=3, width=30_000))
    assert len(parts) > 100
    assert (np.concatenate(parts) == whole).all()
    assert whole.shape == (statistics.BOOTSTRAPS, 7)
    assert (whole.sum(axis=1) == 7).all()


def test_of_many_problems_some_are_held_out_together() -> None:
    # Every problem has its pass above its fail, and all agree on the threshold: nothing is misjudged.
    found = statistics.held_out_classification(
        numbers([0, 1] * 300), flags("fp" * 300), groups([n // 2 for n in range(600)])
    )
    assert found == statistics.Classification(accuracy=1.0, f1=1.0, threshold=1.0)
