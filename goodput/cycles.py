"""How sure is the goodput of one run? A run is a row of cycles, and a bootstrap of them says what luck did to it.

Like the days of a shop: one knows what a day brings from the days there were, and how much it varies, too.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr, stdtrit

from goodput.attribution import PRODUCTIVE
from goodput.events import codes
from goodput.metrics import CONFIDENCE

FEWEST = 5  # cycles that an interval needs; fewer say nothing of how much they vary
MOST = 30  # batches of neighbouring cycles that are drawn: they keep together waits that come together
RESAMPLES = 2000
METHOD = (
    "expanded percentile bootstrap of cycles (from one return to training to the next) of all jobs together, neighbours"
    f" in {MOST} batches where there are more; null below {FEWEST} cycles; too narrow where nodes were waited for"
)


class Share(NamedTuple):
    """A goodput, with its interval (NaN: too few cycles) and the number of cycles it rests on."""

    goodput: float
    low: float
    high: float
    cycles: int


def cycles(spans: pd.DataFrame) -> pd.DataFrame:
    """Return one row a cycle, by job and time: `job`, `productive` and `held`, in GPU-hours.

    A cycle goes from one return to training (or the beginning of the job) to the next: it holds what was trained, and
    the outage that ended it. So work is lost in the cycle that trained it. A second fault while down makes no cycle of
    its own, nor does an outage that took no time. The last one of a job is cut short by the end of the log.

    Two jobs of one GPU: `a` trains 3 h, loses 1 h of them, is down 1 h and trains again for 5; `b` trains 2 h.

    >>> from goodput.attribution import CATEGORIES
    >>> went = ["productive", "lost_work", "detection", "productive", "productive"]
    >>> spans = pd.DataFrame({"job": pd.Categorical(list("aaaab")), "category": pd.Categorical(went, CATEGORIES),
    ...     "running": [True, True, False, True, True], "interruption": [-1, 0, 0, -1, -1],
    ...     "gpu_hours": [2.0, 1, 1, 5, 2]})
    >>> cycles(spans)
      job  productive  held
    0   a         2.0   4.0
    1   a         5.0   5.0
    2   b         2.0   2.0
    """
    job, hours = codes(spans["job"]), spans["gpu_hours"].to_numpy()
    down = ~spans["running"].to_numpy() & (spans["interruption"].to_numpy() >= 0)
    begins = (np.diff(job, prepend=-1) != 0) | (np.append(False, down[:-1]) & ~down)
    cycle = np.cumsum(begins) - 1
    held = np.bincount(cycle, hours)
    productive = np.bincount(cycle, hours * (codes(spans["category"]) == PRODUCTIVE))
    return pd.DataFrame({"job": spans["job"].array[begins], "productive": productive, "held": held})


def goodput_interval(cycles: pd.DataFrame, confidence: float = CONFIDENCE) -> Share:
    """Return the goodput of `cycles`, the sum of productive over the sum of held GPU-hours, with its interval.

    Cycles are drawn with replacement, always by the same luck; more than 30 as batches of neighbours. The percentiles
    of the resampled goodput are taken further out, as Student's t and the n - 1 in a variance ask for. Sources: B.
    Efron, Annals of Statistics 7, 1979; T. Hesterberg, The American Statistician 69, 2015 (expanded percentiles). The
    cycle that the end of the log cuts short counts as it stands: without it coverage is worse, as a long one is
    likelier to be cut.

    It takes batches to be independent. They are while there is always a spare; where a pool runs dry, waits are rare,
    long and come together, and a run that met none cannot know of them. Of 1,000 simulated runs so many have the
    mean of all runs in their 95 % interval: spares without limit 93 (of 3 days), 93 (7) and 94 % (28); combined 94; no
    spares 94; but baseline 94 (7 days), 93 (14), 89 (28) and 84 % (112), and firmware regression 77 %. Of 20 runs
    together: 94 to 100 %. Where nodes were waited for, one run's interval is too narrow: calibrate and simulate.
    """
    held = cycles["held"].to_numpy()
    hours = cycles[["productive", "held"]].to_numpy()[held > 0]
    count = len(hours)
    goodput = hours[:, 0].sum() / hours[:, 1].sum() if count else np.nan
    if count < FEWEST:
        return Share(float(goodput), np.nan, np.nan, count)
    low, high = np.quantile(_resampled(hours), _expanded(min(count, MOST), confidence))
    return Share(float(goodput), float(low), float(high), count)


def _resampled(hours: np.ndarray) -> np.ndarray:
    pieces = min(len(hours), MOST)
    first = np.arange(pieces) * len(hours) // pieces
    hours = np.add.reduceat(hours, first)
    luck = np.random.Generator(np.random.PCG64(0))
    drawn = luck.integers(0, pieces, (RESAMPLES, pieces))
    return hours[drawn, 0].sum(axis=1) / hours[drawn, 1].sum(axis=1)


def _expanded(count: int, confidence: float) -> np.ndarray:
    tails = np.array([1 - confidence, 1 + confidence]) / 2
    return ndtr(np.sqrt(count / (count - 1)) * stdtrit(count - 1, tails))
