"""Faults while the job is down, restarts that fail, planned stops, durations that vary: minutes known beforehand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timelines import BROKEN, CRASH, HANG, SMALL, fault, timeline

from goodput.attribution import interruptions, spans
from goodput.errors import BadInput
from goodput.events import micros
from goodput.experiment import experiment, wide_runs
from goodput.logfile import read_log
from goodput.logtext import write_log
from goodput.metrics import per_job
from goodput.scenario import SEVEN, load_scenario
from goodput.simulate import simulate, simulate_many

BASELINE = load_scenario("baseline")
ALWAYS = SMALL.but({"failures.strike": "always", "pool.spares": 2})
PLANNED = SMALL.but({"causes.upgrade": {"scope": "job", "share": 0.0, "detection_minutes": 0.0, "planned": True}})
UPGRADE = 3


def upgrade(minute: float):
    """Return a planned stop, ordered at this minute."""
    return fault(minute, CRASH)._replace(cause=UPGRADE)


def hours(log, category: str) -> dict[str, float]:
    """Return the hours of a category by cause; all four nodes of two GPUs are held all the time."""
    table = spans(log)
    mine = table[table["category"] == category]
    return (mine.groupby("cause", observed=True)["gpu_hours"].sum() / 8).round(6).to_dict()


# --- faults strike while the job is down, too ----------------------------------------------------------------------


def test_two_nodes_that_break_in_one_second_are_one_restart_and_two_repairs(play):
    """Case D09. At 100 both break; noticed at 103; two spares join; work since the save of 60 is lost once: 35 min."""
    log = play(fault(100, BROKEN, slot=1, repair=120), fault(100, BROKEN, slot=2, repair=60), scenario=ALWAYS)
    assert timeline(log) == [
        (0, "start"),
        (100, "interrupt", "broken", "node0001"),
        (100, "interrupt", "broken", "node0002"),
        (103, "detected"),
        (103, "node_down", "node0001"),
        (103, "node_down", "node0002"),
        (103, "repair_start", "node0001"),
        (103, "repair_start", "node0002"),
        (103, "nodes_ready", "node[0004,0005]", "node[0001,0002]"),
        (113, "running"),
        (163, "node_repaired", "node0002"),
        (223, "node_repaired", "node0001"),
        (1440, "end"),
    ]
    assert hours(log, "lost_work") == {"broken": round(35 / 60, 6)}
    assert len(interruptions(log)) == 2


def test_a_dead_job_is_known_to_be_dead_with_the_first_fault_that_is_noticed(play):
    """A hang at 100 would be noticed at 130; the node that breaks at 105 is at 108: 5 min are the hang's, 3 its own."""
    log = play(fault(100, HANG, slot=1), fault(105, BROKEN, slot=2), scenario=ALWAYS)
    assert [row[:2] for row in timeline(log)[1:4]] == [(100, "interrupt"), (105, "interrupt"), (108, "detected")]
    assert hours(log, "detection") == {"hang": round(5 / 60, 6), "broken": round(3 / 60, 6)}


def test_a_fault_while_the_job_waits_owes_one_node_more_and_loses_none(play):
    """No spare. Node 1 breaks at 100 and is away from 103 to 223; node 2 breaks at 150, is noticed at 153 and back at
    183. What comes first fills a slot, and training goes on with four healthy nodes, 10 min after 223."""
    log = play(
        fault(100, BROKEN, slot=1, repair=120),
        fault(150, BROKEN, slot=2, repair=30),
        scenario=ALWAYS.but({"pool.spares": 0}),
    )
    assert timeline(log)[1:] == [
        (100, "interrupt", "broken", "node0001"),
        (103, "detected"),
        (103, "node_down", "node0001"),
        (103, "repair_start", "node0001"),
        (150, "interrupt", "broken", "node0002"),
        (153, "detected"),
        (153, "node_down", "node0002"),
        (153, "repair_start", "node0002"),
        (183, "node_repaired", "node0002"),
        (223, "node_repaired", "node0001"),
        (223, "nodes_ready", "node[0001,0002]", "node[0001,0002]"),
        (233, "running"),
        (1440, "end"),
    ]


def test_a_spare_that_comes_in_the_moment_of_a_fault_is_not_lost(play):
    """Node 1 comes back at 223, as the job crashes once more: it sits in its slot first, and the crash needs none."""
    log = play(fault(100, BROKEN, slot=1, repair=120), fault(223, CRASH), scenario=ALWAYS.but({"pool.spares": 0}))
    at_223 = [row[1:] for row in timeline(log) if row[0] == 223]
    assert sorted(at_223) == sorted(
        [
            ("node_repaired", "node0001"),
            ("nodes_ready", "node0001", "node0001"),
            ("interrupt", "crash"),
            ("detected",),
            ("nodes_ready",),
        ]
    )
    assert timeline(log)[-2:] == [(233, "running"), (1440, "end")]


def test_a_fault_during_the_restart_begins_it_anew(play):
    """Restarting from 103 to 113; the crash of 110 is noticed at once: restarting again from 110 to 120."""
    log = play(fault(100, BROKEN, slot=1), fault(110, CRASH), scenario=ALWAYS)
    assert timeline(log)[-2] == (120, "running")
    assert hours(log, "restart") == {"broken": round(7 / 60, 6), "crash": round(10 / 60, 6)}


def test_a_node_that_is_gone_cannot_break_again(play):
    log = play(
        fault(100, BROKEN, slot=1, repair=500), fault(150, BROKEN, slot=1), scenario=ALWAYS.but({"pool.spares": 0})
    )
    assert len(interruptions(log)) == 1


def test_the_node_that_joined_can_break_before_training_goes_on(play):
    """Spare 4 joins slot 1 at 103 and breaks at 105; spare 5 takes its place: of the job, node 1 left and 5 joined."""
    log = play(fault(100, BROKEN, slot=1, repair=500), fault(105, BROKEN, slot=1, repair=500), scenario=ALWAYS)
    ready = [row for row in timeline(log) if row[1] == "nodes_ready"]
    assert ready == [(103, "nodes_ready", "node0004", "node0001"), (108, "nodes_ready", "node0005", "node0004")]


def nodes_once(scenario, log) -> None:
    """Follow who is in the job, in the shop or a spare; no node is in two places, none is lost, the job is full."""
    for run in log["job"].cat.categories:
        mine = log[log["job"] == run]
        job = set(range(scenario.job.nodes))
        shop: set[int] = set()
        for row in mine.itertuples():
            if row.event == "node_down":
                assert int(row.node[4:]) not in shop
                shop.add(int(row.node[4:]))
            if row.event == "node_repaired":
                shop.remove(int(row.node[4:]))
            if row.event == "nodes_ready":
                came, went = numbers(row.joined), numbers(row.left)
                assert len(came) == len(went) and went <= job
                job = job - went | came
                assert len(job) == scenario.job.nodes
            if row.event in ("nodes_ready", "running"):
                assert not job & shop


def numbers(names) -> set[int]:
    """Return the numbers in folded names."""
    return set() if pd.isna(names) else {int(each) for each in names.removeprefix("node").strip("[]").split(",")}


@given(
    spares=st.integers(0, 3),
    crews=st.sampled_from([None, 1, 2]),
    mtbf=st.sampled_from([5.0, 20.0, 100.0]),
    repair=st.sampled_from([0.5, 10.0, 60.0]),
    failing=st.sampled_from([0.0, 0.4]),
    strike=st.sampled_from(["running", "always"]),
)
@settings(max_examples=60)
def test_no_node_is_in_two_places_and_none_is_owed_twice(spares, crews, mtbf, repair, failing, strike):
    scenario = PLANNED.but(
        {
            "days": 5,
            "failures.strike": strike,
            "pool.spares": spares,
            "repair.crews": crews,
            "repair.mean_hours": repair,
            "cohorts.default.mtbf_hours": mtbf,
            "restart.failure_share": failing,
            "causes.crash.share": 0.5,
            "causes.upgrade.share": 0.5,
            "job_failures.mtbi_hours": 6.0,
        }
    )
    log = simulate_many(scenario, [1, 2])
    nodes_once(scenario, log)
    held = per_job(spans(log), interruptions(log))["held_gpu_hours"]
    assert held.tolist() == [5 * 24 * 8] * 2


def test_when_failures_strike_always_they_come_as_often_as_their_rate_says_by_the_wall_clock():
    """Poisson with mean 672 h / 14.78 h = 45.5 in each of 200 runs, waiting aside; within 4 standard errors."""
    scenario = BASELINE.but({"failures.strike": "always", "pool.spares": 500})
    counts = wide_runs(experiment([scenario], 200, jobs=1))["interruptions"]
    expected = 672 / scenario.nominal_mtbi_hours
    # a broken node that is not noticed yet cannot break again: 1 in 128 for some minutes
    assert counts.mean() == pytest.approx(expected, abs=4 * np.sqrt(expected / 200) + 0.01)


@pytest.mark.parametrize(("mtbi", "overhead"), [(2.0, 30.0), (1.0, 60.0), (10.0, 20.0)])
def test_goodput_is_the_exact_expectation_when_an_outage_begins_anew_with_each_fault(mtbi, overhead):
    """Nothing to detect, so an outage is a restart of O that no fault strikes: M (e^(O/M) - 1) in the mean."""
    scenario = SMALL.but(
        {
            "days": 400,
            "failures.strike": "always",
            "job.restart_minutes": overhead,
            "cohorts.default.mtbf_hours": 1e9,
            "job_failures.mtbi_hours": mtbi,
            "checkpoint.interval_minutes": 20.0,
        }
    )
    goodput = wide_runs(experiment([scenario], 12, jobs=1))["goodput"]
    assert abs(goodput.mean() - scenario.expected_goodput()) < 4 * goodput.std(ddof=1) / np.sqrt(12)
    strikes_running = scenario.but({"failures.strike": "running"}).expected_goodput()
    assert strikes_running - scenario.expected_goodput() > 0.0003


def test_leaving_out_faults_while_down_never_looks_worse():
    runs = experiment([BASELINE, BASELINE.but({"failures.strike": "always"}, name="always")], 40, jobs=1)
    goodput = wide_runs(runs)["goodput"].unstack("scenario")
    assert goodput["baseline"].mean() > goodput["always"].mean()


# --- restarts that fail --------------------------------------------------------------------------------------------

FAILING = SMALL.but({"restart.failure_share": 0.5, "restart.failure_detection_minutes": 7.0})


def test_a_restart_that_fails_is_noticed_and_tried_again(play):
    """A crash at 100, noticed at once; restarts end and fail at 110 and 127, noticed after 7 min; the third runs."""
    log = play(fault(100, CRASH)._replace(failed_restarts=2), scenario=FAILING)
    assert timeline(log) == [
        (0, "start"),
        (100, "interrupt", "crash"),
        (100, "detected"),
        (100, "nodes_ready"),
        (110, "interrupt", "restart_failed"),
        (117, "detected"),
        (117, "nodes_ready"),
        (127, "interrupt", "restart_failed"),
        (134, "detected"),
        (134, "nodes_ready"),
        (144, "running"),
        (1440, "end"),
    ]
    assert hours(log, "restart") == {"crash": round(10 / 60, 6), "restart_failed": round(20 / 60, 6)}
    assert hours(log, "detection") == {"restart_failed": round(14 / 60, 6)}


def test_the_share_of_restarts_that_fail_is_the_one_asked_for():
    """Of some 2,900 restarts in 40 runs, within 4 standard errors; and time down is the overhead of the scenario."""
    scenario = BASELINE.but(
        {"restart.failure_share": 0.4, "restart.failure_detection_minutes": 15.0, "pool.spares": 500}
    )
    log = simulate_many(scenario, range(1, 41))
    ready = (log["event"] == "nodes_ready").sum()
    failed = (log["cause"] == "restart_failed").sum()
    assert failed / ready == pytest.approx(0.4, abs=4 * np.sqrt(0.24 / ready))
    jobs = per_job(spans(log), interruptions(log))
    down = (jobs["detection"] + jobs["restart"]).sum() / 1024 * 60
    outages = (log["event"] == "interrupt").sum() - failed
    assert down / outages == pytest.approx(scenario.overhead_minutes, rel=4 * 0.8 / np.sqrt(outages))


def test_more_restarts_fail_with_a_larger_share_and_no_other_luck_changes():
    few, many = (simulate(BASELINE.but({"restart.failure_share": share}), 3) for share in (0.1, 0.6))
    of_restarts = [(log["cause"] == "restart_failed").sum() for log in (few, many)]
    assert 0 < of_restarts[0] < of_restarts[1]
    plain, failing = (interruptions(log)["cause"].tolist() for log in (simulate(BASELINE, 3), many))
    others = [cause for cause in failing if cause != "restart_failed"]
    assert others == plain[: len(others)]


def test_no_cause_may_be_called_as_a_failed_restart_is():
    with pytest.raises(BadInput, match="restart_failed"):
        BASELINE.but({"causes.restart_failed": {"scope": "node", "share": 0.0, "detection_minutes": 1}})


# --- planned stops -------------------------------------------------------------------------------------------------


def test_a_planned_stop_saves_first_and_loses_nothing(play):
    """Ordered at 100, in mid-compute: a save until 105, restart until 115, and the next save an hour later."""
    log = play(upgrade(100), scenario=PLANNED)
    assert timeline(log, saves=True)[:9] == [
        (0, "start"),
        (60, "checkpoint_start"),
        (65, "checkpoint_end"),
        (100, "checkpoint_start"),
        (105, "checkpoint_end"),
        (105, "interrupt", "upgrade"),
        (105, "detected"),
        (105, "nodes_ready"),
        (115, "running"),
    ]
    assert timeline(log, saves=True)[9] == (175, "checkpoint_start")
    assert hours(log, "lost_work") == {} and interruptions(log)["planned"].tolist() == [True]
    table = per_job(spans(log), interruptions(log))
    assert table["interruptions"].item() == 1 and table["failures"].item() == 0


def test_a_planned_stop_during_a_save_waits_for_its_end(play):
    log = play(upgrade(62), scenario=PLANNED)
    assert timeline(log, saves=True)[1:4] == [
        (60, "checkpoint_start"),
        (65, "checkpoint_end"),
        (65, "interrupt", "upgrade"),
    ]


@pytest.mark.parametrize("strike", ["running", "always"])
def test_a_fault_during_the_last_save_takes_the_place_of_the_planned_stop(play, strike):
    """Ordered at 100; a crash at 102: the save is not done, and what was computed since 60 is lost."""
    log = play(upgrade(100), fault(102, CRASH), scenario=PLANNED.but({"failures.strike": strike}))
    assert timeline(log, saves=True)[3:8] == [
        (100, "checkpoint_start"),
        (102, "interrupt", "crash"),
        (102, "detected"),
        (102, "nodes_ready"),
        (112, "running"),
    ]
    assert hours(log, "lost_work") == {"crash": round(35 / 60, 6)}


def test_the_running_clock_stands_still_in_a_planned_stop(play):
    """Ordered at 100, stopped at 105, running at 115: the crash at 107 of the running clock is 2 min later."""
    log = play(upgrade(100), fault(107, CRASH), scenario=PLANNED)
    assert (117, "interrupt", "crash") in timeline(log)


def test_a_planned_stop_is_none_while_the_job_is_down(play):
    log = play(fault(100, HANG), upgrade(110), scenario=PLANNED.but({"failures.strike": "always"}))
    assert interruptions(log)["cause"].tolist() == ["hang"]


def test_planned_stops_and_a_node_of_another_cohort_go_together(play):
    """The candidate of 107 is drawn for cohort 1, and no such node sits there: the hang of 110 is no later for it."""
    two = PLANNED.but({"cohorts.late": {"mtbf_hours": 1000.0, "nodes": 2}, "cohorts.default.nodes": 3})
    log = play(upgrade(100), fault(107, HANG, cohort=1), fault(110, HANG, slot=2), scenario=two)
    assert [row for row in timeline(log) if row[1] == "interrupt"] == [
        (105, "interrupt", "upgrade"),
        (120, "interrupt", "hang", "node0002"),
    ]


def test_a_run_that_ends_in_the_last_save_has_no_planned_stop(play):
    log = play(upgrade(1438), scenario=PLANNED)
    assert timeline(log, saves=True)[-2:] == [(1438, "checkpoint_start"), (1440, "end")]


def test_a_planned_stop_has_nothing_to_detect():
    with pytest.raises(BadInput, match="detection_minutes must be 0 where planned is true"):
        BASELINE.but({"causes.host.planned": True})


# --- durations that vary -------------------------------------------------------------------------------------------


def lengths(log, first: str, last: str) -> np.ndarray:
    """Return the minutes from each event to the next, where these follow each other."""
    now, after = log["event"].to_numpy()[:-1], log["event"].to_numpy()[1:]
    minutes = np.diff(micros(log["time"])) / 6e7
    return minutes[(now == first) & (after == last)]


def test_restarts_take_what_their_distribution_says():
    """Lognormal, median 20 min, sigma 0.5, of some 4,300 restarts: mean and median within 4 standard errors."""
    varies = {"distribution": "lognormal", "median": 20.0, "sigma": 0.5}
    took = lengths(
        simulate_many(BASELINE.but({"job.restart_minutes": varies}), range(1, 101)), "nodes_ready", "running"
    )
    n = len(took)
    assert np.log(took).mean() == pytest.approx(np.log(20), abs=4 * 0.5 / np.sqrt(n))
    assert np.log(took).std() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(2 * n))


def test_a_duration_that_was_seen_is_drawn_as_often_as_it_was_seen():
    varies = {"distribution": "empirical", "values": [2.0, 2.0, 2.0, 9.0]}
    log = simulate_many(BASELINE.but({"causes.software_crash.detection_minutes": varies}), range(1, 101))
    told = log[log["event"].isin(["interrupt", "detected"])].reset_index(drop=True)
    crashed = np.flatnonzero((told["cause"] == "software_crash") & (told["event"].shift(-1) == "detected"))
    took = (micros(told["time"])[crashed + 1] - micros(told["time"])[crashed]) / 6e7
    assert set(took.round(6)) == {2.0, 9.0}
    assert (took > 5).mean() == pytest.approx(0.25, abs=4 * np.sqrt(0.1875 / len(took)))


def test_a_repair_of_that_mean_is_the_same_as_a_number_or_as_an_exponential():
    """Both draw from the same luck: the logs are the same."""
    varies = {"distribution": "exponential", "mean": 48.0}
    one, other = simulate(BASELINE, 1), simulate(BASELINE.but({"repair.mean_hours": varies}), 1)
    assert np.abs(micros(one["time"]) - micros(other["time"])).max() <= 1  # of microseconds, from rounding


def test_overhead_reckons_with_means():
    varies = {"distribution": "empirical", "values": [10.0, 30.0]}
    assert BASELINE.but({"job.restart_minutes": varies}).overhead_minutes == pytest.approx(BASELINE.overhead_minutes)


BAD = [
    (
        {"distribution": "weibull", "mean": 3.0},
        "distribution='weibull' must be 'exponential'",
    ),
    ({"distribution": "exponential"}, "distribution=exponential must have mean, and no more"),
    ({"distribution": "lognormal", "median": 3.0, "mean": 3.0}, "must have median and sigma, and no more"),
    ({"distribution": "empirical", "values": []}, "values"),
    ({"distribution": "exponential", "maen": 3.0}, "did you mean 'mean'"),
    ({"distribution": "exponential", "mean": -1.0}, "mean=-1.0 must be greater than 0"),
    ({}, "distribution must be given"),
]


@pytest.mark.parametrize(("value", "said"), BAD)
def test_a_distribution_that_is_none_is_refused_in_one_line(value, said):
    with pytest.raises(BadInput) as refused:
        BASELINE.but({"repair.mean_hours": value})
    assert "repair.mean_hours" in str(refused.value) and said in str(refused.value)
    assert "\n" not in str(refused.value)


# --- defaults and the log ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SEVEN)
def test_a_log_with_all_of_it_is_read_back_as_it_was_written(tmp_path, name):
    scenario = load_scenario(name).but({"failures.strike": "always", "restart.failure_share": 0.3, "pool.spares": 1})
    log = simulate(scenario, 1)
    write_log(log, tmp_path / "log.jsonl")
    back, findings = read_log(tmp_path / "log.jsonl")
    assert findings == []
    before, after = (spans(each).drop(columns=["job", "cause", "node"]) for each in (log, back))
    pd.testing.assert_frame_equal(before, after)


def test_with_its_defaults_a_scenario_strikes_only_while_running():
    said = BASELINE.but({"failures.strike": "running", "restart.failure_share": 0.0})
    pd.testing.assert_frame_equal(simulate(BASELINE, 4), simulate(said, 4))
