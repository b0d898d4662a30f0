"""What happened at each stop, and what node events tell of the shelf: worked out by hand."""

import numpy as np
import pytest
from naive import events_of, frame_of, log_of
from test_calibrate import LOG, PLANNED

from goodput.episodes import saves, stops
from goodput.scenario import load_scenario
from goodput.shelf import shelf
from goodput.simulate import simulate_many

BASE = load_scenario("baseline")


def test_each_stop_has_its_three_times_and_who_left():
    table = stops(log_of(LOG))
    minutes = table[["detection_minutes", "waiting_minutes", "restart_minutes"]].to_numpy().tolist()
    assert minutes == [[4, 0, 16], [4, 50, 16], [1, 0, 16]]
    assert table["left"].fillna("-").tolist() == ["n1", "n2", "-"]
    assert set(table["was"]) == {"running"} and not table["chosen"].any()


def test_what_another_stop_cuts_short_is_not_known():
    """Struck at 80, again at 82 unnoticed: no detection of the first; at 90 while it restarts: no restart either."""
    table = stops(
        log_of(
            """
   0 start nodes=4 gpus_per_node=2
  80 interrupt cause=a
  82 interrupt cause=b
  84 detected
  85 nodes_ready
  90 interrupt cause=c
  91 detected
 100 end"""
        )
    )
    assert table["was"].tolist() == ["running", "down", "restarting"]
    assert table["detection_minutes"].fillna(-1).tolist() == [-1, 2, 1]
    assert table["restart_minutes"].isna().all()


def test_a_fault_before_the_first_start_is_a_start_that_failed():
    log = log_of(
        "0 launch nodes=4 gpus_per_node=2\n9 interrupt cause=a\n10 detected\n10 nodes_ready\n20 running\n60 end"
    )
    assert stops(log)["was"].tolist() == ["restarting"]


def test_silence_begins_at_the_last_sign_of_life_whatever_the_log_says():
    """`after` says 70, but a save ended at 75: 5 min of silence."""
    log = log_of(
        "0 start nodes=4 gpus_per_node=2\n70 checkpoint_start\n75 checkpoint_end\n80 interrupt cause=a after=70\n90 end"
    )
    assert stops(log)["silent_minutes"].tolist() == [5]


def test_saves_and_the_compute_before_them_by_hand():
    """The closing save of a planned stop comes when it is ordered: it takes time, but no interval ends in it."""
    told = saves(log_of(PLANNED))
    assert told.blocking_minutes.tolist() == [3, 3, 3, 3] and told.interval_minutes.tolist() == [30, 30, 30]


def test_a_save_that_a_fault_cut_is_no_whole_one():
    log = log_of("0 start nodes=4 gpus_per_node=2\n30 checkpoint_start\n32 interrupt cause=a\n40 end")
    assert [each.tolist() for each in saves(log)] == [[], [30]]


def test_the_shelf_shows_when_somebody_waits():
    told = shelf(log_of(LOG), stops(log_of(LOG)))
    assert (told.trips, told.spares.tolist(), told.most_out, told.crews.tolist()) == (2, [1], 2, [])
    assert (told.repair_hours.tolist(), told.open_hours.tolist()) == ([2], [pytest.approx(243 / 60)])


def test_without_repair_start_a_repair_counts_from_the_breakdown():
    text = "\n".join(line for line in LOG.splitlines() if "repair_start" not in line)
    told = shelf(log_of(text), stops(log_of(text)))
    assert not told.tells_start and told.repair_hours.tolist() == [2]


def test_node_events_that_name_no_job_are_of_the_only_one():
    events = [
        {**event, "job": None} if event["event"].startswith(("node_", "repair")) else event for event in events_of(LOG)
    ]
    log = frame_of([event for event in events if event["event"] not in ("node_down", "repair_start", "node_repaired")])
    assert shelf(log, stops(log)).trips == 0
    nameless = log_of(LOG).assign(
        job=lambda rows: rows["job"].where(~rows["event"].isin(["node_down", "repair_start", "node_repaired"]))
    )
    assert shelf(nameless, stops(nameless)).spares.tolist() == [1]


@pytest.mark.parametrize(
    ("changes", "spares", "crews"),
    [
        ({}, 4, None),
        ({"pool.spares": 0}, 0, None),
        ({"repair.crews": 2}, 4, 2),
        ({"failures.strike": "always"}, 4, None),
    ],
)
def test_every_wait_of_simulated_months_shows_the_spares_and_the_crews_there_are(changes, spares, crews):
    log = simulate_many(BASE.but(changes), range(1, 9))
    told = shelf(log, stops(log))
    assert set(told.spares) == {spares}
    assert set(told.crews) == ({crews} if crews else set())
    assert np.isfinite(told.repair_hours).all() and (told.open_hours >= 0).all()
