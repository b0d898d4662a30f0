"""How good, how sure: intervals against their definition and their promise, rates pooled, counts worked out by hand."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import events_of, frame_of, log_of
from scipy import stats

from goodput.attribution import CATEGORIES, interruptions, spans
from goodput.errors import BadInput
from goodput.logfile import read_log
from goodput.metrics import (
    by_cause,
    by_node,
    cause_times,
    failures_in_jobs,
    is_failure,
    mean_interval,
    mean_time,
    per_job,
    rates,
    reference_steps,
)
from goodput.scenario import load_scenario
from goodput.simulate import simulate, simulate_many

# --- the exact interval of a mean time -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "point", "low", "high"),
    [(0, math.inf, 166.9, math.inf), (1, 500, 105.4, 9747.86), (3, 166.667, 64.49, 611.48)],
)
def test_five_hundred_hours_with_few_failures_give_the_tabulated_bounds(count, point, low, high):
    """Time-truncated, 90 % two-sided: 2T / chi2(0.95; 2r + 2) and 2T / chi2(0.05; 2r); no upper bound without one."""
    rate = mean_time(500, count, confidence=0.90)
    assert rate.hours == pytest.approx(point, abs=0.001)
    assert rate.low == pytest.approx(low, abs=0.01)
    assert rate.high == pytest.approx(high, abs=0.01)
    assert (rate.count, rate.exposure_hours) == (count, 500)


def test_the_one_sided_bound_of_ninety_per_cent_is_the_lower_end_of_the_eighty_per_cent_interval():
    assert mean_time(500, 0, confidence=0.80).low == pytest.approx(217.15, abs=0.005)


@given(st.floats(1e-3, 1e9), st.integers(0, 10_000), st.floats(0.5, 0.999))
def test_bounds_are_those_of_the_chi_square_distribution(hours, count, confidence):
    tail = (1 - confidence) / 2
    rate = mean_time(hours, count, confidence)
    assert rate.low == pytest.approx(2 * hours / stats.chi2.ppf(1 - tail, 2 * count + 2), rel=1e-9)
    if count:
        assert rate.high == pytest.approx(2 * hours / stats.chi2.ppf(tail, 2 * count), rel=1e-9)
        assert rate.low < rate.hours < rate.high


@pytest.mark.parametrize("true_mean", [1, 2, 5, 20, 100])
def test_the_interval_covers_the_truth_at_least_as_often_as_it_says(true_mean):
    """Exactly, summed over the Poisson chance of each count in 100 h: never under 95 %, and not needlessly over."""
    counts = np.arange(0, 1000)
    covered = [mean_time(100, int(r)).low <= true_mean <= mean_time(100, int(r)).high for r in counts]
    coverage = stats.poisson.pmf(counts, 100 / true_mean)[covered].sum()
    assert 0.95 <= coverage < 0.995


def test_more_failures_in_the_same_time_move_every_bound_down():
    rows = [mean_time(100, count) for count in range(6)]
    for name in ("hours", "low", "high"):
        values = [getattr(row, name) for row in rows[1:]]
        assert values == sorted(values, reverse=True) and len(set(values)) == 5


def test_without_exposure_nothing_is_known():
    rate = mean_time(0, 0)
    assert (rate.low, rate.high) == (0, math.inf)


# --- means over replications ---------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=40))
def test_the_interval_of_a_mean_is_students(values):
    mean = mean_interval(values)
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    assert mean.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert mean.high - mean.mean == pytest.approx(half, rel=1e-6, abs=1e-9)
    assert (mean.p10, mean.p90) == pytest.approx(np.quantile(values, [0.1, 0.9]), abs=1e-9)


def test_a_single_replication_has_a_mean_and_no_interval():
    mean = mean_interval([0.8])
    assert mean.mean == mean.p10 == mean.p90 == 0.8 and mean.count == 1
    assert math.isnan(mean.low) and math.isnan(mean.high)


# --- a log worked out by hand --------------------------------------------------------------------------------------

# Two jobs. `a` runs 60 + 60 min on 2 x 4 GPUs with two stops, one planned; `b` 240 min on 1 x 1, and never stops.
TWO_JOBS = [
    *events_of(
        """
          0 start nodes=2 gpus_per_node=4
         50 checkpoint_start
         60 checkpoint_end
         60 interrupt cause=host node=n1
         70 running
        130 interrupt cause=planned planned
        150 end""",
        job="a",
    ),
    *events_of("0 start nodes=1 gpus_per_node=1\n240 end", job="b"),
]


@pytest.fixture
def two_jobs():
    log = frame_of(TWO_JOBS)
    return spans(log), interruptions(log)


def test_each_jobs_row_is_worked_out_by_hand(two_jobs):
    """`a` holds 8 GPUs for 150 min = 20 GPU-hours: 50 min kept, 10 saved, 60 lost, 10 unattributed, 20 in detection."""
    row = per_job(*two_jobs).loc["a"]
    minutes = {"productive": 50, "checkpoint": 10, "lost_work": 60, "detection": 20, "unattributed": 10}
    for category in CATEGORIES:
        assert row[category] == pytest.approx(minutes.get(category, 0) * 8 / 60)
    assert row["held_gpu_hours"] == pytest.approx(20)
    assert row["goodput"] == pytest.approx(50 / 150)
    assert (row["running_hours"], row["node_hours"]) == pytest.approx((2, 4))
    assert row[["interruptions", "failures", "node_failures"]].tolist() == [2, 1, 1]


def test_a_job_that_never_stopped_has_a_row_of_zeros(two_jobs):
    row = per_job(*two_jobs).loc["b"]
    assert (row["goodput"], row["running_hours"]) == (1, 4)
    assert row[["interruptions", "failures", "node_failures"]].tolist() == [0, 0, 0]


def test_rates_are_the_sum_over_the_sum_and_not_the_mean_of_jobs(two_jobs):
    """MTBI (2 + 4) / 2 = 3 h: the mean over jobs would be infinite. Node MTBF (4 + 4) / 1 = 8 node-hours."""
    pooled = rates(per_job(*two_jobs))
    assert (pooled.mtbi.hours, pooled.mtbi.count) == (3, 2)
    assert (pooled.job_mtbf.hours, pooled.job_mtbf.count) == (6, 1)
    assert (pooled.node_mtbf.hours, pooled.node_mtbf.exposure_hours) == (8, 8)


def test_pooled_rates_of_unequal_runs_differ_from_the_mean_of_their_rates():
    """10 h with one stop and 90 h with three: 100 / 4 = 25 h, where the mean of 10 and 30 would be 20."""
    jobs = pd.DataFrame(
        {"running_hours": [10, 90], "node_hours": [10, 90], "interruptions": [1, 3], "failures": [1, 3]}
    ).assign(node_failures=[1, 3])
    assert [rate.hours for rate in rates(jobs)] == [25, 25, 25]
    assert rates(jobs).mtbi.low == mean_time(100, 4).low


def test_goodput_of_a_fleet_is_hours_over_hours(two_jobs):
    """(50 x 8 + 240) / (150 x 8 + 240) = 640 / 1440; the mean of 1/3 and 1 would be 2/3."""
    jobs = per_job(*two_jobs)
    assert jobs["productive"].sum() / jobs["held_gpu_hours"].sum() == pytest.approx(640 / 1440)


@pytest.mark.parametrize(
    ("fault", "failed"),
    [
        ("cause=host", True),
        ("cause=host planned", False),
        ("cause=planned", False),
        ("cause=time_limit", False),
        ("cause=user_cancel", False),
        ("cause=preemption", False),
        ("cause=planned_outage_that_was_not", True),
    ],
)
def test_a_failure_is_what_nobody_chose(fault, failed):
    found = interruptions(log_of(f"0 start nodes=1 gpus_per_node=1\n60 interrupt {fault}\n90 end"))
    assert is_failure(found).tolist() == [failed]


def test_time_in_saves_and_time_that_was_lost_count_as_running():
    """MTBI is by the job's running clock: compute, kept or lost, and saves."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 checkpoint_start
     90 checkpoint_end
    120 interrupt cause=x
    180 running
    240 end""")
    assert per_job(spans(log), interruptions(log))["running_hours"].iloc[0] == 3


def test_categories_add_up_to_what_was_held_to_the_last_bit_of_a_simulated_run():
    log = simulate_many(load_scenario("firmware-regression"), range(1, 6))
    jobs = per_job(spans(log), interruptions(log))
    assert jobs["held_gpu_hours"].tolist() == [688_128.0] * 5
    assert jobs[list(CATEGORIES)].sum(axis=1).to_numpy() == pytest.approx(688_128, rel=1e-14)


# --- by cause, by node ---------------------------------------------------------------------------------------------

CAUSES = """
  0 launch nodes=1 gpus_per_node=1
 30 start
 60 interrupt cause=host node=n1
 90 running
150 interrupt cause=link node=n2
160 running
220 interrupt cause=link node=n1
230 running
260 end"""


def test_by_cause_counts_stops_and_what_they_cost_dearest_first():
    """link: 60 + 10 + 60 + 10 min lost and down; host: 30 + 30; the first start: 30 and no stop."""
    log = log_of(CAUSES)
    table = by_cause(spans(log), interruptions(log))
    assert table["cause"].tolist() == ["link", "host", "first_start"]
    assert table["count"].tolist() == [2, 1, 0]
    assert (table["gpu_hours"] * 60).tolist() == pytest.approx([140, 60, 30])


def test_by_cause_adds_up_to_all_that_was_charged():
    log = simulate_many(load_scenario("baseline"), [1, 2, 3])
    table, struck = spans(log), interruptions(log)
    found = by_cause(table, struck)
    charged = table["gpu_hours"][~table["category"].isin(["productive", "checkpoint"])].sum()
    assert found["gpu_hours"].sum() == pytest.approx(charged, rel=1e-12)
    assert found["count"].sum() == len(struck)


def test_by_node_counts_failures_and_what_they_cost_dearest_first():
    """n1: 60 + 70 min in two failures; n2: 70 in one."""
    log = log_of(CAUSES)
    table = by_node(spans(log), interruptions(log))
    assert table["node"].tolist() == ["n1", "n2"]
    assert table["failures"].tolist() == [2, 1]
    assert (table["gpu_hours"] * 60).tolist() == pytest.approx([130, 70])


def test_a_planned_stop_of_a_node_is_no_failure_of_it():
    log = log_of("0 start nodes=1 gpus_per_node=1\n60 interrupt cause=planned node=n1\n90 end")
    table = by_node(spans(log), interruptions(log))
    assert table[["node", "failures"]].to_numpy().tolist() == [["n1", 0]]


def test_equal_costs_are_in_the_order_of_names_whatever_the_order_of_the_log(tmp_path):
    """Two stops of 10 + 10 min each: `alpha` and `n1` come first, though the file tells of `zeta` and `n2` first."""
    text = """
     0 start nodes=1 gpus_per_node=1
    10 interrupt cause=zeta node=n2
    20 running
    30 interrupt cause=alpha node=n1
    40 running
    40 end"""
    path = tmp_path / "log.jsonl"
    lines = (
        {**event, "time": pd.Timestamp(event["time"], unit="us", tz="UTC").isoformat()} for event in events_of(text)
    )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for log in (log_of(text), read_log(path)[0]):
        assert by_cause(spans(log), interruptions(log))["cause"].tolist() == ["alpha", "zeta"]
        assert by_node(spans(log), interruptions(log))["node"].tolist() == ["n1", "n2"]


def test_each_job_has_its_nodes_those_that_never_failed_too():
    """`a` has 2 nodes, n1 of them failed once (the planned stop names none); `b`, which never failed, tells nothing."""
    log = frame_of(TWO_JOBS)
    table = failures_in_jobs(spans(log), interruptions(log))
    assert table.to_numpy().tolist() == [["a", 1.0, 1], ["a", 1.0, 0]]


def test_where_nothing_failed_or_nodes_are_too_many_to_list_there_are_none(monkeypatch):
    log = log_of("0 start nodes=9 gpus_per_node=1\n60 interrupt cause=host node=n1\n90 end")
    quiet = log_of("0 start nodes=9 gpus_per_node=1\n60 interrupt cause=planned node=n1 planned\n90 end")
    assert len(failures_in_jobs(spans(log), interruptions(log))) == 9
    assert failures_in_jobs(spans(quiet), interruptions(quiet)).empty
    monkeypatch.setattr("goodput.metrics.MOST_NODES", 5)
    assert failures_in_jobs(spans(log), interruptions(log)).empty


# --- reference steps -----------------------------------------------------------------------------------------------


def with_steps(text: str, steps: dict[int, int], job: str = "a") -> pd.DataFrame:
    """Return a log written by hand in which the events at some places carry a step."""
    events = events_of(text, job)
    for place, step in steps.items():
        events[place]["step"] = step
    return frame_of(events)


STEPS = """
  0 start nodes=1 gpus_per_node=1
 60 checkpoint_start
 60 checkpoint_end
 80 interrupt cause=x
100 running
160 checkpoint_start
160 checkpoint_end
170 end"""


def test_kept_steps_are_the_newest_saved_less_the_first_loaded():
    """Loaded 100, saved 400, loaded 400 again, saved 700: 600 steps of 12 s in 170 min."""
    log = with_steps(STEPS, {0: 100, 1: 400, 2: 400, 4: 400, 5: 700, 6: 700})
    kept, share = reference_steps(log, spans(log), 12)
    assert kept == 600
    assert share == pytest.approx(600 * 12 / (170 * 60))


def test_a_job_that_loaded_nothing_has_kept_all_of_its_steps():
    """Its start has no step, its first save is of step 300: 600 are kept, not the 300 since that save."""
    log = with_steps(STEPS, {1: 300, 2: 300, 4: 300, 5: 600, 6: 600})
    assert reference_steps(log, spans(log), 12)[0] == 600


def test_steps_that_were_rolled_back_are_not_kept():
    """Saved 400, but gone back to 200 after the fault, and ended at 300: 300 are kept."""
    log = with_steps(STEPS, {0: 0, 1: 400, 2: 400, 4: 200, 5: 300, 6: 300})
    assert reference_steps(log, spans(log), 12)[0] == 300


def test_steps_of_jobs_are_added_up_and_so_is_their_time():
    first, second = events_of(STEPS, "a"), events_of("0 start nodes=1 gpus_per_node=1\n30 end", "b")
    first[0]["step"], first[1]["step"], second[0]["step"] = 0, 500, 0
    log = frame_of([*first, *second])
    kept, share = reference_steps(log, spans(log), 12)
    assert (kept, share) == (500, pytest.approx(500 * 12 / (200 * 60)))


@pytest.mark.parametrize("seconds", [0, -8, math.nan, math.inf])
def test_a_step_takes_time(seconds):
    log = with_steps(STEPS, {0: 0, 1: 400})
    with pytest.raises(BadInput, match="must be above 0 and finite"):
        reference_steps(log, spans(log), seconds)


def test_a_log_without_steps_cannot_be_measured_by_them():
    log = log_of(STEPS)
    with pytest.raises(BadInput, match="events must carry a step"):
        reference_steps(log, spans(log), 8)


def test_causes_are_counted_on_the_same_clock_and_their_rates_add_up_to_that_of_the_job():
    """Rates of independent Poisson processes add up: 1 / MTBI is the sum of 1 / hours over the causes."""
    log = simulate(load_scenario("baseline"), seed=7)
    stretches, struck = spans(log), interruptions(log)
    jobs = per_job(stretches, struck)
    times = cause_times(by_cause(stretches, struck), jobs["running_hours"].sum())
    assert times["count"].sum() == jobs["interruptions"].sum()
    assert (1 / times["hours"]).sum() == pytest.approx(1 / rates(jobs).mtbi.hours)
    assert (times["low"] < times["hours"]).all() and (times["hours"] < times["high"]).all()
    assert times["cause"].tolist() == by_cause(stretches, struck)["cause"].tolist()


def test_no_causes_have_no_times():
    assert cause_times(pd.DataFrame({"cause": [], "count": [], "gpu_hours": []}), 100.0).empty
