"""What does their log say? Recorder files worked out by hand, and a real one where it is present."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest
from naive import MINUTE

from goodput.analysis import analyze, as_data
from goodput.attribution import CATEGORIES, spans
from goodput.errors import BadInput
from goodput.events import micros
from goodput.importers import read_any
from goodput.importers.resiliency import read_resiliency
from goodput.logfile import mended
from goodput.metrics import reference_steps
from goodput.order import impossible_rows

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "data" / "logs" / "resiliency_sample.jsonl"
REAL = Path(os.environ.get("GOODPUT_REAL_LOG") or ROOT.parent / "shared" / "real" / "training_112_nodes.jsonl")


def raw(second: float, kind: str, rank: float | None = None, step: int | None = None, job: str = "j") -> str:
    """Return one line of the recorder, so many seconds after midnight, in its fields and without a zone."""
    time = pd.Timestamp("2025-03-01") + pd.Timedelta(seconds=second)
    fields = {"event_type": kind, "timestamp": f"{time:%Y-%m-%dT%H:%M:%S.%f}", "job_name": job}
    fields |= {} if rank is None else {"node_rank": rank}
    fields |= {} if step is None else {"step": step}
    return json.dumps(fields)


@pytest.fixture
def read(tmp_path):
    """Return a function that reads recorder lines as a log."""

    def read_lines(*lines: str, nodes: int | None = None):
        path = tmp_path / "recorder.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines))
        return log_of(path, nodes)

    return read_lines


def log_of(path: Path, nodes: int | None = None):
    """Return the log of a recorder's file, set right, and its findings; nodes have 8 GPUs."""
    return mended([read_resiliency(path)], str(path), nodes, gpus_per_node=8)


def told(log: pd.DataFrame) -> list[tuple]:
    """Return (second, event) of a log."""
    seconds = (micros(log["time"]) - micros(pd.Series([pd.Timestamp("2025-03-01", tz="UTC")]).dt.as_unit("us"))) / 1e6
    return list(zip(seconds.tolist(), log["event"], strict=True))


def minutes(log: pd.DataFrame) -> dict:
    table = spans(log)
    length = pd.Series((micros(table["end"]) - micros(table["start"])) / MINUTE)
    cause = table["cause"].astype(object).where(table["cause"].notna(), "")
    return length.groupby([table["category"].astype(object), cause]).sum().to_dict()


# --- by hand -------------------------------------------------------------------------------------------------------

# Two nodes start within 30 s, load, save twice, vanish; the restart at 30 min dies, that at 34 loads.
LOST = [
    raw(0, "job_started", rank=0),
    raw(20, "job_started", rank=1),
    raw(120, "checkpoint_loaded", step=0),
    raw(720, "checkpoint_saved", step=60),
    raw(1320, "checkpoint_saved", step=120),
    raw(1800, "job_started", rank=0),
    raw(1805.5, "job_started", rank=1),
    raw(1980, "job_terminated", rank=1),
    raw(2040, "job_started", rank=0),
    raw(2160, "checkpoint_loaded", step=120),
    raw(2760, "checkpoint_saved", step=180),
    raw(3000, "job_terminated", rank=0),
]


def test_a_recorders_file_is_told_as_our_events(read):
    assert told(read(*LOST)[0]) == [
        (0, "launch"),
        (120, "start"),
        (720, "checkpoint_start"),
        (720, "checkpoint_end"),
        (1320, "checkpoint_start"),
        (1320, "checkpoint_end"),
        (1800, "interrupt"),
        (1800, "detected"),
        (1800, "nodes_ready"),
        (2160, "running"),
        (2760, "checkpoint_start"),
        (2760, "checkpoint_end"),
        (3000, "interrupt"),
        (3000, "detected"),
        (3000, "end"),
    ]


def test_the_hole_before_a_fault_is_unattributed_and_a_failed_restart_is_recovery(read):
    """Two minutes of first start; 20 + 10 min to the newest saves; of the 8 + 4 min from there on nobody knows;
    the failed start at 30 and the good one at 34 are six minutes of restart."""
    assert minutes(read(*LOST)[0]) == {
        ("restart", "first_start"): 2,
        ("productive", ""): 30,
        ("unattributed", "not_logged"): 12,
        ("restart", "not_logged"): 6,
    }


def test_the_sample_that_ships_is_this_one(read):
    shipped, _ = log_of(SAMPLE)
    assert told(shipped) == told(read(*LOST)[0])
    assert minutes(shipped) == minutes(read(*LOST)[0])


def test_an_imported_log_is_one_of_ours(read):
    log, _ = read(*LOST)
    assert not impossible_rows(log).any()
    assert set(log["nodes"].dropna()) == {2} and set(log["gpus_per_node"].dropna()) == {8}
    assert log["step"].dropna().max() == 180


def test_kept_steps_come_from_what_was_saved(read):
    log, _ = read(*LOST)
    assert reference_steps(log, spans(log), 10) == (180, pytest.approx(180 * 10 / 3000))


def test_times_without_a_zone_are_utc_and_said_to_be(read):
    log, findings = read(*LOST)
    assert log["time"].iloc[0] == pd.Timestamp("2025-03-01T00:00:00Z")
    assert "no-zone" in [found.code for found in findings]


@pytest.mark.parametrize("zone", ["Z", "+00:00", "-00:00"])
def test_a_zone_that_is_given_is_read(read, zone):
    lines = [line.replace('", "job_name"', f'{zone}", "job_name"') for line in LOST]
    assert told(read(*lines)[0]) == told(read(*LOST)[0])


def test_the_failed_restarts_are_counted_in_a_finding(read):
    """Three starts (0, 30 and 34 min), two loads."""
    _, findings = read(*LOST)
    said = {found.code: found.message for found in findings}
    assert "1 of 3 starts loaded no checkpoint" in said["failed-restarts"]
    assert {"no-zone", "no-fault-time", "no-save-time"} <= set(said)


def test_lines_of_one_kind_within_half_a_minute_are_one_moment(read):
    """Nodes report over 50 s, none more than 30 s after the one before: one start, at its first line."""
    lines = [
        raw(0, "job_started", 0),
        raw(25, "job_started", 1),
        raw(50, "job_started", 2),
        raw(90, "checkpoint_loaded", step=5),
    ]
    log, findings = read(*lines)
    assert told(log) == [(0, "launch"), (90, "start"), (90, "end")]
    assert "failed-restarts" not in [found.code for found in findings]


def test_lines_of_one_kind_over_half_a_minute_apart_are_two(read):
    lines = [raw(0, "job_started", 0), raw(30.000001, "job_started", 0), raw(90, "checkpoint_loaded", step=5)]
    _, findings = read(*lines)
    assert any("1 of 2 starts loaded no checkpoint" in found.message for found in findings)


def test_saves_are_never_taken_together(read):
    """Two saves ten seconds apart are two: each has its own step."""
    lines = [*LOST[:3], raw(130, "checkpoint_saved", step=1), raw(140, "checkpoint_saved", step=2)]
    assert [event for _, event in told(read(*lines)[0])].count("checkpoint_end") == 2


def test_the_job_holds_all_of_its_nodes_though_fewer_report(read):
    """The highest rank is 3 and a later start tells of one rank only: four nodes, whatever is given."""
    lines = [
        raw(0, "job_started", 3),
        raw(60, "checkpoint_loaded", step=0),
        raw(600, "job_started", 0),
        raw(660, "checkpoint_loaded", step=0),
    ]
    assert set(spans(read(*lines)[0])["nodes"]) == {4}
    assert set(spans(read(*lines, nodes=7)[0])["nodes"]) == {4}


def test_a_start_while_training_is_a_fault_that_nobody_logged(read):
    lines = [*LOST[:4], raw(900, "job_started", 0), raw(960, "checkpoint_loaded", step=60)]
    log, _ = read(*lines)
    fault = log[log["event"] == "interrupt"].iloc[0]
    assert fault["cause"] == "not_logged"
    assert fault["after"] == pd.Timestamp("2025-03-01T00:12:00Z")


def test_lines_may_come_in_any_order(read):
    log, shuffled = read(*LOST)[0], read(*LOST[::-1])[0]
    assert told(shuffled) == told(log) and minutes(shuffled) == minutes(log)


def test_two_jobs_in_one_file_are_two_jobs(read):
    other = [line.replace('"j"', '"k"') for line in LOST]
    table = analyze(*read(*[line for pair in zip(LOST, other) for line in pair])).jobs
    assert list(table.index) == ["j", "k"]
    assert table.loc["j"].equals(table.loc["k"])


def test_lines_point_back_to_the_file(read):
    log, _ = read("", *LOST)
    assert log["line"].tolist()[:2] == [2, 4]
    assert set(log["file"].dropna()) and all(name.endswith("recorder.jsonl") for name in log["file"])


# --- what is not clean ---------------------------------------------------------------------------------------------


BAD = [
    ("{", "line is not whole JSON"),
    ("# a comment", "line is not whole JSON"),
    ("[" * 100_000, "line is not whole JSON"),
    ("[1]", "must be a table of keys"),
    (
        raw(1, "job_startd", 0),
        "event_type='job_startd' must be 'job_started', 'job_terminated', 'checkpoint_loaded' or",
    ),
    (raw(1, "job_started", -1), "node_rank=-1 must be greater than or equal to 0"),
    (raw(1, "checkpoint_saved", step=-5), "step=-5 must be greater than or equal to 0"),
    ('{"event_type": "job_started", "job_name": "j"}', "timestamp must be given"),
    ('{"event_type": "job_started", "timestamp": "noon", "job_name": "j"}', "timestamp='noon' must be"),
    ('{"event_type": "job_started", "timestamp": Infinity, "job_name": "j"}', "timestamp=inf must be"),
    ('{"time": "2025-03-01T00:00:00Z", "job": "a", "event": "start"}', "event_type must be given"),
]
by_bad_line = pytest.mark.parametrize(("bad", "said"), BAD, ids=[said for _, said in BAD])


@by_bad_line
def test_a_line_that_is_not_the_recorders_is_a_finding_with_its_number(read, bad, said):
    _, findings = read(LOST[0], "", bad, *LOST[1:])
    (finding,) = [each for each in findings if each.severity != "note"]
    assert (finding.code, finding.line) == ("unreadable", 3)
    assert said in finding.message and "\n" not in finding.message


@by_bad_line
def test_a_file_without_a_line_of_the_recorders_is_refused_with_what_is_wrong_in_its_first(tmp_path, bad, said):
    (tmp_path / "recorder.jsonl").write_text(f"\n{bad}\n")
    with pytest.raises(BadInput, match=r"recorder\.jsonl: must hold lines of the resiliency recorder; line 2: ") as no:
        read_resiliency(tmp_path / "recorder.jsonl")
    assert said in str(no.value)


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "recorder.jsonl").write_text("\n")
    with pytest.raises(BadInput, match=r"recorder\.jsonl: must hold lines of the resiliency recorder, it is empty"):
        read_resiliency(tmp_path / "recorder.jsonl")


def test_time_around_a_line_that_cannot_be_read_is_unattributed(read):
    """The line after the save of 12 min is torn: of the time to the save of 22 min nobody knows."""
    log, _ = read(*LOST[:4], "{", *LOST[4:])
    assert told(log)[3:6] == [(720, "checkpoint_end"), (720, "gap"), (1320, "checkpoint_start")]
    assert minutes(log) == {
        ("restart", "first_start"): 2,
        ("productive", ""): 20,
        ("unattributed", ""): 10,
        ("unattributed", "not_logged"): 12,
        ("restart", "not_logged"): 6,
    }


def test_a_last_line_that_is_cut_off_changes_nothing(read):
    log, findings = read(*LOST, LOST[-1][:40])
    assert minutes(log) == minutes(read(*LOST)[0])
    assert [found.line for found in findings if found.code == "cut-tail"] == [13]


def test_a_job_that_names_no_rank_counts_as_one_node_unless_its_nodes_are_given(read):
    lines = [raw(0, "job_started"), raw(60, "checkpoint_loaded", step=0), raw(600, "checkpoint_saved", step=9)]
    log, findings = read(*lines)
    assert set(spans(log)["nodes"]) == {1}
    assert [(found.line, "--nodes" in found.message) for found in findings if found.code == "no-size"] == [(1, True)]
    log, findings = read(*lines, nodes=3)
    assert set(spans(log)["nodes"]) == {3} and "no-size" not in {found.code for found in findings}


def test_lines_of_one_moment_that_are_doubled_change_nothing(read):
    doubled = [line for line in LOST for _ in range(2)]
    assert told(read(*doubled)[0]) == told(read(*LOST)[0])


def test_times_without_a_zone_are_read_in_one_that_is_given(tmp_path):
    (tmp_path / "recorder.jsonl").write_text("\n".join(LOST))
    log, findings, _ = read_resiliency(tmp_path / "recorder.jsonl", timezone="Asia/Tokyo")
    assert log["time"].iloc[0] == pd.Timestamp("2025-02-28T15:00:00Z")
    assert [found.message for found in findings if found.code == "no-zone"] == [
        "times have no zone: read as Asia/Tokyo"
    ]


def test_a_recorders_file_is_recognised():
    log, _ = read_any([SAMPLE], gpus_per_node=8)
    assert told(log) == told(log_of(SAMPLE)[0])


def test_a_format_that_nobody_knows_is_refused():
    with pytest.raises(BadInput, match=r"--from=resilience must be a known format; did you mean 'resiliency'\?"):
        read_any([SAMPLE], "resilience")


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(BadInput, match=r"nope\.jsonl: file must exist"):
        read_resiliency(tmp_path / "nope.jsonl")


# --- a real log ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real():
    if not REAL.is_file():
        pytest.skip("the real log is not ours to ship and is not here; GOODPUT_REAL_LOG may name it")
    return log_of(REAL)


def test_the_real_job_held_112_nodes_from_its_first_line_to_its_last(real):
    """112 nodes x 8 GPUs x 35,364.285 s; the ranks that report vary from 100 to 112 and are not sizes."""
    table = spans(real[0])
    assert set(table["nodes"]) == {112} and set(table["gpus_per_node"]) == {8}
    assert sum(micros(table["end"]) - micros(table["start"])) == 35_364_285_000 + _below_a_millisecond(table)
    assert table["gpu_hours"].sum() == pytest.approx(112 * 8 * 35_364.285 / 3600, rel=1e-6)


def _below_a_millisecond(table: pd.DataFrame) -> int:
    held = sum(micros(table["end"]) - micros(table["start"])) - 35_364_285_000
    assert abs(held) < 1000  # the figure is given to the millisecond
    return held


def test_the_real_job_started_74_times_and_loaded_44_times(real):
    log, findings = real
    assert any("30 of 74 starts loaded no checkpoint" in found.message for found in findings)
    assert log["event"].isin(["start", "running"]).sum() == 44


def test_the_real_jobs_goodput_by_steps_of_eight_seconds(real):
    """1,920 kept steps x 8 s / 35,364.285 s = 43.43 %."""
    kept, share = reference_steps(real[0], spans(real[0]), 8)
    assert kept == 1920
    assert share == pytest.approx(0.4343, abs=0.00005)


def test_the_real_jobs_shares_of_all_seven_categories_add_up(real):
    data = as_data(analyze(*real))
    shares = {name: hours / data["held_gpu_hours"] for name, hours in data["gpu_hours"].items()}
    assert tuple(shares) == CATEGORIES
    assert sum(shares.values()) == pytest.approx(1, abs=1e-12)
    assert shares["productive"] > 0.4343  # steps slower than the reference are no loss by the clock
    assert shares["unattributed"] > 0.1  # and when the faults struck is not logged
