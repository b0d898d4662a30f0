"""How long is a job down, where faults strike a job that is down as well? Numbers in, numbers out, in one unit of time.

Without waiting for nodes an outage is the time until somebody notices, and a restart; a fault in the middle of a
restart begins both anew.
"""

from collections.abc import Sequence

import numpy as np


def mean_outage(
    mtbi: float,
    restart: float,
    detections: Sequence[float],
    shares: Sequence[float],
    failure_share: float = 0.0,
    failure_detection: float = 0.0,
) -> float:
    """Return the mean time from a fault that strikes a running job to training again, where faults strike always.

    `detections` are the times that causes take to notice, `shares` those of all faults that are of each cause;
    `failure_share` of the restarts fail at their end, which is noticed `failure_detection` later. With M the mtbi, R
    the restart, s = exp(-R / M) the chance that no fault strikes it, and p the failure share, the time from the begin
    of a restart is E = (M (1 - s) + (1 - s) N + s p N') / (s (1 - p)), and an outage N + E. N and N' are the means of
    the time until the first of all faults so far is noticed, after a fault and after a failed restart: with F the share
    of faults noticed within t and H its integral from 0, N is the integral of (1 - F) exp(-H / M), and N' that of
    exp(-H / M) up to its own detection. Exact for detection and restarts of fixed lengths.

    >>> round(mean_outage(mtbi=886.7, restart=20, detections=[15], shares=[1]), 3)  # a little over 35
    35.569
    >>> bool(np.isclose(mean_outage(60, 30, [0], [1]), 60 * np.expm1(30 / 60)))
    True
    """
    ends, share = np.array(sorted(zip(detections, shares))).T
    noticed = _until_noticed(mtbi, ends, np.cumsum(share) - share)
    whole = np.exp(-np.float64(restart) / mtbi)
    broken = -np.expm1(-np.float64(restart) / mtbi)
    again = noticed * broken
    if failure_share:
        again += whole * failure_share * _until_noticed_at(mtbi, ends, np.cumsum(share) - share, failure_detection)
    with np.errstate(divide="ignore"):  # a restart of hundreds of MTBIs never succeeds: infinity is right
        return float(noticed + (mtbi * broken + again) / (whole * (1 - failure_share)))


def _until_noticed(mtbi: float, ends: np.ndarray, seen: np.ndarray) -> float:
    """Return N: between two lengths of detection F is level (`seen`, before each end), and H a straight line."""
    return float(((1 - seen) * _stretches(mtbi, ends, seen)).sum())


def _until_noticed_at(mtbi: float, ends: np.ndarray, seen: np.ndarray, latest: float) -> float:
    """Return N': as N, but all is noticed at `latest`, and behind the last of `ends` F is 1."""
    ends, seen = np.append(ends, max(latest, ends[-1])), np.append(seen, 1.0)
    return float(_stretches(mtbi, np.minimum(ends, latest), seen).sum())


def _stretches(mtbi: float, ends: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Return the integral of exp(-H / M) up to each end from the one before."""
    from scipy.special import exprel  # imported here: most commands have no use for it

    width = np.diff(ends, prepend=0)
    steps = seen * width / mtbi
    return np.exp(-(np.cumsum(steps) - steps)) * width * exprel(-steps)
