"""Waiting lines: the laws by hand, against slow twins, against each other, and against the simulation."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodput.attribution import spans
from goodput.errors import BadInput
from goodput.metrics import hours
from goodput.queueing import (
    broken_shares,
    counting_spares,
    crew_wait,
    crews_busy,
    erlang_b,
    erlang_c,
    mean_wait,
    monthly_bias,
    poisson_tail,
    repair_load,
    spares_for,
    waiting_share,
)
from goodput.scenario import load_scenario
from goodput.shop import pooled_mean, shop_per_job
from goodput.simulate import simulate_many

BASE = load_scenario("baseline")
loads = st.floats(0.01, 50)
few = st.integers(0, 30)


def poisson(k: int, load: float) -> float:
    return math.exp(-load) * load**k / math.factorial(k)


# --- by hand -------------------------------------------------------------------------------------------------------


def test_two_taxis_and_one_call_an_hour():
    """a = 1, c = 2: B = (1/2) / (1 + 1 + 1/2) = 1/5; C = (1/5) / (1 - (4/5) / 2) = 1/3; wait = C x 60 / (2 - 1) min."""
    assert erlang_b(2, 1) == pytest.approx(1 / 5)
    assert erlang_c(2, 1) == pytest.approx(1 / 3)
    assert mean_wait(2, 1, service=60) == pytest.approx(20)


def test_one_crew_used_half_lets_a_node_wait_as_long_as_a_repair():
    """M/M/1: rho S / (1 - rho), and the line is endless from rho = 1 on."""
    assert mean_wait(1, 0.5, service=48) == pytest.approx(48)
    assert mean_wait(1, 1.0, service=48) == mean_wait(1, 2.0, service=48) == math.inf
    assert erlang_c(1, 2.0) == 1


def test_one_spare_and_as_many_failures_as_repairs():
    """Load 1, one spare: 0, 1, 2 broken weigh 1, 1, 1/2 with crews enough, 1, 1, 1 with a single one."""
    assert broken_shares(1, 1.0) == pytest.approx([0.4, 0.4, 0.2])
    assert broken_shares(1, 1.0, crews=1) == pytest.approx([1 / 3] * 3)
    assert crews_busy(1, 1.0, crews=1) == pytest.approx(2 / 3)
    # a line of 1 for a third of the time, and 2/3 failures a repair: half a repair each
    assert crew_wait(1, 1.0, crews=1, service=48) == pytest.approx(24)


def test_a_job_without_spares_alternates_between_running_and_one_repair():
    """Load a, no spare: down at time t with chance a / (1 + a) (1 - exp(-(1 + a) t)); its mean over the run by hand."""
    load, run = 1.5, 3.0
    down = load / (1 + load) * (1 - (1 - math.exp(-(1 + load) * run)) / ((1 + load) * run))
    assert waiting_share(0, load, run=run) == pytest.approx(down)


def test_the_load_of_the_baseline_by_hand():
    """128 nodes / 3,000 h x 0.7 that need repair x 48 h = 1.43, of which the job runs 14.78 h in 14.78 + 0.57."""
    running = BASE.nominal_mtbi_hours / (BASE.nominal_mtbi_hours + BASE.overhead_minutes / 60)
    assert repair_load(BASE) == pytest.approx(128 / 3000 * 0.7 * 48 * running)


# --- slow twins ----------------------------------------------------------------------------------------------------


@given(few, st.integers(1, 60))
def test_erlang_b_is_the_ratio_of_its_sums(servers, tenths):
    load = Fraction(tenths, 10)
    terms = [load**k / math.factorial(k) for k in range(servers + 1)]
    assert erlang_b(servers, float(load)) == pytest.approx(float(terms[-1] / sum(terms)))


@given(few, loads)
def test_the_poisson_tail_is_what_its_terms_leave(count, load):
    assert poisson_tail(count, load) == pytest.approx(1 - sum(poisson(k, load) for k in range(count + 1)), abs=1e-12)


@given(st.integers(0, 8), st.floats(0.1, 5), st.one_of(st.none(), st.integers(1, 9)))
def test_the_long_run_balances_the_flows_in_and_out_of_every_state(spares, load, crews):
    shares = broken_shares(spares, load, crews)
    broken = np.arange(1, spares + 2)
    assert load * shares[:-1] == pytest.approx(np.minimum(broken, crews or 99) * shares[1:])
    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize("crews", [None, 1, 2])
def test_a_run_is_the_sum_of_its_small_steps(crews):
    """The chain played in 70,000 steps of Euler, from a start with nothing broken."""
    spares, load, run, steps = 2, 1.4, 7.0, 70_000
    now, total, broken = np.array([1.0, 0, 0, 0]), np.zeros(4), np.arange(1, 4)
    for _ in range(steps):
        total += now / steps
        up, down = load * now[:-1], np.minimum(broken, crews or 99) * now[1:]
        change = np.append(down, 0) - np.append(up, 0) + np.append(0, up) - np.append(0, down)
        now = now + change * run / steps
    assert broken_shares(spares, load, crews, run) == pytest.approx(total, abs=2e-4)


@pytest.mark.parametrize("events", [0.01, 1.0, 3.5, 20.0, 400.0])
def test_the_bias_of_monthly_means_is_the_mean_of_one_over_n(events):
    """E(1/n | n > 0) term by term, by logarithms."""
    chance = [math.exp(n * math.log(events) - events - math.lgamma(n + 1)) for n in range(1, 1_000)]
    inverse = sum(p / n for n, p in enumerate(chance, 1)) / sum(chance)
    assert monthly_bias(events) == pytest.approx(events * inverse)


# --- laws ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 20), st.floats(0.01, 20))
def test_with_crews_enough_a_job_waits_as_erlang_b_says(spares, load):
    assert waiting_share(spares, load) == pytest.approx(erlang_b(spares + 1, load))


@given(few, loads)
def test_a_job_that_stops_to_fail_waits_less_than_one_that_goes_on(spares, load):
    """B(c, a) = p(c) / P(n <= c) is at most P(n >= c): so the Poisson tail is a bound on the safe side."""
    assert erlang_b(spares + 1, load) <= poisson_tail(spares, load) + 1e-12


@given(st.integers(1, 30), loads)
def test_who_waits_keeps_a_server_busy_longer_than_who_goes_away(servers, load):
    assert erlang_b(servers, load) <= erlang_c(servers, load) <= 1


@given(st.integers(0, 12), st.floats(0.1, 5), st.integers(1, 6))
def test_more_spares_more_crews_and_a_fresh_start_all_wait_less(spares, load, crews):
    waits = waiting_share(spares, load, crews)
    assert waiting_share(spares + 1, load, crews) < waits
    assert waiting_share(spares, load, crews + 1) <= waits + 1e-12
    assert waiting_share(spares, load, crews, run=14) < waits


@given(st.integers(1, 5), st.floats(0.05, 0.8))
def test_with_very_many_spares_crews_are_those_of_erlang_c(crews, used):
    load = used * crews
    assert crew_wait(400, load, crews, 48) == pytest.approx(mean_wait(crews, load, 48), rel=1e-6)
    assert crews_busy(400, load, crews) == pytest.approx(load)


def test_many_events_leave_no_bias_and_the_series_takes_over_without_a_step():
    assert monthly_bias(1e6) == pytest.approx(1, abs=2e-6)
    assert monthly_bias(500 * (1 + 1e-12)) == pytest.approx(monthly_bias(500.0), rel=1e-7)


@given(st.floats(0.001, 0.5), st.floats(0.1, 10))
def test_the_fewest_spares_are_enough_and_one_less_is_not(share, load):
    spares = spares_for(share, load)
    assert waiting_share(spares, load) <= share
    assert spares == 0 or waiting_share(spares - 1, load) > share


def test_a_crew_with_too_much_work_is_refused_as_no_spares_help():
    with pytest.raises(BadInput, match=r"crews=1 must be more than load=1\.4"):
        spares_for(0.01, 1.4, crews=1)
    assert spares_for(0.01, 1.4, crews=2) > spares_for(0.01, 1.4)


def test_spares_counted_goodput_turns_where_a_spare_gains_less_than_a_node_trains():
    """80 % with 4 spares on 128 nodes; a fifth must bring 0.8 x 128 / 132 / 128 of the job's GPU-hours to pay."""
    needed = 0.8 / 132
    assert counting_spares(0.8 + needed, 5, 128) == pytest.approx(counting_spares(0.8, 4, 128))


def test_a_long_run_forgets_its_start():
    assert broken_shares(3, 1.4, run=1e5) == pytest.approx(broken_shares(3, 1.4), abs=1e-4)


def test_a_run_too_short_for_a_failure_never_waits():
    assert waiting_share(2, 1.4, run=1e-3) < 1e-9


# --- shapes, extremes, refusals ------------------------------------------------------------------------------------


def test_numbers_in_numbers_out_and_arrays_as_well():
    assert isinstance(erlang_b(3, 1.5), float) and isinstance(mean_wait(3, 1.5, 48), float)
    servers = np.arange(6)
    for law in (erlang_b, erlang_c, poisson_tail):
        assert law(servers, 1.5) == pytest.approx([law(int(each), 1.5) for each in servers])
        assert law(3, np.array([0.5, 1.5])) == pytest.approx([law(3, 0.5), law(3, 1.5)])
    assert mean_wait(servers, 1.5, 48)[:2].tolist() == [math.inf] * 2


def test_without_load_nobody_waits_and_without_servers_everybody():
    assert erlang_b(4, 0) == erlang_c(4, 0) == poisson_tail(0, 0) == mean_wait(1, 0, 48) == 0
    assert erlang_b(0, 2.0) == erlang_c(0, 2.0) == 1
    assert broken_shares(2, 0.0).tolist() == [1, 0, 0, 0]


def test_thousands_of_spares_neither_overflow_nor_lose_their_digits():
    """Near load = servers B is about sqrt(2 / (pi c)); and with hardly a server it is 1 - c / a."""
    assert erlang_b(20_000, 20_000) == pytest.approx(math.sqrt(2 / (math.pi * 20_000)), rel=0.01)
    assert erlang_b(4, 1e6) == pytest.approx(1 - 4e-6, abs=1e-10)
    assert waiting_share(1999, 2000.0) == pytest.approx(erlang_b(2000, 2000.0))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: erlang_b(2, -1), "load"),
        (lambda: erlang_b(1.5, 1), "servers"),
        (lambda: poisson_tail(-1, 1), "count"),
        (lambda: erlang_c(2, math.nan), "load"),
        (lambda: mean_wait(2, 1, math.inf), "service"),
        (lambda: broken_shares(-1, 1), "spares"),
        (lambda: broken_shares(2, 1, crews=0), "crews"),
        (lambda: broken_shares(2, 1, run=0), "run"),
        (lambda: monthly_bias(-1), "events"),
        (lambda: spares_for(1.5, 1), "share"),
    ],
)
def test_what_makes_no_sense_is_named(call, named):
    with pytest.raises(BadInput, match=f"queueing: {named}="):
        call()


# --- against the simulation ----------------------------------------------------------------------------------------


def shares_waited(scenario, seeds) -> np.ndarray:
    stretches = spans(simulate_many(scenario, seeds))
    waits = hours(stretches).where(stretches["category"] == "waiting", 0.0)
    return (waits.groupby(stretches["job"], observed=False).sum() / (scenario.days * 24)).to_numpy()


@pytest.mark.parametrize("spares", [0, 1, 3])
def test_months_of_the_simulation_wait_as_the_chain_says(spares):
    """100 months that start with all nodes healthy: within 4 standard errors."""
    found = shares_waited(BASE.but({"pool.spares": spares}), range(1, 101))
    theory = waiting_share(spares, repair_load(BASE), run=BASE.days * 24 / BASE.repair.mean_hours)
    assert abs(found.mean() - theory) < 4 * found.std(ddof=1) / 10


def test_years_of_the_simulation_wait_as_erlang_says():
    found = shares_waited(BASE.but({"days": 3650, "pool.spares": 1}), [1, 2])
    assert found.mean() == pytest.approx(erlang_b(2, repair_load(BASE)), rel=0.05)


@pytest.mark.parametrize("crews", [1, 2])
def test_crews_of_the_simulation_are_as_busy_and_waited_for_as_the_chain_says(crews):
    scenario = BASE.but({"repair.crews": crews})
    shop = shop_per_job(simulate_many(scenario, range(1, 101)))
    line = 4, repair_load(scenario), crews
    run = scenario.days * 24 / scenario.repair.mean_hours
    waits, busy = pooled_mean(shop["wait_hours"], shop["trips"]), pooled_mean(shop["repair_hours"], shop["hours"])
    assert abs(waits.mean - crew_wait(*line, 48, run)) < 2 * (waits.high - waits.low) / 2
    assert abs(busy.mean - crews_busy(*line, run)) < 2 * (busy.high - busy.low) / 2
