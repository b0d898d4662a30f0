"""The event log: what a file may say, what is not read and how that is said, and that nothing is lost on disk."""

import gzip
import json
import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import MINUTE, OUR_DAY, events_of, frame_of, log_of

from goodput.analysis import analyze
from goodput.attribution import ledger, spans
from goodput.errors import BadInput
from goodput.events import (
    CHOSEN,
    COLUMNS,
    EVENTS,
    JOB_EVENTS,
    NODE_EVENTS,
    codes,
    concat_logs,
    make_log,
    micros,
)
from goodput.logfile import read_log
from goodput.logtext import log_text, write_log
from goodput.order import order_log
from goodput.scenario import load_scenario
from goodput.simulate import simulate

START = '{"time": "2025-03-01T00:00:00Z", "job": "a", "event": "start", "nodes": 4, "gpus_per_node": 8}'
END = '{"time": "2025-03-01T02:00:00Z", "job": "a", "event": "end"}'


@pytest.fixture
def read(tmp_path):
    """Return a function that writes lines to a file and reads them as a log."""

    def read_lines(*lines: str, name: str = "log.jsonl"):
        path = tmp_path / name
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        return read_log(path)[0]

    return read_lines


@pytest.fixture
def finding(tmp_path):
    """Return a function that gives the one warning of lines as (code, line, message)."""

    def found_in(*lines: str) -> tuple[str, int, str]:
        path = tmp_path / "log.jsonl"
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        (warning,) = [found for found in read_log(path)[1] if found.severity != "note"]
        assert "\n" not in warning.message and warning.file == str(path)
        return warning.code, warning.line, warning.message

    return found_in


def line(minute: int, event: str, **fields) -> str:
    time = f"2025-03-01T{minute // 60:02}:{minute % 60:02}:00Z"
    return json.dumps({"time": time, "job": "a", "event": event, **fields})


# --- the schema ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [lambda: log_of("0 start nodes=1 gpus_per_node=1"), lambda: simulate(load_scenario("baseline"), 1)]
)
def test_every_log_has_the_same_columns_of_the_same_types(make):
    types = {name: str(dtype) for name, dtype in make().dtypes.items()}
    assert types == COLUMNS


def test_a_log_from_a_file_has_the_same_columns_by_both_paths(read):
    """The second file has a list of nodes, which the fast path does not read."""
    fast = read(START, line(10, "interrupt", cause="x", node="gpu[1-2]"), END)
    slow = read(START, line(10, "interrupt", cause="x", node=["gpu2", "gpu1"]), END)
    for log in (fast, slow):
        assert {name: str(log[name].dtype) for name in COLUMNS} == COLUMNS
    pd.testing.assert_frame_equal(fast, slow, check_categorical=False)


def test_events_of_jobs_come_before_those_of_nodes_in_the_codes():
    """Attribution tells them apart by code."""
    log = make_log({"time": np.zeros(len(EVENTS)), "event": EVENTS})
    assert codes(log["event"]).tolist() == list(range(len(EVENTS)))
    assert EVENTS[: len(JOB_EVENTS)] == JOB_EVENTS and EVENTS[len(JOB_EVENTS) :] == NODE_EVENTS


def test_what_is_chosen_is_no_failure():
    assert set(CHOSEN) == {"planned", "time_limit", "user_cancel", "preemption"}


# --- order ---------------------------------------------------------------------------------------------------------


def test_order_is_by_job_then_time_and_at_one_time_as_it_can_be():
    one = events_of("5 checkpoint_start\n9 end\n0 start nodes=1 gpus_per_node=1\n5 checkpoint_end", job="a")
    other = events_of("3 end\n1 start nodes=1 gpus_per_node=1", job="b")
    mixed = [event for pair in zip(one[:2], other) for event in pair] + one[2:]
    log = frame_of(mixed)
    want = [
        ("a", "start"),
        ("a", "checkpoint_start"),
        ("a", "checkpoint_end"),
        ("a", "end"),
        ("b", "start"),
        ("b", "end"),
    ]
    assert list(zip(log["job"], log["event"], strict=True)) == want


def test_an_ordered_log_is_returned_as_it_is():
    log = order_log(simulate(load_scenario("baseline"), 1))
    assert order_log(log) is log


@given(st.permutations(range(8)))
def test_the_order_of_lines_of_other_moments_does_not_matter(order):
    text = """
      0 start nodes=1 gpus_per_node=1
      1 checkpoint_start
      2 checkpoint_end
      3 interrupt cause=x
      4 detected
      5 nodes_ready
      6 running
      7 end"""
    events = events_of(text)
    assert frame_of([events[k] for k in order]).equals(frame_of(events))


def test_a_save_that_ends_counts_before_the_fault_of_the_same_moment():
    log = log_of("0 start nodes=1 gpus_per_node=1\n1 checkpoint_start\n2 interrupt cause=x\n2 checkpoint_end\n3 end")
    assert list(log["event"]) == ["start", "checkpoint_start", "checkpoint_end", "interrupt", "end"]


def test_the_fault_of_one_job_does_not_change_places_with_the_save_of_another():
    one = events_of("0 start nodes=1 gpus_per_node=1\n2 interrupt cause=x", job="a")
    other = events_of("2 start nodes=1 gpus_per_node=1\n2 checkpoint_start\n2 checkpoint_end", job="b")
    assert list(frame_of([*one, *other])["event"]) == [event["event"] for event in [*one, *other]]


def test_every_event_can_come_at_some_time():
    """The sample log of all events is legal, and so is each of its beginnings."""
    text = """
      0 launch nodes=1 gpus_per_node=1
      1 start
      2 checkpoint_start
      3 checkpoint_end
      4 checkpoint_durable
      5 resize nodes=2
      6 interrupt cause=x
      7 detected
      8 nodes_ready
      9 running
     10 pause
     11 resume
     12 gap
     13 end"""
    events = events_of(text)
    assert [event["event"] for event in events if event["event"] in JOB_EVENTS].count("start") == 1
    assert {event["event"] for event in events} == set(JOB_EVENTS)
    for length in range(1, len(events) + 1):
        assert len(frame_of(events[:length])) == length


# --- what a file may say -------------------------------------------------------------------------------------------


def test_comments_blank_lines_crlf_and_a_byte_order_mark_are_no_events(tmp_path):
    plain, dressed = tmp_path / "plain.jsonl", tmp_path / "dressed.jsonl"
    plain.write_text(f"{START}\n{END}\n")
    dressed.write_bytes(
        b"\xef\xbb\xbf# made by hand\r\n\r\n" + START.encode() + b"\r\n   \r\n  # more\r\n" + END.encode()
    )
    one, other = read_log(plain)[0], read_log(dressed)[0]
    assert other["line"].tolist() == [3, 6]
    columns = [name for name in one.columns if name not in ("file", "line")]
    assert other[columns].equals(one[columns])


def test_a_compressed_file_is_read_as_the_plain_one(tmp_path):
    (tmp_path / "log.jsonl").write_text(f"{START}\n{END}\n")
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(f"{START}\n{END}\n".encode()))
    plain, packed = read_log(tmp_path / "log.jsonl")[0], read_log(tmp_path / "log.jsonl.gz")[0]
    assert packed.drop(columns="file").equals(plain.drop(columns="file"))


@pytest.mark.parametrize(
    "time",
    [
        "2025-03-01T02:00:00Z",
        "2025-03-01T02:00:00.000000+00:00",
        "2025-03-01T11:00:00+09:00",
        "2025-02-28T21:00:00-05:00",
        "2025-03-01T02:00Z",
        1740794400,
        1740794400.0,
    ],
)
def test_an_instant_may_be_written_in_any_zone_or_as_seconds(read, time):
    log = read(START, json.dumps({"time": time, "job": "a", "event": "end"}))
    assert log["time"].iloc[-1] == pd.Timestamp("2025-03-01T02:00:00Z")


def test_microseconds_are_kept_and_what_is_finer_is_cut(read):
    log = read(START, END.replace("02:00:00Z", "02:00:00.123456789Z"))
    assert micros(log["time"])[1] - micros(log["time"])[0] == 7_200_123_456
    seconds = read(
        START.replace('"2025-03-01T00:00:00Z"', "0.000001"), END.replace('"2025-03-01T02:00:00Z"', "0.000003")
    )
    assert micros(seconds["time"]).tolist() == [1, 3]


def test_lines_of_mixed_zones_are_ordered_by_instant(read):
    """Ten o'clock in Tokyo comes before two in London."""
    tokyo = line(0, "checkpoint_start").replace("2025-03-01T00:00:00Z", "2025-03-01T10:00:00+09:00")
    log = read(START, END, tokyo)
    assert list(log["event"]) == ["start", "checkpoint_start", "end"]
    assert log["line"].tolist() == [1, 3, 2]


def test_a_list_of_nodes_is_folded(read):
    log = read(START, line(10, "interrupt", cause="x", node=["gpu3", "gpu1", "gpu2"]), END)
    assert log["node"].iloc[1] == "gpu[1-3]"
    names = read(START.replace("}", ', "node_names": ["n10", "n9", "m1"]}'), END)
    assert names["node_names"].iloc[0] == "m1,n[9-10]"


def test_several_files_are_one_log(tmp_path):
    """A trainer's and a scheduler's: their lines meet by time, each keeps its own file and line."""
    trainer, scheduler = tmp_path / "trainer.jsonl", tmp_path / "scheduler.jsonl"
    trainer.write_text(f"{START}\n{END}\n")
    scheduler.write_text(f"\n{line(10, 'interrupt', cause='x')}\n")
    log, _ = read_log([trainer, scheduler])
    assert list(log["event"]) == ["start", "interrupt", "end"]
    assert list(zip(log["file"], log["line"], strict=True)) == [
        (str(trainer), 1),
        (str(scheduler), 2),
        (str(trainer), 2),
    ]


def test_one_job_may_be_told_by_two_files_with_different_fields(tmp_path):
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text(START.replace("}", ', "rack": "b4"}') + "\n")
    two.write_text(END + "\n")
    log, _ = read_log([one, two])
    assert log["rack"].isna().tolist() == [False, True]
    assert list(concat_logs([log, log])["job"]) == ["a"] * 4


def test_a_job_without_an_end_is_noted_with_the_moment_it_is_closed_at(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(f"{START}\n{line(65, 'checkpoint_start')}\n")
    _, findings = read_log(path)
    assert [(found.severity, found.code, found.line) for found in findings] == [("note", "no-end", 2)]
    assert "2025-03-01T01:05:00Z" in findings[0].message


NODE_BACK = '{"time": "2025-03-01T05:00:00Z", "job": "a", "event": "node_repaired", "node": "n1"}'


def test_a_node_that_is_mended_after_the_end_does_not_open_the_job_again(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(f"{START}\n{END}\n{NODE_BACK}\n")
    assert read_log(path)[1] == []


def test_an_open_job_is_closed_at_its_own_last_event_and_not_at_that_of_a_node(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(f"{START}\n{line(65, 'checkpoint_start')}\n{NODE_BACK}\n")
    log, findings = read_log(path)
    assert [found.line for found in findings] == [2] and "2025-03-01T01:05:00Z" in findings[0].message
    assert spans(log)["end"].max() == pd.Timestamp("2025-03-01T01:05:00Z")


def test_a_clean_log_has_no_findings(tmp_path):
    (tmp_path / "log.jsonl").write_text(f"{START}\n{END}\n")
    assert read_log(tmp_path / "log.jsonl")[1] == []


# --- what cannot be read -------------------------------------------------------------------------------------------


NOT_JSON = ['{"time": "2025-03-01T02', "end", "{'time': 0}", f"{END} {END}", f"{END},", "[" * 100_000]


@pytest.mark.parametrize("bad", NOT_JSON, ids=range(len(NOT_JSON)))
def test_a_line_that_is_not_json_is_found_with_its_number(finding, bad):
    code, number, said = finding("# header", START, "", bad, END)
    assert (code, number) == ("unreadable", 4)
    assert said.startswith("line could not be read (line is not whole JSON); time around it is unattributed")


def test_what_a_line_that_is_not_json_hid_is_unattributed(read):
    """From the line before it, at 00:15, to the one behind it, at 00:30; what came before the save is kept."""
    save = (line(10, "checkpoint_start"), line(15, "checkpoint_end"))
    log = read(START, *save, "{", line(30, "interrupt", cause="x"), END)
    hours = ledger(spans(log))
    assert hours["unattributed"] == pytest.approx(32 / 4)
    assert hours["productive"] == pytest.approx(32 / 6)


def test_json_that_is_laid_out_over_lines_is_not_read(tmp_path):
    """One event a line: what a formatter has opened up is no event; each of its lines is found."""
    opened = json.dumps(json.loads(END), indent=1).splitlines()
    (tmp_path / "log.jsonl").write_text("\n".join([START, *opened, END]))
    log, findings = read_log(tmp_path / "log.jsonl")
    assert [(found.code, found.line) for found in findings] == [("unreadable", 2 + k) for k in range(len(opened))]
    assert set(log["event"]) == {"start", "gap", "end"}


@pytest.mark.parametrize("bad", ["[1, 2]", '"end"', "7", "null", "true"])
def test_a_line_that_is_no_object_is_found_with_its_number(finding, bad):
    code, number, said = finding(START, bad, END)
    assert (code, number) == ("unreadable", 2) and "(line must be a JSON object, {...})" in said


def test_bytes_of_nothing_are_no_line(tmp_path):
    """What a disk leaves behind after a crash: a block of zeros."""
    (tmp_path / "log.jsonl").write_bytes(f"{START}\n".encode() + b"\0" * 4096 + f"\n{END}\n".encode() + b"\0" * 99)
    log, findings = read_log(tmp_path / "log.jsonl")
    assert log["line"].tolist() == [1, 3] and findings == []


@pytest.mark.parametrize("key", ["time", "after"])
def test_a_time_without_zone_refuses_the_file_with_its_number(read, key):
    bad = json.dumps({**json.loads(line(10, "interrupt", cause="x")), key: "2025-03-01T00:10:00"})
    rule = rf"log\.jsonl:2: {key}='2025-03-01T00:10:00' must be a time with a zone, as Z or \+09:00 at its end"
    with pytest.raises(BadInput, match=rule):
        read(START, bad, END)


NO_TIMES = ['"yesterday"', '""', "true", "null", "[]", "{}", '"2025-13-01T00:00:00Z"']
NO_DAYS = ["NaN", "Infinity", "-Infinity", "1e300", "-1e300", "-1", "1e13", "1740794400000", str(2**63)]


@pytest.mark.parametrize("bad", NO_TIMES + NO_DAYS)
def test_a_time_that_is_none_is_found_with_its_number(finding, bad):
    code, number, said = finding(START, END.replace('"2025-03-01T02:00:00Z"', bad), END)
    assert (code, number) == ("unreadable", 2)
    rule = "an ISO 8601 time with a zone" if bad in NO_TIMES else "a time from 1970 to 2199"
    assert said.startswith("line could not be read (time") and rule in said


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"event": None}, "event=None must be a known event"),
        ({"job": None}, "job must be given"),
        ({"async": "yes"}, "async='yes' must be true or false"),
        ({"planned": 1}, "planned=1 must be true or false"),
        ({"node": ["gpu1", 2]}, "node=['gpu1', 2] must be"),
        ({"node": []}, "node=[] must be"),
        ({"job": ""}, "job='' must be"),
        ({"job": 5.5}, "job=5.5 must be"),
    ],
)
def test_a_field_that_cannot_be_is_found_with_line_key_and_rule(finding, bad, said):
    code, number, message = finding(START, json.dumps({**json.loads(END), **bad}), END)
    assert code in ("unreadable", "unknown-event") and number == 2
    assert said in message and "should" not in message


@pytest.mark.parametrize(("name", "near"), [("interupt", "interrupt"), ("Checkpoint_End", "checkpoint_end")])
def test_an_unknown_event_is_left_out_and_the_nearest_known_one_is_named(finding, read, name, near):
    code, number, said = finding(START, line(9, name), END)
    assert (code, number) == ("unknown-event", 2)
    assert said == f"event='{name}' must be a known event; did you mean '{near}'?: line ignored"
    assert list(read(START, line(9, name), END)["event"]) == ["start", "end"]


@pytest.mark.parametrize(
    ("key", "size"),
    [
        ("nodes", -4),
        ("nodes", 4.5),
        ("nodes", "4"),
        ("nodes", True),
        ("nodes", 2**40),
        ("nodes", 10_000_001),
        ("gpus_per_node", -1),
        ("gpus_per_node", 0),
        ("gpus_per_node", 1_001),
    ],
)
def test_a_size_that_cannot_be_is_left_out_and_the_one_before_holds(finding, read, key, size):
    lines = (START, line(60, "resize", **{key: size}), END)
    code, number, said = finding(*lines)
    assert (code, number) == ("absurd-size", 2)
    assert said.startswith(f"{key}={str(size)!r} must be a whole number from ")
    assert ledger(spans(read(*lines))).sum() == 64


@pytest.mark.parametrize("key", ["time", "job", "event"])
def test_a_field_that_is_missing_is_named_with_its_line(finding, key):
    fields = json.loads(END)
    del fields[key]
    code, number, said = finding(START, json.dumps(fields), END)
    assert (code, number) == ("unreadable", 2) and f"({key} must be given)" in said


def test_a_whole_number_is_a_name(read):
    """As Slurm's job ids are."""
    log = read(START.replace('"a"', "5"), END.replace('"a"', '"5"'))
    assert list(log["job"]) == ["5", "5"]


def test_a_node_event_must_name_its_node(finding):
    code, number, said = finding(START, '{"time": "2025-03-01T01:00:00Z", "event": "node_down"}', END)
    assert (code, number) == ("unreadable", 2) and "(node must be given)" in said


@pytest.mark.parametrize("key", ["node", "node_names", "joined", "left"])
@pytest.mark.parametrize("names", ["gpu[1-", ["gpu[1-", "b"]])
def test_node_names_that_cannot_be_unfolded_do_no_harm(read, key, names):
    bad = json.dumps({**json.loads(line(10, "interrupt", cause="x")), key: names})
    log = read(START, bad, END)
    assert log[key].iloc[1] == (names if isinstance(names, str) else ",".join(names))
    found = analyze(log)
    assert found.jobs["failures"].tolist() == [1]


def test_an_unreadable_line_at_the_end_is_a_note_and_changes_nothing(tmp_path):
    """A writer that was stopped in the middle of a line."""
    (tmp_path / "log.jsonl").write_text(f"{START}\n{line(60, 'checkpoint_start')}\n{END[:30]}")
    log, findings = read_log(tmp_path / "log.jsonl")
    assert [(found.severity, found.code, found.line) for found in findings] == [
        ("note", "cut-tail", 3),
        ("note", "no-end", 2),
    ]
    assert list(log["event"]) == ["start", "checkpoint_start"]


def test_a_file_in_which_no_line_can_be_read_is_refused_with_the_first(read):
    with pytest.raises(
        BadInput, match=r"log\.jsonl: log must hold at least one event: line 2: line is not whole JSON$"
    ):
        read("# header", "{", "[]")


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\n \n", "# nothing yet\n"])
def test_an_empty_log_is_refused(tmp_path, text):
    (tmp_path / "log.jsonl").write_text(text)
    with pytest.raises(BadInput, match=r"log\.jsonl: log must hold at least one event, it is empty"):
        read_log(tmp_path / "log.jsonl")


def test_an_empty_compressed_log_is_refused(tmp_path):
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(BadInput, match="it is empty"):
        read_log(tmp_path / "log.jsonl.gz")


def test_a_log_of_nodes_alone_is_refused(read):
    with pytest.raises(BadInput, match="must hold at least one event of a job, not only of nodes"):
        read('{"time": "2025-03-01T01:00:00Z", "event": "node_down", "node": "n1"}')


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(BadInput, match=r"nope\.jsonl: file must exist"):
        read_log(tmp_path / "nope.jsonl")


def test_a_folder_is_refused_by_name(tmp_path):
    with pytest.raises(BadInput, match="file must be readable"):
        read_log(tmp_path)


def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path):
    (tmp_path / "log.jsonl.gz").write_bytes(START.encode())
    with pytest.raises(BadInput, match=r"log\.jsonl\.gz: file must be readable"):
        read_log(tmp_path / "log.jsonl.gz")


def test_a_damaged_compressed_file_is_refused(tmp_path):
    data = bytearray(gzip.compress(f"{START}\n{END}\n".encode() * 50))
    data[30] ^= 255
    (tmp_path / "log.jsonl.gz").write_bytes(bytes(data))
    with pytest.raises(BadInput, match=r"log\.jsonl\.gz: file must be readable"):
        read_log(tmp_path / "log.jsonl.gz")


def test_a_compressed_file_without_its_end_is_read_and_found(tmp_path):
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(f"{START}\n{END}\n".encode())[:-5])
    log, findings = read_log(tmp_path / "log.jsonl.gz")
    assert list(log["event"]) == ["start", "end"]
    assert [(found.severity, found.code) for found in findings] == [("warning", "cut-file")]


@pytest.mark.parametrize("data", [b"\xff\xfe{\x00}\x00\n\x00", b"\xff\xfe\xff", b'{"time": "\xff"}'])
def test_a_file_that_is_not_utf_8_is_refused_with_its_line(tmp_path, data):
    (tmp_path / "log.jsonl").write_bytes(data)
    with pytest.raises(BadInput, match=r"log\.jsonl: log must hold at least one event: line 1: "):
        read_log(tmp_path / "log.jsonl")


def test_a_line_that_is_not_utf_8_costs_no_other(tmp_path):
    bad = END.replace("}", ', "outcome": "caf\xe9"}').encode("latin-1")
    (tmp_path / "log.jsonl").write_bytes(f"{START}\n".encode() + bad + f"\n{END}\n".encode())
    log, findings = read_log(tmp_path / "log.jsonl")
    assert [(found.code, found.line) for found in findings] == [("unreadable", 2)]
    assert list(log["event"]) == ["start", "gap", "end"]


# --- on disk and back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz"])
def test_a_simulated_log_comes_back_from_disk_as_it_was(tmp_path, name):
    log = simulate(load_scenario("firmware-regression"), 3)
    write_log(log, tmp_path / name)
    back, findings = read_log(tmp_path / name)
    columns = [name for name in COLUMNS if name not in ("file", "line")]
    # node events stand behind the job's once they are ordered
    pd.testing.assert_frame_equal(back[columns], order_log(log)[columns], check_categorical=False)
    assert findings == []


def test_the_same_log_gives_the_same_bytes_also_compressed(tmp_path):
    log = simulate(load_scenario("baseline"), 1)
    written = []
    for name in ("one.jsonl.gz", "two.jsonl.gz"):
        write_log(log, tmp_path / name)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    assert gzip.decompress(written[0]).decode() == log_text(log)


EVERYTHING = [
    {"time": "2025-03-01T00:00:00.000001Z", "job": "a", "event": "start", "nodes": 2, "gpus_per_node": 8},
    {"time": "2025-03-01T00:10:00Z", "job": "a", "event": "checkpoint_start", "async": True, "id": "s-1"},
    {"time": "2025-03-01T00:11:00Z", "job": "a", "event": "checkpoint_end"},
    {"time": "2025-03-01T00:12:00Z", "job": "a", "event": "checkpoint_durable", "id": "s-1"},
    {
        "time": "2025-03-01T00:20:00Z",
        "job": "a",
        "event": "interrupt",
        "cause": 'a "quoted" \\ cause, ünïcode ☃',
        "node": "gpu[1-2]",
        "planned": True,
        "after": "2025-03-01T00:19:00Z",
    },
    {"time": "2025-03-01T00:30:00Z", "job": "a", "event": "nodes_ready", "nodes": 0, "joined": "gpu3", "left": "gpu1"},
    {"time": "2025-03-01T00:40:00Z", "job": "a", "event": "running", "resumed_from": "s-1"},
    {"time": "2025-03-01T00:50:00Z", "job": "a", "event": "end", "outcome": "completed"},
    {"time": "2025-03-01T00:40:00Z", "event": "node_down", "node": "gpu1"},
]


def lines_on_disk(tmp_path, lines: list[dict], also: str = "") -> list[dict]:
    """Write lines, read them as a log, write that, and return its lines."""
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(fields)}\n" for fields in lines) + also)
    write_log(read_log(tmp_path / "in.jsonl")[0], tmp_path / "out.jsonl")
    return [json.loads(text) for text in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]


def test_every_field_comes_back_from_disk(tmp_path):
    assert lines_on_disk(tmp_path, EVERYTHING) == EVERYTHING


EXTRAS = {
    "text": "unknown fields are kept",
    "when": "2025-03-01T00:00:00",
    "number": 1.5,
    "flag": False,
    "list": ["b4", "b5"],
    "table": {"rack": "b4", "slots": [1, 2]},
}


@pytest.mark.parametrize("key", EXTRAS)
@pytest.mark.parametrize("path", ["fast", "slow"])
def test_an_unknown_field_comes_back_from_disk_as_it_was(tmp_path, key, path):
    """On the fast path, and on the slow one, which a time in seconds asks for."""
    lines = [{**EVERYTHING[0], key: EXTRAS[key]}, EVERYTHING[1]]
    if path == "slow":
        lines[1] = {**lines[1], "time": 1740787800}
    assert lines_on_disk(tmp_path, lines)[0][key] == EXTRAS[key]


@pytest.mark.parametrize("path", ["fast", "slow"])
def test_an_unknown_whole_number_loses_no_digit(tmp_path, path):
    """Also where other lines do not have the field; a float would round 2 ** 53 + 1."""
    lines = [{**EVERYTHING[0], "step": 2**53 + 1}, EVERYTHING[1]]
    if path == "slow":
        lines[1] = {**lines[1], "time": 1740787800}
    assert lines_on_disk(tmp_path, lines)[0]["step"] == 2**53 + 1


@pytest.mark.parametrize("key", ["file", "line"])
def test_a_field_named_as_our_own_bookkeeping_does_no_harm(tmp_path, key):
    (tmp_path / "log.jsonl").write_text(START.replace("}", f', "{key}": "theirs"}}') + f"\n{END}\n")
    log, _ = read_log(tmp_path / "log.jsonl")
    assert log["line"].tolist() == [1, 2] and set(log["file"]) == {str(tmp_path / "log.jsonl")}


times = st.integers(0, 4_000_000_000_000_000)
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


@settings(max_examples=50)
@given(st.lists(times, min_size=1, max_size=6, unique=True), texts, texts, st.integers(0, 10_000_000))
def test_any_names_sizes_and_times_come_back_from_disk(tmp_path_factory, moments, job, cause, nodes):
    more = len(moments) - 1
    log = make_log(
        {
            "time": sorted(moments),
            "job": [job] * (more + 1),
            "event": ["start"] + ["interrupt"] * more,
            "cause": [None] + [cause] * more,
            "nodes": [nodes] * (more + 1),
            "gpus_per_node": [1] * (more + 1),
        }
    )
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    write_log(log, path)
    back, findings = read_log(path)
    assert {found.code for found in findings} == {"no-end"}
    columns = ["time", "job", "event", "cause", "nodes", "gpus_per_node"]
    pd.testing.assert_frame_equal(back[columns], log[columns], check_categorical=False)


def test_a_failed_write_leaves_no_file_behind(tmp_path):
    log = log_of("0 start nodes=1 gpus_per_node=1")
    with pytest.raises(BadInput, match=r"log\.jsonl: file must be writable"):
        write_log(log, tmp_path / "no such folder" / "log.jsonl")
    (tmp_path / "taken.jsonl").mkdir()
    with pytest.raises(BadInput, match=r"taken\.jsonl: file must be writable"):
        write_log(log, tmp_path / "taken.jsonl")
    assert os.listdir(tmp_path) == ["taken.jsonl"] and os.listdir(tmp_path / "taken.jsonl") == []


def test_a_write_that_breaks_off_leaves_the_old_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "log.jsonl"
    path.write_text("the old one")
    monkeypatch.setattr("goodput.logtext.log_text", lambda log: "half a line".encode("no such encoding"))
    with pytest.raises(LookupError):
        write_log(log_of("0 start nodes=1 gpus_per_node=1"), path)
    assert os.listdir(tmp_path) == ["log.jsonl"] and path.read_text() == "the old one"


def test_a_text_that_json_cannot_hold_as_utf_8_is_found(finding):
    """Half of a surrogate pair, which some writers let through."""
    code, number, _ = finding(START, END.replace("}", ', "outcome": "\\ud800"}'), END)
    assert (code, number) == ("unreadable", 2)


def test_our_day_is_the_day_of_the_hand_made_logs():
    assert log_of("1 start nodes=1 gpus_per_node=1")["time"].iloc[0] == pd.Timestamp("2025-01-01T00:01:00Z")
    assert micros(log_of("1 start nodes=1 gpus_per_node=1")["time"])[0] == OUR_DAY + MINUTE
