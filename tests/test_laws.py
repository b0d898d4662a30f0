"""Laws that a right simulation cannot break: failures are Poisson, and strike as from a clock in each node.

Seeds are fixed, so each test gives the same answer every time. Where a test is statistical, a right simulation would
fail it at about one choice of seeds in 10,000 (4 standard errors, or p < 1e-4).
"""

import numpy as np
import pytest
from naive import failures, only_failures, play_naively
from scipy import stats

from goodput.attribution import interruptions, spans
from goodput.metrics import per_job
from goodput.scenario import load_scenario
from goodput.simulate import cohort_names, simulate, simulate_many

BASELINE = load_scenario("baseline")
HOUR = 3_600_000_000
LEVEL = 1e-4
ONLY_FAILURES = only_failures(BASELINE)


# --- failures are Poisson on the running clock ---------------------------------------------------------------------


def test_interruptions_are_poisson_given_the_running_time():
    """In the first 300 running hours of each of 600 runs: mean 300 / 14.778, and variance equal to it.

    (n - 1) x variance / mean is chi-square with n - 1 degrees of freedom, taken two-sided.
    """
    log = simulate_many(BASELINE.but({"pool.spares": 2000, "checkpoint.interval_minutes": 1e7}), range(1, 601))
    counts = np.array([sum(at < 300 * HOUR for at, _ in run) for run in failures(log)])
    expected = 300 / BASELINE.nominal_mtbi_hours
    assert counts.mean() == pytest.approx(expected, abs=4 * np.sqrt(expected / len(counts)))
    dispersion = stats.chi2.cdf((len(counts) - 1) * counts.var(ddof=1) / counts.mean(), len(counts) - 1)
    assert LEVEL / 2 < dispersion < 1 - LEVEL / 2


def test_gaps_between_failures_are_exponential_also_after_an_outage():
    """Kolmogorov-Smirnov against the exponential of mean MTBI, over some 5,000 gaps on the running clock."""
    log = simulate_many(BASELINE.but({"days": 1000, "checkpoint.interval_minutes": 1e7}), [1, 2, 3])
    gaps = np.concatenate([np.diff([at for at, _ in run], prepend=0) / HOUR for run in failures(log)])
    assert len(gaps) > 4000
    assert stats.kstest(gaps, "expon", args=(0, BASELINE.nominal_mtbi_hours)).pvalue > LEVEL


def test_causes_come_in_their_shares():
    """Chi-square of the counts by cause against share x rate of the scope, over some 6,500 failures."""
    log = simulate(ONLY_FAILURES.but({"days": 4000}), 1)
    counts = interruptions(log)["cause"].value_counts()
    rates = {"node": BASELINE.node_failures_per_hour, "job": BASELINE.job_failures_per_hour}
    weight = {name: rates[cause.scope] * cause.share for name, cause in BASELINE.causes.items()}
    expected = np.array([weight[name] for name in counts.index]) / sum(weight.values()) * counts.sum()
    assert stats.chisquare(counts, expected).pvalue > LEVEL


def test_every_slot_is_struck_alike():
    """Chi-square of the failures by node over 128 nodes, with no repair, so that each stays in its slot."""
    causes = {name: False for name, cause in BASELINE.causes.items() if cause.scope == "node"}
    still = ONLY_FAILURES.but({"days": 4000} | {f"causes.{name}.needs_repair": value for name, value in causes.items()})
    struck = (
        interruptions(simulate(still, 1))["node"]
        .value_counts()
        .reindex([f"node{number:04}" for number in range(128)], fill_value=0)
    )
    assert struck.sum() > 3000
    assert stats.chisquare(struck).pvalue > LEVEL


# --- thinning against a clock in each node -------------------------------------------------------------------------


def test_thinning_agrees_with_a_clock_in_each_node():
    """Failures by cohort, interruptions, running and waiting time of 300 runs each, within 4 joint standard errors.

    The bad batch is the case that matters: which cohort sits in a slot changes with every repair.
    """
    scenario = load_scenario("firmware-regression").but({"checkpoint.interval_minutes": 1e7})
    log = simulate_many(scenario, range(1, 301))
    table, struck = spans(log), interruptions(log)
    jobs = per_job(table, struck)
    hours = scenario.job.nodes * scenario.job.gpus_per_node
    ours = {
        "interruptions": jobs["interruptions"],
        "running": jobs["running_hours"],
        "waiting": jobs["waiting"] / hours,
        **{name: _failures_of(struck, first, last) for name, (first, last) in _ranges(scenario).items()},
    }
    runs = [play_naively(scenario, np.random.default_rng(seed)) for seed in range(300)]
    theirs = {
        "interruptions": [run.interruptions for run in runs],
        "running": [run.running_hours for run in runs],
        "waiting": [run.waiting_hours for run in runs],
        **{name: [run.failures.get(name, 0) for run in runs] for name in scenario.cohorts},
    }
    for name in theirs:
        one, other = np.asarray(ours[name], float), np.asarray(theirs[name], float)
        error = np.sqrt(one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other))
        assert abs(one.mean() - other.mean()) < 4 * error, name


def _ranges(scenario) -> dict[str, tuple[int, int]]:
    return {name: tuple(map(int, names[5:-1].split("-"))) for name, names in cohort_names(scenario).items()}


def _failures_of(struck, first: int, last: int) -> np.ndarray:
    """Return how many failures of nodes first to last each run had."""
    number = struck["node"].str.removeprefix("node").astype(float)
    mine = struck[number.between(first, last)]
    return mine["job"].value_counts(sort=False).to_numpy()
