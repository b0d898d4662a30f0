"""Megatron-LM's log text: each case against its right value, others of the same kinds by hand, and a fuzz."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodput.attribution import interruptions, ledger, spans
from goodput.errors import BadInput
from goodput.events import CODE, codes, micros
from goodput.importers.megatron import looks_like_megatron, read_megatron
from goodput.logfile import mended
from goodput.logtext import log_text
from goodput.metrics import is_failure, per_job, reference_steps

CASES = Path(__file__).parent / "cases"
EXPECTED = {name: case["expect"] for name, case in json.loads((CASES / "expected.json").read_text("utf-8")).items()}
SAMPLE = Path(__file__).parents[1] / "data" / "logs" / "megatron_sample.log"


def step(clock: str, iteration: int, ms: float, day: str = "2025-03-01") -> str:
    """Return an iteration line."""
    rest = "throughput per GPU (TFLOP/s/GPU): 410.0 | lm loss: 2.1E+00 | number of nan iterations:   0 |"
    return f" [{day} {clock}] iteration {iteration:8d}/    1000 | elapsed time per iteration (ms): {ms:.1f} | {rest}"


def saved(iteration: int, ms: float | None = None) -> list[str]:
    """Return the lines of a save that stops training, with its timer where there is one."""
    timer = (
        ["(min, max) time across ranks (ms):", f"    save-checkpoint ......: ({ms - 1:.2f}, {ms:.2f})"] if ms else []
    )
    lines = [f"saving checkpoint at iteration {iteration:7d} to /ckpt in torch_dist format"]
    return [*lines, f"  successfully saved checkpoint from iteration {iteration:7d} to /ckpt [ t 1/8, p 1/1 ]", *timer]


def sent(iteration: int, ms: float) -> list[str]:
    """Return the lines of a save that goes on behind training."""
    lines = saved(iteration, ms)
    return [lines[0], f"  scheduled an async checkpoint save at iteration {iteration:7d} to /ckpt", *lines[2:]]


def loaded(iteration: int) -> str:
    return f"  successfully loaded checkpoint from /ckpt [ t 1/8, p 1/1 ] at iteration {iteration}"


def timeout(rank: int, clock: str, sequence: int, ms: int) -> str:
    work = f"WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000)"
    place = f"[rank{rank}]:[E301 {clock} ProcessGroupNCCL.cpp:632] [Rank {rank}]"
    return f"{place} Watchdog caught collective operation timeout: {work} ran for {ms} milliseconds before timing out."


@pytest.fixture
def read(tmp_path):
    """Return a function that reads lines as a log."""

    def read_lines(*lines: str | list[str], timezone: str | None = None, name: str = "run.log"):
        flat = [each for line in lines for each in ([line] if isinstance(line, str) else line)]
        path = tmp_path / name
        path.write_text("\n".join(flat) + "\n")
        return mended([read_megatron(path, timezone)], str(path))

    return read_lines


def seconds(log) -> dict[str, float]:
    """Return the seconds of each category that has any."""
    parts = spans(log)
    length = (parts["end"] - parts["start"]).dt.total_seconds()
    return length.groupby(parts["category"].astype(str)).sum().round(6).to_dict()


def told(findings) -> set[str]:
    return {finding.code for finding in findings} - {"no-zone", "no-size", "no-end"}


# --- the cases -----------------------------------------------------------------------------------------------------


def test_averages_a_slow_first_step_and_saves_without_a_clock_add_up():
    """Iterations 21 to 30 take 69 s by stamps cut to seconds, 39.9 + 30.0 s by the timers: both within a second."""
    log, findings = mended([read_megatron(CASES / "B23.megatron.log")], "B23")
    right = EXPECTED["B23"]
    assert seconds(log) == {
        "restart": right["startup_excess_s"],
        "productive": right["training_s"],
        "checkpoint": right["checkpoint_s"],
    }
    kept, _ = reference_steps(log, spans(log), right["step_s"])
    assert kept == right["iterations"]
    assert told(findings) == set()


def test_watchdog_lines_of_all_ranks_are_one_hang_that_began_half_an_hour_before():
    log, findings = mended([read_megatron(CASES / "B19.nccl.log")], "B19")
    right = EXPECTED["B19"]
    struck = interruptions(log)
    assert len(struck) == right["incidents"]
    assert f"{struck['time'][0]:%H:%M:%S.%f}"[:-3] == right["onset"]
    detected = log.loc[log["event"] == "detected", "time"].iloc[0]
    assert f"{detected:%H:%M:%S.%f}"[:-3] == right["detected"]
    assert seconds(log)["detection"] == right["detection_s"]
    assert log.loc[log["event"] == "interrupt", "suspect_rank"].tolist() == [right["suspect_rank"]]
    assert "no-year" in told(findings)


def test_the_sample_that_ships_adds_up_to_what_is_worked_out_by_hand():
    """16 GPUs. The first line after the start takes 38 s for 10 iterations that take 20 s: 18 s of start-up.

    00:00:00 up, 00:02:18 training; 40 s; save 10 s; 40 s; evaluation 5 s; async save 1 s; 40 s to iteration 60, 6 s
    more until the hang of 00:04:40, seen at 00:14:40. Up again at 00:30:00 from iteration 40, whose save became durable
    at 00:04:34: 46 s are lost. Training at 00:32:06 (6 s of start-up), 60 s until it is done.
    """
    log, findings = mended([read_megatron(SAMPLE)], "sample")
    by_hand = {
        "productive": 40 + 40 + 60,
        "checkpoint": 10 + 1,
        "lost_work": 46,
        "detection": 600,
        "waiting": 920,
        "restart": 138 + 126,
        "unattributed": 5,
    }
    assert seconds(log) == by_hand
    assert spans(log)["gpu_hours"].sum() == pytest.approx(16 * 1986 / 3600, rel=1e-12)
    assert ledger(spans(log), "cause")["collective_hang"] == pytest.approx(16 * (46 + 600 + 920 + 126) / 3600)
    assert log.loc[log["event"] == "interrupt", "suspect_rank"].tolist() == [11]
    assert told(findings) == {"evaluation", "no-nodes"}


# --- starts and averages -------------------------------------------------------------------------------------------


def test_the_first_iteration_has_a_line_of_its_own_in_newer_releases(read):
    """Iteration 1 took 20 s, each other one 2 s; the line of iteration 10 averages over the first as well: 3.8 s."""
    log, _ = read(
        step("00:00:20.000000", 1, 20000), step("00:00:38.000000", 10, 3800), step("00:00:58.000000", 20, 2000)
    )
    assert seconds(log) == {"restart": 18.0, "productive": 40.0}


def test_start_up_lines_tell_from_when_on_the_nodes_were_held(read):
    """Up at 00:00, the training loop is reached at 00:03, its first 10 iterations take 50 s instead of 20."""
    log, findings = read(
        "[after megatron is initialized] datetime: 2025-03-01 00:00:00 ",
        "[before the start of training step] datetime: 2025-03-01 00:03:00 ",
        step("00:03:50", 10, 5000),
        step("00:04:10", 20, 2000),
    )
    assert seconds(log) == {"restart": 180 + 30, "productive": 40}
    assert told(findings) == set()


def test_the_world_size_gives_the_gpus(read):
    log, findings = read("using world size: 64, data-parallel size: 8", step("00:00:20", 10, 2000))
    assert (log["nodes"].iloc[0], log["gpus_per_node"].iloc[0]) == (64, 1)
    assert "no-nodes" in told(findings)


def test_a_log_without_its_head_is_seen_from_its_first_interval_on(read):
    log, findings = read(step("00:00:20", 5010, 2000), step("00:00:40", 5020, 2000), step("00:01:00", 5030, 2000))
    assert seconds(log) == {"productive": 60}
    assert "no-start" in told(findings)


def test_one_iteration_line_alone_cannot_tell_start_up_from_training(read):
    log, findings = read(step("00:00:48", 10, 4800))
    assert seconds(log) == {"productive": 48}
    assert "startup-unknown" in told(findings)


# --- saves ---------------------------------------------------------------------------------------------------------


def test_a_save_without_a_timer_takes_what_the_stamps_leave(read):
    log, _ = read(step("00:00:20", 10, 2000), step("00:00:40", 20, 2000), saved(20), step("00:01:35", 30, 2000))
    assert seconds(log) == {"productive": 60, "checkpoint": 35}


def test_a_save_between_two_lines_stands_behind_its_iteration(read):
    """Saved at 25 of 20 to 30: 10 s of training, 5 s of save, 10 s of training; a fault loses all after its start."""
    log, _ = read(
        step("00:00:20", 10, 2000),
        step("00:00:40", 20, 2000),
        saved(25, 5000),
        step("00:01:05", 30, 2000),
        loaded(25),
        step("00:05:10", 30, 2000),
    )
    start = log.loc[log["event"] == "checkpoint_start", "time"].iloc[0]
    assert f"{start:%H:%M:%S}" == "00:00:50"
    # iterations 26 to 30 take 10 s: they begin again at 00:05:00
    assert seconds(log) == {"productive": 50 + 10, "checkpoint": 5, "lost_work": 10, "unattributed": 235}


@pytest.mark.parametrize(
    "timer",
    [
        ["max time across ranks (ms):", "    save-checkpoint ................................: 7000.00"],
        ["times across ranks (ms):", "  save-checkpoint:", "     rank  0: 6990.01", "     rank  1: 7000.00"],
        ["(min, max) time across ranks (ms): save-checkpoint ......................: (6990.01, 7000.00)"],
        ["time (ms) | save-checkpoint: 7000.00"],
    ],
)
def test_a_timer_may_be_written_in_any_of_its_ways(read, timer):
    log, _ = read(step("00:00:20", 10, 2000), saved(10), timer, step("00:00:47", 20, 2000))
    assert seconds(log)["checkpoint"] == 7


def test_stamped_saves_stand_where_their_stamps_say(read):
    log, _ = read(
        step("00:00:20.000000", 10, 2000),
        "[2025-03-01 00:00:20.500000] saving checkpoint at iteration      10 to /ckpt in torch_dist format",
        "  [2025-03-01 00:00:24.250000] successfully saved checkpoint from iteration      10 to /ckpt [ t 1/8, p 1/1 ]",
        step("00:00:44.250000", 20, 2000),
    )
    times = [f"{time:%S.%f}" for time in log.loc[log["event"].str.startswith("checkpoint"), "time"]]
    assert times == ["20.500000", "24.250000"]


def test_an_async_save_counts_only_once_it_is_finished(read):
    """Saved at 10 (finished behind iteration 20) and at 30, which nobody finished: iterations 11 to 40 are lost."""
    log, _ = read(
        step("00:00:20", 10, 2000),
        sent(10, 1000),
        step("00:00:41", 20, 2000),
        saved(10)[1],
        step("00:01:01", 30, 2000),
        sent(30, 1000),
        step("00:01:22", 40, 2000),
        loaded(10),
        step("00:10:00", 20, 2000),
    )
    assert seconds(log) == {"productive": 20 + 20, "checkpoint": 2, "lost_work": 60, "unattributed": 498}
    assert log["event"].tolist().count("checkpoint_durable") == 1


def test_a_save_that_was_cut_is_not_durable(read):
    log, _ = read(
        step("00:00:20", 10, 2000),
        saved(10, 1000),
        step("00:00:41", 20, 2000),
        saved(20)[0],
        loaded(10),
        step("00:10:00", 20, 2000),
    )
    assert seconds(log)["lost_work"] == 20


def test_a_save_newer_than_the_one_that_was_loaded_is_not_counted(read):
    log, findings = read(
        step("00:00:20", 10, 2000),
        saved(10, 1000),
        step("00:00:41", 20, 2000),
        saved(20, 1000),
        step("00:01:02", 30, 2000),
        loaded(10),
        step("00:10:00", 20, 2000),
    )
    assert seconds(log)["lost_work"] == 40
    assert "save-not-loaded" in told(findings)


# --- faults --------------------------------------------------------------------------------------------------------


def test_a_number_that_does_not_grow_is_a_restart(read):
    """Iteration 30 at 00:01:10, iteration 30 again at 00:05:00: from 00:01:10 to 00:04:40 nobody knows."""
    log, findings = read(
        step("00:00:20", 10, 2000),
        step("00:00:40", 20, 2000),
        saved(20, 10000),
        step("00:01:10", 30, 2000),
        step("00:05:00", 30, 2000),
    )
    assert seconds(log) == {"productive": 40 + 20, "checkpoint": 10, "lost_work": 20, "unattributed": 210}
    assert interruptions(log)["cause"].tolist() == ["not_logged"]
    assert "no-fault-time" in told(findings)


def test_a_restart_with_a_single_line_takes_the_log_interval_of_the_others(read):
    """Lines of 30 iterations, 60 s; iteration 90 again at 00:10:00: its interval began at 00:09:00, from 60."""
    log, _ = read(*(step(f"00:0{n}:00", 30 * n, 2000) for n in (1, 2, 3)), step("00:10:00", 90, 2000))
    assert seconds(log) == {"productive": 60, "lost_work": 180, "unattributed": 360}


def test_a_restart_has_its_own_start_up(read):
    log, _ = read(
        step("00:00:20", 10, 2000),
        saved(10, 1000),
        step("00:00:41", 20, 2000),
        "[after megatron is initialized] datetime: 2025-03-01 00:02:41 ",
        loaded(10),
        step("00:05:00", 20, 8000),
        step("00:05:20", 30, 2000),
    )
    # up at 00:02:41; iterations 11 to 20 begin at 00:03:40 and take 60 s too long
    assert seconds(log) == {"productive": 60, "checkpoint": 1, "lost_work": 20, "unattributed": 120, "restart": 119}


@pytest.mark.parametrize(
    ("line", "cause", "fails"),
    [
        ("[exiting program after 1430.5 minutes] datetime: 2025-03-01 00:00:41 ", "time_limit", False),
        ("[exiting program at iteration 20] datetime: 2025-03-01 00:00:41 ", "planned", False),
        (
            "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2025-03-01T00:00:41 DUE TO TIME LIMIT ***",
            "time_limit",
            False,
        ),
        (
            "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2025-03-01T00:00:41 DUE TO PREEMPTION ***",
            "preemption",
            False,
        ),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2025-03-01T00:00:41 ***", "user_cancel", False),
        (
            "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2025-03-01T00:00:41 DUE TO NODE FAILURE ***",
            "node_lost",
            True,
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "out_of_memory", True),
        ("srun: error: *** STEP 7.0 ON n1 CANCELLED AT 2025-03-01T00:00:41 ***", "not_logged", True),
    ],
)
def test_what_ended_a_run_is_a_failure_only_where_nobody_chose_it(read, line, cause, fails):
    log, _ = read(step("00:00:20", 10, 2000), step("00:00:40", 20, 2000), line, loaded(20), step("00:05:00", 30, 2000))
    struck = interruptions(log)
    assert struck["cause"].tolist() == [cause]
    assert is_failure(struck).tolist() == [fails]


def test_a_hang_is_not_training_and_its_ranks_may_come_in_any_order(read):
    """Iterations of 2 s until 00:00:40; the collective hangs since 00:00:45 and is given up at 00:10:45."""
    log, _ = read(
        step("00:00:20", 10, 2000),
        saved(10)[:1],
        saved(10)[1:],
        step("00:00:40", 20, 2000),
        timeout(4, "00:10:46.000000000", 91, 601000),
        timeout(2, "00:10:45.000000000", 91, 600000),
        timeout(7, "00:10:48.500000000", 88, 603500),
        loaded(10),
        step("00:20:00", 20, 2000),
    )
    assert seconds(log) == {"productive": 20 + 20, "lost_work": 25, "detection": 600, "waiting": 19 * 60 + 40 - 645}
    assert log.loc[log["event"] == "interrupt", "suspect_rank"].tolist() == [7]


def test_two_ranks_behind_are_no_suspect(read):
    log, _ = read(
        *(timeout(rank, "05:00:00.0", sequence, 600000) for rank, sequence in ((0, 7), (1, 7), (2, 8), (3, 8)))
    )
    assert log.loc[log["event"] == "interrupt", "suspect_rank"].tolist() == [None]


def test_a_hang_without_a_clock_is_the_cause_of_the_next_restart(read):
    line = "[E ProcessGroupNCCL.cpp:828] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9) "
    log, _ = read(
        step("00:00:20", 10, 2000), f"{line}ran for 600500 milliseconds before timing out.", step("00:20:00", 10, 2000)
    )
    assert interruptions(log)["cause"].tolist() == ["collective_hang"]


def test_the_year_of_a_watchdog_line_is_the_one_next_to_the_dated_lines(read):
    log, _ = read(
        step("23:59:20", 10, 2000, day="2024-12-31"),
        step("23:59:40", 20, 2000, day="2024-12-31"),
        timeout(0, "00:09:50.0", 5, 600000).replace("E301", "E101"),
        timeout(1, "00:09:50.0", 6, 600000).replace("E301", "E101"),
    )
    assert f"{log['time'].max():%Y-%m-%d %H:%M:%S}" == "2025-01-01 00:09:50"
    assert seconds(log)["detection"] == 600


# --- holes, doubles, torn lines ------------------------------------------------------------------------------------


def test_iterations_without_a_line_are_a_hole_and_counted(read):
    """Lines of 10 iterations; that of 30 is missing: of the 42 s before 40 only 20 s are known to be training."""
    log, findings = read(
        step("00:00:20", 10, 2000),
        step("00:00:40", 20, 2000),
        step("00:01:22", 40, 2000),
        step("00:01:42", 50, 2000),
        step("00:02:02", 60, 2000),
    )
    assert seconds(log) == {"productive": 100, "unattributed": 22}
    assert [f.message for f in findings if f.code == "missing-lines"] == [
        "no line tells of iterations 21 to 30: 22.0 s are unattributed"
    ]


def test_a_hole_is_not_the_time_of_the_save_in_it(read):
    log, _ = read(*(step(f"00:00:{20 * n}", 10 * n, 2000) for n in (1, 2)), saved(20), step("00:01:42", 40, 2000))
    assert seconds(log) == {"productive": 60, "unattributed": 42}


def test_evaluation_is_no_training_and_loses_nothing(read):
    """30 s of evaluation behind iteration 10; the fault behind iteration 20 loses all 40 s, for nothing was saved."""
    evaluated = " validation loss at iteration 10 | lm loss value: 2.0E+00 | lm loss PPL: 7.4E+00 |"
    lines = [step("00:00:20", 10, 2000), evaluated, step("00:01:10", 20, 2000)]
    log, findings = read(*lines)
    assert seconds(log) == {"productive": 40, "unattributed": 30}
    assert ledger(spans(log), "cause").round(9).to_dict() == {"evaluation": round(30 / 3600, 9)}
    assert told(findings) == {"evaluation"}
    log, _ = read(*lines, step("00:10:00", 10, 2000))
    assert seconds(log) == {"lost_work": 40, "productive": 20, "unattributed": 30 + 510}


def test_what_no_line_explains_is_unattributed_and_said(read):
    log, findings = read(step("00:00:20", 10, 2000), step("00:01:10", 20, 2000))
    assert seconds(log) == {"productive": 40, "unattributed": 30}
    assert told(findings) == {"hole"}


def test_doubled_lines_are_dropped_and_late_ones_put_in_their_place(read):
    clean, _ = read(*(step(f"00:00:{2 * n:02}", n, 2000) for n in range(1, 9)))
    lines = [step(f"00:00:{2 * n:02}", n, 2000) for n in (1, 1, 2, 3, 5, 4, 6, 7, 7, 8)]
    mixed, findings = read(*lines)
    assert seconds(mixed) == seconds(clean) == {"productive": 16}
    assert len(interruptions(mixed)) == 0
    assert "duplicates" in told(findings)


def test_a_torn_line_costs_its_own_interval_alone(read):
    whole = step("00:01:00", 30, 2000)
    log, findings = read(
        step("00:00:20", 10, 2000),
        step("00:00:40", 20, 2000),
        whole[:60],
        step("00:01:20", 40, 2000),
        step("00:01:40", 50, 2000),
    )
    assert seconds(log) == {"productive": 80, "unattributed": 20}
    assert [(f.severity, f.line) for f in findings if f.code == "unreadable"] == [("warning", 3)]


def test_a_cut_last_line_is_but_a_note(read):
    log, findings = read(step("00:00:20", 10, 2000), step("00:00:40", 20, 2000), step("00:01:00", 30, 2000)[:60])
    assert seconds(log) == {"productive": 40}
    assert [(f.severity, f.line) for f in findings if f.code == "cut-tail"] == [("note", 3)]


def test_a_clock_that_is_set_back_gives_no_negative_time(read):
    log, _ = read(
        step("00:10:20", 10, 2000), step("00:10:40", 20, 2000), step("00:05:00", 30, 2000), step("00:10:50", 40, 2000)
    )
    assert min(seconds(log).values()) >= 0


# --- zones, files, refusals ----------------------------------------------------------------------------------------


def test_times_are_read_in_the_zone_that_is_given(read):
    log, findings = read(step("02:00:20", 10, 2000), timezone="Asia/Tokyo")
    assert f"{log['time'].max():%Y-%m-%d %H:%M:%S}" == "2025-02-28 17:00:20"
    assert [f.message for f in findings if f.code == "no-zone"] == ["times have no zone: read as Asia/Tokyo"]


def test_the_hour_that_the_clock_shows_twice_is_read_so_that_time_goes_on(read):
    """In Berlin 02:59:50 on 26 October 2025 is followed by 02:00:10, 20 s later."""
    log, findings = read(
        step("02:59:30", 10, 2000, day="2025-10-26"),
        step("02:59:50", 20, 2000, day="2025-10-26"),
        step("02:00:10", 30, 2000, day="2025-10-26"),
        timezone="Europe/Berlin",
    )
    assert seconds(log) == {"productive": 60}
    assert "ambiguous-time" in told(findings)


def test_packed_logs_and_prefixes_of_launchers_are_read(tmp_path):
    path = tmp_path / "run.log.gz"
    lines = [f"12: {step('00:00:20', 10, 2000)}", f"[default0]:{step('00:00:40', 20, 2000)}"]
    path.write_bytes(gzip.compress("\r\n".join(lines).encode()))
    log, _ = mended([read_megatron(path)], str(path))
    assert seconds(log) == {"productive": 40}
    assert log["job"].unique().tolist() == ["run"]


@pytest.mark.parametrize("text", ["", "hello\n", '{"time": 1, "job": "a", "event": "start"}\n', "\0\0\n"])
def test_what_is_no_such_log_is_refused_in_one_line(tmp_path, text):
    (tmp_path / "x.log").write_text(text)
    with pytest.raises(BadInput, match=r"^.*x\.log: must hold iteration lines or NCCL watchdog lines") as refused:
        read_megatron(tmp_path / "x.log")
    assert "\n" not in str(refused.value)


def test_iteration_lines_without_a_clock_are_refused_with_the_reason(tmp_path):
    (tmp_path / "x.log").write_text(" iteration       10/    1000 | elapsed time per iteration (ms): 2000.0 |\n")
    with pytest.raises(BadInput, match="those in it have no time"):
        read_megatron(tmp_path / "x.log")


def test_it_is_recognised_where_that_is_safe():
    assert all(looks_like_megatron((CASES / name).read_bytes()) for name in ("B19.nccl.log", "B23.megatron.log"))
    others = sorted(path for path in CASES.iterdir() if path.suffix in (".jsonl", ".txt"))
    assert [path.name for path in others if looks_like_megatron(path.read_bytes())] == []


# --- fuzz ----------------------------------------------------------------------------------------------------------

_PLACE = st.integers(0, 10**6)
_CHANGE = st.tuples(
    st.sampled_from(["drop", "double", "swap", "cut", "byte", "digit", "words", "turn"]), _PLACE, _PLACE
)
CHANGES = st.lists(_CHANGE, min_size=1, max_size=8)


def mutated(data: bytes, changes) -> bytes:
    """Return text with lines dropped, doubled, swapped, cut, and bytes of them changed."""
    lines = data.split(b"\n")
    for kind, a, b in changes:
        at, other = a % len(lines), b % len(lines)
        line = lines[at]
        if kind == "drop" and len(lines) > 1:
            del lines[at]
        elif kind == "double":
            lines.insert(other, line)
        elif kind == "swap":
            lines[at], lines[other] = lines[other], line
        elif kind == "cut":
            lines[at] = line[: b % (len(line) + 1)]
        elif kind == "byte" and line:
            lines[at] = line[: b % len(line)] + bytes([a % 256]) + line[b % len(line) + 1 :]
        elif kind == "digit":
            digits = [k for k, byte in enumerate(line) if 48 <= byte < 58]
            spot = digits[b % len(digits)] if digits else 0
            lines[at] = line[:spot] + b"%d" % (a % 10) + line[spot + 1 :] if digits else line
        elif kind == "words":
            words = line.split(b" ")
            lines[at] = b" ".join(words[b % len(words) :] + words[: b % len(words)])
        elif kind == "turn":
            lines = lines[at:] + lines[:at]
    return b"\n".join(lines)


def assert_exact(log) -> None:
    """Assert that spans tile each run of each job exactly, and that no hour is negative."""
    parts = spans(log)
    assert (parts["gpu_hours"] >= 0).all() and np.isfinite(parts["gpu_hours"]).all()
    for job, mine in parts.groupby("job", observed=True):
        events = log[log["job"] == job]
        ends = set(micros(events["time"])[codes(events["event"]) == CODE["end"]].tolist())
        begin, end = micros(mine["start"]), micros(mine["end"])
        assert (end > begin).all()
        assert all(a == b or a in ends for a, b in zip(end[:-1], begin[1:], strict=True))
        if not ends:
            assert end[-1] - begin[0] == np.ptp(micros(events["time"]))
    counted = per_job(parts, interruptions(log))
    assert counted["held_gpu_hours"].sum() == pytest.approx(parts["gpu_hours"].sum(), rel=1e-9)


TEXTS = [SAMPLE.read_bytes(), (CASES / "B23.megatron.log").read_bytes(), (CASES / "B19.nccl.log").read_bytes()]


@settings(max_examples=150)
@given(st.sampled_from([*TEXTS, b"".join(TEXTS)]), CHANGES, st.sampled_from([None, "America/New_York"]))
def test_whatever_stands_in_a_log_its_sums_are_exact(tmp_path_factory, text, changes, timezone):
    path = tmp_path_factory.mktemp("fuzz") / "run.log"
    path.write_bytes(mutated(text, changes))
    try:
        log, _ = mended([read_megatron(path, timezone)], str(path))
    except BadInput as refused:
        assert "\n" not in str(refused)
        return
    assert_exact(log)
    assert log_text(log)
