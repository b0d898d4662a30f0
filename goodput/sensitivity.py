"""Which assumption moves goodput most? A study played, its tornado, and the Sobol indices of its parameters.

A tornado turns one knob at a time and leaves the others where they stand. Sobol indices turn all at once, and ask how
much of the whole spread each knob answers for: alone (first order), and together with the others (total).
"""

from typing import Any

import numpy as np
import pandas as pd

from goodput.design import design, scenarios_of
from goodput.errors import BadInput
from goodput.experiment import compare, experiment
from goodput.parts import expected
from goodput.queueing import repair_load, waiting_share
from goodput.scenario import Scenario
from goodput.streams import stream
from goodput.study import Study

RESAMPLES = 1000
TAILS = [0.025, 0.975]


def run_study(study: Study, jobs: int | None = None) -> pd.DataFrame:
    """Return one row a scenario: those of `design`, then the columns of `compare`; differences are to the base.

    All scenarios meet the same luck: seeds 1 to `seeds`. Raises BadInput, before anything is played, for a point that
    cannot be.

    >>> from goodput.study import load_study
    >>> study = load_study("data/studies/what_moves_goodput.toml").but(design="tornado", seeds=2)
    >>> results = run_study(study)
    >>> len(results), results["scenario"][0], float(results["difference"][0])
    (29, 'baseline', 0.0)
    """
    return results_of(study, experiment(scenarios_of(study), study.seeds, jobs))


def results_of(study: Study, runs: pd.DataFrame) -> pd.DataFrame:
    """Return what `run_study` does, from the runs of `scenarios_of` the study, however many seeds they have."""
    return pd.concat([design(study), compare(runs).drop(columns="scenario")], axis=1)


def expected_results(study: Study) -> pd.DataFrame:
    """Return one row a scenario as `run_study` does, with the `goodput` that formulas expect: thousands in a second.

    The exact model of a job that never waits for a node (`Scenario.expected_goodput`), times the share of a run, begun
    with all nodes healthy, in which none is waited for (`goodput.queueing.waiting_share`). Without luck, so that only
    the points of a design leave a doubt. It knows means alone, and overstates the waiting of large jobs.

    >>> from goodput.study import load_study
    >>> study = load_study("data/studies/what_moves_goodput.toml").but(design="tornado")
    >>> expected_results(study)["goodput"].round(3).head(1).tolist()
    [0.802]
    """
    return design(study).assign(goodput=[_expected(scenario) for scenario in scenarios_of(study)])


def _expected(scenario: Scenario) -> float:
    run = scenario.days * 24 / expected(scenario.repair.mean_hours)
    waited = waiting_share(scenario.pool.spares, repair_load(scenario), scenario.repair.crews, run)
    return scenario.expected_goodput() * (1 - waited)


def tornado(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row a parameter, widest swing first: goodput at both ends of its range, all others as in the base.

    Columns: `parameter`; `from` and `to`, the ends, and `base`, in the parameter's unit; `goodput_from`, and
    `difference_from` to the base, paired by seed, with `_low` and `_high` (95 %); the same with `_to`; `swing`, from
    the lowest to the highest of both ends and the base, so that a parameter that is best in the middle swings as well.
    """
    ends = [_end(results, role, side) for role, side in (("low", "from"), ("high", "to"))]
    table = pd.concat(ends, axis=1).rename_axis("parameter").reset_index()
    table.insert(3, "base", [results.loc[results["role"] == "base", name].iloc[0] for name in table["parameter"]])
    both = table[["difference_from", "difference_to"]].assign(base=0.0)
    table["swing"] = both.max(axis=1) - both.min(axis=1)
    return table.sort_values("swing", ascending=False, kind="stable", ignore_index=True)


def _end(results: pd.DataFrame, role: str, side: str) -> pd.DataFrame:
    rows = results[results["role"] == role].set_index("moved")
    values = pd.Series([rows.at[name, name] for name in rows.index], rows.index, dtype=object)
    found = {"goodput": f"goodput_{side}", "difference": f"difference_{side}"}
    found |= {f"difference_{end}": f"difference_{side}_{end}" for end in ("low", "high")}
    return pd.concat([values.rename(side), rows[list(found)].rename(columns=found)], axis=1)


def sobol_indices(
    results: pd.DataFrame, measure: str = "goodput", resamples: int = RESAMPLES, seed: int = 1
) -> pd.DataFrame:
    """Return one row a parameter, largest total first: `first` and `total` index, each with a 95 % `_low` and `_high`.

    `first` is the share of the variance of a measure that goes if the parameter alone were known; `total` the share
    that stays if all but it were. What `total` has above `first` it does together with others. Estimators: Saltelli
    et al. (2010), doi 10.1016/j.cpc.2009.09.018, table 2 (b) and (f), as in `scipy.stats.sobol_indices`; intervals: a
    percentile bootstrap over the n points, which shows what few of them leave open. An index of 0 may come out a
    little below, and its interval says so; nothing is cut off.

    The luck of the seeds is common to all scenarios: what shifts all alike is in none of the indices, so they are of
    the mean over these seeds. What luck does to some scenarios and not to others counts as interaction.
    """
    y_a, y_b, y_ab, names = _evaluated(results, measure)
    n = len(y_a)
    drawn = stream(seed, "study", "resamples").integers(n, size=(resamples, n))
    rows = [_with_interval(y_a, y_b, each, drawn) for each in y_ab]
    table = pd.DataFrame(rows).assign(parameter=names)
    table = table[["parameter", *table.columns[:-1]]]
    return table.sort_values("total", ascending=False, kind="stable", ignore_index=True)


def _evaluated(results: pd.DataFrame, measure: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Return the measure at A, at B, and at AB of each parameter, less its mean, and the names of the parameters."""
    y_a, y_b = (results.loc[results["role"] == role, measure].to_numpy(float) for role in ("A", "B"))
    if not len(y_a):
        raise BadInput("results: design must be sobol")
    mixed = results[results["role"] == "AB"]
    names = list(dict.fromkeys(mixed["moved"]))
    mean = np.concatenate([y_a, y_b]).mean()
    return y_a - mean, y_b - mean, mixed[measure].to_numpy(float).reshape(len(names), -1) - mean, names


def _with_interval(y_a: np.ndarray, y_b: np.ndarray, y_ab: np.ndarray, drawn: np.ndarray) -> dict[str, float]:
    row: dict[str, float] = {}
    again = _indices(y_a[drawn], y_b[drawn], y_ab[drawn])
    for name, value, values in zip(("first", "total"), _indices(y_a, y_b, y_ab), again):
        low, high = np.quantile(values, TAILS)
        row |= {name: value, f"{name}_low": low, f"{name}_high": high}
    return row


def _indices(y_a: np.ndarray, y_b: np.ndarray, y_ab: np.ndarray) -> tuple[Any, Any]:
    """Return first order and total index along the last axis; not known where nothing varies."""
    variance = np.concatenate([y_a, y_b], axis=-1).var(axis=-1)
    variance = np.where(variance > 0, variance, np.nan)
    return (y_b * (y_ab - y_a)).mean(axis=-1) / variance, ((y_a - y_ab) ** 2).mean(axis=-1) / 2 / variance


def what_moves(results: pd.DataFrame) -> pd.DataFrame:
    """Return the tornado of a study, with the Sobol indices beside it and in their order where it has them."""
    table = tornado(results)
    if not (results["role"] == "AB").any():
        return table
    indices = sobol_indices(results)
    return indices[["parameter"]].merge(table, on="parameter").merge(indices, on="parameter")


def storable(results: pd.DataFrame) -> pd.DataFrame:
    """Return results as Parquet takes them: a column of several kinds, as 30 and "daly", becomes text."""
    mixed = [name for name in results.columns if pd.api.types.infer_dtype(results[name]).startswith("mixed")]
    return results.assign(**{name: results[name].map(str, na_action="ignore") for name in mixed})
