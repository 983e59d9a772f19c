import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.agentlens.steps import intents
from workers.agentlens.signals.coherence import coherence
from workers.agentlens.signals.coverage import coverage
from workers.agentlens.signals.edit_agreement import edit_agreement
from workers.agentlens.signals.structure import Candidate, align
from workers.agentlens.signals.temporal import Profile, profile, temporal

LETTERS = st.text(alphabet="EIVO", max_size=30)


def test_a_straight_run_is_fully_coherent() -> None:
    assert coherence(intents("EEIIVV"), blind_retries=0).value == 1.0


def test_each_step_back_costs_its_share_of_the_moves() -> None:
    # E→I, I→V, V→I, I→V: 3 forward, 1 backward
    measured = coherence(intents("EIVIV"), blind_retries=0)
    assert (measured.forward, measured.backward) == (3, 1)
    assert measured.value == pytest.approx(3 / 4)


def test_staying_in_a_stage_is_no_move_either_way() -> None:
    # E→E none, E→I forward, I→V forward, V→V none, V→I backward; E first ½, no V last
    measured = coherence(intents("EEIVVI"), blind_retries=0)
    assert (measured.forward, measured.backward, measured.verified, measured.blind_retries) == (2, 1, 0.5, 0)
    assert measured.value == pytest.approx(2 / 3 * 0.5)


def test_looking_after_the_first_edit_is_not_looking_first() -> None:
    # I→E backward, E→V forward: flow ½; no E before the I, a V after it: ½
    measured = coherence(intents("IEV"), blind_retries=1)
    assert (measured.verified, measured.blind_retries) == (0.5, 1)
    assert measured.value == pytest.approx(1 / 2 * 2 / 3 * 0.5)


def test_leaving_a_thought_is_no_step_back() -> None:
    assert coherence(intents("OEOIOVO"), blind_retries=0).value == 1.0


def test_blind_retries_cost_their_share_of_all_states() -> None:
    # 2 retries of 8 states, O included
    assert coherence(intents("EEIVVVOO"), blind_retries=2).value == pytest.approx(0.75)


def test_half_the_verified_factor_each_for_looking_first_and_checking_last() -> None:
    assert coherence(intents("EI"), blind_retries=0).value == pytest.approx(0.5)
    assert coherence(intents("IV"), blind_retries=0).value == pytest.approx(0.5)
    # a check before the last edit only: E first ½, flow 2/3
    assert coherence(intents("EIVI"), blind_retries=0).value == pytest.approx(2 / 3 * 0.5)


@pytest.mark.parametrize("letters", ["", "EEE", "EVEV", "OOO", "III"])
def test_no_edit_or_no_move_gives_zero(letters: str) -> None:
    assert coherence(intents(letters), blind_retries=0).value == 0.0


@given(LETTERS, st.data())
def test_coherence_lies_between_zero_and_one(letters: str, data: st.DataObject) -> None:
    retries = data.draw(st.integers(0, len(letters)))
    assert 0.0 <= coherence(intents(letters), blind_retries=retries).value <= 1.0


def test_states_are_split_over_thirds_in_proportion() -> None:
    # 2 states: the first covers 0 to ½, so the first third whole and half of the middle one
    expected = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 1, 0, 0]])
    assert profile(intents("EI")) == pytest.approx(expected)
    # one state fills all thirds
    assert profile(intents("V"))[:, 2].tolist() == [1.0, 1.0, 1.0]


def against(candidate: Profile, donors: Profile) -> float:
    (value,) = temporal(candidate, donors[None]).tolist()
    return float(value)


def test_the_same_profile_gives_one_and_disjoint_stages_give_zero() -> None:
    same = profile(intents("EIV"))
    assert against(same, same) == pytest.approx(1.0)
    assert against(profile(intents("EEE")), profile(intents("VVV"))) == pytest.approx(0.0)


def test_a_profile_that_differs_by_rounding_only_is_held_at_one() -> None:
    # the donor stands three times as long in every stage: the same shares, other last bits
    same, tripled = profile(intents("EEEIOVE")), profile(intents("EEEEEEEEEIIIOOOVVVEEE"))
    assert against(same, np.mean([tripled, same], axis=0)) == 1.0


def test_one_third_that_differs_wholly_costs_a_third() -> None:
    assert against(profile(intents("EIV")), profile(intents("EII"))) == pytest.approx(2 / 3)


def test_the_divergence_is_base_two_jensen_shannon() -> None:
    # each third: p = (1, 0), q = (½, ½), m = (¾, ¼); ½·log2(4/3) + ½·(½·log2(2/3) + ½·log2(2)) = 0.31128
    half = np.full((3, 4), [0.5, 0.5, 0.0, 0.0])
    expected = 0.5 * math.log2(4 / 3) + 0.25 * math.log2(2 / 3) + 0.25 * math.log2(2)
    assert expected == pytest.approx(0.31128, abs=1e-5)
    assert against(profile(intents("E")), half) == pytest.approx(1 - expected)


@given(LETTERS.filter(bool), st.lists(LETTERS.filter(bool), min_size=1, max_size=4))
def test_temporal_lies_between_zero_and_one_for_every_draw(letters: str, donors: list[str]) -> None:
    values = temporal(profile(intents(letters)), np.array([profile(intents(d)) for d in donors]))
    assert values.shape == (len(donors),)
    assert ((values >= 0) & (values <= 1)).all()


@given(LETTERS.filter(bool))
def test_each_third_of_a_profile_sums_to_one(letters: str) -> None:
    assert profile(intents(letters)).sum(axis=1).tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_coverage_is_the_share_of_matched_nodes() -> None:
    assert coverage(3, 8) == 37.5


def test_edit_agreement_is_the_f1_of_the_changed_lines() -> None:
    # 1 shared of 2 and 3: 2·1/(2+3)
    mine = frozenset({("a", "x"), ("a", "y")})
    theirs = frozenset({("a", "x"), ("b", "x"), ("b", "z")})
    assert edit_agreement(mine, theirs) == pytest.approx(40.0)
    assert edit_agreement(frozenset(), frozenset()) == 0.0


def aligned(
    table: list[list[float]], paths: list[list[int]], *, rows: list[int] | None = None
) -> list[tuple[float, float, float]]:
    """(Φstruct, recall, precision) a path; a column of zeros is added to the table for the padding."""
    longest = max(map(len, paths))
    width = len(table[0])
    padded = np.array([path + [width] * (longest - len(path)) for path in paths], dtype=np.intp).T
    alignment = align(
        np.array([[*row, 0.0] for row in table]),
        [
            Candidate(
                rows=list(range(len(table))) if rows is None else rows,
                paths=padded,
                lengths=np.array([len(path) for path in paths], dtype=float),
            )
        ],
    )[0]
    return list(
        zip(alignment.struct.tolist(), alignment.recall.tolist(), alignment.precision.tolist(), strict=True)
    )


def test_a_run_along_a_path_scores_100() -> None:
    assert aligned([[1.0, 0.0], [0.0, 1.0]], [[0, 1]]) == [(100.0, 1.0, 1.0)]


def test_order_counts_for_recall_and_not_for_precision() -> None:
    # the states come in reverse: only one of two can be in a common subsequence, both are on the path
    ((struct, recall, precision),) = aligned([[0.0, 1.0], [1.0, 0.0]], [[0, 1]])
    assert (recall, precision) == (0.5, 1.0)
    assert struct == pytest.approx(100 * 2 * 0.5 * 1.0 / 1.5)


def test_the_heaviest_subsequence_counts_not_the_longest() -> None:
    # node 0 at 0.7 and then node 1 at 0.7 make 1.4; node 1 alone would be 1.0
    ((_, recall, precision),) = aligned([[0.7, 1.0], [0.0, 0.7]], [[0, 1]])
    assert recall == pytest.approx(1.4 / 2)
    assert precision == 1.0


def test_a_state_that_nothing_matches_costs_precision_and_a_missing_node_costs_recall() -> None:
    # 1 of 2 states matches, 1 of 4 nodes is matched: recall ¼, precision ½, 2·¼·½/¾ = ⅓
    ((struct, recall, precision),) = aligned([[1.0, 0, 0, 0], [0, 0, 0, 0.0]], [[0, 1, 2, 3]])
    assert (recall, precision) == (0.25, 0.5)
    assert struct == pytest.approx(100 / 3)


def test_paths_of_different_length_do_not_disturb_each_other() -> None:
    table = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert aligned(table, [[0], [0, 1], [2, 2, 2]]) == [
        (pytest.approx(200 * 0.5 / 1.5), 1.0, 0.5),
        (100.0, 1.0, 1.0),
        (0.0, 0.0, 0.0),
    ]


def test_a_run_without_acting_states_scores_zero() -> None:
    assert aligned([[1.0]], [[0]], rows=[]) == [(0.0, 0.0, 0.0)]


def test_only_nodes_that_some_state_matches_are_touched() -> None:
    one_path = np.array([[0], [1], [2]], dtype=np.intp)
    alignment = align(
        np.array([[0.0, 0.7, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]),
        [Candidate(rows=[0, 1], paths=one_path, lengths=np.array([3.0]))],
    )[0]
    assert alignment.touched.tolist() == [False, True, False, False]


def test_a_reference_of_many_paths_is_aligned_as_a_small_one_is() -> None:
    # rows: node 0 at 0.7 or node 1 at 1.0; then node 1 at 0.7; then node 2 at 1.0
    table = [[0.7, 1.0, 0.0], [0.0, 0.7, 0.0], [0.0, 0.0, 1.0]]
    paths = [[0, 1, 2], [2, 1, 0], [1, 2], [0]]
    # 0.7 + 0.7 + 1.0 of 3; the 1.0 of node 2, or of node 1, of 3; 1.0 + 1.0 of 2; 0.7 of 1
    assert [recall for _, recall, _ in aligned(table, paths)] == pytest.approx([0.8, 1 / 3, 1.0, 0.7])
    assert aligned(table, paths * 40) == aligned(table, paths) * 40


def _textbook(weights: list[list[float]]) -> float:
    rows, columns = len(weights), len(weights[0])
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows):
        for j in range(columns):
            gain = best[i][j] + weights[i][j] if weights[i][j] else 0.0
            best[i + 1][j + 1] = max(best[i][j + 1], best[i + 1][j], gain)
    return best[rows][columns]


@given(st.data())
def test_all_candidates_aligned_together_equal_the_textbook_recurrence(data: st.DataObject) -> None:
    columns = data.draw(st.integers(1, 6))
    cell = st.sampled_from([0.0, 0.0, 0.7, 0.85, 1.0])
    table = data.draw(st.lists(st.lists(cell, min_size=columns, max_size=columns), min_size=1, max_size=6))
    padded = np.array([[*row, 0.0] for row in table])
    candidates, expected = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        rows = data.draw(st.lists(st.integers(0, len(table) - 1), max_size=7))
        paths = data.draw(
            st.lists(st.lists(st.integers(0, columns - 1), min_size=1, max_size=6), min_size=1, max_size=3)
        )
        longest = max(map(len, paths))
        candidates.append(
            Candidate(
                rows=rows,
                paths=np.array([p + [columns] * (longest - len(p)) for p in paths], dtype=np.intp).T,
                lengths=np.array([len(p) for p in paths], dtype=float),
            )
        )
        expected.append(
            [
                _textbook([[table[r][c] for c in path] for r in rows]) / len(path) if rows else 0.0
                for path in paths
            ]
        )
    for alignment, recalls in zip(align(padded, candidates), expected, strict=True):
        assert alignment.recall.tolist() == pytest.approx(recalls)
        assert ((alignment.struct >= 0) & (alignment.struct <= 100 + 1e-9)).all()
