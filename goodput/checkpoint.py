"""How often to save? A save costs time now; a failure costs the work since the last one.

Numbers in, numbers out. All times of a call are in one unit of your choice, and the answer is in it too.
`mtbi` is the mean *running* time between interruptions of the job (never the MTBF of a node), `save` the time
training stands still for a save, `interval` the compute time between two saves, `overhead` the mean time from
a fault to training again (detection + waiting + restart).
"""

import math

import numpy as np

from goodput.errors import BadInput


def _check(**times: float) -> None:
    for name, value in times.items():
        if not (np.all(np.asarray(value) > 0) and np.all(np.isfinite(value))):
            raise BadInput(f"checkpoint: {name}={value} must be above 0 and finite")


def _check_overhead(overhead: float) -> None:
    if not (np.all(np.asarray(overhead) >= 0) and np.all(np.isfinite(overhead))):
        raise BadInput(f"checkpoint: overhead={overhead} must be 0 or more, and finite")


def young_interval(mtbi: float, save: float) -> float:
    """Return the interval that minimises the first-order waste, sqrt(2 save mtbi), in the unit of the input.

    Source: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974.
    Assumes exponential failures, and save and overhead short against `mtbi`. It is too long where the save
    is not: at save = mtbi / 100 by 5 %, at save = mtbi / 10 by 17 %.

    >>> round(young_interval(mtbi=14.778 * 60, save=5), 1)  # minutes
    94.2
    """
    _check(mtbi=mtbi, save=save)
    return math.sqrt(2 * save * mtbi)


def daly_interval(mtbi: float, save: float) -> float:
    """Return Daly's higher-order interval, in the unit of the input; `mtbi` itself from save = 2 mtbi on.

    Source: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
    Generation Computer Systems 22, 2006, eq. 37. Assumes exponential failures. It is a series in
    sqrt(save / 2 mtbi): within 0.1 % of the exact optimum up to save = mtbi / 10, no guide near save = 2 mtbi.

    >>> round(daly_interval(mtbi=14.778325 * 60, save=5), 2)  # minutes
    90.86
    """
    _check(mtbi=mtbi, save=save)
    if save >= 2 * mtbi:
        return float(mtbi)
    x = math.sqrt(save / (2 * mtbi))
    return math.sqrt(2 * save * mtbi) * (1 + x / 3 + x * x / 9) - save


def optimal_interval(mtbi: float, save: float) -> float:
    """Return the interval that maximises `expected_goodput`, exactly, in the unit of the input.

    With t = interval / mtbi and c = save / mtbi the derivative vanishes where 1 - t = exp(-(t + c)), hence
    t = 1 + W(-exp(-(1 + c))), W the principal branch of Lambert's function. It does not depend on `overhead`.
    Assumes exponential failures and saves of fixed length. Rounding eats the digits below
    save = 1e-10 mtbi; where none is left, Young's interval, which is exact there, is returned.

    >>> round(optimal_interval(mtbi=14.778325 * 60, save=5), 2)  # minutes
    90.86
    """
    from scipy.special import lambertw  # imported here: it costs more time than all else in this module

    _check(mtbi=mtbi, save=save)
    share = 1 + lambertw(-np.exp(-(1 + save / mtbi))).real
    return float(mtbi * share) if share > 0 else young_interval(mtbi, save)  # not a number next to the branch point


def expected_goodput(interval, mtbi: float, save: float, overhead: float):
    """Return the long-run goodput (0 to 1) for exponential failures: scalar in, scalar out; array in, array out.

    tau / ((M + O)(exp((tau + C) / M) - 1)) with tau the interval, M the mtbi, C the save, O the overhead: the
    expected compute kept between two failures, over the expected length of a cycle. Exact for failures that are
    exponential on the running clock and cannot strike while the job is down; for a run that is long against M.
    Stops being valid where spares run out (O is then no longer independent of the failures).

    >>> round(expected_goodput(30, mtbi=886.7, save=5, overhead=34.33), 4)
    0.809
    """
    _check(interval=interval, mtbi=mtbi, save=save)
    _check_overhead(overhead)
    tau = np.asarray(interval, float)
    with np.errstate(over="ignore"):  # an interval of hundreds of mtbi keeps nothing: 1 / infinity is right
        goodput = tau / ((mtbi + overhead) * np.expm1((tau + save) / mtbi))
    return float(goodput) if goodput.ndim == 0 else goodput


def expected_costs(interval, mtbi: float, save: float, overhead: float) -> dict[str, np.ndarray]:
    """Return what an interval costs in the long run, as shares: `saves`, `lost work`, `overhead`, and `all` of them.

    With M the mtbi, C the save, O the overhead and x = (tau + C) / M, a cycle of M + O holds M exp(-tau / M)
    (1 - exp(-C / M)) / (1 - exp(-x)) of saves, also those cut short, and tau / (exp(x) - 1) of compute that is kept;
    the rest of M is lost. `all` is 1 less `expected_goodput`, with the same assumptions.

    >>> {name: float(round(100 * cost, 2)) for name, cost in expected_costs(30, 886.7, 5, 34.33).items()}
    {'saves': 13.52, 'lost work': 1.85, 'overhead': 3.73, 'all': 19.1}
    """
    kept = (mtbi + overhead) * expected_goodput(interval, mtbi, save, overhead)
    tau = np.asarray(interval, float)
    saves = mtbi * np.exp(-tau / mtbi) * np.expm1(-save / mtbi) / np.expm1(-(tau + save) / mtbi)
    cycle = {"saves": saves, "lost work": mtbi - saves - kept, "overhead": np.full(tau.shape, overhead)}
    cycle["all"] = sum(cycle.values())
    return {name: minutes / (mtbi + overhead) for name, minutes in cycle.items()}


def first_order_goodput(interval, mtbi: float, save: float, overhead: float):
    """Return the first-order goodput, (1 - (O + tau/2) / M) / (1 + C / tau): array in, array out.

    Source: the expected-ETTR form of A. Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning
    Research Clusters", arXiv 2410.21680. Assumes at most one failure an interval and O + tau/2 short against M;
    it turns negative where they are not. At O + tau/2 = M / 10 it is off by up to 0.8 points: too low for saves short
    against M, too high from C = M / 50 on.

    >>> round(first_order_goodput(30, mtbi=886.7, save=5, overhead=34.33), 4)
    0.8095
    """
    _check(interval=interval, mtbi=mtbi, save=save)
    _check_overhead(overhead)
    tau = np.asarray(interval, float)
    goodput = (1 - (overhead + tau / 2) / mtbi) / (1 + save / tau)
    return float(goodput) if goodput.ndim == 0 else goodput


def mtbi_of_nodes(nodes, failures_per_1000_node_days):
    """Return the mean running hours between failures of a job of so many nodes: 24,000 / (nodes x rate).

    Scalar in, scalar out; array in, array out. Assumes that nodes fail independently and at one rate, and that
    nothing else stops the job: it is a law, and a real job may be interrupted more often.

    >>> round(mtbi_of_nodes(2048, 6.5), 2), round(mtbi_of_nodes(16_384, 6.5), 2)  # 16,384 and 131,072 GPUs
    (1.8, 0.23)
    """
    _check(nodes=nodes, failures_per_1000_node_days=failures_per_1000_node_days)
    return 24_000 / (nodes * failures_per_1000_node_days)


def ettr_first_order(interval_minutes, nodes, failures_per_1000_node_days, save_minutes, restart_minutes):
    """Return the expected ETTR (0 to 1), (1 - N r_f (u0 + dt/2)) / (1 + w / dt): array in, array out.

    N nodes with r_f failures a node-day, u0 the restart, dt the interval, w the save: `first_order_goodput` at the
    MTBI of the nodes, with the same source and limits. The paper's best interval, sqrt(2 w / (N r_f)), is
    `young_interval` at that MTBI. Its worked points, of 12,000 GPUs in 1,500 nodes with a restart of 5 minutes:

    >>> for rate, save in [(6.5, 1 / 6), (1, 5), (6.5, 5)]:
    ...     best = young_interval(60 * mtbi_of_nodes(1500, rate), save)
    ...     print(f"{best:.1f} min: {ettr_first_order(best, 1500, rate, save, restart_minutes=5):.3f}")
    7.0 min: 0.921
    98.0 min: 0.898
    38.4 min: 0.740
    """
    mtbi = 60 * mtbi_of_nodes(nodes, failures_per_1000_node_days)
    return first_order_goodput(interval_minutes, mtbi, save_minutes, restart_minutes)
