"""How long broken nodes wait for a crew: trips by hand, against a slow twin, and what a mean of runs may say."""

import numpy as np
import pandas as pd
import pytest
from naive import events_of, frame_of, log_of

from goodput.metrics import mean_interval
from goodput.scenario import load_scenario
from goodput.shop import pooled_mean, repair_trips, shop_per_job
from goodput.simulate import simulate_many

BASE = load_scenario("baseline")

# One crew: n2 breaks while n1 is in repair, waits 1 h, and is not done at the end; n1 breaks once more, and waits.
ONE_CREW = """
   0 start nodes=4 gpus_per_node=1
  60 node_down node=n1
  60 repair_start node=n1
 120 node_down node=n2
 180 node_repaired node=n1
 180 repair_start node=n2
 240 node_down node=n1
 300 end"""


def hours_of(log: pd.DataFrame) -> list[tuple]:
    trips = repair_trips(log)
    return list(trips[["node", "wait_hours", "repair_hours"]].astype(object).itertuples(index=False, name=None))


def test_a_trip_waits_until_its_crew_comes_and_counts_up_to_the_end_of_the_log():
    """n1: at once, 2 h. n2: waits 1 h, 2 h of repair until the end. n1 again: waits 1 h until the end, no repair."""
    assert hours_of(log_of(ONE_CREW)) == [("n1", 0, 2), ("n2", 1, 2), ("n1", 1, 0)]


def test_times_that_the_log_does_not_have_are_null():
    trips = repair_trips(log_of(ONE_CREW))
    assert trips["repair_start"].isna().tolist() == [False, False, True]
    assert trips["repaired"].isna().tolist() == [False, True, True]


def test_a_retired_node_ends_its_trip_and_so_its_wait():
    log = log_of("0 start nodes=1 gpus_per_node=1\n60 node_down node=n1\n180 node_retired node=n1\n600 end")
    assert hours_of(log) == [("n1", 2, 0)]


def test_a_repair_that_nobody_saw_begin_tells_no_hours():
    log = log_of("0 start nodes=1 gpus_per_node=1\n60 node_down node=n1\n180 node_repaired node=n1\n600 end")
    assert repair_trips(log)[["wait_hours", "repair_hours"]].isna().all(axis=None)


def test_a_node_that_was_broken_before_the_log_begins_is_no_trip():
    log = log_of("0 start nodes=1 gpus_per_node=1\n60 repair_start node=n1\n180 node_repaired node=n1\n600 end")
    assert len(repair_trips(log)) == 0


def test_nodes_of_one_name_in_two_jobs_are_two_nodes():
    other = "0 start nodes=1 gpus_per_node=1\n90 node_down node=n1\n120 repair_start node=n1\n150 end"
    shop = shop_per_job(frame_of([*events_of(ONE_CREW, "a"), *events_of(other, "b")]))
    assert shop.loc["a"].tolist() == [3, 2, 4, 5]
    assert shop.loc["b"].tolist() == [1, 0.5, 0.5, 2.5]


def test_a_job_without_broken_nodes_counts_with_zeros():
    calm = "0 start nodes=1 gpus_per_node=1\n150 end"
    shop = shop_per_job(frame_of([*events_of(ONE_CREW, "a"), *events_of(calm, "b")]))
    assert shop.loc["b"].tolist() == [0, 0, 0, 2.5]


def test_trips_of_the_simulation_are_those_of_a_slow_twin():
    """A dictionary of open trips, event by event."""
    log = simulate_many(BASE.but({"repair.crews": 1}), [1, 2, 3])
    done, open_trips = [], {}
    for row in log[log["node"].notna()].itertuples():
        who = (row.job, row.node)
        if row.event == "node_down":
            open_trips[who] = [row.time, None]
        elif row.event == "repair_start":
            open_trips[who][1] = row.time
        elif row.event == "node_repaired":
            done.append((*who, *open_trips.pop(who), row.time))
    trips = repair_trips(log)
    assert len(trips) == len(done) + len(open_trips) > 30
    found = trips.loc[trips["repaired"].notna(), ["job", "node", "down", "repair_start", "repaired"]].astype(object)
    assert sorted(found.itertuples(index=False, name=None)) == sorted(done)


def test_one_crew_mends_one_node_at_a_time_and_in_the_order_of_the_line():
    trips = repair_trips(simulate_many(BASE.but({"repair.crews": 1, "days": 100}), [1]))
    begun = trips.dropna(subset="repair_start")
    assert (begun["repair_start"].iloc[1:].to_numpy() >= begun["repaired"].iloc[:-1].to_numpy()).all()


def test_crews_without_limit_let_nobody_wait():
    assert shop_per_job(simulate_many(BASE, [1, 2]))["wait_hours"].tolist() == [0, 0]


def test_a_pooled_mean_is_the_sum_over_the_sum():
    """20 + 1 hours of 10 + 1 trips: 21 / 11, where the mean of the means would be 1.5."""
    assert pooled_mean([20, 1], [10, 1]).mean == pytest.approx(21 / 11)


def test_with_equal_counts_the_interval_is_that_of_a_plain_mean():
    values = np.array([3.0, 5.0, 10.0, 2.0])
    assert pooled_mean(values * 7, [7] * 4) == pytest.approx(mean_interval(values))


def test_a_run_without_trips_adds_nothing_to_the_mean_but_counts_as_a_run():
    found = pooled_mean([6, 0, 6], [2, 0, 2])
    assert (found.mean, found.count) == (3, 3)
    assert found.low == pytest.approx(3) == found.high


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """Runs of a Poisson number of trips, each with an exponential wait of mean 5: of 400 intervals some 380 hold 5."""
    generator = np.random.Generator(np.random.PCG64(3))
    counts = generator.poisson(8, (400, 30))
    sums = generator.gamma(np.maximum(counts, 1e-9), 5.0) * (counts > 0)
    found = [pooled_mean(*run) for run in zip(sums, counts)]
    assert 0.92 < np.mean([each.low < 5 < each.high for each in found]) < 0.98


def test_one_run_alone_has_no_interval():
    assert np.isnan(pooled_mean([6], [2]).low)


def test_of_nothing_there_is_no_mean():
    assert np.isnan(pooled_mean([0.0, 0.0], [0, 0])[:5]).all() and np.isnan(mean_interval([])[:5]).all()
    assert (pooled_mean([0.0, 0.0], [0, 0]).count, mean_interval([]).count) == (2, 0)
