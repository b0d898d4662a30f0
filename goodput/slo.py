"""Is the promise kept? Goodput against a target, window by window, with the error budget and what used it."""

import numpy as np
import pandas as pd

from goodput.attribution import CATEGORIES, US_PER_HOUR
from goodput.errors import BadInput
from goodput.events import codes, micros
from goodput.metrics import CONFIDENCE, mean_interval
from goodput.tally import add_up, gpu_hours, sizes
from goodput.window import cut

MOST_WINDOWS = 1_000_000


def slo_windows(
    spans: pd.DataFrame, target: float, window_hours: float, origin: int | None = None, end: int | None = None
) -> pd.DataFrame:
    """Return one row a window, from `origin` on (microseconds; by default the first span), the last one cut at `end`.

    Columns: `start`, `end`, `held_gpu_hours`, `goodput`, `met` (True, False, or null: no data), `budget_gpu_hours`
    = (1 - target) x held, `used_gpu_hours` (all that was not productive), `burn` = used / budget (1: just used up),
    `worst` (the category that used most) and `worst_gpu_hours`. Spans are clipped to windows; cost grows with spans
    + windows. Raises BadInput for a target not between 0 and 1 or a window not above 0.

    A job of one node with one GPU trains 30 h and then waits 6 h; in 24-hour windows:

    >>> hour = pd.Timedelta(hours=1); t = pd.Timestamp("2025-01-01", tz="UTC").as_unit("us")
    >>> spans = pd.DataFrame({"start": [t, t + 30 * hour], "end": [t + 30 * hour, t + 36 * hour],
    ...     "category": pd.Categorical(["productive", "waiting"], CATEGORIES), "nodes": 1, "gpus_per_node": 1})
    >>> slo_windows(spans, target=0.75, window_hours=24)[["goodput", "met", "burn", "worst"]]
       goodput    met  burn    worst
    0      1.0   True   0.0     None
    1      0.5  False   2.0  waiting
    """
    origin = int(micros(spans["start"]).min()) if origin is None else origin
    end = int(micros(spans["end"]).max()) if end is None else end
    return windows_of(window_tally(spans, window_hours, origin), target, window_hours, origin, end)


def windows_of(held: pd.DataFrame, target: float, window_hours: float, origin: int, end: int) -> pd.DataFrame:
    """Return what `slo_windows` does, from the `window_tally` of windows that begin at `origin`."""
    check_target(target)
    starts = _starts(window_hours, origin, max(end, origin + 1))
    width = _width(window_hours)
    cells = held["window"].to_numpy() * len(CATEGORIES) + held["category"].to_numpy()
    inside = (held["window"] >= 0).to_numpy() & (held["window"] < len(starts)).to_numpy()
    hours = gpu_hours(held[inside], cells[inside], len(starts) * len(CATEGORIES)).reshape(-1, len(CATEGORIES))
    held, productive = hours.sum(axis=1), hours[:, 0]
    wasted = hours[:, 1:]
    worst = wasted.argmax(axis=1)
    edges = [
        pd.DatetimeIndex(at.view("datetime64[us]")).tz_localize("UTC")
        for at in (starts, np.minimum(starts + width, end))
    ]
    with np.errstate(invalid="ignore"):
        goodput = productive / held  # NaN where nothing was held
    any_waste = wasted.sum(axis=1) > 0
    return pd.DataFrame(
        {
            "start": edges[0],
            "end": edges[1],
            "held_gpu_hours": held,
            "goodput": goodput,
            # a hair's breadth: floats that add up to the target must not miss it
            "met": np.where(held > 0, goodput >= target - 1e-12, None),
            "budget_gpu_hours": (1 - target) * held,
            "used_gpu_hours": held - productive,
            "burn": (1 - goodput) / (1 - target),
            "worst": pd.Series(np.where(any_waste, np.array(CATEGORIES[1:], object)[worst], None), dtype=object),
            "worst_gpu_hours": wasted.max(axis=1),
        }
    )


def check_target(target: float) -> None:
    """Refuse a target that is no share."""
    if not 0 < target < 1:
        raise BadInput(f"slo: target={target} must be above 0 and below 1")


def _width(window_hours: float) -> int:
    if not 0 < window_hours < np.inf:
        raise BadInput(f"slo: window_hours={window_hours} must be above 0 and finite")
    return max(1, round(window_hours * US_PER_HOUR))


def _starts(window_hours: float, first: int, end: int) -> np.ndarray:
    width = _width(window_hours)
    if (end - first) / width > MOST_WINDOWS:
        raise BadInput(f"slo: window_hours={window_hours} must cut the log into at most {MOST_WINDOWS:,} windows")
    return np.arange(first, end, width)


def window_tally(spans: pd.DataFrame, window_hours: float, origin: int) -> pd.DataFrame:
    """Return the tally of time by `window` (0 begins at `origin`, microseconds) and `category` (its code).

    Each span is cut at the edges of windows, then all are added up.
    """
    width, start, end = _width(window_hours), micros(spans["start"]), micros(spans["end"])
    first = (int(start.min()) - origin) // width if len(spans) else 0
    edges = _starts(window_hours, origin + first * width, int(end.max()) if len(spans) else origin)
    pieces = cut(spans, edges)
    rows = {
        "window": first + pieces.cell - 1,
        "category": codes(spans["category"])[pieces.span],
        "size": sizes(spans)[pieces.span],
        "micros": pieces.end - pieces.start,
    }
    return add_up([pd.DataFrame(rows, copy=False)])


def error_budget(windows: pd.DataFrame, target: float) -> dict:
    """Return the whole budget of `slo_windows`: windows met, missed and without data, GPU-hours of budget and used."""
    met = windows["met"]
    budget, used = float(windows["budget_gpu_hours"].sum()), float(windows["used_gpu_hours"].sum())
    return {
        "target": target,
        "windows": len(windows),
        "met": int((met == True).sum()),  # noqa: E712  null is neither
        "missed": int((met == False).sum()),  # noqa: E712
        "no_data": int(met.isna().sum()),
        "budget_gpu_hours": budget,
        "used_gpu_hours": used,
        "burn": used / budget if budget else None,
    }


def windows_by_job(spans: pd.DataFrame, target: float, window_hours: float) -> pd.DataFrame:
    """Return `slo_windows` of each job on its own, `job` in front: a run is a job, and is not pooled with others."""
    parts = spans.groupby("job", observed=True)
    tables = {job: slo_windows(mine, target, window_hours) for job, mine in parts}
    return pd.concat(tables, names=["job"]).reset_index("job").reset_index(drop=True)


def targets_met(windows: pd.DataFrame, targets, confidence: float = CONFIDENCE) -> pd.DataFrame:
    """Return how often each target would have been met, one row a target.

    Columns: `target`, `windows`, `met_share`, `low`, `high`. `windows` is `windows_by_job`; windows without data are
    left out. The interval is that of the mean of the jobs' shares (Student's t), since the windows of one job share its
    luck; it is cut at 0 and 1.

    >>> two = pd.DataFrame({"job": ["a", "a", "b", "b"], "goodput": [0.9, 0.7, 0.8, 0.8]})
    >>> targets_met(two, [0.75, 0.85])[["target", "windows", "met_share"]]
       target  windows  met_share
    0    0.75        4       0.75
    1    0.85        4       0.25
    """
    known = windows[windows["goodput"].notna()]
    targets = np.asarray(targets, float)
    met = pd.DataFrame(known["goodput"].to_numpy()[:, None] >= targets - 1e-12)
    shares = met.groupby(known["job"].to_numpy()).mean()
    ends = [mean_interval(shares[column], confidence)[1:3] for column in shares]
    low, high = np.clip(ends, 0, 1).T
    return pd.DataFrame(
        {"target": targets, "windows": len(known), "met_share": met.mean().to_numpy(), "low": low, "high": high}
    )
