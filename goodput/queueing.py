"""How many are out at once? The laws of waiting lines, for spares and repair crews.

Think of a town with a few taxis: who calls when all are out waits, or gives up, and a hundred years of telephone
traffic say how often. `load` is the offered load, in Erlang: arrivals in a mean service (here a mean repair), which is
the mean number of nodes in repair if nothing ever held them up. `run` is the length of a run in mean repairs, from a
start with all nodes healthy.
"""

import itertools
import math

import numpy as np
from scipy.special import expi, pdtrc  # not scipy.stats: it alone would double the start-up of a command

from goodput.errors import BadInput
from goodput.parts import expected
from goodput.scenario import Scenario


def _check(**values) -> None:
    for name, value in values.items():
        if not (np.all(np.asarray(value) >= 0) and np.all(np.isfinite(value))):
            raise BadInput(f"queueing: {name}={value} must be 0 or more, and finite")


def _check_whole(least: int, **values) -> None:
    for name, value in values.items():
        value = np.asarray(value)
        if not (np.all(value >= least) and np.all(value == np.floor(value)) and np.all(value < 1e7)):
            raise BadInput(f"queueing: {name}={value} must be a whole number, {least} or more")


def _plain(values):
    return float(values) if np.ndim(values) == 0 else values


def poisson_tail(count, load):
    """Return the probability that more than `count` are out at once, with servers without limit: M/G/infinity.

    The number out is then Poisson with mean `load`, whatever the law of the repair times. For spares this is the
    share of time in which more nodes are broken than there are spares, if they went on failing while the job waits.

    >>> round(poisson_tail(1, 2), 4)  # 1 - exp(-2) (1 + 2)
    0.594
    """
    _check(load=load)
    _check_whole(0, count=count)
    return _plain(pdtrc(count, load))


def monthly_bias(events):
    """Return by what factor the mean of monthly mean times exceeds the truth, for Poisson `events` a month.

    A month with n events says time / n; one without says nothing and has to be left out. So the factor is events x
    E(1/n | n > 0) = events (Ei(events) - ln events - 0.5772) / (exp(events) - 1), about 1 + 1 / events for many (the
    sum of x^n / (n n!) is in M. Abramowitz and I. Stegun, 1964, 5.1.10). Pooled mean times have no such bias.

    >>> [round(monthly_bias(events), 2) for events in (1, 3, 10, 100)]
    [0.77, 1.3, 1.13, 1.01]
    """
    _check(events=events)
    many = np.maximum(events, 1e-9)
    few = np.minimum(many, 500.0)  # beyond, the exponentials overflow and the series is exact
    exact = few * (expi(few) - np.log(few) - np.euler_gamma) / np.expm1(few)
    return _plain(np.where(many > few, 1 + 1 / many + 2 / many**2, exact))


def erlang_b(servers, load):
    """Return the probability that all `servers` are busy where who finds no server goes away: M/G/c/c.

    Source: A. K. Erlang, "Solution of some problems in the theory of probabilities of significance in automatic
    telephone exchanges", 1917; by the recursion 1 / B(c) = 1 + c / (load B(c - 1)), which neither overflows nor loses
    digits. It holds for any law of the service times. A job that does not fail while it waits for a node is such a
    line: with S spares it waits for the share B(S + 1, load) of the time.

    >>> round(erlang_b(2, 1), 4)  # (1/2) / (1 + 1 + 1/2)
    0.2
    """
    _check(load=load)
    _check_whole(0, servers=servers)
    servers, load = np.broadcast_arrays(servers, np.asarray(load, float))
    inverse = np.ones(load.shape)
    with np.errstate(divide="ignore", over="ignore"):  # no load, or far too many servers: never all busy
        for count in range(1, int(servers.max(initial=0)) + 1):
            inverse = np.where(count <= servers, 1 + count / load * inverse, inverse)
    return _plain(1 / inverse)


def erlang_c(servers, load):
    """Return the probability that who comes must wait, where all wait until they are served: M/M/c.

    Source: Erlang 1917; C = B / (1 - (1 - B) load / c), with B of `erlang_b`. Assumes exponential service times. It
    is 1 from load = servers on: then the line grows without end.

    >>> round(erlang_c(2, 1), 4)
    0.3333
    """
    blocked, used = erlang_b(servers, load), np.asarray(load, float) / np.maximum(servers, 1e-300)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        waits = np.where(used < 1, blocked / (1 - (1 - blocked) * used), 1.0)
    return _plain(waits)


def mean_wait(servers, load, service):
    """Return the mean time in line of M/M/c, in the unit of the mean `service`; infinite from load = servers on.

    C service / (servers - load), with C of `erlang_c`: the mean over all who come, those that do not wait included.

    >>> round(mean_wait(1, 0.5, service=48), 1)  # half of them find the one crew busy, and wait 96 h
    48.0
    """
    _check(service=service)
    free = np.asarray(servers, float) - load
    with np.errstate(divide="ignore"):
        return _plain(np.where(free > 0, erlang_c(servers, load) * service / np.maximum(free, 0), np.inf))


def broken_shares(spares: int, load: float, crews: int | None = None, run: float = math.inf) -> np.ndarray:
    """Return the share of time with 0, 1, ... `spares` + 1 nodes broken, for a job that does not fail while it waits.

    A birth-death chain: a node breaks at the rate `load` (in mean repairs) unless spares + 1 are broken, and
    min(broken, crews) are mended at once. In the long run the shares are products of load / min(k, crews): M/M/c/K
    with K = spares + 1 (L. Kleinrock, Queueing Systems 1, 1975, ch. 3). For a `run` they are the mean over it, from a
    start with none broken, by the exponential of the chain's matrix. Assumes exponential repairs (with crews without
    limit the long run holds for any), and detection and restart short against them.

    >>> broken_shares(1, load=1.0).round(3)  # 1, 1, 1/2 over their sum
    array([0.4, 0.4, 0.2])
    >>> broken_shares(1, load=1.0, run=2).round(3)  # a start without broken nodes shows for a few repairs
    array([0.588, 0.305, 0.107])
    """
    _check(load=load)
    _check_whole(0, spares=spares)
    _check_whole(1, crews=1 if crews is None else crews)
    if not run > 0:
        raise BadInput(f"queueing: run={run} must be above 0")
    mended = np.minimum(np.arange(1, spares + 2), crews or np.inf)
    if math.isinf(run):
        return _long_run(load / mended)
    return _mean_over(run, np.diag(np.full(spares + 1, float(load)), 1) + np.diag(mended, -1))


def _long_run(ratios: np.ndarray) -> np.ndarray:
    """Return the products of the ratios as shares; by logarithms, as a product of thousands of them overflows."""
    with np.errstate(divide="ignore"):  # no load: only the first state
        logs = np.append(0.0, np.cumsum(np.log(ratios)))
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def _mean_over(run: float, rates: np.ndarray) -> np.ndarray:
    """Return the mean time in each state over a run from the first: the corner of exp([[Q, 1], [0, 0]] run) / run."""
    from scipy.linalg import expm

    size = len(rates)
    both = np.zeros((2 * size, 2 * size))
    both[:size, :size] = rates - np.diag(rates.sum(axis=1))
    both[:size, size:] = np.eye(size)
    return expm(both * run)[0, size:] / run


def waiting_share(spares: int, load: float, crews: int | None = None, run: float = math.inf) -> float:
    """Return the share of time in which a job waits for a node: all spares broken and one node more.

    With crews without limit and a run without end it is `erlang_b(spares + 1, load)`.

    >>> waiting_share(1, load=1.0) == erlang_b(2, 1.0)
    True
    """
    return float(broken_shares(spares, load, crews, run)[-1])


def crew_wait(spares: int, load: float, crews: int, service: float, run: float = math.inf) -> float:
    """Return the mean time that a broken node waits for a crew, in the unit of the mean `service`.

    Little's law: nodes in line over nodes that break. Shorter than `mean_wait`, which it nears with more spares: a job
    that waits breaks nothing, so the line is never longer than spares + 1 - crews.

    >>> round(crew_wait(200, 0.5, crews=1, service=48), 1) == round(mean_wait(1, 0.5, service=48), 1)
    True
    """
    shares = broken_shares(spares, load, crews, run)
    line = np.maximum(np.arange(len(shares)) - crews, 0) @ shares
    return float(line * service / (load * (1 - shares[-1])))


def crews_busy(spares: int, load: float, crews: int, run: float = math.inf) -> float:
    """Return the mean number of crews at work; over `crews` it is their utilisation.

    >>> round(crews_busy(200, 0.5, crews=1), 6)  # all work is done: it is the load
    0.5
    """
    shares = broken_shares(spares, load, crews, run)
    return float(np.minimum(np.arange(len(shares)), crews) @ shares)


def counting_spares(goodput, spares, nodes: int):
    """Return goodput with the spares counted: productive GPU-hours over those of the job *and* its spares, a share.

    It rises with one more spare as long as that gains the job more than a node of the job trains in the same time.

    >>> round(counting_spares(0.80, 4, nodes=128), 4)
    0.7758
    """
    return goodput * nodes / (nodes + spares)


def spares_for(share: float, load: float, crews: int | None = None, run: float = math.inf) -> int:
    """Return the fewest spares with which a job waits for at most this `share` of the time.

    >>> spares_for(0.01, load=1.38), spares_for(0.01, load=2 * 1.38)  # twice the load, not twice the spares
    (5, 7)
    """
    if not 0 < share < 1:
        raise BadInput(f"queueing: share={share} must be above 0 and below 1")
    if crews is not None and load >= crews and waiting_share(1_000, load, crews, run) > share:
        raise BadInput(f"queueing: crews={crews} must be more than load={load:g}, or the job waits however many spares")
    return next(spares for spares in itertools.count() if waiting_share(spares, load, crews, run) <= share)


def repair_load(scenario: Scenario) -> float:
    """Return the offered load of a scenario's repair shop: failures that need repair in a mean repair.

    Where failures strike only while the job runs, the rate is lowered by the share of time that detection and restart
    take at the nominal rates; time in which the job waits is left to the laws above.

    >>> from goodput.scenario import load_scenario
    >>> round(repair_load(load_scenario("baseline")), 3)
    1.38
    """
    share = sum(cause.share for cause in scenario.causes.values() if cause.needs_repair)
    running = 1.0
    if scenario.failures.strike == "running":
        running = scenario.nominal_mtbi_hours / (scenario.nominal_mtbi_hours + scenario.overhead_minutes / 60)
    return scenario.node_failures_per_hour * share * running * expected(scenario.repair.mean_hours)
