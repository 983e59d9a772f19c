import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agentlens.measure import weigh
from workers.agentlens.profiles import PAPER, PROFILES, TUNED, Profile
from workers.agentlens.tier import Tier, composite, rescale, tier


def test_the_papers_weights_and_cuts_are_literal() -> None:
    # 0.20·50 + 0.15·40 + 0.30·80 + 0.35·90 = 10 + 6 + 24 + 31.5
    assert composite({"struct": 50, "cov": 40, "coh": 80, "temp": 90}, PAPER) == pytest.approx(71.5)
    assert (PAPER.ideal_cut, PAPER.lucky_cut, PAPER.knots) == (70.0, 47.0, ())


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_weights_sum_to_one_and_knots_rise_from_0_to_100(profile: Profile) -> None:
    assert sum(profile.weights.values()) == pytest.approx(1.0)
    assert all(weight > 0 for weight in profile.weights.values())
    if profile.knots:
        xs, ys = zip(*profile.knots, strict=True)
        assert list(xs) == sorted(set(xs))
        assert list(ys) == sorted(set(ys))
        assert (profile.knots[0], profile.knots[-1]) == ((0.0, 0.0), (100.0, 100.0))


def test_a_score_is_rescaled_along_the_line_between_two_knots() -> None:
    knots = ((0.0, 0.0), (60.0, 47.0), (80.0, 70.0), (100.0, 100.0))
    assert rescale(30.0, knots) == pytest.approx(23.5)
    assert rescale(60.0, knots) == 47.0
    assert rescale(70.0, knots) == pytest.approx(58.5)
    assert rescale(100.0, knots) == 100.0
    assert rescale(33.0, ()) == 33.0
    # the last knot is still on the line
    assert rescale(10.0, ((0.0, 0.0), (10.0, 50.0))) == 50.0


@pytest.mark.parametrize(("total", "f"), [(120.0, 100.0), (100.5, 100.0), (0.5, 0.5), (-5.0, 0.0)])
def test_a_sum_beyond_0_to_100_is_held_at_its_end(total: float, f: float) -> None:
    assert composite({"x": total}, Profile(name="x", version=1, weights={"x": 1.0})) == f


@given(st.floats(0, 100), st.floats(0, 100))
def test_rescaling_keeps_the_order(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert rescale(low, TUNED.knots) <= rescale(high, TUNED.knots)


@pytest.mark.parametrize(
    ("score", "outcome", "expected"),
    [
        (70.0, "passed", Tier.IDEAL),
        (69.999, "passed", Tier.SOLID),
        (47.0, "passed", Tier.SOLID),
        (46.999, "passed", Tier.LUCKY),
        (47.0, "failed", Tier.PARTIAL_FAILURE),
        (46.999, "failed", Tier.OFF_TRACK),
        (99.0, "unknown", None),
    ],
)
def test_tiers_are_half_open_at_70_and_47(score: float, outcome: str, expected: Tier | None) -> None:
    assert tier(score, outcome, PAPER) is expected  # type: ignore[arg-type]


def test_draws_are_averaged_and_their_spread_is_the_standard_deviation() -> None:
    profile = Profile(name="x", version=1, weights={"struct": 0.5, "cov": 0.5})
    # sums 30, 50: mean 40, deviation 10
    assert weigh({"struct": [20.0, 60.0], "cov": [40.0, 40.0]}, profile) == (40.0, 10.0)


def test_a_missing_signal_is_an_error_and_not_a_zero() -> None:
    with pytest.raises(KeyError, match="temp"):
        composite({"struct": 1, "cov": 1, "coh": 1}, PAPER)
