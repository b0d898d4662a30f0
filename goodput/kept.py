"""What is kept of a run? One row of numbers, its ledger, made where the run was played; the log is let go.

Like a shop that keeps the day's sums and not the till rolls: a month fits in a page, however busy the days were.
"""

import math

import numpy as np
import pandas as pd

from goodput.attribution import CATEGORIES, interruptions, spans
from goodput.events import codes
from goodput.metrics import per_job
from goodput.scenario import Scenario
from goodput.simulate import simulate_many

COUNTS = ["running_hours", "node_hours", "interruptions", "failures", "node_failures"]
METRICS = [*CATEGORIES, "held_gpu_hours", "goodput", *COUNTS]
BY_CAUSE = ("cause_count", "cause_gpu_hours")
EVENTS = 130_000  # of the logs that are in memory together: fewer cost calls of pandas, more cost memory
MOST = 64  # runs of one batch: what an interrupted experiment may have to play again
STOP_EVENTS, SAVE_EVENTS = 7, 2  # of an interruption with its repair, of a save


def columns_of(scenario: Scenario) -> list[str]:
    """Return the names of what is kept of a run: metrics of `per_job`, then two for each cause.

    >>> from goodput.scenario import load_scenario
    >>> columns_of(load_scenario("baseline"))[13:15]
    ['node_failures', 'cause_count.gpu_xid79']
    """
    return [*METRICS, *(f"{metric}.{cause}" for metric in BY_CAUSE for cause in scenario.cause_names)]


def kept_of_runs(scenario: Scenario, seeds: list[int]) -> pd.DataFrame:
    """Return one row a seed, float64, with the columns of `columns_of`; the runs' logs are in memory together."""
    log = simulate_many(scenario, seeds)
    stretches, struck = spans(log), interruptions(log)
    runs = per_job(stretches, struck)[METRICS].to_numpy(float)
    causes = len(scenario.cause_names)
    count = _by_job_and_cause(struck, np.ones(len(struck)), len(seeds), causes)
    cost = _by_job_and_cause(stretches, stretches["gpu_hours"], len(seeds), causes)
    return pd.DataFrame(np.hstack([runs, count, cost]), pd.Index(seeds, name="seed"), columns_of(scenario))


def _by_job_and_cause(rows: pd.DataFrame, values, jobs: int, causes: int) -> np.ndarray:
    known = np.flatnonzero(codes(rows["cause"]) >= 0)
    cell = codes(rows["job"])[known] * causes + codes(rows["cause"])[known]
    return np.bincount(cell, np.asarray(values, float)[known], jobs * causes).reshape(jobs, causes)


def events_of_a_run(scenario: Scenario) -> float:
    """Return about how many events a run's log has: what its time and memory follow.

    >>> from goodput.scenario import load_scenario
    >>> round(events_of_a_run(load_scenario("baseline")), -2)
    2600.0
    """
    minutes = scenario.days * 1440
    stops = minutes / (60 * scenario.nominal_mtbi_hours + scenario.overhead_minutes)
    saves = minutes / (scenario.interval_minutes + scenario.checkpoint.blocking_minutes)
    return STOP_EVENTS * stops + SAVE_EVENTS * saves


def batch_size(scenario: Scenario) -> int:
    """Return how many runs are played together: many short ones, or one long one.

    >>> from goodput.scenario import load_scenario
    >>> baseline = load_scenario("baseline")
    >>> batch_size(baseline.but({"days": 1})), batch_size(baseline), batch_size(baseline.but({"days": 3650}))
    (64, 49, 1)
    """
    return max(1, min(MOST, math.floor(EVENTS / (1 + events_of_a_run(scenario)))))
