"""The test bench of formulas: a bare job is what it says, luck is taken out and nothing else, verdicts are cautious."""

import numpy as np
import pandas as pd
import pytest

from goodput.attribution import spans
from goodput.checkpoint import expected_goodput, first_order_goodput, optimal_interval
from goodput.envelope import (
    Shop,
    at_most,
    bare_job,
    bare_shop,
    bench_counts,
    bench_goodput,
    bench_intervals,
    bench_shops,
    reach,
    reaches,
    verdicts,
    without_luck,
)
from goodput.errors import BadInput
from goodput.queueing import erlang_b, poisson_tail, repair_load
from goodput.simulate import simulate


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


# --- the bare job and the bare shop --------------------------------------------------------------------------------


def test_a_bare_job_has_the_ratios_that_were_asked_for():
    job = bare_job(0.3, 0.02, 0.5, failures=40)
    mtbi = job.nominal_mtbi_hours * 60
    assert (job.interval_minutes, job.overhead_minutes) == pytest.approx((0.3 * mtbi, 0.5 * mtbi))
    assert job.checkpoint.blocking_minutes == pytest.approx(0.02 * mtbi)
    assert job.days * 24 == pytest.approx(40 * 1.5 * job.nominal_mtbi_hours)


def test_a_bare_job_restarts_and_neither_waits_nor_is_looked_into():
    held = (
        spans(simulate(bare_job(0.3, 0.02, 0.5, failures=40), 1)).groupby("category", observed=False)["gpu_hours"].sum()
    )
    assert held["waiting"] == held["detection"] == held["unattributed"] == 0
    assert (held[["productive", "checkpoint", "lost_work", "restart"]] > 0).all()


def test_a_bare_shop_has_the_load_and_the_crews_that_were_asked_for():
    """An outage of half a repair at a load of 2 leaves the job running half of the time: so is the load."""
    assert repair_load(bare_shop(Shop(1, 2.0, outage=0.5))) == pytest.approx(1.0)
    assert bare_shop(Shop(1, 2.0, crews=3)).repair.crews == 3
    assert bare_shop(Shop(1, 2.0)).repair.crews is None


# --- luck ----------------------------------------------------------------------------------------------------------


def test_luck_that_explains_nothing_leaves_the_plain_mean():
    """Values that have no slope along a luck of mean zero: 2, and the error of three values with one degree left."""
    mean, error = without_luck([1.0, 4.0, 1.0], [-1, 0, 1])
    assert (mean, error) == pytest.approx((2.0, np.sqrt(6 / 1 / 3)))


def test_taking_luck_out_is_right_on_average_and_knows_its_own_error():
    """1,000 times 20 values 5 + 3 x luck + noise of 1: mean of the means 5, spread of them what they say of it."""
    luck, noise = generator(1).normal(size=(2, 1000, 20))
    found = np.array([without_luck(5 + 3 * x + e, x) for x, e in zip(luck, noise)])
    assert found[:, 0].mean() == pytest.approx(5, abs=4 * found[:, 0].std() / np.sqrt(1000))
    assert found[:, 0].std() == pytest.approx(np.sqrt((found[:, 1] ** 2).mean()), rel=0.1)
    assert found[:, 1].mean() < 0.3 < np.sqrt(10 / 20)  # where the plain mean has 0.7


def test_two_kinds_of_luck_are_taken_out_at_once():
    one, other = generator(2).normal(size=(2, 10))
    assert without_luck(0.5 + 2 * one - other, one, other) == pytest.approx((0.5, 0), abs=1e-12)


@pytest.mark.parametrize("bench", [lambda: bench_goodput([1], [1], 0.1, 10, 4), lambda: bench_intervals([1], 1, 10, 4)])
def test_too_few_runs_for_an_error_are_refused(bench):
    with pytest.raises(BadInput, match="envelope: runs=4 must be 5 or more"):
        bench()


# --- the benches ---------------------------------------------------------------------------------------------------

TABLE = bench_goodput([0.05, 0.5], [0.02, 0.5], 0.01, failures=2000, runs=10)


def test_a_row_a_point_with_both_formulas_and_the_simulation_near_the_exact_one():
    assert TABLE[["interval", "overhead"]].to_numpy().tolist() == [[0.05, 0.02], [0.05, 0.5], [0.5, 0.02], [0.5, 0.5]]
    for row in TABLE.itertuples():
        times = row.interval, 1.0, 0.01, row.overhead
        assert TABLE.loc[row.Index, "first order"] == first_order_goodput(*times)
        assert row.exact == expected_goodput(*times)
    assert ((TABLE["ours"] - TABLE["exact"]).abs() < 5 * TABLE["error"]).all()


def test_more_failures_tell_more():
    more = bench_goodput([0.5], [0.5], 0.01, failures=20_000, runs=10)
    assert more["error"].iloc[0] < TABLE["error"].iloc[3] / 1.5


def test_youngs_interval_gives_away_more_than_dalys_and_both_what_the_exact_model_says():
    """At a save of half an MTBI Young gives away 1.4 points, Daly a thousandth of that."""
    table = bench_intervals([0.5], 0.05, failures=10_000, runs=10).set_index("formula")
    assert table["best"].tolist() == pytest.approx([optimal_interval(1, 0.5)] * 2)
    assert table["theirs"].tolist() == pytest.approx([0.0138, 0.00001], abs=0.0001)
    assert ((table["ours"] - table["theirs"]).abs() < 4 * table["error"]).all()
    assert table.loc["Young", "ours"] > 2 * table.loc["Young", "error"]


SHOPS = bench_shops([Shop(1, 1.0, run=100), Shop(3, 1.0, run=100, crews=2), Shop(1, 1.0, 0.5, run=5)], 3000)


def test_laws_of_waiting_lines_are_met_where_they_hold():
    plain, lines, short = SHOPS.itertuples()
    assert plain.job_waits_erlang == pytest.approx(erlang_b(2, 1.0), abs=0.001)
    assert plain.job_waits == pytest.approx(plain.job_waits_chain, abs=4 * plain.job_waits_error)
    assert lines.node_waits == pytest.approx(lines.node_waits_chain, abs=4 * lines.node_waits_error)
    assert short.job_waits < short.job_waits_erlang - 4 * short.job_waits_error


def test_without_a_limit_of_crews_no_node_waits_for_one():
    assert (
        SHOPS.loc[[0, 2], ["node_waits", "node_waits_erlang", "node_waits_chain"]].to_numpy().tolist() == [[0] * 3] * 2
    )


def test_long_outages_make_interruptions_more_regular_than_poisson():
    """In the long run variance over mean is (MTBI / (MTBI + outage))^2: 0.25 where they are as long."""
    table = bench_counts([0.001, 1.0], cycles=10, runs=300)
    assert table["variance_ratio"].tolist() == pytest.approx([1, 0.25], rel=0.35)
    assert (table["renewal"] < table["noise"]).all()
    assert table["poisson"].iloc[0] < table["noise"].iloc[0] and table["poisson"].iloc[1] > 2 * table["noise"].iloc[1]
    assert table["between"].iloc[1] > 0.1 > 0.001 > table["between"].iloc[0]


def test_counts_without_outages_are_poisson_and_with_them_those_of_a_slow_twin():
    most = np.arange(12)
    assert at_most(most, 5.0, 0.0) == pytest.approx(1 - poisson_tail(most, 5.0))
    lives = generator(3).exponential(size=(20_000, 12))
    struck = np.cumsum(lives, axis=1) + 0.4 * np.arange(12)  # the n-th comes after n lives and n - 1 outages
    counts = (struck <= 5.0).sum(axis=1)
    shares = (counts[:, None] <= most).mean(axis=0)
    assert at_most(most, 5.0, 0.4) == pytest.approx(shares, abs=4 * 0.5 / np.sqrt(20_000))


# --- verdicts ------------------------------------------------------------------------------------------------------


def test_a_difference_is_told_where_noise_does_not_carry_it_over_an_edge():
    found = verdicts([0.0008, 0.0008, -0.009, 0.02, 0.06], [0.0002, 0.00005, 0.0001, 0.02, 0.001])
    assert found["level"].tolist() == [0.001, 0.001, 0.01, 0.05, np.inf]
    assert found["told"].tolist() == [False, True, True, False, True]


FORGED = pd.DataFrame(
    {
        "interval": [0.1, 0.2, 0.1, 0.2],
        "overhead": [0.1, 0.1, 1.0, 1.0],
        "ours": 0.5,
        "error": 0.001,
        "first order": [0.5035, 0.508, 0.4, 0.51],
        "exact": 0.5,
    }
)


def test_a_formula_reaches_as_far_as_it_holds_everywhere_below():
    """Lost time: 0.15, 0.2, 1.05 and 1.1. The third is 10 points off, so that the fourth is near does not count."""
    assert reach(FORGED, "first order", 0.01) == 0.2
    assert reach(FORGED, "first order", 0.001) == pytest.approx(0.15)  # three standard errors are granted
    assert reach(FORGED, "exact", 0.001) == 1.1
    assert np.isnan(reach(FORGED.assign(exact=0.6), "exact", 0.05))


def test_reaches_has_a_row_a_formula_and_grows_with_what_is_granted():
    table = reaches(FORGED)
    assert table.loc["first order"].tolist() == pytest.approx([0.15, 0.2, 0.2])
    assert table.columns.tolist() == ["0.1 points", "1 points", "5 points"]
