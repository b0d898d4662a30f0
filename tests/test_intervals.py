"""How often do the intervals of rates hold the truth? Exactly, by the Poisson chance of each count, and by simulation.

An exact interval covers at least as often as it says, and with few events much more often, as counts are whole numbers.
So what a simulation is held against is the coverage at its own mean count, and not 90 or 95 %.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from goodput.attribution import interruptions, spans
from goodput.cohorts import by_cohort
from goodput.experiment import experiment, wide_runs
from goodput.metrics import cause_times, mean_time, per_job, rates
from goodput.scenario import load_scenario
from goodput.simulate import cohort_names, simulate_many

BASELINE = load_scenario("baseline")
# Failures and no more: no time down to speak of, no saves, always a spare; so the time at risk is the same in each run.
ONLY_FAILURES = BASELINE.but(
    {
        "pool.spares": 2000,
        "job.restart_minutes": 0.001,
        "checkpoint.interval_minutes": 1e7,
        **{f"causes.{name}.detection_minutes": 0.0 for name in BASELINE.causes},
    },
    name="only-failures",
)


def exact_coverage(events: float, confidence: float) -> float:
    """Return how often the interval holds the true mean time, where so many events are expected in the time seen."""
    counts = np.arange(0, int(events + 20 * np.sqrt(events) + 30))
    ends = np.array([mean_time(events, int(count), confidence)[1:3] for count in counts])  # the true mean time is 1
    return float(stats.poisson.pmf(counts, events)[(ends[:, 0] <= 1) & (ends[:, 1] >= 1)].sum())


def assert_covers(held: np.ndarray, events: float, confidence: float) -> None:
    """Check a coverage by simulation against the exact one, within 3 binomial standard errors."""
    right = exact_coverage(events, confidence)
    assert np.mean(held) == pytest.approx(right, abs=3 * np.sqrt(right * (1 - right) / len(held)) + 1e-9)


@pytest.mark.parametrize(
    ("events", "covered"),
    [(1e-6, 1.000), (0.01, 0.990), (1, 0.981), (2.76, 0.977), (3, 0.917), (4.13, 0.958), (40, 0.918)],
)
def test_intervals_at_ninety_per_cent_cover_this_often_at_these_means(events, covered):
    """95.8 % at 4.13 expected events, 97.7 % at 2.76, near 90 % at 40: the sum of the Poisson chances of all counts
    whose interval holds the truth. Where next to none are expected only the lower bound speaks, and it is right."""
    assert exact_coverage(events, 0.90) == pytest.approx(covered, abs=0.0006)


def test_coverage_is_never_under_what_is_said_and_with_many_events_just_that():
    means = np.geomspace(0.05, 300, 150)
    for confidence in (0.80, 0.90, 0.95):
        covered = np.array([exact_coverage(events, confidence) for events in means])
        assert covered.min() >= confidence
        assert covered[means > 100].mean() < confidence + 0.015


@pytest.mark.parametrize("events", [0, 1, 3, 40])
def test_simulated_runs_cover_the_true_mtbi_as_often_as_the_poisson_law_says(events):
    """500 runs, each as long as so many interruptions take on average; 0: a job that is not interrupted in 1e9 h."""
    scenario = ONLY_FAILURES.but({"days": max(events, 1) * ONLY_FAILURES.nominal_mtbi_hours / 24})
    if not events:
        never = {f"cohorts.{name}.mtbf_hours": 1e12 for name in scenario.cohorts}
        scenario = scenario.but({**never, "job_failures.mtbi_hours": 1e12})
    log = simulate_many(scenario, range(1, 501))
    jobs = per_job(spans(log), interruptions(log))
    for confidence in (0.90, 0.95):
        found = [rates(jobs[at : at + 1], confidence).mtbi for at in range(len(jobs))]
        held = np.array([rate.low <= scenario.nominal_mtbi_hours <= rate.high for rate in found])
        assert_covers(held, events or 1e-9, confidence)


def test_each_cause_is_covered_as_often_as_the_poisson_law_says_at_its_own_mean():
    """400 months of baseline: causes are expected 3 to 10 times each."""
    runs = experiment([BASELINE], 400, jobs=1)
    running = wide_runs(runs)["running_hours"]
    counts = runs[runs["metric"] == "cause_count"].pivot(index="seed", columns="cause", values="value").astype(int)
    per_hour = {"node": BASELINE.node_failures_per_hour, "job": BASELINE.job_failures_per_hour}
    true = {name: 1 / (per_hour[cause.scope] * cause.share) for name, cause in BASELINE.causes.items()}
    held = {name: [] for name in true}
    for seed, row in counts.iterrows():
        causes = pd.DataFrame({"cause": row.index, "count": row.to_numpy()})
        for time in cause_times(causes, running[BASELINE.name, seed], 0.90).itertuples():
            held[time.cause].append(time.low <= true[time.cause] <= time.high)
    for name in true:
        assert_covers(np.array(held[name]), running.mean() / true[name], 0.90)


@pytest.mark.parametrize("runs", [60, pytest.param(500, marks=pytest.mark.slow)])
def test_each_cohort_is_covered_as_often_as_the_poisson_law_says_at_its_own_mean(runs):
    """Of the firmware regression: the good nodes, and those of batch_b, which fail five times as often."""
    scenario = load_scenario("firmware-regression")
    found = []
    for seed in range(1, runs + 1):
        log = simulate_many(scenario, [seed])
        found.append(by_cohort(log, spans(log), interruptions(log), cohort_names(scenario), 0.90))
    for name, table in pd.concat(found).groupby("cohort"):
        true = scenario.cohorts[name].mtbf_hours
        held = (table["low"] <= true) & (true <= table["high"])
        assert_covers(held.to_numpy(), table["node_hours"].mean() / true, 0.90)
