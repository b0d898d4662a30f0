"""What would a change gain, as far as this log can tell? What-ifs whose interval carries the doubt in the fit.

A parametric bootstrap: scenarios are drawn from what the log leaves open, and each answers the what-if for itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from goodput.attribution import interruptions, spans
from goodput.calibrate import Fit
from goodput.errors import BadInput
from goodput.events import concat_logs
from goodput.experiment import CHUNK
from goodput.fitted import LEVEL, Fitted, six
from goodput.metrics import per_job
from goodput.scenario import Scenario
from goodput.simulate import job_name, simulate_many
from goodput.smoothing import smoothed
from goodput.streams import stream

FEWEST_DRAWS = 20  # fewer tell little of the ends of an interval
MOST_FACTOR = 4.0  # of a mean time: two durations alone would leave it almost anywhere


def draws(fit: Fit, count: int, seed: int = 1) -> list[Scenario]:
    """Return scenarios that the log of a fit could as well have come from.

    Rates are gamma with shape events + 1/2 over their exposure (Jeffreys); causes of one scope share that half, and
    their shares follow from their rates. Means of times vary by Student's law of their standard error, repairs as a
    rate, the share of restarts that fail by its beta law. What was counted, given or assumed stays as it is.

    >>> from goodput.calibrate import calibrate
    >>> from goodput.scenario import load_scenario
    >>> from goodput.simulate import simulate
    >>> fit = calibrate(simulate(load_scenario("baseline"), 1))
    >>> [round(each.cohorts["default"].mtbf_hours) for each in draws(fit, 3)]
    [2315, 2665, 1816]
    """
    drawn = _values(fit, count, seed)
    names = [f"{fit.scenario.name}/draw-{number}" for number in range(1, count + 1)]
    return [fit.scenario.but({path: values[k] for path, values in drawn.items()}, name) for k, name in enumerate(names)]


def _values(fit: Fit, count: int, seed: int) -> dict[str, list]:
    """Return the drawn values by path: one a draw."""
    if count < 1:
        raise BadInput(f"draws={count} must be 1 or more")
    drawn: dict[str, list] = {}
    for row in fit.rows:
        values = _drawn(row, count, stream(seed, "fit", row.path))
        if values is not None:
            drawn[row.path] = values
    return drawn | _causes(fit, count, seed)


def _drawn(row: Fitted, count: int, generator: np.random.Generator) -> list | None:
    """Return other values that a row could have, or None where it has no other."""
    if row.value is None or row.path.endswith(".share"):
        return None
    if row.path == "restart.failure_share":
        return [min(0.99, six(value)) for value in generator.beta(row.shape, row.exposure, count)]
    if row.shape > 0 and row.exposure > 0:
        means = row.exposure / np.maximum(generator.gamma(row.shape, 1.0, count), 1e-12)
        return [_scaled(row.value, value / _mean_of_rate(row)) for value in means]
    if row.error > 0 and row.events > 1:
        factors = np.exp(generator.standard_t(row.events - 1, count) * row.error)
        return [_scaled(row.value, factor) for factor in factors.clip(1 / MOST_FACTOR, MOST_FACTOR)]
    return None


def _mean_of_rate(row: Fitted) -> float:
    return row.value if not isinstance(row.value, dict) else row.exposure / row.events


def _scaled(value: Any, factor: float) -> Any:
    """Return a duration, a number or a distribution, times a factor."""
    if not isinstance(value, dict):
        return six(value * factor)
    longer = {key: six(each * factor) for key, each in value.items() if key in ("mean", "median")}
    if "values" in value:
        longer["values"] = [six(each * factor) for each in value["values"]]
    return value | longer


def _causes(fit: Fit, count: int, seed: int) -> dict[str, list]:
    """Return shares of causes by path, and the mean time between stops of the job."""
    out: dict[str, list] = {}
    for scope, mine in fit.causes.groupby("scope"):
        shapes = mine["count"].to_numpy(float) + 0.5 / len(mine)
        gammas = [
            stream(seed, "fit", f"causes.{cause}").gamma(shape, 1.0, count)
            for cause, shape in zip(mine["cause"], shapes, strict=True)
        ]
        rates = np.maximum(np.array(gammas), 1e-12) / mine["exposure_hours"].to_numpy()[:, None]
        shares = rates / rates.sum(axis=0)
        shares[0] = 1 - shares[1:].sum(axis=0)
        out |= {
            f"causes.{cause}.share": share.clip(0, 1).tolist()
            for cause, share in zip(mine["cause"], shares, strict=True)
        }
        if scope == "job":
            out["job_failures.mtbi_hours"] = (1 / rates.sum(axis=0)).tolist()
    return out


def _size(value: Any) -> float:
    """Return a number that goes with a drawn value, also where that is a distribution."""
    if not isinstance(value, dict):
        return value
    return value.get("mean") or value.get("median") or sum(value["values"])


class Gain(NamedTuple):
    """What a change gains in one run of the fit's length: productive GPU-hours, with the 90 % interval."""

    gpu_hours: float
    low: float
    high: float
    points: float  # of goodput, as a share
    points_low: float
    points_high: float
    fit_deviation: float  # GPU-hours, standard deviation from draw to draw that the drawn values explain
    luck_deviation: float  # GPU-hours, standard deviation of one draw's mean around that: luck, and not in the interval
    draws: int
    seeds: int


def what_if(fit: Fit, changes: Mapping[str, Any], draws: int = 120, seeds: int = 2, seed: int = 1) -> Gain:
    """Return what changes to the fitted scenario gain, in productive GPU-hours of a run, with its 90 % interval.

    Each draw from the fit plays a few runs with and without the change, paired by seed, and each draw has seeds of its
    own. How the gain goes with the drawn values is read off all of them together (`smoothing.smoothed`), so that the
    luck of the few runs stays out: the interval is that of the mean gain over many runs, not of a single one. The gain
    is the middle one of the draws, as gains are skew. What luck is left in its level, a standard error of
    `luck_deviation` / sqrt(draws), is beside the interval: more draws make it small.
    """
    return _gains(fit, {"change": changes}, draws, seeds, seed)["change"]


def rank_what_ifs(
    fit: Fit, what_ifs: Mapping[str, Mapping[str, Any]], draws: int = 120, seeds: int = 2, seed: int = 1
) -> pd.DataFrame:
    """Return one row a what-if, dearest first: `change`, then the fields of its `Gain`.

    All are played on the same draws and the same seeds.
    """
    if not what_ifs:
        raise BadInput("what_ifs: at least one change must be given")
    gains = _gains(fit, what_ifs, draws, seeds, seed)
    table = pd.DataFrame(list(gains.values()))
    table.insert(0, "change", list(gains))
    return table.sort_values(["gpu_hours", "change"], ascending=[False, True], ignore_index=True)


def _gains(fit: Fit, what_ifs: Mapping[str, Mapping], count: int, seeds: int, seed: int) -> dict[str, Gain]:
    if seed < 1:
        raise BadInput(f"seed={seed} must be 1 or more")
    if seeds < 1 or count < FEWEST_DRAWS:
        raise BadInput(f"draws={count} must be {FEWEST_DRAWS} or more, and seeds={seeds} 1 or more")
    drawn = np.array([[_size(value) for value in values] for values in _values(fit, count, seed).values()]).T
    before = draws(fit, count, seed)
    base, held = _productive(before, seeds, seed), _held(fit.scenario)
    gains = {
        name: _productive([each.but(changes) for each in before], seeds, seed) - base
        for name, changes in what_ifs.items()
    }
    return {name: _gain(each, drawn, held, seeds) for name, each in gains.items()}


def _held(scenario: Scenario) -> float:
    """Return the GPU-hours that the job holds in a run."""
    return scenario.job.nodes * scenario.job.gpus_per_node * scenario.days * 24


def _productive(drawn: Sequence[Scenario], seeds: int, seed: int) -> np.ndarray:
    """Return the mean productive GPU-hours of a run of each scenario.

    Each has seeds of its own, and so has another `seed`: the luck of a few runs must not be that of all.
    """
    first = 1 + (seed - 1) * len(drawn) * seeds
    found: list[float] = []
    for at in range(0, len(drawn), CHUNK):
        some = list(enumerate(drawn[at : at + CHUNK], at))
        plays = [(scenario, range(first + k * seeds, first + (k + 1) * seeds)) for k, scenario in some]
        log = concat_logs([simulate_many(scenario, mine) for scenario, mine in plays])
        productive = per_job(spans(log), interruptions(log))["productive"]
        names = [job_name(scenario, seed) for scenario, mine in plays for seed in mine]
        found += productive.loc[names].to_numpy().reshape(-1, seeds).mean(axis=1).tolist()
    return np.array(found)


def _gain(gains: np.ndarray, drawn: np.ndarray, held: float, seeds: int) -> Gain:
    """Return the gain of a change from the mean gain of each draw, a row of drawn values each."""
    plain = smoothed(gains, drawn)
    tail = (1 - LEVEL) / 2
    # of so few draws the k-th is the k / (n + 1) quantile
    ends = np.quantile(plain, [0.5, tail, 1 - tail], method="weibull").tolist()
    shares = [each / held for each in ends]
    return Gain(*ends, *shares, float(plain.std()), float((gains - plain).std()), len(gains), seeds)
