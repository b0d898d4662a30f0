"""How long did broken nodes wait? Each trip through the repair shop, from a log's node events.

A trip is one broken node's way from `node_down` to `node_repaired`, and what it waits for on it is a crew.
"""

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from goodput.attribution import US_PER_HOUR
from goodput.events import CODE, COLUMNS, NODE_EVENTS, codes, micros
from goodput.metrics import CONFIDENCE, Mean


def repair_trips(log: pd.DataFrame) -> pd.DataFrame:
    """Return one row a trip: `job`, `node`, `down`, `repair_start`, `repaired`, `wait_hours`, `repair_hours`.

    A time is null where the log has no such event. Hours count up to the end of the job's rows, or to the node's
    retirement, where the trip does not end before; they are NaN where a node is repaired but nothing tells since when.
    """
    times = _times(log[log["event"].isin(NODE_EVENTS) & log["node"].notna()])
    last = log["time"].groupby(codes(log["job"])).max()
    end = times["repaired"].fillna(times["retired"]).fillna(times["job"].map(last))
    start = times["repair_start"].fillna(end.where(times["repaired"].isna()))
    return pd.DataFrame(
        {
            "job": pd.Categorical.from_codes(times["job"], dtype=log["job"].dtype),
            "node": pd.Categorical.from_codes(times["node"], dtype=log["node"].dtype),
            **{name: times[name] for name in ("down", "repair_start", "repaired")},
            "wait_hours": (start - times["down"]) / pd.Timedelta(hours=1),
            "repair_hours": (end - start) / pd.Timedelta(hours=1),
        }
    )


def _times(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row a trip of node events: codes of `job` and `node`, and the first time of each event of it."""
    who = [codes(rows["job"]), codes(rows["node"])]
    trip = (rows["event"] == "node_down").groupby(who).cumsum()
    times = rows["time"].groupby([*who, trip, codes(rows["event"])]).min().unstack()
    times = times.reindex(columns=[CODE[name] for name in NODE_EVENTS]).astype(COLUMNS["time"])
    times = times.set_axis(["down", "repair_start", "repaired", "retired"], axis=1)
    times = times.rename_axis(index=["job", "node", "trip"]).reset_index()
    # what comes before a first `node_down` belongs to no trip
    return times[times["trip"] > 0].sort_values(["job", "down", "node"], kind="stable", ignore_index=True)


def shop_per_job(log: pd.DataFrame) -> pd.DataFrame:
    """Return one row a job: `trips`, `wait_hours` for a crew, `repair_hours` of crews, `hours` that its rows span."""
    trips = repair_trips(log)
    sums = trips.groupby("job", observed=False)[["wait_hours", "repair_hours"]].sum()
    time = pd.Series(micros(log["time"]), index=log.index).groupby(log["job"], observed=False)
    sums.insert(0, "trips", trips["job"].value_counts(sort=False))
    return sums.assign(hours=(time.max() - time.min()) / US_PER_HOUR)


def pooled_mean(sums, counts, confidence: float = CONFIDENCE) -> Mean:
    """Return the sum of `sums` over the sum of `counts`, with its Student-t interval between runs.

    The ratio estimator over independent runs; its variance is that of what each run adds to the sum beyond its share,
    sums - ratio x counts (W. G. Cochran, Sampling Techniques, 1977, sec. 6.3). Waits of one run hang together, so they
    are no evidence of their own. `p10` and `p90` are of the runs' own ratios. All are NaN where nothing was counted.

    >>> pooled_mean([10.0, 30.0, 20.0], [1, 3, 2])  # each run says 10
    Mean(mean=10.0, low=10.0, high=10.0, p10=10.0, p90=10.0, count=3)
    """
    sums, counts = np.asarray(sums, float), np.asarray(counts, float)
    if not counts.any():
        return Mean(*[np.nan] * 5, len(counts))
    ratio, runs, some = sums.sum() / counts.sum(), len(sums), counts > 0
    half = np.nan
    if runs > 1:
        error = (sums - ratio * counts).std(ddof=1) / np.sqrt(runs) / counts.mean()
        half = stdtrit(runs - 1, (1 + confidence) / 2) * error
    p10, p90 = np.quantile(sums[some] / counts[some], [0.1, 0.9])
    return Mean(*(float(value) for value in (ratio, ratio - half, ratio + half, p10, p90)), runs)
