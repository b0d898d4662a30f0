"""Where does each formula hold? Formulas against the simulation of a job stripped to what they speak of.

Think of a test bench: the engine alone, without the car. Times are ratios: those of a job in its MTBIs, those of
a repair shop in mean repairs.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import gammainc, pdtr, stdtrit

from goodput.attribution import interruptions, spans
from goodput.checkpoint import daly_interval, expected_goodput, first_order_goodput, optimal_interval, young_interval
from goodput.errors import BadInput
from goodput.experiment import experiment, wide_runs
from goodput.metrics import per_job
from goodput.queueing import broken_shares, erlang_b, erlang_c, repair_load
from goodput.scenario import Scenario, load_scenario
from goodput.shop import pooled_mean, repair_trips
from goodput.simulate import simulate_many

UNIT_HOURS = 10.0  # of an MTBI or a mean repair; whole microseconds are then fine enough
LEVELS = (0.001, 0.01, 0.05)  # of a difference of shares: 0.1, 1 and 5 percentage points
FORMULAS = {"first order": first_order_goodput, "exact": expected_goodput}
INTERVALS = {"Young": young_interval, "Daly": daly_interval, "exact": optimal_interval}


def bare_job(interval: float, save: float, overhead: float, failures: float, name: str | None = None) -> Scenario:
    """Return a job of one node that fails, restarts and saves, and no more; times in its MTBIs of 10 hours.

    Its one cause needs neither detection nor repair, so the overhead is the restart, and no node is ever waited for.
    It lasts as long as that many `failures` take on average.

    >>> bare_job(0.5, 0.01, 0.1, failures=100).overhead_minutes
    60.0
    """
    changes = {
        "job.restart_minutes": overhead * UNIT_HOURS * 60,
        "checkpoint.interval_minutes": interval * UNIT_HOURS * 60,
        "checkpoint.blocking_minutes": save * UNIT_HOURS * 60,
        "days": failures * (1 + overhead) * UNIT_HOURS / 24,
    }
    return _one_node().but(changes, name=name or f"{interval:g} {save:g} {overhead:g}")


def _one_node(needs_repair: bool = False) -> Scenario:
    data = load_scenario("baseline").model_dump(exclude_none=True)
    cause = {"scope": "node", "share": 1.0, "detection_minutes": 0.0, "needs_repair": needs_repair}
    data |= {"name": "bare", "causes": {"fault": cause}, "cohorts": {"default": {"mtbf_hours": UNIT_HOURS}}}
    data |= {"job": {"nodes": 1, "gpus_per_node": 1, "restart_minutes": 1.0}, "job_failures": {}, "pool": {"spares": 0}}
    return Scenario.model_validate(data)


def without_luck(values, *luck) -> tuple[float, float]:
    """Return the mean of runs with what their luck explains taken out, and its standard error.

    Control variates (A. M. Law, Simulation Modeling and Analysis, ch. 11): each kind of `luck` must have a mean of
    zero that is known, not measured. The plane through the runs is read off where all luck is zero.

    >>> mean, error = without_luck([0.7, 0.8, 0.9, 0.6], [2, 0, -2, 4])  # all of it was luck
    >>> round(mean, 6), round(error, 6)
    (0.8, 0.0)
    """
    values, plane = np.asarray(values, float), np.column_stack([np.ones(len(values)), *luck])
    inverse = np.linalg.pinv(plane.T @ plane)
    weights = inverse @ plane.T @ values
    rest = values - plane @ weights
    return float(weights[0]), float(np.sqrt(inverse[0, 0] * (rest @ rest) / (len(rest) - plane.shape[1])))


def bench_goodput(
    intervals: Sequence[float], overheads: Sequence[float], save: float, failures: int, runs: int
) -> pd.DataFrame:
    """Return one row an (interval, overhead) in MTBIs: goodput simulated, its standard error, and of each formula.

    Columns: `interval`, `overhead`, `save`, `ours`, `error`, `first order`, `exact`. `failures` is of a point, over
    all its runs, which meet the same failures at every point. What is left of a run's edges: work in flight at its
    end counts, at most an interval.
    """
    _check_runs(runs)
    points = list(product(intervals, overheads))
    jobs = [bare_job(interval, save, overhead, failures / runs) for interval, overhead in points]
    found = wide_runs(experiment(jobs, runs, jobs=1))
    ours = [without_luck(*_goodput_and_luck(found.loc[job.name], job)) for job in jobs]
    table = pd.DataFrame(points, columns=["interval", "overhead"]).assign(save=save)
    table[["ours", "error"]] = ours
    times = table["interval"].to_numpy(), 1.0, save, table["overhead"].to_numpy()
    return table.assign(**{name: formula(*times) for name, formula in FORMULAS.items()})


def _goodput_and_luck(runs: pd.DataFrame, job: Scenario) -> tuple[np.ndarray, np.ndarray]:
    """Return each run's goodput, its last outage counted whole, and its failures beyond running time over MTBI.

    The latter is zero on average whenever a run ends, as failures are Poisson on the running clock.
    """
    struck, running = runs["interruptions"].to_numpy(), runs["running_hours"].to_numpy()
    return runs["productive"] / (running + struck * job.overhead_minutes / 60), struck - running / UNIT_HOURS


def _check_runs(runs: int) -> None:
    if runs < 5:
        raise BadInput(f"envelope: runs={runs} must be 5 or more, for a standard error with luck taken out")


def bench_intervals(saves: Iterable[float], overhead: float, failures: int, runs: int) -> pd.DataFrame:
    """Return one row a (save, formula): the interval that it names, and the goodput that this interval gives away.

    Columns: `save`, `formula`, `interval` in MTBIs, `best` (the interval of the exact model), `ours` (goodput
    simulated at `best` less that at `interval`, paired by seed), its `error`, and `theirs` by the exact model.
    """
    _check_runs(runs)
    return pd.concat([_given_away(save, overhead, failures / runs, runs) for save in saves], ignore_index=True)


def _given_away(save: float, overhead: float, failures: float, runs: int) -> pd.DataFrame:
    named = {name: formula(1.0, save) for name, formula in INTERVALS.items()}
    table = pd.DataFrame({"save": save, "formula": list(named), "interval": list(named.values())})
    jobs = [bare_job(interval, save, overhead, failures, name) for name, interval in named.items()]
    found = wide_runs(experiment(jobs, runs, jobs=1))
    played = {job.name: _goodput_and_luck(found.loc[job.name], job) for job in jobs}
    best, luck = played["exact"]
    pairs = [without_luck(best - goodput, luck) for goodput, _ in played.values()]
    table[["ours", "error"]] = pairs
    theirs = expected_goodput(table["interval"].to_numpy(), 1.0, save, overhead)
    return table.assign(best=named["exact"], theirs=theirs[-1] - theirs).iloc[:-1]


class Shop(NamedTuple):
    """A repair shop: spares, load in Erlang, outage and length of a run in mean repairs, crews (0: without limit)."""

    spares: int
    load: float
    outage: float = 0.001
    run: float = 1000.0
    crews: int = 0


def bare_shop(shop: Shop) -> Scenario:
    """Return a job of one node, each of whose failures breaks it; a mean repair takes 10 hours.

    >>> round(repair_load(bare_shop(Shop(2, 1.5))), 2)
    1.5
    """
    changes = {
        "pool.spares": shop.spares,
        "cohorts.default.mtbf_hours": UNIT_HOURS / shop.load,
        "job.restart_minutes": shop.outage * UNIT_HOURS * 60,
        "checkpoint.interval_minutes": 1e7,
        "repair": {"mean_hours": UNIT_HOURS} | ({"crews": shop.crews} if shop.crews else {}),
        "days": shop.run * UNIT_HOURS / 24,
    }
    return _one_node(needs_repair=True).but(changes)


def bench_shops(shops: Iterable[Shop], repairs: float) -> pd.DataFrame:
    """Return one row a shop: shares simulated over that many mean `repairs` in all, and by the laws of waiting lines.

    Columns: those of `Shop`; `job_waits` (share of time that the job waits for a node) with `_error`, `_erlang`
    (Erlang B: crews enough, long runs) and `_chain` (M/M/c/K over the run); `node_waits` (share of broken nodes that
    wait for a crew) with `_error`, `_erlang` (Erlang C: spares enough, long runs) and `_chain`.
    """
    return pd.DataFrame([shop._asdict() | _played(shop, repairs) | _foretold(shop) for shop in shops])


def _played(shop: Shop, repairs: float) -> dict[str, float]:
    """Luck: failures beyond running time over MTBI, and repairs done beyond crews' time over a mean repair."""
    runs = max(5, round(repairs / shop.run))
    log = simulate_many(bare_shop(shop), range(1, runs + 1))
    jobs, trips = per_job(spans(log), interruptions(log)), repair_trips(log)
    by_job = trips.groupby("job", observed=False)
    failed = jobs["interruptions"] - jobs["running_hours"] * shop.load / UNIT_HOURS
    mended = by_job["repaired"].count() - by_job["repair_hours"].sum() / UNIT_HOURS
    luck = [each.to_numpy() for each in (failed, mended)]
    job_waits = without_luck(jobs["waiting"] / jobs["held_gpu_hours"], *luck)
    share = pooled_mean((trips["wait_hours"] > 0).groupby(trips["job"], observed=False).sum(), by_job.size())
    node_waits = share.mean, (share.high - share.low) / 2 / stdtrit(runs - 1, 0.975)
    return dict(zip(["job_waits", "job_waits_error", "node_waits", "node_waits_error"], job_waits + node_waits))


def _foretold(shop: Shop) -> dict[str, float]:
    load, crews = repair_load(bare_shop(shop)), shop.crews or None
    shares = broken_shares(shop.spares, load, crews, shop.run)
    wait = shares[shop.crews : -1].sum() / (1 - shares[-1]) if crews else 0.0
    return {
        "job_waits_erlang": erlang_b(shop.spares + 1, load),
        "job_waits_chain": shares[-1],
        "node_waits_erlang": erlang_c(shop.crews, load) if crews else 0.0,
        "node_waits_chain": wait,
    }


def bench_counts(overheads: Iterable[float], cycles: float, runs: int) -> pd.DataFrame:
    """Return one row an overhead, in MTBIs: how far the number of interruptions of a run is from the Poisson law.

    A run lasts `cycles` x (MTBI + overhead). Columns: `overhead`, `variance_ratio` (variance over mean, 1 for
    Poisson); `poisson` and `renewal`: the largest gap between the law's chance of at most n interruptions and the
    share of runs; `noise`: what that gap reaches in 1 of 20 samples of a right law (Kolmogorov: 1.36 / sqrt(runs));
    `between`: the largest gap between the two laws, which has no noise.
    """
    return pd.DataFrame([_counted(overhead, cycles, runs) for overhead in overheads])


def _counted(overhead: float, cycles: float, runs: int) -> dict[str, float]:
    log = simulate_many(bare_job(1e4, 1e-4, overhead, cycles), range(1, runs + 1))
    counts = interruptions(log)["job"].value_counts(sort=False).to_numpy()
    most = np.arange(counts.max() + 20)
    ours = (counts[:, None] <= most).mean(axis=0)
    laws = {"poisson": pdtr(most, cycles), "renewal": at_most(most, cycles * (1 + overhead), overhead)}
    gaps = {name: np.abs(law - ours).max() for name, law in laws.items()}
    between = np.abs(laws["poisson"] - laws["renewal"]).max()
    ratio = counts.var(ddof=1) / counts.mean()
    return {"overhead": overhead, "variance_ratio": ratio, **gaps, "noise": 1.36 / runs**0.5, "between": between}


def at_most(count, run: float, overhead: float):
    """Return the chance of at most `count` interruptions in a run, both times in MTBIs, if outages are all alike.

    The n-th strikes before the end of the run if n exponential lives fit into what n - 1 outages leave: a renewal
    process with a gamma law (D. R. Cox, Renewal Theory, 1962, ch. 3). Without outages it is Poisson.

    >>> float(round(at_most(1, run=2, overhead=0), 4))  # 3 exp(-2)
    0.406
    """
    count = np.asarray(count, float)
    return 1 - gammainc(count + 1, np.maximum(run - count * overhead, 0))


def verdicts(difference, error) -> pd.DataFrame:
    """Return one row a difference of shares: `level` (the least of 0.1, 1 and 5 points it is within) and `told`.

    `level` is infinite beyond 5 points. It is told where two standard errors to either side change nothing.

    >>> verdicts([0.0004, -0.02, 0.3], [0.0001, 0.001, 0.001]).values.tolist()
    [[0.001, True], [0.05, True], [inf, True]]
    """
    size, error = np.abs(np.asarray(difference, float)), np.asarray(error, float)
    edges = np.append(LEVELS, np.inf)
    level, low, high = (
        edges[np.searchsorted(LEVELS, each)] for each in (size, np.maximum(size - 2 * error, 0), size + 2 * error)
    )
    return pd.DataFrame({"level": level, "told": low == high})


def reach(table: pd.DataFrame, formula: str, level: float) -> float:
    """Return the largest overhead + interval / 2, in MTBIs, up to which a formula is within a level everywhere.

    Of a table of `bench_goodput`; three standard errors are granted, as many points are looked at. NaN where not even
    the smallest is.
    """
    lost = table["overhead"] + table["interval"] / 2
    bad = (table[formula] - table["ours"]).abs() - 3 * table["error"] > level
    return lost[lost < lost[bad].min()].max() if bad.any() else lost.max()


def reaches(table: pd.DataFrame) -> pd.DataFrame:
    """Return `reach` of each formula, a row, at each of the three levels, a column named in points."""
    names = {f"{100 * level:g} points": level for level in LEVELS}
    rows = [[reach(table, formula, level) for level in names.values()] for formula in FORMULAS]
    return pd.DataFrame(rows, index=pd.Index(FORMULAS, name="formula"), columns=list(names))
