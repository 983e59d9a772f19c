import dataclasses
import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.agentlens.steps import donors, edit, run, shell, think, trajectory, view
from workers.agentlens.assess import Run, assess_all, prepare
from workers.agentlens.forest import DonorPool
from workers.agentlens.reference import ROOT, Reference, distinct, donor_of, draw, drawings, lots, reachable
from workers.agentlens.report import assessment_document
from workers.agentlens.settings import ScoringSettings
from workers.agentlens.trajectory import State

ALPHABET: tuple[State, ...] = (
    view("a.py"),
    view("b.py", (1, 20)),
    view("b.py", (3, 20)),
    edit("a.py", "x", "y"),
    edit("a.py", "x", "z", scope="f"),
    shell("pytest tests/a.py"),
    shell("pytest -q tests/b.py"),
    think(),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lot:
    sequence: str
    model: str


TRACES = st.lists(st.sampled_from(ALPHABET), min_size=1, max_size=7)


def shape(tree: Reference) -> list[tuple[int, int, list[tuple[int, int]]]]:
    return [(n, tree.node(n).parent, tree.members(n)) for n in range(len(tree))]


def test_a_shared_prefix_is_shared_and_the_rest_branches_for_good() -> None:
    first = (view("a.py"), edit("a.py", "x", "y"), shell("pytest t"))
    second = (view("a.py"), edit("b.py", "p", "q"), shell("pytest t"))
    tree = Reference.build([r.donor for r in donors(first, second)])
    # view is shared; the edits differ, so even the equal check afterwards stays on two branches: 1 + 2 + 2
    assert len(tree) == 5
    (root,) = tree.next_nodes(ROOT)
    assert tree.support(root) == 2
    assert len(tree.next_nodes(root)) == 2
    assert [len(path) for path in tree.paths] == [3, 3]


def test_the_child_with_the_highest_confidence_is_taken() -> None:
    # 0.90 by scope against 0.80 + 0.15·(9/11 − 0.3)/0.7 = 0.911 by lines: lines 2-10 win over the scope
    by_scope = (edit("a.py", "1", "2", at=(80, 90), scope="f"),)
    by_lines = (edit("a.py", "3", "4", at=(1, 10), scope="g"),)
    third = (edit("a.py", "5", "6", at=(1, 11), scope="h"), shell("tox"))
    runs = donors(by_scope, by_lines, third)
    tree = Reference.build([r.donor for r in runs])
    at = {r.trace.sequence: i for r in runs for i, d in enumerate(tree.donors) if d.trace is r.trace}
    first_node_of_third = tree.paths[at[runs[2].trace.sequence]][0]
    assert first_node_of_third == tree.paths[at[runs[1].trace.sequence]][0]


def test_among_equally_sure_children_support_decides_and_then_age() -> None:
    # lines 1-30 share 10 of 30 with 1-10 and as many with 21-30: the same confidence to both children
    low = run(edit("a.py", "1", "2", at=(1, 10)), view("b.py")).donor
    high = run(edit("a.py", "3", "4", at=(21, 30)), view("c.py")).donor
    wide = run(edit("a.py", "5", "6", at=(1, 30)), view("d.py")).donor
    older = Reference([low, high, wide], ScoringSettings())
    assert older.paths[2][0] == older.paths[0][0]
    again = run(edit("a.py", "7", "8", at=(21, 30)), view("e.py")).donor
    supported = Reference([low, high, again, wide], ScoringSettings())
    assert supported.paths[3][0] == supported.paths[1][0]


def test_nodes_know_their_parents_depths_ends_and_descendants() -> None:
    short = (view("a.py"), edit("a.py", "x", "y"))
    long = (view("a.py"), edit("a.py", "x", "y"), shell("pytest t"))
    tree = Reference.build([r.donor for r in donors(short, long)])
    assert [tree.node(n).parent for n in range(3)] == [ROOT, 0, 1]
    assert [tree.node(n).depth for n in range(3)] == [0, 1, 2]
    assert [tree.node(n).ends for n in range(3)] == [0, 1, 1]
    assert [tree.is_end(n) for n in range(3)] == [False, True, True]
    assert tree.is_below(2, 0)
    assert tree.is_below(2, ROOT)
    assert not tree.is_below(0, 2)
    assert not tree.is_below(1, 1)


def test_the_closest_match_below_a_node_wins_within_reach() -> None:
    path = (view("a.py"), view("b.py"), view("c.py"), view("d.py"))
    other = (view("z.py"), view("y.py"))
    tree = Reference.build([r.donor for r in donors(path, other)])
    (long,) = [p for p in tree.paths if len(p) == 4]
    (short,) = [p for p in tree.paths if len(p) == 2]
    match = {long[2]: 0.8, long[3]: 1.0, short[1]: 1.0}
    assert tree.closest_below(long[0], match) == long[2]
    assert tree.closest_below(long[0], match, reach=1) is None
    assert tree.closest_below(long[2], match) == long[3]
    assert tree.closest_below(long[3], match) is None
    assert tree.closest_below(ROOT, {}) is None


def test_of_matches_at_one_depth_the_surest_wins_and_then_the_oldest() -> None:
    routes = ((view("a.py"), view(f"{n}.py")) for n in range(3))
    tree = Reference.build([r.donor for r in donors(*routes)])
    first, second, third = tree.next_nodes(tree.paths[0][0])
    assert first < second < third
    for sure in ({first: 0.9, third: 0.9}, {third: 0.9, first: 0.9}):
        assert tree.closest_below(ROOT, sure) == first
    for sure in ({first: 0.8, third: 0.9}, {third: 0.9, first: 0.8}):
        assert tree.closest_below(ROOT, sure) == third


def test_the_tree_joins_ranges_by_the_overlap_of_the_settings() -> None:
    # 1-10 and 8-17 share 3 of 17 lines: ρ = 0.176
    pair = [r.donor for r in donors((view("a.py", (1, 10)),), (view("a.py", (8, 17)),))]
    assert len(Reference.build(pair)) == 2
    assert len(Reference.build(pair, ScoringSettings(line_overlap=0.15))) == 1


def test_a_donor_is_known_by_its_model_or_by_none() -> None:
    assert donor_of(trajectory(view("a.py"), model="m")).model == "m"
    assert donor_of(trajectory(view("a.py"), model=None)).model == ""


def test_fewer_than_two_different_donors_are_refused() -> None:
    one = (view("a.py"), shell("pytest t"))
    with pytest.raises(ValueError, match="at least 2 different passing runs, got 1"):
        Reference.build([r.donor for r in donors(one, one, one)])


def test_donors_that_did_nothing_are_not_counted() -> None:
    assert distinct([r.donor for r in donors((think(),), (view("a.py"),))])[0].trace.acting == (0,)


@given(st.lists(TRACES, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_building_does_not_depend_on_the_order_of_the_donors(
    traces: list[list[State]], rng: random.Random
) -> None:
    given_order = [r.donor for r in donors(*traces)]
    if len(distinct(given_order)) < 2:
        return
    shuffled = rng.sample(given_order, len(given_order))
    assert shape(Reference.build(given_order)) == shape(Reference.build(shuffled))


@given(st.lists(TRACES, min_size=2, max_size=6))
def test_every_donor_keeps_its_whole_run_as_one_path(traces: list[list[State]]) -> None:
    given_order = [r.donor for r in donors(*traces)]
    if len(distinct(given_order)) < 2:
        return
    tree = Reference.build(given_order)
    for position, (donor, path) in enumerate(zip(tree.donors, tree.paths, strict=True)):
        assert len(path) == len(donor.trace.acting)
        assert [tree.node(n).parent for n in path] == [ROOT, *path[:-1]]
        assert all((position, step) in tree.members(n) for step, n in enumerate(path))
        assert all(tree.depth(n) == step for step, n in enumerate(path))
        assert all(b in tree.next_nodes(a) for a, b in zip([ROOT, *path], path, strict=False))


def test_a_draw_takes_one_donor_a_model_before_a_second() -> None:
    runs = [run(view(f"{n}.py"), name=str(n), model="ab"[n % 2] if n < 8 else "c") for n in range(9)]
    pool = lots([r.donor for r in runs], number=0, seed=0)
    assert sorted(d.model for d in draw(pool, count=3)) == ["a", "b", "c"]
    assert sorted(d.model for d in draw(pool, count=5)) == ["a", "a", "b", "b", "c"]


def test_a_model_with_many_runs_does_not_crowd_the_others_out() -> None:
    runs = [run(view(f"{n}.py"), name=str(n), model="many") for n in range(30)]
    rare = [run(view(f"r{n}.py"), name=f"r{n}", model=f"rare{n}") for n in range(4)]
    for number in range(5):
        pool = lots([r.donor for r in runs + rare], number=number, seed=0)
        assert {d.model for d in draw(pool, count=5)} == {"many", "rare0", "rare1", "rare2", "rare3"}


def test_a_draw_leaves_the_excluded_run_out_and_changes_with_its_number_and_seed() -> None:
    runs = [run(view(f"{n}.py"), name=str(n)) for n in range(12)]
    pool = [r.donor for r in runs]

    def drawn(number: int, seed: int, excluded: str | None = None) -> list[str]:
        ordered = lots(pool, number=number, seed=seed)
        return [d.donor_id for d in draw(ordered, count=5, excluded=excluded)]

    base = drawn(0, 0)
    without = drawn(0, 0, excluded=next(d for d in pool if d.donor_id == base[0]).trace.sequence)
    assert without[:4] == base[1:]
    assert drawn(1, 0) != base
    assert drawn(0, 1) != base
    assert drawn(0, 0) == base


def test_names_decide_nothing_in_a_draw() -> None:
    runs = [(view(f"{n}.py"), shell("pytest t")) for n in range(9)]
    honest = [run(*r, name=f"x-pass-{n}").donor for n, r in enumerate(runs)]
    flipped = [run(*r, name=f"x-fail-{9 - n}").donor for n, r in enumerate(runs)]
    order = [d.trace.sequence for d in lots(honest, number=0, seed=0)]
    assert order == [d.trace.sequence for d in lots(flipped, number=0, seed=0)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"donors": 1}, "at least 2"),
        ({"draws": 0}, "at least 1"),
        ({"match_threshold": 0.0}, "match_threshold is 0.0: it must lie in"),
        ({"match_threshold": 1.001}, "lie in"),
        ({"profile": "papre"}, "one of paper, tuned, unreferenced"),
    ],
)
def test_settings_that_make_no_reference_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ScoringSettings(**wrong)  # type: ignore[arg-type]


@given(
    st.lists(
        st.tuples(st.integers(0, 500), st.sampled_from("abc")), max_size=60, unique_by=lambda lot: lot[0]
    ),
    st.integers(2, 4),
    st.integers(1, 3),
)
def test_the_reachable_donors_alone_give_the_same_draws(
    lots_: list[tuple[int, str]], count: int, draws: int
) -> None:
    settings = ScoringSettings(donors=count, draws=draws)
    pool = [Lot(sequence=str(number), model=model) for number, model in lots_]
    kept = reachable(pool, settings)
    assert drawings(kept, settings) == drawings(pool, settings)
    assert len({lot.sequence for lot in kept}) == len(kept) <= len(pool)


def test_how_many_donors_are_reachable_does_not_grow_with_the_pool() -> None:
    for size in (1000, 4000):
        pool = [Lot(sequence=str(n), model=f"m{n % 7}") for n in range(size)]
        # 4 draws of 5, and without each of these 20 at most one new one in each draw: 20 + 20 · 4
        assert 20 <= len(reachable(pool, ScoringSettings())) <= 100


def test_a_pool_of_the_reachable_donors_scores_as_the_whole_pool() -> None:
    runs = donors(
        *((view("a.py", (n, n + 5)), edit("a.py", "x", str(n)), shell(f"tox {n}")) for n in range(60))
    )
    settings = ScoringSettings(donors=3, draws=2)
    whole = [run.donor for run in runs]
    kept = reachable(distinct(whole), settings)
    assert len(kept) < 20
    documents = [
        [assessment_document(found) for found in assess_all(runs, DonorPool(pool, settings))]
        for pool in (kept, whole)
    ]
    assert documents[0] == documents[1]


def test_a_pool_does_not_grow_with_the_candidates_that_pass_by() -> None:
    def candidates(start: int) -> list[Run]:
        return [run(view("a.py", (n, n + 5)), shell(f"tox {n}")) for n in range(start, start + 200)]

    pool = DonorPool((r.donor for r in donors((view("a.py"),), (view("b.py"),))), ScoringSettings())
    list(assess_all(candidates(0), pool))
    size = len(pickle.dumps(pool))
    list(assess_all(candidates(1000), pool))
    assert len(pickle.dumps(pool)) == size


def test_a_reference_is_built_from_labelled_passing_trajectories() -> None:
    passing = [trajectory(view("a.py"), edit("a.py", "x", str(n)), name=str(n)) for n in range(3)]
    built = Reference.build(passing)
    assert [donor.donor_id for donor in built.donors] == [
        donor.donor_id for donor in Reference.build([run_of.donor for run_of in map(prepare, passing)]).donors
    ]
    with pytest.raises(ValueError, match="0: its outcome is failed; references are built from passing runs"):
        Reference.build([trajectory(view("a.py"), name="0", outcome="failed"), *passing])
    unlabelled = dataclasses.replace(
        passing[0], states=(dataclasses.replace(passing[0].states[0], intent=None),)
    )
    with pytest.raises(ValueError, match="has no intent: label the trajectory"):
        Reference.build([unlabelled, *passing])


def test_only_certain_matches_may_be_asked_for() -> None:
    assert ScoringSettings(match_threshold=1.0).match_threshold == 1.0
