"""How fast is the budget burning? Error budget used over time, and alerts that fire while it can still be saved.

Like a fuel gauge and its warning light: the gauge says what is left, the light comes on when it falls too fast.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from goodput.attribution import PRODUCTIVE, US_PER_HOUR
from goodput.errors import BadInput
from goodput.events import codes, micros

SHORT = 1 / 12  # of the long window: the workbook's 5 minutes for an hour


class Rule(NamedTuple):
    """An alert: it fires where `budget_share` of the SLO window's budget would go within `long_hours`."""

    budget_share: float
    long_hours: float


# Site Reliability Workbook (Google, 2018), ch. 5, what it recommends to start with: two pages and a ticket
WORKBOOK = (Rule(0.02, 1), Rule(0.05, 6), Rule(0.10, 72))


def burn_threshold(rule: Rule, slo_window_hours: float) -> float:
    """Return the burn at which a rule fires: budget share x SLO window / alert window.

    Source: Site Reliability Workbook, ch. 5, "Alert on burn rate". Its 14.4 is 2 % of a 30-day budget in an hour:

    >>> round(burn_threshold(WORKBOOK[0], 30 * 24), 2), round(burn_threshold(WORKBOOK[0], 28 * 24), 2)
    (14.4, 13.44)
    """
    if not np.all(np.asarray(rule.long_hours) > 0):
        raise BadInput(f"burn: long_hours={np.min(rule.long_hours)} must be above 0")
    return rule.budget_share * slo_window_hours / rule.long_hours


def largest_burn(target: float) -> float:
    """Return the burn of a job that does not train at all, 1 / (1 - target): no burn is larger.

    >>> round(largest_burn(0.80), 6), round(largest_burn(0.999), 6)
    (5.0, 1000.0)
    """
    if not 0 < target < 1:
        raise BadInput(f"slo: target={target} must be above 0 and below 1")
    return 1 / (1 - target)


def alert_rules(rules, target: float, slo_window_hours: float) -> pd.DataFrame:
    """Return one row a rule: `budget_share`, `long_hours`, `short_hours`, `threshold`, `can_fire`, `fires_after_hours`.

    `can_fire` says whether the threshold is below `largest_burn`. `fires_after_hours` is how long a complete stop
    lasts until the long window is above the threshold, where nothing was wasted before: threshold x long / largest.
    """
    table = pd.DataFrame([Rule(*rule) for rule in rules])
    most = largest_burn(target)
    threshold = burn_threshold(table, slo_window_hours)
    after = threshold * table["long_hours"] / most
    return table.assign(
        short_hours=SHORT * table["long_hours"],
        threshold=threshold,
        can_fire=threshold < most,
        fires_after_hours=after.where(threshold < most),
    )


def burn_alerts(
    spans: pd.DataFrame, target: float, slo_window_hours: float, rule: Rule, every_minutes: float = 5
) -> pd.DataFrame:
    """Return one row a point in time: `time`, `long_burn`, `short_burn`, `firing`.

    Burn is (1 - goodput) / (1 - target) over the last `long_hours` and over the last twelfth of them. The rule fires
    where both are above its threshold: the long window says that it matters, the short one that it still goes on. Jobs
    are pooled by GPU-hours. A window that begins before the log, or holds no GPU-hours, has no burn (NaN) and does
    not fire. Cost grows with spans + points in time.

    One GPU trains for 12 h, waits for 3 and trains again. With a target of 75 % a stop burns 4. A sixth of the budget
    of 48 h in 6 h is a threshold of 4/3: the long window passes it with more than 2 h of waiting in it, from 14:05 on
    (points are 5 minutes apart) until before 19:00; the short one, half an hour, with more than 10 minutes, until
    before 15:20. Both: 14:05 to 15:15. A quarter is a threshold of 2, and 3 h of waiting in 6 are not above it.

    >>> hour = pd.Timedelta(hours=1); t = pd.Timestamp("2025-01-01", tz="UTC").as_unit("us")
    >>> edges = [t + h * hour for h in (0, 12, 15, 24)]
    >>> spans = pd.DataFrame({"start": edges[:3], "end": edges[1:], "nodes": 1, "gpus_per_node": 1,
    ...     "category": pd.Categorical(["productive", "waiting", "productive"], ["productive", "waiting"])})
    >>> alerts = burn_alerts(spans, 0.75, 48, Rule(1 / 6, 6))
    >>> fired = alerts.loc[alerts["firing"], "time"]
    >>> [f"{time:%H:%M}" for time in (fired.min(), fired.max())], len(fired)
    (['14:05', '15:15'], 15)
    >>> int(burn_alerts(spans, 0.75, 48, Rule(1 / 4, 6))["firing"].sum())
    0
    """
    if not 0 < every_minutes < np.inf:
        raise BadInput(f"burn: every_minutes={every_minutes} must be above 0 and finite")
    gauge = _Gauge(spans)
    times = np.arange(gauge.points[0], gauge.points[-1] + 1, max(1, round(every_minutes * US_PER_HOUR / 60)))
    burns = [gauge.burn(times, hours, target) for hours in (rule.long_hours, SHORT * rule.long_hours)]
    # a hair's breadth: floats that add up to the threshold must not pass it
    threshold = burn_threshold(rule, slo_window_hours) + 1e-9
    firing = (burns[0] > threshold) & (burns[1] > threshold)
    return pd.DataFrame({"time": _times(times), "long_burn": burns[0], "short_burn": burns[1], "firing": firing})


def firing_runs(alerts: pd.DataFrame, apart_hours: float = 6) -> pd.DataFrame:
    """Return one row a firing of `burn_alerts`: `start`, `end` (last point that fired), `peak_burn` (of long windows).

    What fires again within `apart_hours` is the same firing: nobody wants a second page for it.
    """
    on = alerts[alerts["firing"]]
    run = (on["time"].diff() >= pd.Timedelta(hours=apart_hours)).cumsum()
    out = on.groupby(run).agg(start=("time", "min"), end=("time", "max"), peak_burn=("long_burn", "max"))
    return out.reset_index(drop=True)


def firings(alerts: pd.DataFrame, spans: pd.DataFrame, long_hours: float, apart_hours: float = 6) -> pd.DataFrame:
    """Return `firing_runs` with what each had seen when it began.

    That is the interruption that took most of the GPU-hours in the `long_hours` before the start: `interruption`,
    `fault` (when it struck), `cause`, `gpu_hours` (all that it took), `waiting_hours`. Where none lies there: -1,
    NaT, None and zeros.
    """
    return _firings(alerts, spans, long_hours, apart_hours).join(outages(spans), on="interruption")


def _firings(alerts: pd.DataFrame, spans: pd.DataFrame, long_hours: float, apart_hours: float = 6) -> pd.DataFrame:
    out = firing_runs(alerts, apart_hours)
    begin, end = (micros(spans[side])[:, None] for side in ("start", "end"))
    edge = micros(out["start"])
    seen = np.clip(np.minimum(end, edge) - np.maximum(begin, edge - round(long_hours * US_PER_HOUR)), 0, None)
    seen = seen * (spans["nodes"] * spans["gpus_per_node"]).to_numpy()[:, None]
    cost = pd.DataFrame(seen).groupby(spans["interruption"].to_numpy()).sum().drop(-1, errors="ignore")
    cost.loc[-1] = 0  # the last, so that it wins only where no other is there
    return out.assign(interruption=cost.idxmax() if len(out) else np.zeros(0, int))


def firings_by_job(
    spans: pd.DataFrame, target: float, slo_window_hours: float, rules, every_minutes: float = 5
) -> pd.DataFrame:
    """Return `firings` of each rule on each job alone, with `job`, and `budget_share` and `long_hours` of the rule."""
    found = {
        (job, *rule): _firings(burn_alerts(mine, target, slo_window_hours, Rule(*rule), every_minutes), mine, rule[1])
        for job, mine in spans.groupby("job", observed=True)
        for rule in rules
    }
    keys = ["job", *Rule._fields]
    table = pd.concat(found, names=keys).reset_index(keys).reset_index(drop=True)
    return table.join(outages(spans), on="interruption")


def catches(
    spans: pd.DataFrame, target: float, slo_window_hours: float, rules, long_wait_hours=3, every_minutes=5
) -> pd.DataFrame:
    """Return one row a rule: how often it fired over all jobs, and which waits for a node it caught.

    Columns: `firings`, `without_wait` (for an interruption that had a spare at once, or for none), `long_waits` (of
    `long_wait_hours` or more) and `caught`: those during which the rule was firing at some time.
    """
    fired = firings_by_job(spans, target, slo_window_hours, rules, every_minutes)
    down = spans[spans["interruption"] >= 0].groupby("interruption").agg(job=("job", "first"), until=("end", "max"))
    down = outages(spans).join(down).query("waiting_hours >= @long_wait_hours").reset_index()
    both = fired.merge(down[["job", "fault", "until", "interruption"]], on="job", suffixes=("", "_wait"))
    both = both[(both["start"] <= both["until"]) & (both["end"] >= both["fault_wait"])]
    rule = list(Rule._fields)
    out = pd.DataFrame(rules, columns=rule).set_index(rule).assign(firings=fired.groupby(rule).size())
    out["without_wait"] = (fired["waiting_hours"] == 0).groupby([fired[name] for name in rule]).sum()
    out = out.assign(long_waits=len(down), caught=both.groupby(rule)["interruption_wait"].nunique())
    return out.fillna(0).astype(int).reset_index()


def burn_levels(
    spans: pd.DataFrame, target: float, long_hours, quantiles=(0.5, 0.95, 0.99, 1), every_minutes: float = 5
) -> pd.DataFrame:
    """Return how high burn is at any moment: one row a window length, one column a quantile, over all jobs and times.

    What a healthy job burns anyway: a threshold has to be above it. Column 1 is the highest.
    """
    jobs = [mine for _, mine in spans.groupby("job", observed=True)]
    rows = {}
    for hours in long_hours:
        burns = [burn_alerts(mine, target, hours, Rule(1, hours), every_minutes)["long_burn"] for mine in jobs]
        rows[hours] = pd.concat(burns).quantile(quantiles)
    return pd.DataFrame(rows).T.rename_axis("long_hours")


def outages(spans: pd.DataFrame) -> pd.DataFrame:
    """Return one row an interruption: `fault` (when it struck), `cause`, `gpu_hours` that it took, `waiting_hours`.

    Row -1 stands for none.
    """
    mine = spans[spans["interruption"] >= 0]
    wait = ((mine["end"] - mine["start"]) / pd.Timedelta(hours=1)).where(mine["category"] == "waiting", 0.0)
    fault = mine["start"].where(mine["category"] != "lost_work")  # what was lost lies before it
    mine = mine.assign(fault=fault, waiting_hours=wait, cause=mine["cause"].astype(object))
    take = {"fault": "min", "cause": "first", "gpu_hours": "sum", "waiting_hours": "sum"}
    out = mine.groupby("interruption").agg(take)
    never = pd.array([pd.NaT], dtype=spans["start"].dtype)
    none = pd.DataFrame({"fault": never, "cause": [None], "gpu_hours": 0.0, "waiting_hours": 0.0}, index=[-1])
    return pd.concat([out, none]).rename_axis("interruption")


def budget_use(spans: pd.DataFrame, target: float, slo_window_hours: float, every_hours: float = 1) -> pd.DataFrame:
    """Return one row a job and point in time: `job`, `days` since its start, `used_share` of its budget, `even_share`.

    The budget is (1 - target) x what the job would hold in the SLO window at the size it has had so far. `even_share`
    is the straight line: the part of the window that is over. Above it, the budget will not last.
    """
    jobs = spans.groupby("job", observed=True)
    return pd.concat([_use(job, mine, target, slo_window_hours, every_hours) for job, mine in jobs], ignore_index=True)


def _use(job: str, spans: pd.DataFrame, target: float, slo_window_hours: float, every_hours: float) -> pd.DataFrame:
    gauge, width = _Gauge(spans), max(1, round(every_hours * US_PER_HOUR))
    times = np.arange(gauge.points[0], gauge.points[-1] + 1, width)
    passed = (times - times[0]) / US_PER_HOUR
    burn = gauge.burn(times, passed, target)
    even = passed / slo_window_hours
    used = np.where(passed > 0, burn * even, 0.0)
    return pd.DataFrame({"job": job, "days": passed / 24, "used_share": used, "even_share": even})


class _Gauge:
    """GPU-hours held and productive until any moment: straight lines between the points where a span begins or ends."""

    def __init__(self, spans: pd.DataFrame):
        gpus = (spans["nodes"] * spans["gpus_per_node"]).to_numpy("int64")
        kept = gpus * (codes(spans["category"]) == PRODUCTIVE)
        edges = np.concatenate([micros(spans["start"]), micros(spans["end"])])
        self.points, at = np.unique(edges, return_inverse=True)
        self.until = [self._until(at, np.concatenate([rate, -rate])) for rate in (gpus, kept)]

    def _until(self, at: np.ndarray, change: np.ndarray) -> np.ndarray:
        rate = np.cumsum(np.bincount(at, change, len(self.points)))
        return np.append(0, np.cumsum(rate[:-1] * np.diff(self.points)))

    def burn(self, times: np.ndarray, hours, target: float) -> np.ndarray:
        """Return the burn of the `hours` before each time (microseconds); NaN where a window is empty or cut off."""
        since = times - np.round(np.asarray(hours, float) * US_PER_HOUR).astype("int64")
        held, kept = (np.interp(times, self.points, y) - np.interp(since, self.points, y) for y in self.until)
        with np.errstate(invalid="ignore", divide="ignore"):
            burn = (1 - kept / held) * largest_burn(target)
        return np.where((held > 0) & (since >= self.points[0]), burn, np.nan)


def _times(moments: np.ndarray) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(moments.view("datetime64[us]")).tz_localize("UTC")
