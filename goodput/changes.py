"""What could be changed? The usual changes to a fitted scenario, what they are worth, and what more log would tell."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from goodput.calibrate import Fit
from goodput.errors import BadInput
from goodput.fitted import LEVEL, SAME, Fitted, six
from goodput.metrics import mean_time
from goodput.parts import expected
from goodput.scenario import Scenario

SHORTER = 10  # a save that only copies to host memory, a hang that a health check finds: about a tenth of the time
LEAST_MINUTES = 0.01  # a log whose saves or restarts take no time does not tell what shorter ones gain
MORE_SPARES = (4, 8)
# What changing one of these gains hangs on the others.
RESTS_ON = (
    ("checkpoint.interval_minutes", "checkpoint.blocking_minutes"),
    ("pool.spares", "repair.mean_hours", "repair.crews"),
)


def usual_changes(fit: Fit) -> dict[str, dict[str, Any]]:
    """Return changes by what they are called, each as dotted paths and values, as `rank_what_ifs` takes them.

    They move one thing each: the save interval to Daly's, saves ten times as short (and both, at the interval that fits
    them), the noticing of the cause that costs most of it ten times as fast, restarts and repairs twice as fast, four
    and eight more spares. Where crews are limited one more, and where restarts fail, none that does. A target is a
    fixed number, not a share of what is not known. What changes nothing is left out.

    >>> from goodput.scenario import load_scenario
    >>> from goodput.simulate import simulate
    >>> from goodput.calibrate import calibrate
    >>> fit = calibrate(simulate(load_scenario("baseline"), 1))
    >>> usual_changes(fit)["restarts take 10 min"]
    {'job.restart_minutes': 10.0}
    """
    scenario = fit.scenario
    changes = {**_of_saves(scenario), **_of_noticing(fit), **_of_restarts(scenario)}
    return changes | (_of_pool(scenario) if _uses_pool(fit) else {})


def _of_saves(scenario: Scenario) -> dict[str, dict]:
    save, now = scenario.checkpoint.blocking_minutes, scenario.interval_minutes
    if save < LEAST_MINUTES:
        return {}
    shorter = {"checkpoint.blocking_minutes": six(save / SHORTER)}
    daly, both = _daly(scenario), _daly(scenario.but(shorter))
    block, out = f"saves block {save / SHORTER:.2g} min", {}
    if abs(daly - now) > SAME * now:
        out[f"save every {daly:g} min (Daly)"] = {"checkpoint.interval_minutes": daly}
    out[block] = shorter
    if abs(both - now) > SAME * now:
        out[f"{block}, every {both:g} min"] = shorter | {"checkpoint.interval_minutes": both}
    return out


def _daly(scenario: Scenario) -> float:
    """Return Daly's interval as a number: who sets it knows no other MTBI than the fitted one."""
    return float(f"{scenario.but({'checkpoint.interval_minutes': 'daly'}).interval_minutes:.3g}")


def _of_noticing(fit: Fit) -> dict[str, dict]:
    minutes = {name: expected(cause.detection_minutes) for name, cause in fit.scenario.causes.items()}
    spent = (fit.causes["count"] * fit.causes["cause"].map(minutes)).set_axis(fit.causes["cause"])
    if not spent.max() > 0:
        return {}
    name = spent.idxmax()
    path, faster = f"causes.{name}.detection_minutes", minutes[name] / SHORTER
    return {f"{name} noticed in {faster:.2g} min": {path: six(faster)}}


def _of_restarts(scenario: Scenario) -> dict[str, dict]:
    minutes, out = expected(scenario.job.restart_minutes), {}
    if minutes >= LEAST_MINUTES:
        out[f"restarts take {minutes / 2:.3g} min"] = {"job.restart_minutes": six(minutes / 2)}
    if scenario.restart.failure_share:
        out["no restart fails"] = {"restart.failure_share": 0.0}
    return out


def _uses_pool(fit: Fit) -> bool:
    """Return whether a failure of the log took a node out of the job, so that spares and repairs matter."""
    of_nodes = fit.causes.loc[fit.causes["scope"] == "node", "cause"]
    return any(fit.scenario.causes[name].needs_repair for name in of_nodes)


def _of_pool(scenario: Scenario) -> dict[str, dict]:
    hours = expected(scenario.repair.mean_hours) / 2
    out: dict[str, dict] = {f"repairs take {hours:.3g} h": {"repair.mean_hours": six(hours)}}
    now = scenario.pool.spares
    out |= {f"{more} more spares ({now + more})": _with_spares(scenario, more) for more in MORE_SPARES}
    if scenario.repair.crews is not None:
        out["one more crew"] = {"repair.crews": scenario.repair.crews + 1}
    return out


def _with_spares(scenario: Scenario, more: int) -> dict[str, int]:
    change, (last, cohort) = {"pool.spares": scenario.pool.spares + more}, list(scenario.cohorts.items())[-1]
    if all(each.nodes is not None for each in scenario.cohorts.values()):
        change[f"cohorts.{last}.nodes"] = cohort.nodes + more  # spares belong to the last cohort
    return change


def worth(
    gains: pd.DataFrame, changes: Mapping[str, Mapping[str, Any]], fit: Fit, price_per_gpu_hour: float
) -> pd.DataFrame:
    """Return a table of `rank_what_ifs` with what the changes hold, are worth, and rest on.

    `spare_gpu_hours`: what more spares hold idle in a run; `net_gpu_hours`: the gain less that, with `net_low` and
    `net_high`; `money`: the net at a price; `assumed`: the values behind a change that the log could not tell.
    """
    job, now = fit.scenario.job, fit.scenario.pool.spares
    more = [changes[name].get("pool.spares", now) - now for name in gains["change"]]
    held = pd.Series(more, gains.index) * job.gpus_per_node * fit.scenario.days * 24
    net = (
        gains[["gpu_hours", "low", "high"]].sub(held, axis=0).set_axis(["net_gpu_hours", "net_low", "net_high"], axis=1)
    )
    assumed = [", ".join(_assumed_behind(fit, changes[name])) for name in gains["change"]]
    table = pd.concat([gains.assign(spare_gpu_hours=held), net], axis=1)
    return table.assign(money=table["net_gpu_hours"] * price_per_gpu_hour, assumed=assumed)


def _assumed_behind(fit: Fit, change: Mapping[str, Any]) -> list[str]:
    together = [group for group in RESTS_ON if set(group) & set(change)]
    matter = {*change, *(path for group in together for path in group)}
    leave = (".needs_repair",) if "pool.spares" in matter else ()  # whether a node leaves the job at all
    return [row.path for row in fit.rows if row.how == "assumed" and (row.path in matter or row.path.endswith(leave))]


def as_if_longer(fit: Fit, times: int) -> Fit:
    """Return a fit as if the log were so many times as long and said the same: values as they are, less doubt.

    Events and exposure are multiplied; the interval of a rate is exact again, others shrink by the square root of the
    length. It is for planning how long to log; it is no evidence.

    >>> from goodput.scenario import load_scenario
    >>> from goodput.simulate import simulate
    >>> from goodput.calibrate import calibrate
    >>> fit = calibrate(simulate(load_scenario("baseline"), 1))
    >>> [round(each.row("job_failures.mtbi_hours").high) for each in (fit, as_if_longer(fit, 4))]
    [69, 53]
    """
    if times < 1:
        raise BadInput(f"times={times} must be 1 or more")
    causes = fit.causes.assign(**{name: fit.causes[name] * times for name in ("count", "exposure_hours")})
    found = [mean_time(hours, n, LEVEL) for hours, n in zip(causes["exposure_hours"], causes["count"], strict=True)]
    causes = causes.assign(low=[each.low for each in found], high=[each.high for each in found])
    return fit._replace(rows=[_longer(row, times) for row in fit.rows], causes=causes)


def _longer(row: Fitted, times: int) -> Fitted:
    if row.how not in ("fitted", "pooled"):
        return row
    more = row.events * (times - 1)
    row = row._replace(events=row.events + more, error=row.error / math.sqrt(times))
    if not row.exposure > 0:
        return _narrower(row, times)
    if row.path.endswith("share"):  # of a beta distribution: both of its shapes are counts
        return _narrower(row._replace(shape=row.shape + more, exposure=(row.exposure - 0.5) * times + 0.5), times)
    if row.how == "pooled":
        shape = row.shape + more
        return _narrower(row._replace(shape=shape, exposure=row.exposure * shape / row.shape), times)
    found = mean_time(row.exposure * times, row.events, LEVEL)
    return row._replace(shape=row.shape + more, exposure=row.exposure * times, low=found.low, high=found.high)


def _narrower(row: Fitted, times: int) -> Fitted:
    middle = (row.low + row.high) / 2 if isinstance(row.value, dict) else row.value
    low, high = (middle + (end - middle) / math.sqrt(times) for end in (row.low, row.high))
    return row._replace(low=low, high=high)
