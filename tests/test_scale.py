"""A job that grows: what stays as it was, the closed form of goodput at a million GPUs, and what keeps a target.

Seeds are fixed, so each test gives the same answer every time. Where a test is statistical, a right simulation would
fail it at about one choice of seeds in 10,000 (4 standard errors, or p < 1e-4).
"""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from goodput.checkpoint import expected_goodput
from goodput.dials import (
    BEST,
    DIALS,
    dials_by_size,
    failing_as_rarely,
    kept_by_steps,
    kept_up_to,
    noticed_within,
    one_after_another,
    times_needed,
    turned,
    turned_to,
)
from goodput.errors import BadInput
from goodput.experiment import experiment, wide_runs
from goodput.metrics import mean_interval
from goodput.queueing import erlang_b, repair_load
from goodput.scale import goodput_by_size, published_by_size, scaled, spares_by_size
from goodput.scenario import load_scenario

BASELINE = load_scenario("baseline")
ALWAYS = {"failures.strike": "always"}


# --- the same job on more GPUs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpus", [8, 2048, 131_072, 1_048_576])
def test_a_job_that_grows_is_interrupted_in_proportion(gpus):
    grown = scaled(BASELINE, gpus)
    assert grown.nominal_mtbi_hours * gpus == pytest.approx(BASELINE.nominal_mtbi_hours * 1024)
    assert grown.overhead_minutes == pytest.approx(BASELINE.overhead_minutes)
    assert grown.cohorts == BASELINE.cohorts  # a node is as good as before


def test_failures_of_no_node_may_stay_as_they_are():
    """128 times the nodes at 3,000 hours, and one other failure in 40 hours: 1 / (16,384 / 3,000 + 1 / 40)."""
    grown = scaled(BASELINE, 131_072, job_failures_grow=False)
    assert grown.nominal_mtbi_hours == pytest.approx(1 / (16_384 / 3000 + 1 / 40))


def test_spares_crews_and_counted_cohorts_grow_too_rounded_up():
    """A job of 128 nodes with 4 spares, 3 crews and 32 bad nodes, one and a half times as large; and a tenth more."""
    job = load_scenario("firmware-regression").but({"repair.crews": 3})
    larger, little = scaled(job, 1536), scaled(job, 1128)
    assert (larger.pool.spares, larger.repair.crews, larger.cohorts["batch_b"].nodes) == (6, 5, 48)
    assert (little.pool.spares, little.repair.crews, little.cohorts["batch_b"].nodes) == (5, 4, 36)
    assert larger.nominal_mtbi_hours == pytest.approx(job.nominal_mtbi_hours / 1.5)


def test_where_all_cohorts_are_counted_the_last_takes_the_rest():
    counted = {"cohorts.batch_b": {"nodes": 32, "mtbf_hours": 600.0}, "cohorts.default.nodes": 100}
    grown = scaled(BASELINE.but(counted), 1128)
    assert sum(grown.cohort_sizes.values()) == 141 + 5 and grown.cohorts["default"].nodes == 111


@pytest.mark.parametrize("gpus", [0, 7, 1025])
def test_gpus_that_make_no_whole_nodes_are_refused(gpus):
    with pytest.raises(BadInput, match=f"scale: gpus={gpus} must be a multiple of 8"):
        scaled(BASELINE, gpus)


# --- a million GPUs against the closed form ------------------------------------------------------------------------

# At 131,072 nodes an MTBI is 0.866 minutes. All in MTBIs: interval, save, detection, restart.
MILLION = 1_048_576
REGIMES = {
    "as a good job": (0.1, 0.01, 0.02, 0.05),
    "an interval of an MTBI": (1.0, 0.05, 0.1, 0.2),
    "two failures an interval": (2.0, 0.05, 0.3, 0.3),  # most intervals are never finished
    "an outage of two MTBIs": (0.5, 0.1, 0.8, 1.2),
}


def million(interval: float, save: float, detection: float, restart: float, days: float = 0.5, **changes):
    """Return a job of 131,072 nodes whose times are in its MTBIs; spares last."""
    grown = scaled(BASELINE.but({"pool.spares": 16}), MILLION)
    mtbi = 60 * grown.nominal_mtbi_hours
    times = {f"causes.{name}.detection_minutes": detection * mtbi for name in grown.causes}
    times |= {"job.restart_minutes": restart * mtbi, "checkpoint.interval_minutes": interval * mtbi}
    return grown.but(times | {"checkpoint.blocking_minutes": save * mtbi, "days": days} | changes)


def errors_off(scenario, seeds: int) -> float:
    """Return by how many standard errors goodput is off the closed form, what a run's edges are worth taken out.

    A run begins without an outage, and what is in flight at its end counts: together between nothing and an outage and
    an interval, over the run. The difference counts from the nearer end.
    """
    found, mean = wide_runs(experiment([scenario], seeds, jobs=1)), scenario.expected_goodput()
    edges = (scenario.outage_minutes + scenario.interval_minutes) / scenario.days / 24 / 60
    off = found["goodput"].mean() - mean
    beyond = off - np.clip(off, 0, edges * mean)
    assert (found["waiting"] == 0).all()
    return abs(beyond) / (found["goodput"].std(ddof=1) / np.sqrt(seeds))


@pytest.mark.parametrize("strike", ["running", "always"])
@pytest.mark.parametrize("regime", REGIMES)
def test_at_131_072_nodes_goodput_is_the_closed_form(regime, strike):
    """Within 4 standard errors, 8 runs of half a day: 3,000 to 7,000 failures."""
    assert errors_off(million(*REGIMES[regime], **{"failures.strike": strike}), seeds=8) < 4


@pytest.mark.slow
@pytest.mark.parametrize("strike", ["running", "always"])
@pytest.mark.parametrize("regime", REGIMES)
def test_at_131_072_nodes_goodput_is_the_closed_form_for_weeks(regime, strike):
    """Within 4 standard errors, 40 runs of a day."""
    assert errors_off(million(*REGIMES[regime], days=1, **{"failures.strike": strike}), seeds=40) < 4


def test_the_closed_form_is_sharp_enough_to_fail():
    """With a restart a fifth longer than said, it is found out."""
    said, done = (million(0.1, 0.01, 0.02, restart) for restart in (0.05, 0.06))
    found = wide_runs(experiment([done], 8, jobs=1))["goodput"]
    assert said.expected_goodput() - found.mean() > 4 * found.std(ddof=1) / np.sqrt(8)


def test_at_131_072_nodes_faults_by_the_wall_clock_are_poisson():
    """60 runs of 0.05 days with 83 faults expected each: the mean, and the variance by chi-square.

    A slot whose node is away cannot be struck: 1 of 131,072 nodes for each that is.
    """
    from scipy.stats import chi2

    job = million(0.1, 0.01, 0.02, 0.05, days=0.05, **ALWAYS)
    counts = wide_runs(experiment([job], 60, jobs=1))["interruptions"]
    expected = job.days * 24 / job.nominal_mtbi_hours
    assert counts.mean() == pytest.approx(expected, abs=4 * np.sqrt(expected / 60))
    assert 5e-5 < chi2.sf(((counts - counts.mean()) ** 2).sum() / counts.mean(), 59) < 1 - 5e-5


def test_at_131_072_nodes_faults_of_a_running_job_are_poisson_on_its_running_clock_and_steadier_on_the_wall():
    """60 runs: faults are as many as running hours over MTBI, to 4 roots of that.

    With outages of O, all alike, a count is that of a renewal process: variance over mean is (M / (M + O))^2, here
    1 / 1.6^2 where Poisson has 1 (D. R. Cox, Renewal Theory, 1962, sec. 4.2).
    """
    from scipy.stats import chi2

    runs = wide_runs(experiment([million(0.1, 0.01, 0.3, 0.3, days=0.05)], 60, jobs=1))
    expected = runs["running_hours"].sum() / scaled(BASELINE, MILLION).nominal_mtbi_hours
    assert runs["interruptions"].sum() == pytest.approx(expected, abs=4 * np.sqrt(expected))
    ratio = runs["interruptions"].var(ddof=1) / runs["interruptions"].mean()
    assert 5e-5 < chi2.sf(59 * ratio * 1.6**2, 59) < 1 - 5e-5


# --- failures that strike always -----------------------------------------------------------------------------------


def test_an_outage_is_the_overhead_where_nothing_strikes_it():
    assert BASELINE.outage_minutes == BASELINE.overhead_minutes
    rare = turned(BASELINE.but(ALWAYS), "all failures", 1e6)
    assert rare.outage_minutes == pytest.approx(BASELINE.overhead_minutes, rel=1e-6)


def test_an_outage_without_detection_is_the_textbook_one():
    """M (exp(R / M) - 1): a restart of R that a fault breaks begins anew."""
    job = scaled(turned(BASELINE.but(ALWAYS), "detection", 1e15), 32_768)
    mtbi = 60 * job.nominal_mtbi_hours
    assert job.outage_minutes == pytest.approx(mtbi * math.expm1(20 / mtbi))
    by_hand = expected_goodput(job.interval_minutes, mtbi, 5, mtbi * math.expm1(20 / mtbi))
    assert job.expected_goodput() == pytest.approx(by_hand)


def test_the_time_until_it_is_noticed_is_the_integral_that_its_docstring_says():
    job = scaled(BASELINE.but(ALWAYS), 131_072)
    mtbi, rate = job.nominal_mtbi_hours * 60, {"node": 16_384 / 3000, "job": 128 / 40}
    causes = [(c.detection_minutes, rate[c.scope] * c.share * job.nominal_mtbi_hours) for c in job.causes.values()]
    noticed = lambda t: sum(share for length, share in causes if length <= t)  # noqa: E731
    spent = lambda t: sum(share * max(t - length, 0) for length, share in causes)  # noqa: E731
    until = quad(lambda t: (1 - noticed(t)) * math.exp(-spent(t) / mtbi), 0, 30, points=[1, 3, 5])[0]
    assert job.outage_minutes == pytest.approx(math.exp(20 / mtbi) * until + mtbi * math.expm1(20 / mtbi), rel=1e-6)


def test_an_outage_with_mixed_detections_is_the_simulated_one():
    """Down time over outages that ended, 10 runs of 28 days at 32,768 GPUs, an MTBI of 28 minutes."""
    job = scaled(BASELINE.but(ALWAYS | {"pool.spares": 8}), 32_768)
    runs = wide_runs(experiment([job], 10, jobs=1))
    # the job trains M on average before a fault: so down time over running time is outage over M
    down = runs["held_gpu_hours"] / 32_768 - runs["running_hours"]
    ratio = mean_interval(down / runs["running_hours"], 0.9999)
    assert ratio.low < job.outage_minutes / job.nominal_mtbi_hours / 60 < ratio.high
    longest = job.nominal_mtbi_hours * 60 * math.expm1(job.overhead_minutes / job.nominal_mtbi_hours / 60)
    assert longest / job.nominal_mtbi_hours / 60 > ratio.high  # as if a fault began a detection anew


def test_an_outage_whose_restarts_fail_is_the_simulated_one():
    """At an MTBI of 28 minutes, four restarts in ten fail, noticed after 15: most outages meet a fault more."""
    failing = {"restart.failure_share": 0.4, "restart.failure_detection_minutes": 15.0, "pool.spares": 8}
    job = scaled(BASELINE.but(ALWAYS | failing), 32_768)
    runs = wide_runs(experiment([job], 10, jobs=1))
    down = runs["held_gpu_hours"] / 32_768 - runs["running_hours"]
    ratio = mean_interval(down / runs["running_hours"], 0.9999)
    assert ratio.low < job.outage_minutes / job.nominal_mtbi_hours / 60 < ratio.high
    assert (ratio.high - ratio.low) / ratio.mean < 0.25
    sure = scaled(BASELINE.but(ALWAYS | {"pool.spares": 8}), 32_768)
    assert job.outage_minutes > 1.5 * sure.outage_minutes


def test_a_restart_that_fails_and_is_never_struck_costs_itself_and_its_detection():
    rare = turned(BASELINE.but(ALWAYS | {"restart.failure_share": 0.5}), "all failures", 1e6)
    assert rare.outage_minutes == pytest.approx(rare.overhead_minutes, rel=1e-6)


def test_a_restart_of_many_mtbis_never_ends():
    job = scaled(BASELINE.but(ALWAYS | {"job.restart_minutes": 1e4}), 131_072)
    assert job.outage_minutes == math.inf and job.expected_goodput() == 0


# --- dials ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dial", DIALS)
@pytest.mark.parametrize("gpus", [256, 1024, 2048])
def test_a_dial_turned_as_far_as_needed_gives_just_the_target(dial, gpus):
    job = scaled(BASELINE.but(BEST), gpus)
    times = times_needed(job, dial, 0.9)
    if math.isnan(times):
        assert turned(job, dial, 1e12).expected_goodput() < 0.9
        with pytest.raises(BadInput, match=f"dials: target=0.9 must be one that {dial} can meet alone"):
            turned_to(job, dial, 0.9)
    else:
        assert turned_to(job, dial, 0.9).expected_goodput() == pytest.approx(0.9, abs=1e-9)


def test_twice_the_gpus_need_everything_twice_as_fast_or_half_the_failures():
    """Goodput hangs on ratios to the MTBI alone."""
    needed = [times_needed(scaled(BASELINE, gpus), dial, 0.9) for gpus in (1024, 2048) for dial in list(DIALS)[-2:]]
    assert needed == pytest.approx([needed[0], needed[0], 2 * needed[0], 2 * needed[0]])


def test_a_dial_that_does_not_matter_need_not_move_and_one_that_is_too_good_may_give():
    good = turned(BASELINE, "save, detection and restart", 10)
    quick = good.but({f"causes.{name}.detection_minutes": 0 for name in good.causes})
    assert times_needed(quick, "detection", 0.9) == 0 < times_needed(quick, "restart", 0.9) < 1


def test_a_distribution_gets_shorter_as_a_number_does():
    lognormal = {"distribution": "lognormal", "median": 10.0, "sigma": 0.5}
    seen = {"distribution": "empirical", "values": [10.0, 30.0]}
    job = BASELINE.but({"job.restart_minutes": lognormal, "causes.host.detection_minutes": seen})
    faster = turned(job, "save, detection and restart", 4)
    assert faster.overhead_minutes == pytest.approx(job.overhead_minutes / 4)
    assert faster.job.restart_minutes.sigma == 0.5 and faster.causes["host"].detection_minutes.values == [2.5, 7.5]


@pytest.mark.parametrize("target", [0, 1, -0.1])
def test_a_target_that_cannot_be_is_refused(target):
    with pytest.raises(BadInput, match=f"dials: target={target} must be above 0 and below 1"):
        times_needed(BASELINE, "save", target)


@pytest.mark.parametrize("grow", [True, False])
def test_the_size_that_is_kept_has_just_the_target(grow):
    """To a node of 75 in the job, where goodput falls 0.02 points a node."""
    kept = kept_up_to(BASELINE, 0.9, grow)
    job = scaled(BASELINE.but(BEST), 8 * round(kept / 8), job_failures_grow=grow)
    assert job.expected_goodput() == pytest.approx(0.9, abs=0.0005)


def test_no_size_is_kept_where_what_does_not_shrink_is_too_much():
    """A failure of no node each hour costs 34 minutes, also in a job of one node."""
    assert math.isnan(kept_up_to(BASELINE.but({"job_failures.mtbi_hours": 1.0}), 0.9, job_failures_grow=False))


def test_a_row_a_size_and_dial_says_what_it_is_today_and_must_be():
    table = dials_by_size(BASELINE, [512, 8192], 0.9).set_index(["dial", "gpus"])
    save, nodes = table.loc[("save", 512)], table.loc[("node MTBF", 512)]
    assert save["today"] == 5 and save["needed"] == pytest.approx(5 / save["times"])
    assert nodes["today"] == 3000 and nodes["needed"] == pytest.approx(3000 * nodes["times"])
    assert table.loc[("restart", 512), "today"] == 20
    assert table.loc[("detection", 512), "today"] == pytest.approx(BASELINE.overhead_minutes - 20)
    never = table.xs(8192, level="gpus").loc[["save", "detection", "restart", "node MTBF"]]
    assert never["times"].isna().all() and (never["limit"] < 0.9).all()


def test_steps_add_up_and_are_named_after_what_they_change():
    steps = one_after_another(
        BASELINE, {"notice": noticed_within(BASELINE, 3), "rarer": failing_as_rarely(BASELINE, 6000)}
    )
    assert [step.name for step in steps] == ["today", "notice", "rarer"]
    lengths = [cause.detection_minutes for cause in steps[2].causes.values()]
    assert lengths == [3, 3, 3, 3, 3, 1, 3]  # what was seen at once still is
    assert steps[1].job_failures == BASELINE.job_failures
    assert steps[2].nominal_mtbi_hours * 128 == pytest.approx(6000)
    assert steps[2].node_failures_per_hour / steps[2].job_failures_per_hour == pytest.approx(128 / 3000 * 40)


def test_each_step_keeps_a_larger_job_and_the_table_agrees_with_its_parts():
    steps = one_after_another(
        BASELINE, {"save": {"checkpoint.blocking_minutes": 0.1}, "more": turned_changes("restart", 10)}
    )
    table = kept_by_steps(steps, 65_536, 0.9)
    assert table["kept_up_to"].is_monotonic_increasing and table["foreseen"].is_monotonic_increasing
    last = scaled(steps[2].but(BEST), 65_536)
    assert table.iloc[2][["interval_minutes", "foreseen"]].tolist() == [last.interval_minutes, last.expected_goodput()]
    assert (table["mtbi_minutes"] == table["mtbi_minutes"][0]).all()
    assert table["only_nodes_grow"].tolist() == [kept_up_to(step, 0.9, job_failures_grow=False) for step in steps]


def turned_changes(dial: str, times: float) -> dict:
    return DIALS[dial](BASELINE, times)


# --- tables of sizes -----------------------------------------------------------------------------------------------


def test_a_table_of_sizes_has_the_laws_beside_the_simulation():
    table = goodput_by_size(BASELINE.but(BEST | {"pool.spares": 8}), [1024, 16_384], seeds=10)
    for row in table.itertuples():
        job = scaled(BASELINE.but(BEST | {"pool.spares": 8}), row.gpus)
        assert (row.nodes, row.spares, row.foreseen) == (job.job.nodes, job.pool.spares, job.expected_goodput())
        assert row.law_hours == job.nominal_mtbi_hours and row.interval_hours == job.interval_minutes / 60
        assert row.per_interval == pytest.approx((job.interval_minutes + 5) / 60 / job.nominal_mtbi_hours)
        assert row.mtbi_hours_low < row.law_hours < row.mtbi_hours_high
        assert row.goodput_low < row.foreseen < row.goodput_high and row.ratio == row.goodput / row.foreseen
    assert table["as_given_hours"].tolist() == pytest.approx([14.778, 1 / (2048 / 3000 + 1 / 40)], rel=1e-4)


def test_spares_needed_are_the_fewest_that_erlang_allows_and_grow_slower_than_the_job():
    table = spares_by_size(BASELINE, [1024, 8192, 65_536], 0.001)
    for row in table.itertuples():
        assert row.in_repair == repair_load(scaled(BASELINE, row.gpus))
        assert row.waits == pytest.approx(erlang_b(row.in_proportion + 1, row.in_repair))
        assert erlang_b(row.needed + 1, row.in_repair) <= 0.001 < erlang_b(row.needed, row.in_repair)
    assert table["needed_share"].is_monotonic_decreasing


def test_published_times_between_failures_are_those_of_the_sources():
    table = published_by_size()
    assert {(row.gpus, round(row.hours, 2), row.status) for row in table.itertuples()} == {
        (1024, 7.9, "Q"),
        (4096, 10.0, "S"),
        (16_384, 1.8, "S"),
        (131_072, 0.23, "S"),
        (16_384, 3.09, "V"),
    }
