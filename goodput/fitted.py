"""How sure is a value that was read off a log? One row a value: interval, events behind it, and how it was found.

`fitted` from events, `counted` off the log, `given` by the reader, `pooled` with a published rate, or `assumed` where
the log cannot tell. Intervals hold the true value 9 times in 10.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv, gammaincinv, ndtr, stdtrit

from goodput.metrics import mean_time

LEVEL = 0.90
FEW = 5  # fewer events say little
FEWEST_FOR_A_SHAPE = 8  # of durations, before one asks how they are spread
MOST_VALUES = 20  # of a distribution that is its own sample
SAME = 0.05  # durations that agree so closely are one


class Fitted(NamedTuple):
    """A value of a scenario, its 90 % interval, the number of events behind it, and how it was found."""

    path: str  # dotted, as in a scenario
    value: Any  # a number, a word, or the table of a distribution; None where the scenario has no such key
    low: float = math.nan
    high: float = math.nan
    events: int = 0
    how: str = "counted"
    note: str = ""
    # how the value would vary from log to log: what `draws` draws from
    shape: float = math.nan  # of the gamma distribution of a rate; of the beta distribution of a share
    exposure: float = math.nan  # hours behind a rate; for a share, the shape of what it is not
    error: float = math.nan  # relative standard error of a mean


def six(value: float) -> float:
    """Return a number with six significant digits: more would claim what no log knows.

    >>> six(2 / 3)
    0.666667
    """
    return float(f"{value:.6g}")


def four(value: float) -> str:
    """Return a number with four significant digits as text, thousands separated.

    >>> four(13229.485), four(0.30904)
    ('13,230', '0.309')
    """
    return f"{float(f'{value:.4g}'):,.10g}"


def counted(path: str, value: Any, note: str = "", events: int = 0) -> Fitted:
    """Return a value that the log states as it is."""
    return Fitted(path, value, math.nan, math.nan, events, "counted", note)


def assumed(path: str, value: Any, why: str) -> Fitted:
    """Return a value that the log cannot tell, and why not."""
    return Fitted(path, value, how="assumed", note=why)


def rate(path: str, exposure_hours: float, count: int, note: str = "", weight: float = 1.0) -> Fitted:
    """Return the mean time between `count` events in `exposure_hours`, with its exact interval.

    `weight` multiplies the rate: events that cannot be told apart, in proportion to those that can. Without an event
    there is only a bound; half of one is taken, as Jeffreys' prior does.

    >>> rate("cohorts.default.mtbf_hours", 500, 3)[:5]  # doctest: +ELLIPSIS
    ('cohorts.default.mtbf_hours', 166.667, 64.48..., 611.4..., 3)
    """
    found = mean_time(exposure_hours, count, LEVEL)
    said = _joined(note, "few events: wide" if 0 < count < FEW else "")
    if not count:
        said = _joined(f"none in {exposure_hours:,.0f} h: half an event is taken", note)
    value = exposure_hours / (count or 0.5) / weight
    ends = found.low / weight, found.high / weight
    how = "fitted" if count else "assumed"
    return Fitted(path, six(value), *ends, count, how, said, count + 0.5, exposure_hours / weight)


def pooled(row: Fitted, published_hours: float, source: str, pseudo_events: float) -> Fitted:
    """Return a rate drawn towards a published mean time, which counts as much as so many events of the log's own.

    A gamma prior: shape `pseudo_events`, exposure `pseudo_events` x the published hours; the interval is Bayesian.
    """
    exposure = row.exposure + pseudo_events * published_hours
    shape = row.events + pseudo_events
    low, high = (exposure / gammaincinv(shape, p) for p in ((1 + LEVEL) / 2, (1 - LEVEL) / 2))
    own = f"the log alone: {row.value:.6g} h" if row.events else "the log alone: no event"
    note = f"{own}; {source}: {published_hours:,.0f} h, counted as {pseudo_events:g} events"
    return row._replace(
        value=six(exposure / shape),
        low=float(low),
        high=float(high),
        how="pooled",
        note=note,
        shape=shape,
        exposure=exposure,
    )


def share(path: str, count: int, trials: int, note: str = "") -> Fitted:
    """Return a share with its exact interval (Clopper and Pearson, 1934).

    >>> share("restart.failure_share", 30, 74)[:5]  # doctest: +ELLIPSIS
    ('restart.failure_share', 0.405405, 0.309..., 0.507..., 30)
    """
    tail = (1 - LEVEL) / 2
    low = float(betaincinv(count, trials - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, trials - count, 1 - tail)) if count < trials else 1.0
    said = _joined(note, "few events: wide" if 0 < count < FEW else "")
    return Fitted(path, six(count / trials), low, high, count, "fitted", said, count + 0.5, trials - count + 0.5)


def duration(path: str, values: Sequence[float], note: str = "", shaped: bool = True) -> Fitted:
    """Return how long something takes: a number where all agree within 5 %, else a distribution where they are many.

    With eight values or more the likelier of exponential and lognormal, where Kolmogorov and Smirnov do not reject it
    at 5 %, else the sample itself; with fewer the mean, as time lost is in proportion to it. The mean of each is that
    of the sample. The interval is Student's, of the mean.
    """
    values = np.asarray(values, float)
    mean, spread = float(values.mean()), float(np.ptp(values))
    if len(values) == 1:
        return Fitted(path, six(mean), events=1, how="fitted", note=_joined("one event: no interval", note))
    if spread <= SAME * mean:
        return Fitted(path, six(mean), mean, mean, len(values), "fitted", note, error=0.0)
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    half = float(stdtrit(len(values) - 1, (1 + LEVEL) / 2)) * error
    about = f"mean {four(mean)}, median {four(np.median(values))}, standard deviation {four(values.std(ddof=1))}"
    value = shape_of(values) if shaped and len(values) >= FEWEST_FOR_A_SHAPE else six(mean)
    few = "few events: their mean" if len(values) < FEW else ""
    ends = max(0.0, mean - half), mean + half
    return Fitted(path, value, *ends, len(values), "fitted", _joined(about, few, note), error=error / mean)


def repair_time(path: str, done: Sequence[float], still_open: Sequence[float]) -> Fitted:
    """Return the mean hours of a repair; those that had not ended count for as long as they had taken.

    A number is the mean of an exponential: total time over repairs that ended, with the exact interval. Where that
    law is rejected the repairs that ended speak for themselves.
    """
    done, total = np.asarray(done, float), float(np.sum(done) + np.sum(still_open))
    found = mean_time(total, len(done), LEVEL)
    spread = done.std(ddof=min(1, len(done) - 1))
    about = f"median {four(np.median(done))}, standard deviation {four(spread)} of those"
    said = _joined(f"{len(still_open)} more were open" if len(still_open) else "", about if len(done) else "")
    value: Any = six(total / len(done))
    if len(done) >= FEWEST_FOR_A_SHAPE and not _fits(_exponential(found.hours), done, still_open):
        value = shape_of(done)
        said = _joined("not exponential", said)
    few = "few events: wide" if len(done) < FEW else ""
    shape = len(done) + 0.5
    return Fitted(path, value, found.low, found.high, len(done), "fitted", _joined(said, few), shape, total)


def shape_of(values: np.ndarray) -> dict[str, Any]:
    """Return durations as a distribution of a scenario: exponential, lognormal, or a sample; of the same mean."""
    mean = float(values.mean())
    fits = {"empirical": -math.inf}
    if values.min() > 0:
        logs = np.log(values)
        sigma = max(float(logs.std()), 1e-9)
        laws = {"exponential": _exponential(mean), "lognormal": _lognormal(float(logs.mean()), sigma)}
        likely = {
            "exponential": -len(values) * (1 + math.log(mean)),
            # one parameter more, so one less (Akaike)
            "lognormal": -len(values) * (logs.mean() + math.log(sigma * math.sqrt(2 * math.pi)) + 0.5) - 1,
        }
        fits |= {name: likely[name] for name, law in laws.items() if _fits(law, values, ())}
    best = max(fits, key=lambda name: fits[name])
    if best == "exponential":
        return {"distribution": best, "mean": six(mean)}
    if best == "lognormal":
        return {"distribution": best, "median": six(mean * math.exp(-(sigma**2) / 2)), "sigma": six(sigma)}
    return {"distribution": best, "values": _quantiles(values, mean)}


def _quantiles(values: np.ndarray, mean: float) -> list[float]:
    count = min(MOST_VALUES, len(values))
    picked = np.quantile(values, (np.arange(count) + 0.5) / count)
    return [six(value) for value in picked * (mean / picked.mean() if picked.mean() else 1)]


def _exponential(mean: float):
    return lambda t: -np.expm1(-t / mean)


def _lognormal(mu: float, sigma: float):
    return lambda t: ndtr((np.log(t) - mu) / sigma)


def _fits(law, done: np.ndarray, still_open: Sequence[float]) -> bool:
    """Return whether the test of Kolmogorov and Smirnov lets a law stand at 5 %; open ones by Kaplan and Meier."""
    from scipy.special import kolmogi

    times = np.concatenate([done, still_open])
    order = np.lexsort((np.arange(len(times)) >= len(done), times))
    ended, at_risk = (order < len(done)), np.arange(len(times), 0, -1)
    below = 1 - np.cumprod(1 - ended / at_risk)
    at, after = times[order][ended], below[ended]
    before = np.append(0, below)[:-1][ended]
    expected = law(at)
    distance = max(np.abs(after - expected).max(), np.abs(before - expected).max())
    return bool(distance <= kolmogi(0.05) / math.sqrt(len(times)))


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
