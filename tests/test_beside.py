"""The expected ETTR, the exact form and the played job: where they agree, and which of two the third is with."""

import pandas as pd
import pytest

from goodput.beside import (
    against,
    as_systems,
    assumed_minutes,
    at_sizes,
    cases,
    one_cause,
    played,
    prices,
    silent_share,
)
from goodput.experiment import compare, experiment
from goodput.published import clusters, counted_jobs, in_minutes, published
from goodput.scenario import load_scenario

WORKED = cases([1500] * 3, [6.5, 1, 6.5], [1 / 6, 5, 5], 5)


def test_the_worked_points_of_the_paper_and_what_is_exact_there():
    assert WORKED["first_order"].round(3).tolist() == [0.921, 0.898, 0.740]
    assert WORKED["exact"].round(3).tolist() == [0.922, 0.897, 0.736]


def test_a_first_order_is_one_where_little_is_lost_and_off_where_much_is():
    table = cases([16, 128, 1024, 16_384], 6.5, 5, 5)
    off = (table["first_order"] - table["exact"]).abs()
    assert table["lost_share"].is_monotonic_increasing and off.is_monotonic_increasing
    assert off.iloc[0] < 0.001 and off.iloc[-1] > 0.1


@pytest.mark.parametrize("row", range(3))
def test_the_scenario_of_a_case_has_its_mtbi_its_interval_and_its_exact_goodput(row):
    case = WORKED.iloc[row]
    scenario = one_cause(case, days=1)
    assert 60 * scenario.nominal_mtbi_hours == pytest.approx(case["mtbi_minutes"])
    assert scenario.but({"checkpoint.interval_minutes": "young"}).interval_minutes == case["interval_minutes"]
    assert scenario.expected_goodput() == pytest.approx(case["exact"])


def test_where_the_two_forms_differ_the_played_job_is_with_the_exact_one():
    """131,072 GPUs: an MTBI of 13.5 minutes, of which a restart and half an interval take 80 %. 20 runs of 10 days."""
    table = played(cases([16_384], 6.5, 5, 5), seeds=20, days=10).iloc[0]
    half = (table["simulated_high"] - table["simulated_low"]) / 2
    assert abs(table["simulated"] - table["exact"]) < 3 * half
    assert table["simulated"] - table["first_order"] > 10 * half


def test_a_played_case_keeps_its_row():
    table = played(WORKED.iloc[[2, 0]], seeds=2, days=2)
    assert table.index.tolist() == [2, 0] and table["simulated"].is_monotonic_increasing
    assert list(table.columns[: len(WORKED.columns)]) == list(WORKED.columns)


def test_at_its_own_size_a_scenario_is_itself_and_elapsed_time_is_more_than_running_time():
    """28 days over the interruptions of the same runs; the MTBI counts the running hours alone."""
    base = load_scenario("baseline")
    ours, plain = at_sizes(base, [128], seeds=5).iloc[0], compare(experiment([base], 5)).iloc[0]
    assert ours["goodput"] == plain["goodput"]
    assert ours["elapsed_hours"] == pytest.approx(28 * 24 / plain["interruptions_per_run"])
    assert ours["elapsed_hours"] > plain["mtbi_hours"]


def test_a_job_of_nodes_alone_has_as_many_times_the_interruptions_as_nodes():
    """Of running time: what is left of the elapsed time without the detection and the restart of each."""
    nodes_only = load_scenario("baseline").but({"job_failures": {}, "pool.spares": 32})
    nodes_only = nodes_only.but({f"causes.{name}.needs_repair": False for name in nodes_only.causes})
    table = at_sizes(nodes_only, [128, 512], seeds=20)
    down = nodes_only.overhead_minutes / 60
    running = table["elapsed_hours"] - down
    assert running[0] / running[1] == pytest.approx(4, rel=0.1)


def test_a_played_size_becomes_a_row_of_the_published_systems_by_hand():
    """Once in 3 hours on 500 nodes is once in 1.5 hours on 1,000."""
    row = {"scenario": "mine", "nodes": 500, "elapsed_hours": 3.0, "elapsed_hours_low": 2.0, "elapsed_hours_high": 4.0}
    system = as_systems(pd.DataFrame([row | {"goodput": 0.8125}])).iloc[0]
    assert system[["per_1000_hours_low", "per_1000_hours", "per_1000_hours_high"]].tolist() == [1.0, 1.5, 2.0]
    assert system[["system", "gpus", "counts", "status"]].tolist() == ["mine (ours)", 4000, "81.2% goodput", "ours"]
    assert set(system.index) <= set(clusters().columns)


TWO = pd.DataFrame(
    {
        "scenario": ["a", "b"],
        "nodes": [2048, 2048],
        "elapsed_hours": [2.0, 1.0],
        "elapsed_hours_low": [1.5, 0.5],
        "elapsed_hours_high": [3.0, 2.0],
        "goodput": [0.5, 0.75],
    }
)


def test_ours_is_set_against_the_job_of_its_size_by_hand():
    """Llama 3 has 2,048 nodes and 3.09 hours: ours of 2 hours is 0.65 of that. Other sizes were not played."""
    table = against(counted_jobs(clusters()), TWO[:1]).set_index("system")
    llama = table.loc["Llama 3 405B (Meta)"]
    assert llama[["ours", "ours_low", "ours_high"]].tolist() == [2.0, 1.5, 3.0]
    assert llama["ratio"] == pytest.approx(2 / (1296 / 419))
    assert table["ratio"].notna().sum() == 1 and len(table) == 5


def test_the_price_of_an_interruption_by_hand():
    """10 % of 3.09 hours are 18.6 minutes; half of two hours 60, a quarter of one 15."""
    row = prices(counted_jobs(clusters()), TWO).set_index("system").loc["Llama 3 405B (Meta)"]
    assert row["theirs"] == pytest.approx(18.56, abs=0.005) and (row["a"], row["b"]) == (60, 15)


def test_each_time_that_is_assumed_has_a_group_of_published_ones():
    groups = set(in_minutes(published("detection_restart_times", second_hand=True))["group"])
    assert set(assumed_minutes(load_scenario("baseline")).index) <= groups


def test_all_interruptions_take_no_time_at_least_and_fast_detection_leaves_none_silent():
    assert silent_share(load_scenario("baseline"), from_minutes=0) == pytest.approx(1)
    assert silent_share(load_scenario("fast-hang-detection")) == 0
