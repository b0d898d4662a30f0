"""Laws that hold in every scenario, tried on scenarios drawn at random, against slow twins where there is one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import OUR_DAY, as_events, play_naively, totals, walk
from scipy import stats

from goodput.attribution import interruptions, spans
from goodput.events import codes, micros
from goodput.metrics import per_job
from goodput.scenario import load_scenario
from goodput.shop import repair_trips
from goodput.simulate import simulate, simulate_many

BASELINE = load_scenario("baseline")
DAY = 86_400_000_000
LEVEL = 1e-5


no_limit, any_crews = st.none(), st.sampled_from([None, 1, 2])


@st.composite
def scenarios(draw, crews=no_limit):
    """Two to 24 nodes in two cohorts, three causes, some 10 to 50 failures; any of it may be scarce or slow."""
    nodes, spares = draw(st.integers(2, 24)), draw(st.integers(0, 4))
    hours = draw(st.integers(8, 24)) * nodes  # MTBF of a node: the job fails every 8 to 24 h
    share, hang = draw(st.integers(0, 8)) / 10, draw(st.integers(0, 90))
    causes = {
        "breaks": {"scope": "node", "share": 1 - share, "detection_minutes": float(draw(st.integers(0, 60)))},
        "hangs": {"scope": "node", "share": share, "detection_minutes": float(hang)},
        "crash": {"scope": "job", "share": 1.0, "detection_minutes": 1.0},
    }
    causes["breaks"]["needs_repair"] = True
    bad = {"mtbf_hours": hours / draw(st.integers(1, 6)), "nodes": draw(st.integers(1, nodes))}
    changes = {
        "job": {"nodes": nodes, "gpus_per_node": 8, "restart_minutes": float(draw(st.integers(1, 120)))},
        "days": float(draw(st.integers(5, 20))),
        "pool.spares": spares,
        "cohorts": {"bad": bad, "good": {"mtbf_hours": float(hours)}},
        "causes": causes,
        "job_failures.mtbi_hours": float(draw(st.integers(20, 200))),
        "checkpoint.interval_minutes": float(draw(st.integers(5, 400))),
        "checkpoint.blocking_minutes": draw(st.integers(1, 200)) / 10,
        "repair": {"mean_hours": float(draw(st.integers(1, 60)))},
    }
    limit = draw(crews)
    return BASELINE.but(changes | ({"repair.crews": limit} if limit else {}), name="drawn")


# --- thinning against a clock in each node -------------------------------------------------------------------------


def ours(scenario, runs: int) -> dict[str, np.ndarray]:
    log = simulate_many(scenario, range(1, runs + 1))
    struck = interruptions(log)
    jobs = per_job(spans(log), struck)
    number = struck["node"].str.removeprefix("node").astype(float)
    last = scenario.cohort_sizes["bad"] - 1
    return {
        "interruptions": jobs["interruptions"],
        "running": jobs["running_hours"],
        "waiting": jobs["waiting"] / scenario.job.nodes / 8,
        "bad": struck.loc[number <= last, "job"].value_counts(sort=False),
        "good": struck.loc[number > last, "job"].value_counts(sort=False),
    }


def theirs(scenario, runs: int) -> dict[str, list]:
    played = [play_naively(scenario, np.random.default_rng(seed)) for seed in range(runs)]
    return {
        "interruptions": [run.interruptions for run in played],
        "running": [run.running_hours for run in played],
        "waiting": [run.waiting_hours for run in played],
        **{name: [run.failures.get(name, 0) for run in played] for name in scenario.cohorts},
    }


def assert_alike(scenario, runs: int) -> None:
    """Compare both as samples of one distribution, by Kolmogorov-Smirnov: rare waits have no normal mean."""
    one, other = ours(scenario, runs), theirs(scenario, runs)
    chance = {name: stats.ks_2samp(one[name], other[name], method="asymp").pvalue for name in other}
    assert min(chance.values()) > LEVEL, chance


@settings(max_examples=12)
@given(scenarios())
def test_thinning_agrees_with_a_clock_in_each_node_in_any_scenario(scenario):
    """150 runs each; five numbers of 12 scenarios, each with p > 1e-5."""
    assert_alike(scenario, 150)


@pytest.mark.slow
def test_thinning_agrees_with_a_clock_in_each_node_in_very_many_scenarios():
    @settings(max_examples=100)
    @given(scenarios())
    def check(scenario):
        assert_alike(scenario, 600)

    check()


# --- the accounting ------------------------------------------------------------------------------------------------


def assert_accounted(scenario) -> None:
    log = simulate(scenario, 1)
    table = spans(log)
    start, end = micros(table["start"]), micros(table["end"])
    assert (start[0], end[-1]) == (OUR_DAY, OUR_DAY + scenario.days * DAY)
    assert (start[1:] == end[:-1]).all() and (start < end).all()
    key = list(zip(table["category"], table["cause"].astype(object).where(table["cause"].notna(), None)))
    found: dict = {}
    for (category, cause), length in zip(key, (end - start).tolist()):
        who = (category, cause, scenario.job.nodes * scenario.job.gpus_per_node)
        found[who] = found.get(who, 0) + length
    assert found == totals(walk(as_events(log, "drawn/seed-1")))


@settings(max_examples=60)
@given(scenarios(any_crews))
def test_any_simulated_log_is_attributed_as_by_a_slow_twin_and_tiled_to_the_microsecond(scenario):
    assert_accounted(scenario)


@pytest.mark.slow
def test_very_many_simulated_logs_are_attributed_as_by_a_slow_twin():
    @settings(max_examples=1_500)
    @given(scenarios(any_crews))
    def check(scenario):
        assert_accounted(scenario)

    check()


# --- the repair shop -----------------------------------------------------------------------------------------------


def steps(log, **worth) -> tuple[np.ndarray, np.ndarray]:
    """Return the moments of an event, in microseconds, and what a count is worth from each on."""
    move = log["event"].astype(object).map(worth).fillna(0).to_numpy(float)
    time = micros(log["time"])
    last = np.append(time[1:] > time[:-1], True)  # of events of one moment, what holds after all of them
    return time[last], np.cumsum(move)[last]


@settings(max_examples=60)
@given(scenarios(any_crews))
def test_littles_law_holds_exactly_in_any_run(scenario):
    """The number in the shop and at its door, added up over time, is the time of all trips, added up over nodes."""
    log = simulate(scenario, 1)
    trips = repair_trips(log)
    time, inside = steps(log, node_down=1, node_repaired=-1)
    _, in_line = steps(log, node_down=1, repair_start=-1)
    hours = np.diff(time) / (DAY / 24)
    assert inside[:-1] @ hours == pytest.approx((trips["wait_hours"] + trips["repair_hours"]).sum())
    assert in_line[:-1] @ hours == pytest.approx(trips["wait_hours"].sum())


@settings(max_examples=60)
@given(scenarios(any_crews))
def test_no_crew_idles_while_a_node_waits_and_no_spare_while_the_job_does(scenario):
    log = simulate(scenario, 1)
    time, in_line = steps(log, node_down=1, repair_start=-1)
    _, mended = steps(log, repair_start=1, node_repaired=-1)
    crews = scenario.repair.crews or np.inf
    assert (mended <= crews).all() and (mended[in_line > 0] == crews).all()
    waits = spans(log).query("category == 'waiting'")
    begun = np.searchsorted(time, micros(waits["start"]))
    assert ((in_line + mended)[begun] == scenario.pool.spares + 1).all()
    assert (in_line + mended).max() <= scenario.pool.spares + 1


@settings(max_examples=30)
@given(scenarios(any_crews))
def test_failures_strike_only_while_the_job_runs_and_a_crash_blames_no_node(scenario):
    log = simulate(scenario, 1)
    event = log["event"].astype(object)[codes(log["job"]) >= 0]
    turns = event[event.isin(["start", "running", "interrupt"])].to_numpy()
    assert (turns[1::2] == "interrupt").all() and (turns[2::2] == "running").all()
    struck = interruptions(log)
    assert (struck["node"].isna() == (struck["cause"] == "crash")).all()
