"""How good, how sure? Goodput, MTBI, job MTBF and node MTBF, each with the interval that its few events allow.

Rates are pooled: the sum of the time over the sum of the events, never a mean of runs or of percentages.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import chdtri, stdtrit  # not scipy.stats: it alone would double the start-up of a command

from goodput.attribution import CATEGORIES, US_PER_HOUR
from goodput.errors import BadInput
from goodput.events import CHOSEN, codes, micros
from goodput.tally import gpu_hours, lengths, sizes, tally

CONFIDENCE = 0.95


class MeanTime(NamedTuple):
    """A mean time between events, in hours: exposure / count, with its exact interval; infinite without events."""

    hours: float
    low: float
    high: float
    count: int
    exposure_hours: float


def mean_time(exposure_hours: float, count: int, confidence: float = CONFIDENCE) -> MeanTime:
    """Return the mean time between `count` events in `exposure_hours`, with its exact chi-square interval.

    For a time-truncated test of a Poisson process: low = 2T / chi2(1 - a/2; 2r + 2), high = 2T / chi2(a/2; 2r), with
    r events, T hours, a = 1 - confidence; without events there is no upper bound. Source: W. Nelson, Applied Life
    Data Analysis, 1982, ch. 6. Without exposure nothing is known: 0 to infinity.

    >>> mean_time(500, 3, 0.90)  # doctest: +ELLIPSIS
    MeanTime(hours=166.66..., low=64.48..., high=611.4..., count=3, exposure_hours=500.0)
    """
    tail = (1 - confidence) / 2
    # chdtri inverts the upper tail
    exposure_hours = float(exposure_hours)
    low = 2 * exposure_hours / chdtri(2 * count + 2, tail)
    high = 2 * exposure_hours / chdtri(2 * count, 1 - tail) if count else np.inf
    return MeanTime(exposure_hours / count if count else np.inf, float(low), float(high), int(count), exposure_hours)


class Mean(NamedTuple):
    """A mean over replications, with its confidence interval (NaN for a single one) and the middle 80 %."""

    mean: float
    low: float
    high: float
    p10: float
    p90: float
    count: int


def mean_interval(values, confidence: float = CONFIDENCE) -> Mean:
    """Return the mean of independent replications with its Student-t interval; all NaN where there are none.

    >>> mean_interval([1.0, 2.0, 3.0])  # doctest: +ELLIPSIS
    Mean(mean=2.0, low=-0.48413..., high=4.48413..., p10=1.2, p90=2.8, count=3)
    """
    values = np.asarray(values, float)
    if not len(values):
        return Mean(*[np.nan] * 5, 0)
    mean, count = float(values.mean()), len(values)
    half = np.nan
    if count > 1:
        half = float(stdtrit(count - 1, (1 + confidence) / 2) * values.std(ddof=1) / np.sqrt(count))
    p10, p90 = (float(p) for p in np.quantile(values, [0.1, 0.9]))
    return Mean(mean, mean - half, mean + half, p10, p90, count)


def is_failure(interruptions: pd.DataFrame) -> pd.Series:
    """Return which interruptions nobody chose: not planned, no time limit, no cancel, no preemption."""
    return ~(interruptions["planned"] | interruptions["cause"].isin(CHOSEN))


def hours(spans: pd.DataFrame) -> pd.Series:
    """Return the length of each span, in hours, float64."""
    return pd.Series(lengths(spans) / US_PER_HOUR, index=spans.index)


def per_job(spans: pd.DataFrame, interruptions: pd.DataFrame) -> pd.DataFrame:
    """Return one row a job: GPU-hours of each category, running hours, node-hours running, and counts.

    Columns: the seven categories, `held_gpu_hours`, `goodput`, `running_hours`, `node_hours`, `interruptions`,
    `failures`, `node_failures`.
    """
    jobs = spans["job"].array.categories
    job, category = codes(spans["job"]), codes(spans["category"])
    cells = _gpu_hours(spans, job * len(CATEGORIES) + category, len(jobs) * len(CATEGORIES))
    out = pd.DataFrame(cells.reshape(-1, len(CATEGORIES)), columns=list(CATEGORIES), index=pd.Index(jobs, name="job"))
    out["held_gpu_hours"] = _gpu_hours(spans, job, len(jobs))
    out["goodput"] = out["productive"] / out["held_gpu_hours"]
    running = hours(spans) * spans["running"]
    out["running_hours"] = _sums(job, running, len(jobs))
    out["node_hours"] = _sums(job, running * spans["nodes"], len(jobs))
    struck = codes(interruptions["job"])
    failed = is_failure(interruptions)
    out["interruptions"] = _counts(struck, len(jobs))
    out["failures"] = _counts(struck[failed], len(jobs))
    out["node_failures"] = _counts(struck[failed & interruptions["node"].notna()], len(jobs))
    return out


def _gpu_hours(spans: pd.DataFrame, cell: np.ndarray, cells: int) -> np.ndarray:
    """Return the GPU-hours of each cell. Whole microseconds are added up by size first, which is exact in float64 (for
    285 years); only then are they weighted and become hours."""
    size, which = np.unique(sizes(spans), return_inverse=True)
    sums = np.bincount(which * cells + cell, lengths(spans).astype(float), len(size) * cells)
    # size after size, never as a matrix product: a cell must not depend on which others there are
    return np.bincount(np.tile(np.arange(cells), len(size)), np.repeat(size, cells) * sums, cells) / US_PER_HOUR


def _sums(code: np.ndarray, values, length: int) -> np.ndarray:
    return np.bincount(code, np.asarray(values, float), length)


def _counts(code: np.ndarray, length: int) -> np.ndarray:
    return np.bincount(code, minlength=length)


class Rates(NamedTuple):
    """The three mean times of one job or of many, pooled."""

    mtbi: MeanTime
    job_mtbf: MeanTime
    node_mtbf: MeanTime


def rates(jobs: pd.DataFrame, confidence: float = CONFIDENCE) -> Rates:
    """Return MTBI, job MTBF (running time) and node MTBF (node-hours in a running job), from rows of `per_job`."""
    names = ["running_hours", "node_hours", "interruptions", "failures", "node_failures"]
    return rates_of(jobs[names].sum().to_dict(), confidence)


def rates_of(total: Mapping[str, float], confidence: float = CONFIDENCE) -> Rates:
    """Return the three mean times from the sums of those five columns of `per_job`, or from one row of it."""
    return Rates(
        mean_time(total["running_hours"], int(total["interruptions"]), confidence),
        mean_time(total["running_hours"], int(total["failures"]), confidence),
        mean_time(total["node_hours"], int(total["node_failures"]), confidence),
    )


def by_cause(spans: pd.DataFrame, interruptions: pd.DataFrame) -> pd.DataFrame:
    """Return one row a cause, dearest first: `cause`, `count` of interruptions, `gpu_hours` charged to it."""
    return causes_of(tally(spans, cause=spans["cause"].array), strikes(interruptions))


def strikes(interruptions: pd.DataFrame) -> pd.Series:
    """Return how many interruptions each cause has."""
    count = interruptions["cause"].value_counts()
    return count[count > 0].rename_axis("cause")


def causes_of(charged: pd.DataFrame, count: pd.Series) -> pd.DataFrame:
    """Return what `by_cause` does, from the tally of the time charged to each `cause` and its interruptions."""
    named = charged["cause"].astype(str)
    causes = pd.Index(sorted({*named, *count.index.astype(str)}), dtype="str")
    cost = gpu_hours(charged, causes.get_indexer(named), len(causes))
    count = pd.Series(count.to_numpy(), count.index.astype(str)).reindex(causes, fill_value=0)
    table = pd.DataFrame({"count": count, "gpu_hours": cost}, causes)
    return _dearest_first(table[(table["count"] > 0) | (table["gpu_hours"] > 0)], "cause")


def cause_times(causes: pd.DataFrame, running_hours: float, confidence: float = CONFIDENCE) -> pd.DataFrame:
    """Return one row a cause of `by_cause`: `cause`, then the fields of its `MeanTime`, on the job's running clock.

    Each cause is a Poisson process of its own on the running clock, stopped by time and not by a count; without a
    strike there is a lower bound alone.

    >>> struck = pd.DataFrame({"cause": ["host", "storage_stall"], "count": [3, 0]})
    >>> cause_times(struck, 500, 0.90).round(1)
               cause  hours    low   high  count  exposure_hours
    0           host  166.7   64.5  611.5      3           500.0
    1  storage_stall    inf  166.9    inf      0           500.0
    """
    times = pd.DataFrame([mean_time(running_hours, count, confidence) for count in causes["count"]], causes.index)
    return pd.concat([causes["cause"], times.reindex(columns=list(MeanTime._fields))], axis=1)


def _dearest_first(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return a table by cost; equal costs by name, so that the order never depends on that of the log."""
    table = table.rename_axis(name).reset_index()
    order = np.lexsort((table[name].astype(str), -table["gpu_hours"].round(9)))
    return table.take(order).reset_index(drop=True)


def by_node(spans: pd.DataFrame, interruptions: pd.DataFrame) -> pd.DataFrame:
    """Return one row a node that was blamed, dearest first: `node`, `failures`, `gpu_hours` charged to it."""
    cost = spans.groupby("node", observed=True)["gpu_hours"].sum()
    count = interruptions.loc[is_failure(interruptions), "node"].value_counts()
    table = pd.DataFrame({"failures": count, "gpu_hours": cost}).fillna(0)
    table = table[(table["failures"] > 0) | (table["gpu_hours"] > 0)].astype({"failures": int})
    return _dearest_first(table, "node")


MOST_NODES = 2_000_000


def failures_in_jobs(spans: pd.DataFrame, interruptions: pd.DataFrame) -> pd.DataFrame:
    """Return one row a node of each job: `job`, `node_hours`, `failures`; empty for more than 2 million nodes.

    For `repeat_offenders`, where a log does not tell who was in the job: each of its nodes is given the same time, and
    as many that never failed are added as fill its largest size. Each swap of a node leaves one out, so that chance is
    given a little too much.
    """
    failed = interruptions[is_failure(interruptions) & interruptions["node"].notna()]
    blamed = failed.groupby(["job", "node"], observed=True).size()
    most = spans.groupby("job", observed=True)["nodes"].max()
    others = (most - blamed.groupby("job", observed=True).size()).dropna().clip(lower=0).astype(int)
    if others.sum() > MOST_NODES:
        return pd.DataFrame({"job": [], "node_hours": [], "failures": []})
    job = [*blamed.index.get_level_values("job"), *others.index.repeat(others)]
    failures = np.append(blamed.to_numpy(), np.zeros(others.sum(), int))
    return pd.DataFrame({"job": job, "node_hours": 1.0, "failures": failures})


def reference_steps(log: pd.DataFrame, spans: pd.DataFrame, step_seconds: float) -> tuple[int, float]:
    """Return the steps that were kept, and goodput by them: kept steps x `step_seconds` / time held.

    Another definition of goodput, for logs with a `step` field: kept are, by job, the last step saved or gone back to,
    less that of its start (0 where that has none). A step that is slower than the reference counts as waste. Raises
    BadInput without steps.
    """
    return steps_of(job_steps(log, spans), step_seconds)


def job_steps(log: pd.DataFrame, spans: pd.DataFrame) -> pd.DataFrame:
    """Return one row a job: its `kept` steps, null where its events carry none, and `micros` that it was held."""
    held = spans.groupby("job", observed=True).agg({"start": "min", "end": "max"})
    out = pd.DataFrame({"micros": micros(held["end"]) - micros(held["start"])}, held.index.astype("str"))
    if "step" not in log:
        return out.assign(kept=np.nan)
    steps = log.assign(step=pd.to_numeric(log["step"], errors="coerce")).dropna(subset=["step", "job"])
    begun = steps[steps["event"] == "start"].groupby("job", observed=True)["step"].first()
    last = steps.groupby("job", observed=True)["step"].last()
    kept = last.sub(begun, fill_value=0)
    return out.join(kept.set_axis(kept.index.astype("str")).rename("kept").astype(float), how="outer")


def steps_of(jobs: pd.DataFrame, step_seconds: float) -> tuple[int, float]:
    """Return what `reference_steps` does, from rows of `job_steps`."""
    if not 0 < step_seconds < np.inf:
        raise BadInput(f"step_seconds={step_seconds} must be above 0 and finite")
    if jobs["kept"].isna().all():
        raise BadInput("log: events must carry a step, so that kept steps can be counted")
    kept = int(jobs["kept"].sum())
    return kept, kept * step_seconds / (int(jobs["micros"].sum()) / 1e6)
