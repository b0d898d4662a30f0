"""The ml-goodput importer: the timeline of Google's library, against values worked out by hand."""

import gzip
import json
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodput.attribution import interruptions, spans
from goodput.errors import BadInput
from goodput.events import micros
from goodput.importers.ml_goodput import looks_like_ml_goodput, read_ml_goodput
from goodput.logfile import mended, read_log
from goodput.logtext import write_log

CASES = Path(__file__).parent / "cases"
SAMPLE = Path(__file__).parents[1] / "data" / "logs" / "ml_goodput_sample.jsonl"
EXPECTED = json.loads((CASES / "expected.json").read_text("utf-8"))
T0 = 1_750_000_000
SIZES = {"nodes": 4, "gpus_per_node": 8}


def entry(said: str) -> dict:
    """Return one raw entry from `seconds what [value]`, as `130 step 3` or `60 tpu_init_end`."""
    time, what, *value = said.split()
    time, name = T0 + float(time), {"job_name": "runA"}
    if what == "step":
        return {**name, "step_count": int(value[0]), "step_start_time": time}
    if what.startswith("custom"):
        key = what.replace("custom", "custom_badput_event")
        return {**name, "custom_badput_event_type": value[0], f"{key}_time": time}
    if what.startswith("elastic_wait"):
        return {**name, "elastic_wait_event_type": value[0], f"{what}_time": time}
    if what == "slices":
        counts = dict(zip(("active_slices", "available_slices", "total_slices"), map(int, value), strict=True))
        return {**name, **counts, "elastic_slice_counts_timestamp": time}
    if what in ("save", "async_save", "restore"):
        start = "checkpoint_manager_start" if what == "restore" else "checkpoint_manager_blocking_start"
        times = {f"{start}_time": time, f"{start[:-6]}_duration_secs": float(value[1])}
        kind = {"event_type": what.removeprefix("async_"), "synchronous": what == "save"}
        return {**name, **kind, "step": int(value[0]), **times}
    return {**name, f"{what}_time": time}


def steps(first: int, last: int, start: float, seconds: float = 10) -> list[str]:
    """Return step lines, both ends included, the first at `start`."""
    return [f"{start + seconds * n} step {first + n}" for n in range(last - first + 1)]


def lines(*said: str | list[str]) -> list[str]:
    """Return raw lines of `entry`, flat."""
    flat = [each for part in said for each in ([part] if isinstance(part, str) else part)]
    return [json.dumps(entry(each)) for each in flat]


@pytest.fixture
def read(tmp_path):
    """Read text, or the lines of `lines`: the log and its findings."""

    def read(text: str | bytes | list[str], name: str = "log.jsonl", **options):
        text = "\n".join(text) + "\n" if isinstance(text, list) else text
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return mended([read_ml_goodput(path, **options)], str(path), **SIZES)

    return read


def read_case(name: str):
    path = CASES / f"{name}.mlgoodput.jsonl"
    return mended([read_ml_goodput(path)], str(path), **SIZES)


def seconds_of(log, by: str = "category") -> dict[str, float]:
    """Return the seconds of each category (or cause) that has any, and the total."""
    parts = spans(log)
    seconds = (parts["end"] - parts["start"]).dt.total_seconds()
    found = seconds.groupby(parts[by].astype(object)).sum()
    return {**found[found > 0].to_dict(), "total": seconds.sum()}


def codes_of(findings) -> list[str]:
    return [finding.code for finding in findings]


# the cases


def test_a_restart_from_step_0_loses_the_whole_attempt_before():
    """A01: steps 0 to 9 of attempt 1 lost; its step 10 ended somewhere in the 100 s before the next job start."""
    right = EXPECTED["A01"]["expect"]
    ours = seconds_of(read_case("A01")[0])
    assert ours["total"] == right["total_s"]
    assert ours["productive"] == right["productive_s"]
    assert ours["productive"] / ours["total"] == pytest.approx(right["goodput"], abs=1e-6)
    assert ours["lost_work"] == right["lost_s_min"]
    assert ours["unattributed"] == 100
    assert ours["restart"] == right["startup_s"] + right["restart_s"]


def test_a_timeline_without_its_job_start_is_seen_from_its_first_step_on():
    right = EXPECTED["A03"]["expect"]
    log, findings = read_case("A03")
    assert seconds_of(log) == {"productive": right["productive_s"], "total": right["window_s"]}
    assert codes_of(findings) == ["no-start"]


def test_missing_steps_are_a_hole_neither_waste_nor_productive():
    right = EXPECTED["A04"]["expect"]
    log, findings = read_case("A04")
    ours = seconds_of(log)
    assert ours["total"] == right["total_s"]
    assert ours["productive"] == right["productive_known_s"]
    assert ours["unattributed"] == right["gap_s"]
    assert codes_of(findings) == ["missing-steps"] and findings[0].severity == "warning" and findings[0].line == 42
    for said in ("10 steps are missing", ":41 and", ":42", "110 s", "at least 890 s", "at most 1000 s", "incomplete"):
        assert said in findings[0].message
    assert "gap" in set(log["event"])  # what marks a job's numbers incomplete


def test_a_pair_that_ends_before_it_starts_is_named_and_counts_no_time():
    right = EXPECTED["A25"]["expect"]
    log, findings = read_case("A25")
    assert seconds_of(log) == {"restart": 100, "productive": 110, "total": right["total_s"]}
    assert codes_of(findings) == ["negative-pair"] and findings[0].severity == "warning"
    for said in (*right["bad_pair"], ":13", ":14", "10 s before"):
        assert said in findings[0].message


# what was kept, what was lost


def test_a_restart_in_the_middle_loses_just_the_steps_that_are_done_again(read):
    """Steps 0 to 9 of 10 s from 100; dead by 300; back at step 6 from 400 to 450.

    Kept 0 to 5 (60 s) and 6 to 10 (50 s), lost 6 to 8 (30 s); step 9 has no end: 190 to 300 unattributed.
    """
    log, _ = read(lines("0 job_start", steps(0, 9, 100), "300 job_start", steps(6, 10, 400), "450 job_end"))
    assert seconds_of(log) == {"productive": 110, "lost_work": 30, "unattributed": 110, "restart": 200, "total": 450}


def test_a_restart_that_goes_further_back_than_the_one_before_loses_of_all_attempts(read):
    """0 to 9, back to 6 until 8, back to 3: the first keeps 0 to 2 (30 s) and loses 60 s, the second 20 s."""
    log, _ = read(
        lines(
            *("0 job_start", steps(0, 9, 100), "300 job_start", steps(6, 8, 400)),
            *("500 job_start", steps(3, 4, 600), "620 job_end"),
        )
    )
    ours = seconds_of(log)
    assert (ours["productive"], ours["lost_work"]) == (30 + 20, 60 + 20)
    assert ours["unattributed"] == (300 - 190) + (500 - 420)


def test_a_return_to_the_work_of_an_earlier_attempt_saves_it_and_loses_the_one_between(read):
    """0 to 9, back to 2 until 4, on at 8: of the first 0 to 7 count (80 s), lost are 8 (10 s) and the second (20 s)."""
    log, findings = read(
        lines(
            *("0 job_start", steps(0, 9, 100), "300 job_start", steps(2, 4, 400)),
            *("500 job_start", steps(8, 9, 600), "620 job_end"),
        )
    )
    ours = seconds_of(log)
    assert (ours["productive"], ours["lost_work"]) == (80 + 20, 10 + 20)
    assert "jump-forward" in codes_of(findings)


def test_a_restart_at_the_next_step_loses_nothing(read):
    log, _ = read(lines("0 job_start", steps(0, 4, 100), "200 job_start", steps(5, 6, 250), "270 job_end"))
    ours = seconds_of(log)
    assert (ours["productive"], ours.get("lost_work", 0), ours["unattributed"]) == (40 + 20, 0, 60)


def test_steps_done_again_without_a_job_start_are_a_fault_of_their_own(read):
    """Steps 0 to 5 until 150, at 180 step 3 again: 3 and 4 lost, 150 to 180 unattributed, no time for a restart."""
    log, findings = read(lines("0 job_start", steps(0, 5, 100), steps(3, 4, 180), "200 job_end"))
    assert seconds_of(log) == {"restart": 100, "productive": 50, "lost_work": 20, "unattributed": 30, "total": 200}
    assert len(interruptions(log)) == 1
    assert "repeated-steps" in codes_of(findings)


def test_a_restart_inside_the_process_begins_with_its_first_sign(read):
    """Preparing again at 160 tells that it was down by then: 150 to 160 unattributed, 160 to 180 restart."""
    again = ["160 training_prep_start", "170 training_prep_end", "171 data_loading_start", "179 data_loading_end"]
    log, _ = read(lines("0 job_start", steps(0, 5, 100), again, steps(3, 4, 180), "200 job_end"))
    ours = seconds_of(log)
    assert (ours["unattributed"], ours["restart"], ours["lost_work"]) == (10, 100 + 20, 20)


def test_where_no_step_follows_a_fault_its_lost_work_is_unknown(read):
    log, findings = read(lines("0 job_start", steps(0, 9, 100), "300 job_start", "350 tpu_init_start"))
    assert seconds_of(log) == {"restart": 100 + 50, "unattributed": 200, "total": 350}
    assert "no-resume" in codes_of(findings)


def test_where_no_step_follows_a_fault_a_save_that_is_logged_still_counts(read):
    """The save of 145 to 150 is durable: 45 s before it are productive; 40 s since are lost."""
    log, _ = read(lines("0 job_start", steps(0, 4, 100), "145 save 4 5", steps(5, 9, 150), "300 job_start"))
    ours = seconds_of(log)
    assert (ours["productive"], ours["checkpoint"], ours["lost_work"], ours["unattributed"]) == (45, 5, 40, 110)


def test_job_starts_that_lead_to_no_step_are_part_of_one_recovery(read):
    log, findings = read(
        lines("0 job_start", steps(0, 3, 100), "200 job_start", "250 job_start", steps(2, 3, 300), "320 job_end")
    )
    ours = seconds_of(log)
    assert (ours["restart"], len(interruptions(log))) == (100 + 100, 1)
    assert "failed-restarts" in codes_of(findings)


def test_a_job_end_that_a_dying_process_wrote_is_its_fault_where_work_is_lost_by_it(read):
    """Dead at 140, restarted at 200: step 2 and 3 (20 s) lost, 60 s waiting, nothing unattributed."""
    log, findings = read(
        lines("0 job_start", steps(0, 3, 100), "140 job_end", "200 job_start", steps(2, 4, 250), "280 job_end")
    )
    expected = {"restart": 150, "productive": 20 + 30, "lost_work": 20, "waiting": 60, "total": 280}
    assert seconds_of(log) == expected
    assert "end-of-a-fault" in codes_of(findings)


def test_a_job_that_ended_and_goes_on_later_held_nothing_in_between(read):
    log, findings = read(
        lines("0 job_start", steps(0, 3, 100), "140 job_end", "9000 job_start", steps(4, 5, 9100), "9120 job_end")
    )
    assert seconds_of(log) == {"restart": 200, "productive": 60, "total": 260}
    assert findings == []


def test_a_job_that_is_not_over_is_closed_at_its_last_entry(read):
    log, findings = read(lines("0 job_start", steps(0, 3, 100), "135 data_loading_start"))
    assert seconds_of(log) == {"restart": 100, "productive": 35, "total": 135}
    assert codes_of(findings) == ["no-end"]


def test_a_cut_head_leaves_what_the_steps_after_it_tell(read):
    """Seen from step 7 on; the restart at step 8 tells that step 7 (10 s) was kept and 8 (10 s) lost."""
    log, findings = read(lines(steps(7, 9, 0), "100 job_start", steps(8, 9, 200), "220 job_end"))
    assert seconds_of(log) == {"productive": 30, "lost_work": 10, "unattributed": 80, "restart": 100, "total": 220}
    assert "no-start" in codes_of(findings)


def test_a_head_that_is_cut_in_a_restart_is_seen_from_there(read):
    log, findings = read(lines("50 tpu_init_end", steps(7, 8, 100), "120 job_end"))
    assert seconds_of(log) == {"restart": 50, "productive": 20, "total": 70}
    assert codes_of(findings) == ["no-start"]


# holes and doubles


def test_doubled_entries_are_dropped_and_no_step_is_taken_for_a_repeated_one(read):
    clean = lines("0 job_start", steps(0, 9, 100), "200 job_end")
    log, findings = read([line for line in clean for _ in (1, 2)])
    assert seconds_of(log) == {"restart": 100, "productive": 100, "total": 200}
    assert len(interruptions(log)) == 0
    assert codes_of(findings) == ["duplicates"] and "12 duplicated" in findings[0].message


def test_the_steps_of_a_second_writer_are_no_faults(read):
    log, findings = read(lines("0 job_start", steps(0, 9, 100), steps(0, 9, 100.2), "200 job_end"))
    assert len(interruptions(log)) == 0
    assert codes_of(findings) == ["second-writer"]


def test_step_numbers_that_always_grow_by_ten_leave_no_hole_but_a_note(read):
    said = [f"{100 + n} step {10 * n}" for n in range(8)]
    log, findings = read(lines("0 job_start", said, "108 job_end"))
    assert seconds_of(log)["productive"] == 8
    assert codes_of(findings) == ["step-stride"] and "one step in 10" in findings[0].message


def test_a_hole_in_work_that_is_lost_anyway_leaves_the_rest_of_it_lost(read):
    """0 to 3 and 8 to 9, all lost by a restart at 0: 30 s and 10 s; the hole 130 to 180 and 190 to 300 not known."""
    said = ["0 job_start", *steps(0, 3, 100), *steps(8, 9, 180), "300 job_start", *steps(0, 1, 400), "420 job_end"]
    ours = seconds_of(read(lines(said))[0])
    assert (ours["lost_work"], ours["unattributed"], ours["productive"]) == (40, 50 + 110, 20)


def test_a_restart_in_a_hole_keeps_what_is_before_it_and_loses_what_is_behind(read):
    """Back at step 5, which is in the hole 130 to 180: 30 s before it kept, 10 s behind it lost."""
    said = ["0 job_start", *steps(0, 3, 100), *steps(8, 9, 180), "300 job_start", *steps(5, 6, 400), "420 job_end"]
    log, findings = read(lines(said))
    ours = seconds_of(log)
    assert (ours["productive"], ours["lost_work"], ours["unattributed"]) == (30 + 20, 10, 50 + 110)
    assert "at least 50 s are productive, at most 100 s" in findings[0].message


def test_steps_missing_before_a_fault_are_counted(read):
    log, findings = read(lines("0 job_start", steps(0, 3, 100), "300 job_start", steps(9, 10, 400), "420 job_end"))
    assert seconds_of(log)["unattributed"] == 170
    said = findings[0].message
    assert "5 steps are missing" in said and "170 s are unattributed" in said and "at most 220 s" in said


def test_a_torn_line_makes_the_steps_around_it_unattributed(read):
    """Line 5 was step 3: from step 2 at 120 to step 4 at 140."""
    said = lines("0 job_start", steps(0, 5, 100), "160 job_end")
    log, findings = read([*said[:4], said[4][:40], *said[5:]])
    assert seconds_of(log) == {"restart": 100, "productive": 40, "unattributed": 20, "total": 160}
    assert codes_of(findings) == ["unreadable", "missing-steps"] and findings[0].line == 5


def test_a_torn_line_that_was_no_step_may_have_been_a_restart(read):
    said = lines("0 job_start", steps(0, 5, 100), "160 job_end")
    log, findings = read([*said[:4], '{"job_name": "runA", "job_sta', *said[4:]])
    assert seconds_of(log) == {"restart": 100, "productive": 50, "unattributed": 10, "total": 160}
    assert codes_of(findings) == ["unreadable"]


def test_a_cut_last_line_is_a_note(read):
    log, findings = read("\n".join(lines("0 job_start", steps(0, 5, 100))) + '\n{"job_name": "runA", "ste')
    assert seconds_of(log)["total"] == 150
    assert codes_of(findings)[0] == "cut-tail" and {finding.severity for finding in findings} == {"note"}


def test_a_torn_line_costs_other_jobs_nothing(read):
    said = lines("0 job_start", steps(0, 5, 100), "160 job_end")
    other = [line.replace("runA", "runB") for line in said]
    both = [line for pair in zip(said, other, strict=True) for line in pair]
    log, _ = read([*both[:6], both[6][:60], *both[7:]])
    parts = spans(log)
    whole = parts[(parts["job"] == "runB") & (parts["category"] == "productive")]
    assert (whole["end"] - whole["start"]).sum().total_seconds() == 60


# what stands still


def test_a_custom_event_is_taken_out_of_training_even_across_a_step_line(read):
    """Evaluation from 125 to 145, over the start of step 3 at 130 (and 4 at 140)."""
    log, findings = read(
        lines("0 job_start", steps(0, 5, 100), "125 custom_start eval", "145 custom_end eval", "160 job_end")
    )
    assert seconds_of(log) == {"restart": 100, "productive": 40, "unattributed": 20, "total": 160}
    assert seconds_of(log, "cause")["eval"] == 20
    assert findings == [] and len(interruptions(log)) == 0


def test_a_custom_event_is_no_save_work_before_it_can_be_lost(read):
    """Back at step 1: steps 1 to 4 (40 s) are lost, less the 5 s of evaluation inside."""
    said = ["0 job_start", *steps(0, 5, 100), "125 custom_start eval", "130 custom_end eval"]
    ours = seconds_of(read(lines(said, "200 job_start", steps(1, 2, 300), "320 job_end"))[0])
    assert (ours["productive"], ours["lost_work"], ours["unattributed"]) == (10 + 20, 35, 5 + 50)


def test_a_restart_at_a_step_that_began_inside_a_custom_event_keeps_to_that_step(read):
    """Step 3 began at 130 inside 125 to 135: kept 25 s, lost 135 to 150."""
    said = ["0 job_start", *steps(0, 5, 100), "125 custom_start eval", "135 custom_end eval"]
    ours = seconds_of(read(lines(said, "200 job_start", steps(3, 4, 300), "320 job_end"))[0])
    assert (ours["productive"], ours["lost_work"], ours["unattributed"]) == (25 + 20, 15, 10 + 50)


def test_overlapping_custom_events_count_once(read):
    said = ["110 custom_start eval", "120 custom_start sdc", "130 custom_end eval", "140 custom_end SDC"]
    log, _ = read(lines("0 job_start", steps(0, 5, 100), said, "160 job_end"))
    assert seconds_of(log)["unattributed"] == 30
    assert (seconds_of(log, "cause")["eval"], seconds_of(log, "cause")["sdc"]) == (20, 10)


def test_a_custom_event_without_an_end_lasts_to_the_next_step_and_says_so(read):
    log, findings = read(lines("0 job_start", steps(0, 5, 100), "125 custom_start eval", "160 job_end"))
    assert seconds_of(log)["unattributed"] == 5
    assert codes_of(findings) == ["open-pair"]


def test_a_fault_during_a_custom_event_is_charged_to_the_fault(read):
    said = [
        "0 job_start",
        *steps(0, 2, 100),
        "125 custom_start eval",
        "200 job_start",
        *steps(2, 3, 300),
        "320 job_end",
    ]
    log, _ = read(lines(said))
    assert seconds_of(log, "cause")["not_logged"] == 5 + 75 + 100
    assert "eval" not in seconds_of(log, "cause")


# saves


def test_saves_that_are_logged_take_their_real_time_once(read):
    """Four workers log one save of 5 s, a local one follows for 1 s: 6 s; step 3 began late by them."""
    many = [f"{130 + n / 100} save 2 5" for n in range(4)]
    log, _ = read(lines("0 job_start", steps(0, 2, 100), many, "135.03 save 2 1", steps(3, 4, 140), "160 job_end"))
    assert seconds_of(log)["checkpoint"] == pytest.approx(6.03)
    assert seconds_of(log)["productive"] == pytest.approx(60 - 6.03)


def test_saving_is_taken_off_once(read):
    """A07: ten hours, nine saves of two minutes, no fault: 97 %."""
    said = [*steps(0, 9, 0, 3600), *(f"{3600 * n - 120} save {n} 120" for n in range(1, 10)), "36000 job_end"]
    ours = seconds_of(read(lines("0 job_start", said))[0])
    assert ours == {"productive": 34_920, "checkpoint": 1080, "total": 36_000}


def test_async_saves_hold_up_training_only_while_they_block(read):
    log, _ = read(lines("0 job_start", steps(0, 4, 100), "130 async_save 2 2", "160 job_end"))
    assert seconds_of(log)["checkpoint"] == 2
    assert log.loc[log["event"] == "checkpoint_start", "async"].tolist() == [True]


def test_a_save_that_the_next_attempt_passed_over_does_not_count(read):
    """Saved at 130, gone on from step 1: steps 1 to 4 are lost, less 5 s of saving."""
    log, findings = read(
        lines("0 job_start", steps(0, 5, 100), "130 save 2 5", "300 job_start", steps(1, 2, 400), "420 job_end")
    )
    ours = seconds_of(log)
    assert (ours["productive"], ours["lost_work"], ours["checkpoint"]) == (10 + 20, 35, 5)
    assert "save-not-loaded" in codes_of(findings)


def test_a_save_written_before_the_step_it_belongs_to_is_the_one_gone_on_from(read):
    """A trainer that saves at the beginning of step 3, at 130.5, and goes on from step 3."""
    log, findings = read(
        lines("0 job_start", steps(0, 5, 100), "130.5 save 3 5", "300 job_start", steps(3, 4, 400), "420 job_end")
    )
    assert "save-not-loaded" not in codes_of(findings)
    assert seconds_of(log)["lost_work"] == 50 - 35.5


def test_a_save_for_a_preemption_tells_the_cause(read):
    save = {**entry("145 save 4 5"), "reached_preemption": True}
    said = [*lines("0 job_start", steps(0, 4, 100)), json.dumps(save), *lines("300 job_start", steps(5, 6, 400))]
    log, _ = read(said)
    assert interruptions(log)["cause"].tolist() == ["preemption"]


def test_an_older_record_of_a_save_has_other_names(read):
    old = {"job_name": "runA", "event_type": "save", "step": 2, "start_time": T0 + 130, "end_time": T0 + 134}
    log, _ = read([*lines("0 job_start", steps(0, 4, 100)), json.dumps(old), *lines("160 job_end")])
    assert seconds_of(log)["checkpoint"] == 4


def test_a_restore_says_what_was_gone_on_from(read):
    log, _ = read(lines("0 job_start", steps(0, 4, 100), "300 job_start", "320 restore 2 30", steps(3, 4, 400)))
    assert log.loc[log["event"] == "running", "resumed_from"].tolist() == ["2"]
    assert seconds_of(log)["restart"] == 200


# elastic jobs


def test_a_slice_that_goes_down_is_a_fault_with_a_cause_and_real_phases(read):
    """Steps until 140; waits 150 to 180, starts again until 200, goes on at step 5; the last step's end is open."""
    wait = ["150 elastic_wait_start elastic_slice_down", "180 elastic_wait_end elastic_slice_down"]
    again = ["180 elastic_reinit_start", "195 elastic_reinit_end"]
    log, _ = read(lines("0 job_start", steps(0, 4, 100), wait, again, steps(5, 6, 200), "220 job_end"))
    assert seconds_of(log) == {
        "restart": 100 + 20,
        "productive": 40 + 20,
        "unattributed": 10,
        "waiting": 30,
        "total": 220,
    }
    assert interruptions(log)["cause"].tolist() == ["elastic_slice_down"]
    assert not interruptions(log)["planned"].any()


def test_scaling_up_is_a_planned_stop(read):
    wait = ["150 elastic_wait_start elastic_scale_up", "180 elastic_wait_end elastic_scale_up"]
    log, _ = read(lines("0 job_start", steps(0, 4, 100), wait, steps(5, 6, 200), "220 job_end"))
    assert interruptions(log)["planned"].tolist() == [True]


def test_hours_are_weighted_with_the_slices_that_were_held(read):
    """100 s with 4 slices, of which the last 40 train; 60 s with 3 while none steps; then 40 s with 3."""
    said = [
        *("0 job_start", "0 slices 4 4 4", *steps(0, 3, 60), "100 elastic_wait_start slice_down", "100 slices 0 3 4"),
        *("150 elastic_wait_end slice_down", "155 slices 3 3 4", *steps(4, 5, 160, 20), "200 job_end"),
    ]
    log, findings = read(lines(said))
    parts = spans(log)
    gpu_seconds = (
        parts.assign(gpu_hours=parts["gpu_hours"] * 3600).groupby("category", observed=True)["gpu_hours"].sum()
    )
    assert gpu_seconds.sum() == pytest.approx((100 * 4 + 100 * 3) * 8)
    assert gpu_seconds["productive"] == pytest.approx((30 * 4 + 40 * 3) * 8)
    assert "slices" in codes_of(findings)


def test_whole_numbers_may_be_floats_as_cloud_logging_keeps_them(read):
    said = lines("0 job_start", "0 slices 2 2 2", steps(0, 4, 100), "150 job_end")
    log, findings = read(
        [line.replace('"step_count": 2', '"step_count": 2.0').replace(": 2,", ": 2.0,") for line in said]
    )
    assert codes_of(findings) == ["slices"]
    assert spans(log)["nodes"].unique().tolist() == [2]


def test_absurd_slice_counts_are_left_out_with_a_warning(read):
    absurd = {**entry("50 slices 1 1 1"), "active_slices": 10**12}
    log, findings = read([*lines("0 job_start", steps(0, 1, 100), "120 job_end"), json.dumps(absurd)])
    assert codes_of(findings) == ["absurd-size"]
    assert spans(log)["nodes"].unique().tolist() == [4]


# ends before starts


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (["70 data_loading_start", "65 data_loading_end"], ["data_loading_end_time", "data_loading_start_time"]),
        (["70 training_prep_start", "65 training_prep_end"], ["training_prep_end_time", "training_prep_start_time"]),
        (["125 custom_start eval", "115 custom_end eval"], ["custom_badput_event_end_time"]),
        (["130 save 2 -5"], ["save_time", "5 s before"]),
    ],
)
def test_whatever_ends_before_it_starts_is_named_and_counts_no_time(read, said, named):
    log, findings = read(lines("0 job_start", said, steps(0, 4, 100), "150 job_end"))
    assert seconds_of(log) == {"restart": 100, "productive": 50, "total": 150}
    assert codes_of(findings) == ["negative-pair"]
    assert all(name in findings[0].message for name in named)


def test_a_job_end_before_its_start_is_left_out(read):
    log, findings = read(lines("100 job_start", steps(0, 4, 150), "50 job_end"))
    assert seconds_of(log) == {"restart": 50, "productive": 40, "total": 90}
    assert codes_of(findings) == ["negative-pair", "no-end"]


def test_a_job_end_before_its_last_steps_is_left_out(read):
    log, findings = read(lines("0 job_start", steps(0, 4, 100), "125 job_end"))
    assert seconds_of(log) == {"restart": 100, "productive": 40, "total": 140}
    assert codes_of(findings) == ["end-before-steps", "no-end"]


def test_a_job_start_behind_its_first_step_is_moved_to_it(read):
    log, findings = read(lines("115 job_start", steps(0, 4, 100), "150 job_end"))
    assert seconds_of(log) == {"productive": 50, "total": 50}
    assert codes_of(findings) == ["negative-pair"]


# forms of the file


def wrapped(line: str, number: int) -> dict:
    """Return an entry as Cloud Logging keeps it."""
    return {
        "insertId": f"1a{number:04}",
        "jsonPayload": json.loads(line),
        "labels": {"python_logger": "goodput"},
        "logName": "projects/demo/logs/goodput_runA",
        "severity": "INFO",
        "timestamp": f"2025-06-15T15:06:{number:02}.123456789Z",
    }


STORY = lines(
    *("0 job_start", "20 tpu_init_start", "60 tpu_init_end", steps(0, 4, 100), "125 custom_start eval"),
    *("130 custom_end eval", "141 save 4 3", "200 job_start", steps(2, 4, 300), "330 job_end"),
)


def same_story(log) -> bool:
    ours = seconds_of(log)
    right = {"restart": 200, "productive": 50, "lost_work": 16, "checkpoint": 3, "unattributed": 61, "total": 330}
    return ours == right


def test_the_story_that_is_told_in_many_forms_below(read):
    """Steps 0 and 1 kept, 2 to 4 lost but for the evaluation (5 s); the save of 141 to 144 is passed over."""
    assert same_story(read(STORY)[0])


FORMS = {
    "one a line": lambda rows: "\n".join(map(json.dumps, rows)),
    "a list over lines": lambda rows: json.dumps(rows, indent=2),
    "a list, one a line": lambda rows: "[" + ",\n".join(map(json.dumps, rows)) + "]",
    "a list in one line": json.dumps,
    "pages over lines": lambda rows: "\n".join(
        json.dumps({"entries": part, "nextPageToken": "x"}, indent=2) for part in (rows[:5], rows[5:])
    ),
    "pages, one a line": lambda rows: "\n".join(json.dumps({"entries": part}) for part in (rows[:5], rows[5:])),
    "lists behind each other": lambda rows: json.dumps(rows[:5], indent=2) + "\n" + json.dumps(rows[5:], indent=1),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wrap", [True, False])
@pytest.mark.parametrize("order", ["as written", "newest first", "shuffled"])
def test_the_same_is_read_from_any_form_in_any_order(read, form, wrap, order):
    rows = [wrapped(line, number) if wrap else json.loads(line) for number, line in enumerate(STORY)]
    if order == "newest first":
        rows.reverse()
    elif order == "shuffled":
        random.Random(7).shuffle(rows)
    log, findings = read(FORMS[form](rows))
    assert same_story(log)
    assert set(codes_of(findings)) == {"no-fault-time", "save-not-loaded"}


def test_pages_in_several_files_are_one_timeline(tmp_path):
    pages = [tmp_path / "1.jsonl", tmp_path / "2.jsonl.gz"]
    pages[0].write_text("\n".join(STORY[8:]))
    pages[1].write_bytes(gzip.compress("\n".join(STORY[:8]).encode()))
    assert same_story(mended([read_ml_goodput(pages)], "pages", **SIZES)[0])


def test_a_torn_object_over_many_lines_costs_nothing_but_itself(read):
    """Torn in the first step's entry: the time from the job's last entry before it on is not known."""
    text = json.dumps([wrapped(line, n) for n, line in enumerate(lines("0 job_start", steps(0, 4, 100)))], indent=2)
    broken = text.replace('"step_count": 2,', '"step_cou', 1).split("\n")
    at = next(n for n, line in enumerate(broken) if line.endswith('"step_cou'))
    log, findings = read("\n".join(broken[: at + 1] + broken[broken.index("  {", at) :]))
    assert seconds_of(log) == {"restart": 100, "productive": 20, "unattributed": 20, "total": 140}
    assert "unreadable" in codes_of(findings)


def test_other_lines_in_the_export_are_left_out_and_counted(read):
    other = json.dumps({"textPayload": "step 3 done", "timestamp": "2025-06-15T15:06:40Z"})
    log, findings = read([other, *lines("0 job_start", steps(0, 4, 100), "150 job_end"), other])
    assert seconds_of(log)["productive"] == 50
    assert codes_of(findings) == ["other-entries"] and findings[0].message.startswith("2 lines")


def test_an_entry_without_a_job_is_the_only_job_s(read):
    save = {key: value for key, value in entry("130 save 2 5").items() if key != "job_name"}
    log, findings = read([*lines("0 job_start", steps(0, 4, 100)), json.dumps(save), *lines("150 job_end")])
    assert seconds_of(log)["checkpoint"] == 5 and findings == []


def test_a_save_without_times_is_where_cloud_logging_took_it(read):
    save = {"jsonPayload": {"event_type": "save", "step": 2}, "timestamp": "2025-06-15T15:08:50Z"}
    log, _ = read([*lines("0 job_start", steps(0, 4, 100)), json.dumps(save), *lines("150 job_end")])
    assert (micros(log.loc[log["event"] == "checkpoint_start", "time"]) == (T0 + 130) * 1_000_000).all()


# times


def test_times_may_be_text_and_are_utc_where_they_have_no_zone(read):
    said = [{**json.loads(line)} for line in lines("0 job_start", steps(0, 1, 100), "120 job_end")]
    said[0]["job_start_time"] = "2025-06-15T15:06:40"
    said[1]["step_start_time"] = "2025-06-15T17:08:20+02:00"
    said[2]["step_start_time"] = str(T0 + 110.0)
    log, findings = read(list(map(json.dumps, said)))
    assert seconds_of(log) == {"restart": 100, "productive": 20, "total": 120}
    assert codes_of(findings) == ["no-zone"] and findings[0].severity == "note"


def test_a_time_zone_can_be_given_and_what_is_ambiguous_in_it_is_named(read):
    said = [{"job_name": "a", "job_start_time": "2025-10-26T02:30:00"}, {"job_name": "a", "job_end_time": 1761440400}]
    log, findings = read(list(map(json.dumps, said)), timezone="Europe/Berlin")
    assert seconds_of(log)["total"] == 1761440400 - 1761438600
    assert codes_of(findings) == ["no-zone", "ambiguous-time"]


@pytest.mark.parametrize("time", [T0 * 1000, -5, 1e300, "yesterday", True, [], {"a": 1}])
def test_absurd_times_are_lines_that_cannot_be_read(read, time):
    bad = json.dumps({"job_name": "runA", "step_count": 3, "step_start_time": time})
    log, findings = read([*lines("0 job_start", steps(0, 2, 100)), bad, *lines(steps(4, 5, 140), "160 job_end")])
    assert seconds_of(log) == {"restart": 100, "productive": 40, "unattributed": 20, "total": 160}
    assert "step_start_time" in findings[0].message and findings[0].line == 5


@pytest.mark.parametrize("step", [-1, 2.5, 1e300, "x", True, None, [1]])
def test_absurd_step_numbers_are_lines_that_cannot_be_read(read, step):
    bad = json.dumps({"job_name": "runA", "step_count": step, "step_start_time": T0 + 130})
    _, findings = read([*lines("0 job_start", steps(0, 2, 100)), bad, *lines(steps(4, 5, 140), "160 job_end")])
    assert codes_of(findings) == ["unreadable", "missing-steps"]


def test_entries_that_a_clock_has_put_years_away_are_left_out_with_a_warning(read):
    log, findings = read([*lines("0 job_start", steps(0, 4, 100), "150 job_end"), *lines(f"{-T0 + 7} tpu_init_end")])
    assert seconds_of(log)["total"] == 150
    assert codes_of(findings) == ["absurd-time"] and findings[0].line == 8


def test_a_byte_order_mark_line_ends_of_windows_and_zero_bytes_do_no_harm(read):
    text = "\r\n".join(lines("0 job_start", steps(0, 4, 100), "150 job_end"))
    log, findings = read(b"\xef\xbb\xbf" + text.encode() + b"\r\n\0\0\r\n\r\n")
    assert seconds_of(log)["productive"] == 50 and findings == []


# the door


@pytest.mark.parametrize(
    "text",
    [
        *("", "\n\n", "{}", "[]", "null", '"text"', "{", "[{", "\0\xff", '{"a": 1}\n' * 3, "not a log\n" * 2000),
        *('{"event_type": "job_started", "job_name": "a"}', '{"job_start_time": 1750000000}', "[" * 100_000),
    ],
)
def test_a_file_that_is_no_timeline_is_refused_in_one_line(read, text):
    with pytest.raises(BadInput) as error:
        read(text)
    assert "\n" not in str(error.value)


def test_the_format_is_recognised_only_where_it_is_sure():
    plain, cloud = "\n".join(STORY), json.dumps([wrapped(line, 0) for line in STORY], indent=2)
    for text in (plain, cloud, "\ufeff" * 0 + STORY[-4], SAMPLE.read_text("utf-8")):
        assert looks_like_ml_goodput(text.encode()[:4096])
    for path in (CASES / "A05.native.jsonl", SAMPLE.with_name("resiliency_sample.jsonl")):
        assert not looks_like_ml_goodput(path.read_bytes())
    for text in (b"", b"{", b"[]", b"\xff\xfe", b'{"job_name": "a", "start_time": 1}', b"# a comment\n", b"[" * 9999):
        assert not looks_like_ml_goodput(text)


def test_the_sample_adds_up_to_what_was_worked_out_by_hand():
    """Minutes: 5 to start; steps 0 to 2 kept (3), save 0.5, 3 to 5 lost (3) round an evaluation (1.5), silence (7),
    restart (3); 3 and 4 kept (2), silence of step 5 (1.5), wait 1, restart 1.5 with 3 of 4 slices; 5 to 7 kept (4)."""
    log, _ = mended([read_ml_goodput(SAMPLE)], str(SAMPLE), gpus_per_node=4)
    parts = spans(log)
    minutes = parts["gpu_hours"].groupby(parts["category"], observed=True).sum() * 60
    assert minutes.to_dict() == pytest.approx(
        {
            "productive": (3 + 2) * 16 + 4 * 12,
            "checkpoint": 0.5 * 16,
            "lost_work": 3 * 16,
            "waiting": 1 * 12,
            "restart": (5 + 3) * 16 + 1.5 * 12,
            "unattributed": (1.5 + 7 + 1.5) * 16,
        }
    )


def test_converted_and_read_back_it_is_the_same(tmp_path):
    log, _ = mended([read_ml_goodput(SAMPLE)], str(SAMPLE), gpus_per_node=4)
    write_log(log, tmp_path / "native.jsonl")
    again, findings = read_log(tmp_path / "native.jsonl")
    assert findings == []
    assert spans(again).astype(str).equals(spans(log).astype(str))


# laws


@st.composite
def attempts(draw):
    """Draw the first and last steps of attempts, each going on from a step that was reached before."""
    found, reached = [], 0
    for _ in range(draw(st.integers(1, 6))):
        first = draw(st.integers(0, reached))
        last = first + draw(st.integers(0, 9))
        found.append((first, last))
        reached = max(reached, last + 1)
    return found


def kept_seconds(drawn: list[tuple[int, int]], number: int, need: int) -> int:
    """Return the seconds of the work before attempt `number` that led to the state at the start of step `need`.

    It came from the newest attempt that reached that state by steps of its own; the state that one began with came
    from before it in the same way. The end of a last step is not known: it counts nothing.
    """
    for before in range(number - 1, -1, -1):
        first, last = drawn[before]
        if first < need <= last + 1:
            return 10 * (min(need, last) - first) + kept_seconds(drawn, before, first)
    return 0


@given(attempts())
def test_what_is_productive_is_the_work_that_led_to_the_last_state(drawn):
    said, time = [], 0
    for first, last in drawn:
        said += [f"{time} job_start", *steps(first, last, time + 50)]
        time += 50 + 10 * (last - first) + 40
    first, last = drawn[-1]
    log = told("\n".join(lines(said, f"{time - 30} job_end")).encode())
    right = 10 * (last - first + 1) + kept_seconds(drawn, len(drawn) - 1, first)
    ours = seconds_of(log)
    assert ours["productive"] == right
    assert ours.get("lost_work", 0) == sum(10 * (last - first) for first, last in drawn) + 10 - right
    assert ours["unattributed" if len(drawn) > 1 else "total"] == (40 * (len(drawn) - 1) or time - 30)
    assert_exact(log)


class Told(NamedTuple):
    """An attempt of a drawn story, in seconds: its job start, its steps that are logged, and what held them up."""

    launch: int
    steps: dict[int, int]
    alive: int
    saves: list[tuple[int, int]]
    customs: list[tuple[int, int]]


@st.composite
def stories(draw):
    """Draw attempts, of some of which a step is missing, and the second of the job's end."""
    time, reached, out = 0, 0, []
    for _ in range(draw(st.integers(1, 4))):
        first, count, begin = draw(st.integers(0, reached)), draw(st.integers(1, 7)), time + draw(st.integers(1, 20))
        started = {first + n: begin + 6 * n for n in range(count)}
        if count > 3 and draw(st.booleans()):
            del started[first + draw(st.integers(1, count - 2))]
        alive = begin + 6 * (count - 1)
        stretch = st.tuples(st.integers(begin, alive), st.integers(1, 9))
        drawn = [[(a, min(a + b, alive)) for a, b in draw(st.lists(stretch, max_size=2))] for _ in ("saves", "customs")]
        out.append(Told(time, started, alive, *([(a, b) for a, b in each if a < b] for each in drawn)))
        time, reached = alive + draw(st.integers(3, 30)), max(reached, first + count)
    return out, time


def lost_from(attempt: Told, need: int) -> int:
    """Return the second from which on work of an attempt is lost if the next one goes on from step `need`."""
    if need > max(attempt.steps):
        return attempt.alive
    state = max(second for step, second in attempt.steps.items() if step <= need)
    too_late = min((second for step, second in attempt.steps.items() if step > need), default=attempt.alive + 1)
    union = [s for s, _ in attempt.saves if not any(a < s < b for a, b in attempt.saves)]
    return max([state, *(start for start in union if start < too_late)])


def second_by_second(attempts: list[Told], end: int) -> Counter:
    """Return the seconds of each category: the slow twin of the importer."""
    out, need = Counter(total=end), None
    for number, attempt in reversed(list(enumerate(attempts))):
        following = attempts[number + 1].launch if number + 1 < len(attempts) else None
        first, horizon = min(attempt.steps), attempt.alive if following else end
        reaches = need is None or first < need <= max(attempt.steps) + 1
        lost = horizon if need is None else lost_from(attempt, need if reaches else first)
        numbers = list(attempt.steps)
        holes = [(attempt.steps[a], attempt.steps[b]) for a, b in pairwise(numbers) if b > a + 1]
        for second in range(attempt.steps[first], horizon):
            held_up = [any(a <= second < b for a, b in what) for what in (attempt.saves, attempt.customs + holes)]
            work = "productive" if second < lost else "lost_work"
            out["checkpoint" if held_up[0] else "unattributed" if held_up[1] else work] += 1
        out["restart"] += attempt.steps[first] - attempt.launch
        out["unattributed"] += following - horizon if following else 0
        need = first if reaches else need
    return out


@given(stories())
def test_holes_saves_and_custom_events_take_the_seconds_that_a_slow_twin_counts(story):
    attempts, end = story
    said = [f"{end} job_end"]
    for number, attempt in enumerate(attempts):
        said += [f"{attempt.launch} job_start", *(f"{second} step {step}" for step, second in attempt.steps.items())]
        said += [f"{a} save {10 * number + n} {b - a}" for n, (a, b) in enumerate(attempt.saves)]
        for n, (a, b) in enumerate(attempt.customs):
            said += [f"{a} custom_start c{n}", f"{b} custom_end c{n}"]
    log = told("\n".join(lines(said)).encode())
    assert seconds_of(log) == {name: seconds for name, seconds in second_by_second(attempts, end).items() if seconds}
    assert_exact(log)


def told(data: bytes):
    """Return the log that bytes make; raises BadInput only."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        path.write_bytes(data)
        return mended([read_ml_goodput(path)], str(path), **SIZES)[0]


def assert_exact(log) -> None:
    """The spans of a job tile the time from its first event to its last, but for what is between an end and a start."""
    parts = spans(log)
    assert (parts["gpu_hours"] >= 0).all()
    held = micros(parts["end"]) - micros(parts["start"])
    assert (held > 0).all()
    for job, rows in log.groupby("job", observed=True):
        time, ends = micros(rows["time"]), (rows["event"] == "end").to_numpy()
        free = (time[1:] - time[:-1])[ends[:-1]].sum()
        assert held[(parts["job"] == job).to_numpy()].sum() == time[-1] - time[0] - free


@st.composite
def broken(draw):
    """Draw a timeline of which lines were lost, doubled, moved, cut, or changed."""
    rows = list(draw(st.sampled_from([STORY, SAMPLE.read_text("utf-8").splitlines(), [*STORY, *STORY[::-1]]])))
    if draw(st.booleans()):
        rows = json.dumps([wrapped(row, n % 60) for n, row in enumerate(rows)], indent=1).split("\n")
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(rows) - 1))
        change = draw(st.sampled_from(["drop", "double", "move", "cut", "number", "text", "key"]))
        row = rows[at]
        if change == "drop" and len(rows) > 1:
            del rows[at]
        elif change in ("double", "move"):
            rows.insert(draw(st.integers(0, len(rows))), row if change == "double" else rows.pop(at))
        elif change == "cut":
            rows[at] = row[: draw(st.integers(0, len(row)))]
        elif change == "number":
            wrong = draw(st.sampled_from(["-1", "0", "1e999", "1750000105", "1740788000.5", "null", "7", '"x"', "[]"]))
            rows[at] = row.rpartition(":")[0] + ": " + wrong + "}" * row.endswith("}")
        elif change == "text":
            place = draw(st.integers(0, len(row)))
            rows[at] = row[:place] + draw(st.text(max_size=3)) + row[place + 1 :]
        else:
            keys = ["job_start", "job_end", "tpu_init_end", "elastic_wait_start", "custom_badput_event_end", "job_name"]
            rows[at] = row.replace("step_start", draw(st.sampled_from(keys))).replace(
                "job_start", draw(st.sampled_from(keys))
            )
    return "\n".join(rows).encode("utf-8", "surrogatepass")


@given(broken())
def test_a_broken_timeline_is_refused_in_one_line_or_adds_up_exactly(data):
    try:
        log = told(data)
    except BadInput as error:
        assert "\n" not in str(error)
    else:
        assert_exact(log)


ANYTHING = [
    *("job_start", "job_end", "step 0", "step 1", "step 2", "step 5", "custom_start e", "custom_end e", "save 1 3"),
    *("async_save 2 9", "restore 1 2", "tpu_init_start", "tpu_init_end", "data_loading_start", "data_loading_end"),
    *("elastic_wait_start down", "elastic_wait_end down", "elastic_reinit_start", "slices 2 3 4", "slices 0 0 4"),
]


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(ANYTHING)), min_size=1, max_size=40))
def test_any_entries_at_any_times_add_up_exactly(said):
    assert_exact(told("\n".join(lines([f"{time} {what}" for time, what in said])).encode()))
