"""How near did the fit come? A fit beside the scenario that made its log, which only a simulated log has."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from goodput.bootstrap import draws
from goodput.calibrate import Fit
from goodput.experiment import experiment, wide_runs
from goodput.fitted import LEVEL
from goodput.metrics import mean_interval
from goodput.parts import Distribution, expected
from goodput.scenario import Scenario

DRAWS = 200  # for the interval of the MTBI, which no single value has
NEAR = 1e-6  # relative: a fitted value is written with six digits


def beside_truth(fit: Fit, truth: Scenario) -> pd.DataFrame:
    """Return one row a fitted value: `ours`, its 90 % interval `low` to `high`, `theirs`, the `ratio`, and `inside`.

    Durations are means. The first row is the nominal MTBI in hours, which follows from all rates; its interval is that
    of the scenarios which the log leaves open. What the truth has no such value of is left out.

    >>> from goodput.calibrate import calibrate
    >>> from goodput.scenario import load_scenario
    >>> from goodput.simulate import simulate
    >>> base = load_scenario("baseline")
    >>> beside_truth(calibrate(simulate(base, 7)), base).loc["cohorts.default.mtbf_hours", ["ours", "theirs"]].tolist()
    [2810.36, 3000.0]
    """
    tail, drawn = (1 - LEVEL) / 2, [each.nominal_mtbi_hours for each in draws(fit, DRAWS)]
    ends = np.quantile(drawn, [tail, 1 - tail])
    rows = [("MTBI, hours", fit.scenario.nominal_mtbi_hours, *ends, truth.nominal_mtbi_hours)]
    ours, theirs = (_flat(scenario.model_dump()) for scenario in (fit.scenario, truth))
    for row in fit.rows:
        if row.how in ("fitted", "pooled") and row.path in ours and row.path in theirs:
            rows.append((row.path, ours[row.path], row.low, row.high, theirs[row.path]))
    table = pd.DataFrame(rows, columns=["value", "ours", "low", "high", "theirs"]).set_index("value")
    near = NEAR * table["theirs"].abs()
    inside = (table["low"] - near <= table["theirs"]) & (table["theirs"] <= table["high"] + near)
    return table.assign(ratio=table["ours"] / table["theirs"], inside=inside)


def _flat(data: Mapping[str, Any], before: str = "") -> dict[str, float]:
    """Return the numbers of a scenario by dotted path; of a distribution its mean."""
    out: dict[str, float] = {}
    for key, value in data.items():
        if isinstance(value, Mapping) and "distribution" in value:
            value = expected(Distribution(**value))
        if isinstance(value, Mapping):
            out |= _flat(value, f"{before}{key}.")
        elif isinstance(value, int | float):
            out[f"{before}{key}"] = float(value)
    return out


def true_gains(
    truth: Scenario, changes: Mapping[str, Mapping[str, Any]], seeds: int | Iterable[int], jobs: int | None = None
) -> pd.DataFrame:
    """Return what each change gains in the scenario itself, in productive GPU-hours of a run, paired by seed.

    One row a `change`, which is the index: `gpu_hours`, with its 95 % interval `low` to `high` from the seeds.
    """
    scenarios = [truth.but({}, "as it is"), *(truth.but(change, name) for name, change in changes.items())]
    productive = wide_runs(experiment(scenarios, seeds, jobs))["productive"]
    means = [mean_interval(productive.loc[name] - productive.loc["as it is"]) for name in changes]
    table = pd.DataFrame([(each.mean, each.low, each.high) for each in means], columns=["gpu_hours", "low", "high"])
    return table.set_index(pd.Index(changes, name="change"))
