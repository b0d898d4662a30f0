"""What if? Scenarios x seeds, sweeps of any dotted parameter, and comparisons paired by seed.

`seeds = N` means replications 1 ... N. A replication is the same alone or in a batch, serial or parallel.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from goodput.attribution import CATEGORIES, interruptions, spans
from goodput.errors import BadInput
from goodput.events import codes
from goodput.metrics import mean_interval, per_job, rates
from goodput.scenario import Scenario
from goodput.simulate import simulate_many

CHUNK = 20  # runs whose logs are in memory together
SMALL = 400  # runs that take less time than starting workers
COUNTS = ["running_hours", "node_hours", "interruptions", "failures", "node_failures"]


def experiment(scenarios: Sequence[Scenario], seeds: int | Iterable[int], jobs: int | None = None) -> pd.DataFrame:
    """Return one row a scenario, seed and metric: `scenario`, `seed`, `metric`, `cause`, `value`.

    Metrics are those of `per_job` (GPU-hours of the categories, `goodput`, counts), and for each cause
    `cause_count` and `cause_gpu_hours`. `jobs` is the number of processes: None for as many as help. The result
    depends neither on it nor on the order of work. Raises BadInput for no seeds or two scenarios of one name.

    >>> from goodput.scenario import load_scenario
    >>> runs = experiment([load_scenario("baseline")], seeds=2)
    >>> runs[runs["metric"] == "held_gpu_hours"]["value"].round(3).tolist()
    [688128.0, 688128.0]
    """
    seeds = check_seeds(seeds)
    names = [scenario.name for scenario in scenarios]
    if not names:
        raise BadInput("scenarios: at least one must be given")
    if len(set(names)) < len(names):
        raise BadInput(f"scenarios: names must differ, not {', '.join(names)}")
    chunks = [(s, seeds[at : at + CHUNK]) for s in scenarios for at in range(0, len(seeds), CHUNK)]
    found = pd.concat(list(_results(chunks, len(scenarios) * len(seeds), jobs)), ignore_index=True)
    return found.astype({"scenario": pd.CategoricalDtype(names), "metric": "category", "cause": "category"})


def check_seeds(seeds: int | Iterable[int]) -> list[int]:
    """Return the replications that `seeds` means; raise BadInput where there is none, or one is negative."""
    wanted = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)
    if not wanted or min(wanted) < 0:
        raise BadInput(f"seeds={seeds} must be 1 or more")
    if len(set(wanted)) < len(wanted):
        raise BadInput("seeds must differ: the same run twice is no more evidence")
    return wanted


def _results(chunks: list, runs: int, jobs: int | None) -> Iterable[pd.DataFrame]:
    from tqdm import tqdm

    jobs = jobs or (1 if runs <= SMALL else os.cpu_count() or 1)
    results = map(_run_chunk, *zip(*chunks, strict=True))
    if jobs > 1:
        from joblib import Parallel, delayed

        results = Parallel(n_jobs=jobs, return_as="generator")(delayed(_run_chunk)(*chunk) for chunk in chunks)
    # disable=None: silent where output is not a terminal
    return tqdm(results, total=len(chunks), unit="batch", disable=None, leave=False)


def _run_chunk(scenario: Scenario, seeds: list[int]) -> pd.DataFrame:
    log = simulate_many(scenario, seeds)
    stretches, struck = spans(log), interruptions(log)
    runs = per_job(stretches, struck).reset_index(drop=True)
    causes = scenario.cause_names
    count = _by_job_and_cause(struck, np.ones(len(struck)), len(seeds), causes)
    cost = _by_job_and_cause(stretches, stretches["gpu_hours"], len(seeds), causes)
    seed = np.array(seeds)
    parts = [_long(seed, runs), _long(seed, count, "cause_count"), _long(seed, cost, "cause_gpu_hours")]
    return pd.concat(parts, ignore_index=True).assign(scenario=scenario.name)


def _by_job_and_cause(rows: pd.DataFrame, values, jobs: int, causes: list[str]) -> pd.DataFrame:
    known = np.flatnonzero(codes(rows["cause"]) >= 0)
    cell = codes(rows["job"])[known] * len(causes) + codes(rows["cause"])[known]
    sums = np.bincount(cell, np.asarray(values, float)[known], jobs * len(causes))
    return pd.DataFrame(sums.reshape(jobs, len(causes)), columns=causes)


def _long(seed: np.ndarray, wide: pd.DataFrame, metric: str | None = None) -> pd.DataFrame:
    """Return a wide table, one row a run, as long rows; with a metric, its columns are causes."""
    name = np.repeat(np.array(wide.columns, object), len(wide))
    return pd.DataFrame(
        {
            "seed": np.tile(seed, len(wide.columns)),
            "metric": metric or name,
            "cause": name if metric else None,
            "value": wide.to_numpy(float).T.ravel(),
        }
    )


def wide_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the metrics of `experiment` that have no cause as columns, one row a (scenario, seed)."""
    plain = runs[runs["cause"].isna()]
    return plain.pivot(index=["scenario", "seed"], columns="metric", values="value").sort_index()


def compare(runs: pd.DataFrame, baseline: str | None = None) -> pd.DataFrame:
    """Return one row a scenario: goodput with its interval, its difference to the baseline, shares, rates.

    Columns: `scenario`, `seeds`, `goodput` with `_low`, `_high` (95 % interval of the mean), `_p10`, `_p90`;
    `difference` with `_low`, `_high` (paired by seed; 0 for the baseline itself); `share_<category>`;
    `interruptions_per_run`; `mtbi_hours`, `node_mtbf_hours` (pooled) with `_low`, `_high`. The baseline is the
    first scenario, or the one named.
    """
    table = wide_runs(runs)
    names = list(runs["scenario"].cat.categories)
    reference = table.loc[baseline or names[0], "goodput"]
    return pd.DataFrame([_scenario_row(name, table.loc[name], reference) for name in names])


def _scenario_row(name: str, runs: pd.DataFrame, reference: pd.Series) -> dict[str, Any]:
    goodput, difference = mean_interval(runs["goodput"]), mean_interval(runs["goodput"] - reference)
    pooled = rates(runs)
    shares = runs[list(CATEGORIES)].sum() / runs["held_gpu_hours"].sum()
    return {
        "scenario": name,
        "seeds": goodput.count,
        "goodput": goodput.mean,
        **{f"goodput_{key}": getattr(goodput, key) for key in ("low", "high", "p10", "p90")},
        "difference": difference.mean,
        **{f"difference_{key}": getattr(difference, key) for key in ("low", "high")},
        **{f"share_{category}": share for category, share in shares.items()},
        "interruptions_per_run": runs["interruptions"].mean(),
        **_rate("mtbi", pooled.mtbi),
        **_rate("node_mtbf", pooled.node_mtbf),
    }


def _rate(name: str, rate) -> dict[str, float]:
    return {f"{name}_hours": rate.hours, f"{name}_hours_low": rate.low, f"{name}_hours_high": rate.high}


def half_widths(runs: pd.DataFrame, baseline: str | None = None) -> pd.Series:
    """Return by scenario half the 95 % interval of the difference to the baseline, or of the level of one alone."""
    table = compare(runs, baseline).set_index("scenario")
    if len(table) == 1:
        return (table["goodput_high"] - table["goodput_low"]) / 2
    return ((table["difference_high"] - table["difference_low"]) / 2).drop(baseline or table.index[0])


def cause_means(runs: pd.DataFrame) -> pd.DataFrame:
    """Return means a run by `scenario` and `cause`, dearest first: `count`, `gpu_hours`."""
    table = runs[runs["cause"].notna()].groupby(["scenario", "cause", "metric"], observed=True)["value"].mean()
    wide = table.unstack("metric").rename(columns={"cause_count": "count", "cause_gpu_hours": "gpu_hours"})
    wide = wide[["count", "gpu_hours"]].rename_axis(columns=None).reset_index()
    return wide.sort_values(["scenario", "gpu_hours", "cause"], ascending=[True, False, True], ignore_index=True)


def sweep_scenarios(scenario: Scenario, path: str, values: Iterable[Any]) -> list[Scenario]:
    """Return the scenario as it is, and one for each value of a dotted path, named `path=value`."""
    return [scenario, *(scenario.but({path: value}, name=f"{path}={value}") for value in values)]


def sweep(
    scenario: Scenario, path: str, values: Sequence[Any], seeds: int | Iterable[int], jobs: int | None = None
) -> pd.DataFrame:
    """Return `compare` over the values of a dotted path, `value` in front; differences are to the scenario as it is.

    >>> from goodput.scenario import load_scenario
    >>> table = sweep(load_scenario("no-spares"), "pool.spares", [1, 4], seeds=3)
    >>> table["value"].tolist(), bool(table["goodput"].is_monotonic_increasing)
    ([1, 4], True)
    """
    return swept(experiment(sweep_scenarios(scenario, path, values), seeds, jobs), values)


def swept(runs: pd.DataFrame, values: Sequence[Any]) -> pd.DataFrame:
    """Return the table of `sweep` from an experiment over `sweep_scenarios`."""
    table = compare(runs).iloc[1:].drop(columns="scenario").reset_index(drop=True)
    table.insert(0, "value", list(values))
    return table
