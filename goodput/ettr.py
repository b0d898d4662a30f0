"""What does the expected ETTR say beside the exact form and a played job? One job, three answers.

The first-order form is that of Meta's research clusters (arXiv 2410.21680). The exact form has the same assumptions
without the first order; the played job has them too, and so judges between the two.
"""

from collections.abc import Sequence

import pandas as pd

from goodput.checkpoint import ettr_first_order, expected_goodput, mtbi_of_nodes, young_interval
from goodput.experiment import compare, experiment
from goodput.scenario import Scenario, load_scenario

CASE = ["nodes", "failures_per_1000_node_days", "save_minutes", "restart_minutes"]


def cases(nodes: Sequence[int], failures_per_1000_node_days, save_minutes, restart_minutes) -> pd.DataFrame:
    """Return one row a job, with what the three forms make of it: each argument a value for all, or one a row.

    Columns: the four arguments, `mtbi_minutes`, `interval_minutes` (the paper's best, which is Young's), `lost_share`
    (a restart and half an interval over the MTBI: what a first order takes to be small), `first_order` and `exact`.

    >>> cases([1500], 6.5, 5, 5)[["mtbi_minutes", "interval_minutes", "first_order", "exact"]].round(3)
       mtbi_minutes  interval_minutes  first_order  exact
    0       147.692            38.431         0.74  0.736
    """
    table = pd.DataFrame(dict(zip(CASE, (nodes, failures_per_1000_node_days, save_minutes, restart_minutes))))
    rate, save, restart = (table[name] for name in CASE[1:])
    job = 60 * mtbi_of_nodes(table["nodes"], rate)
    best = pd.Series([young_interval(*each) for each in zip(job, save)], table.index)
    return table.assign(
        mtbi_minutes=job,
        interval_minutes=best,
        lost_share=(restart + best / 2) / job,
        first_order=ettr_first_order(best, table["nodes"], rate, save, restart),
        exact=expected_goodput(best, job, save, restart),
    )


def one_cause(case, days: float, name: str = "one cause") -> Scenario:
    """Return the scenario of one row of `cases`: nodes that fail, are noticed and cured at once, and nothing else.

    >>> scenario = one_cause(cases([1500], 6.5, 5, 5).iloc[0], days=28)
    >>> round(scenario.nominal_mtbi_hours * 60, 3), round(scenario.interval_minutes, 3), scenario.overhead_minutes
    (147.692, 38.431, 5.0)
    """
    node = {"scope": "node", "share": 1.0, "detection_minutes": 0.0, "needs_repair": False}
    changes = {
        "days": days,
        "job.nodes": int(case["nodes"]),
        "job.restart_minutes": float(case["restart_minutes"]),
        "pool.spares": 0,
        "cohorts.default.mtbf_hours": 24_000 / case["failures_per_1000_node_days"],
        "causes": {"node": node},
        "job_failures": {},
        "checkpoint.interval_minutes": float(case["interval_minutes"]),
        "checkpoint.blocking_minutes": float(case["save_minutes"]),
    }
    return load_scenario("baseline").but(changes, name)


def played(table: pd.DataFrame, seeds: int, days: float) -> pd.DataFrame:
    """Return `cases` played: with `simulated`, its 95 % interval `simulated_low` and `_high`, `interruptions` a run."""
    scenarios = [one_cause(case, days, f"case {row}") for row, case in table.iterrows()]
    found = compare(experiment(scenarios, seeds)).set_index(table.index)
    columns = ["goodput", "goodput_low", "goodput_high", "interruptions_per_run"]
    names = ["simulated", "simulated_low", "simulated_high", "interruptions"]
    return table.join(found[columns].set_axis(names, axis=1))
