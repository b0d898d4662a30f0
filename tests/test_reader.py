"""A reader that bends and tells: torn, doubled, shuffled, split, misdated logs, each against the right value."""

import gzip
import json
import random
import zlib
from pathlib import Path

import pytest

from goodput import analysis
from goodput.attribution import ledger, spans
from goodput.errors import BadInput
from goodput.events import micros
from goodput.importers import read_any
from goodput.lines import LINE_BYTES
from goodput.logfile import moment, read_log
from goodput.logtext import log_text, write_log
from goodput.scenario import load_scenario
from goodput.simulate import simulate
from goodput.text import to_json

CASES = Path(__file__).parent / "cases"
EXPECTED = json.loads((CASES / "expected.json").read_text("utf-8"))
CATEGORY = {"lost": "lost_work"}


def seconds_of(log) -> dict[str, float]:
    """Return the seconds of each category that has any, and the total."""
    parts = spans(log)
    seconds = (parts["end"] - parts["start"]).dt.total_seconds()
    found = seconds.groupby(parts["category"].astype(str)).sum().to_dict()
    return {**found, "total": seconds.sum()}


def codes_of(findings) -> list[str]:
    return [finding.code for finding in findings]


def lines(*events: str) -> str:
    """Return a log of job `a`: each event is `seconds name key=value ...`."""
    rows = []
    for event in events:
        time, name, *fields = event.split()
        values = {key: int(value) if value.isdigit() else value for key, value in (f.split("=") for f in fields)}
        rows.append({"time": float(time), "job": "a", "event": name, **values})
    return "\n".join(map(json.dumps, rows)) + "\n"


@pytest.fixture
def read(tmp_path):
    def read(text: str | bytes, name: str = "log.jsonl", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_log(path, **options)

    return read


NATIVE = ["A03", "A05", "A06", "A07", "A09", "A11", "A17", "A18", "A20"]


@pytest.mark.parametrize("case", NATIVE)
def test_the_native_cases_have_their_right_seconds(case):
    log, _ = read_log(CASES / f"{case}.native.jsonl", nodes=4, gpus_per_node=8)
    ours = seconds_of(log)
    right = {key.removesuffix("_s"): value for key, value in EXPECTED[case]["expect"].items() if key.endswith("_s")}
    known = ("total", "productive", "checkpoint", "lost", "detection", "waiting", "restart")
    for name in known if case != "A03" else ():  # A03 is two files: below
        if name in right:
            assert ours.get(CATEGORY.get(name, name), 0) == right[name], name


def test_a_log_whose_head_is_missing_is_seen_from_its_first_event_on():
    """A03: 00:30 to 03:30; the interrupt is the first event, 60 + 95 minutes of training follow, none known lost."""
    log, findings = read_log(CASES / "A03.native.jsonl", nodes=4, gpus_per_node=8)
    assert seconds_of(log)["total"] == 10_800
    assert seconds_of(log)["productive"] == 9_300
    assert "lost_work" not in seconds_of(log)
    assert codes_of(findings) == ["no-start"]


def test_doubled_lines_are_dropped_and_counted():
    log, findings = read_log(CASES / "A06.native.jsonl")
    assert (log["event"] == "interrupt").sum() == 1
    assert findings[0].message.startswith("8 duplicated lines dropped")


def test_clocks_that_disagree_never_give_a_negative_stretch_and_both_lines_are_named():
    log, findings = read_log(CASES / "A17.native.jsonl")
    assert codes_of(findings) == ["clocks-disagree"]
    assert "90 s" in findings[0].message and findings[0].line == 5 and ":4" in findings[0].message
    assert seconds_of(log) == {
        "productive": 7200,
        "checkpoint": 300,
        "lost_work": 3300,
        "waiting": 600,
        "restart": 300,
        "total": 11_700,
    }


def test_saves_that_overlap_are_counted_once_and_said():
    """A11: 00:30 to 01:40 is 70 minutes, not 40 + 40."""
    log, findings = read_log(CASES / "A11.native.jsonl")
    assert codes_of(findings) == ["overlapping-saves"] and seconds_of(log)["checkpoint"] == 4200


def test_a_job_that_shrinks_and_grows_is_weighted_with_the_size_that_held():
    log, _ = read_log(CASES / "A18.native.jsonl")
    found = ledger(spans(log))
    assert found.sum() == pytest.approx(423.466667, abs=1e-6)
    assert found["productive"] == pytest.approx(288)
    assert found["lost_work"] == pytest.approx(83.2)


def test_a_log_without_an_end_is_closed_at_its_last_event_and_says_so():
    log, findings = read_log(CASES / "A20.native.jsonl")
    assert codes_of(findings) == ["no-end"] and "2025-03-01T01:05:00Z" in findings[0].message
    assert seconds_of(log)["total"] == 3900


def test_a_log_without_an_end_is_closed_as_of_a_time_that_is_given():
    as_of = moment("2025-03-01T02:05:00Z")
    log, findings = read_log(CASES / "A20.native.jsonl", as_of=as_of)
    assert seconds_of(log) == {"productive": 7200, "checkpoint": 300, "total": 7500}
    assert "as of the time given" in findings[0].message


def test_a_bad_line_in_the_middle_marks_the_job_and_a_cut_tail_is_a_note():
    """A22: the end of the save of 01:00 is torn, so nobody knows what of the work from 00:00 on was saved.

    Unattributed: the compute before the torn line (00:00 to 01:00) and the hole around it (01:00 to 02:00).
    """
    log, findings = read_log(CASES / "A22.native.jsonl")
    assert [(f.severity, f.code, f.line) for f in findings] == [
        ("warning", "unreadable", 4),
        ("note", "cut-tail", 9),
        ("note", "no-end", 8),
    ]
    assert seconds_of(log)["unattributed"] == 7200 and "lost_work" not in seconds_of(log)
    assert analysis.analyze(log, findings).jobs["incomplete"].tolist() == [True]


def test_a_window_that_starts_in_an_outage_counts_only_its_part_inside():
    """C13: of the outage 22:00 to 02:00 two hours lie in the day from 00:00; data ends at 12:00."""
    log, findings = read_log(CASES / "C13.native.jsonl")
    since, until = moment("2025-03-02T00:00:00Z"), moment("2025-03-03T00:00:00Z")
    found = analysis.analyze(log, findings, since, until)
    down = found.spans[~found.spans["category"].isin(["productive", "checkpoint"])]
    assert (down["end"] - down["start"]).dt.total_seconds().sum() == 7200
    assert found.window["covered_hours"] == 12 and found.window["coverage"] == 0.5


# --- a clean log -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clean():
    """A clean log of three jobs, as lines."""
    scenario = load_scenario("firmware-regression").but({"days": 3})
    return [line for seed in (1, 2, 3) for line in log_text(simulate(scenario, seed)).splitlines()]


def answer(*paths: Path) -> str:
    log, findings = read_any(paths, "native")
    data = analysis.as_data(analysis.analyze(log, findings))
    return to_json({key: value for key, value in data.items() if key != "findings"})


def test_a_clean_log_gives_no_finding(clean, tmp_path):
    (tmp_path / "log.jsonl").write_text("\n".join(clean) + "\n")
    assert read_log(tmp_path / "log.jsonl")[1] == []


@pytest.mark.parametrize("change", ["shuffled", "doubled", "split", "gzipped", "shifted", "epoch", "crlf"])
def test_a_clean_log_gives_the_same_answer_to_the_byte_however_it_is_delivered(clean, tmp_path, change):
    whole = tmp_path / "whole.jsonl"
    whole.write_text("\n".join(clean) + "\n")
    other, paths = clean.copy(), [tmp_path / "other.jsonl"]
    if change in ("shuffled", "doubled"):
        other = clean * (2 if change == "doubled" else 1)
        random.Random(7).shuffle(other)
    if change in ("shifted", "epoch"):
        other = [re_timed(line, change) for line in clean]
    if change == "split":
        paths = [tmp_path / f"part{k}.jsonl" for k in range(3)]
        for k, path in enumerate(paths):
            path.write_text("\n".join(clean[k::3]) + "\n")
    elif change == "gzipped":
        paths = [tmp_path / "other.jsonl.gz"]
        paths[0].write_bytes(gzip.compress("\n".join(other).encode()))
    else:
        paths[0].write_bytes(("\r\n" if change == "crlf" else "\n").join(other).encode())
    assert answer(*paths) == answer(whole)


def re_timed(line: str, change: str) -> str:
    event = json.loads(line)
    micros = moment(event["time"])
    if change == "epoch":
        return json.dumps(event | {"time": micros / 1e6})
    hour, rest = divmod(micros + 9 * 3_600_000_000, 86_400_000_000)
    day = hour * 86_400_000_000
    stamp = __import__("datetime").datetime(1970, 1, 1) + __import__("datetime").timedelta(microseconds=day + rest)
    return json.dumps(event | {"time": stamp.isoformat() + "+09:00"})


def test_what_is_written_is_read_back_the_same(clean, tmp_path):
    (tmp_path / "log.jsonl").write_text("\n".join(clean) + "\n")
    log, _ = read_log(tmp_path / "log.jsonl")
    write_log(log, tmp_path / "again.jsonl.gz")
    again, findings = read_log(tmp_path / "again.jsonl.gz")
    assert findings == [] and log_text(again) == log_text(log)


# --- what is not clean -----------------------------------------------------------------------------------------------


def test_a_start_while_running_is_a_restart_whose_outage_is_not_training(read):
    """Trained 0 to 100 s, saved at 100; nothing is heard until the start at 900: 800 s unattributed."""
    text = lines(
        "0 start nodes=1 gpus_per_node=8", "90 checkpoint_start", "100 checkpoint_end", "900 start nodes=1", "1000 end"
    )
    log, findings = read(text)
    assert seconds_of(log) == {"productive": 90 + 100, "checkpoint": 10, "unattributed": 800, "total": 1000}
    assert codes_of(findings) == ["restart"]


def test_a_second_start_after_an_end_is_a_new_run_that_holds_nothing_between(read):
    log, findings = read(lines("0 start nodes=1 gpus_per_node=8", "100 end", "500 start nodes=2", "600 end"))
    assert seconds_of(log) == {"productive": 200, "total": 200}
    assert spans(log)["nodes"].tolist() == [1, 2]
    assert codes_of(findings) == ["no-size"]  # the second start does not say its GPUs


def test_a_missing_running_leaves_its_stretch_unattributed(read):
    text = lines(
        "0 start nodes=1 gpus_per_node=8",
        "100 interrupt cause=x",
        "110 detected",
        "120 nodes_ready",
        "500 checkpoint_start",
        "510 checkpoint_end",
        "600 end",
    )
    log, findings = read(text)
    right = {"lost_work": 100, "detection": 10, "waiting": 10, "unattributed": 380, "checkpoint": 10, "productive": 90}
    assert seconds_of(log) == {**right, "total": 600}
    assert codes_of(findings) == ["no-running"]


def test_an_outage_without_its_interrupt_is_seen_by_what_follows(read):
    text = lines("0 start nodes=1 gpus_per_node=8", "100 nodes_ready", "130 running", "200 end")
    log, findings = read(text)
    assert seconds_of(log) == {"unattributed": 100, "restart": 30, "productive": 70, "total": 200}
    assert codes_of(findings) == ["no-interrupt"]


def test_one_bad_job_never_costs_the_others_theirs(read):
    good = lines("0 start nodes=1 gpus_per_node=8", "50 checkpoint_start", "60 checkpoint_end", "100 end")
    bad = lines("0 detected", "5 running", "7 checkpoint_end", "8 start").replace('"a"', '"b"')
    log, _ = read(good + bad)
    alone, _ = read(good)
    columns = ["start", "end", "category", "gpu_hours"]
    mine = spans(log)
    mine = mine[mine["job"] == "a"].reset_index(drop=True)
    assert mine[columns].equals(spans(alone)[columns])


def test_a_torn_line_of_an_unknown_job_marks_every_job_that_was_open_then(read):
    a, b, c = (
        lines("0 start nodes=1 gpus_per_node=8", "100 checkpoint_start", "110 checkpoint_end", "200 end").replace(
            '"a"', f'"{name}"'
        )
        for name in "abc"
    )
    ended = "".join(c.splitlines(keepends=True))
    first = [text.splitlines(keepends=True) for text in (a, b)]
    text = ended + "".join(first[0][:2] + first[1][:2]) + '{"time": 105, "jo\n' + "".join(first[0][2:] + first[1][2:])
    log, findings = read(text)
    jobs = analysis.analyze(log, findings).jobs
    assert jobs["incomplete"].to_dict() == {"a": True, "b": True, "c": False}


def test_a_torn_line_that_names_its_job_marks_only_that(read):
    a, b = (
        lines("0 start nodes=1 gpus_per_node=8", "200 end").replace('"a"', f'"{name}"').splitlines(keepends=True)
        for name in "ab"
    )
    log, findings = read(a[0] + b[0] + '{"job": "b", "event": "checkpoint_sta\n' + a[1] + b[1])
    assert analysis.analyze(log, findings).jobs["incomplete"].to_dict() == {"a": False, "b": True}


def test_absurd_sizes_and_times_are_findings(read):
    text = lines("0 start nodes=1 gpus_per_node=8", "100 resize nodes=99999999999", "200 end")
    text += '{"time": 1740787200000, "job": "a", "event": "end"}\n'
    log, findings = read(text)
    assert spans(log)["nodes"].tolist() == [1]
    assert {"absurd-size", "unreadable"} <= set(codes_of(findings))


def test_hours_are_job_hours_where_no_size_is_known(read):
    log, findings = read(lines("0 start", "7200 end"))
    assert analysis.analyze(log, findings).unit == "job-hours"
    assert ledger(spans(log)).sum() == 2
    log, findings = read(lines("0 start", "7200 end"), nodes=4, gpus_per_node=8)
    assert analysis.analyze(log, findings).unit == "GPU-hours" and ledger(spans(log)).sum() == 64


def test_a_time_without_a_zone_is_refused_by_line_unless_a_zone_is_given(read):
    text = '{"time": "2025-03-01T00:00:00", "job": "a", "event": "start", "nodes": 1, "gpus_per_node": 1}\n'
    text += '{"time": "2025-03-01T02:00:00", "job": "a", "event": "end"}\n'
    with pytest.raises(BadInput, match=r"log\.jsonl:1: time='2025-03-01T00:00:00' must be a time with a zone"):
        read(text)
    log, findings = read(text, timezone="Asia/Tokyo")
    assert findings == [] and log["time"].iloc[0].isoformat() == "2025-02-28T15:00:00+00:00"
    with pytest.raises(BadInput, match="--timezone=Mars must be an IANA name"):
        read(text, timezone="Mars")


def test_the_hour_that_comes_twice_is_named(read):
    """Berlin, 26 October 2025: 02:30 comes twice; read as the first, in summer time."""
    text = '{"time": "2025-10-26T02:30:00", "job": "a", "event": "start", "nodes": 1, "gpus_per_node": 1}\n'
    text += '{"time": "2025-10-26T04:00:00", "job": "a", "event": "end"}\n'
    log, findings = read(text, timezone="Europe/Berlin")
    assert codes_of(findings) == ["ambiguous-time"] and findings[0].line == 1
    assert seconds_of(log)["total"] == 2.5 * 3600


def test_a_line_without_end_or_a_bomb_ends_in_one_clear_error(read, tmp_path, monkeypatch):
    with pytest.raises(BadInput, match="each line must be at most"):
        read(b'{"time": 0, "job": "' + b"x" * (LINE_BYTES + 10) + b'"}\n')
    monkeypatch.setattr("goodput.lines.UNPACKED_FREE_BYTES", 1 << 20)
    with pytest.raises(BadInput, match="must not unpack to more than"):
        read(gzip.compress(b"\n" * (50 << 20)), name="bomb.jsonl.gz")


def test_a_packed_log_that_breaks_off_is_read_up_to_there(clean, tmp_path):
    packed = gzip.compress("\n".join(clean).encode())
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[: len(packed) * 2 // 3])
    log, findings = read_log(tmp_path / "cut.jsonl.gz")
    assert "cut-file" in codes_of(findings) and len(log) > 100


def test_what_is_no_gzip_is_refused(read):
    with pytest.raises(BadInput, match="must be readable"):
        read(b"no gzip", name="x.jsonl.gz")
    with pytest.raises(BadInput, match="must be readable"):
        read(gzip.compress(b"x" * 99)[:-20] + zlib.compress(b"y"), name="x.jsonl.gz")


def test_a_line_that_is_not_utf_8_is_a_finding_wherever_the_bad_byte_stands(read):
    good = lines("0 start nodes=1 gpus_per_node=8", "9 checkpoint_start", "99 end").encode()
    for bad in (good.replace(b"nodes", b"no\xe7es", 1), good.replace(b"checkpoint_start", b"checkpoint\xe7")):
        _, findings = read(bad)
        assert {"unreadable", "no-size"} & set(codes_of(findings))


def test_names_in_a_log_do_not_steer_the_terminal(read):
    log, findings = read(lines("0 start nodes=1 gpus_per_node=8", "9 end").replace('"a"', '"a\\u001b[31m\\u0007"'))
    found = analysis.analyze(log, findings)
    text = analysis.as_text(found, analysis.as_data(found))
    assert "\x1b" not in text and "\x07" not in text


def test_spans_of_random_logs_tile_what_was_held_exactly(tmp_path):
    """Two jobs, random events at random times, torn and doubled lines: every run's spans tile it, in microseconds."""
    events = "launch start checkpoint_start checkpoint_end checkpoint_durable interrupt detected nodes_ready running"
    names = [*events.split(), "resize", "end", "node_down", "gap"]
    for seed in range(150):
        luck = random.Random(seed)
        path = tmp_path / "log.jsonl"
        path.write_text(random_log(luck, names))
        try:
            log, _ = read_log(path)
        except BadInput:
            continue
        parts = spans(log)
        start, end = micros(parts["start"]), micros(parts["end"])
        assert (end > start).all()
        assert int((end - start).sum()) == held_micros(log), seed
        assert ledger(parts).sum() == pytest.approx(parts["gpu_hours"].sum())


def random_log(luck: random.Random, names: list[str]) -> str:
    time, rows = 0, []
    for _ in range(luck.randint(1, 40)):
        time = max(0, time + luck.choice([0, 0, 1, 5, 60, 600, -30]))
        row = {"time": time, "job": luck.choice("ab"), "event": luck.choice(names), "node": "n1"}
        if luck.random() < 0.4:
            row |= {"nodes": luck.randint(0, 4), "gpus_per_node": luck.choice([8, -1, 10**12])}
        if luck.random() < 0.2:
            row |= {"after": max(0, time - luck.randint(0, 300)), "cause": luck.choice("xy")}
        if luck.random() < 0.1:
            row |= {"async": True, "node": ["n1", "n2"]}
        text = json.dumps(row)
        rows += [text[: luck.randint(0, len(text))] if luck.random() < 0.05 else text] * luck.choice([1, 1, 1, 2])
    if luck.random() < 0.2:
        luck.shuffle(rows)
    return "\n".join(rows)


def held_micros(log) -> int:
    """Return the microseconds from the first event of each run to its end, or its last event: a plain loop."""
    total, first, last, of = 0, None, None, None
    rows = log[log["job"].notna() & (log["event"] != "node_down")]
    for job, time, event in zip(rows["job"], micros(rows["time"]).tolist(), rows["event"], strict=True):
        if job != of and first is not None:
            total, first = total + last - first, None
        first, last, of = time if first is None else first, time, job
        if event == "end":
            total, first = total + last - first, None
    return total + (last - first if first is not None else 0)
