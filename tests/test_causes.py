"""Kernel messages and health checks: the cases against their right values, joining them to logs by hand, and a fuzz."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_megatron import CASES, CHANGES, EXPECTED, assert_exact, mutated, seconds

from goodput.attribution import interruptions, spans
from goodput.causes import HARDWARE, PROGRAM, STANDING, WARNING, join_causes, read_causes
from goodput.errors import BadInput
from goodput.importers.kubernetes import read_kubernetes
from goodput.importers.megatron import read_megatron
from goodput.logfile import mended, read_log
from goodput.metrics import by_cause, by_node

LOGS = Path(__file__).parents[1] / "data" / "logs"
SAMPLE = LOGS / "causes_sample.txt"


@pytest.fixture
def read(tmp_path):
    """Return a function that reads lines of text, or health checks, as causes."""

    def read_them(*lines: str | dict, **options):
        path = tmp_path / "kern.log"
        path.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines))
        return read_causes(path, **options)

    return read_them


@pytest.fixture
def log(tmp_path):
    """Return a function that makes a log of events at clock times of 1 March 2025."""

    def make(*events: str, job: str = "a"):
        rows = []
        for event in events:
            clock, name, *fields = event.split()
            values = dict(field.split("=") for field in fields)
            values |= {key: f"2025-03-01T{values[key]}Z" for key in ("after",) if key in values}
            values |= {key: int(values[key]) for key in ("nodes", "gpus_per_node") if key in values}
            rows.append({"time": f"2025-03-01T{clock}Z", "job": job, "event": name, **values})
        path = tmp_path / f"{job}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        return read_log(path)[0]

    return make


def xid(clock: str, node: str, number: int, device: str = "0000:44:00", day: str = "2025-03-01") -> str:
    return f"{day}T{clock}+00:00 {node} kernel: NVRM: Xid (PCI:{device}): {number}, pid=1, name=python, Ch 00000008"


def check(clock: str, node: str, name: str, message: str = "", fatal: bool = True, day: str = "2025-03-01") -> dict:
    return {"ts": f"{day}T{clock}Z", "node": node, "check": name, "fatal": fatal, "msg": message}


def kinds(causes) -> list[tuple]:
    """Return (kind, cause, alarms) of each incident."""
    return list(causes.incidents[["kind", "cause", "alarms"]].itertuples(index=False, name=None))


def blamed(log) -> list[tuple]:
    found = interruptions(log)[["cause", "node"]].astype(object)
    return list(found.where(found.notna(), None).itertuples(index=False, name=None))


# --- the cases -----------------------------------------------------------------------------------------------------


def test_a_card_that_falls_off_is_hardware_with_and_without_an_xid():
    causes = read_causes(CASES / "B21.dmesg.txt")
    right, incidents = EXPECTED["B21"], causes.incidents
    hardware = incidents[incidents["kind"] == HARDWARE]
    assert len(hardware) == right["hardware_incidents"]
    assert (incidents["kind"] == PROGRAM).sum() == right["program_errors"]
    assert sorted(hardware["device"]) == right["devices"]
    # seconds since boot have no time: an order only
    assert incidents["time"].isna().tolist() == [False] * 4 + [True]
    assert {finding.code for finding in causes.findings} == {"no-zone", "no-boot-time"}


def test_one_broken_node_with_many_alarms_is_one_incident():
    incidents = read_causes(CASES / "B27.health.jsonl").incidents
    right = EXPECTED["B27"]
    broken = incidents[incidents["kind"] != STANDING]
    assert len(broken) == right["incidents"]
    assert broken["alarms"].tolist() == [right["alarms"]]
    assert (incidents["kind"] == STANDING).sum() == right["standing_conditions"]
    assert broken[["node", "cause"]].to_numpy().tolist() == [["gpu003", "gpu_xid79"]]
    assert (f"{broken['time'].iloc[0]:%H:%M:%S}", f"{broken['until'].iloc[0]:%H:%M:%S}") == ("14:57:59", "16:10:00")


def test_the_samples_fit_together():
    """The node that Kubernetes lost at 04:00:00 had a card off the bus at 03:58:31, with four alarms until it was back
    at 05:00; the Pod on gpu001 that crashed at 05:12:20 had a double bit error 18 s before. A preemption stays one.
    """
    causes = read_causes(SAMPLE)
    assert causes.incidents["kind"].tolist() == [STANDING, PROGRAM, HARDWARE, HARDWARE]
    assert causes.incidents["alarms"].tolist() == [1, 1, 4, 1]
    path = LOGS / "kubernetes_sample.jsonl"
    before, _ = mended([read_kubernetes(path)], str(path))
    joined, findings = join_causes(before, causes)
    assert blamed(joined) == [("preemption", None), ("gpu_xid79", "gpu003"), ("gpu_xid48", "gpu001")]
    assert seconds(joined) == seconds(before)
    assert sorted(f.code for f in findings if f.severity == "note") == [
        "cause-joined",
        "cause-joined",
        "cause-unused",
        "no-zone",
        "standing-condition",
    ]


# --- what is one incident ------------------------------------------------------------------------------------------


def test_all_devices_of_a_node_are_one_incident_until_it_is_back(read):
    back = check("03:00:00", "gpu1", "NodeReady", "node is ready", fatal=False)
    causes = read(
        xid("01:00:00", "gpu1", 79), xid("01:00:01", "gpu1", 79, "0000:45:00"), back, xid("04:00:00", "gpu1", 79)
    )
    assert kinds(causes) == [(HARDWARE, "gpu_xid79", 2), (HARDWARE, "gpu_xid79", 1)]


def test_a_node_that_is_not_ready_is_no_return(read):
    causes = read(
        xid("01:00:00", "gpu1", 79),
        check("02:00:00", "gpu1", "NodeReady", "node is not ready", fatal=False),
        check("03:00:00", "gpu1", "NodeReady", "Kubelet stopped posting node status", fatal=False),
    )
    assert kinds(causes) == [(HARDWARE, "gpu_xid79", 3)]


def test_a_boot_brings_a_node_back(read):
    boot = "2025-03-01T03:00:00+00:00 gpu1 kernel: Linux version 6.8.0-45-generic (buildd@host)"
    causes = read(xid("01:00:00", "gpu1", 79), boot, xid("03:30:00", "gpu1", 79))
    assert [alarms for _, _, alarms in kinds(causes)] == [1, 1]


def test_repeats_of_a_programs_error_are_one_and_other_xids_others(read):
    causes = read(
        *(xid(f"01:00:{n:02}", "gpu1", 13) for n in range(9)), xid("01:00:09", "gpu1", 43), xid("02:00:00", "gpu1", 13)
    )
    assert kinds(causes) == [(PROGRAM, "gpu_xid13", 9), (PROGRAM, "gpu_xid43", 1), (PROGRAM, "gpu_xid13", 1)]


def test_what_a_program_says_of_a_broken_node_belongs_to_its_incident(read):
    causes = read(xid("01:00:00", "gpu1", 79), xid("01:00:01", "gpu1", 45))
    assert kinds(causes) == [(HARDWARE, "gpu_xid79", 2)]


def test_the_words_over_several_lines_are_one_alarm_also_where_each_line_has_its_stamp(read):
    begin = "2025-03-01T01:00:00+00:00 gpu1 kernel: NVRM: "
    causes = read(
        f"{begin}The NVIDIA GPU 0000:b3:00.0",
        f"{begin}(PCI ID: 10de:2330) installed in this system has",
        f"{begin}fallen off the bus and is not responding to commands.",
        f"{begin}The NVIDIA GPU 0000:b4:00.0",
        f"{begin}(PCI ID: 10de:2330) installed in this system is not supported",
    )
    assert kinds(causes) == [(HARDWARE, "gpu_xid79", 1)]
    assert causes.incidents["device"].tolist() == ["0000:b3:00"]


@pytest.mark.parametrize(
    ("line", "cause", "kind", "device"),
    [
        ("NVRM: GPU at 0000:01:00.0 has fallen off the bus.", "gpu_xid79", HARDWARE, "0000:01:00"),
        ("NVRM: Xid (0000:01:00): 48, An uncorrectable double bit error", "gpu_xid48", HARDWARE, "0000:01:00"),
        ("NVRM: Xid (PCI:00000000:B3:00): 94, Contained: SM", "gpu_xid94", HARDWARE, "0000:b3:00"),
        ("nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 12028, Non-fatal", "nvswitch_sxid12028", HARDWARE, "0000:c3:00"),
        ("mce: [Hardware Error]: Machine check events logged", "machine_check", HARDWARE, None),
        ("Out of memory: Killed process 4242 (python)", "host_out_of_memory", PROGRAM, None),
    ],
)
def test_each_message_has_its_cause(read, line, cause, kind, device):
    causes = read(f"2025-03-01T01:00:00+00:00 gpu1 kernel: {line}")
    assert kinds(causes) == [(kind, cause, 1)]
    assert (
        causes.incidents["device"].isna().all() if device is None else causes.incidents["device"].tolist() == [device]
    )


@pytest.mark.parametrize("number", [13, 31, 43, 45, 68, 69])
def test_a_health_check_that_calls_a_programs_error_fatal_is_not_believed(read, number):
    causes = read(check("01:00:00", "gpu1", "SysLogsXIDError", f"Xid {number}, pid=1"))
    assert kinds(causes) == [(PROGRAM, f"gpu_xid{number}", 1)]


def test_alarms_that_are_not_fatal_are_a_warning_until_one_is(read):
    soft = check("01:00:00", "gpu1", "GpuNvlinkWatch", "link down", fatal=False)
    assert kinds(read(soft)) == [(WARNING, "gpu_nvlink_watch", 1)]
    assert kinds(read(soft, xid("01:05:00", "gpu1", 74))) == [(HARDWARE, "gpu_xid74", 2)]


def test_a_condition_that_ended_or_is_new_is_not_standing(read):
    cleared = {**check("09:00:00", "gpu1", "GpuMemWatch", day="2025-02-20"), "healthy": True}
    causes = read(
        check("08:00:00", "gpu1", "GpuMemWatch", day="2025-02-20"),
        cleared,
        check("08:00:00", "gpu2", "GpuMemWatch", day="2025-02-20"),
        check("08:00:00", "gpu3", "GpuMemWatch"),
    )
    assert causes.incidents["kind"].tolist() == [HARDWARE, STANDING, HARDWARE]


def test_a_monitors_own_names_and_lists_of_checks_are_read(read):
    inner = {
        "checkName": "SysLogsXIDError",
        "isFatal": True,
        "errorCode": ["79"],
        "entitiesImpacted": [{"entityType": "PCI", "entityValue": "0002:00:00"}],
        "generatedTimestamp": {"seconds": 1740819600, "nanos": 500000000},
        "nodeName": "gpu1",
    }
    causes = read({"time": "2025-03-01T09:00:01Z", "msg": "Health events received", "events": {"events": [inner]}})
    assert kinds(causes) == [(HARDWARE, "gpu_xid79", 1)]
    assert causes.incidents[["node", "device"]].to_numpy().tolist() == [["gpu1", "0002:00:00"]]
    assert f"{causes.incidents['time'].iloc[0]:%H:%M:%S.%f}" == "09:00:00.500000"


# --- clocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stamp",
    [
        "[Sat Mar  1 02:00:00 2025] ",
        "gpu1: [Sat Mar  1 02:00:00 2025] ",
        "2025-03-01T02:00:00,000000+00:00 ",
        "2025-03-01T02:00:00+0000 gpu1 kernel: ",
        "2025-03-01T11:00:00.000000+09:00 gpu1 kernel: [ 1843.308145] ",
    ],
)
def test_each_clock_is_read(read, stamp):
    causes = read(f"{stamp}NVRM: Xid (PCI:0000:44:00): 79, pid=1")
    assert [f"{time:%Y-%m-%d %H:%M:%S}" for time in causes.incidents["time"]] == ["2025-03-01 02:00:00"]


def test_seconds_since_boot_count_from_the_boot_that_is_given_or_told(read):
    line = "[ 3600.500000] NVRM: Xid (PCI:0000:44:00): 79, pid=1"
    given_ = read(line, boot_time=1_740_787_200_000_000)
    told = read("[    1.500000] rtc_cmos 00:01: setting system clock to 2025-03-01T00:00:01 UTC (1740787201)", line)
    assert f"{given_.incidents['time'].iloc[0]:%H:%M:%S.%f}" == "01:00:00.500000"
    assert f"{told.incidents['time'].iloc[0]:%H:%M:%S.%f}" == "01:00:00.000000"


def test_a_stamp_without_a_year_takes_that_of_the_dated_lines(read):
    causes = read(
        xid("23:50:00", "gpu1", 79, day="2024-12-31"), "Jan  1 00:10:00 gpu2 kernel: NVRM: Xid (PCI:0000:44:00): 79, "
    )
    assert causes.incidents["time"].dt.year.tolist() == [2024, 2025]


def test_a_zone_that_is_given_is_read(read):
    line = "Mar  1 09:00:00 gpu1 kernel: NVRM: Xid (PCI:0000:44:00): 79, pid=1"
    causes = read(xid("00:00:00", "gpu2", 79), line, timezone="Asia/Tokyo")
    assert [f"{time:%H:%M}" for time in causes.incidents["time"]] == ["00:00", "00:00"]


# --- joining -------------------------------------------------------------------------------------------------------

NAMED = "00:00:00 start nodes=4 gpus_per_node=8 node_names=gpu[001-004]"
UP = ["02:05:00 nodes_ready", "02:10:00 running"]


def test_a_fault_without_a_cause_takes_cause_and_node_of_the_incident_before_it(read, log):
    joined, findings = join_causes(
        log(NAMED, "02:00:00 interrupt", *UP, "04:00:00 end"), read(xid("01:59:30", "gpu003", 79))
    )
    assert blamed(joined) == [("gpu_xid79", "gpu003")]
    assert by_cause(spans(joined), interruptions(joined))["cause"].tolist() == ["gpu_xid79"]
    assert by_node(spans(joined), interruptions(joined))["node"].tolist() == ["gpu003"]
    assert [f.code for f in findings] == ["cause-joined"]


@pytest.mark.parametrize(
    ("clock", "found"), [("01:29:59", False), ("01:30:00", True), ("02:02:00", True), ("02:02:01", False)]
)
def test_an_incident_explains_for_half_an_hour_and_clocks_may_differ_by_two_minutes(read, log, clock, found):
    joined, _ = join_causes(log(NAMED, "02:00:00 interrupt", *UP, "04:00:00 end"), read(xid(clock, "gpu003", 79)))
    assert blamed(joined) == [("gpu_xid79", "gpu003") if found else ("unknown", None)]


def test_a_fault_that_an_alarm_ended_began_with_the_first_sign(read, log):
    """The card failed at 01:10, the monitor lost the node at 01:58, the job stopped at 02:00."""
    causes = read(xid("01:10:00", "gpu003", 79), check("01:58:00", "gpu003", "GpuDcgmConnectivityFailure"))
    joined, _ = join_causes(log(NAMED, "02:00:00 interrupt", *UP, "04:00:00 end"), causes)
    assert blamed(joined) == [("gpu_xid79", "gpu003")]


def test_silence_before_a_fault_begins_at_its_first_sign(read, log):
    """Silent since 01:00, down at 02:00, the card failed at 01:40: 01:00 to 01:40 was compute, and lost."""
    silent = log(
        NAMED, "01:00:00 checkpoint_start", "01:00:00 checkpoint_end", "02:00:00 interrupt after=01:00:00", *UP
    )
    joined, _ = join_causes(silent, read(xid("01:40:00", "gpu003", 79)))
    assert seconds(silent)["unattributed"] == 3600 + 300
    assert seconds(joined) == {**seconds(silent), "unattributed": 1200 + 300, "lost_work": 2400}


def test_a_node_that_the_job_had_not_then_explains_nothing(read, log):
    """gpu003 leaves for gpu009 at the first fault; its alarms before the second one are of no account."""
    events = [NAMED, "01:00:00 interrupt cause=fabric node=gpu001", "01:05:00 nodes_ready joined=gpu009 left=gpu003"]
    events += ["01:06:00 running", "02:00:00 interrupt", *UP, "04:00:00 end"]
    outside = read(xid("01:59:00", "gpu003", 79), xid("01:59:00", "gpu077", 79))
    assert blamed(join_causes(log(*events), outside)[0]) == [("fabric", "gpu001"), ("unknown", None)]
    inside = read(xid("01:58:00", "gpu009", 48), xid("01:59:00", "gpu003", 79))
    joined, findings = join_causes(log(*events), inside)
    assert blamed(joined)[1] == ("gpu_xid48", "gpu009")
    assert sorted(f.code for f in findings) == ["cause-joined", "cause-unused"]


def test_names_with_and_without_their_domain_are_the_same_node(read, log):
    joined, _ = join_causes(log(NAMED, "02:00:00 interrupt", *UP), read(xid("01:59:00", "GPU003.cluster.local", 79)))
    assert blamed(joined) == [("gpu_xid79", "gpu003")]


def test_a_node_that_the_log_blames_is_the_only_one_asked(read, log):
    causes = read(xid("01:59:50", "gpu002", 79), xid("01:50:00", "gpu003", 48))
    joined, _ = join_causes(log(NAMED, "02:00:00 interrupt node=gpu003", *UP), causes)
    assert blamed(joined) == [("gpu_xid48", "gpu003")]


def test_what_somebody_chose_and_what_the_log_names_is_left_alone(read, log):
    back = [check(f"0{hour}:30:00", "gpu003", "NodeReady", "node is ready", fatal=False) for hour in (1, 2)]
    causes = read(
        xid("00:59:50", "gpu003", 79), back[0], xid("01:59:50", "gpu003", 79), back[1], xid("02:59:50", "gpu003", 79)
    )
    events = [NAMED]
    for hour, cause in ((1, "preemption"), (2, "fabric"), (3, "collective_hang")):
        events += [f"0{hour}:00:00 interrupt cause={cause}", f"0{hour}:01:00 nodes_ready", f"0{hour}:02:00 running"]
    joined, _ = join_causes(log(*events), causes)
    # a named cause keeps its name and gains a node; a hang is but what was seen of the fault
    assert blamed(joined) == [("preemption", None), ("fabric", "gpu003"), ("gpu_xid79", "gpu003")]


def test_an_incident_explains_one_interruption_at_most_and_hardware_comes_first(read, log):
    events = [NAMED, "02:00:00 interrupt", *UP, "02:15:00 interrupt", "02:16:00 nodes_ready", "02:17:00 running"]
    one = read(xid("01:59:00", "gpu003", 79))
    assert blamed(join_causes(log(*events), one)[0]) == [("gpu_xid79", "gpu003"), ("unknown", None)]
    two = read(xid("01:59:50", "gpu001", 31), xid("01:40:00", "gpu003", 79))
    assert blamed(join_causes(log(*events), two)[0]) == [("gpu_xid79", "gpu003"), ("gpu_xid31", "gpu001")]


def test_a_condition_that_stands_is_a_note_unless_a_fault_came_with_it(read, log):
    old = check("08:00:00", "gpu003", "GpuNvlinkWatch", day="2025-02-16")
    joined, findings = join_causes(log(NAMED, "02:00:00 interrupt", *UP), read(old, xid("12:00:00", "gpu099", 79)))
    assert blamed(joined) == [("unknown", None)]
    assert sorted(f.code for f in findings) == ["cause-unused", "standing-condition"]


def test_a_file_without_a_year_is_read_in_that_of_the_log(read, log):
    causes = read("Mar  1 01:59:30 gpu003 kernel: NVRM: Xid (PCI:0000:44:00): 79, pid=1")
    joined, findings = join_causes(log(NAMED, "02:00:00 interrupt", *UP), causes)
    assert blamed(joined) == [("gpu_xid79", "gpu003")]
    assert "no-year" in {f.code for f in findings}


def test_a_hang_of_a_training_log_takes_the_card_that_failed(read):
    """The sample hangs from 00:04:40 on, rank 11 behind; a card fell off at 00:04:39."""
    hung, _ = mended([read_megatron(LOGS / "megatron_sample.log")], "x", nodes=2, gpus_per_node=8)
    joined, _ = join_causes(hung, read(xid("00:04:39", "gpu002", 79)))
    assert blamed(joined) == [("gpu_xid79", "gpu002")]
    assert seconds(joined) == seconds(hung)


def test_a_log_that_nothing_explains_is_returned_as_it_is(read, log):
    before = log(NAMED, "02:00:00 interrupt", *UP)
    after, findings = join_causes(before, read("2025-03-01T02:00:00Z gpu1 kernel: usb 1-1: new device"))
    assert after is before and findings == []


# --- refusals, fuzz ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "hello\n", "{}\n", "\0"])
def test_what_holds_no_such_line_is_refused_in_one_line(tmp_path, text):
    (tmp_path / "x.txt").write_text(text)
    with pytest.raises(BadInput, match=r"x\.txt: must hold kernel messages .* or health checks") as refused:
        read_causes(tmp_path / "x.txt")
    assert "\n" not in str(refused.value)


def test_a_bad_line_is_a_finding_and_costs_no_other(read):
    causes = read(
        xid("01:00:00", "gpu1", 79),
        '{"ts": "noon", "node": "gpu1", "check": "X"}',
        '{"ts": ',
        xid("02:00:00", "gpu2", 79),
    )
    assert [f.line for f in causes.findings if f.code == "unreadable"] == [2, 3]
    assert len(causes.incidents) == 2


@pytest.mark.parametrize("name", ["@all", "@*", "n[", "n[3-1]", "n[0-9]x[0-9],@a:b", "!", "n!n1", "a&b", "a^b"])
def test_a_name_that_looks_like_an_expression_is_but_a_name(read, log, name):
    odd = log(f"00:00:00 start nodes=4 gpus_per_node=8 node_names={name}", f"02:00:00 interrupt node={name}", *UP)
    joined, _ = join_causes(odd, read(xid("01:59:00", "gpu1", 79)))
    assert blamed(joined) == [("unknown", name)]


@pytest.mark.parametrize("names", ["n[0-999999999999]", "r[0-99999]n[0-99999]", "n[0-1],r[0-9999]n[0-9999]"])
def test_an_absurd_list_of_nodes_costs_no_memory(read, log, names):
    absurd = log(f"00:00:00 start nodes=4 gpus_per_node=8 node_names={names}", "02:00:00 interrupt", *UP)
    joined, _ = join_causes(absurd, read(xid("01:59:00", "n5", 79)))
    assert blamed(joined) == [("unknown", None)]


TEXTS = [SAMPLE.read_bytes(), (CASES / "B21.dmesg.txt").read_bytes(), (CASES / "B27.health.jsonl").read_bytes()]
NATIVE, _ = read_log(LOGS / "every_event.jsonl")


@settings(max_examples=150)
@given(st.sampled_from(TEXTS), CHANGES, st.sampled_from([0, 30, 100_000]))
def test_whatever_stands_in_a_file_the_sums_of_a_log_stay_exact(tmp_path_factory, text, changes, within_minutes):
    path = tmp_path_factory.mktemp("fuzz") / "kern.log"
    path.write_bytes(mutated(text, changes))
    try:
        joined, _ = join_causes(NATIVE, read_causes(path), within_minutes)
    except BadInput as refused:
        assert "\n" not in str(refused)
        return
    assert len(joined) == len(NATIVE)
    assert_exact(joined)
    assert spans(joined)["gpu_hours"].sum() == pytest.approx(spans(NATIVE)["gpu_hours"].sum(), rel=1e-12)
