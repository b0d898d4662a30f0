"""Whether lifetimes show age: a shape only where failures can tell it, and then the one of most likelihood."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from goodput.errors import BadInput
from goodput.lifetimes import FEWEST, weibull_shape


def test_c04_of_one_failure_no_shape_is_told_but_the_exponential_with_its_interval():
    """Five nodes, 54,964 h in all, one failed, the longest-lived: the likelihood has no maximum. 90 % bounds."""
    found = weibull_shape([13467, 13760, 12011, 7798, 7928], [False, True, False, False, False], confidence=0.90)
    assert math.isnan(found.shape) and math.isnan(found.low) and math.isnan(found.high)
    assert found.mtbf.hours == 54_964
    assert (found.mtbf.low, found.mtbf.high) == pytest.approx((11_586.3, 1_071_563.1), abs=0.05)


def test_c04_of_five_failures_and_a_hundred_survivors_the_shape_may_be_one():
    """1 + 2 + 3 + 4 + 5 + 100 x 6 = 615 h, 5 failures: 123 h (58.5 to 312.16); 1 lies in the interval of the shape."""
    found = weibull_shape([1, 2, 3, 4, 5] + [6] * 100, [True] * 5 + [False] * 100, confidence=0.90)
    assert found.mtbf.hours == 123
    assert (found.mtbf.low, found.mtbf.high) == pytest.approx((58.5, 312.16), abs=0.005)
    assert found.low < 1 < found.shape < found.high


@pytest.mark.parametrize("failures", range(8))
def test_a_shape_needs_five_failures(failures):
    found = weibull_shape([*range(1, 8), 9], [True] * failures + [False] * (8 - failures))
    assert math.isnan(found.shape) == (failures < FEWEST)
    assert found.mtbf.count == failures


@pytest.mark.parametrize("spread", [0, 1e-9])
def test_failures_that_all_came_last_tell_no_shape_however_many(spread):
    """The longer the shape the likelier: it has no maximum."""
    assert math.isnan(weibull_shape([5, 5] + [10 - spread] * 8 + [10], [False] * 2 + [True] * 9).shape)


def likelihood(weibull: tuple, hours: np.ndarray, failed: np.ndarray) -> float:
    known, survived = (
        stats.weibull_min.logpdf(hours[failed], *weibull),
        stats.weibull_min.logsf(hours[~failed], *weibull),
    )
    return known.sum() + survived.sum()


@given(st.integers(0, 2**32), st.floats(0.3, 5), st.floats(1e-3, 1e6))
@settings(max_examples=30, deadline=None)
def test_the_shape_is_the_one_that_scipy_finds(seed, shape, scale):
    lives = np.random.default_rng(seed).weibull(shape, 30)
    seen, failed = np.minimum(lives, np.quantile(lives, 0.6)), lives <= np.quantile(lives, 0.6)
    found = weibull_shape(seen * scale, failed)
    data = stats.CensoredData(uncensored=seen[failed], right=seen[~failed])
    theirs = stats.weibull_min.fit(data, floc=0)
    # theirs is a simplex that stops early at times: ours is at least as likely
    mine = (found.shape, 0, (np.sum(seen**found.shape) / failed.sum()) ** (1 / found.shape))
    assert likelihood(mine, seen, failed) >= likelihood(theirs, seen, failed) - 1e-6
    assert found.shape == pytest.approx(theirs[0], rel=0.01)
    assert found.low < found.shape < found.high


def test_the_unit_of_time_leaves_the_shape_alone_and_more_confidence_widens_it():
    hours, failed = np.arange(1, 11), np.arange(10) % 3 > 0
    sure, unsure = weibull_shape(hours, failed, 0.99), weibull_shape(hours / 24, failed, 0.80)
    assert sure.shape == pytest.approx(unsure.shape, rel=1e-6)
    assert sure.low < unsure.low < unsure.high < sure.high


@pytest.mark.parametrize(("shape", "above"), [(0.5, False), (3, True)])
def test_a_hundred_failures_tell_the_young_from_the_worn_out(shape, above):
    found = weibull_shape(np.random.default_rng(1).weibull(shape, 100), np.ones(100))
    assert found.low > 1 if above else found.high < 1
    assert found.low < shape < found.high


@pytest.mark.parametrize("shape", [0.7, 1, 2])
def test_the_interval_of_a_shape_holds_the_truth_nearly_as_often_as_it_says(shape):
    """20 units, the later half of them censored; 94 % of 400, within 3 binomial standard errors (3.6 points)."""
    lives = np.random.default_rng(2).weibull(shape, (400, 20))
    end = math.log(2) ** (1 / shape)  # the median
    found = [weibull_shape(np.minimum(row, end), row < end) for row in lives]
    told = np.array([each[:3] for each in found if each.mtbf.count >= FEWEST])
    assert len(told) > 390
    assert ((told[:, 1] <= shape) & (shape <= told[:, 2])).mean() == pytest.approx(0.94, abs=0.036)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_a_life_takes_some_time(bad):
    with pytest.raises(BadInput, match="lifetimes: hours must each be above 0 and finite"):
        weibull_shape([1, bad], [True, True])
