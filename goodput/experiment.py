"""What if? Scenarios x seeds, sweeps of any dotted parameter, and comparisons paired by seed.

`seeds = N` means replications 1 ... N. A replication is the same alone or in a batch, serial or parallel.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from goodput.attribution import CATEGORIES
from goodput.errors import BadInput
from goodput.kept import BY_CAUSE, METRICS, columns_of
from goodput.metrics import mean_interval, rates
from goodput.scenario import Scenario
from goodput.store import Store, content
from goodput.workers import played

MOST_RUNS = 10_000_000  # of one experiment: its table takes some 10 GB then
CHUNK = 20  # seeds of a block of rows: the order of an experiment's rows, however the work is cut


def experiment(
    scenarios: Sequence[Scenario],
    seeds: int | Iterable[int],
    jobs: int | None = None,
    store: Store | str | Path | None = None,
    fresh: bool = False,
) -> pd.DataFrame:
    """Return one row a scenario, seed and metric: `scenario`, `seed`, `metric`, `cause`, `value`.

    Metrics are those of `per_job` (GPU-hours of the categories, `goodput`, counts), and for each cause
    `cause_count` and `cause_gpu_hours`. `jobs` is the number of processes: None for as many as help, or for those of
    a backend of joblib that was chosen, as `with parallel_config("dask")`. Runs that are in the `store`, a folder, are
    taken from it, but for `fresh`, and others are put there as they come. The result depends on none of these, nor on
    the order of work. Raises BadInput for no seeds or two scenarios of one name.

    >>> from goodput.scenario import load_scenario
    >>> runs = experiment([load_scenario("baseline")], seeds=2)
    >>> runs[runs["metric"] == "held_gpu_hours"]["value"].round(3).tolist()
    [688128.0, 688128.0]
    """
    if isinstance(seeds, int) and seeds * len(scenarios) > MOST_RUNS:
        most = MOST_RUNS // len(scenarios)
        raise BadInput(f"seeds={seeds} must be at most {most:,} for {len(scenarios):,} scenarios")
    seeds = check_seeds(seeds)
    names = [scenario.name for scenario in scenarios]
    if not names:
        raise BadInput("scenarios: at least one must be given")
    if len(set(names)) < len(names):
        raise BadInput(f"scenarios: names must differ, not {', '.join(names)}")
    store = Store(store) if isinstance(store, str | Path) else store
    rows = _rows(scenarios, seeds, jobs, store, fresh)
    return _long(scenarios, seeds, [rows[content(scenario)] for scenario in scenarios])


def check_seeds(seeds: int | Iterable[int]) -> list[int]:
    """Return the replications that `seeds` means; raise BadInput where there is none, or one is negative."""
    wanted = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)
    if not wanted or min(wanted) < 0:
        raise BadInput(f"seeds={seeds} must be 1 or more")
    if len(set(wanted)) < len(wanted):
        raise BadInput("seeds must differ: the same run twice is no more evidence")
    return wanted


def _rows(scenarios: Sequence[Scenario], seeds: list[int], jobs, store, fresh) -> dict[str, np.ndarray]:
    """Return what is kept of each run by content of the scenario, a row a seed; what is known is not played again."""
    from tqdm import tqdm

    index = pd.Index(seeds)
    rows, work = {}, []
    for key, scenario in {content(scenario): scenario for scenario in scenarios}.items():
        columns = columns_of(scenario)
        known = store.read(scenario, seeds) if store and not fresh else pd.DataFrame(columns=columns, index=index[:0])
        rows[key] = known.reindex(index).to_numpy(float, copy=True)
        work.append((scenario, index.difference(known.index, sort=False).tolist()))
    tables = list(rows.values())
    runs, left = len(seeds) * len(rows), sum(len(more) for _, more in work)
    # disable=None: silent where output is not a terminal
    with (
        closing(played(work, jobs)) as results,
        tqdm(total=runs, initial=runs - left, unit="run", disable=None, leave=False) as bar,
    ):
        for number, found in results:
            if store:
                store.write(work[number][0], found)
            tables[number][index.get_indexer(found.index)] = found
            bar.update(len(found))
    return rows


def _long(scenarios: Sequence[Scenario], seeds: list[int], tables: list[np.ndarray]) -> pd.DataFrame:
    """Return what is kept of the runs of each scenario as long rows, in blocks of seeds; what is named are codes."""
    metrics, causes = _known(METRICS + list(BY_CAUSE)), _known(name for each in scenarios for name in each.cause_names)
    parts = []
    for number, (scenario, values) in enumerate(zip(scenarios, tables, strict=True)):
        own = causes.get_indexer(scenario.cause_names)
        metric = np.append(metrics.get_indexer(METRICS), np.repeat(metrics.get_indexer(BY_CAUSE), len(own)))
        cause = np.concatenate([np.full(len(METRICS), -1), own, own])
        columns = (np.array(seeds)[:, None], metric, cause, values, number)
        parts.append([_laid(np.broadcast_to(column, values.shape)) for column in columns])
    seed, metric, cause, value, scenario = (np.concatenate(column) for column in zip(*parts, strict=True))
    return pd.DataFrame(
        {
            "seed": seed,
            "metric": pd.Categorical.from_codes(metric, metrics),
            "cause": pd.Categorical.from_codes(cause, causes),
            "value": value,
            "scenario": pd.Categorical.from_codes(scenario, [each.name for each in scenarios]),
        },
        copy=False,
    )


def _known(names: Iterable[str]) -> pd.Index:
    return pd.Index(sorted(set(names)))


def _laid(table: np.ndarray) -> np.ndarray:
    """Return a table as one column: blocks of rows, each column by column."""
    whole = len(table) // CHUNK * CHUNK
    blocks = table[:whole].reshape(-1, CHUNK, table.shape[1]).swapaxes(1, 2)
    return np.append(blocks.ravel(), table[whole:].T.ravel())


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
