"""When the code goes back to the coder, and what ends that (PANEL §5)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.core.rounds import Round, stopped
from workers.core.team import Policy

A, B = frozenset({"a.py:wrong sign"}), frozenset({"a.py:wrong order"})


def left(code: str = "1", standing: frozenset[str] = A, *, wants_another: bool = True) -> Round:
    return Round(code_digest=code, standing=standing, wants_another=wants_another)


def test_a_lead_that_signs_ends_the_run() -> None:
    assert stopped([left(wants_another=False)], Policy(rounds=5)) == "signed"


def test_only_what_a_test_reproduced_sends_code_back() -> None:
    assert stopped([left(standing=frozenset())], Policy(rounds=5)) == "nothing_reproduced"


def test_code_that_nobody_wrote_here_is_not_sent_back() -> None:
    submitted = Round(code_digest="1", standing=A, wants_another=True, has_coder=False)
    assert stopped([submitted], Policy(rounds=5)) == "coder_missing"


def test_the_team_s_number_of_rounds_is_the_limit() -> None:
    assert stopped([left("1", A)], Policy(rounds=2)) is None
    assert stopped([left("1", A), left("2", B)], Policy(rounds=2)) == "round_limit"


def test_the_same_code_or_the_same_claims_again_is_a_circle() -> None:
    assert stopped([left("1", A), left("1", B)], Policy(rounds=5)) == "oscillation"
    assert stopped([left("1", A), left("2", A)], Policy(rounds=5)) == "oscillation"
    assert stopped([left("1", A), left("2", B), left("1", A | B)], Policy(rounds=5)) == "oscillation"
    assert stopped([left("1", A), left("2", B)], Policy(rounds=5)) is None


@given(st.lists(st.sampled_from(["1", "2", "3"]), min_size=1, max_size=9), st.integers(1, 5))
def test_a_run_never_has_more_rounds_than_its_team_allows(codes: list[str], rounds: int) -> None:
    """However the coder walks, some prefix of the rounds ends the run at or before the limit."""
    history = [left(code, frozenset({str(number)})) for number, code in enumerate(codes)]
    policy = Policy(rounds=rounds)

    ended = next(
        (count for count in range(1, len(history) + 1) if stopped(history[:count], policy) is not None), None
    )

    assert ended is None or ended <= rounds
    if len(history) >= rounds:
        assert ended is not None
