from tests.unit.agentlens.steps import edit, run, shell, view
from workers.agentlens.mechanisms import MEANING, Mechanism, is_incomplete, mechanism
from workers.agentlens.settings import ScoringSettings
from workers.agentlens.trajectory import Intent, State
from workers.agentlens.waste import charge

SETTINGS = ScoringSettings()
DONORS = [
    run(edit("a.py", scope="f"), edit("b.py", scope="g"), shell("pytest t")).trace,
    run(edit("a.py", scope="f"), edit("c.py", scope="h"), shell("pytest t")).trace,
    run(edit("a.py", scope="f"), shell("pytest t")).trace,
]


def mechanism_of(*states: State, donors: bool = True) -> Mechanism | None:
    mine = run(*states)
    return mechanism(mine.trace, charge(mine.trace, mine.findings), DONORS if donors else [], SETTINGS)


def test_c1_is_short_without_waste_and_without_any_check() -> None:
    assert mechanism_of(*(view(f"{n}.py") for n in range(7)), edit("a.py")) is Mechanism.MINIMAL_UNVERIFIED
    # nine steps are one too many, and it edits all that the donors agree on: C5
    nine = (*(view(f"{n}.py") for n in range(8)), edit("a.py", scope="f"))
    assert mechanism_of(*nine) is Mechanism.DIVERGENT_BUT_VALID


def test_a_check_rules_c1_out() -> None:
    assert mechanism_of(edit("a.py", scope="f"), shell("pytest t")) is Mechanism.DIVERGENT_BUT_VALID


def test_waste_rules_c1_out() -> None:
    look = view("a.py", (1, 9))
    # 1 of 5 states is redundant, too little for C2; it edits all that the donors agree on
    short = (look, look, view("b.py"), view("c.py"), edit("a.py", scope="f"))
    assert mechanism_of(*short) is Mechanism.DIVERGENT_BUT_VALID


def test_c2_wastes_at_least_three_tenths_of_its_steps() -> None:
    fail = shell("pytest t", outcome="error", seen="E")
    # 3 retries of 10 states: severity 0.30
    ten = (edit("a.py", scope="f"), *(fail for _ in range(4)), *(view(f"{n}.py") for n in range(5)))
    assert mechanism_of(*ten) is Mechanism.BRUTE_FORCE
    # 3 of 11: 0.27
    assert mechanism_of(*ten, view("z.py")) is Mechanism.DIVERGENT_BUT_VALID


def test_c4_is_at_least_forty_steps_long_and_comes_before_c3() -> None:
    looks = tuple(view(f"{n}.py") for n in range(39))
    assert mechanism_of(*looks, shell("pytest t", intent=Intent.V)) is Mechanism.EXCESSIVE_EXPLORATION
    assert mechanism_of(*looks[:38], shell("pytest t")) is Mechanism.INCOMPLETE


def test_c3_leaves_a_file_untouched_that_at_least_half_of_the_donors_edit() -> None:
    two = DONORS[:2]  # a.py by both, b.py and c.py by one of two each
    only_a = run(edit("a.py", scope="f"), shell("pytest t")).trace
    assert is_incomplete(only_a, two, 0.5)
    assert not is_incomplete(only_a, two, 0.6)
    assert not is_incomplete(only_a, DONORS, 0.5)  # b.py and c.py: 1 of 3
    everything = run(edit("a.py", scope="f"), edit("b.py", scope="g"), edit("c.py", scope="h")).trace
    assert not is_incomplete(everything, two, 0.5)


def test_c3_touches_less_than_half_of_the_consensus_scopes() -> None:
    donors = [run(edit("a.py", scope="f"), edit("a.py", scope="g"), edit("a.py", scope="h")).trace] * 2
    assert is_incomplete(run(edit("a.py", scope="f")).trace, donors, 0.5)  # 1 of 3
    assert not is_incomplete(run(edit("a.py", scope="f"), edit("a.py", scope="g")).trace, donors, 0.5)
    half = [run(edit("a.py", scope="f"), edit("a.py", scope="g")).trace] * 2
    assert not is_incomplete(run(edit("a.py", scope="f")).trace, half, 0.5)  # 1 of 2 is not less than half


def test_without_donors_c3_and_c5_cannot_be_told_apart() -> None:
    assert mechanism_of(edit("a.py"), shell("pytest t"), donors=False) is None
    assert mechanism_of(edit("a.py"), donors=False) is Mechanism.MINIMAL_UNVERIFIED


def test_every_mechanism_has_a_meaning() -> None:
    assert set(MEANING) == set(Mechanism)
