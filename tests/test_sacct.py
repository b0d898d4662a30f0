"""Slurm's accounting: the cases of `tests/cases` with their right values, others of their kinds, and fuzz."""

import gzip
import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goodput.attribution import interruptions, ledger, spans
from goodput.checkpoint import young_interval
from goodput.errors import BadInput
from goodput.events import micros
from goodput.importers.sacct import expand_nodes, kind_of, looks_like_sacct, read_sacct, seconds_of
from goodput.importers.sacct_words import KINDS, gpus_of_tres
from goodput.logfile import mended, read_log
from goodput.logtext import write_log
from goodput.metrics import per_job, rates

CASES = Path(__file__).parent / "cases"
EXPECTED = {name: case["expect"] for name, case in json.loads((CASES / "expected.json").read_text("utf-8")).items()}
SAMPLE = Path(__file__).parents[1] / "data" / "logs" / "sacct_sample.txt"
HEADER = "JobID|JobName|State|Submit|Start|End|Elapsed|NNodes|AllocTRES|NodeList|ExitCode"
GPUS = "billing=64,cpu=64,gres/gpu=8,mem=1T,node=1"


def analysed(path, **options):
    """Return log, findings, spans and jobs of a file of sacct."""
    imported = read_sacct(path, **options)
    log, more = mended([imported], str(path))
    return log, more, spans(log), per_job(spans(log), interruptions(log))


def line(
    job="1", state="COMPLETED", start="2025-03-01T00:00:00", end="2025-03-01T01:00:00", elapsed="01:00:00", **more
):
    """Return a line under HEADER: one hour of one node with 8 GPUs, unless something else is said."""
    cells = {"name": "train", "submit": start, "nnodes": "1", "tres": GPUS, "nodes": "gpu001", "exit": "0:0"} | more
    order = [job, cells["name"], state, cells["submit"], start, end, elapsed]
    return "|".join([*order, cells["nnodes"], cells["tres"], cells["nodes"], cells["exit"]])


def written(tmp_path, *lines, header=HEADER):
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join([header, *lines]) + "\n", "utf-8")
    return path


def codes_of(findings):
    return {finding.code for finding in findings}


def seconds(part):
    return float((micros(part["end"]) - micros(part["start"])).sum() / 1e6)


# the cases


def test_b01_a_requeue_chain_is_one_job_with_four_attempts_that_waits_without_gpus():
    right = EXPECTED["B01"]
    log, _, parts, jobs = analysed(CASES / "B01.sacct_D.txt")
    assert len(jobs) == right["jobs"]
    assert log["attempt"].max() == right["attempts"]
    assert seconds(parts[parts["running"]]) == right["run_s"]
    assert parts["gpu_hours"].sum() == pytest.approx(right["run_gpu_h"], abs=1e-6)
    waiting = parts[parts["category"] == "waiting"]
    assert (seconds(waiting), waiting["gpu_hours"].sum()) == (right["requeue_wait_s"], 0)
    assert log["queued_seconds"].dropna().tolist() == [right["first_queue_s"]]
    assert interruptions(log)["cause"].tolist() == ["requeue", "node_fail", "preemption"]
    assert (jobs["interruptions"].sum(), jobs["failures"].sum()) == (right["interrupts"], 2)


def test_b01_with_only_the_last_record_earlier_attempts_may_be_missing():
    _, findings, parts, _ = analysed(CASES / "B01.sacct.txt")
    assert parts["gpu_hours"].sum() == pytest.approx(EXPECTED["B01"]["wrong_gpu_h_last_only"], abs=1e-6)
    assert "earlier-attempts" in codes_of(findings)


def test_b02_steps_are_not_jobs_and_the_worst_one_tells_how_the_job_ended():
    right = EXPECTED["B02"]
    log, findings, _, jobs = analysed(CASES / "B02.sacct.txt")
    assert len(jobs) == right["jobs"]
    assert jobs["held_gpu_hours"].sum() == right["run_gpu_h"]
    end = log[log["event"] == "end"].iloc[0]
    assert (end["outcome"], end["signal"], end["state"]) == (right["outcome"], right["signal"], "COMPLETED")
    assert "step-tells" in codes_of(findings)


def test_b03_a_running_job_counts_until_elapsed_and_jobs_that_never_ran_are_told():
    right = EXPECTED["B03"]
    log, findings, parts, jobs = analysed(CASES / "B03.sacct.txt")
    assert seconds(parts) == right["running_elapsed_s"]
    assert jobs["held_gpu_hours"].sum() == pytest.approx(right["running_gpu_h"], abs=1e-6)
    assert jobs["failures"].sum() == right["failures"]
    assert "end" not in set(log["event"])
    said = {finding.code: finding.message for finding in findings}
    assert said["still-waiting"].endswith(f"{right['pending']} (410005)")
    assert said["never-ran"].endswith("1 (410004)")


def test_b04_a_pipe_in_a_job_name_stays_in_the_name():
    right = EXPECTED["B04"]
    log, _, parts, jobs = analysed(CASES / "B04.sacct.txt")
    assert (len(jobs), parts["gpu_hours"].sum()) == (right["jobs"], right["run_gpu_h"])
    assert (log["name"].iloc[0], log["state"].iloc[-1]) == (right["job_name"], right["state"])


def test_b05_durations_of_every_shape_are_read():
    lines = (CASES / "B05.durations.txt").read_text("utf-8").splitlines()
    assert {text: seconds_of(text) for text in lines} == EXPECTED["B05"]["seconds"]


def test_b06_the_first_word_of_a_state_decides():
    groups = {
        "node_fault": ("node_fail", "boot_fail"),
        "preempted": ("preemption",),
        "user": ("user_cancel",),
        "limit": ("time_limit",),
        "program": ("program_error", "out_of_memory"),
        "active": ("active",),
        "completed": ("completed",),
        "other": ("other",),
    }
    kinds = [kind_of(state) for state in (CASES / "B06.states.txt").read_text("utf-8").splitlines()]
    assert {group: sum(kind in names for kind in kinds) for group, names in groups.items()} == EXPECTED["B06"]


def test_b07_node_lists_keep_their_padding():
    assert {text: expand_nodes(text) for text in EXPECTED["B07"]["expand"]} == EXPECTED["B07"]["expand"]


def test_b10_suspended_time_is_waiting_caused_by_preemption_and_holds_nothing():
    right = EXPECTED["B10"]
    log, findings, parts, jobs = analysed(CASES / "B10.sacct.txt")
    assert seconds(parts[parts["running"]]) == right["run_s"]
    assert jobs["held_gpu_hours"].sum() == jobs["productive"].sum() == right["run_gpu_h"]
    waiting = parts[parts["category"] == "waiting"]
    assert (seconds(waiting), waiting["cause"].tolist()) == (right["suspended_s"], ["preemption"])
    assert jobs["failures"].sum() == 0
    assert "suspended" in codes_of(findings)
    assert "gap" not in set(log["event"])


def test_b13_a_job_across_the_month_counts_once_however_many_reports_hold_it():
    right = EXPECTED["B13"]["total_gpu_h"]
    path = CASES / "B13.sacct.txt"
    assert analysed(path)[2]["gpu_hours"].sum() == right
    together = mended([read_sacct([path, path])], str(path))[0]
    apart = mended([read_sacct(path), read_sacct(path)], str(path))[0]
    assert spans(together)["gpu_hours"].sum() == spans(apart)["gpu_hours"].sum() == right


def test_b14_gpus_are_counted_once_and_shards_not_at_all():
    lines = (CASES / "B14.tres.txt").read_text("utf-8").splitlines()
    assert [gpus_of_tres(text) for text in lines] == EXPECTED["B14"]["gpus"]


def test_b14_a_job_without_gpus_is_left_out_and_told(tmp_path):
    nothing = [line("2", tres="cpu=64,mem=256G,node=1"), line("3", tres="cpu=8,gres/shard=4,node=1")]
    _, findings, parts, _ = analysed(written(tmp_path, line("1"), *nothing))
    assert (set(parts["job"]), parts["gpu_hours"].sum()) == ({"1"}, 8)
    assert [each.message for each in findings if each.code == "no-gpus"] == ["jobs without GPUs, left out: 2 (2, 3)"]


def test_c02_time_limits_are_no_failures():
    right = EXPECTED["C02"]
    *_, jobs = analysed(CASES / "C02.sacct.txt")
    rate = rates(jobs).job_mtbf
    assert (rate.hours, rate.count, rate.exposure_hours) == (right["mtbf_h"], right["failures"], right["exposure_h"])
    assert young_interval(rate.hours, save=300 / 3600) == pytest.approx(right["young_h"], abs=1e-4)


# others of the same kinds


def test_the_order_of_the_lines_does_not_matter(tmp_path):
    lines = (CASES / "B01.sacct_D.txt").read_text("utf-8").splitlines()
    *_, in_order, jobs = analysed(CASES / "B01.sacct_D.txt")
    *_, turned, same_jobs = analysed(written(tmp_path, *lines[:0:-1], header=lines[0]))
    assert turned.equals(in_order)
    assert same_jobs.equals(jobs)


def test_an_attempt_that_starts_when_the_one_before_ends_leaves_no_hole(tmp_path):
    first = line(state="NODE_FAIL")
    second = line(state="BOOT_FAIL", start="2025-03-01T01:00:00", end="2025-03-01T01:00:00", elapsed="00:00:00")
    third = line(start="2025-03-01T01:00:00", end="2025-03-01T02:00:00")
    log, _, parts, _ = analysed(written(tmp_path, first, second, third))
    assert interruptions(log)["cause"].tolist() == ["node_fail", "boot_fail"]
    assert parts["category"].tolist() == ["unattributed", "productive"]
    assert parts["gpu_hours"].sum() == 16


def test_the_only_node_of_an_attempt_is_blamed_and_failed_node_where_it_is_told(tmp_path):
    alone = line("1", "NODE_FAIL")
    many = line("2", "NODE_FAIL", nnodes="2", nodes="gpu[001-002]", tres="gres/gpu=16,node=2")
    log = analysed(written(tmp_path, alone, many))[0]
    assert interruptions(log)["node"].astype(object).where(lambda node: node.notna(), None).tolist() == ["gpu001", None]
    path = written(tmp_path, f"{many}|gpu002", f"{line('3', 'PREEMPTED')}|gpu009", header=HEADER + "|FailedNode")
    found = interruptions(analysed(path)[0])
    assert found["node"].astype(object).where(lambda node: node.notna(), None).tolist() == ["gpu002", None]


def test_a_requeue_after_a_node_failed_is_a_node_failure(tmp_path):
    path = written(tmp_path, f"{line(state='REQUEUED')}|gpu001", header=HEADER + "|FailedNode")
    assert interruptions(analysed(path)[0])["cause"].tolist() == ["node_fail"]


def test_nodes_that_come_and_go_between_attempts_are_named(tmp_path):
    two = {"nnodes": "2", "tres": "gres/gpu=16,node=2"}
    first = line(state="NODE_FAIL", nodes="gpu[001-002]", **two)
    second = line(start="2025-03-01T02:00:00", end="2025-03-01T03:00:00", nodes="gpu[001,003]", **two)
    log = analysed(written(tmp_path, first, second))[0]
    assert log["node_names"].dropna().tolist() == ["gpu[001-002]"]
    ready = log[log["event"] == "nodes_ready"].iloc[0]
    assert (ready["joined"], ready["left"]) == ("gpu003", "gpu002")


def test_a_job_that_completed_and_runs_again_holds_nothing_in_between(tmp_path):
    again = line(start="2025-03-02T00:00:00", end="2025-03-02T01:00:00")
    log, _, parts, jobs = analysed(written(tmp_path, line(), again))
    assert (jobs["held_gpu_hours"].sum(), seconds(parts), jobs["interruptions"].sum()) == (16, 7200, 0)
    assert log["outcome"].dropna().tolist() == ["completed"] * 2


def test_a_job_that_was_resized_is_not_interrupted(tmp_path):
    small = line(state="RESIZING", nnodes="2", tres="gres/gpu=16,node=2", nodes="gpu[001-002]")
    large = line(start="2025-03-01T01:00:00", end="2025-03-01T02:00:00")
    _, _, parts, jobs = analysed(written(tmp_path, small, large))
    assert (jobs["held_gpu_hours"].sum(), jobs["interruptions"].sum()) == (24, 0)
    assert parts["nodes"].tolist() == [2, 1]


def test_a_job_that_was_resized_and_then_suspended_keeps_its_hours(tmp_path):
    small = line(state="RESIZING")
    large = line(start="2025-03-01T01:00:00", end="2025-03-01T03:00:00", nnodes="2", tres="gres/gpu=16,node=2")
    *_, parts, jobs = analysed(written(tmp_path, small, large))
    assert (jobs["held_gpu_hours"].sum(), parts["nodes"].tolist()) == (24, [1, 0, 2])


def test_array_tasks_are_jobs_and_their_steps_are_not(tmp_path):
    lines = [line("7_1"), line("7_1.batch", name="batch"), line("7_2", "FAILED"), line("7_2.0", "FAILED", exit="1:0")]
    waiting = line("7_[3-9%2]", "PENDING", "Unknown", "Unknown", "00:00:00", nodes="None assigned", tres="")
    _, findings, _, jobs = analysed(written(tmp_path, *lines, waiting))
    assert jobs["held_gpu_hours"].to_dict() == {"7_1": 8, "7_2": 8}
    assert jobs["failures"].to_dict() == {"7_1": 0, "7_2": 1}
    assert "still-waiting" in codes_of(findings)


def test_components_of_a_heterogeneous_job_are_one_job(tmp_path):
    lead = line("9+0", nnodes="4", tres="gres/gpu=32,node=4", nodes="gpu[001-004]")
    helper = line("9+1", nnodes="2", tres="gres/gpu=16,node=2", nodes="gpu[011-012]")
    log, _, parts, jobs = analysed(written(tmp_path, lead, helper, line("9+0.0", name="python")))
    assert (list(jobs.index), jobs["held_gpu_hours"].sum()) == (["9"], 48)
    assert (parts["nodes"].iloc[0], log["node_names"].iloc[0]) == (6, "gpu[001-004],gpu[011-012]")


def test_a_requeued_heterogeneous_job_has_two_attempts(tmp_path):
    later = {"start": "2025-03-01T02:00:00", "end": "2025-03-01T03:00:00"}
    lines = [line("9+0", "PREEMPTED"), line("9+1", "PREEMPTED"), line("9+0", **later), line("9+1", **later)]
    log, _, parts, jobs = analysed(written(tmp_path, *lines))
    assert (log["attempt"].max(), jobs["interruptions"].sum(), parts["gpu_hours"].sum()) == (2, 1, 32)


def test_the_nodes_of_a_component_without_gpus_are_not_counted(tmp_path):
    _, _, parts, _ = analysed(written(tmp_path, line("9+0"), line("9+1", tres="cpu=64,node=1", nodes="cpu001")))
    assert (parts["nodes"].iloc[0], parts["gpu_hours"].sum()) == (1, 8)


@pytest.mark.parametrize("state", [*[word for word in KINDS if word.isupper()], "CANCELLED by 0", "NEW_WORD"])
def test_each_state_is_read_whole_and_cut(state):
    cut = state.split()[0][:-1] + "+"
    assert kind_of(cut) in (kind_of(state), "other")
    assert kind_of(state.lower()) == kind_of(state)


@pytest.mark.parametrize(("text", "kind"), [("NODE_FA+", "node_fail"), ("PREEMPT+", "preemption"), ("RE+", "other")])
def test_a_cut_word_is_known_where_only_one_kind_begins_so(text, kind):
    assert kind_of(text) == kind


def test_an_unknown_state_is_kept_as_other_with_a_note(tmp_path):
    log, findings, _, jobs = analysed(written(tmp_path, line(state="LAUNCH_WEIRD")))
    assert (interruptions(log)["cause"].tolist(), jobs["failures"].sum()) == (["other"], 1)
    assert "unknown-state" in codes_of(findings)


@pytest.mark.parametrize(
    ("state", "step", "cause"),
    [
        ("COMPLETED", "OUT_OF_MEMORY", "out_of_memory"),
        ("FAILED", "OUT_OF_MEMORY", "out_of_memory"),
        ("FAILED", "NODE_FAIL", "node_fail"),
        ("FAILED", "CANCELLED", "program_error"),
        ("TIMEOUT", "CANCELLED", "time_limit"),
        ("PREEMPTED", "FAILED", "preemption"),
    ],
)
def test_a_step_is_believed_where_its_job_tells_less(tmp_path, state, step, cause):
    lines = [line("1", state), line("1.batch", "COMPLETED"), line("1.extern", "NODE_FAIL"), line("1.0", step)]
    log = analysed(written(tmp_path, *lines))[0]
    assert interruptions(log)["cause"].tolist() == [cause]


def test_without_steps_the_derived_exit_code_tells_what_the_allocation_hides(tmp_path):
    path = written(tmp_path, f"{line('1')}|0:10", f"{line('2')}|0:0", header=HEADER + "|DerivedExitCode")
    log, findings, *_ = analysed(path)
    assert log[log["event"] == "end"][["outcome", "signal"]].iloc[0].tolist() == ["interrupted", 10]
    assert log["outcome"].dropna().tolist() == ["interrupted", "completed"]
    assert "step-tells" in codes_of(findings)


def test_a_step_tells_of_the_attempt_in_which_it_began(tmp_path):
    second = {"start": "2025-03-01T02:00:00", "end": "2025-03-01T03:00:00"}
    lines = [line("1", "PREEMPTED"), line("1.0", "FAILED"), line("1", **second), line("1.0", "COMPLETED", **second)]
    log = analysed(written(tmp_path, *lines))[0]
    assert interruptions(log)["cause"].tolist() == ["preemption"]
    assert log["outcome"].dropna().tolist() == ["completed"]


def test_steps_without_their_job_are_told(tmp_path):
    _, findings, parts, _ = analysed(written(tmp_path, line("1"), line("2.batch")))
    assert (set(parts["job"]), "steps-alone" in codes_of(findings)) == ({"1"}, True)


@pytest.mark.parametrize(
    ("tres", "nnodes", "held"),
    [
        ("gres/gpu:a100=8,gres/gpu:h100=4,node=2", "2", (2, 6)),
        ("gres/gpu:a100=8,gres/gpu:h100=4,gres/gpu=12,gres/gpumem=80G,gres/gpuutil=50,node=2", "2", (2, 6)),
        ("gres/gpu=20,node=3", "3", (1, 20)),
        ("gres/gpu=2047,node=3", "3", (2047, 1)),
        ("gres/gpu=8192,node=1024", "1K", (1024, 8)),
        ("gres/gpu=16,node=2", "", (2, 8)),
    ],
)
def test_gpus_and_nodes_give_the_size(tmp_path, tres, nnodes, held):
    log = analysed(written(tmp_path, line(tres=tres, nnodes=nnodes, nodes="")))[0]
    assert (log["nodes"].iloc[0], log["gpus_per_node"].iloc[0]) == held


@pytest.mark.parametrize(
    ("column", "cell", "gpus"),
    [("ReqTRES", "cpu=8,gres/gpu=16", 8), ("AllocGRES", "gpu:h100:16", 8), ("ReqGRES", "PER_NODE:gpu:8", 8)],
)
def test_other_columns_give_the_gpus_where_alloctres_does_not(tmp_path, column, cell, gpus):
    path = written(tmp_path, f"{line(tres='', nnodes='2', nodes='')}|{cell}", header=f"{HEADER}|{column}")
    assert analysed(path)[0]["gpus_per_node"].iloc[0] == gpus


def test_gpus_that_nothing_tells_are_left_to_the_reader(tmp_path):
    path = written(tmp_path, line(state="NODE_FAIL", tres=""), line(start="2025-03-01T02:00:00", end="", tres=""))
    imported = read_sacct(path)
    assert imported.log["gpus_per_node"].isna().all()
    assert spans(mended([imported], str(path), gpus_per_node=4)[0])["gpu_hours"].sum() == 8


def test_a_job_that_was_requeued_and_waits_has_no_end(tmp_path):
    waits = line(
        state="PENDING", start="Unknown", end="Unknown", elapsed="00:00:00", submit="2025-03-01T01:00:00", tres=""
    )
    log, findings, parts, _ = analysed(written(tmp_path, line(state="PREEMPTED"), waits))
    assert "end" not in set(log["event"])
    assert (parts["gpu_hours"].sum(), "still-waiting" in codes_of(findings)) == (8, True)


def test_a_requeued_job_that_is_cancelled_in_the_queue_ends_then(tmp_path):
    gone = line(
        state="CANCELLED by 7", start="None", end="2025-03-01T03:00:00", elapsed="00:00:00", nodes="None assigned"
    )
    gone = gone.replace("None|2025", "None|2025").replace("|None|None|", "|2025-03-01T01:00:00|None|")
    log, _, parts, _ = analysed(written(tmp_path, line(state="NODE_FAIL"), gone))
    assert parts["category"].tolist() == ["unattributed", "waiting"]
    assert (seconds(parts), parts["gpu_hours"].sum(), log["event"].iloc[-1]) == (3 * 3600, 8, "end")


def test_some_releases_give_a_start_to_a_job_that_was_cancelled_in_the_queue(tmp_path):
    both = {"start": "2025-03-01T01:00:00", "end": "2025-03-01T01:00:00", "elapsed": "00:00:00", "tres": ""}
    gone = [line("2", "CANCELLED by 7", **both, nodes="None assigned"), line("3", "CANCELLED by 7", **both, nodes="")]
    _, findings, parts, _ = analysed(written(tmp_path, line("1"), *gone))
    assert set(parts["job"]) == {"1"}
    assert next(each.message for each in findings if each.code == "never-ran").endswith("2 (2, 3)")


def test_a_restart_count_above_the_attempts_that_are_there_is_told(tmp_path):
    path = written(tmp_path, f"{line()}|3", f"{line('2')}|0", header=HEADER + "|Restarts")
    found = [each for each in analysed(path)[1] if each.code == "earlier-attempts"]
    assert [(each.severity, each.line) for each in found] == [("warning", 2)]
    assert "restarted 3 times, 0 of the attempts before are here" in found[0].message


def test_a_record_that_a_later_report_completes_counts_once(tmp_path):
    running = line(state="RUNNING", end="Unknown", elapsed="00:30:00")
    _, findings, parts, _ = analysed(written(tmp_path, running, HEADER, line(), line()))
    assert (parts["gpu_hours"].sum(), "duplicates" in codes_of(findings)) == (8, True)


def test_an_attempt_without_an_end_before_a_later_one_is_closed_by_it(tmp_path):
    lost = line(state="RUNNING", end="Unknown", elapsed="99-00:00:00")
    log, findings, parts, _ = analysed(
        written(tmp_path, lost, line(start="2025-03-01T02:00:00", end="2025-03-01T03:00:00"))
    )
    assert (interruptions(log)["cause"].tolist(), parts["gpu_hours"].sum()) == (["unknown"], 24)
    assert "no-attempt-end" in codes_of(findings)


def test_jobs_of_two_clusters_with_one_id_are_two_jobs(tmp_path):
    path = written(tmp_path, f"{line()}|east", f"{line()}|west", header=HEADER + "|Cluster")
    assert list(analysed(path)[3].index) == ["east/1", "west/1"]


# suspended time


@pytest.mark.parametrize("suspended", ["|01:00:00", "|", None])
def test_suspended_time_is_found_with_its_column_or_without(tmp_path, suspended):
    job = line(elapsed="00:30:00", end="2025-03-01T01:30:00")
    header = HEADER if suspended is None else HEADER + "|Suspended"
    *_, parts, jobs = analysed(written(tmp_path, job + (suspended or ""), header=header))
    assert ledger(parts)["productive"] == jobs["held_gpu_hours"].sum() == 4
    assert seconds(parts[parts["category"] == "waiting"]) == 3600


def test_work_of_a_suspended_job_that_fails_is_charged_to_the_fault(tmp_path):
    *_, parts, jobs = analysed(written(tmp_path, line(state="NODE_FAIL", end="2025-03-01T03:00:00")))
    assert ledger(parts, "cause").to_dict() == {"node_fail": 8, "preemption": 0}
    assert (jobs["interruptions"].sum(), jobs["failures"].sum()) == (2, 1)


def test_a_job_that_is_suspended_now_holds_nothing_from_then_on(tmp_path):
    path = written(tmp_path, line(state="SUSPENDED", end="Unknown") + "|02:00:00", header=HEADER + "|Suspended")
    log = mended([read_sacct(path)], str(path), as_of=1_740_873_600_000_000)[0]
    assert spans(log)["gpu_hours"].sum() == 8


# times


def test_times_without_a_zone_are_utc_with_a_note_or_in_the_zone_that_is_given(tmp_path):
    path = written(tmp_path, line())
    log, findings, *_ = analysed(path)
    assert (str(log["time"].iloc[0]), "no-zone" in codes_of(findings)) == ("2025-03-01 00:00:00+00:00", True)
    log, findings, *_ = analysed(path, timezone="Asia/Tokyo")
    assert (str(log["time"].iloc[0]), "no-zone" in codes_of(findings)) == ("2025-02-28 15:00:00+00:00", False)


@pytest.mark.parametrize("start", ["2025-03-01T09:00:00+09:00", "2025-03-01T09:00:00+0900", "1740787200"])
def test_times_with_an_offset_and_epochs_are_read_as_they_are(tmp_path, start):
    log, *_ = analysed(written(tmp_path, line(start=start, end=start, elapsed="00:00:00")), timezone="Europe/Berlin")
    assert str(log["time"].iloc[0]) == "2025-03-01 00:00:00+00:00"


@pytest.mark.parametrize(
    ("start", "end", "elapsed"),
    [
        ("2025-10-26T02:30:00", "2025-10-26T02:45:00", "01:15:00"),  # summer, then winter time
        ("2025-10-26T02:30:00", "2025-10-26T02:45:00", "00:15:00"),
        ("2025-10-26T01:30:00", "2025-10-26T02:30:00", "02:00:00"),
        ("2025-10-26T02:30:00", "2025-10-26T04:00:00", "01:30:00"),
        ("2025-10-26T00:00:00", "2025-10-26T06:00:00", "07:00:00"),
        ("2025-03-30T00:00:00", "2025-03-30T06:00:00", "05:00:00"),
    ],
)
def test_elapsed_tells_which_of_two_times_a_clock_meant(tmp_path, start, end, elapsed):
    _, findings, parts, _ = analysed(
        written(tmp_path, line(start=start, end=end, elapsed=elapsed)), timezone="Europe/Berlin"
    )
    assert parts["category"].tolist() == ["productive"]
    assert seconds(parts) == seconds_of(elapsed)
    assert "times-disagree" not in codes_of(findings)
    is_ambiguous = "T02" in start or "T02" in end
    assert ("ambiguous-time" in codes_of(findings)) == is_ambiguous


def test_without_the_zone_a_change_of_clocks_costs_no_gpu_hours(tmp_path):
    fall = line(start="2025-10-26T00:00:00", end="2025-10-26T06:00:00", elapsed="07:00:00", state="NODE_FAIL")
    again = line(start="2025-10-26T06:10:00", end="2025-10-26T07:10:00")
    _, findings, parts, _ = analysed(written(tmp_path, fall, again))
    assert parts["gpu_hours"].sum() == 64
    assert {"times-disagree", "attempts-overlap"} <= codes_of(findings)
    spring = line(start="2025-03-30T00:00:00", end="2025-03-30T06:00:00", elapsed="05:00:00") + "|00:00:00"
    _, findings, parts, _ = analysed(written(tmp_path, spring, header=HEADER + "|Suspended"))
    assert (parts["gpu_hours"].sum(), set(parts["category"])) == (40, {"productive"})
    assert "times-disagree" in codes_of(findings)


def test_attempts_never_count_the_same_hours_twice(tmp_path):
    long = line(state="NODE_FAIL", end="2025-03-01T10:00:00", elapsed="10:00:00")
    _, findings, parts, _ = analysed(
        written(tmp_path, long, line(start="2025-03-01T04:00:00", end="2025-03-01T05:00:00"))
    )
    assert parts["gpu_hours"].sum() == (5 + 1) * 8
    assert any("its last 18000 s are left out" in finding.message for finding in findings)


def test_a_bad_zone_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"--timezone=Mars/Base must be an IANA name"):
        read_sacct(written(tmp_path, line()), timezone="Mars/Base")


# lines


@pytest.mark.parametrize("name", ["a|b", "|", "a|b|c|", "COMPLETED|2025-03-01T00:00:00", 'x" | y'])
def test_whatever_pipes_a_name_holds_nothing_is_shifted(tmp_path, name):
    log, _, parts, _ = analysed(written(tmp_path, line(name=name)))
    assert (log["name"].iloc[0], parts["gpu_hours"].sum()) == (name, 8)


def test_pipes_in_a_name_and_in_the_command_that_gave_it_are_told_apart(tmp_path):
    header = HEADER.replace("JobName|", "JobName|Elapsed|").replace("|Elapsed|NNodes", "|SubmitLine|NNodes")
    cells = "1|a|b|01:00:00|COMPLETED|2025-03-01T00:00:00|2025-03-01T00:00:00|2025-03-01T01:00:00"
    path = written(tmp_path, f"{cells}|sbatch -J 'a|b' x|1|{GPUS}|gpu001|0:0", header=header)
    log, _, parts, _ = analysed(path)
    assert (log["name"].iloc[0], parts["gpu_hours"].sum()) == ("a|b", 8)


def test_without_a_column_for_names_a_surplus_is_not_guessed_at(tmp_path):
    header = "JobID|State|Start|End|NNodes|Account"
    cells = "COMPLETED|2025-03-01T00:00:00|2025-03-01T01:00:00|1"
    imported = read_sacct(written(tmp_path, f"1|{cells}|a", f"2|{cells}|a|b", header=header))
    assert set(imported.log["job"]) == {"1"}
    assert [(bad.line, bad.job) for bad in imported.unreadable] == [(3, "2")]


@pytest.mark.parametrize("name", ["a\nb", "a\n\nb", "a\r\nb|c", "\na"])
def test_a_name_over_several_lines_shifts_nothing(tmp_path, name):
    log, findings, parts, _ = analysed(written(tmp_path, line("1"), line("2", name=name), line("3")))
    assert parts["gpu_hours"].tolist() == [8, 8, 8]
    assert log[log["job"] == "2"]["name"].iloc[0].replace("\r", "") == name.replace("\r", "")
    assert "broken-line" in codes_of(findings)


def test_a_torn_line_does_not_swallow_the_next(tmp_path):
    path = written(
        tmp_path, line("1"), line("2")[:30], line("3"), line("4")[:50], line("5")[:20], line("6"), line("7")[:40]
    )
    imported = read_sacct(path)
    assert set(imported.log["job"]) == {"1", "3", "6"}
    assert [(bad.line, bad.job) for bad in imported.unreadable] == [(3, "2"), (5, "4"), (6, "5"), (8, "7")]
    assert spans(mended([imported], str(path))[0])["gpu_hours"].sum() == 24


def test_a_line_that_cannot_be_read_leaves_its_job_open(tmp_path):
    path = written(tmp_path, line(state="NODE_FAIL"), line(start="2025-03-01T02:00:00")[:45])
    log, findings, *_ = analysed(path)
    assert "end" not in set(log["event"])
    assert codes_of(findings) & {"cut-tail", "unreadable"}


def test_a_step_that_cannot_be_read_costs_the_job_nothing(tmp_path):
    imported = read_sacct(written(tmp_path, line("1"), line("1.0", "???")))
    assert (imported.unreadable, "odd-step" in codes_of(imported.findings)) == ([], True)


@pytest.mark.parametrize(
    ("cell", "value"),
    [("start", "soon"), ("end", "9999-01-01T00:00:00"), ("elapsed", "999999-00:00:00"), ("elapsed", "1:2:3:4")],
)
def test_an_absurd_field_costs_one_line(tmp_path, cell, value):
    imported = read_sacct(written(tmp_path, line("1"), line("2", **{"submit": "Unknown", cell: value})))
    assert set(imported.log["job"]) == {"1"}
    assert imported.unreadable[0].why.startswith(f"{cell.capitalize()}={value!r}"[:8])


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"nnodes": "99999999"}, "absurd-size"),
        ({"tres": "gres/gpu=999999999,node=1"}, "absurd-size"),
        ({"nodes": "gpu[1-999999999]"}, "odd-field"),
        ({"nodes": "@all"}, "odd-field"),
        ({"nodes": "gpu[001-"}, "odd-field"),
    ],
)
def test_absurd_sizes_and_node_lists_are_findings(tmp_path, more, code):
    log, findings, *_ = analysed(written(tmp_path, line(**more)))
    assert code in codes_of(findings)
    assert log["nodes"].iloc[0] == 1


def test_control_characters_in_names_are_kept_as_data(tmp_path):
    assert analysed(written(tmp_path, line(name="a\x1b[31mb")))[0]["name"].iloc[0] == "a\x1b[31mb"


@pytest.mark.parametrize("change", ["-p", ";", "\t", "bom", "crlf", "gz", "banner", "%20", "lower", "blank", "no end"])
def test_the_text_may_be_written_in_many_ways(tmp_path, change):
    lines = [HEADER, line("1"), line("2", "NODE_FAIL"), ""]
    text = "\n".join(lines)
    if change == "-p":
        text = text.replace("\n", "|\n")
    elif change in (";", "\t"):
        text = text.replace("|", change)
    changed = {
        "bom": "\ufeff" + text,
        "crlf": text.replace("\n", "\r\n"),
        "banner": "Welcome to the cluster!\n\n" + text,
        "%20": text.replace("State", "State%20"),
        "lower": text.replace(HEADER, HEADER.lower()),
        "blank": text.replace("\n", "\n\n# kept\n"),
        "no end": text.rstrip("\n"),
    }
    path = tmp_path / ("sacct.txt.gz" if change == "gz" else "sacct.txt")
    data = changed.get(change, text).encode()
    path.write_bytes(gzip.compress(data) if change == "gz" else data)
    imported = read_sacct(path)
    assert spans(mended([imported], str(path))[0])["gpu_hours"].tolist() == [8, 8]
    assert imported.unreadable == []


def test_standard_input_is_read(tmp_path, monkeypatch):
    with open(written(tmp_path, line()), "rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert len(read_sacct(Path("-")).log) == 2


@pytest.mark.parametrize(
    "header",
    [
        "JobIDRaw|State|Start|End|AllocTRES",
        "JobID|State|Start|Elapsed|NNodes|AllocTRES",
        "JobID|State|Start|ElapsedRaw|AllocTRES",
        "AllocTRES|NodeList|End|Start|State|JobID",
    ],
)
def test_any_set_of_columns_that_has_what_is_needed_will_do(tmp_path, header):
    cells = dict(zip(HEADER.split("|"), line().split("|"), strict=True)) | {"JobIDRaw": "1", "ElapsedRaw": "3600"}
    path = written(tmp_path, "|".join(cells[name] for name in header.split("|")), header=header)
    assert analysed(path)[2]["gpu_hours"].sum() == 8


@pytest.mark.parametrize(
    ("header", "lacks"),
    [
        ("JobID|State", "Start and End or Elapsed and NNodes, AllocNodes, AllocTRES or NodeList"),
        ("JobID|State|Start|End", "NNodes, AllocNodes, AllocTRES or NodeList"),
        ("JobID|State|End|NNodes", "Start"),
    ],
)
def test_columns_that_are_missing_are_named_with_a_set_that_would_do(tmp_path, header, lacks):
    path = written(tmp_path, header=header)
    with pytest.raises(BadInput) as caught:
        read_sacct(path)
    would_do = "--format=JobID,JobName,State,Submit,Start,End,Elapsed,Suspended,NNodes,AllocTRES,NodeList,ExitCode"
    assert str(caught.value) == f"{path}:1: columns must also be {lacks}; {would_do} would do"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "file must be output of sacct -P"),
        ("sacct: error: Problem talking to the database\n", "file must be output of sacct -P"),
        (line() + "\n", "file must be output of sacct -P"),
        ('{"time": 0, "job": "a", "event": "start"}\n', "JSON must be of sacct --json"),
        ("JobID      JobName  State \n------ ----- -----\n1  a  COMPLETED\n", "columns must be divided by '|'"),
        (HEADER.replace("|", ",") + "\n", "columns must not be divided by commas"),
        ("\x00\xff\n" * 100, "file must be output of sacct -P"),
    ],
)
def test_what_is_no_output_of_sacct_is_refused_in_one_line(tmp_path, text, rule):
    path = tmp_path / "x"
    path.write_text(text, "utf-8")
    with pytest.raises(BadInput) as caught:
        read_sacct(path)
    assert rule in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_without_a_job_that_ran_gives_no_log_but_says_why(tmp_path):
    imported = read_sacct(
        written(tmp_path, line(state="PENDING", start="None", end="None", submit="2025-03-01T00:00:00"))
    )
    assert (imported.log, codes_of(imported.findings)) == (None, {"no-zone", "still-waiting"})


def test_sacct_is_recognised_and_nothing_else_is():
    assert looks_like_sacct(HEADER.encode()) and looks_like_sacct(b"\xef\xbb\xbfJobIDRaw|State|\n1|COMPLETED|\n")
    assert all(looks_like_sacct(json.dumps(document).encode()) for document in (OLD, MIDDLE, NEW))
    others = [
        b"",
        b"{}",
        b"JobID  State\n",
        b"jobid\n",
        b'{"jobs": [{"job_id": 1}]}',
        b"410001|a|COMPLETED\n",
        b"\xff\x00",
        b"jobid,state,end\n",
    ]
    assert not any(map(looks_like_sacct, others))


# node lists


def test_node_lists_expand_as_clustershell_does():
    texts = ["rack[1-2]n[01-02]-ib0", "n[1,02,003]", "a,b.c,d_e", "n[0-0]", "gpu[0998-1002,7]"]
    assert [expand_nodes(text) for text in texts[2:3]] == [["a", "b.c", "d_e"]]
    for text in texts:
        assert sorted(expand_nodes(text)) == sorted(NodeSet(text, resolver=RESOLVER_NOGROUP))


WORDS = st.builds(
    lambda prefix, first, more, suffix: f"{prefix}[{first}-{first + more}]{suffix}",
    st.from_regex(r"[a-z]{1,3}-?", fullmatch=True),
    st.integers(0, 2000),
    st.integers(0, 30),
    st.sampled_from(["", "-ib", ".x"]),
)


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_any_node_list_expands_as_clustershell_does(words):
    text = ",".join(words)
    assert set(expand_nodes(text)) == set(NodeSet(text, resolver=RESOLVER_NOGROUP))


@pytest.mark.parametrize("text", ["", "None assigned", "(null)", "Unknown"])
def test_no_node_list_names_no_nodes(text):
    assert expand_nodes(text) == []


@pytest.mark.parametrize(
    "text", ["a b", "n[1-", "n]1[", "n[2-1]", "n[x]", "n[]", ",", "a,,b", "@g", "n[1-9999]x[1-9999]"]
)
def test_what_is_no_node_list_is_refused(text):
    with pytest.raises(ValueError):
        expand_nodes(text)


# JSON of three releases


def unit(value):
    return {"set": True, "infinite": False, "number": value}


UNSET = {"set": False, "infinite": False, "number": 0}
TIME = {"submission": 1740786600, "start": 1740787200, "end": 1740794400, "elapsed": 7200, "suspended": 0}
TRES = [{"type": "cpu", "name": None, "id": 1, "count": 256}, {"type": "node", "name": None, "id": 4, "count": 4}]


def old_job(**more):
    """As Slurm 21.08 writes a job: bare words and numbers, null for what is not set."""
    gpus = {"type": "gres", "name": "gpu", "id": 1001, "count": 32}
    return {
        "allocation_nodes": 4,
        "array": {"job_id": 0, "limits": {"max": {"running": {"tasks": 0}}}, "task": None, "task_id": None},
        "cluster": "east",
        "exit_code": {"status": "SUCCESS", "return_code": 0},
        "het": {"job_id": 0, "job_offset": None},
        "job_id": 410002,
        "name": "pretrain-b",
        "nodes": "gpu[001-004]",
        "state": {"current": "COMPLETED", "reason": "None"},
        "steps": [],
        "time": dict(TIME),
        "tres": {"allocated": [*TRES, gpus], "requested": [*TRES, gpus]},
    } | more


def middle_job(**more):
    """As Slurm 23.02 writes a job: numbers that can be unset are objects."""
    return (
        old_job()
        | {
            "array": {"job_id": 0, "task_id": UNSET, "task": ""},
            "exit_code": {"status": "SUCCESS", "return_code": unit(0)},
            "het": {"job_id": 0, "job_offset": UNSET},
            "time": {key: unit(value) for key, value in TIME.items()},
            "tres": {"allocated": [*TRES, {"type": "gres", "name": "gpu:h100", "id": 1002, "count": 32}]},
        }
        | more
    )


def new_job(**more):
    """As Slurm 24.11 writes a job: states are lists, signals objects; it tells restarts and failed nodes."""
    return (
        middle_job()
        | {
            "exit_code": {"status": ["SUCCESS"], "return_code": unit(0), "signal": {"id": UNSET, "name": ""}},
            "failed_node": "",
            "restart_cnt": 0,
            "state": {"current": ["COMPLETED"], "reason": "None"},
            "time": dict(TIME),
        }
        | more
    )


def step(number, state, signal=None, **more):
    exit_code = {"status": "SIGNALED", "signal": {"signal_id": signal, "name": "x"}} if signal else {"return_code": 0}
    return {"state": state, "exit_code": exit_code, "time": dict(TIME), "step": {"id": number, "name": "s"}} | more


def document(*jobs, first=True):
    meta = {"plugin": {"type": "openapi/dbv0.0.37"}, "Slurm": {"release": "21.08.8-2"}}
    return {"meta": meta, "errors": [], "jobs": list(jobs)} if first else {"jobs": list(jobs), "meta": meta}


OLD, MIDDLE, NEW = document(old_job()), document(middle_job(), first=False), document(new_job(), first=False)


def dumped(tmp_path, *documents, indent=2):
    path = tmp_path / "sacct.json"
    path.write_text("\n".join(json.dumps(each, indent=indent) for each in documents), "utf-8")
    return path


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("found", [OLD, MIDDLE, NEW])
def test_the_json_of_three_releases_gives_the_same(tmp_path, found, indent):
    log, findings, parts, jobs = analysed(dumped(tmp_path, found, indent=indent))
    assert (list(jobs.index), parts["gpu_hours"].sum(), set(parts["category"])) == (["410002"], 64, {"productive"})
    first = log.iloc[0]
    assert (first["name"], first["nodes"], first["gpus_per_node"], first["node_names"]) == (
        "pretrain-b",
        4,
        8,
        "gpu[001-004]",
    )
    assert (first["queued_seconds"], str(first["time"])) == (600, "2025-03-01 00:00:00+00:00")
    assert "no-zone" not in codes_of(findings)


@pytest.mark.parametrize(
    ("job", "state"), [(old_job, "CANCELLED"), (middle_job, "CANCELLED"), (new_job, ["CANCELLED"])]
)
@pytest.mark.parametrize("number", [0, "0", "410002.0", {"job_id": 410002, "step_id": "0"}, unit(0)])
def test_in_json_too_the_worst_step_tells(tmp_path, job, state, number):
    steps = [step("batch", "COMPLETED"), step("410002.extern", ["FAILED"]), step(number, state, 10)]
    log = analysed(dumped(tmp_path, document(job(steps=steps))))[0]
    assert interruptions(log)["cause"].tolist() == ["user_cancel"]
    assert log[log["event"] == "end"]["signal"].tolist() == [10]


def test_the_signal_of_newer_releases_is_read(tmp_path):
    exit_code = {"status": ["SIGNALED"], "return_code": UNSET, "signal": {"id": unit(9), "name": "KILL"}}
    log = analysed(dumped(tmp_path, document(new_job(state={"current": ["FAILED"]}, exit_code=exit_code))))[0]
    assert log[log["event"] == "interrupt"]["signal"].tolist() == [9]


def test_a_requeue_chain_in_json_is_one_job(tmp_path):
    first = new_job(state={"current": ["PENDING", "REQUEUED"]})
    again = new_job(time=dict(TIME, submission=1740794400, start=1740798000, end=0, elapsed=60), restart_cnt=1)
    again |= {"state": {"current": ["RUNNING", "COMPLETING"]}}
    log, findings, parts, _ = analysed(dumped(tmp_path, document(first, again)))
    assert (interruptions(log)["cause"].tolist(), log["attempt"].max()) == (["requeue"], 2)
    assert parts["gpu_hours"].sum() == pytest.approx(64 + 32 / 60)
    assert {"still-running", "no-end"} <= codes_of(findings) and "earlier-attempts" not in codes_of(findings)


def test_arrays_heterogeneous_jobs_and_failed_nodes_in_json_are_read(tmp_path):
    task = new_job(job_id=8, array={"job_id": 7, "task_id": unit(3), "task": ""})
    waits = new_job(job_id=9, array={"job_id": 7, "task_id": UNSET, "task": "4-9%2"}, state={"current": ["PENDING"]})
    waits |= {"time": dict(TIME, start=0, end=0, elapsed=0), "nodes": "None assigned"}
    het = [new_job(job_id=20 + k, het={"job_id": 20, "job_offset": unit(k)}) for k in (0, 1)]
    failed = new_job(job_id=30, state={"current": ["NODE_FAIL"]}, failed_node="gpu003")
    log, findings, parts, _ = analysed(dumped(tmp_path, document(task, waits, *het, failed)))
    assert ledger(parts, "job").to_dict() == {"20": 128, "30": 64, "7_3": 64}
    assert interruptions(log)["node"].tolist() == ["gpu003"]
    assert any("7_[4-9%2]" in finding.message for finding in findings)


def test_json_that_breaks_off_is_read_up_to_there(tmp_path):
    path = dumped(tmp_path, document(new_job(job_id=1), new_job(job_id=2), new_job(job_id=3)))
    text = path.read_text("utf-8")
    path.write_text(text[: text.index('"job_id": 3') + 20], "utf-8")
    log, findings, *_ = analysed(path)
    assert set(log["job"]) == {"1", "2"}
    assert codes_of(findings) & {"cut-tail", "unreadable"}


def test_a_broken_job_in_json_costs_one_job(tmp_path):
    path = dumped(tmp_path, document(*[new_job(job_id=number) for number in (1, 2, 3)]))
    path.write_text(path.read_text("utf-8").replace('"job_id": 2,', '"job_id" 2,'), "utf-8")
    imported = read_sacct(path)
    assert set(imported.log["job"]) == {"1", "3"}
    assert len(imported.unreadable) == 1


def test_documents_of_json_behind_each_other_are_all_read(tmp_path):
    path = dumped(tmp_path, document(new_job(job_id=1)), document(new_job(job_id=2), new_job(job_id=1)))
    assert set(read_sacct(path).log["job"]) == {"1", "2"}


@pytest.mark.parametrize(
    "odd",
    [
        {"time": None},
        {"time": {"start": True}},
        {"state": {"current": []}},
        {"state": 7},
        {"steps": {}},
        {"steps": [None, 3, {"step": []}]},
        {"tres": {"allocated": [None, {"count": "x"}]}},
        {"name": "\ud800"},
        {"job_id": None},
        {"job_id": 2**64},
        {"time": dict(TIME, start=1e30)},
        {"time": dict(TIME, start=1740787200000)},
        {"time": dict(TIME, elapsed=-5)},
        {"array": [], "het": 3},
        {"nodes": ["gpu001"]},
    ],
)
def test_json_of_the_wrong_kind_costs_one_job_at_most(tmp_path, odd):
    path = dumped(tmp_path, document(new_job(job_id=1), new_job(job_id=2) | odd))
    log = mended([read_sacct(path)], str(path))[0]
    assert spans(log).query("job == '1'")["gpu_hours"].sum() == 64


# laws


def test_the_shipped_sample_holds_a_thousand_gpu_hours_of_five_jobs():
    """710001: 24 h x 32 in three attempts; 710014_1, _2: 4 h 12 s and 2 h x 8; 710020: 3 h x 8; 710022: 10 h x 16."""
    log, findings, parts, jobs = analysed(SAMPLE)
    assert jobs["held_gpu_hours"].sum() == pytest.approx(768 + 4 * 8 + 12 / 450 + 2 * 8 + 24 + 160)
    assert ledger(parts)["productive"] == 12 * 32 + 24 + 160
    assert interruptions(log)["node"].dropna().tolist() == ["gpu003"]
    assert {finding.severity for finding in findings} == {"note"}


def test_a_converted_log_gives_the_same_spans(tmp_path):
    log, _, parts, _ = analysed(SAMPLE)
    write_log(log, tmp_path / "events.jsonl")
    again = spans(read_log(tmp_path / "events.jsonl")[0])
    assert [tuple(row) for row in again.astype(object).itertuples(index=False)] == [
        tuple(row) for row in parts.astype(object).itertuples(index=False)
    ] or again.equals(parts)


def check_laws(path):
    """Whatever the file: it is refused in one line, or its spans tile each run of each job exactly."""
    try:
        imported = read_sacct(path)
        log, found = mended([imported], str(path))
    except BadInput as error:
        assert "\n" not in str(error).replace(str(path), "")
        return
    assert codes_of(found[len(imported.findings) :]) <= {"no-end", "no-size", "unreadable", "cut-tail"}
    assert len(interruptions(log)) == len(interruptions(imported.log))
    parts = spans(log)
    assert (parts["gpu_hours"] >= 0).all() and np.isfinite(parts["gpu_hours"]).all()
    for job, of_job in parts.groupby("job", observed=True):
        events = log[log["job"] == job]
        starts_again = (events["event"].shift() == "end").cumsum()
        lives = micros(events["time"].groupby(starts_again).max()) - micros(events["time"].groupby(starts_again).min())
        assert (micros(of_job["end"]) - micros(of_job["start"])).sum() == lives.sum()
        assert all(end <= start for (_, end), (start, _) in pairwise(zip(of_job["start"], of_job["end"], strict=True)))


VALID = [
    (CASES / "B01.sacct_D.txt").read_text("utf-8"),
    (CASES / "B02.sacct.txt").read_text("utf-8"),
    SAMPLE.read_text("utf-8"),
    "\n".join([HEADER, line("9+0"), line("9+1"), line("7_1", "OUT_OF_ME+"), line("7_2", "RESIZING"), line("7_2")]),
    json.dumps(document(old_job(steps=[step(0, "FAILED", 9)])), indent=1),
    json.dumps(document(new_job(), new_job(job_id=3, state={"current": ["TIMEOUT"]})), indent=1),
]
PIECES = [
    "|",
    "\n",
    "\0",
    "\ufeff",
    ".",
    "+",
    "[1-9]",
    "Unknown",
    "NODE_FAIL",
    "1-00:00:00",
    "2025-03-30T02:30:00",
    "9" * 12,
]
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["cut", "put", "double", "swap", "end"]),
        st.floats(0, 1),
        st.floats(0, 1),
        st.sampled_from(PIECES),
    ),
    min_size=1,
    max_size=6,
)


def edited(text, edits):
    """Return a text with pieces cut out, put in, doubled, moved, or cut off."""
    for kind, where, length, piece in edits:
        at, until = int(where * len(text)), int(where * len(text) + length**4 * 300)
        part = text[at:until]
        text = {
            "cut": text[:at] + text[until:],
            "put": text[:at] + piece + text[at + len(piece) * (length > 0.5) :],
            "double": text[:until] + part + text[until:],
            "swap": text[:at] + text[until : until + len(part)] + part + text[until + len(part) :],
            "end": text[:at] if length > 0.9 else text,
        }[kind]
    return text


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.sampled_from(VALID), edits=EDITS)
def test_whatever_is_done_to_a_file_nothing_breaks_and_all_adds_up(tmp_path, text, edits):
    path = tmp_path / "fuzzed"
    path.write_bytes(edited(text, edits).encode("utf-8", "surrogatepass"))
    check_laws(path)


CELLS = {
    "JobID": ["1", "1", "1", "2+0", "2+1", "3_1", "1.0", "1.batch", "1.extern", "x", ""],
    "State": [*(word for word in KINDS if word.isupper()), "CANCELLED by 1", "ODD", ""],
    "Time": [
        "2025-03-01T00:00:00",
        "2025-03-01T01:00:00",
        "2025-03-01T01:00:30",
        "2025-10-26T02:30:00",
        "Unknown",
        "None",
        "",
    ],
    "Elapsed": ["00:00:00", "01:00:00", "00:30:00", "2-00:00:00", "UNLIMITED", ""],
    "NNodes": ["1", "2", "3", "0", "1K", "", "99999999"],
    "AllocTRES": [GPUS, "gres/gpu:a=8,gres/gpu:b=4,node=3", "cpu=1", "", "gres/gpu=0", "gres/gpu=999999"],
    "NodeList": ["gpu001", "gpu[001-002]", "None assigned", "", "gpu[", "gpu[1-99999999]"],
}
KEYS = ["JobID", "State", "Time", "Time", "Time", "Elapsed", "Elapsed", "NNodes", "AllocTRES", "NodeList"]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(*(st.sampled_from(CELLS[key]) for key in KEYS)), min_size=1, max_size=8))
def test_whatever_the_records_are_all_adds_up(tmp_path, rows):
    header = "JobID|State|Submit|Start|End|Elapsed|Suspended|NNodes|AllocTRES|NodeList"
    check_laws(written(tmp_path, *map("|".join, rows), header=header))


def test_no_finding_holds_a_line_break(tmp_path):
    for text in VALID:
        path = tmp_path / "valid"
        path.write_text(text, "utf-8")
        assert not any(re.search(r"[\r\n]", finding.message) for finding in read_sacct(path).findings)
