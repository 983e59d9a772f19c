import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.agentlens.steps import edit, run, shell, view
from workers.agentlens.assess import Run
from workers.agentlens.divergence import Segment, Walk, walk
from workers.agentlens.equivalence import confidence
from workers.agentlens.reference import Reference
from workers.agentlens.settings import ScoringSettings
from workers.agentlens.trajectory import State

SETTINGS = ScoringSettings()
ROUTE = (view("a.py"), view("b.py"), edit("b.py", "x", "y"), shell("pytest t"), view("d.py"))
OTHER = (view("a.py"), edit("z.py", "p", "q"), shell("tox"))


def tree(*routes: tuple[State, ...]) -> Reference:
    return Reference.build([run(*route, name=str(n)).donor for n, route in enumerate(routes)])


def matches(mine: Run, reference: Reference) -> list[dict[int, float]]:
    table: list[dict[int, float]] = []
    for signature in mine.trace.signatures:
        sure = {
            node: max(
                confidence(signature, reference.donors[d].trace.signatures[p])
                for d, p in reference.members(node)
            )
            for node in range(len(reference))
        }
        table.append({node: value for node, value in sure.items() if value >= 0.7})
    return table


def walked(*states: State) -> tuple[Walk, Reference]:
    reference = tree(ROUTE, OTHER)
    mine = run(*states)
    return walk(mine.trace, reference, matches(mine, reference), SETTINGS), reference


def test_a_run_along_a_donor_never_diverges() -> None:
    way, reference = walked(*ROUTE)
    assert way.divergence is None
    assert [step for step, _ in way.path] == [0, 1, 2, 3, 4]
    assert tuple(node for _, node in way.path) == tuple(max(reference.paths, key=len))


def test_a_few_steps_may_be_skipped_and_extra_ones_inserted() -> None:
    way, _ = walked(view("a.py"), view("q.py"), view("b.py"), shell("pytest t"), view("d.py"))
    assert way.divergence is None
    assert [step for step, _ in way.path] == [0, 2, 3, 4]


def test_three_foreign_steps_are_a_divergence_with_what_was_expected() -> None:
    strange = (view("q.py"), view("r.py"), view("s.py"))
    way, reference = walked(
        view("a.py"), *strange, view("b.py"), edit("b.py", "x", "y"), shell("pytest t"), view("d.py")
    )
    found = way.divergence
    assert found is not None
    assert (found.step, found.kind, found.rejoined_at) == (1, "new_target", 4)
    assert found.actual == "view|q.py"
    # from where it came back it is followed step by step
    assert [step for step, _ in way.path] == [0, 4, 5, 6, 7]
    assert found.segments == (Segment(start=1, end=3, rejoined_at=4),)
    # both donors went on from the shared first step, one each
    assert {e.action for e in found.expected} == {"view|b.py", "edit|z.py"}
    assert [e.support for e in found.expected] == [1, 1]
    assert found.last_node == reference.paths[0][0]


def test_more_levels_than_the_lookahead_cannot_be_skipped() -> None:
    long = (view("a.py"), *(view(f"{n}.py") for n in range(6)))
    reference = tree(long, OTHER)

    def steps(*states: State) -> list[int]:
        mine = run(*states)
        return [node for _, node in walk(mine.trace, reference, matches(mine, reference), SETTINGS).path]

    route = max(reference.paths, key=len)
    # from the first step: one level on and three more may be skipped, so the fourth of the six is in reach
    assert steps(view("a.py"), view("3.py")) == [route[0], route[4]]
    assert steps(view("a.py"), view("4.py")) == [route[0]]


def test_the_step_that_most_donors_took_is_expected_first_and_then_the_oldest() -> None:
    reference = tree(
        (view("a.py"), view("b.py"), shell("tox 1")),
        (view("a.py"), view("c.py"), shell("tox 2")),
        (view("a.py"), view("c.py"), shell("tox 3")),
        (view("a.py"), view("d.py"), shell("tox 4")),
    )
    mine = run(view("a.py"), view("q.py"), view("r.py"), view("s.py"))
    found = walk(mine.trace, reference, matches(mine, reference), SETTINGS).divergence
    assert found is not None
    assert (found.expected[0].action, found.expected[0].support) == ("view|c.py", 2)
    assert [e.support for e in found.expected] == [2, 1, 1]
    assert found.expected[1].node < found.expected[2].node


@pytest.mark.parametrize(
    ("sure", "back"),
    [({1: 0.8, 2: 0.9}, 2), ({2: 0.9, 1: 0.8}, 2), ({1: 0.9, 2: 0.9}, 1), ({2: 0.9, 1: 0.9}, 1)],
)
def test_a_run_comes_back_at_the_surest_node_and_then_the_oldest(sure: dict[int, float], back: int) -> None:
    reference = tree(ROUTE, OTHER)
    mine = run(view("q.py"), view("r.py"), view("s.py"), view("t.py"))
    # it matches nothing for three steps and then two nodes at once
    assert walk(mine.trace, reference, [{}, {}, {}, sure], SETTINGS).path == ((3, back),)


def test_leaving_for_good_is_never_rejoined() -> None:
    way, _ = walked(view("a.py"), view("q.py"), view("r.py"), view("s.py"))
    assert way.divergence is not None
    assert way.divergence.rejoined_at is None
    assert way.divergence.segments == (Segment(start=1, end=3, rejoined_at=None),)


def test_diverging_at_once_has_no_last_node() -> None:
    way, _ = walked(view("q.py"), view("r.py"), view("s.py"))
    assert way.divergence is not None
    assert way.divergence.last_node is None
    assert way.divergence.step == 0


@pytest.mark.parametrize(
    ("states", "step", "kind"),
    [
        ((view("a.py"), edit("a.py", "m", "n"), view("r.py"), view("s.py")), 1, "new_action"),
        ((view("a.py"), view("q.py"), view("r.py"), view("s.py")), 1, "new_target"),
        ((view("q.py"), view("a.py"), view("q.py"), view("r.py"), view("s.py")), 2, "repeat"),
    ],
)
def test_the_kind_says_how_the_step_is_strange(states: tuple[State, ...], step: int, kind: str) -> None:
    found = walked(*states)[0].divergence
    assert found is not None
    assert (found.step, found.kind) == (step, kind)


def test_a_step_of_another_branch_is_an_order_jump() -> None:
    # after z.py only tox is left on that branch; the check of the other one matches elsewhere in the tree
    way, _ = walked(view("a.py"), edit("z.py", "p", "q"), view("b.py"), view("d.py"), view("b.py"))
    assert way.divergence is not None
    assert (way.divergence.step, way.divergence.kind) == (2, "order_jump")


def test_stopping_before_any_donor_did_is_an_early_stop() -> None:
    way, _ = walked(view("a.py"), view("b.py"))
    assert way.divergence is not None
    assert (way.divergence.kind, way.divergence.step) == ("early_stop", 1)
    assert way.divergence.actual == "the run ends"
    assert [e.action for e in way.divergence.expected] == ["edit|b.py"]


def test_a_run_without_steps_stops_early_at_the_root() -> None:
    way, _ = walked()
    assert way.divergence is not None
    assert (way.divergence.kind, way.divergence.last_node, way.divergence.step) == ("early_stop", None, 0)


@given(st.lists(st.sampled_from([*ROUTE, *OTHER, view("q.py"), view("r.py")]), max_size=12))
def test_every_index_of_a_walk_exists_and_rises(states: list[State]) -> None:
    way, reference = walked(*states)
    steps = [step for step, _ in way.path]
    assert steps == sorted(set(steps))
    assert all(0 <= step < len(states) for step in steps)
    assert all(0 <= node < len(reference) for _, node in way.path)
    if way.divergence is not None and states:
        assert 0 <= way.divergence.step < len(states)
        for segment in way.divergence.segments:
            assert 0 <= segment.start <= segment.end < len(states)
            assert segment.rejoined_at is None or segment.end < segment.rejoined_at < len(states)
