"""Laws of the repair shop that a right simulation cannot break: Little, Poisson, Erlang, and lines for few crews.

Seeds are fixed, so each test gives the same answer every time. Where a test is statistical, a right simulation would
fail it at about one choice of seeds in 10,000 (4 standard errors, or p < 1e-4).
"""

import numpy as np
import pytest
from naive import OUR_DAY, only_failures
from scipy import stats

from goodput.events import micros
from goodput.experiment import experiment, wide_runs
from goodput.queueing import crew_wait, crews_busy, erlang_b, mean_wait, repair_load, waiting_share
from goodput.scenario import load_scenario
from goodput.shop import shop_per_job
from goodput.simulate import simulate, simulate_many

BASELINE = load_scenario("baseline")
HOUR = 3_600_000_000
LEVEL = 1e-4
ONLY_FAILURES = only_failures(BASELINE)


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


# --- spares: Erlang's loss formula ---------------------------------------------------------------------------------


def waited(scenario, runs: int) -> tuple[float, float]:
    """Return the mean share of time in which the job waits for a node, and its standard error."""
    found = wide_runs(experiment([scenario], runs, jobs=1))
    share = found["waiting"] / found["held_gpu_hours"]
    return share.mean(), share.std(ddof=1) / np.sqrt(runs)


def shelf(spares: int, repair_hours: float, days: float, crews: int | None = None, **more):
    return ONLY_FAILURES.but(
        {"pool.spares": spares, "repair.mean_hours": repair_hours, "repair.crews": crews, "days": days} | more
    )


@pytest.mark.parametrize(("spares", "repair_hours"), [(0, 17.0), (1, 48.0), (3, 96.0), (6, 200.0)])
def test_in_the_long_run_a_job_waits_for_spares_as_erlang_says(spares, repair_hours):
    """Loads of 0.5 to 6, shares waited of 0.18 to 0.34: within 4 standard errors, over 12 runs of 2,000 days.

    A run of 2,000 days, 240 mean repairs or more, starts healthy: worth at most 0.001, a fifth of a standard error.
    """
    scenario = shelf(spares, repair_hours, days=2000)
    mean, error = waited(scenario, 12)
    assert mean == pytest.approx(erlang_b(spares + 1, repair_load(scenario)), abs=4 * error)
    assert error < 0.006


def test_a_month_that_starts_healthy_waits_less_than_the_long_run_and_by_what_the_chain_says():
    """28 days are 7 mean repairs of 96 h: 0.145 of such a month is waited for, and 0.191 in the long run.

    400 months: within 4 standard errors of the one, and more than 4 below the other.
    """
    month = shelf(3, 96.0, days=28)
    mean, error = waited(month, 400)
    load = repair_load(month)
    assert mean == pytest.approx(waiting_share(3, load, run=7), abs=4 * error)
    assert mean < waiting_share(3, load) - 4 * error


def test_where_an_outage_is_long_against_a_repair_erlang_says_too_much():
    """Restarts of 48 h against repairs of 48 h: nodes are mended while the job is down anyway.

    The law's load is already that of the time in which the job can fail, so what remains is this overlap.
    """
    slow = shelf(1, 48.0, days=2000, **{"job.restart_minutes": 48 * 60.0})
    mean, error = waited(slow, 12)
    assert mean < waiting_share(1, repair_load(slow)) - 4 * error


@pytest.mark.parametrize("crews", [1, 2, 3])
def test_with_few_crews_a_job_waits_as_the_chain_says(crews):
    scenario = shelf(2, 48.0, days=2000, crews=crews)
    mean, error = waited(scenario, 12)
    assert mean == pytest.approx(waiting_share(2, repair_load(scenario), crews), abs=4 * error)


# --- crews: lines for one, two and three ---------------------------------------------------------------------------


@pytest.mark.parametrize("spares", [4, 40])
@pytest.mark.parametrize("crews", [1, 2, 3])
def test_nodes_wait_for_few_crews_as_lines_with_so_many_servers_do(crews, spares):
    """Crews used to some 60 %, 12 runs of 2,000 days: mean wait and crews at work, within 4 standard errors.

    With 40 spares hardly any job waits, and the wait is that of M/M/c; with 4 the line is cut off and shorter.
    """
    scenario = shelf(spares, 0.6 * crews / 1.434 * 48, days=2000, crews=crews)
    load, service = repair_load(scenario), scenario.repair.mean_hours
    shop = shop_per_job(simulate_many(scenario, range(1, 13)))
    waits, busy = shop["wait_hours"] / shop["trips"], shop["repair_hours"] / shop["hours"]
    error = waits.std(ddof=1) / np.sqrt(12)
    assert waits.mean() == pytest.approx(crew_wait(spares, load, crews, service), abs=4 * error)
    expected = crews_busy(spares, load, crews)
    assert busy.mean() == pytest.approx(expected, abs=4 * busy.std(ddof=1) / np.sqrt(12))
    line = mean_wait(crews, load, service)
    assert waits.mean() == pytest.approx(line, abs=4 * error) if spares == 40 else waits.mean() < line - 4 * error
