"""What would keep a target? One dial after the other is turned, and all together, until goodput is what is asked for.

Like the tone controls of a radio: how far would this one have to go, if it alone were moved, and where does it stop?
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from goodput.errors import BadInput
from goodput.parts import Distribution, expected
from goodput.scale import BEST, scaled
from goodput.scenario import Scenario

PERFECT = 1e12  # times as good: what is left of it does not show
REACH = -9 * math.log(10), math.log(PERFECT)  # of a search for how many times


def _shorter(duration: float | Distribution, times: float) -> Any:
    if not isinstance(duration, Distribution):
        return duration / times
    given = duration.model_dump(exclude_none=True)
    lengths = {name: given[name] / times for name in ("mean", "median") if name in given}
    values = {"values": [value / times for value in given["values"]]} if "values" in given else {}
    return given | lengths | values


def _saves(scenario: Scenario, times: float) -> dict[str, Any]:
    return {"checkpoint.blocking_minutes": scenario.checkpoint.blocking_minutes / times}


def _detections(scenario: Scenario, times: float) -> dict[str, Any]:
    of_restarts = {"restart.failure_detection_minutes": scenario.restart.failure_detection_minutes / times}
    return of_restarts | {
        f"causes.{name}.detection_minutes": _shorter(cause.detection_minutes, times)
        for name, cause in scenario.causes.items()
    }


def _restarts(scenario: Scenario, times: float) -> dict[str, Any]:
    return {"job.restart_minutes": _shorter(scenario.job.restart_minutes, times)}


def _nodes(scenario: Scenario, times: float) -> dict[str, Any]:
    return {f"cohorts.{name}.mtbf_hours": each.mtbf_hours * times for name, each in scenario.cohorts.items()}


def _failures(scenario: Scenario, times: float) -> dict[str, Any]:
    of_job = scenario.job_failures.mtbi_hours
    return _nodes(scenario, times) | ({"job_failures.mtbi_hours": of_job * times} if of_job else {})


def _times(scenario: Scenario, times: float) -> dict[str, Any]:
    return _saves(scenario, times) | _detections(scenario, times) | _restarts(scenario, times)


# What can be made so many times better; times are made shorter, failures rarer.
DIALS: dict[str, Callable[[Scenario, float], dict[str, Any]]] = {
    "save": _saves,
    "detection": _detections,
    "restart": _restarts,
    "node MTBF": _nodes,
    "save, detection and restart": _times,
    "all failures": _failures,
}


def turned(scenario: Scenario, dial: str, times: float) -> Scenario:
    """Return the scenario with one of `DIALS` so many times better: shorter, or rarer for failures.

    >>> from goodput.scenario import load_scenario
    >>> turned(load_scenario("baseline"), "restart", 4).job.restart_minutes
    5.0
    """
    return scenario.but(DIALS[dial](scenario, times))


def times_needed(scenario: Scenario, dial: str, target: float) -> float:
    """Return how many times better a dial must be for a goodput of `target` at the best interval, by the closed form.

    NaN where no value is enough, below 1 where it is better than it must be, 0 where it does not matter.

    >>> from goodput.scenario import load_scenario
    >>> round(times_needed(load_scenario("baseline"), "save", 0.9), 2), times_needed(
    ...     load_scenario("baseline"), "restart", 0.9
    ... )
    (2.54, nan)
    """
    from scipy.optimize import brentq

    if not 0 < target < 1:
        raise BadInput(f"dials: target={target} must be above 0 and below 1")
    best = scenario.but(BEST)

    def missing(log_times: float) -> float:
        return turned(best, dial, math.exp(log_times)).expected_goodput() - target

    if missing(REACH[1]) < 0:
        return math.nan
    return math.exp(brentq(missing, *REACH)) if missing(REACH[0]) < 0 else 0.0


def turned_to(scenario: Scenario, dial: str, target: float) -> Scenario:
    """Return the scenario with a dial turned as far as `times_needed`; raise BadInput where no value is enough.

    >>> from goodput.scenario import load_scenario
    >>> round(turned_to(load_scenario("baseline"), "save", 0.9).checkpoint.blocking_minutes, 2)
    1.97
    """
    times = times_needed(scenario, dial, target)
    if not times > 0:
        raise BadInput(f"dials: target={target} must be one that {dial} can meet alone in {scenario.name}")
    return turned(scenario, dial, times)


def kept_up_to(scenario: Scenario, target: float, job_failures_grow: bool = True) -> float:
    """Return the GPUs up to which the job keeps a goodput of `target` at the best interval: NaN where at no size.

    By the closed form, so spares must last; as if nodes could be divided. What is said of `scaled` goes for it.

    >>> from goodput.scenario import load_scenario
    >>> round(kept_up_to(load_scenario("baseline"), 0.9))
    605
    """
    dial = "all failures" if job_failures_grow else "node MTBF"
    times = times_needed(scenario, dial, target)
    return scenario.job.nodes * scenario.job.gpus_per_node / times if times else math.inf


def dials_by_size(scenario: Scenario, gpus: Sequence[int], target: float) -> pd.DataFrame:
    """Return one row a size and dial: what it alone must become for a goodput of `target` at the best interval.

    Columns: `gpus`, `dial`, `today` and `needed` (minutes of a save or restart, mean minutes of detection, hours of
    node MTBF; NaN for a dial that is several), `times` (`times_needed`), `limit` (goodput if the dial were perfect).
    """
    sizes = [(each, scaled(scenario, each).but(BEST)) for each in gpus]
    return pd.DataFrame([{"gpus": each} | _needed(size, dial, target) for dial in DIALS for each, size in sizes])


def _needed(scenario: Scenario, dial: str, target: float) -> dict[str, Any]:
    times, today = times_needed(scenario, dial, target), _today(scenario, dial)
    needed = today * times if dial == "node MTBF" else today / times if times else math.inf
    limit = turned(scenario, dial, PERFECT).expected_goodput()
    return {"dial": dial, "today": today, "needed": needed, "times": times, "limit": limit}


def _today(scenario: Scenario, dial: str) -> float:
    values = {
        "save": scenario.checkpoint.blocking_minutes,
        "detection": scenario.overhead_minutes - turned(scenario, "detection", PERFECT).overhead_minutes,
        "restart": expected(scenario.job.restart_minutes),
        "node MTBF": scenario.job.nodes / scenario.node_failures_per_hour,
    }
    return values.get(dial, math.nan)


def noticed_within(scenario: Scenario, minutes: float) -> dict[str, float]:
    """Return the changes that let every cause be noticed within so many minutes; what is faster stays."""
    slow = {name: each.detection_minutes for name, each in scenario.causes.items()}
    return {f"causes.{name}.detection_minutes": minutes for name, each in slow.items() if expected(each) > minutes}


def failing_as_rarely(scenario: Scenario, node_hours: float) -> dict[str, Any]:
    """Return the changes that give the job one failure of any kind in so many running node-hours, in today's mix."""
    return _failures(scenario, node_hours / (scenario.job.nodes * scenario.nominal_mtbi_hours))


def one_after_another(scenario: Scenario, changes: Mapping[str, Mapping[str, Any]]) -> list[Scenario]:
    """Return the scenario as it is, named `today`, then with the first change, with the first two, and so on.

    >>> from goodput.scenario import load_scenario
    >>> steps = one_after_another(load_scenario("baseline"), {"best interval": BEST, "more spares": {"pool.spares": 8}})
    >>> [(step.name, step.pool.spares) for step in steps]
    [('today', 4), ('best interval', 4), ('more spares', 8)]
    """
    steps = [scenario.but({}, name="today")]
    for name, each in changes.items():
        steps.append(steps[-1].but(each, name))
    return steps


def kept_by_steps(steps: Sequence[Scenario], gpus: int, target: float) -> pd.DataFrame:
    """Return one row a step: `step`, `kept_up_to` (GPUs), and what it is at so many GPUs, each at the best interval.

    That is `mtbi_minutes`, `interval_minutes` and `foreseen`, the goodput; `only_nodes_grow` is up to how many GPUs if
    failures that are not tied to a node did not grow with the job. All of it by the closed form.
    """
    sizes = [scaled(step.but(BEST), gpus) for step in steps]
    return pd.DataFrame(
        {
            "step": [step.name for step in steps],
            "kept_up_to": [kept_up_to(step, target) for step in steps],
            "mtbi_minutes": [60 * size.nominal_mtbi_hours for size in sizes],
            "interval_minutes": [size.interval_minutes for size in sizes],
            "foreseen": [size.expected_goodput() for size in sizes],
            "only_nodes_grow": [kept_up_to(step, target, job_failures_grow=False) for step in steps],
        }
    )
