"""Do the intervals of a fit hold the truth as often as they say? By simulation, over many logs of one month each.

Slow: GOODPUT_SLOW=1. Intervals of 90 % from few events are exact, so they hold it more often than that: how often is
reckoned from the Poisson distribution at the mean number of events.
"""

import math

import numpy as np
import pandas as pd
import pytest

from goodput.attribution import interruptions, spans
from goodput.bootstrap import what_if
from goodput.calibrate import calibrate
from goodput.cohorts import cohorts_by_day
from goodput.events import codes
from goodput.experiment import experiment, wide_runs
from goodput.metrics import mean_time, per_job
from goodput.scenario import SEVEN, load_scenario
from goodput.simulate import cohort_names, simulate, simulate_many

LOGS, LEVEL = 200, 0.90


def counted(scenario, seeds) -> pd.DataFrame:
    """Return one row a log and quantity: `log`, `what`, `count`, `hours` of exposure, and the `truth` in hours."""
    log = simulate_many(scenario, seeds)
    stretches, struck = spans(log), interruptions(log)
    jobs = per_job(stretches, struck)
    running, node = jobs["running_hours"].to_numpy(), jobs["node_hours"].to_numpy()
    number = np.arange(len(jobs))
    job_mtbi = scenario.job_failures.mtbi_hours
    parts = [(number, "job", (jobs["failures"] - jobs["node_failures"]).to_numpy(), running, job_mtbi)]
    by_cause = struck.groupby(["job", "cause"], observed=False).size().unstack().to_numpy()
    one = len(scenario.cohorts) == 1
    mtbf = next(iter(scenario.cohorts.values())).mtbf_hours
    if one:  # with two cohorts the mix decides, and changes
        parts.append((number, "mtbi", jobs["interruptions"].to_numpy(), running, scenario.nominal_mtbi_hours))
    for column, (name, cause) in enumerate(scenario.causes.items()):
        if cause.scope == "job" or one:
            hours, truth = (running, job_mtbi) if cause.scope == "job" else (node, mtbf)
            parts.append((number, name, by_cause[:, column], hours, truth / cause.share))
    days = cohorts_by_day(log, stretches, struck, cohort_names(scenario), 24 * scenario.days)
    for label, cohort in scenario.cohorts.items():
        mine = days[days["cohort"] == label]
        parts.append(
            (codes(mine["job"]), label, mine["failures"].to_numpy(), mine["node_hours"].to_numpy(), cohort.mtbf_hours)
        )
    frames = [pd.DataFrame(dict(zip(["log", "what", "count", "hours", "truth"], each, strict=True))) for each in parts]
    return pd.concat(frames, ignore_index=True)


def expected_coverage(mean: float) -> float:
    """Return how often the exact interval holds the truth at a mean number of events: the sum of its pmf where it does.

    At 4.13 events 95.8 %, at 2.76 97.7 %, at 40 still 91.8 %.
    """
    covered = 0.0
    for count in range(int(mean + 12 * math.sqrt(mean) + 20)):
        found = mean_time(mean, count, LEVEL)
        if found.low <= 1 <= found.high:
            covered += math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
    return covered


@pytest.mark.parametrize(("mean", "share"), [(4.13, 0.958), (2.76, 0.977), (40, 0.918)])
def test_exact_intervals_from_few_events_hold_the_truth_more_often_than_they_say(mean, share):
    assert expected_coverage(mean) == pytest.approx(share, abs=0.001)


def test_the_counts_of_this_study_are_those_of_calibrate():
    base = load_scenario("baseline")
    table = counted(base, [7]).set_index("what")
    fit = calibrate(simulate(base, 7))
    for what, path in (("default", "cohorts.default.mtbf_hours"), ("job", "job_failures.mtbi_hours")):
        assert fit.row(path).events == table.loc[what, "count"]
        assert fit.row(path).exposure == pytest.approx(table.loc[what, "hours"])
    causes = fit.causes.set_index("cause")
    assert causes["count"].to_dict() == table["count"].reindex(causes.index).to_dict()
    assert causes["exposure_hours"].to_dict() == pytest.approx(table["hours"].reindex(causes.index).to_dict())


@pytest.mark.slow
@pytest.mark.parametrize("name", SEVEN)
def test_rates_hold_the_truth_as_often_as_exact_intervals_do(name):
    """200 logs of 28 days: node MTBF of each cohort, job failures, MTBI and each cause, within 3 binomial errors."""
    table = counted(load_scenario(name), range(1, LOGS + 1))
    limits = np.array([mean_time(row.hours, row.count, LEVEL)[1:3] for row in table[["hours", "count"]].itertuples()])
    table["covers"] = (limits[:, 0] <= table["truth"]) & (table["truth"] <= limits[:, 1])
    for what, mine in table.groupby("what"):
        expected = expected_coverage((mine["hours"] / mine["truth"]).mean())
        error = math.sqrt(expected * (1 - expected) / len(mine))
        assert abs(mine["covers"].mean() - expected) <= 3 * error, (what, mine["covers"].mean(), expected)


@pytest.mark.slow
def test_what_eight_spares_would_gain_is_told_by_single_logs_about_as_often_as_they_say():
    """50 logs of one month of baseline, its four spares known; the truth from 2,000 seeds.

    42 of these 50 intervals hold it, and 87 of the first 100. The middle of a skew gain varies threefold between logs.
    """
    base = load_scenario("baseline")
    more = base.but({"pool.spares": 8}, "more")
    productive = wide_runs(experiment([base, more], range(100_001, 102_001)))["productive"]
    truth = (productive["more"] - productive["baseline"]).mean()
    fits = [calibrate(simulate(base, seed), spares=4) for seed in range(1, 51)]
    # another seed for each, so that the luck of the runs is not common to all
    gains = [what_if(fit, {"pool.spares": 8}, seed=seed) for seed, fit in enumerate(fits, 1)]
    held = [gain.low <= truth <= gain.high for gain in gains]
    assert 0.80 <= np.mean(held) <= 0.95, (truth, np.mean(held))
    assert np.median([gain.gpu_hours for gain in gains]) == pytest.approx(truth, rel=0.5)


@pytest.mark.slow
def test_goodput_after_a_change_is_told_by_single_logs_as_often_as_they_say():
    """Eight logs of each scenario, restarts cut to 5 min; within 3 binomial errors of 90 %: 0.79 and up.

    Over 290 logs, 30 to 60 a scenario, 260 intervals held the truth (89.7 %).
    """
    held = [hold for name in SEVEN for hold in goodput_held(load_scenario(name), {"job.restart_minutes": 5.0}, 8)]
    assert abs(np.mean(held) - LEVEL) <= 3 * math.sqrt(LEVEL * (1 - LEVEL) / len(held))


def goodput_held(scenario, changes, logs: int) -> list[bool]:
    """Return for each log whether the interval of the goodput after a change holds the mean of 400 other runs."""
    truth = wide_runs(experiment([scenario.but(changes)], range(100_001, 100_401)))["goodput"].mean()
    nodes = {names: label for label, names in cohort_names(scenario).items()} if len(scenario.cohorts) > 1 else None
    fits = [calibrate(simulate(scenario, seed), nodes, scenario.pool.spares) for seed in range(1, logs + 1)]
    gains = [what_if(fit, changes, draws=60, seed=seed) for seed, fit in enumerate(fits, 1)]
    return [gain.goodput_low <= truth <= gain.goodput_high for gain in gains]
