"""Play it once: known timelines, the same luck for every policy, every node in one place, time that adds up."""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from naive import OUR_DAY, failures
from timelines import BROKEN, CRASH, HANG, SMALL, fault, timeline

from goodput.attribution import interruptions, spans
from goodput.cluster import US_PER_DAY, US_PER_HOUR, US_PER_MINUTE, failure_tape
from goodput.errors import BadInput
from goodput.events import codes, micros
from goodput.experiment import experiment, wide_runs
from goodput.logtext import log_text
from goodput.metrics import per_job
from goodput.scenario import SEVEN, load_scenario
from goodput.simulate import cohort_names, job_name, node_names, simulate, simulate_many

BASELINE = load_scenario("baseline")
# --- timelines known beforehand ------------------------------------------------------------------------------------


def test_without_failures_a_job_saves_after_each_interval_of_compute(play):
    """22 whole periods of 65 min in a day of 1,440, and 10 min of compute at the end."""
    log = play()
    assert timeline(log) == [(0, "start"), (1440, "end")]
    saves = [row for row in timeline(log, saves=True) if row[1].startswith("checkpoint")]
    assert saves == [
        (65 * k + at, event) for k in range(22) for at, event in ((60, "checkpoint_start"), (65, "checkpoint_end"))
    ]


def test_a_broken_node_is_replaced_by_the_spare_and_mended_behind_the_scenes(play):
    """100 min of running clock are 100 min: 60 of compute, a save of 5, 35 of compute that are lost."""
    log = play(fault(100, BROKEN, slot=1, repair=120))
    assert timeline(log) == [
        (0, "start"),
        (100, "interrupt", "broken", "node0001"),
        (103, "detected"),
        (103, "node_down", "node0001"),
        (103, "repair_start", "node0001"),
        (103, "nodes_ready", "node0004", "node0001"),
        (113, "running"),
        (223, "node_repaired", "node0001"),
        (1440, "end"),
    ]
    table = spans(log)
    assert table["gpu_hours"].groupby(table["category"]).sum()["lost_work"] == pytest.approx(35 / 60 * 8)


def test_saves_begin_anew_after_each_restart(play):
    """Running again at 113: the next save is at 173, an hour of compute later, not where the old pattern had it."""
    saves = [row[0] for row in timeline(play(fault(100, BROKEN)), saves=True) if row[1] == "checkpoint_start"]
    assert saves[:3] == [60, 173, 238]


def test_without_a_spare_the_job_waits_for_the_first_node_to_come_back(play):
    """The spare goes at 103; the second failure, 10 min of running later, waits from 126 to 223 for node 1."""
    log = play(fault(100, BROKEN, slot=1, repair=120), fault(110, BROKEN, slot=2, repair=600))
    assert timeline(log)[7:11] == [
        (123, "interrupt", "broken", "node0002"),
        (126, "detected"),
        (126, "node_down", "node0002"),
        (126, "repair_start", "node0002"),
    ]
    assert timeline(log)[11:] == [
        (223, "node_repaired", "node0001"),
        (223, "nodes_ready", "node0001", "node0002"),
        (233, "running"),
        (726, "node_repaired", "node0002"),
        (1440, "end"),
    ]


def test_a_node_may_wait_for_itself(play):
    """No spare at all: the broken node is mended and goes back to its own slot."""
    log = play(fault(100, BROKEN, slot=3, repair=60), scenario=SMALL.but({"pool.spares": 0}))
    assert (163, "nodes_ready", "node0003", "node0003") in timeline(log)


def test_a_hang_costs_its_detection_and_no_node(play):
    log = play(fault(100, HANG, slot=2))
    assert timeline(log) == [
        (0, "start"),
        (100, "interrupt", "hang", "node0002"),
        (130, "detected"),
        (130, "nodes_ready"),
        (140, "running"),
        (1440, "end"),
    ]


def test_a_crash_names_no_node(play):
    assert timeline(play(fault(50, CRASH)))[1:5] == [
        (50, "interrupt", "crash"),
        (50, "detected"),
        (50, "nodes_ready"),
        (60, "running"),
    ]


def test_the_running_clock_stands_while_the_job_is_down(play):
    """Failures at 50 and 60 of the running clock, each with 10 min of restart: the second strikes at 70."""
    assert [row[0] for row in timeline(play(fault(50, CRASH), fault(60, CRASH))) if row[1] == "interrupt"] == [50, 70]


def test_the_lowest_named_spare_is_taken_first_also_after_a_repair(play):
    """Spares 4, 5, 6. Node 0 comes back at 133 and is then the lowest: the third failure takes it, not 6."""
    scenario = SMALL.but({"pool.spares": 3})
    faults = [fault(100, BROKEN, slot=0, repair=30), fault(101, BROKEN, slot=1, repair=9999)]
    log = play(*faults, fault(200, BROKEN, slot=2, repair=9999), scenario=scenario)
    assert list(log["joined"].dropna()) == ["node0004", "node0005", "node0000"]


def test_the_node_that_took_a_slot_is_the_next_to_be_blamed_for_it(play):
    log = play(fault(100, BROKEN, slot=1, repair=9999), fault(200, HANG, slot=1))
    assert list(log["node"][log["event"] == "interrupt"]) == ["node0001", "node0004"]


def test_two_failures_of_one_moment_strike_one_after_the_other(play):
    """The second is due on the running clock, which stands: it strikes as training goes on again."""
    log = play(fault(100, CRASH), fault(100, HANG, slot=1))
    assert [row[:2] for row in timeline(log) if row[1] in ("interrupt", "running")] == [
        (100, "interrupt"),
        (110, "running"),
        (110, "interrupt"),
        (150, "running"),
    ]


def test_with_one_crew_repairs_queue(play):
    """Both nodes break, at 103 and 126; the one crew begins with the second when it is done with the first, at 223."""
    faults = [fault(100, BROKEN, slot=1, repair=120), fault(110, BROKEN, slot=2, repair=60)]
    scenario = SMALL.but({"pool.spares": 2, "repair.crews": 1})
    of_second = [
        row for row in timeline(play(*faults, scenario=scenario)) if row[-1] == "node0002" and "node0005" not in row
    ]
    assert [row[:2] for row in of_second] == [
        (123, "interrupt"),
        (126, "node_down"),
        (223, "repair_start"),
        (283, "node_repaired"),
    ]


def test_crews_serve_in_the_order_of_arrival(play):
    faults = [fault(10 * k, BROKEN, slot=k, repair=300 - 60 * k) for k in (1, 2, 3)]
    log = play(*faults, scenario=SMALL.but({"pool.spares": 3, "repair.crews": 1}))
    for event in ("node_down", "repair_start", "node_repaired"):
        assert list(log["node"][log["event"] == event]) == ["node0001", "node0002", "node0003"]


def test_a_failure_hits_only_an_occupant_of_its_own_cohort(play):
    """Nodes 0-2 are good, 3 and the spare 4 are bad. A failure of the bad at slot 1 misses, until node 4 sits there."""
    scenario = SMALL.but({"cohorts.bad": {"nodes": 2, "mtbf_hours": 600.0}})
    miss, swap, hit = fault(50, HANG, 1, cohort=1), fault(100, BROKEN, 1, 9999), fault(200, HANG, 1, cohort=1)
    log = play(miss, swap, hit, scenario=scenario)
    found = log[log["event"] == "interrupt"]
    assert list(zip(found["cause"], found["node"], strict=True)) == [("broken", "node0001"), ("hang", "node0004")]


# --- horizon -------------------------------------------------------------------------------------------------------


def test_a_failure_at_the_horizon_does_not_strike_and_one_just_before_does(play):
    assert timeline(play(fault(1440, CRASH))) == [(0, "start"), (1440, "end")]
    assert [row[1] for row in timeline(play(fault(1440 - 1 / 60, CRASH)))] == [
        "start",
        "interrupt",
        "detected",
        "nodes_ready",
        "end",
    ]


def test_a_save_that_ends_at_the_horizon_is_told(play):
    log = play(scenario=SMALL.but({"days": 65 / 1440}))
    assert timeline(log, saves=True) == [(0, "start"), (60, "checkpoint_start"), (65, "checkpoint_end"), (65, "end")]


def test_a_save_that_would_begin_at_the_horizon_or_at_a_fault_is_not_told(play):
    assert timeline(play(scenario=SMALL.but({"days": 60 / 1440})), saves=True) == [(0, "start"), (60, "end")]
    assert [row[1] for row in timeline(play(fault(60, CRASH)), saves=True)][:2] == ["start", "interrupt"]


def test_a_save_that_ends_as_the_fault_strikes_counts(play):
    log = play(fault(65, CRASH))
    assert [row[:2] for row in timeline(log, saves=True)[1:4]] == [
        (60, "checkpoint_start"),
        (65, "checkpoint_end"),
        (65, "interrupt"),
    ]
    assert "lost_work" not in set(spans(log)["category"])


def test_a_save_that_a_fault_or_the_horizon_cuts_short_is_told_by_its_start_alone(play):
    """At 62 the save of 60 has three minutes to go; so has the second run's save of 132 at the horizon, 134."""
    log = play(fault(62, CRASH), scenario=SMALL.but({"days": 134 / 1440}))
    assert [row[:2] for row in timeline(log, saves=True) if row[1] not in ("detected", "nodes_ready")] == [
        (0, "start"),
        (60, "checkpoint_start"),
        (62, "interrupt"),
        (72, "running"),
        (132, "checkpoint_start"),
        (134, "end"),
    ]


def test_a_job_that_waits_for_ever_waits_to_the_horizon(play):
    log = play(fault(100, BROKEN, repair=10**7), scenario=SMALL.but({"pool.spares": 0}))
    assert timeline(log)[-1] == (1440, "end")
    last = spans(log).iloc[-1]
    assert last["category"] == "waiting"
    assert last["gpu_hours"] == pytest.approx((1440 - 103) / 60 * 8)


def test_a_run_ends_at_its_last_microsecond(play):
    log = play(scenario=SMALL.but({"days": 1 / 3}))
    assert micros(log["time"])[-1] - OUR_DAY == round(US_PER_DAY / 3)


def test_a_run_too_short_to_hold_a_microsecond_is_refused():
    with pytest.raises(BadInput, match="days"):
        simulate(BASELINE.but({"days": 1e-13}), 1)


# --- whose luck ----------------------------------------------------------------------------------------------------


def assert_same_failures(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Each run's failures are those of the other, as far as both ran."""
    for mine, theirs in zip(failures(one), failures(other), strict=True):
        both = min(len(mine), len(theirs))
        assert mine[:both] == theirs[:both]


POLICIES = {
    "pool.spares": 8,
    "repair.crews": 1,
    "checkpoint.interval_minutes": 90.0,
    "checkpoint.blocking_minutes": 0.5,
    "job.restart_minutes": 5.0,
    "causes.host.detection_minutes": 60.0,
    "repair.mean_hours": 12.0,
}


@pytest.mark.parametrize("path", POLICIES)
def test_no_policy_shifts_the_luck(path):
    """The same seed meets the same failures, at the same moments of the running clock, from the same causes."""
    seeds = range(1, 21)
    assert_same_failures(simulate_many(BASELINE, seeds), simulate_many(BASELINE.but({path: POLICIES[path]}), seeds))


def test_another_cause_leaves_the_luck_of_the_others_as_it_was():
    """A cause of share 0 more: streams belong to what they drive."""
    more = BASELINE.but({"causes.aliens": {"scope": "node", "share": 0.0, "detection_minutes": 1.0}})
    assert failures(simulate(BASELINE, 1)) == failures(simulate(more, 1))


def test_the_failures_of_a_run_are_those_of_its_tape():
    """With one cohort every candidate hits: interruptions are the tape, up to the running time of the run."""
    struck = failures(simulate(BASELINE, 7))[0]
    tape = list(failure_tape(BASELINE, 7))
    causes = list(BASELINE.causes)
    assert [(f.at_us, causes[f.cause]) for f in tape[: len(struck)]] == struck


@pytest.mark.parametrize("first_window", [7, 10**6])
def test_a_tape_does_not_depend_on_the_windows_in_which_it_is_drawn(monkeypatch, first_window):
    """20,000 candidates, with each part of a fate that is drawn: some 12 windows, and a single one."""
    varying = {"job.restart_minutes": {"distribution": "lognormal", "median": 12.0, "sigma": 0.8}}
    varying |= {"causes.host.detection_minutes": {"distribution": "exponential", "mean": 4.0}}
    scenario = MANY.but(varying | {"restart.failure_share": 0.4, "days": 12_000})
    tape = list(failure_tape(scenario, 1))
    monkeypatch.setattr("goodput.cluster._BLOCK", first_window)
    assert list(failure_tape(scenario, 1)) == tape and len(tape) > 15_000


@pytest.mark.parametrize("seeds", [300, pytest.param(2000, marks=pytest.mark.slow)])
def test_eight_spares_are_never_worse_than_four_by_more_than_an_interval_of_work(seeds):
    """Time to any point of the running clock falls with spares: only work in flight at the end can be less."""
    one, two = BASELINE, BASELINE.but({"pool.spares": 8}, name="eight")
    goodput = wide_runs(experiment([one, two], seeds, jobs=1))["productive"].unstack("scenario")
    interval = BASELINE.interval_minutes / 60 * 1024
    gain = goodput["eight"] - goodput["baseline"]
    assert gain.min() >= -interval
    assert gain.max() > 10 * interval  # and in some runs they help a great deal


def test_eight_spares_see_the_failures_of_four_over_many_seeds():
    seeds = range(1, 101)
    assert_same_failures(simulate_many(BASELINE, seeds), simulate_many(BASELINE.but({"pool.spares": 8}), seeds))


@pytest.mark.slow
def test_eight_spares_see_the_failures_of_four_over_two_thousand_seeds():
    for first in range(1, 2001, 250):
        seeds = range(first, first + 250)
        assert_same_failures(simulate_many(BASELINE, seeds), simulate_many(BASELINE.but({"pool.spares": 8}), seeds))


# --- the same run, anywhere ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["baseline", "firmware-regression"])
def test_a_run_is_byte_identical_in_processes_that_hash_otherwise(name):
    code = f"""
from hashlib import sha256
from goodput.logtext import log_text
from goodput.scenario import load_scenario
from goodput.simulate import simulate
print(sha256(log_text(simulate(load_scenario({name!r}), 5)).encode()).hexdigest())"""
    here = sha256(log_text(simulate(load_scenario(name), 5)).encode()).hexdigest()
    for hash_seed in ("1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[1])}
        done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
        assert done.stdout.strip() == here


@pytest.mark.parametrize("name", SEVEN)
def test_replication_five_alone_is_replication_five_of_a_batch_in_any_order(name):
    scenario = load_scenario(name)
    alone = log_text(simulate(scenario, 5))
    batch = simulate_many(scenario, [9, 5, 1, 4])
    assert log_text(batch[batch["job"] == job_name(scenario, 5)]) == alone


def test_another_seed_is_another_run():
    assert len({log_text(simulate(BASELINE, seed)).replace(f"seed-{seed}", "") for seed in range(10)}) == 10


def test_a_run_does_not_change_its_scenario():
    before = BASELINE.model_dump()
    simulate(BASELINE, 1)
    assert BASELINE.model_dump() == before


# --- every node in one place, every microsecond in one category ----------------------------------------------------


def replay(log: pd.DataFrame, scenario) -> None:
    """Follow every node through the log of one run: each move must start from the place where the node is."""
    job = set(range(scenario.job.nodes))
    place = dict.fromkeys(range(scenario.pool_nodes), "spare") | dict.fromkeys(job, "job")
    moves = {"node_down": ("job", "queue"), "repair_start": ("queue", "repair"), "node_repaired": ("repair", "spare")}
    for event, node, joined, left in zip(*(log[c] for c in ("event", "node", "joined", "left"))):
        if event in moves:
            assert place[_number(node)] == moves[event][0]
            place[_number(node)] = moves[event][1]
        if event == "interrupt" and not pd.isna(node):
            assert place[_number(node)] == "job"
        if event == "nodes_ready" and not pd.isna(joined):
            assert place[_number(joined)] == "spare"
            place[_number(joined)] = "job"
            assert place[_number(left)] != "job" or left == joined
            job = (job - {_number(left)}) | {_number(joined)}
        if event == "running":
            assert {node for node, where in place.items() if where == "job"} == job
            assert len(job) == scenario.job.nodes


def _number(name: str) -> int:
    return int(name.removeprefix("node"))


@pytest.mark.parametrize("name", SEVEN)
def test_a_node_is_in_exactly_one_place_at_any_time(name):
    scenario = load_scenario(name)
    for seed in range(1, 11):
        replay(simulate(scenario, seed), scenario)


def test_a_node_is_in_one_place_also_where_repairs_queue():
    scenario = load_scenario("firmware-regression").but(
        {"repair.crews": 1, "pool.spares": 2, "cohorts.batch_b.nodes": 30}
    )
    for seed in range(1, 11):
        replay(simulate(scenario, seed), scenario)


def test_with_crews_the_number_in_repair_never_exceeds_them():
    log = simulate(load_scenario("firmware-regression").but({"repair.crews": 2}), 1)
    moves = log["event"].map({"repair_start": 1, "node_repaired": -1}).astype(float).fillna(0)
    assert moves.cumsum().max() == 2


@pytest.mark.parametrize("name", SEVEN)
def test_every_logs_categories_add_up_to_what_was_held_in_whole_microseconds(name):
    """Each run's spans tile its 28 days without a gap; the baseline's 1,024 GPUs hold 688,128 GPU-hours."""
    scenario = load_scenario(name)
    table = spans(simulate_many(scenario, range(1, 21)))
    start, end = micros(table["start"]), micros(table["end"])
    new = np.diff(codes(table["job"]), prepend=-1) != 0
    assert (start[~new] == end[:-1][~new[1:]]).all()
    assert (start[new] == OUR_DAY).all() and (end[np.append(new[1:], True)] == OUR_DAY + 28 * US_PER_DAY).all()
    lengths = pd.Series(end - start).groupby([codes(table["job"]), codes(table["category"])]).sum()
    assert (lengths.groupby(level=0).sum() == 28 * US_PER_DAY).all()
    assert 28 * 24 * 1024 == 688_128
    assert per_job(table, interruptions(simulate(scenario, 1)))["held_gpu_hours"].to_numpy() == pytest.approx(688_128)


def test_a_complete_log_leaves_nothing_unattributed():
    for name in SEVEN:
        assert "unattributed" not in set(spans(simulate(load_scenario(name), 1))["category"])


# --- direction and extremes ----------------------------------------------------------------------------------------

WORSE = {
    "pool.spares": (8, 4, 2, 1, 0),
    "repair.crews": (None, 4, 2, 1),
    "causes.collective_hang.detection_minutes": (0.0, 5.0, 30.0, 240.0),
    "job.restart_minutes": (1.0, 20.0, 60.0),
    "repair.mean_hours": (1.0, 48.0, 200.0),
    "checkpoint.blocking_minutes": (0.1, 5.0, 15.0),
    "cohorts.default.mtbf_hours": (1e9, 6000.0, 3000.0, 1000.0),
    "job_failures.mtbi_hours": (None, 40.0, 10.0),
}


@pytest.mark.parametrize("path", WORSE)
def test_what_is_worse_never_helps(path):
    """On the mean of 20 seeds, each step of each parameter costs goodput."""
    scenarios = [BASELINE.but({path: value}, name=str(value)) for value in WORSE[path]]
    means = wide_runs(experiment(scenarios, 20, jobs=1))["goodput"].groupby("scenario", observed=True).mean()
    assert means.is_monotonic_decreasing and means.iloc[0] > means.iloc[-1] + 0.005


@pytest.mark.parametrize(
    "path", ["pool.spares", "repair.crews", "causes.collective_hang.detection_minutes", "repair.mean_hours"]
)
def test_what_is_worse_helps_no_single_run_by_more_than_an_interval_of_work(path):
    """With the luck held fixed, time to reach any point of the running clock can only grow."""
    scenarios = [BASELINE.but({path: value}, name=str(value)) for value in WORSE[path]]
    work = wide_runs(experiment(scenarios, 40, jobs=1))["productive"].unstack("scenario")
    interval = BASELINE.interval_minutes / 60 * 1024
    assert (work.diff(axis=1).iloc[:, 1:] <= interval).all(axis=None)


def test_without_failures_goodput_is_compute_over_compute_and_save():
    """30 / 35, but for the unfinished period at the end."""
    never = BASELINE.but({"cohorts.default.mtbf_hours": 1e12, "job_failures.mtbi_hours": None})
    table = per_job(spans(simulate(never, 1)), interruptions(simulate(never, 1)))
    assert table["interruptions"].sum() == 0
    assert table["goodput"].iloc[0] == pytest.approx(30 / 35, abs=35 / (28 * 1440))


def test_with_failures_every_few_minutes_nothing_is_ever_kept():
    """Saves after 30 min, failures each 2: productive is only what is in flight at the end."""
    doomed = BASELINE.but({"job_failures.mtbi_hours": 1 / 30, "days": 3})
    assert per_job(spans(simulate(doomed, 1)), interruptions(simulate(doomed, 1)))["goodput"].iloc[0] < 0.01


def test_with_no_spares_each_repair_is_waited_for():
    """One node broken at a time: waiting is the sum of the repairs that ended, and of the one under way."""
    log = simulate(load_scenario("no-spares"), 1)
    table = spans(log)
    waited = (micros(table["end"]) - micros(table["start"]))[(table["category"] == "waiting").to_numpy()].sum()
    times = {
        event: micros(log["time"])[(log["event"] == event).to_numpy()] for event in ("repair_start", "node_repaired")
    }
    under_way = len(times["repair_start"]) - len(times["node_repaired"])
    assert waited == times["node_repaired"].sum() + under_way * micros(log["time"])[-1] - times["repair_start"].sum()


# --- many nodes ----------------------------------------------------------------------------------------------------

MANY = BASELINE.but({"job.nodes": 131_072, "cohorts.default.mtbf_hours": 3000.0 * 1024})


def test_nodes_that_never_failed_leave_no_trace_but_one_folded_name():
    log = simulate(MANY, 1)
    assert list(log["node_names"].cat.categories) == ["node[000000-131071]"]
    named = {name for column in ("node", "joined", "left") for name in log[column].dropna()}
    assert len(named) <= 3 * (log["event"] == "interrupt").sum()
    assert len(log) < 1.1 * len(simulate(BASELINE, 1))


def test_a_thousand_times_the_nodes_at_the_same_rate_meet_the_same_failures():
    assert failures(simulate(MANY, 1)) == failures(simulate(BASELINE, 1))


def test_names_are_wide_enough_for_every_node_to_sort_by_number():
    assert node_names(MANY, 5, 5) == "node000005"
    assert node_names(BASELINE, 128, 131) == "node[0128-0131]"


def test_cohort_names_cover_the_pool_once():
    assert cohort_names(load_scenario("firmware-regression")) == {
        "default": "node[0000-0099]",
        "batch_b": "node[0100-0131]",
    }


def test_the_unit_of_the_clock_is_a_microsecond():
    assert US_PER_DAY == 24 * US_PER_HOUR == 1440 * US_PER_MINUTE == 86_400_000_000
