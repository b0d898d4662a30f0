"""Does the scenario reproduce the log? Its ledger, category by category, among many simulated ones of its length."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from goodput.attribution import CATEGORIES
from goodput.errors import BadInput
from goodput.evidence import Evidence, evidence
from goodput.experiment import check_seeds, experiment
from goodput.metrics import hours
from goodput.parts import RESTART_FAILED
from goodput.scenario import Scenario
from goodput.text import aligned, percent, records

HIDDEN = ["lost_work", "detection", "unattributed"]  # where a log does not know when a fault struck, these are one
SHARES = ("goodput", *CATEGORIES[1:], " + ".join(HIDDEN))
SHOWN = 0.00005  # shares that differ by less read alike


def replay(scenario: Scenario, log: pd.DataFrame, seeds: int | Iterable[int] = 200, jobs: int | None = None):
    """Return one row a measure: `what`, the `log`'s value, the simulated `p5`, `median` and `p95`, and `inside`.

    Measures are `goodput` (the productive share of GPU-hours), the shares of the other categories, `interruptions`
    (those that stopped a job; a restart that fails is none) and `mtbi_hours`. Where the log does not know when faults
    struck, `lost_work`, `detection` and `unattributed` are one measure: a simulated log always knows. Of the log, the
    first start and what somebody chose are left out. Each seed plays the log's jobs, each as long as it was. Raises
    BadInput where the scenario's job has not the size of the log's.

    >>> from goodput.scenario import load_scenario
    >>> from goodput.simulate import simulate
    >>> base = load_scenario("baseline")
    >>> replay(base, simulate(base, 7), seeds=20)["inside"].all()
    np.True_
    """
    seeds, found = check_seeds(seeds), evidence(log)
    _check_size(scenario, found)
    played = _measures(_played(scenario, found, seeds, jobs))
    own = _measures(_of_log(found)).iloc[0]
    rows = pd.DataFrame({"what": own.index, "log": own.to_numpy()})
    rows[["p5", "median", "p95"]] = np.nanquantile(played, [0.05, 0.5, 0.95], axis=0).T
    rows["inside"] = (rows["log"] >= rows["p5"] - SHOWN) & (rows["log"] <= rows["p95"] + SHOWN)
    unknown = HIDDEN if found.silent_hours else [SHARES[-1]]
    return rows[~rows["what"].isin(unknown)].reset_index(drop=True)


def _check_size(scenario: Scenario, found: Evidence) -> None:
    for key, value in (("nodes", found.nodes), ("gpus_per_node", found.gpus_per_node)):
        if getattr(scenario.job, key) != value:
            raise BadInput(f"{scenario.name}: job.{key}={getattr(scenario.job, key)} must be the log's, {value}")


def _of_log(found: Evidence) -> pd.DataFrame:
    """Return GPU-hours by category, stops and running hours of the log, as one row."""
    held = found.spans.groupby("category", observed=False)["gpu_hours"].sum()
    stops = len(found.faults) + len(found.planned)
    return pd.DataFrame([{**held.to_dict(), "stops": stops, "running_hours": found.running_hours}])


def _played(scenario: Scenario, found: Evidence, seeds: list[int], jobs: int | None) -> pd.DataFrame:
    """Return the same of the simulated jobs, a row a seed: those of one seed are added up."""
    days = hours(found.spans).groupby(found.spans["job"].astype(str)).sum() / 24
    columns = [*CATEGORIES, "stops", "running_hours"]
    total = np.zeros((len(seeds), len(columns)))
    for number_of_job, length in enumerate(days):
        mine = [seed + number_of_job * (max(seeds) + 1) for seed in seeds]
        runs = experiment([scenario.but({"days": float(length)})], mine, jobs)
        total += _wide(runs, mine)[columns].to_numpy()
    return pd.DataFrame(total, columns=columns)


def _wide(runs: pd.DataFrame, seeds: list[int]) -> pd.DataFrame:
    plain = runs[runs["cause"].isna()].pivot(index="seed", columns="metric", values="value").loc[seeds]
    failed = runs[(runs["cause"] == RESTART_FAILED) & (runs["metric"] == "cause_count")].set_index("seed")["value"]
    return plain.assign(stops=plain["interruptions"] - failed.reindex(seeds, fill_value=0))


def _measures(rows: pd.DataFrame) -> pd.DataFrame:
    shares = rows[list(CATEGORIES)].div(rows[list(CATEGORIES)].sum(axis=1), axis=0)
    out = shares.rename(columns={"productive": "goodput"})
    out[SHARES[-1]] = shares[HIDDEN].sum(axis=1)
    out["interruptions"] = rows["stops"]
    return out.assign(mtbi_hours=rows["running_hours"] / rows["stops"].replace(0, np.nan))


def replay_text(table: pd.DataFrame, seeds: int) -> str:
    """Return a replay as a table for people, and how many measures lie inside."""
    rows = []
    for row in records(table):
        show = percent if row["what"] in SHARES else "{:,.3g}".format
        band = f"{show(row['p5'])} to {show(row['p95'])}"
        rows.append(
            (row["what"], show(row["log"]), show(row["median"]), band, "inside" if row["inside"] else "OUTSIDE")
        )
    header = ("measure", "the log", "simulated median", "5 % to 95 % of runs", "the log is")
    said = f"{int(table['inside'].sum())} of {len(table)} measures lie where 90 % of {seeds} simulated runs do."
    return f"{aligned(header, rows)}\n\n{said}"
