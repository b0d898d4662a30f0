"""Which kind of node fails: exposure counted from who was in the job, and the bad batch found again."""

import numpy as np
import pandas as pd
import pytest
from naive import events_of, frame_of, log_of

from goodput.attribution import interruptions, spans
from goodput.cohorts import by_cohort
from goodput.errors import BadInput
from goodput.metrics import mean_time, per_job
from goodput.scenario import load_scenario
from goodput.simulate import cohort_names, simulate, simulate_many

# Four nodes; n1 breaks after 10 h of running (9 of compute, 1 of a save) and n5 takes its place for 20 h more.
SWAP = """
   0 start nodes=4 gpus_per_node=1 node_names=n[1-4]
 540 checkpoint_start
 600 checkpoint_end
 600 interrupt cause=host node=n1
 660 detected
 720 nodes_ready joined=n5 left=n1
 780 running
1980 end"""


def cohorts_of(log: pd.DataFrame, cohorts: dict[str, str]) -> pd.DataFrame:
    return by_cohort(log, spans(log), interruptions(log), cohorts).set_index("cohort")


def test_exposure_is_the_time_each_node_was_in_the_running_job():
    """n[1-2]: 2 x 10 h and then 1 x 20 h; n[3-5]: 2 x 10 h and then 3 x 20 h. The 3 h of the outage are no exposure."""
    table = cohorts_of(log_of(SWAP), {"old": "n[1-2]", "new": "n[3-5]"})
    assert table["node_hours"].to_dict() == {"old": 40, "new": 80}
    assert table["failures"].to_dict() == {"old": 1, "new": 0}


def test_a_cohort_has_the_rate_and_the_interval_of_its_own_failures():
    table = cohorts_of(log_of(SWAP), {"old": "n[1-2]", "new": "n[3-5]"})
    for name, count, hours in (("old", 1, 40), ("new", 0, 80)):
        rate = mean_time(hours, count)
        assert table.loc[name, ["mtbf_hours", "low", "high"]].tolist() == [rate.hours, rate.low, rate.high]


def test_a_cohort_is_charged_with_what_its_failures_cost():
    """Nothing was lost (the save ended with the fault): 3 h of outage on 4 GPUs."""
    table = cohorts_of(log_of(SWAP), {"old": "n[1-2]", "new": "n[3-5]"})
    assert table["gpu_hours"].to_dict() == pytest.approx({"old": 12, "new": 0})


def test_nodes_under_no_label_are_other():
    table = cohorts_of(log_of(SWAP), {"old": "n[1-2]"})
    assert table["node_hours"].to_dict() == {"old": 40, "other": 80}


def test_labels_that_share_nodes_leave_the_others_right():
    """`batch` has n1 and n2, `rack` n2 and n3: n4 (10 + 20 h) and n5 (20 h) are still `other`. Or it is refused."""
    try:
        table = cohorts_of(log_of(SWAP), {"batch": "n[1-2]", "rack": "n[2-3]"})
    except BadInput:
        return
    assert table["node_hours"].to_dict() == {"batch": 40, "rack": 60, "other": 50}


def test_a_label_named_other_does_not_make_two_rows_of_one_name():
    try:
        table = cohorts_of(log_of(SWAP), {"other": "n[1-2]"})
    except BadInput:
        return
    assert table.index.is_unique


def test_a_cohort_that_was_never_in_the_job_has_no_row():
    assert list(cohorts_of(log_of(SWAP), {"old": "n[1-5]", "shelf": "n[6-9]"}).index) == ["old"]


def test_a_node_that_comes_back_is_exposed_again():
    """n1 is out for the second of three runs of 60 min."""
    log = log_of("""
      0 start nodes=2 gpus_per_node=1 node_names=n[1-2]
     60 interrupt cause=host node=n1
     60 detected
     60 nodes_ready joined=n3 left=n1
     60 running
    120 interrupt cause=host node=n3
    120 detected
    120 nodes_ready joined=n1 left=n3
    120 running
    180 end""")
    table = cohorts_of(log, {"one": "n1", "two": "n2", "three": "n3"})
    assert table["node_hours"].to_dict() == {"one": 2, "two": 3, "three": 1}
    assert table["failures"].to_dict() == {"one": 1, "two": 0, "three": 1}


def test_a_node_that_waits_for_itself_stays_exposed():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1 node_names=n1
     60 interrupt cause=host node=n1
     90 detected
    120 nodes_ready joined=n1 left=n1
    120 running
    180 end""")
    assert cohorts_of(log, {"one": "n1"})["node_hours"].to_dict() == {"one": 2}


def test_a_failure_that_blames_nodes_of_two_cohorts_counts_in_both():
    log = log_of("0 start nodes=4 gpus_per_node=1 node_names=n[1-4]\n60 interrupt cause=x node=n[2-3]\n60 end")
    assert cohorts_of(log, {"a": "n[1-2]", "b": "n[3-4]"})["failures"].to_dict() == {"a": 1, "b": 1}


def test_a_planned_stop_is_no_failure_of_a_cohort():
    log = log_of("0 start nodes=1 gpus_per_node=1 node_names=n1\n60 interrupt cause=planned node=n1\n90 end")
    assert cohorts_of(log, {"one": "n1"})["failures"].to_dict() == {"one": 0}


def test_jobs_do_not_mix_their_nodes():
    """Job b begins while a runs; both hold nodes of `old`, for 1 and 2 h."""
    one = events_of("0 start nodes=1 gpus_per_node=1 node_names=n1\n60 end", "a")
    two = events_of("30 start nodes=2 gpus_per_node=1 node_names=n[2-3]\n150 end", "b")
    table = cohorts_of(frame_of([*one, *two]), {"old": "n[1-2]"})
    assert table["node_hours"].to_dict() == {"old": 3, "other": 2}


def test_a_job_that_names_no_nodes_is_refused():
    one = events_of("0 start nodes=1 gpus_per_node=1 node_names=n1\n60 end", "a")
    two = events_of("0 start nodes=1 gpus_per_node=1\n60 end", "b")
    with pytest.raises(BadInput, match="start of job b must give node_names"):
        cohorts_of(frame_of([*one, *two]), {"old": "n1"})


def test_a_label_whose_names_cannot_be_unfolded_is_refused():
    with pytest.raises(BadInput):
        cohorts_of(log_of(SWAP), {"old": "n[1-"})


@pytest.mark.parametrize("name", ["baseline", "firmware-regression", "no-spares"])
def test_cohorts_share_the_node_hours_of_the_job_and_all_of_its_node_failures(name):
    scenario = load_scenario(name)
    log = simulate_many(scenario, range(1, 11))
    table, jobs = cohorts_of(log, cohort_names(scenario)), per_job(spans(log), interruptions(log))
    assert table["node_hours"].sum() == pytest.approx(jobs["node_hours"].sum(), rel=1e-12)
    assert table["failures"].sum() == jobs["node_failures"].sum()


def test_exposure_agrees_with_a_walk_through_the_log():
    """The slow twin: one run, one event at a time, the set of nodes in the job kept as a set."""
    scenario = load_scenario("firmware-regression")
    log = simulate(scenario, 3)
    bad = {f"node{number:04}" for number in range(100, 132)}
    here, hours, running, since = {f"node{number:04}" for number in range(128)}, 0.0, True, log["time"].iloc[0]
    for row in log.itertuples():
        if row.event in ("interrupt", "running", "end"):
            hours += len(here & bad) * (row.time - since).total_seconds() / 3600 if running else 0
            running, since = row.event == "running", row.time
        if row.event == "nodes_ready" and not pd.isna(row.joined):
            here = (here - {row.left}) | {row.joined}
    assert cohorts_of(log, cohort_names(scenario)).loc["batch_b", "node_hours"] == pytest.approx(hours, rel=1e-12)


def test_the_bad_batch_is_found_with_its_rate():
    """Exact membership: 600 h was put in. A reference of 2,000 seeds found 598.9 (SE 2.5) and 3,008.0 (SE 15.4);
    150 seeds must be within 4 joint standard errors, SE x sqrt(1 + 2000 / n).
    """
    scenario, seeds = load_scenario("firmware-regression"), 150
    table = cohorts_of(simulate_many(scenario, range(1, seeds + 1)), cohort_names(scenario))
    for name, reference, error in (("batch_b", 598.9, 2.5), ("default", 3008.0, 15.4)):
        assert table.loc[name, "mtbf_hours"] == pytest.approx(reference, abs=4 * error * np.sqrt(1 + 2000 / seeds))
    assert table.loc["batch_b", "high"] < table.loc["default", "low"]
