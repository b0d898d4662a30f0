"""Laws that a right simulation cannot break: closed forms, Little, Poisson, and a twin with a clock in each node.

Seeds are fixed, so each test gives the same answer every time. Where a test is statistical, a right simulation would
fail it at about one choice of seeds in 10,000 (4 standard errors, or p < 1e-4).
"""

import numpy as np
import pytest
from naive import OUR_DAY, failures, play_naively
from scipy import stats

from goodput.attribution import interruptions, spans
from goodput.checkpoint import expected_goodput, first_order_goodput
from goodput.events import micros
from goodput.experiment import experiment, wide_runs
from goodput.metrics import per_job
from goodput.scenario import load_scenario
from goodput.simulate import cohort_names, simulate, simulate_many

BASELINE = load_scenario("baseline")
HOUR = 3_600_000_000
LEVEL = 1e-4
# Failures, repairs and no more: hardly any time down, hardly any saves, and always a spare.
ONLY_FAILURES = BASELINE.but(
    {
        "pool.spares": 2000,
        "job.restart_minutes": 0.001,
        "checkpoint.interval_minutes": 1e7,
        **{f"causes.{name}.detection_minutes": 0.0 for name in BASELINE.causes},
    },
    name="only-failures",
)


# --- the closed form of goodput ------------------------------------------------------------------------------------

INTERVALS = [(30, 5), (90.860889, 5), (300, 5), (29.4451, 0.5)]


def unlimited(interval: float, save: float):
    return BASELINE.but(
        {
            "pool.spares": 2000,
            "days": 1000,
            "checkpoint.interval_minutes": interval,
            "checkpoint.blocking_minutes": save,
        }
    )


@pytest.mark.parametrize(("interval", "save"), INTERVALS)
def test_with_spares_without_limit_goodput_is_the_exact_expectation(interval, save):
    """Within 4 standard errors, over 12 runs of 1,000 days, some 1,600 interruptions each.

    A run of finite length is better than the long-run formula: it begins without an outage (worth O x goodput, under
    30 min here) and what is in flight at its end counts as kept (at most the interval). Against 1,000 days that is
    under 0.0001 even at 300 min, where the standard error is 0.001; at 30 min it is 0.00002 against 0.0003.
    """
    scenario = unlimited(interval, save)
    goodput = wide_runs(experiment([scenario], 12, jobs=1))["goodput"]
    error = goodput.std(ddof=1) / np.sqrt(len(goodput))
    args = (interval, scenario.nominal_mtbi_hours * 60, save, scenario.overhead_minutes)
    assert abs(goodput.mean() - expected_goodput(*args)) < 4 * error
    if interval == 300:  # and here the first order is far off
        assert abs(goodput.mean() - first_order_goodput(*args)) > 10 * error


def test_the_time_lost_and_down_is_what_its_parts_make_it():
    """Detection and restart are the overhead of each interruption, by its cause; nothing is waited for."""
    table = per_job(*_taken_apart(simulate_many(unlimited(90, 5), [1, 2])))
    scenario = unlimited(90, 5)
    assert (table["waiting"] == 0).all()
    down = (table["detection"] + table["restart"]) / scenario.job.nodes / scenario.job.gpus_per_node
    mean = down.sum() * 60 / table["interruptions"].sum()
    # detection differs by cause: its spread over causes is under 14 min
    assert mean == pytest.approx(scenario.overhead_minutes, abs=4 * 14 / np.sqrt(table["interruptions"].sum()))


def _taken_apart(log):
    return spans(log), interruptions(log)


def test_the_mtbi_is_the_nominal_one():
    """Running time over interruptions of 12 runs of 1,000 days, within 4 standard errors (1 / sqrt(count))."""
    table = per_job(*_taken_apart(simulate_many(ONLY_FAILURES.but({"days": 1000}), range(1, 13))))
    count = table["interruptions"].sum()
    mtbi = table["running_hours"].sum() / count
    assert mtbi == pytest.approx(BASELINE.nominal_mtbi_hours, rel=4 / np.sqrt(count))


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


# --- the repair shop -----------------------------------------------------------------------------------------------


def shop_visits(log) -> tuple[np.ndarray, np.ndarray]:
    """Return when each visit to the shop began and ended (the end of the log where it did not), in hours."""
    down, visits, end = {}, [], micros(log["time"]).max()
    for event, node, time in zip(log["event"], log["node"], micros(log["time"]).tolist()):
        if event == "node_down":
            down[node] = time
        if event == "node_repaired":
            visits.append((down.pop(node), time))
    visits += [(time, end) for time in down.values()]
    begin, until = (np.array(sorted(visits)).T - OUR_DAY) / HOUR
    return begin, until


def in_shop(log, hours: np.ndarray) -> np.ndarray:
    """Return how many nodes are in the shop at each hour, counted from the log's node events."""
    moves = log[log["event"].isin(["node_down", "node_repaired"])]
    step = np.where(moves["event"] == "node_down", 1, -1)
    at = np.searchsorted((micros(moves["time"]) - OUR_DAY) / HOUR, hours, side="right")
    return np.concatenate([[0], np.cumsum(step)])[at]


@pytest.mark.parametrize("crews", [None, 2])
def test_littles_law_holds_in_the_repair_shop(crews):
    """The time-average number in the shop is the arrival rate times the mean time there, queueing included.

    Number: the shop counted each quarter of an hour over 4,000 days. Time: the visits that ended. The two share no
    edge: visits under way at the end, at most a few of some 2,700, and the counting leave a hundredth between them.
    """
    log = simulate(ONLY_FAILURES.but({"days": 4000, "repair.crews": crews}), 1)
    begin, until = shop_visits(log)
    done = until < 4000 * 24
    number = in_shop(log, np.arange(0, 4000 * 24, 0.25)).mean()
    rate, time = len(begin) / (4000 * 24), (until - begin)[done].mean()
    assert number == pytest.approx(rate * time, rel=0.01)
    assert done.mean() > 0.99 and (time > 60 if crews else time < 52)


def test_time_in_the_shop_is_the_mean_repair_when_crews_are_unlimited():
    """Of some 2,700 visits, exponential with mean 48 h: within 4 standard errors, and by Kolmogorov-Smirnov."""
    begin, until = shop_visits(simulate(ONLY_FAILURES.but({"days": 4000}), 1))
    length = (until - begin)[until < 3900 * 24]
    assert length.mean() == pytest.approx(48, abs=4 * 48 / np.sqrt(len(length)))
    assert stats.kstest(length, "expon", args=(0, 48)).pvalue > LEVEL


def test_nodes_in_repair_are_poisson_when_crews_are_unlimited():
    """Arrivals are Poisson and none waits, so the number in repair is Poisson with mean rate x 48 h = 1.434.

    Counted each 10 days, five mean repairs apart, in 10 runs of 4,000 days: mean and variance within 4 standard
    errors of it, and chi-square over 0, 1, ... 5, 6 or more. (With the baseline's outages arrivals would be a
    little more regular: a node that breaks keeps the others from breaking for some 50 minutes.)
    """
    mean = 128 / 3000 * 0.7 * 48
    counts = np.concatenate(
        [
            in_shop(simulate(ONLY_FAILURES.but({"days": 4000}), seed), np.arange(240, 96_000, 240))
            for seed in range(1, 11)
        ]
    )
    n = len(counts)
    assert counts.mean() == pytest.approx(mean, abs=4 * np.sqrt(mean / n))
    spread = np.sqrt((mean + 2 * mean**2) / n)  # standard error of a variance: fourth moment less its square, over n
    assert counts.var(ddof=1) == pytest.approx(mean, abs=4 * spread)
    bins = np.minimum(np.arange(7), 6)
    observed = np.bincount(np.minimum(counts, 6), minlength=len(bins))
    chance = np.append(stats.poisson.pmf(np.arange(6), mean), stats.poisson.sf(5, mean))
    assert stats.chisquare(observed, n * chance).pvalue > LEVEL


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
