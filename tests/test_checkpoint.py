"""How often to save: the formulas against their definitions, against each other, and where they stop being valid."""

import inspect
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodput import checkpoint
from goodput.checkpoint import (
    daly_interval,
    ettr_first_order,
    expected_costs,
    expected_goodput,
    first_order_goodput,
    mtbi_of_nodes,
    optimal_interval,
    young_interval,
)
from goodput.errors import BadInput

INTERVALS = [young_interval, daly_interval, optimal_interval]
GOODPUTS = [expected_goodput, first_order_goodput]

mtbis = st.floats(1e-3, 1e9)
ratios = st.floats(1e-6, 1.9)  # of a save to the MTBI


# --- by hand -------------------------------------------------------------------------------------------------------


def test_sixty_four_machines_of_a_year_save_every_three_hours():
    """One failure a machine and year: the job's MTBF is 8,760 / 64 = 136.875 h, and sqrt(2 x 120 s x 492,750 s) =
    10,874.7 s. The trap is to put the machine's own 8,760 h in: a day, 24.166 h."""
    job_mtbf = 8760 / 64
    assert job_mtbf == 136.875
    assert young_interval(job_mtbf * 3600, 120) == pytest.approx(10_874.7, abs=0.05)
    assert young_interval(8760 * 3600, 120) / 3600 == pytest.approx(24.166, abs=0.001)


def test_dalys_interval_is_near_youngs_less_the_save():
    """To first order Daly's is sqrt(2 C M) - C, here 10,754.7 s; his next term adds C / 3 of its own."""
    mtbi, save = 492_750, 120
    first_order = young_interval(mtbi, save) - save
    assert first_order == pytest.approx(10_754.7, abs=0.05)
    assert daly_interval(mtbi, save) - first_order == pytest.approx(save / 3, rel=0.01)


def test_dalys_interval_by_hand():
    """M = 200, C = 4: x = sqrt(4 / 400) = 0.1, sqrt(2 x 4 x 200) = 40, so 40 (1 + 0.1/3 + 0.01/9) - 4."""
    assert daly_interval(200, 4) == pytest.approx(40 * (1 + 0.1 / 3 + 0.01 / 9) - 4, rel=1e-14)


def test_dalys_interval_is_the_mtbi_itself_where_a_save_takes_two():
    assert daly_interval(10, 20) == 10
    assert daly_interval(10, 1000) == 10


def test_goodput_by_hand():
    """M = 100, O = 25, tau + C = 100 ln 2: exp(...) - 1 = 1, so goodput is tau / 125."""
    save = 100 * math.log(2) - 50
    assert expected_goodput(50, mtbi=100, save=save, overhead=25) == pytest.approx(50 / 125, rel=1e-12)
    assert first_order_goodput(50, mtbi=100, save=10, overhead=25) == pytest.approx((1 - 0.5) / 1.2, rel=1e-12)


def test_without_failures_goodput_is_compute_over_compute_and_save():
    assert expected_goodput(30, mtbi=1e12, save=5, overhead=20) == pytest.approx(30 / 35, rel=1e-9)
    assert first_order_goodput(30, mtbi=1e12, save=5, overhead=20) == pytest.approx(30 / 35, rel=1e-9)


def test_an_interval_of_hundreds_of_mtbis_keeps_nothing_and_says_so_quietly():
    """exp(1000) is beyond a float: the answer is 0, without a warning on the reader's screen."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert expected_goodput(1000.0, mtbi=1, save=1, overhead=1) == 0


# --- the optimum ---------------------------------------------------------------------------------------------------


@given(mtbis, ratios, st.floats(0, 10))
def test_no_interval_beats_the_exact_optimum(mtbi, ratio, overhead):
    best = optimal_interval(mtbi, ratio * mtbi)
    neighbours = best * np.array([0.5, 0.9, 0.99, 1.01, 1.1, 2])
    most = expected_goodput(best, mtbi, ratio * mtbi, overhead * mtbi)
    assert (expected_goodput(neighbours, mtbi, ratio * mtbi, overhead * mtbi) < most).all()


@given(mtbis, ratios)
def test_at_the_exact_optimum_the_derivative_vanishes(mtbi, ratio):
    """1 - t = exp(-(t + c)), with t = interval / mtbi and c = save / mtbi."""
    t = optimal_interval(mtbi, ratio * mtbi) / mtbi
    assert 1 - t == pytest.approx(math.exp(-(t + ratio)), abs=1e-9)


@given(mtbis, ratios, st.floats(1e-3, 1e3))
def test_a_change_of_unit_changes_the_unit_of_the_answer_and_no_more(mtbi, ratio, factor):
    for interval in INTERVALS:
        one = interval(mtbi, ratio * mtbi)
        assert interval(factor * mtbi, factor * ratio * mtbi) == pytest.approx(factor * one, rel=1e-6)
    one = expected_goodput(mtbi / 9, mtbi, ratio * mtbi, mtbi / 5)
    other = expected_goodput(factor * mtbi / 9, factor * mtbi, factor * ratio * mtbi, factor * mtbi / 5)
    assert other == pytest.approx(one, rel=1e-9)


@given(mtbis, ratios, st.floats(0, 10), st.floats(1e-3, 10))
def test_goodput_is_a_share_and_falls_with_each_cost(mtbi, ratio, overhead, tau):
    best = expected_goodput(tau * mtbi, mtbi, ratio * mtbi, overhead * mtbi)
    assert 0 < best < 1
    assert expected_goodput(tau * mtbi, mtbi, 1.5 * ratio * mtbi, overhead * mtbi) < best
    assert expected_goodput(tau * mtbi, mtbi, ratio * mtbi, (overhead + 0.1) * mtbi) < best
    assert expected_goodput(tau * mtbi, 2 * mtbi, ratio * mtbi, overhead * mtbi) > best


# --- where the docstrings say that a formula stops being valid -----------------------------------------------------


@pytest.mark.parametrize(("share", "too_long"), [(1 / 100, 0.05), (1 / 10, 0.17)])
def test_youngs_interval_is_too_long_where_the_save_is_not_short(share, too_long):
    """By 5 % at save = mtbi / 100, by 17 % at mtbi / 10, as its docstring says."""
    assert young_interval(1, share) / optimal_interval(1, share) - 1 == pytest.approx(too_long, abs=0.005)


@pytest.mark.parametrize("share", np.geomspace(1e-6, 0.1, 20))
def test_dalys_interval_is_within_a_thousandth_of_the_optimum_up_to_a_tenth(share):
    assert daly_interval(1, share) == pytest.approx(optimal_interval(1, share), rel=1e-3)


def test_dalys_interval_is_no_guide_near_two_mtbi():
    """At save = 2 mtbi the optimum is 0.95 mtbi; just below it Daly's series says 0.89, a step short of its 1."""
    exact, below = optimal_interval(1, 2), daly_interval(1, 2 - 1e-9)
    assert exact == pytest.approx(0.9475, abs=0.001)
    assert abs(below / exact - 1) > 0.05


def test_the_exact_optimum_loses_its_digits_below_a_ten_billionth_but_stays_a_number():
    """There the closed form is a difference of nearly equal numbers: above it is right, below it is not promised."""
    assert optimal_interval(1, 1e-8) == pytest.approx(young_interval(1, 1e-8), rel=1e-3)
    assert 0 < optimal_interval(1, 1e-12) < 1e-5
    assert optimal_interval(1, 1e-17) >= 0  # and not "not a number"


def test_the_first_order_goodput_is_close_while_failures_are_rare():
    """At M = 100 (O + tau / 2) the two agree to a tenth of a point."""
    args = {"mtbi": 3000, "save": 1, "overhead": 20}
    assert first_order_goodput(20, **args) == pytest.approx(expected_goodput(20, **args), abs=0.001)


def _first_order_error(save: float) -> np.ndarray:
    """Return first-order less exact goodput, in points, at O + tau / 2 = M / 10, from small to large tau."""
    taus = np.linspace(0.02, 0.18, 9)
    pairs = [
        (first_order_goodput(*args), expected_goodput(*args)) for args in ((t, 1, save, 0.1 - t / 2) for t in taus)
    ]
    return np.array([100 * (first - exact) for first, exact in pairs])


def test_at_a_tenth_of_the_mtbi_the_first_order_goodput_is_some_tenths_of_a_point_too_low_with_short_saves():
    """0.3 to 0.8 points for saves of M / 1000."""
    errors = _first_order_error(save=0.001)
    assert (errors < -0.3).all() and (errors > -0.8).all()


def test_with_longer_saves_the_first_order_goodput_is_too_high():
    """It leaves out the failures that strike during a save: from saves of M / 50 on that outweighs the rest."""
    assert (_first_order_error(save=0.02) > 0).all()
    assert _first_order_error(save=0.05).max() > 1.4


def test_the_first_order_goodput_turns_negative_where_the_exact_one_does_not():
    assert first_order_goodput(2.5, mtbi=1, save=0.1, overhead=0.1) < 0 < expected_goodput(2.5, 1, 0.1, 0.1)


@pytest.mark.parametrize("formula", INTERVALS + GOODPUTS)
def test_each_formula_says_what_it_assumes(formula):
    assert "Assumes" in inspect.getdoc(formula) or "Exact for" in inspect.getdoc(formula)


# --- numbers in, numbers out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("formula", GOODPUTS)
def test_an_array_gives_what_its_members_give(formula):
    taus = np.array([[10.0, 30.0], [90.0, 300.0]])
    got = formula(taus, mtbi=886.7, save=5, overhead=34.33)
    assert got.shape == taus.shape
    for tau, value in zip(taus.ravel(), got.ravel(), strict=True):
        one = formula(float(tau), mtbi=886.7, save=5, overhead=34.33)
        assert type(one) is float and one == value


@pytest.mark.parametrize("formula", INTERVALS)
def test_an_interval_is_a_plain_number(formula):
    assert type(formula(900, 5)) is float
    assert formula(900, 5) == formula(np.float64(900), np.int64(5))


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("formula", INTERVALS)
def test_an_interval_needs_times_above_zero(formula, bad):
    with pytest.raises(BadInput, match=r"checkpoint: mtbi=.* must be above 0 and finite"):
        formula(bad, 5)
    with pytest.raises(BadInput, match=r"checkpoint: save=.* must be above 0 and finite"):
        formula(900, bad)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("formula", GOODPUTS)
def test_a_goodput_needs_intervals_above_zero_each_one(formula, bad):
    with pytest.raises(BadInput, match="interval="):
        formula(bad, 900, 5, 20)
    with pytest.raises(BadInput, match="interval="):
        formula(np.array([30, bad]), 900, 5, 20)


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf])
@pytest.mark.parametrize("formula", GOODPUTS)
def test_an_overhead_below_zero_or_not_a_number_is_refused(formula, bad):
    """Otherwise an overhead of -M would divide by zero, and one of -20 give a goodput too good to be true."""
    with pytest.raises(BadInput, match="overhead="):
        formula(30, 900, 5, bad)


def test_what_an_interval_costs_is_all_that_the_exact_model_does_not_keep():
    minutes, job = np.array([0.01, 1, 30, 900, 9000]), (886.7, 5, 34.33)
    costs = expected_costs(minutes, *job)
    assert costs["all"] == pytest.approx(1 - expected_goodput(minutes, *job))
    assert costs["all"] == pytest.approx(costs["saves"] + costs["lost work"] + costs["overhead"])


def test_the_exact_costs_are_those_of_a_million_faults_drawn():
    """The slow twin: a million times to a fault are drawn, and the saves and the kept compute of each are counted."""
    mtbi, save, overhead, tau = 886.7, 5, 34.33, 200
    ran = np.random.default_rng(1).exponential(mtbi, 1_000_000)
    whole, rest = np.divmod(ran, tau + save)
    saves = (whole * save + np.maximum(rest - tau, 0)).mean()
    costs = {name: cost * (mtbi + overhead) for name, cost in expected_costs(tau, mtbi, save, overhead).items()}
    assert costs["saves"] == pytest.approx(saves, rel=0.01)
    assert costs["lost work"] == pytest.approx(ran.mean() - saves - tau * whole.mean(), rel=0.01)


def test_rarer_saves_cost_less_and_lose_more_and_leave_the_overhead_alone():
    costs = expected_costs([10, 100, 1000], 886.7, 5, 34.33)
    assert (np.diff(costs["saves"]) < 0).all() and (np.diff(costs["lost work"]) > 0).all()
    assert costs["overhead"] == pytest.approx(34.33 / (886.7 + 34.33))


# --- a rate of nodes, and Meta's expected ETTR -----------------------------------------------------------------------


def test_a_rate_of_nodes_gives_the_mtbi_of_their_job_by_hand():
    """10 failures per 1,000 node-days on 100 nodes are one a day: 24 hours; twice the nodes, 12."""
    assert mtbi_of_nodes(100, 10) == 24
    assert mtbi_of_nodes(np.array([100, 200]), 10).tolist() == [24, 12]


@given(st.integers(1, 100_000), st.floats(0.01, 100), st.floats(0.01, 1000), st.floats(0.01, 100), st.floats(0, 100))
def test_metas_form_is_the_first_order_goodput_as_the_paper_writes_it(nodes, rate, interval, save, restart):
    """(1 - N r_f (u0 + dt/2)) / (1 + w / dt), r_f a node-day and all times in days."""
    day, r_f = 1440, rate / 1000
    theirs = (1 - nodes * r_f * (restart / day + interval / day / 2)) / (1 + save / interval)
    assert ettr_first_order(interval, nodes, rate, save, restart) == pytest.approx(theirs, rel=1e-9, abs=1e-9)


@given(st.integers(1, 10_000), st.floats(0.1, 20), st.floats(0.01, 10))
def test_metas_best_interval_is_youngs_at_the_mtbi_of_the_nodes(nodes, rate, save):
    """sqrt(2 w / (N r_f)), in days, is sqrt(2 C M)."""
    theirs = 1440 * math.sqrt(2 * (save / 1440) / (nodes * rate / 1000))
    assert young_interval(60 * mtbi_of_nodes(nodes, rate), save) == pytest.approx(theirs, rel=1e-12)


def test_metas_worked_points_hold_at_the_best_interval():
    """12,000 GPUs in 1,500 nodes, u0 = 5 min: 0.9 needs saves of 10 s, or a rate of 1; with neither it is 0.74."""
    found = [
        ettr_first_order(young_interval(60 * mtbi_of_nodes(1500, rate), save), 1500, rate, save, 5)
        for rate, save in ((6.5, 1 / 6), (1, 5), (6.5, 5))
    ]
    assert found == pytest.approx([0.921, 0.898, 0.740], abs=0.0005)


def test_the_expected_ettr_turns_negative_where_the_exact_form_does_not():
    """16,384 nodes at 10 failures per 1,000 node-days: 8.8 minutes of MTBI against 5 + 9.4 / 2 of loss a failure."""
    job = 60 * mtbi_of_nodes(16_384, 10)
    best = young_interval(job, 5)
    assert ettr_first_order(best, 16_384, 10, 5, 5) < 0 < expected_goodput(best, job, 5, 5)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_a_rate_and_a_number_of_nodes_must_be_above_zero(bad):
    with pytest.raises(BadInput, match="nodes="):
        mtbi_of_nodes(bad, 6.5)
    with pytest.raises(BadInput, match="failures_per_1000_node_days="):
        mtbi_of_nodes(128, bad)


def test_the_module_needs_nothing_of_the_package_but_its_error():
    assert "from goodput" not in inspect.getsource(checkpoint).replace("from goodput.errors import BadInput", "")
