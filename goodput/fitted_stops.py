"""Causes, restarts and saves: what the stops of a log tell of them, else the baseline's."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from goodput.episodes import RUNNING, saves
from goodput.evidence import Evidence
from goodput.fitted import LEVEL, Fitted, assumed, counted, duration, four, rate, share, six
from goodput.metrics import MeanTime, mean_time
from goodput.parts import expected
from goodput.scenario import Scenario

NODE_FAILURE = "node_failure"  # the cause that a scenario needs where no failure names a node
NO_TIME_MINUTES = 0.00001  # saves and restarts of a scenario take some time


class CauseFits(NamedTuple):
    """What a log says of causes."""

    rows: list[Fitted]
    node_faults: pd.DataFrame  # failures of causes whose scope is node
    table: pd.DataFrame  # as `Fit.causes`
    notes: list[str]


def causes_of(found: Evidence, base: Scenario) -> CauseFits:
    """Return the causes of a log, each with its scope, share, noticing and repair, and the rate of job failures.

    A cause is a node's where at least half of its failures name one.
    """
    faults = found.faults.assign(named=found.faults["node"].notna(), planned=False)
    stops = pd.concat([faults, found.planned.assign(named=False, planned=True)], ignore_index=True)
    stops["cause"] = stops["cause"].astype(str)
    by = stops.groupby("cause")
    table = by.agg(count=("cause", "size"), named=("named", "sum"), planned=("planned", "mean")).reset_index()
    table["planned"] = table["planned"] > 0.5
    node = (table["named"] * 2 >= table["count"]) & ~table["planned"]
    table["scope"] = np.where(node, "node", "job")
    table["exposure_hours"] = np.where(node, found.nodes * found.exposure_hours, found.exposure_hours)
    # a planned stop is ordered only while the job runs
    table.loc[table["planned"], "exposure_hours"] = found.running_hours
    table = table.sort_values(["scope", "count", "cause"], ascending=[False, False, True], ignore_index=True)
    times = [mean_time(hours, n, LEVEL) for hours, n in zip(table["exposure_hours"], table["count"], strict=True)]
    table = table.join(pd.DataFrame(times, columns=list(MeanTime._fields))[["hours", "low", "high"]])
    rows = [row for scope in ("node", "job") for row in _scope(found, table, stops, scope, base)]
    of_node = stops["cause"].isin(table.loc[table["scope"] == "node", "cause"]) & ~stops["planned"]
    columns = ["cause", "scope", "count", "exposure_hours", "hours", "low", "high"]
    return CauseFits(rows, stops[of_node], table[columns], _mixed(table))


def _mixed(table: pd.DataFrame) -> list[str]:
    mixed = table[(table["named"] > 0) & (table["named"] < table["count"])]
    return [
        f"{row.cause}: {row.named} of {row.count} stops name a node; taken as scope {row.scope}"
        for row in mixed.itertuples()
    ]


def _scope(found: Evidence, table: pd.DataFrame, stops: pd.DataFrame, scope: str, base: Scenario) -> list[Fitted]:
    mine = table[table["scope"] == scope]
    rows = _nobody(scope, base) if scope == "node" and mine.empty else []
    shares = _shares(mine["count"] / mine["exposure_hours"])
    for cause, part in zip(mine.itertuples(), shares, strict=True):
        rows += _cause(found, cause, part, stops[stops["cause"] == cause.cause], int(mine["count"].sum()), base)
    if scope == "job":
        rows.append(_job_failures(found, mine))
    return rows


def _shares(rates: pd.Series) -> list[float]:
    """Return what each rate is of their sum, with six digits; the first takes what is left to one."""
    shares = [round(each, 6) for each in rates / rates.sum()]
    return [round(1.0 - sum(shares[1:]), 6), *shares[1:]] if shares else []


def _cause(found: Evidence, cause: Any, part: float, stops: pd.DataFrame, total: int, base: Scenario) -> list[Fitted]:
    at, unit = f"causes.{cause.cause}", "node-hours" if cause.scope == "node" else "hours"
    said = f"one in {four(cause.hours)} {unit} ({four(cause.low)} to {four(cause.high)})"
    rows = [
        counted(f"{at}.scope", cause.scope, f"{cause.named} of {cause.count} name a node", cause.count),
        share(f"{at}.share", cause.count, total, said)._replace(value=part),
    ]
    if cause.planned:
        stopped = counted(f"{at}.detection_minutes", 0.0, "planned: nobody has to notice", cause.count)
        return [*rows, stopped, counted(f"{at}.planned", True, "so the log says", cause.count)]
    rows.append(_detection(found, cause.cause, stops, base))
    return [*rows, _needs_repair(found, cause.cause, stops, base)] if cause.scope == "node" else rows


def _detection(found: Evidence, cause: str, stops: pd.DataFrame, base: Scenario) -> Fitted:
    path = f"causes.{cause}.detection_minutes"
    seen = stops[(stops["was"] == RUNNING) & stops["detection_minutes"].notna()]
    if len(seen):
        silent = "half of the silence before it included" if seen["silent_minutes"].any() else ""
        return duration(path, seen["detection_minutes"] + seen["silent_minutes"] / 2, silent)
    known = found.faults["detection_minutes"].dropna()
    if cause in base.causes:
        return assumed(path, expected(base.causes[cause].detection_minutes), "none in the log: the baseline's")
    if len(known):
        return assumed(path, six(known.mean()), "none of this cause in the log: the mean of all causes")
    return assumed(path, _mean_detection(base), "none in the log: the mean of the baseline's causes")


def _mean_detection(base: Scenario) -> float:
    return six(float(np.mean([expected(cause.detection_minutes) for cause in base.causes.values()])))


def _needs_repair(found: Evidence, cause: str, stops: pd.DataFrame, base: Scenario) -> Fitted:
    path = f"causes.{cause}.needs_repair"
    if found.all_stops["left"].notna().any():
        # a stop that the log's end cut does not tell who went
        known = stops[stops["ready"].notna()]
        gone = int(known["left"].notna().sum())
        return counted(path, bool(2 * gone > len(known)), f"the node left in {gone} of {len(known)}", len(known))
    down = found.log.loc[found.log["event"] == "node_down", "node"].dropna()
    if len(down):
        gone = int(stops["node"].isin(down).sum())
        return counted(path, bool(2 * gone > len(stops)), f"{gone} of {len(stops)} nodes went down", len(stops))
    if cause in base.causes:
        return assumed(path, base.causes[cause].needs_repair, "no event tells whether nodes left: the baseline's")
    return assumed(path, False, "no event tells whether nodes left")


def _nobody(scope: str, base: Scenario) -> list[Fitted]:
    why, at = "no failure names a node: a scenario needs a cause", f"causes.{NODE_FAILURE}"
    values = {"scope": scope, "share": 1.0, "detection_minutes": _mean_detection(base), "needs_repair": True}
    return [assumed(f"{at}.{key}", value, why) for key, value in values.items()]


def _job_failures(found: Evidence, mine: pd.DataFrame) -> Fitted:
    path, total = "job_failures.mtbi_hours", int(mine["count"].sum())
    if not total:
        bound = mean_time(found.exposure_hours, 0, LEVEL)
        said = f"none in {found.exposure_hours:,.0f} h: left out; at least {bound.low:,.0f} h"
        return Fitted(path, None, bound.low, bound.high, 0, "assumed", said)
    exposure = total / float((mine["count"] / mine["exposure_hours"]).sum())
    return rate(path, exposure, total, f"{total} stops in {four(exposure)} h, no node's")


def saves_of(found: Evidence, base: Scenario) -> list[Fitted]:
    """Return the compute between saves and what a save takes, in minutes."""
    told, rows = saves(found.log), []
    interval, blocking = "checkpoint.interval_minutes", "checkpoint.blocking_minutes"
    if told.interval_minutes.any():
        rows.append(duration(interval, told.interval_minutes, shaped=False))
    else:
        rows.append(
            assumed(interval, float(base.interval_minutes), "no compute before a save in the log: the baseline's")
        )
    if not len(told.blocking_minutes):
        return [*rows, assumed(blocking, base.checkpoint.blocking_minutes, "no whole save in the log: the baseline's")]
    if not told.blocking_minutes.any():
        why = "saves take no time in the log: theirs is in the compute"
        return [*rows, assumed(blocking, NO_TIME_MINUTES, why)]
    return [*rows, duration(blocking, told.blocking_minutes, shaped=False)]


def restart_rows(found: Evidence, base: Scenario) -> list[Fitted]:
    """Return the minutes of a restart, the share of restarts that fail, and the time until that is noticed."""
    took, path = found.all_stops["restart_minutes"].dropna(), "job.restart_minutes"
    failed, starts = len(found.failed_restarts), len(found.failed_restarts) + len(took)
    hidden, all_starts = found.hidden_restarts
    if not len(took):
        rows = [assumed(path, float(expected(base.job.restart_minutes)), "no whole restart in the log: the baseline's")]
    elif not took.any():
        why = "restarts take no time in the log: theirs is in the compute, or in waiting"
        rows = [assumed(path, NO_TIME_MINUTES, why)]
    elif hidden:
        row = duration(path, took, shaped=False)
        once = 1 - hidden / all_starts
        said = f"each of several starts: a recovery took {four(row.value)} min in the mean; {row.note}"
        rows = [row._replace(value=six(row.value * once), low=row.low * once, high=row.high * once, note=said)]
        failed, starts = hidden, all_starts
    else:
        rows = [duration(path, took)]
    if not failed:
        return rows
    rows.append(share("restart.failure_share", failed, starts, f"{failed} of {starts} starts did not come to train"))
    noticed = found.failed_restarts["detection_minutes"].dropna()
    if noticed.any():
        rows.append(duration("restart.failure_detection_minutes", noticed, shaped=False))
    return rows
