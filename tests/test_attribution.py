"""Where the hours go: each rule of the accounting worked out by hand, then all of them against a slow twin."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import MINUTE, NULL_TIME, OUR_DAY, as_events, events_of, frame_of, in_order, log_of, raw_frame, totals, walk

from goodput.attribution import CATEGORIES, interruptions, ledger, spans
from goodput.events import codes, micros
from goodput.logfile import read_log
from goodput.scenario import SEVEN, load_scenario
from goodput.simulate import simulate_many

CASES = Path(__file__).parent / "cases"
EXPECTED = json.loads((CASES / "native_expected.json").read_text("utf-8"))
ROOT = Path(__file__).parents[1]


def minutes(log: pd.DataFrame, by: str = "category") -> dict:
    """Return minutes by category, by (category, cause), or by (category, nodes)."""
    sums: Counter = Counter()
    for (category, cause, nodes), micro in _by_all(log).items():
        key = {"category": category, "cause": (category, cause), "nodes": (category, nodes)}[by]
        sums[key] += micro / MINUTE
    return dict(sums)


def _by_all(log: pd.DataFrame, size: str = "nodes") -> Counter:
    table = spans(log)
    table["gpus"] = table["nodes"] * table["gpus_per_node"]
    length = micros(table["end"]) - micros(table["start"])
    cause = table["cause"].astype(object).where(table["cause"].notna(), None)
    sums: Counter = Counter()
    for *key, micro in zip(table["category"], cause, table[size], length.tolist(), strict=True):
        sums[tuple(key)] += micro
    return sums


def stretches(log: pd.DataFrame) -> Counter:
    """Return microseconds by (category, cause, GPUs held), as the package says."""
    return _by_all(log, "gpus")


# --- cases of the bank ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", EXPECTED)
def test_a_case_of_the_bank_has_the_seconds_worked_out_for_it(case):
    """Offsets (A05), saves once (A07), a save cut (A09), overlap (A11), resize (A18), no end (A20), a tie (D08)."""
    table = spans(read_log(CASES / f"{case}.jsonl")[0])
    seconds = pd.Series((micros(table["end"]) - micros(table["start"])) / 1e6).groupby(table["category"]).sum()
    hours = ledger(table)
    got = {f"{name}_s": seconds.get(name, 0) for name in CATEGORIES} | {"total_s": seconds.sum()}
    got |= {f"{name}_gpu_hours": hours[name] for name in CATEGORIES} | {"total_gpu_hours": hours.sum()}
    got["goodput"] = hours["productive"] / hours.sum()
    assert {key: got[key] for key in EXPECTED[case]} == pytest.approx(EXPECTED[case], abs=1e-6)


def test_a_time_without_zone_is_refused_with_its_line():
    with pytest.raises(ValueError, match=r"A05\.naive\.jsonl:2: time='2025-03-01T01:00:00' must be a time with a zone"):
        read_log(CASES / "A05.naive.jsonl")


def test_the_ledger_of_the_sample_log_is_the_one_worked_out_in_its_readme():
    """Every row of the table in data/README.md is one span; hours there are rounded to three places."""
    text = (ROOT / "data" / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d\d:\d\d) \| (\d\d:\d\d) \|[^|]*\| ([\d.]+) \| (\w+) \| ?(\w*) ?\|", text, re.M)
    table = spans(read_log(ROOT / "data" / "logs" / "every_event.jsonl")[0])
    got = [
        (f"{row.start:%H:%M}", f"{row.end:%H:%M}", row.category, "" if pd.isna(row.cause) else row.cause)
        for row in table.itertuples()
    ]
    # stretches that the README tells as one are cut by events that change nothing
    assert _joined(got) == _joined([(begin, end, category, cause) for begin, end, _, category, cause in rows])
    assert table["gpu_hours"].sum() == pytest.approx(sum(float(row[2]) for row in rows), abs=0.02)


def _joined(rows: list[tuple]) -> list[tuple]:
    out: list[tuple] = []
    for begin, end, *what in rows:
        if out and out[-1][1] == begin and list(out[-1][2:]) == what:
            out[-1] = (out[-1][0], end, *what)
        else:
            out.append((begin, end, *what))
    return out


# --- rules 1 to 3: a plain run, a save, a fault --------------------------------------------------------------------

PLAIN = """
  0 start nodes=2 gpus_per_node=4
 60 checkpoint_start
 65 checkpoint_end
100 interrupt cause=host node=n1
103 detected
110 nodes_ready
130 running
150 end
"""


def test_each_minute_of_a_plain_run_is_in_one_category():
    """60 min and the last 20 are kept, the 35 between the save's end and the fault are lost, 5 go to the save."""
    assert minutes(log_of(PLAIN)) == {
        "productive": 80,
        "checkpoint": 5,
        "lost_work": 35,
        "detection": 3,
        "waiting": 7,
        "restart": 20,
    }


def test_what_a_fault_took_is_charged_to_its_cause_and_node():
    table = spans(log_of(PLAIN))
    charged = table[table["cause"].notna()]
    assert list(charged["category"]) == ["lost_work", "detection", "waiting", "restart"]
    assert set(charged["cause"]) == {"host"} and set(charged["node"]) == {"n1"}
    assert set(charged["interruption"]) == {0}
    assert table.loc[table["cause"].isna(), "interruption"].eq(-1).all()


def test_the_job_holds_its_gpus_through_every_minute_of_an_outage():
    """2 nodes x 4 GPUs x 150 min = 20 GPU-hours."""
    assert ledger(spans(log_of(PLAIN))).sum() == pytest.approx(20, abs=1e-12)


def test_a_save_holds_the_state_of_its_start():
    """The save's own 10 minutes are never lost; of the compute only that after its end is."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 checkpoint_start
     70 checkpoint_end
     71 interrupt cause=x
     80 end""")
    assert minutes(log) == {"productive": 60, "checkpoint": 10, "lost_work": 1, "detection": 9}


def test_a_save_cut_short_is_not_durable():
    """The fault at 125 loses the 60 minutes since the save of 60; the 5 of the broken save stay checkpoint."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 checkpoint_start
     60 checkpoint_end
    120 checkpoint_start
    125 interrupt cause=x
    130 end""")
    assert minutes(log) == {"productive": 60, "lost_work": 60, "checkpoint": 5, "detection": 5}


def test_a_job_that_never_saved_loses_all_of_its_compute():
    log = log_of("""
     0 start nodes=1 gpus_per_node=1
    90 interrupt cause=x
    95 end""")
    assert minutes(log, "cause") == {("lost_work", "x"): 90, ("detection", "x"): 5}


def test_a_save_of_an_earlier_run_does_not_shield_the_next_run():
    """After `running` nothing is saved yet: the second fault loses the 30 minutes since then."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     10 checkpoint_start
     10 checkpoint_end
     20 interrupt cause=x
     20 detected
     20 nodes_ready
     20 running
     50 interrupt cause=y
     50 end""")
    assert minutes(log, "cause") == {("productive", None): 10, ("lost_work", "x"): 10, ("lost_work", "y"): 30}


def test_compute_still_in_flight_at_the_end_is_productive():
    log = log_of("""
     0 start nodes=1 gpus_per_node=1
    59 end""")
    assert minutes(log) == {"productive": 59}


def test_a_save_still_open_at_the_end_is_checkpoint():
    log = log_of("""
     0 start nodes=1 gpus_per_node=1
    50 checkpoint_start
    59 end""")
    assert minutes(log) == {"productive": 50, "checkpoint": 9}


def test_a_log_without_an_end_is_closed_at_its_last_event():
    """Not at the moment of asking: the same file gives the same answer tomorrow."""
    log = log_of("""
     0 start nodes=1 gpus_per_node=1
    50 checkpoint_start
    55 checkpoint_end""")
    assert minutes(log) == {"productive": 50, "checkpoint": 5}


def test_a_job_that_ends_while_down_was_down_to_the_end():
    for last, category in (("interrupt cause=x", "detection"), ("detected", "waiting"), ("nodes_ready", "restart")):
        text = "0 start nodes=1 gpus_per_node=1\n10 interrupt cause=x\n10 detected\n10 nodes_ready"
        text = text[: text.index(last.split()[0]) + len(last)]
        assert minutes(log_of(f"{text}\n50 end"), "cause")[category, "x"] == 40


# --- rule 4: outages -----------------------------------------------------------------------------------------------


def test_a_second_fault_while_waiting_takes_over_what_follows():
    """Work is lost once; the 7 minutes of broken-off waiting stay with the first cause."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 interrupt cause=x
     63 detected
     70 interrupt cause=y
     71 detected
     80 nodes_ready
    100 running
    130 end""")
    assert minutes(log, "cause") == {
        ("lost_work", "x"): 60,
        ("detection", "x"): 3,
        ("waiting", "x"): 7,
        ("detection", "y"): 1,
        ("waiting", "y"): 9,
        ("restart", "y"): 20,
        ("productive", None): 30,
    }


def test_a_second_fault_before_the_first_is_detected_ends_its_detection():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 interrupt cause=x
     65 interrupt cause=y
     75 detected
     75 nodes_ready
     75 end""")
    assert minutes(log, "cause") == {("lost_work", "x"): 60, ("detection", "x"): 5, ("detection", "y"): 10}


def test_a_second_fault_while_restarting_starts_the_outage_anew():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 interrupt cause=x
     60 detected
     60 nodes_ready
     70 interrupt cause=y
     72 detected
     73 nodes_ready
     93 end""")
    assert minutes(log, "cause") == {
        ("lost_work", "x"): 60,
        ("restart", "x"): 10,
        ("detection", "y"): 2,
        ("waiting", "y"): 1,
        ("restart", "y"): 20,
    }


def test_a_missing_detected_leaves_fault_to_nodes_ready_unattributed():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 interrupt cause=x
     80 nodes_ready
     90 running
     95 end""")
    want = {("lost_work", "x"): 60, ("unattributed", "x"): 20, ("restart", "x"): 10, ("productive", None): 5}
    assert minutes(log, "cause") == want


def test_a_missing_nodes_ready_leaves_detected_to_running_unattributed():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 interrupt cause=x
     65 detected
     90 running
     95 end""")
    want = {("lost_work", "x"): 60, ("detection", "x"): 5, ("unattributed", "x"): 25, ("productive", None): 5}
    assert minutes(log, "cause") == want


def test_an_outage_told_only_by_its_fault_and_running_is_unattributed():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 interrupt cause=x
     90 running
     95 end""")
    assert minutes(log, "cause") == {("lost_work", "x"): 60, ("unattributed", "x"): 30, ("productive", None): 5}


def test_a_second_fault_whose_detection_is_missing_is_unattributed_from_that_fault_on():
    """The first fault's detection and broken-off waiting are known, and stay with it."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 interrupt cause=x
     65 detected
     70 interrupt cause=y
     90 nodes_ready
    100 running
    100 end""")
    assert minutes(log, "cause") == {
        ("lost_work", "x"): 60,
        ("detection", "x"): 5,
        ("waiting", "x"): 5,
        ("unattributed", "y"): 20,
        ("restart", "y"): 10,
    }


def test_an_event_that_says_nothing_of_the_outage_does_not_hide_that_one_is_missing():
    """A resize between the fault and `nodes_ready` is not a `detected`; the sizes before and after it hold."""
    log = log_of("""
      0 start nodes=4 gpus_per_node=1
     60 interrupt cause=x
     70 resize nodes=3
     80 nodes_ready
     80 end""")
    assert minutes(log, "nodes") == {("lost_work", 4): 60, ("unattributed", 4): 10, ("unattributed", 3): 10}


def test_an_interrupt_without_a_cause_is_charged_to_unknown(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(
        '{"time": 0, "job": "a", "event": "start", "nodes": 1, "gpus_per_node": 1}\n'
        '{"time": 3600, "job": "a", "event": "interrupt"}\n{"time": 7200, "job": "a", "event": "end"}\n'
    )
    log, findings = read_log(path)
    assert minutes(log, "cause") == {("lost_work", "unknown"): 60, ("detection", "unknown"): 60}
    assert [(found.code, found.line) for found in findings] == [("no-cause", 2)]


def test_a_log_in_which_nothing_lasts_has_no_spans():
    assert len(spans(log_of("0 start nodes=1 gpus_per_node=1"))) == 0
    assert len(spans(log_of("0 start nodes=1 gpus_per_node=1\n0 end"))) == 0


# --- launch --------------------------------------------------------------------------------------------------------


def test_launch_to_start_is_restart_charged_to_first_start():
    log = log_of("""
     0 launch nodes=2 gpus_per_node=8
    15 start nodes=2 gpus_per_node=8
    60 end""")
    assert minutes(log, "cause") == {("restart", "first_start"): 15, ("productive", None): 45}
    assert ledger(spans(log)).sum() == 16


def test_a_fault_before_the_first_start_loses_no_work():
    log = log_of("""
     0 launch nodes=1 gpus_per_node=1
    15 interrupt cause=x
    20 detected
    21 nodes_ready
    30 running
    60 end""")
    assert minutes(log, "cause") == {
        ("restart", "first_start"): 15,
        ("detection", "x"): 5,
        ("waiting", "x"): 1,
        ("restart", "x"): 9,
        ("productive", None): 30,
    }


# --- rule 6: sizes -------------------------------------------------------------------------------------------------


def test_each_stretch_is_weighted_with_the_nodes_held_at_that_time():
    """4 nodes for 60 min, 2 for 60, 3 from `nodes_ready` on: the old size holds until an event gives another."""
    log = log_of("""
      0 start nodes=4 gpus_per_node=2
     60 resize nodes=2
    120 interrupt cause=x
    130 detected
    140 nodes_ready nodes=3
    150 running
    180 end""")
    assert minutes(log, "nodes") == {
        ("lost_work", 4): 60,
        ("lost_work", 2): 60,
        ("detection", 2): 10,
        ("waiting", 2): 10,
        ("restart", 3): 10,
        ("productive", 3): 30,
    }


def test_a_resize_in_the_middle_of_a_save_splits_the_save_and_not_more():
    log = log_of("""
      0 start nodes=4 gpus_per_node=1
     10 checkpoint_start
     15 resize nodes=2
     20 checkpoint_end
     30 interrupt cause=x
     30 end""")
    assert minutes(log, "nodes") == {
        ("productive", 4): 10,
        ("checkpoint", 4): 5,
        ("checkpoint", 2): 5,
        ("lost_work", 2): 10,
    }


def test_one_job_never_takes_its_size_or_its_fault_from_another():
    one = events_of("0 start nodes=8 gpus_per_node=8\n10 interrupt cause=x\n60 end", job="a")
    other = events_of("5 start nodes=1 gpus_per_node=1\n65 end", job="b")
    table = spans(frame_of([*one, *other]))
    mine = table[table["job"] == "b"]
    assert mine[["category", "nodes", "gpu_hours"]].to_numpy().tolist() == [["productive", 1, 1.0]]
    assert mine["cause"].isna().all()


# --- rule 7: ties --------------------------------------------------------------------------------------------------

TIE = """
  0 start nodes=1 gpus_per_node=1
 60 checkpoint_start
 65 {first}
 65 {second}
 70 detected
 70 end"""


def test_a_save_that_ends_as_the_fault_strikes_counts_whichever_line_comes_first():
    save, fault = "checkpoint_end", "interrupt cause=x"
    saved_first, struck_first = (log_of(TIE.format(first=a, second=b)) for a, b in ((save, fault), (fault, save)))
    assert minutes(saved_first) == minutes(struck_first) == {"productive": 60, "checkpoint": 5, "detection": 5}


def test_a_save_that_ends_counts_before_two_faults_that_strike_with_it():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 checkpoint_start
     65 interrupt cause=x
     65 interrupt cause=y
     65 checkpoint_end
     70 detected
     70 end""")
    assert minutes(log, "cause") == {("productive", None): 60, ("checkpoint", None): 5, ("detection", "y"): 5}


def test_two_saves_that_end_as_the_fault_strikes_both_count_before_it():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 checkpoint_start
     62 checkpoint_start
     65 interrupt cause=x
     65 checkpoint_end
     65 checkpoint_end
     70 detected
     70 end""")
    assert minutes(log, "cause") == {("productive", None): 60, ("checkpoint", None): 5, ("detection", "x"): 5}


def test_a_save_that_ends_counts_before_a_fault_that_is_detected_at_once():
    """As when a scheduler's log and a trainer's are read together: their lines of one moment do not interleave."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 checkpoint_start
     65 interrupt cause=x
     65 detected
     65 checkpoint_end
     70 nodes_ready
     70 end""")
    assert minutes(log, "cause") == {("productive", None): 60, ("checkpoint", None): 5, ("waiting", "x"): 5}


def test_an_async_save_that_reaches_storage_as_the_fault_strikes_counts():
    """Whichever line comes first: the 9 minutes after its start are lost, not the 69 since the job's."""
    for first, second in (("checkpoint_durable", "interrupt cause=x"), ("interrupt cause=x", "checkpoint_durable")):
        log = log_of(f"""
          0 start nodes=1 gpus_per_node=1
         60 checkpoint_start async
         61 checkpoint_end
         70 {first}
         70 {second}
         75 end""")
        assert minutes(log) == {"productive": 60, "checkpoint": 1, "lost_work": 9, "detection": 5}


# --- rule 8: silence -----------------------------------------------------------------------------------------------


def test_time_between_the_last_sign_of_life_and_the_fault_is_unattributed():
    """30 minutes are known to be lost, 10 cannot be placed; both are charged to the cause."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     20 checkpoint_start
     20 checkpoint_end
     60 interrupt cause=x after=50
     65 end""")
    assert minutes(log, "cause") == {
        ("productive", None): 20,
        ("lost_work", "x"): 30,
        ("unattributed", "x"): 10,
        ("detection", "x"): 5,
    }


def test_any_event_is_a_sign_of_life():
    """`after` says 10, but a save ended at 25."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     20 checkpoint_start
     25 checkpoint_end
     60 interrupt cause=x after=10
     60 end""")
    assert minutes(log, "cause") == {("productive", None): 20, ("checkpoint", None): 5, ("unattributed", "x"): 35}


def test_a_save_that_fell_silent_is_checkpoint_until_the_last_sign_of_life():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     20 checkpoint_start
     60 interrupt cause=x after=30
     60 end""")
    assert minutes(log, "cause") == {("lost_work", "x"): 20, ("checkpoint", None): 10, ("unattributed", "x"): 30}


def test_an_after_that_is_not_before_its_fault_changes_nothing():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 interrupt cause=x after=60
     60 end""")
    assert minutes(log, "cause") == {("lost_work", "x"): 60}


def test_a_job_that_is_down_is_not_silent():
    """A second fault with `after`: the broken-off waiting is known, also where a resize stands before the fault."""
    for between in ("", "75 resize nodes=1\n", "75 checkpoint_durable\n"):
        log = log_of(f"""
          0 start nodes=1 gpus_per_node=1
         60 interrupt cause=x
         65 detected
         {between} 80 interrupt cause=y after=70
         80 end""")
        assert minutes(log, "cause") == {("lost_work", "x"): 60, ("detection", "x"): 5, ("waiting", "x"): 15}


# --- rule 9: overlapping, failed and async saves -------------------------------------------------------------------


def test_saves_that_overlap_are_counted_once():
    """30 to 100 is 70 minutes, not 40 + 40."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     30 checkpoint_start
     60 checkpoint_start
     70 checkpoint_end
    100 checkpoint_end
    160 end""")
    assert minutes(log) == {"productive": 90, "checkpoint": 70}


def test_the_second_of_two_overlapping_saves_is_durable_at_the_last_end():
    """Cut at 90, before the last end: the end at 70 is the last one, and the last start before it is that of 60."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     30 checkpoint_start
     60 checkpoint_start
     70 checkpoint_end
     90 interrupt cause=x
     90 end""")
    assert minutes(log, "cause") == {
        ("productive", None): 30,
        ("checkpoint", None): 40,  # the save of 30 has failed: it lasts until the next start
        ("lost_work", "x"): 20,
    }


def test_a_failed_save_lasts_until_the_next_is_tried():
    """Saves of 30 and 40 fail, that of 50 ends at 55."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     30 checkpoint_start
     40 checkpoint_start
     50 checkpoint_start
     55 checkpoint_end
     60 interrupt cause=x
     60 end""")
    assert minutes(log) == {"productive": 30, "checkpoint": 25, "lost_work": 5}


def test_a_failed_save_does_not_lend_its_start_to_a_later_end():
    """The fault at 60 goes back to the save of 10; the two starts after it came to nothing."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     10 checkpoint_start
     12 checkpoint_end
     30 checkpoint_start
     40 checkpoint_start
     60 interrupt cause=x
     60 end""")
    assert minutes(log) == {"productive": 10, "checkpoint": 2 + 30, "lost_work": 18}


def test_a_save_cut_by_a_fault_does_not_stay_open_in_the_next_run():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     10 checkpoint_start
     15 interrupt cause=x
     15 detected
     15 nodes_ready
     15 running
     30 checkpoint_start
     35 checkpoint_end
     60 end""")
    assert minutes(log) == {"lost_work": 10, "checkpoint": 5 + 5, "productive": 15 + 25}


def test_an_async_save_is_durable_only_once_it_has_reached_storage():
    text = """
      0 start nodes=1 gpus_per_node=1
     30 checkpoint_start async
     31 checkpoint_end
     {durable}
     60 interrupt cause=x
     60 end"""
    assert minutes(log_of(text.format(durable="")))["lost_work"] == 59
    assert minutes(log_of(text.format(durable="45 checkpoint_durable")))["lost_work"] == 29


def test_async_saves_with_ids_may_reach_storage_out_of_order():
    """The newest durable one is that of 20, though that of 10 arrives later."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     10 checkpoint_start async id=p
     11 checkpoint_end
     20 checkpoint_start async id=q
     21 checkpoint_end
     25 checkpoint_durable id=q
     30 checkpoint_durable id=p
     60 interrupt cause=x
     60 end""")
    assert minutes(log) == {"productive": 19, "checkpoint": 2, "lost_work": 39}


def test_async_saves_without_ids_reach_storage_in_the_order_they_began():
    """One arrival: that of 10. The 9 minutes to 20 and the 39 after 21 are lost."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     10 checkpoint_start async
     11 checkpoint_end
     20 checkpoint_start async
     21 checkpoint_end
     25 checkpoint_durable
     60 interrupt cause=x
     60 end""")
    assert minutes(log) == {"productive": 10, "checkpoint": 2, "lost_work": 9 + 39}


def test_blocking_and_async_saves_may_mix():
    """The blocking save of 20 is durable at its end: the later arrival of the async one of 10 takes nothing back."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     10 checkpoint_start async
     11 checkpoint_end
     20 checkpoint_start
     25 checkpoint_end
     30 checkpoint_durable
     60 interrupt cause=x
     60 end""")
    assert minutes(log) == {"productive": 19, "checkpoint": 6, "lost_work": 35}


def test_an_async_save_that_reaches_storage_after_the_fault_does_not_count():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     30 checkpoint_start async
     31 checkpoint_end
     60 interrupt cause=x
     61 checkpoint_durable
     70 end""")
    assert minutes(log) == {"checkpoint": 1, "lost_work": 59, "detection": 10}


@pytest.mark.parametrize("name", ["", " id=s"])
def test_no_save_is_durable_before_it_began(name):
    """At 25 a save of the first run arrives late. That of 40 never does: the fault at 60 loses all since 20."""
    log = log_of(f"""
      0 start nodes=1 gpus_per_node=1
     10 checkpoint_start async{name}
     10 checkpoint_end
     20 interrupt cause=x
     20 running
     25 checkpoint_durable{name}
     40 checkpoint_start async{name}
     40 checkpoint_end
     60 interrupt cause=y
     60 end""")
    assert minutes(log, "cause") == {("lost_work", "x"): 20, ("lost_work", "y"): 40}


@pytest.mark.parametrize("name", ["", " id=s"])
def test_an_async_save_that_failed_does_not_take_the_arrival_of_the_next(name):
    """The try at 10 never ends, that at 20 does and arrives: the fault goes back to 20."""
    log = log_of(f"""
      0 start nodes=1 gpus_per_node=1
     10 checkpoint_start async{name}
     20 checkpoint_start async{name}
     21 checkpoint_end
     30 checkpoint_durable{name}
     60 interrupt cause=x
     60 end""")
    assert minutes(log) == {"productive": 10, "checkpoint": 11, "lost_work": 39}


def test_an_async_save_that_reached_storage_counts_though_the_line_of_its_end_is_missing():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     20 checkpoint_start async
     30 checkpoint_durable
     60 interrupt cause=x
     60 end""")
    assert minutes(log) == {"productive": 20, "checkpoint": 40}


# --- gaps ----------------------------------------------------------------------------------------------------------

GAP = """
      0 start nodes=1 gpus_per_node=1
     20 checkpoint_start
     25 checkpoint_end
     40 gap
     50 checkpoint_start
     55 checkpoint_end
     60 interrupt cause=x
     60 end"""


def test_a_gap_is_unattributed_until_the_next_event_and_charged_to_nothing():
    want = {("productive", None): 35, ("checkpoint", None): 10, ("unattributed", None): 10, ("lost_work", "x"): 5}
    assert minutes(log_of(GAP), "cause") == want


def test_compute_before_a_gap_is_not_known_to_be_lost():
    """The save of 50 has failed: what followed that of 20, up to the gap, may have been saved in it."""
    log = log_of(GAP.replace("55 checkpoint_end", ""))
    assert minutes(log, "cause") == {
        ("productive", None): 20,
        ("checkpoint", None): 5 + 10,
        ("unattributed", "x"): 15,
        ("unattributed", None): 10,
    }


def test_compute_behind_a_gap_is_lost_as_any_other():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     40 gap
     50 running
     60 interrupt cause=x
     60 end""")
    assert minutes(log, "cause") == {("unattributed", None): 40 + 10, ("lost_work", "x"): 10}


def test_a_gap_while_down_is_charged_to_the_outage():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     10 interrupt cause=x
     15 gap
     30 nodes_ready
     40 running
     45 end""")
    assert minutes(log, "cause") == {
        ("lost_work", "x"): 10,
        ("detection", "x"): 5,
        ("unattributed", "x"): 15,
        ("restart", "x"): 10,
        ("productive", None): 5,
    }


def test_an_outage_whose_fault_stood_in_a_gap_is_not_charged_to_an_older_fault():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     10 interrupt cause=x
     11 detected
     12 nodes_ready
     13 running
     20 checkpoint_start
     20 checkpoint_end
     21 gap
     30 detected
     40 nodes_ready
     50 running
     60 end""")
    table = spans(log)
    of_x = table["cause"].eq("x") | table["interruption"].ge(0)
    assert table.loc[of_x, "end"].max() == pd.Timestamp("2025-01-01T00:13:00Z")


def test_saves_that_overlap_where_training_is_seen_again_are_counted_once():
    """How the job came to train again stood in the gap; the save of 30 is open until 50."""
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     10 interrupt cause=x
     20 gap
     30 checkpoint_start
     35 checkpoint_start
     40 checkpoint_end
     50 checkpoint_end
     60 end""")
    assert minutes(log) == {"lost_work": 10, "detection": 10, "unattributed": 10, "checkpoint": 20, "productive": 10}


def test_a_gap_at_the_end_of_a_job_takes_no_time():
    assert minutes(log_of("0 start nodes=1 gpus_per_node=1\n30 gap")) == {"productive": 30}


# --- interruptions and the ledger ----------------------------------------------------------------------------------


def test_each_interrupt_is_one_interruption_also_while_down():
    log = log_of("""
      0 start nodes=1 gpus_per_node=1
     60 interrupt cause=x node=n1
     65 interrupt cause=planned planned
     70 end""")
    found = interruptions(log)
    assert found[["cause", "planned"]].to_numpy().tolist() == [["x", False], ["planned", True]]
    assert found["node"].isna().tolist() == [False, True]


def test_the_ledger_by_category_and_cause_adds_up_to_the_ledger_by_job():
    table = spans(simulate_many(load_scenario("firmware-regression"), [1, 2]))
    by_both = ledger(table, ["category", "cause"]).sum()
    uncharged = table.loc[table["cause"].isna(), "gpu_hours"].sum()
    assert by_both + uncharged == pytest.approx(ledger(table, "job").sum(), rel=1e-12)
    assert ledger(table, "job").tolist() == pytest.approx([688_128] * 2, rel=1e-12)


def test_node_events_take_no_time_of_any_job():
    node = [{"time": OUR_DAY + 70 * MINUTE, "event": "node_down", "node": "n1"}]
    assert spans(frame_of([*events_of(PLAIN), *node])).equals(spans(log_of(PLAIN)))


# --- the slow twin -------------------------------------------------------------------------------------------------

GAPS = st.sampled_from([0, 0, 1, 2, 7, MINUTE, 90 * MINUTE + 1])
SIZES = st.one_of(st.none(), st.integers(0, 5))
CAUSES = st.sampled_from(["host", "link", "planned"])


class Writer:
    """Writes one legal log: knows what the job does, and which events may follow.

    An awkward log has saves that fail among async ones, arrivals that belong to no save of the run, lines of one
    moment in any order, silence before a fault that strikes while down, and holes.
    """

    NEXT: ClassVar = {
        "starting": ["start", "start", "interrupt", "resize", "end"],
        "training": ["save", "save", "end_of_save", "durable", "interrupt", "tie", "resize", "end"],
        "down": ["detected", "detected", "nodes_ready", "running", "interrupt", "durable", "resize", "end"],
        "waiting": ["nodes_ready", "nodes_ready", "running", "interrupt", "durable", "resize", "end"],
        "restarting": ["running", "running", "interrupt", "durable", "resize", "end"],
    }
    AFTER: ClassVar = {"detected": "waiting", "nodes_ready": "restarting", "interrupt": "down"}
    KINDS: ClassVar = [{}, {"async": True}, {"async": True, "id": "p"}, {"async": True, "id": "q"}]

    def __init__(self, draw, job: str, awkward: bool):
        self.draw, self.job, self.awkward = draw, job, awkward
        self.now, self.events = OUR_DAY, []
        launched = draw(st.booleans())
        self.state = "starting" if launched else "training"
        self.add(
            "launch" if launched else "start", nodes=draw(st.integers(1, 5)), gpus_per_node=draw(st.integers(1, 8))
        )
        self.train()

    def train(self) -> None:
        self.open, self.flying = [], []  # saves of this run: with training held up, and on the way to storage
        self.only_blocking = self.draw(st.booleans())

    def write(self, length: int) -> list[dict]:
        while len(self.events) < length and self.events[-1]["event"] != "end":
            self.now += self.draw(GAPS)
            holes = ["gap"] if self.awkward else []
            what = self.draw(st.sampled_from(self.NEXT[self.state] + holes))
            getattr(self, f"write_{what}", lambda what=what: self.add(what))()
            self.state = self.AFTER.get(self.events[-1]["event"], self.state)
        return self.events

    def add(self, event: str, **fields) -> None:
        self.events.append({"time": self.now, "job": self.job, "event": event, **fields})

    def write_start(self) -> None:
        self.add("start")
        self.state = "training"
        self.train()

    def write_running(self) -> None:
        self.add("running", nodes=self.draw(SIZES))
        self.state = "training"
        self.train()

    def write_save(self) -> None:
        """Blocking saves may overlap and fail; in a run with async ones only where the log is awkward."""
        if self.open and not (self.only_blocking or self.awkward):
            return
        self.open.append({} if self.only_blocking else self.draw(st.sampled_from(self.KINDS)))
        self.add("checkpoint_start", **self.open[-1])

    def write_end_of_save(self) -> None:
        if self.open:
            self.add("checkpoint_end")
            self.flying += [self.open.pop(0)]

    def write_durable(self) -> None:
        ids = [save.get("id") for save in self.flying if save.get("async")]
        if self.awkward:
            self.add("checkpoint_durable", id=self.draw(st.sampled_from([None, "p", "q"])))
        elif ids:
            chosen = self.draw(st.sampled_from(ids))
            self.flying.remove({"async": True} if chosen is None else {"async": True, "id": chosen})
            self.now += 1
            self.add("checkpoint_durable", id=chosen)

    def write_interrupt(self) -> None:
        after = self.draw(st.sampled_from([None, None, 0, 1, 5, MINUTE, 10**12]))
        fields = {} if after is None else {"after": max(OUR_DAY - 5, self.now - after)}
        self.add("interrupt", cause=self.draw(CAUSES), **(fields if self.state == "training" or self.awkward else {}))

    def write_tie(self) -> None:
        """A save that ends as the fault strikes, told after it."""
        if self.open:
            self.add("interrupt", cause=self.draw(CAUSES))
            if self.awkward and self.draw(st.booleans()):
                self.add("interrupt", cause=self.draw(CAUSES))
            self.add("checkpoint_end")
            self.state = "down"

    def write_resize(self) -> None:
        self.add("resize", nodes=self.draw(SIZES))

    def write_gap(self) -> None:
        """The hole may have held how the job came to train again, or how it fell and came back."""
        self.add("gap")
        if self.state != "starting" and self.draw(st.booleans()):
            self.now += self.draw(GAPS)
            back = ["running"] if self.state == "training" else ["running", "checkpoint_start", "checkpoint_end"]
            self.add(self.draw(st.sampled_from(back)))
            self.state = "training"
            self.train()
            if self.events[-1]["event"] == "checkpoint_start":
                self.open = [{}]


@st.composite
def legal_logs(draw, awkward: bool = False) -> list[dict]:
    """Return the lines of a log: one to three jobs, each in its own order, their lines mixed."""
    names = "abc"[: draw(st.integers(1, 3))]
    jobs = [list(Writer(draw, name, awkward).write(draw(st.integers(2, 25)))) for name in names]
    lines: list[dict] = []
    while any(jobs):
        lines.append(draw(st.sampled_from([job for job in jobs if job])).pop(0))
    return lines


def assert_as_the_slow_twin(events: list[dict]) -> None:
    """The package's durations by category, cause and size are the twin's, and its spans tile each job's life."""
    log = ordered(events)
    table = spans(log)
    for job in dict.fromkeys(event["job"] for event in events):
        mine = [event for event in events if event["job"] == job]
        assert stretches(log[log["job"] == job]) == totals(walk(mine))
        assert_tiles(table[table["job"] == job], mine)


def ordered(events: list[dict]) -> pd.DataFrame:
    """Return a log ordered by the twin, so that this is of the accounting alone."""
    jobs = sorted({event["job"] for event in events})
    return raw_frame([event for job in jobs for event in in_order([e for e in events if e["job"] == job])])


def assert_tiles(table: pd.DataFrame, events: list[dict]) -> None:
    times = [event["time"] for event in events]
    if len(table) == 0:
        assert min(times) == max(times)
        return
    start, end = micros(table["start"]).tolist(), micros(table["end"]).tolist()
    assert (start[0], end[-1]) == (min(times), max(times))
    assert start[1:] == end[:-1]
    assert all(a < b for a, b in zip(start, end, strict=True))


@settings(max_examples=200)
@given(legal_logs())
def test_any_legal_log_is_attributed_as_by_a_slow_twin(events):
    assert_as_the_slow_twin(events)


@settings(max_examples=200)
@given(legal_logs(awkward=True))
def test_any_awkward_log_is_attributed_as_by_a_slow_twin(events):
    assert_as_the_slow_twin(events)


@pytest.mark.slow
@pytest.mark.parametrize("awkward", [False, True])
def test_very_many_logs_are_attributed_as_by_a_slow_twin(awkward):
    @settings(max_examples=3_000)
    @given(legal_logs(awkward))
    def check(events):
        assert_as_the_slow_twin(events)

    check()


@settings(max_examples=60)
@given(legal_logs())
def test_a_job_is_attributed_alone_as_among_others(events):
    log = ordered(events)
    together = spans(log)
    for job in set(log["job"].dropna()):
        alone = spans(log[log["job"] == job].reset_index(drop=True))
        mine = together[together["job"] == job].reset_index(drop=True)
        same = ["start", "end", "category", "cause", "nodes", "gpus_per_node", "gpu_hours"]
        pd.testing.assert_frame_equal(alone[same], mine[same], check_categorical=False)


@pytest.mark.parametrize("name", SEVEN)
def test_a_simulated_log_is_attributed_as_by_a_slow_twin(name):
    log = simulate_many(load_scenario(name), [1, 2, 3])
    ours = stretches(log)
    twins: Counter = Counter()
    for job in log["job"].cat.categories:
        twins += totals(walk(as_events(log, job)))
    assert ours == twins


def test_the_slow_twin_knows_the_answer_worked_out_by_hand():
    """The twin is itself checked on the plain run, so that the two cannot agree on nothing."""
    minute = {key[:2]: value / MINUTE for key, value in totals(walk(events_of(PLAIN))).items()}
    assert minute == {
        ("productive", None): 80,
        ("checkpoint", None): 5,
        ("lost_work", "host"): 35,
        ("detection", "host"): 3,
        ("waiting", "host"): 7,
        ("restart", "host"): 20,
    }


def test_categories_and_causes_come_from_fixed_lists():
    table = spans(log_of(PLAIN))
    assert tuple(table["category"].cat.categories) == CATEGORIES
    assert (codes(table["category"]) >= 0).all()
    assert NULL_TIME not in micros(table["start"])
