"""Where does each formula hold? Formulas against the simulation of a job stripped to what they speak of.

Think of a test bench: the engine alone, without the car. Times are ratios: those of a job in its MTBIs, those of
a repair shop in mean repairs.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd

from goodput.checkpoint import daly_interval, expected_goodput, first_order_goodput, optimal_interval, young_interval
from goodput.errors import BadInput
from goodput.experiment import experiment, wide_runs
from goodput.scenario import Scenario, load_scenario

UNIT_HOURS = 10.0  # of an MTBI or a mean repair; whole microseconds are then fine enough
LEVELS = (0.001, 0.01, 0.05)  # of a difference of shares: 0.1, 1 and 5 percentage points
FORMULAS = {"first order": first_order_goodput, "exact": expected_goodput}
INTERVALS = {"Young": young_interval, "Daly": daly_interval, "exact": optimal_interval}


def bare_job(interval: float, save: float, overhead: float, failures: float, name: str | None = None) -> Scenario:
    """Return a job of one node that fails, restarts and saves, and no more; times in its MTBIs of 10 hours.

    Its one cause needs neither detection nor repair, so the overhead is the restart, and no node is ever waited for.
    It lasts as long as that many `failures` take on average.

    >>> bare_job(0.5, 0.01, 0.1, failures=100).overhead_minutes
    60.0
    """
    changes = {
        "job.restart_minutes": overhead * UNIT_HOURS * 60,
        "checkpoint.interval_minutes": interval * UNIT_HOURS * 60,
        "checkpoint.blocking_minutes": save * UNIT_HOURS * 60,
        "days": failures * (1 + overhead) * UNIT_HOURS / 24,
    }
    return _one_node().but(changes, name=name or f"{interval:g} {save:g} {overhead:g}")


def _one_node(needs_repair: bool = False) -> Scenario:
    data = load_scenario("baseline").model_dump(exclude_none=True)
    cause = {"scope": "node", "share": 1.0, "detection_minutes": 0.0, "needs_repair": needs_repair}
    data |= {"name": "bare", "causes": {"fault": cause}, "cohorts": {"default": {"mtbf_hours": UNIT_HOURS}}}
    data |= {"job": {"nodes": 1, "gpus_per_node": 1, "restart_minutes": 1.0}, "job_failures": {}, "pool": {"spares": 0}}
    return Scenario.model_validate(data)


def without_luck(values, luck) -> tuple[float, float]:
    """Return the mean of runs with what their luck explains taken out, and its standard error.

    A control variate (A. M. Law, Simulation Modeling and Analysis, ch. 11): `luck` must have a mean of zero that is
    known, not measured; the line through the runs is read off where luck is zero.

    >>> mean, error = without_luck([0.7, 0.8, 0.9], luck=[2, 0, -2])  # all of it was luck
    >>> round(mean, 6), round(error, 6)
    (0.8, 0.0)
    """
    values, luck = np.asarray(values, float), np.asarray(luck, float)
    around = luck - luck.mean()
    slope = around @ values / (around @ around)
    rest = values - values.mean() - slope * around
    error = np.sqrt(rest @ rest / (len(rest) - 2) * (1 / len(rest) + luck.mean() ** 2 / (around @ around)))
    return float(values.mean() - slope * luck.mean()), float(error)


def bench_goodput(
    intervals: Sequence[float], overheads: Sequence[float], save: float, failures: int, runs: int
) -> pd.DataFrame:
    """Return one row an (interval, overhead) in MTBIs: goodput simulated, its standard error, and of each formula.

    Columns: `interval`, `overhead`, `save`, `ours`, `error`, `first order`, `exact`. `failures` is of a point, over
    all its runs. Luck, which is taken out, is a run's failures less its running time in MTBIs: zero on average, as
    failures are Poisson on the running clock.
    """
    if runs < 3:
        raise BadInput(f"envelope: runs={runs} must be 3 or more: luck takes one and its line another")
    points = list(product(intervals, overheads))
    jobs = [bare_job(interval, save, overhead, failures / runs) for interval, overhead in points]
    found = wide_runs(experiment(jobs, runs, jobs=1))
    luck = found["interruptions"] - found["running_hours"] / UNIT_HOURS
    ours = [without_luck(found.loc[job.name, "goodput"], luck.loc[job.name]) for job in jobs]
    table = pd.DataFrame(points, columns=["interval", "overhead"]).assign(save=save)
    table[["ours", "error"]] = ours
    times = table["interval"].to_numpy(), 1.0, save, table["overhead"].to_numpy()
    return table.assign(**{name: formula(*times) for name, formula in FORMULAS.items()})
