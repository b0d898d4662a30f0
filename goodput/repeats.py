"""Is that more than chance? The ratio of two failure rates, repeat offenders, and the day it could have been known.

Like a dice player who loses three times in a row: first ask how often honest dice do that.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import bdtr, bdtrc, betaincinv, pdtrc

from goodput.errors import BadInput
from goodput.metrics import CONFIDENCE


class RateRatio(NamedTuple):
    """The ratio of two rates with its exact interval, and the two-sided p value of "both rates are equal"."""

    ratio: float
    low: float
    high: float
    p_value: float


def rate_ratio(count, exposure_hours, other_count, other_exposure_hours, confidence: float = CONFIDENCE) -> RateRatio:
    """Return the ratio of a failure rate to another one, with its exact interval; numbers, or arrays of them.

    Of all n failures, those of the first group are binomial with the share r t1 / (r t1 + t2), whatever the rates are;
    the Clopper-Pearson bounds of that share are turned into bounds of r. The p value is twice the smaller tail, so it
    is below 1 - confidence where the interval leaves 1 out. Sources: J. Przyborowski and H. Wilenski, Biometrika 31,
    1940; C. J. Clopper and E. S. Pearson, Biometrika 26, 1934.

    The example of R's `poisson.test`, which has the same bounds: 11 cases in 800 person-years and 21 in 3,011.

    >>> [round(float(number), 3) for number in rate_ratio(11, 800, 21, 3011)]
    [1.971, 0.858, 4.277, 0.112]
    """
    x, y = np.asarray(count, float), np.asarray(other_count, float)
    odds = np.asarray(other_exposure_hours, float) / np.asarray(exposure_hours, float)
    tail = (1 - confidence) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(x > 0, betaincinv(np.maximum(x, 1), y + 1, tail), 0)
        high = np.where(y > 0, betaincinv(x + 1, np.maximum(y, 1), 1 - tail), 1)
        bounds = [x / y * odds, low / (1 - low) * odds, high / (1 - high) * odds]
    tails = bdtrc(x - 1, (x + y).astype(int), 1 / (1 + odds)), bdtr(x, (x + y).astype(int), 1 / (1 + odds))
    return RateRatio(*bounds, np.minimum(1, 2 * np.minimum(*tails)))


def repeat_offenders(nodes: pd.DataFrame, within: str | None = None) -> pd.DataFrame:
    """Return how many nodes failed k times or more, and how many would by chance if all nodes were alike.

    `nodes` is `failures_by_node`; with `within` ("cohort") only nodes of one cohort are taken to be alike. One row for
    each k from 1 on: `failures_or_more`, `nodes`, `expected`, `chance`. Given n failures in all, those of a node are
    binomial with its share of the node-hours; `expected` adds up the tails, which is exact. `chance` is the probability
    of as many nodes or more, by a Poisson count of that mean: nearly right where such nodes are rare.

    Four nodes of equal time share four failures, three of them on one: each would have two or more in 67 of 256 ways.

    >>> four = pd.DataFrame({"node_hours": [10, 10, 10, 10], "failures": [3, 1, 0, 0]})
    >>> repeat_offenders(four).round(3)
       failures_or_more  nodes  expected  chance
    0                 1      2     2.734   0.758
    1                 2      1     1.047   0.649
    2                 3      1     0.203   0.184
    """
    groups = nodes.groupby(nodes[within] if within else np.zeros(len(nodes)))
    total = groups["failures"].transform("sum").to_numpy()[:, None]
    share = (nodes["node_hours"] / groups["node_hours"].transform("sum")).to_numpy()[:, None]
    least = np.arange(1, max(int(nodes["failures"].max()), 2) + 1)
    seen = (nodes["failures"].to_numpy()[:, None] >= least).sum(axis=0)
    # more than a group had in all is impossible; bdtrc has no answer there
    expected = np.where(least <= total, bdtrc(least - 1.0, total, share), 0).sum(axis=0)
    chance = np.where(seen > 0, pdtrc(np.maximum(seen, 1) - 1, expected), 1)
    return pd.DataFrame({"failures_or_more": least, "nodes": seen, "expected": expected, "chance": chance})


def evidence(daily: pd.DataFrame, suspect: str, confidence: float = CONFIDENCE) -> pd.DataFrame:
    """Return one row a job and day of `cohorts_by_day`: how often the suspect cohort failed against all others.

    Columns: `job`, `days`, `failures`, `other_failures`, and `ratio`, `low`, `high`, `p_value` of `rate_ratio`.
    Raises BadInput for a cohort that is not there.
    """
    if suspect not in set(daily["cohort"]):
        raise BadInput(f"cohorts: {suspect} must be one of: {', '.join(daily['cohort'].unique())}")
    side = pd.Series(np.where(daily["cohort"] == suspect, "mine", "others"), index=daily.index)
    sums = daily.groupby(["job", "days", side], observed=True)[["failures", "node_hours"]].sum().unstack()
    counts, hours = sums["failures"], sums["node_hours"]
    found = rate_ratio(counts["mine"], hours["mine"], counts["others"], hours["others"], confidence)
    out = pd.DataFrame({"failures": counts["mine"], "other_failures": counts["others"]}).assign(**found._asdict())
    return out.reset_index()


def when_known(found: pd.DataFrame) -> pd.DataFrame:
    """Return for each job of `evidence` the day when the lower bound was first above 1, and from which it stayed there.

    Columns `first_day`, `stays_from`; NaN where it never was. Only `first_day` can be told on the day itself.
    """
    above = found["low"] > 1
    stays = above[::-1].groupby(found["job"], observed=True).cummin()[::-1]
    days = pd.DataFrame({"first_day": found["days"].where(above), "stays_from": found["days"].where(stays)})
    return days.groupby(found["job"], observed=True).min()
