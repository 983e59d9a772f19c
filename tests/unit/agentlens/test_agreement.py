"""κ, majorities and the confusion with the labeler."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agentlens.agreement import CATEGORIES, cohen_kappa, fleiss_kappa, study
from workers.agentlens.trajectory import Intent

E, I, V, O = CATEGORIES  # noqa: E741

# J. L. Fleiss (1971), Table 1: 30 patients, 6 psychiatrists each; depression, personality disorder,
# schizophrenia, neurosis, other. One character is one count.
FLEISS_1971 = (
    "00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031 "
    "00501 30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006"
)


def intents(letters: str) -> list[Intent]:
    return [Intent(letter) for letter in letters]


def test_fleiss_kappa_of_the_psychiatric_diagnoses_is_the_published_0_430() -> None:
    counts = np.array([[float(count) for count in row] for row in FLEISS_1971.split()])
    # The paper's margins: 26, 26, 30, 55 and 43 of 180 ratings, P̄ = 0.556, P̄e = 0.220.
    assert counts.sum(axis=0).tolist() == [26, 26, 30, 55, 43]
    assert float(fleiss_kappa(counts)) == pytest.approx(0.430, abs=0.0005)


def test_fleiss_kappa_of_two_raters_and_four_items_by_hand() -> None:
    # EE EE II EI: P̄ = 3/4; shares E 5/8, I 3/8: P̄e = 34/64; κ = (48 − 34) / (64 − 34) = 14/30.
    counts = np.array([[2.0, 0], [2, 0], [0, 2], [1, 1]])
    assert float(fleiss_kappa(counts)) == pytest.approx(14 / 30)


def test_cohen_kappa_of_fifty_items_by_hand() -> None:
    # 20 both 0, 15 both 1, 5 and 10 apart: same 0.7; chance 25/50·30/50 + 25/50·20/50 = 0.5; κ = 0.4.
    one = np.array([0] * 25 + [1] * 25)
    other = np.array([0] * 20 + [1] * 5 + [0] * 10 + [1] * 15)
    assert float(cohen_kappa(one, other)) == pytest.approx(0.4)


def test_kappa_is_undefined_where_only_one_category_was_used() -> None:
    assert math.isnan(float(fleiss_kappa(np.array([[2.0, 0], [2, 0]]))))
    assert math.isnan(float(cohen_kappa(np.array([1, 1]), np.array([1, 1]))))


@pytest.mark.parametrize("counts", [[[2.0, 0], [2, 1]], [[1.0, 0], [0, 1]]])
def test_fleiss_kappa_needs_the_same_number_of_raters_for_each_item_and_two(
    counts: list[list[float]],
) -> None:
    with pytest.raises(ValueError, match="same number of ratings, at least 2"):
        fleiss_kappa(np.array(counts))


def test_cohen_kappa_needs_the_same_items() -> None:
    with pytest.raises(ValueError, match="same items"):
        cohen_kappa(np.array([0, 1]), np.array([0]))


codes = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=12)


@given(codes, st.data())
def test_a_weight_counts_as_that_many_copies(rated: list[tuple[int, int, int]], data: st.DataObject) -> None:
    times = data.draw(st.lists(st.integers(1, 3), min_size=len(rated), max_size=len(rated)))
    ratings = np.array(rated)
    counts = np.eye(4)[ratings].sum(axis=1)
    copies, weights = np.repeat(np.arange(len(rated)), times), np.array(times, dtype=float)
    weighted, repeated = fleiss_kappa(counts, weights), fleiss_kappa(counts[copies])
    assert weighted == pytest.approx(repeated, nan_ok=True)
    weighted = cohen_kappa(ratings[:, 0], ratings[:, 1], weights)
    repeated = cohen_kappa(ratings[copies, 0], ratings[copies, 1])
    assert weighted == pytest.approx(repeated, nan_ok=True)


@given(codes, st.permutations(range(4)))
def test_kappa_is_at_most_1_and_blind_to_the_names_of_categories(
    rated: list[tuple[int, int, int]], names: list[int]
) -> None:
    counts = np.eye(4)[np.array(rated)].sum(axis=1)
    kappa = float(fleiss_kappa(counts))
    assert math.isnan(kappa) or kappa <= 1.0
    assert kappa == pytest.approx(float(fleiss_kappa(counts[:, names])), nan_ok=True)


def test_a_study_by_hand() -> None:
    # Steps:      0 1 2 3 4 5   majority E E I V - O
    ratings = [intents("EEIVEO"), intents("EEIVIO"), intents("EIIVVO")]
    labels = intents("EEVVIO")
    found = study(["a", "b", "c"], ratings, labels, runs=range(6))
    assert found.majorities == (E, E, I, V, None, O)
    assert found.undecided == 1
    assert found.disputes == (2, 4)  # I against V, and no majority
    # Rows majority, columns labeler: the I that the labeler calls V is in row I, column V.
    assert found.confusion == ((2, 0, 0, 0), (0, 0, 1, 0), (0, 0, 1, 0), (0, 0, 0, 1))
    of = dict(zip(CATEGORIES, found.classes, strict=True))
    assert (of[V].precision, of[V].recall, of[V].rated, of[V].labeled) == (0.5, 1.0, 1, 2)
    assert math.isnan(of[I].precision)
    assert (of[I].recall, of[I].rated, of[I].labeled) == (0.0, 1, 0)
    # a and the labeler: equal in 0, 1, 3, 5: 4/6; shares a E3 I1 V1 O1, labeler E2 V2 I1 O1: chance
    # (3·2 + 1·1 + 1·2 + 1·1)/36 = 10/36; κ = (24 − 10) / (36 − 10) = 14/26.
    assert found.by_rater[0].raw == pytest.approx(4 / 6)
    assert found.by_rater[0].kappa.value == pytest.approx(14 / 26)
    # Majority over the five decided steps: 4/5; shares E2 I1 V1 O1 against E2 V2 O1: (4 + 2 + 1)/25 = 7/25.
    assert found.majority is not None
    assert found.majority.steps == 5
    assert found.majority.kappa.value == pytest.approx((20 - 7) / (25 - 7))
    # Pairs of raters that agree: 3, 1, 3, 3, 0, 3 of 3 each.
    assert found.among is not None
    assert found.among.raw == pytest.approx(13 / 18)
    # With the labeler as the fourth: 6, 3, 3, 6, 1, 6 of 6 each.
    assert found.everyone.raw == pytest.approx(25 / 36)


def test_one_rater_has_nobody_to_agree_with() -> None:
    found = study(["a"], [intents("EIVO")], intents("EIVO"), runs=range(4))
    assert found.among is None
    assert found.by_rater[0].kappa.value == 1.0
    assert found.disputes == ()


def test_raters_who_never_agree_leave_no_majority() -> None:
    found = study(["a", "b"], [intents("EI"), intents("IE")], intents("EE"), runs=range(2))
    assert found.majority is None
    assert found.undecided == 2
    assert sum(map(sum, found.confusion)) == 0


def test_the_interval_resamples_runs_not_steps() -> None:
    ratings, labels = [intents("EIVOEIVO")], intents("EIVOIIVO")
    of_one_run = study(["a"], ratings, labels, runs=["r"] * 8).by_rater[0].kappa
    assert of_one_run.low == of_one_run.value == of_one_run.high
    of_eight = study(["a"], ratings, labels, runs=range(8)).by_rater[0].kappa
    assert of_eight.low < of_eight.value < of_eight.high


def test_the_interval_is_the_same_for_the_same_seed() -> None:
    given_ = ["a"], [intents("EIVOEIVO")], intents("EIVOIIVE"), range(8)
    assert study(*given_, seed=3) == study(*given_, seed=3)
    assert study(*given_, seed=3) != study(*given_, seed=4)


@pytest.mark.parametrize(
    ("raters", "ratings", "labels"), [(["a"], ["EI"], "E"), (["a", "b"], ["E"], "E"), (["a"], [""], "")]
)
def test_what_cannot_be_compared_is_refused(raters: list[str], ratings: list[str], labels: str) -> None:
    with pytest.raises(ValueError, match="must"):
        study(raters, [intents(column) for column in ratings], intents(labels), runs=range(len(labels)))


def test_a_study_counts_its_steps_and_says_which_ratings_are_missing() -> None:
    labels = intents("EIV")
    found = study(["a", "b"], [intents("EIV"), intents("EII")], labels, runs=range(3))
    assert found.among is not None
    assert (found.among.steps, found.everyone.steps, found.by_rater[0].steps) == (3, 3, 3)
    with pytest.raises(ValueError, match=r"^every rater must have rated every step$"):
        study(["a"], [intents("EI")], labels, runs=range(3))
    with pytest.raises(ValueError, match=r"^there must be at least 1 step, and ratings for each rater$"):
        study([], [], labels, runs=range(3))
