"""What does size do? The same job on more GPUs: what it does to MTBI and goodput, and what would keep a target.

Goodput hangs on ratios of times to the MTBI alone. So ten times the GPUs are like a save, a detection and a restart of
ten times the length, and a job that grows keeps its goodput if all of these get as much shorter as it gets larger.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from goodput.errors import BadInput
from goodput.experiment import compare, experiment
from goodput.published import clusters, mttf_by_size
from goodput.queueing import repair_load, spares_for, waiting_share
from goodput.scenario import Scenario

BEST = {"checkpoint.interval_minutes": "optimal"}
MTTF_OF = "Meta RSC"


def scaled(scenario: Scenario, gpus: int, job_failures_grow: bool = True, name: str | None = None) -> Scenario:
    """Return the same job on so many GPUs, with its spares, crews and counted cohorts in proportion, rounded up.

    Nodes keep their MTBF. Failures that are not tied to a node grow with the job as well, as networks and storage do,
    unless `job_failures_grow` is false. Raises BadInput where the GPUs make no whole nodes.

    >>> from goodput.scenario import load_scenario
    >>> larger = scaled(load_scenario("baseline"), 131_072)
    >>> larger.job.nodes, larger.pool.spares, round(60 * larger.nominal_mtbi_hours, 2)  # minutes
    (16384, 512, 6.93)
    """
    nodes, rest = divmod(gpus, scenario.job.gpus_per_node)
    if rest or nodes < 1:
        raise BadInput(f"scale: gpus={gpus} must be a multiple of {scenario.job.gpus_per_node}, the GPUs of a node")
    of, pool, crews = scenario.job.nodes, scenario.pool, scenario.repair.crews
    changes: dict[str, Any] = {"job.nodes": nodes, "pool.spares": _share(pool.spares, nodes, of)}
    changes |= _counted(scenario, nodes + changes["pool.spares"], nodes)
    if crews is not None:
        changes["repair.crews"] = _share(crews, nodes, of)
    if job_failures_grow and scenario.job_failures.mtbi_hours:
        changes["job_failures.mtbi_hours"] = scenario.job_failures.mtbi_hours * of / nodes
    return scenario.but(changes, name or f"{gpus:,} GPUs")


def _share(count: int, nodes: int, of: int) -> int:
    return -(-count * nodes // of)


def _counted(scenario: Scenario, pool_nodes: int, nodes: int) -> dict[str, int]:
    """Return the nodes of the cohorts that count theirs; where all do, the last one takes the rest."""
    sizes = {
        name: _share(each.nodes, nodes, scenario.job.nodes) for name, each in scenario.cohorts.items() if each.nodes
    }
    if len(sizes) == len(scenario.cohorts):
        *others, last = sizes
        sizes[last] = pool_nodes - sum(sizes[name] for name in others)
    return {f"cohorts.{name}.nodes": size for name, size in sizes.items()}


# --- sizes, played -------------------------------------------------------------------------------------------------


def goodput_by_size(
    scenario: Scenario, gpus: Sequence[int], seeds: int, job_failures_grow: bool = True, jobs: int | None = None
) -> pd.DataFrame:
    """Return one row a size of job: the closed forms beside the simulation.

    Columns: `gpus`, `nodes`, `spares`, `interval_hours`; `law_hours` (MTBI, 1 / sum of the rates; `as_given_hours` if
    failures that are not tied to a node did not grow with the job) beside `mtbi_hours` (running hours over
    interruptions) with the exact 95 % interval in `_low` and `_high`; `per_interval` (mean failures in an interval of
    compute and its save, by the law); `foreseen` (`Scenario.expected_goodput`) beside `goodput` with `_low` and `_high`
    (95 % interval of the mean); `ratio` of simulated to foreseen, and the share of time `waiting`.
    All sizes have the same seeds and so the same luck. Failures that strike always are counted while the job is down
    too, and that time is not running: `mtbi_hours` is then shorter than the law.

    >>> from goodput.scenario import load_scenario
    >>> table = goodput_by_size(load_scenario("baseline"), [1024, 8192], seeds=2)
    >>> table["nodes"].tolist(), table["spares"].tolist(), bool(table["goodput"].is_monotonic_decreasing)
    ([128, 1024], [4, 32], True)
    """
    sizes = [scaled(scenario, each, job_failures_grow) for each in gpus]
    found = compare(experiment(sizes, seeds, jobs))
    law = pd.Series([size.nominal_mtbi_hours for size in sizes])
    interval = pd.Series([size.interval_minutes for size in sizes]) / 60
    foreseen = pd.Series([size.expected_goodput() for size in sizes])
    table = pd.DataFrame({"gpus": list(gpus), "nodes": [size.job.nodes for size in sizes]})
    return table.assign(
        spares=[size.pool.spares for size in sizes],
        interval_hours=interval,
        law_hours=law,
        as_given_hours=[scaled(scenario, each, False).nominal_mtbi_hours for each in gpus],
        **found[["mtbi_hours", "mtbi_hours_low", "mtbi_hours_high"]],
        per_interval=(interval + scenario.checkpoint.blocking_minutes / 60) / law,
        foreseen=foreseen,
        **found[["goodput", "goodput_low", "goodput_high"]],
        ratio=found["goodput"] / foreseen,
        waiting=found["share_waiting"],
    )


def spares_by_size(scenario: Scenario, gpus: Sequence[int], share: float) -> pd.DataFrame:
    """Return one row a size of job: how many spares let it wait for a node at most that `share` of the time.

    Columns: `gpus`, `nodes`, `in_repair` (mean nodes in repair, the load of `repair_load`), `in_proportion` (spares as
    `scaled` has them) with the share of time that the job `waits` with them, `needed` spares, and `needed_share` of
    the nodes. By Erlang's law in the long run; a run that begins with all nodes healthy waits less.

    >>> from goodput.scenario import load_scenario
    >>> spares_by_size(load_scenario("baseline"), [1024, 16_384], 0.001)["needed"].tolist()
    [6, 26]
    """
    sizes = [scaled(scenario, each) for each in gpus]
    load, crews = pd.Series([repair_load(size) for size in sizes]), [size.repair.crews for size in sizes]
    table = pd.DataFrame({"gpus": list(gpus), "nodes": [size.job.nodes for size in sizes], "in_repair": load})
    table["in_proportion"] = [size.pool.spares for size in sizes]
    table["waits"] = [waiting_share(*each) for each in zip(table["in_proportion"], load, crews)]
    table["needed"] = [spares_for(share, *each) for each in zip(load, crews)]
    return table.assign(needed_share=table["needed"] / table["nodes"])


def published_by_size(second_hand: bool = True) -> pd.DataFrame:
    """Return published times between failures by size of job: `system`, `gpus`, `hours`, `kind`, `stands`, `status`.

    Those of Meta's research clusters (`mttf_by_size`), without the single node, and Llama 3's. Elapsed hours, where
    ours are running hours.

    >>> published_by_size(second_hand=False)[["gpus", "hours"]].round(2).to_numpy().tolist()
    [[1024.0, 7.9], [16384.0, 3.09]]
    """
    meta = mttf_by_size(second_hand).query("gpus > 8").rename(columns={"theirs": "hours"}).assign(system=MTTF_OF)
    llama = clusters().rename(columns={"mtbi_hours": "hours"}).assign(kind="measured")
    llama = llama[llama["system"].str.startswith("Llama 3")]
    columns = ["system", "gpus", "hours", "kind", "stands", "status"]
    return pd.concat([meta[columns], llama[columns]], ignore_index=True).astype({"gpus": int})
