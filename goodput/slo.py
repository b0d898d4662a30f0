"""Is the promise kept? Goodput against a target, window by window, with the error budget and what used it."""

import numpy as np
import pandas as pd

from goodput.attribution import CATEGORIES, US_PER_HOUR
from goodput.errors import BadInput
from goodput.events import codes, micros
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
    if not 0 < target < 1:
        raise BadInput(f"slo: target={target} must be above 0 and below 1")
    if not 0 < window_hours < np.inf:
        raise BadInput(f"slo: window_hours={window_hours} must be above 0 and finite")
    width = max(1, round(window_hours * US_PER_HOUR))
    origin = int(micros(spans["start"]).min()) if origin is None else origin
    end = int(micros(spans["end"]).max()) if end is None else end
    if (end - origin) / width > MOST_WINDOWS:
        raise BadInput(f"slo: window_hours={window_hours} must cut the log into at most {MOST_WINDOWS:,} windows")
    starts = np.arange(origin, max(end, origin + 1), width)
    hours = _gpu_hours(spans, starts)
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


def _gpu_hours(spans: pd.DataFrame, starts: np.ndarray) -> np.ndarray:
    """Return GPU-hours by window and category: each span is cut at the edges of windows, then all are added up."""
    pieces = cut(spans, starts)
    gpus = (spans["nodes"] * spans["gpus_per_node"]).to_numpy()[pieces.span]
    category = codes(spans["category"])[pieces.span]
    cells = np.bincount(
        pieces.cell * len(CATEGORIES) + category,
        (pieces.end - pieces.start) / US_PER_HOUR * gpus,
        minlength=(len(starts) + 1) * len(CATEGORIES),
    )
    return cells.reshape(-1, len(CATEGORIES))[1:]  # what lies before the first window is left out


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
