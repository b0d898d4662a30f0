"""What a log leaves open goes into the what-if: draws with the right spread, and a gain that luck does not widen."""

import numpy as np
import pytest
from naive import log_of
from test_calibrate import LOG

from goodput.bootstrap import draws, rank_what_ifs, what_if
from goodput.calibrate import calibrate
from goodput.errors import BadInput
from goodput.scenario import load_scenario
from goodput.simulate import simulate, simulate_many
from goodput.smoothing import smoothed

BASE = load_scenario("baseline")
FIT = calibrate(simulate(BASE, 1), spares=4)
SPARES = {"pool.spares": 8}


def test_rates_are_drawn_from_jeffreys_gamma():
    """Two failures in 19.33 node-hours: rates have mean 2.5 / 19.33 and variance 2.5 / 19.33^2."""
    rates = [1 / each.cohorts["default"].mtbf_hours for each in draws(calibrate(log_of(LOG)), 4000)]
    assert np.mean(rates) == pytest.approx(2.5 / 19.333, rel=0.04)
    assert np.var(rates) == pytest.approx(2.5 / 19.333**2, rel=0.1)


def test_the_causes_rates_add_up_to_a_total_drawn_alike():
    """15 stops of the job by two causes: the total is gamma with shape 15.5, however many causes share it."""
    row = FIT.row("job_failures.mtbi_hours")
    rates = [1 / each.job_failures.mtbi_hours for each in draws(FIT, 4000)]
    assert np.mean(rates) == pytest.approx((row.events + 0.5) / row.exposure, rel=0.02)
    assert np.var(rates) == pytest.approx((row.events + 0.5) / row.exposure**2, rel=0.1)


def test_repairs_are_drawn_as_a_rate_over_all_the_time_that_they_took():
    row = FIT.row("repair.mean_hours")
    rates = [1 / each.repair.mean_hours for each in draws(FIT, 4000)]
    assert np.mean(rates) == pytest.approx((row.events + 0.5) / row.exposure, rel=0.02)


def test_what_does_not_vary_was_counted_given_or_assumed_stays():
    for each in draws(FIT, 20):
        assert (each.job, each.pool, each.checkpoint) == (FIT.scenario.job, FIT.scenario.pool, FIT.scenario.checkpoint)


def test_durations_that_vary_are_scaled_by_the_error_of_their_mean():
    varied = BASE.but({"job.restart_minutes": {"distribution": "lognormal", "median": 12.0, "sigma": 0.8}})
    fit = calibrate(simulate(varied, 1))
    row, before = fit.row("job.restart_minutes"), fit.scenario.job.restart_minutes
    after = [each.job.restart_minutes for each in draws(fit, 2000)]
    assert {each.sigma for each in after} == {before.sigma}
    assert np.std(np.log([each.median for each in after])) == pytest.approx(row.error, rel=0.1)


def test_the_share_of_restarts_that_fail_is_drawn_from_its_beta():
    fit = calibrate(simulate(BASE.but({"restart.failure_share": 0.3}), 1))
    row = fit.row("restart.failure_share")
    shares = [each.restart.failure_share for each in draws(fit, 2000)]
    assert np.quantile(shares, [0.05, 0.95]) == pytest.approx([row.low, row.high], abs=0.015)


def test_cohorts_are_drawn_apart():
    fit = calibrate(simulate(load_scenario("firmware-regression"), 1), {"node[0000-0099]": "a", "node[0100-0131]": "b"})
    pairs = np.array([[each.cohorts[name].mtbf_hours for name in "ab"] for each in draws(fit, 500)])
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 0.15


def test_the_same_seed_draws_the_same_and_fewer_draws_are_the_first_of_many():
    assert draws(FIT, 3) == draws(FIT, 3) != draws(FIT, 3, seed=2)
    assert {each.name for each in draws(FIT, 3)} == {"mine/draw-1", "mine/draw-2", "mine/draw-3"}


# --- what-ifs ------------------------------------------------------------------------------------------------------


def test_a_change_that_changes_nothing_gains_exactly_nothing():
    gain = what_if(FIT, {"pool.spares": 4}, draws=20, seeds=1)
    assert (gain.gpu_hours, gain.low, gain.high, gain.luck_deviation) == (0, 0, 0, 0)


def test_more_spares_gain_and_slower_restarts_lose():
    table = rank_what_ifs(FIT, {"slow": {"job.restart_minutes": 60.0}, "spares": SPARES}, draws=30)
    assert list(table["change"]) == ["spares", "slow"]
    assert table["low"][0] > 0 > table["high"][1]
    assert table["points"].to_numpy() == pytest.approx(table["gpu_hours"] / 688_128)


def test_a_longer_log_narrows_the_interval():
    """Of the same scenario twenty months instead of one: the spread that is of the fit is much less."""
    long = calibrate(simulate_many(BASE, range(1, 21)), spares=4)
    faster = {"job.restart_minutes": 5.0}
    short, well = (what_if(fit, faster, draws=80, seeds=1) for fit in (FIT, long))
    assert well.fit_deviation < 0.7 * short.fit_deviation
    assert short.low < short.gpu_hours < short.high


def test_the_middle_is_near_what_the_fit_itself_gains():
    """A restart of 5 min for one of 20, where no node is ever waited for, gains what the exact formula says."""
    faster, fit = {"job.restart_minutes": 5.0}, calibrate(simulate(BASE, 1), spares=60)
    gain = what_if(fit, faster, draws=60)
    exact = fit.scenario.but(faster).expected_goodput() - fit.scenario.expected_goodput()
    assert gain.points == pytest.approx(exact, rel=0.1)


# --- the luck of few runs ------------------------------------------------------------------------------------------

LUCK = np.random.Generator(np.random.PCG64(7))
DRAWN = np.exp(LUCK.normal(0, 0.3, (400, 3)))


def test_a_gain_that_goes_as_a_power_of_what_is_drawn_is_found_under_luck_of_its_own_size():
    truth = 100 * DRAWN[:, 0] ** 2
    noisy = truth * LUCK.exponential(1, 400)
    plain = smoothed(noisy, DRAWN)
    assert np.quantile(plain, [0.05, 0.95]) == pytest.approx(np.quantile(truth, [0.05, 0.95]), rel=0.25)
    assert np.abs(plain - truth).mean() < 0.25 * np.abs(noisy - truth).mean()


def test_a_gain_that_goes_both_ways_is_found_as_well():
    truth = 3 + 10 * np.log(DRAWN[:, 1])
    plain = smoothed(truth + LUCK.normal(0, 5, 400), DRAWN)
    assert np.abs(plain - truth).mean() < 0.8 and plain.min() < -3


def test_losses_are_found_as_gains_are():
    gains = 100 * DRAWN[:, 0] * LUCK.exponential(1, 400)
    assert smoothed(-gains, DRAWN) == pytest.approx(-smoothed(gains, DRAWN))


def test_luck_alone_makes_no_spread_to_speak_of():
    """A law of three values fits sqrt(3 / 400) = 9 % of the luck of 400 draws."""
    noisy = [100 * LUCK.exponential(1, 400) for _ in range(30)]
    assert np.mean([smoothed(each, DRAWN).std() / each.std() for each in noisy]) < 0.1


def test_draws_that_do_not_vary_have_one_gain():
    assert set(smoothed(np.arange(1.0, 21), np.ones((20, 2)))) == {10.5}


def test_no_draws_no_changes_and_unknown_changes_are_refused():
    with pytest.raises(BadInput, match="draws=0 must be 1 or more"):
        draws(FIT, 0)
    with pytest.raises(BadInput, match="draws=19 must be 20 or more, and seeds=2 1 or more"):
        what_if(FIT, SPARES, 19)
    with pytest.raises(BadInput, match="seeds=0 1 or more"):
        what_if(FIT, SPARES, 20, 0)
    with pytest.raises(BadInput, match="at least one change"):
        rank_what_ifs(FIT, {})
    with pytest.raises(BadInput, match=r"did you mean 'spares'\?"):
        what_if(FIT, {"pool.sparse": 8}, 20, 1)
