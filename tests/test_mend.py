"""What cannot be as it is written: each impossible event, how it is set right, what is said, what the hours are."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import MINUTE, OUR_DAY, events_of, frame_of, raw_frame

from goodput.attribution import spans
from goodput.events import JOB_EVENTS, codes, micros
from goodput.logfile import read_log
from goodput.logtext import write_log
from goodput.mend import mend
from goodput.order import impossible_rows, order_log


def minutes(log) -> dict[str, float]:
    """Return minutes by category, with the cause that it is charged to behind a colon."""
    table = spans(log)
    cause = table["cause"].astype(object).where(table["cause"].notna(), "")
    sums: Counter = Counter()
    for category, why, micro in zip(table["category"], cause, micros(table["end"]) - micros(table["start"])):
        sums[f"{category}:{why}".rstrip(":")] += micro / MINUTE
    return dict(sums)


def codes_of(findings) -> list[str]:
    return [found.code for found in findings]


def each_ten_minutes(names: list[str]) -> list[dict]:
    """Return events ten minutes apart, of a job with one GPU, whose faults have the cause x."""
    fields = {"job": "a", "nodes": 1, "gpus_per_node": 1}
    causes = {"interrupt": {"cause": "x"}}
    return [
        {"time": OUR_DAY + 10 * k * MINUTE, "event": name, **fields, **causes.get(name, {})}
        for k, name in enumerate(names)
    ]


# events before it, the event that cannot come, what is said, and the minutes; the job ends ten minutes later
IMPOSSIBLE = [
    ("", "checkpoint_start", "no-start", {"checkpoint": 10}),
    ("", "interrupt", "no-start", {"detection:x": 10}),
    ("", "detected", "no-start", {"waiting": 10}),
    ("", "running", "no-start", {"productive": 10}),
    ("", "checkpoint_end", "no-start", {"productive": 10}),
    ("launch", "checkpoint_start", "no-running", {"restart:first_start": 10, "checkpoint": 10}),
    ("start", "start", "restart", {"unattributed:unknown": 10, "productive": 10}),
    ("start", "launch", "restart", {"unattributed:unknown": 10, "restart:unknown": 10}),
    ("start", "detected", "no-interrupt", {"unattributed:unknown": 10, "waiting:unknown": 10}),
    ("start", "nodes_ready", "no-interrupt", {"unattributed:unknown": 10, "restart:unknown": 10}),
    ("start", "running", "no-interrupt", {"unattributed:unknown": 10, "productive": 10}),
    ("start", "checkpoint_end", "save-end-alone", {"productive": 20}),
    ("start checkpoint_start checkpoint_end", "checkpoint_end", "save-end-alone", {"productive": 30, "checkpoint": 10}),
    (
        "start checkpoint_start",
        "running",
        "no-interrupt",
        {"lost_work:unknown": 10, "unattributed:unknown": 10, "productive": 10},
    ),
    (
        "start checkpoint_start",
        "detected",
        "no-interrupt",
        {"lost_work:unknown": 10, "unattributed:unknown": 10, "waiting:unknown": 10},
    ),
    (
        "start interrupt",
        "checkpoint_start",
        "no-running",
        {"lost_work:x": 10, "unattributed:x": 10, "checkpoint": 10},
    ),
    (
        "start checkpoint_start interrupt",
        "checkpoint_end",
        "save-end-alone",
        {"lost_work:x": 10, "checkpoint": 10, "detection:x": 20},
    ),
    ("start interrupt", "start", "start-while-down", {"lost_work:x": 10, "unattributed:x": 10, "productive": 10}),
    ("start interrupt", "launch", "start-while-down", {"lost_work:x": 10, "unattributed:x": 10, "restart:x": 10}),
    (
        "start interrupt detected",
        "detected",
        "out-of-order",
        {"lost_work:x": 10, "detection:x": 10, "waiting:x": 20},
    ),
    (
        "start interrupt detected",
        "checkpoint_start",
        "no-running",
        {"lost_work:x": 10, "detection:x": 10, "unattributed:x": 10, "checkpoint": 10},
    ),
    (
        "start interrupt detected nodes_ready",
        "detected",
        "out-of-order",
        {"lost_work:x": 10, "detection:x": 10, "waiting:x": 10, "restart:x": 20},
    ),
    (
        "start interrupt detected nodes_ready",
        "nodes_ready",
        "out-of-order",
        {"lost_work:x": 10, "detection:x": 10, "waiting:x": 10, "restart:x": 20},
    ),
    (
        "start interrupt running",
        "checkpoint_end",
        "save-end-alone",
        {"lost_work:x": 10, "unattributed:x": 10, "productive": 20},
    ),
    (
        "start checkpoint_start interrupt running",
        "checkpoint_end",
        "save-end-alone",
        {"lost_work:x": 10, "checkpoint": 10, "unattributed:x": 10, "productive": 20},
    ),
    ("start end", "running", "after-end", {"productive": 10}),
    ("start end", "interrupt", "after-end", {"productive": 10}),
    ("start end", "end", "after-end", {"productive": 10}),
]
by_impossible = pytest.mark.parametrize(
    ("before", "event", "code", "right"), IMPOSSIBLE, ids=[f"{before} | {event}" for before, event, *_ in IMPOSSIBLE]
)


def names_of(before: str, event: str) -> list[str]:
    ended = before.endswith("end") and not before.endswith("checkpoint_end")
    return [*before.split(), event, *([] if ended else ["end"])]


@by_impossible
def test_an_impossible_event_is_set_right_and_said(before, event, code, right):
    log, findings = mend(raw_frame(each_ten_minutes(names_of(before, event))))
    assert codes_of(findings) == [code]
    assert event in findings[0].message or code == "no-start"
    assert minutes(log) == right
    assert code == "no-start" or not impossible_rows(log).any()  # a head that is lost stays lost


@by_impossible
def test_what_was_set_right_is_clean_when_it_is_read_again(tmp_path, before, event, code, right):
    log, _ = mend(raw_frame(each_ten_minutes(names_of(before, event))))
    write_log(log, tmp_path / "log.jsonl")
    again, findings = read_log(tmp_path / "log.jsonl")
    assert {found.code for found in findings} <= {"no-start"}  # a log that has lost its head still has
    assert minutes(again) == right


@by_impossible
def test_a_finding_points_to_the_line(tmp_path, before, event, code, right):
    write_log(raw_frame(each_ten_minutes(names_of(before, event))), tmp_path / "log.jsonl")
    _, (finding,) = read_log(tmp_path / "log.jsonl")
    assert (finding.file, finding.line) == (str(tmp_path / "log.jsonl"), len(before.split()) + 1)
    assert finding.message.startswith("job a: ")


def test_a_job_may_start_again_after_its_end():
    log, findings = mend(raw_frame(each_ten_minutes(["start", "end", "start", "end"])))
    assert minutes(log) == {"productive": 20} and findings == []


def test_the_faults_of_one_job_do_not_cost_another():
    good = events_of("0 start nodes=1 gpus_per_node=1\n30 end", job="a")
    bad = each_ten_minutes(["start", "detected", "end"])
    log, findings = mend(raw_frame([*({**event, "job": "b"} for event in bad), *good]))
    assert minutes(log[log["job"] == "a"]) == {"productive": 30}
    assert codes_of(findings) == ["no-interrupt"] and "job b" in findings[0].message


# --- one moment ----------------------------------------------------------------------------------------------------


@given(st.permutations([0, 1, 2, 3]))
def test_lines_of_one_moment_may_stand_in_any_order(order):
    """A save ends, and a fault strikes, is detected, and passes at once."""
    text = """
     20 checkpoint_end
     20 interrupt cause=x
     20 detected
     20 nodes_ready"""
    tied = [events_of(text)[k] for k in order]
    around = events_of("0 start nodes=1 gpus_per_node=1\n10 checkpoint_start\n30 running\n40 end")
    assert minutes(frame_of([*around[:2], *tied, *around[2:]])) == {
        "productive": 10 + 10,
        "checkpoint": 10,
        "restart:x": 10,
    }


def test_a_save_that_begins_as_another_ends_is_a_second_one():
    for first, second in (("checkpoint_start", "checkpoint_end"), ("checkpoint_end", "checkpoint_start")):
        log = frame_of(
            events_of(f"""
              0 start nodes=1 gpus_per_node=1
             10 checkpoint_start
             20 {first}
             20 {second}
             30 checkpoint_end
             40 end""")
        )
        assert minutes(log) == {"productive": 20, "checkpoint": 20}


ZERO = """
  0 start nodes=1 gpus_per_node=1
 10 checkpoint_start
 10 checkpoint_end
 30 interrupt cause=x
 40 end"""


def test_a_save_that_takes_no_time_counts():
    assert minutes(frame_of(events_of(ZERO))) == {"productive": 10, "lost_work:x": 20, "detection:x": 10}


def test_a_log_that_was_set_right_is_ordered():
    """So that it is not walked again when it is read back."""
    log = frame_of(events_of(ZERO))
    assert order_log(log) is log


def test_a_save_that_takes_no_time_counts_also_where_the_log_has_a_gap(tmp_path):
    """The hole lies between the saves of 10 and 20; the fault at 30 loses what follows that of 20."""
    path = tmp_path / "log.jsonl"
    text = ZERO.replace("30 interrupt", "20 checkpoint_start\n 20 checkpoint_end\n 30 interrupt")
    write_log(raw_frame(events_of(text)), path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], '{"time\n', *lines[3:]]))
    log, _ = read_log(path)
    assert minutes(log) == {"productive": 10, "unattributed": 10, "lost_work:x": 10, "detection:x": 10}


# --- clocks --------------------------------------------------------------------------------------------------------


def test_an_effect_before_its_cause_is_moved_to_it():
    log, findings = mend(
        raw_frame(
            events_of("""
              0 start nodes=1 gpus_per_node=1
             58 detected
             60 interrupt cause=x
             70 nodes_ready
             80 running
             90 end""")
        )
    )
    assert codes_of(findings) == ["clocks-disagree"] and "120 s before its interrupt" in findings[0].message
    assert minutes(log) == {"lost_work:x": 60, "waiting:x": 10, "restart:x": 10, "productive": 10}


# --- duplicates ----------------------------------------------------------------------------------------------------


def two_files(tmp_path, one: list[str], two: list[str]):
    paths = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for path, lines in zip(paths, (one, two), strict=True):
        path.write_text("".join(lines))
    return read_log(paths)


@pytest.fixture
def lines(tmp_path) -> list[str]:
    """The lines of a job: start, checkpoint_start, checkpoint_end, end."""
    text = "0 start nodes=1 gpus_per_node=1\n10 checkpoint_start\n15 checkpoint_end\n30 end"
    write_log(frame_of(events_of(text)), tmp_path / "log.jsonl")
    return (tmp_path / "log.jsonl").read_text().splitlines(keepends=True)


def test_doubled_lines_are_one_note_a_file(tmp_path, lines):
    log, findings = two_files(tmp_path, [*lines, lines[1]], lines)
    assert minutes(log) == {"productive": 25, "checkpoint": 5}
    said = [(found.severity, found.code, found.file[-9:], found.line) for found in findings]
    assert said == [("note", "duplicates", "one.jsonl", 5), ("note", "duplicates", "two.jsonl", 1)]
    assert [found.message.split(",")[0] for found in findings] == [
        "1 duplicated lines dropped",
        "4 duplicated lines dropped",
    ]


def test_two_faults_of_one_moment_that_differ_are_two():
    log = frame_of(
        events_of("0 start nodes=1 gpus_per_node=1\n9 interrupt cause=x node=n1\n9 interrupt cause=x node=n2\n9 end")
    )
    assert log["event"].eq("interrupt").sum() == 2


def test_a_torn_line_before_doubled_ones_is_no_cut_tail(tmp_path, lines):
    """Nobody knows what it said, though all that follows it in its file stands in another file too."""
    _, findings = two_files(tmp_path, lines, [*lines[:2], '{"time\n', *lines[2:]])
    assert [(found.severity, found.line) for found in findings if found.code != "duplicates"] == [("warning", 3)]


# --- any log -------------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from([1, 10]), st.sampled_from(JOB_EVENTS)), max_size=12))
def test_any_events_behind_a_start_become_a_log_that_is_clean_when_it_is_set_right_again(steps):
    time, events = OUR_DAY, []
    for wait, name in [(0, "start"), *steps]:
        time += wait * MINUTE
        events.append({"time": time, "job": "a", "event": name, "nodes": 1, "gpus_per_node": 1, "cause": "x"})
    log, _ = mend(raw_frame(events))
    again, findings = mend(log)
    assert {found.severity for found in findings if found.code != "overlapping-saves"} <= {"note"}
    assert minutes(again) == minutes(log)


def test_jobs_are_in_the_order_of_their_names():
    told = [event for job in "cab" for event in events_of("0 start nodes=1 gpus_per_node=1\n9 end", job=job)]
    log = frame_of(told)
    assert list(log["job"]) == ["a", "a", "b", "b", "c", "c"] and (codes(log["job"]) == [0, 0, 1, 1, 2, 2]).all()
