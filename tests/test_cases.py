"""Troubles that other tools had, one test a case: its number is that of the bank of cases they were collected in.

Cases that a module's own tests show are not repeated: C01 (test_checkpoint), C02 (test_sacct), C03 (test_metrics), C04
(test_lifetimes), C13 (test_reader), D01 (test_streams, test_simulate).
"""

import re

import numpy as np
import pytest
from naive import OUR_DAY, events_of, frame_of, log_of, raw_frame

from goodput.analysis import analyze, as_data, as_text, slo_data
from goodput.attribution import ledger, spans
from goodput.checkpoint import expected_goodput
from goodput.cluster import Fault
from goodput.events import micros
from goodput.experiment import compare, experiment, wide_runs
from goodput.headline import tiles
from goodput.mend import mend
from goodput.metrics import mean_interval
from goodput.scenario import load_scenario
from goodput.simulate import simulate, simulate_many
from goodput.text import comparison_text

BASELINE = load_scenario("baseline")
QUIET = BASELINE.but({"cohorts.default.mtbf_hours": 1e12, "job_failures.mtbi_hours": 1e12}, name="quiet")
HOUR = 3_600_000_000

# --- shares of a fleet ---------------------------------------------------------------------------------------------

# 8 GPUs for 150 min, of which 50 are kept; 1 GPU for 240 min, all of them kept.
FLEET = [
    *events_of(
        """
          0 start nodes=2 gpus_per_node=4
         50 checkpoint_start
         60 checkpoint_end
         60 interrupt cause=host
         70 running
        130 interrupt cause=host
        150 end""",
        job="large",
    ),
    *events_of("0 start nodes=1 gpus_per_node=1\n240 end", job="small"),
]


def test_a_fleets_goodput_is_hours_over_hours_wherever_it_is_said():
    """(50 x 8 + 240) / (150 x 8 + 240) = 640 / 1440 = 44.44 %; the mean of 33 % and 100 % would be 66.67 %."""
    found = analyze(frame_of(FLEET))
    data = as_data(found)
    right = pytest.approx(640 / 1440)
    assert data["goodput"] == right
    (window,) = slo_data(found, 0.4, 24)["by_window"]
    assert window["goodput"] == right
    assert "goodput 44.44 % (" in as_text(found, data)
    assert tiles(found, data, None)[0].value == "44.44"


def test_the_mean_over_replications_is_hours_over_hours_too_as_all_hold_the_same():
    runs = experiment([BASELINE], 5, jobs=1)
    (row,) = compare(runs).to_dict("records")
    assert wide_runs(runs)["held_gpu_hours"].nunique() == 1
    assert row["goodput"] == pytest.approx(row["share_productive"], rel=1e-12)


# --- C: intervals, saves -------------------------------------------------------------------------------------------


def test_c07_a_timer_armed_at_the_end_of_a_save_leaves_ten_of_every_twenty_two_minutes():
    """Interval 10 min, save 12 min; from the log, not from the setting: 10 / 22 = 45.5 %, in periods of 1,320 s."""
    log = simulate(QUIET.but({"checkpoint": {"interval_minutes": 10.0, "blocking_minutes": 12.0}, "days": 22 / 24}), 1)
    data = as_data(analyze(log))
    assert data["goodput"] == pytest.approx(10 / 22)
    assert set(np.diff(micros(log["time"][log["event"] == "checkpoint_start"]))) == {1_320_000_000}
    assert "saves took 54.5 % of the time it ran" in data["findings"][-1]["message"]


def test_c07_a_timer_armed_at_the_start_of_a_save_never_lets_the_job_train_again():
    """Saves of 12 min from each tenth minute on: after the first ten minutes, in which there was none yet, 0 %."""
    starts = [f"{10 * k} checkpoint_start\n{10 * k + 12} checkpoint_end" for k in range(1, 30)]
    log, findings = mend(raw_frame(events_of("\n".join(["0 start nodes=1 gpus_per_node=1", *starts, "302 end"]))))
    found = analyze(log, findings)
    assert as_data(found)["gpu_hours"]["productive"] == pytest.approx(10 / 60)
    assert {"overlapping-saves", "mostly-saving"} <= {finding.code for finding in found.findings}


@pytest.mark.parametrize("interval", [12, 10, 1e-3])
def test_c07_a_what_if_with_an_interval_no_longer_than_the_save_says_so_and_is_still_a_share(interval):
    """For a save of 12 min, an MTBI of 14.8 h and no overhead: above 0, and below interval / (interval + save)."""
    assert 0 < expected_goodput(interval, 14.8 * 60, 12, 0) < interval / (interval + 12)
    changes = {"checkpoint": {"interval_minutes": interval, "blocking_minutes": 12.0}, "days": 3}
    scenario = BASELINE.but(changes, name="eager")
    table = compare(experiment([scenario, BASELINE], 2, jobs=1))
    assert re.findall(r"^(.*): saves took \d+\.\d % of the time", comparison_text(table), re.M) == ["eager"]


# --- D: a simulator ------------------------------------------------------------------------------------------------


@pytest.fixture
def play(monkeypatch):
    """Return a function that simulates four nodes without failures but those given."""

    def simulated(*tape: Fault, **changes):
        monkeypatch.setattr("goodput.simulate.failure_tape", lambda scenario, seed: sorted(tape))
        return simulate(QUIET.but({"job.nodes": 4, **{key.replace("__", "."): v for key, v in changes.items()}}), 1)

    return simulated


def test_d08_a_save_that_ends_as_a_fault_strikes_counts_in_the_simulator_and_in_any_log(play):
    """Saved from 3,600 s to 3,660 s, struck at 3,660 s: nothing is lost, by rule 7, whichever line comes first."""
    played = play(
        Fault(3_660_000_000, 0, 0, 0, HOUR, HOUR, HOUR),
        checkpoint__interval_minutes=60.0,
        checkpoint__blocking_minutes=1.0,
        days=10_000 / 86_400,
    )
    tie = ["61 checkpoint_end", "61 interrupt cause=xid79"]
    logs = [
        "\n".join(["0 start nodes=4 gpus_per_node=8", "60 checkpoint_start", *lines, "62 detected", "132 end"])
        for lines in (tie, tie[::-1])
    ]
    for log in (played, *map(log_of, logs)):
        hours = ledger(spans(log))
        assert (log["event"] == "interrupt").sum() == 1
        assert hours["lost_work"] == 0 and hours["productive"] >= 4 * 8


def test_d09_two_failures_at_once_are_one_restart_of_two_causes_that_loses_work_once():
    """n0 and n1 fail at 3 h; saved at 2 h, on 4 nodes of 1 GPU: 1 h x 4 is lost, once; two nodes go to repair."""
    job = events_of("""
      0 start nodes=4 gpus_per_node=1 node_names=n[0-3]
    120 checkpoint_start
    120 checkpoint_end
    180 interrupt cause=xid79 node=n0
    180 interrupt cause=host node=n1
    190 detected
    200 nodes_ready joined=n[4-5] left=n[0-1]
    210 running
    600 end""")
    shop = [{"time": OUR_DAY + 190 * 60_000_000, "event": "node_down", "node": node} for node in ("n0", "n1")]
    log = frame_of([*job, *shop])
    found = analyze(log)
    assert as_data(found)["gpu_hours"]["lost_work"] == pytest.approx(4 * 1.0)
    assert (found.spans["category"] == "restart").sum() == 1
    assert (log["event"] == "node_down").sum() == 2
    assert set(zip(found.interruptions["cause"], found.interruptions["node"])) == {("xid79", "n0"), ("host", "n1")}
    assert found.jobs[["interruptions", "failures", "node_failures"]].to_numpy().tolist() == [[2, 2, 2]]


def test_d11_four_spares_never_do_worse_than_two_with_the_same_luck():
    """32 nodes, node MTBF 300 h, repair 24 h, 2,000 h, 20 replications; the difference has an interval of its own."""
    two = BASELINE.but(
        {
            "job.nodes": 32,
            "pool.spares": 2,
            "cohorts.default.mtbf_hours": 300.0,
            "repair.mean_hours": 24.0,
            "days": 2000 / 24,
        },
        name="two",
    )
    runs = wide_runs(experiment([two, two.but({"pool.spares": 4}, name="four")], 20, jobs=1))["goodput"]
    gain = runs["four"] - runs["two"]
    assert gain.min() >= 0
    paired, apart = mean_interval(gain), mean_interval(runs["four"])
    assert paired.low > 0
    assert paired.high - paired.low != pytest.approx(apart.high - apart.low)


def test_d12_twenty_one_thousand_saves_of_a_tenth_of_an_hour_end_exactly_at_the_horizon():
    """0.1 h added up 21,600 times is 2,159.999999999131 h as a float; here it is 2,160 h, to the microsecond.

    A save of this model takes 1 us at least, and is the next second's work: 21,599 of them fit."""
    assert np.cumsum([0.1] * 21_600)[-1] != 2160  # `sum` mends it from Python 3.12 on
    scenario = QUIET.but({"days": 90, "checkpoint": {"interval_minutes": 6.0, "blocking_minutes": 1e-9}})
    log = simulate_many(scenario, [1])
    time = micros(log["time"])
    assert time[-1] - time[0] == 2160 * HOUR
    assert (log["event"] == "checkpoint_end").sum() == 21_599
    table = spans(log)
    assert (micros(table["end"]) - micros(table["start"])).sum() == 2160 * HOUR
    gpus = scenario.job.nodes * scenario.job.gpus_per_node
    assert abs(ledger(table).sum() / gpus - 2160) < 1e-6
