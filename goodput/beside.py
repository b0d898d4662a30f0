"""What do we say beside what was published? The expected ETTR in three forms, and a scenario at the size of others.

The first-order form is that of Meta's research clusters (arXiv 2410.21680). The exact form has the same assumptions
without the first order; the played job has them too, and so judges between the two.
"""

from collections.abc import Sequence

import pandas as pd

from goodput.checkpoint import ettr_first_order, expected_goodput, mtbi_of_nodes, young_interval
from goodput.experiment import compare, experiment, wide_runs
from goodput.metrics import mean_time
from goodput.published import GPUS_PER_NODE
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


def at_sizes(scenario: Scenario, nodes: Sequence[int], seeds: int) -> pd.DataFrame:
    """Return one row a size of job, played: what a report of such a job would say, elapsed time and goodput.

    Columns: `scenario`, `nodes`, `elapsed_hours` over interruptions, as others count (our MTBI is of running hours),
    and `goodput`, each with its 95 % interval in `_low` and `_high`. Spares grow with the job, rounded up.

    >>> from goodput.scenario import load_scenario
    >>> table = at_sizes(load_scenario("baseline"), [128, 1200], seeds=2)
    >>> table["nodes"].tolist(), bool(table["elapsed_hours"].is_monotonic_decreasing)
    ([128, 1200], True)
    """
    spares, of = scenario.pool.spares, scenario.job.nodes
    sizes = [scenario.but({"job.nodes": n, "pool.spares": -(-spares * n // of)}, f"{n} nodes") for n in nodes]
    runs = experiment(sizes, seeds)
    count = wide_runs(runs)["interruptions"].groupby("scenario", observed=True).sum()
    times = pd.DataFrame([mean_time(24 * scenario.days * seeds, int(each)) for each in count])
    table = pd.DataFrame({"scenario": scenario.name, "nodes": list(nodes)})
    table[["elapsed_hours", "elapsed_hours_low", "elapsed_hours_high"]] = times[["hours", "low", "high"]]
    return table.join(compare(runs)[["goodput", "goodput_low", "goodput_high"]])


def as_systems(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `at_sizes` as rows of `published.clusters`, with the status `ours`."""
    names = ["elapsed_hours", "elapsed_hours_low", "elapsed_hours_high"]
    scaled = table[names].mul(table["nodes"] / 1000, axis=0)
    return scaled.set_axis(["per_1000_hours", "per_1000_hours_low", "per_1000_hours_high"], axis=1).assign(
        system=table["scenario"] + " (ours)",
        nodes=table["nodes"],
        gpus=GPUS_PER_NODE * table["nodes"],
        counted="failures of a job, played",
        reported=table["goodput"],
        counts=(100 * table["goodput"]).map("{:.1f}% goodput".format),
        status="ours",
    )


def against(systems: pd.DataFrame, played: pd.DataFrame) -> pd.DataFrame:
    """Return one row a published job: `theirs`, elapsed hours over interruptions, `ours` at its size, and the `ratio`.

    `systems` are `published.counted_jobs`, `played` is `at_sizes` of one scenario. Each has its 95 % interval.
    """
    ends = ["", "_low", "_high"]
    theirs = systems.set_index("nodes")[["system", *[f"mtbi_hours{end}" for end in ends]]]
    ours = played.set_index("nodes")[[f"elapsed_hours{end}" for end in ends]]
    table = theirs.join(ours).reset_index()
    table.columns = ["nodes", "system", *[f"theirs{end}" for end in ends], *[f"ours{end}" for end in ends]]
    return table.assign(ratio=table["ours"] / table["theirs"])


def prices(systems: pd.DataFrame, played: pd.DataFrame) -> pd.DataFrame:
    """Return one row a published job: the elapsed minutes an interruption costs, `theirs` and those of each scenario.

    (1 - share) x time between interruptions: saves, lost work and time down, all of it. Where a share is a bound, so is
    this: the other way round. `played` is `at_sizes` of one or more scenarios, each of which becomes a column.
    """
    known = systems[systems["reported"].notna()]
    theirs = known.assign(theirs=60 * known["mtbi_hours"] * (1 - known["reported"]))[["system", "nodes", "theirs"]]
    minutes = played.assign(minutes=60 * played["elapsed_hours"] * (1 - played["goodput"]))
    ours = minutes.pivot(index="nodes", columns="scenario", values="minutes").rename_axis(columns=None)
    return theirs.join(ours, on="nodes").reset_index(drop=True)


def assumed_minutes(scenario: Scenario) -> pd.Series:
    """Return the times that a scenario assumes, in minutes, by the group that published ones have; detection is a mean.

    >>> assumed_minutes(load_scenario("baseline")).round(1).to_dict()
    {'detection': 14.3, 'restart': 20.0, 'ckpt_save': 5.0, 'ckpt_interval': 30.0, 'repair': 2880.0}
    """
    times = {
        "detection": scenario.overhead_minutes - scenario.job.restart_minutes,
        "restart": scenario.job.restart_minutes,
        "ckpt_save": scenario.checkpoint.blocking_minutes,
        "ckpt_interval": scenario.interval_minutes,
        "repair": 60 * scenario.repair.mean_hours,
    }
    return pd.Series(times, dtype=float)


def silent_share(scenario: Scenario, from_minutes: float = 10) -> float:
    """Return the share of interruptions that raise no error: those whose cause takes so long, or longer, to notice.

    >>> round(silent_share(load_scenario("baseline")), 3)  # three causes wait for a time limit of 30 minutes
    0.432
    """
    per_hour = {"node": scenario.node_failures_per_hour, "job": scenario.job_failures_per_hour}
    silent = (c for c in scenario.causes.values() if c.detection_minutes >= from_minutes)
    return sum(per_hour[c.scope] * c.share for c in silent) * scenario.nominal_mtbi_hours
