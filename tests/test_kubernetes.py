"""Kubernetes events: the case against its right value, others of the same kinds by hand, and a fuzz."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_megatron import CASES, CHANGES, EXPECTED, assert_exact, mutated, seconds, told

from goodput.attribution import interruptions, spans
from goodput.errors import BadInput
from goodput.importers.kubernetes import looks_like_kubernetes, read_kubernetes
from goodput.logfile import mended
from goodput.metrics import is_failure, per_job, rates

SAMPLE = Path(__file__).parents[1] / "data" / "logs" / "kubernetes_sample.jsonl"
DAY = "2025-03-01T"


def row(clock: str, kind: str, name: str, reason: str, message: str = "", **more) -> dict:
    """Return a short line."""
    return {"ts": f"{DAY}{clock}Z", "kind": kind, "name": name, "reason": reason, "message": message, **more}


def event(clock: str, kind: str, name: str, reason: str, message: str = "", last: str | None = None, count=1) -> dict:
    """Return an Event of core/v1."""
    times = {"firstTimestamp": f"{DAY}{clock}Z", "lastTimestamp": f"{DAY}{last or clock}Z", "count": count}
    about = {"kind": kind, "namespace": "ml", "name": name}
    return {"kind": "Event", "apiVersion": "v1", "involvedObject": about, "reason": reason, "message": message, **times}


def placed(clock: str, pod: str, node: str) -> dict:
    return row(clock, "Pod", pod, "Scheduled", f"Successfully assigned ml/{pod} to {node}")


RUN = [row("00:00:00", "JobSet", "train", "Started", "attempt 0"), row("04:00:00", "JobSet", "train", "Completed")]


@pytest.fixture
def read(tmp_path):
    """Return a function that reads objects, one a line, or text, as a log."""

    def read_them(*found: dict | str, timezone: str | None = None, name: str = "events.jsonl"):
        path = tmp_path / name
        path.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in found))
        return mended([read_kubernetes(path, timezone)], str(path))

    return read_them


def causes(log) -> list[str]:
    return interruptions(log)["cause"].tolist()


# --- the case ------------------------------------------------------------------------------------------------------


def test_a_preemption_that_looks_like_a_failure_is_none():
    log, _ = mended([read_kubernetes(CASES / "B24.events.jsonl")], "B24")
    right, parts, struck = EXPECTED["B24"], spans(log), interruptions(log)
    assert len(struck) == right["interrupts"]
    assert (struck["cause"] == "preemption").sum() == right["preemptions"]
    assert is_failure(struck).sum() == right["failures_for_mtbf"]
    assert rates(per_job(parts, struck)).job_mtbf.count == right["failures_for_mtbf"]
    waited = parts[(parts["category"] == "waiting") & (parts["cause"] == "preemption")]
    assert (waited["end"] - waited["start"]).sum().total_seconds() == right["preempt_wait_s"]


def test_the_sample_that_ships_adds_up_to_what_is_worked_out_by_hand():
    """2 Pods x 8 GPUs. Admitted 00:00:00, the second Pod runs at 00:02:30. Preempted 02:02:30, both have a node again
    at 02:17:40, run at 02:20:10. gpu003 not ready 04:00:00, its Pod given up 04:05:00, nodes at 04:10:00, run 04:12:20.
    A container crashes 05:12:20, again 4 times, runs 05:21:20; done 06:21:20. What was saved is not told.
    """
    log, findings = mended([read_kubernetes(SAMPLE)], "sample")
    assert seconds(log) == {
        "restart": 150 + 150 + 140,
        "unattributed": 7200 + 5990 + 3600,
        "waiting": 910 + 300 + 540,
        "detection": 300,
        "productive": 3600,
    }
    assert spans(log)["gpu_hours"].sum() == pytest.approx(16 * 22880 / 3600, rel=1e-12)
    struck = interruptions(log)
    assert struck["cause"].tolist() == ["preemption", "node_lost", "pod_failed"]
    assert struck["node"].astype(object).fillna("").tolist() == ["", "gpu003", "gpu001"]
    assert is_failure(struck).sum() == 2
    assert log["node_names"].dropna().tolist() == ["gpu[001-002]"]
    assert log["joined"].dropna().tolist() == ["gpu003", "gpu004"]
    assert log["left"].dropna().tolist() == ["gpu002", "gpu003"]
    assert log.loc[log["job"].isna(), "event"].tolist() == ["node_down", "node_repaired"]
    assert told(findings) == {"no-saves"}


# --- who stopped it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "message", "cause", "fails"),
    [
        ("Preempted", "Preempted to accommodate a workload (UID: 1) due to prioritization", "preemption", False),
        ("EvictedDueToPreempted", "Preempted to accommodate a workload", "preemption", False),
        ("Evicted", "evicted due to preemption", "preemption", False),
        ("EvictedDueToMaximumExecutionTimeExceeded", "", "time_limit", False),
        ("EvictedDueToDeactivated", "The workload is deactivated", "user_cancel", False),
        ("EvictedDueToClusterQueueStopped", "The ClusterQueue is stopped", "planned", False),
        ("EvictedDueToNodeFailures", "", "node_lost", True),
        ("EvictedDueToPodsReadyTimeout", "Exceeded the PodsReady timeout", "pods_not_ready", True),
        ("Evicted", "for a reason that nobody listed", "evicted", True),
    ],
)
def test_the_workload_says_why_a_queue_stopped_a_job(read, reason, message, cause, fails):
    stop = row("02:00:01", "Workload", "jobset-train-0a1b2", reason, message)
    log, _ = read(
        RUN[0], row("02:00:00", "JobSet", "train", "Suspended"), stop, row("03:00:00", "JobSet", "train", "Resumed")
    )
    assert causes(log) == [cause]
    assert is_failure(interruptions(log)).tolist() == [fails]


def test_a_suspension_that_nobody_explains_is_no_failure_and_said(read):
    log, findings = read(RUN[0], row("02:00:00", "Job", "train", "Suspended", "Job suspended"), RUN[1])
    assert causes(log) == ["preemption"]
    assert "suspended" in told(findings)


def test_the_preemptor_is_not_the_preempted(read):
    log, _ = read(
        RUN[0], row("02:00:00", "Workload", "jobset-train-0a1b2", "Preempted", "Preempted workload ml/other"), RUN[1]
    )
    assert causes(log) == []


def test_a_job_that_waits_in_its_queue_holds_nothing(read):
    log, _ = read(
        row("00:00:00", "JobSet", "train", "Suspended", "Kueue managed jobs need to be suspended"),
        row("05:00:00", "JobSet", "train", "Started", "Admitted by clusterQueue research"),
        row("06:00:00", "JobSet", "train", "AllJobsCompleted", "jobset completed successfully"),
    )
    assert seconds(log) == {"productive": 3600}


def test_two_preemptions_in_one_repeated_event_are_two(read):
    log, _ = read(
        event("00:00:00", "JobSet", "train", "Started"),
        event("01:00:00", "Workload", "jobset-train-0a1b2", "Preempted", "Preempted to ...", last="03:00:00", count=2),
        event("01:30:00", "JobSet", "train", "Resumed", last="03:10:00", count=2),
        event("04:00:00", "JobSet", "train", "AllJobsCompleted"),
    )
    assert causes(log) == ["preemption", "preemption"]
    assert seconds(log)["waiting"] == 1800 + 600


def test_what_came_at_times_that_are_not_told_is_counted_in_a_note(read):
    _, findings = read(
        event("00:00:00", "JobSet", "train", "Started"),
        event("01:00:00", "Workload", "jobset-train-0a1b2", "Preempted", "Preempted to ...", last="03:00:00", count=5),
    )
    assert [f.message for f in findings if f.code == "times-not-told"] == [
        "Workload jobset-train-0a1b2: Preempted came 5 times, 3 of them at times not told: left out"
    ]


# --- what failed ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "reason", "message", "cause"),
    [
        ("Pod", "OOMKilled", "", "out_of_memory"),
        ("Pod", "Failed", "Error: failed to start container", "pod_failed"),
        ("Pod", "Error", "exit code: 139", "pod_exit_139"),
        ("Pod", "Evicted", "The node was low on resource: ephemeral-storage.", "evicted_ephemeral_storage"),
        ("Pod", "NodeShutdown", "Pod was terminated in response to imminent node shutdown.", "node_lost"),
        ("Pod", "NodeNotReady", "Node is not ready", "node_lost"),
        ("Pod", "TaintManagerEviction", "Marking for deletion Pod ml/train-0-abcde", "node_lost"),
        ("Pod", "BackOff", "Back-off restarting failed container main in pod", "pod_failed"),
        ("Pod", "Preempted", "Preempted by pod 5d1f on node gpu001", "preemption"),
        ("Pod", "EvictionByEvictionAPI", "Eviction API: evicting", "planned"),
        (
            "Job",
            "PodFailurePolicy",
            "Container main for pod ml/x failed with exit code 42 matching FailJob",
            "pod_exit_42",
        ),
        ("JobSet", "Restarting", "restarting jobset, attempt 1", "pod_failed"),
    ],
)
def test_the_reason_of_a_pod_or_a_job_is_the_cause(read, kind, reason, message, cause):
    name = "train" if kind == "JobSet" else "train-w-0"
    log, _ = read(RUN[0], row("02:00:00", kind, name, reason, message))
    assert causes(log) == [cause]


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("TaintManagerEviction", "Cancelling deletion of Pod ml/train-0-abcde"),
        ("BackOff", "Back-off pulling image"),
        ("Unhealthy", "Readiness probe failed"),
        ("FailedScheduling", "0/4 nodes are available"),
    ],
)
def test_what_is_no_failure_is_none(read, reason, message):
    log, _ = read(RUN[0], row("02:00:00", "Pod", "train-w-0-0-abcde", reason, message), RUN[1])
    assert causes(log) == []


def test_one_fault_with_many_signs_is_one_interruption(read):
    """The Pods fail, then the Job, then the JobSet restarts; the back-off goes on until it runs again."""
    log, _ = read(
        RUN[0],
        row("01:00:00", "Pod", "train-w-0-0-abcde", "OOMKilled"),
        row("01:00:02", "Pod", "train-w-1-0-fghij", "Failed", "exit code 137"),
        row("01:00:05", "Job", "train-w-0", "BackoffLimitExceeded"),
        row("01:00:06", "JobSet", "train", "Restarting"),
        row("01:04:00", "Pod", "train-w-0-0-klmno", "BackOff", "Back-off restarting failed container"),
        row("01:10:00", "JobSet", "train", "Resumed"),
        RUN[1],
    )
    assert causes(log) == ["out_of_memory"]
    # known at the Job's failure
    assert (seconds(log)["detection"], seconds(log)["waiting"]) == (5, 595)


def test_a_node_that_is_lost_is_the_cause_and_the_fault_began_with_it(read):
    log, _ = read(
        placed("00:00:00", "train-0-aaaaa", "gpu001"),
        placed("00:00:00", "train-1-bbbbb", "gpu002"),
        row("00:01:00", "Pod", "train-0-aaaaa", "Started"),
        row("00:02:00", "Pod", "train-1-bbbbb", "Started"),
        row("00:00:00", "Job", "train", "SuccessfulCreate"),
        row("01:02:00", "Node", "gpu009", "NodeNotReady"),
        row("02:02:00", "Node", "gpu002", "NodeNotReady"),
        row("02:07:00", "Pod", "train-1-bbbbb", "TaintManagerEviction", "Marking for deletion"),
    )
    struck = interruptions(log)
    assert struck[["cause", "node"]].to_numpy().tolist() == [["node_lost", "gpu002"]]
    assert seconds(log) == {"restart": 120, "unattributed": 7200, "detection": 300}


def test_a_container_that_starts_again_had_died(read):
    log, findings = read(
        placed("00:00:00", "train-0-aaaaa", "gpu001"),
        row("00:01:00", "Pod", "train-0-aaaaa", "Started"),
        row("03:01:00", "Pod", "train-0-aaaaa", "Started"),
        row("04:01:00", "Job", "train", "Completed"),
    )
    assert causes(log) == ["pod_failed"]
    assert seconds(log) == {"restart": 60, "unattributed": 10800, "productive": 3600}
    assert "restart-in-place" in told(findings)


def test_a_pod_that_takes_anothers_place_means_a_stop_when_that_was_killed(read):
    log, findings = read(
        placed("00:00:00", "train-0-aaaaa", "gpu001"),
        row("00:01:00", "Pod", "train-0-aaaaa", "Started"),
        row("02:01:00", "Pod", "train-0-aaaaa", "Killing", "Stopping container main"),
        placed("02:03:00", "train-0-bbbbb", "gpu002"),
        row("02:04:00", "Pod", "train-0-bbbbb", "Started"),
        row("03:04:00", "Job", "train", "Completed"),
    )
    assert causes(log) == ["not_logged"]
    assert seconds(log) == {"restart": 60 + 60, "unattributed": 7200, "waiting": 120, "productive": 3600}
    assert "pod-replaced" in told(findings)


def test_a_job_that_gives_up_ends_with_its_last_failure(read):
    log, _ = read(
        RUN[0], row("02:00:00", "JobSet", "train", "ReachedMaxRestarts"), row("09:00:00", "JobSet", "train", "x")
    )
    assert causes(log) == ["pod_failed"]
    assert log.loc[log["event"] == "end", "outcome"].tolist() == ["failed"]
    assert seconds(log) == {"unattributed": 7200}


def test_a_job_of_a_jobset_may_end_before_the_whole(read):
    log, _ = read(RUN[0], row("01:00:00", "Job", "train-w-0", "Completed"), RUN[1])
    assert seconds(log) == {"productive": 4 * 3600}


def test_a_job_of_the_same_name_after_its_end_is_a_new_run(read):
    again = [row("06:00:00", "JobSet", "train", "Started"), row("07:00:00", "JobSet", "train", "Completed")]
    log, _ = read(*RUN, *again)
    assert seconds(log) == {"productive": 5 * 3600}


# --- which job, which size -----------------------------------------------------------------------------------------


def test_two_jobs_of_one_file_are_told_apart_by_their_names(read):
    log, _ = read(
        row("00:00:00", "PyTorchJob", "train", "PyTorchJobRunning"),
        row("00:00:00", "Job", "train-eval", "Resumed"),
        row("01:00:00", "Pod", "train-eval-x7k2p", "OOMKilled"),
        row("02:00:00", "PyTorchJob", "train", "PyTorchJobSucceeded"),
        row("03:00:00", "Service", "train", "Created"),
        row("03:00:00", "Pod", "nginx-abcde-fghij", "BackOff", "Back-off restarting failed container"),
    )
    assert interruptions(log)[["job", "cause"]].to_numpy().tolist() == [["train-eval", "out_of_memory"]]
    assert sorted(spans(log)["job"].unique()) == ["train", "train-eval"]


def test_a_workload_of_any_name_is_that_of_the_only_job(read):
    assert causes(read(RUN[0], row("02:00:00", "Workload", "wl-7", "Preempted"), RUN[1])[0]) == ["preemption"]


def test_the_same_name_in_two_namespaces_is_two_jobs(read):
    log, _ = read(*({**each, "namespace": space} for each in RUN for space in ("a", "b")))
    assert sorted(spans(log)["job"].unique()) == ["a/train", "b/train"]


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (
            "Job",
            {
                "parallelism": 4,
                "template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 8}}}]}},
            },
        ),
        (
            "JobSet",
            {
                "replicatedJobs": [
                    {"replicas": 1, "template": {"spec": {"template": {"spec": {"containers": [{}]}}}}},
                    {
                        "replicas": 2,
                        "template": {
                            "spec": {
                                "parallelism": 2,
                                "template": {
                                    "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}
                                },
                            }
                        },
                    },
                ]
            },
        ),
    ],
)
def test_the_size_is_parallelism_times_the_gpu_limits(read, kind, spec):
    whole = {"apiVersion": "x", "kind": kind, "metadata": {"name": "train"}, "spec": spec}
    log, findings = read(whole, *({**each, "kind": kind} for each in RUN))
    assert log[["nodes", "gpus_per_node"]].iloc[0].tolist() == [4, 8]
    assert "no-size" not in {finding.code for finding in findings}


def test_conditions_of_objects_are_read_as_events(read):
    """A Job that ran from 00:00 to 02:00, of which the queue kept no event; the Pod's last crash is in its state."""

    def condition(kind: str, clock: str, reason: str = "", status: str = "True") -> dict:
        return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": f"{DAY}{clock}Z"}

    job = {"kind": "Job", "metadata": {"name": "train"}, "status": {"conditions": [condition("Complete", "02:00:00")]}}
    died = {"exitCode": 137, "reason": "OOMKilled", "startedAt": f"{DAY}00:00:00Z", "finishedAt": f"{DAY}01:00:00Z"}
    states = {"state": {"running": {"startedAt": f"{DAY}01:01:00Z"}}, "lastState": {"terminated": died}}
    pod = {"kind": "Pod", "metadata": {"name": "train-x7k2p"}, "spec": {"nodeName": "gpu001"}}
    pod["status"] = {"startTime": f"{DAY}00:00:00Z", "containerStatuses": [states]}
    log, _ = read({"kind": "List", "items": [job, pod]})
    assert interruptions(log)[["cause", "node"]].to_numpy().tolist() == [["out_of_memory", "gpu001"]]
    assert seconds(log) == {"unattributed": 3600, "waiting": 60, "productive": 3540}


# --- files ---------------------------------------------------------------------------------------------------------

LINES = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
PRETTY = json.dumps({"apiVersion": "v1", "items": LINES, "kind": "List", "metadata": {"resourceVersion": ""}}, indent=4)


@pytest.mark.parametrize(
    "text",
    [
        PRETTY,
        json.dumps({"kind": "EventList", "metadata": {"a": "b"}, "items": LINES}, indent=1),
        json.dumps(LINES, indent=2),
        json.dumps({"kind": "List", "items": LINES}),
        "\n".join(json.dumps(line, indent=4) for line in LINES),
        "\n".join(json.dumps({"type": "ADDED", "object": line}) for line in LINES),
        "\n".join(json.dumps(line) for line in reversed(LINES)),
        "\n".join(json.dumps(line) for line in [*LINES, *LINES]),
    ],
    ids=["kubectl", "api", "array", "one line", "watch", "watch events", "reversed", "doubled"],
)
def test_a_list_a_watch_and_lines_in_any_order_say_the_same(read, text):
    clean, _ = mended([read_kubernetes(SAMPLE)], "sample")
    log, _ = read(text)
    assert seconds(log) == seconds(clean)
    assert log["event"].tolist() == clean["event"].tolist()


def test_a_torn_list_costs_what_comes_behind_alone(read):
    log, findings = read(PRETTY[: PRETTY.index("TaintManagerEviction")])
    assert "preemption" in causes(log)
    assert "cut-tail" in told(findings)


def test_a_torn_line_leaves_a_gap_in_the_job_that_it_names(read):
    other = [{**each, "name": "other"} for each in RUN]
    torn = json.dumps(row("01:00:00", "JobSet", "train", "Suspended"))[:80]
    log, findings = read(RUN[0], other[0], torn, row("03:00:00", "JobSet", "train", "Resumed"), RUN[1], other[1])
    assert [(f.code, f.line) for f in findings if f.severity == "warning" and f.code == "unreadable"] == [
        ("unreadable", 3)
    ]
    assert log.loc[log["event"] == "gap", "job"].tolist() == ["train"]


def test_events_of_the_newer_api_are_read(read):
    log, _ = read(
        {
            "kind": "Event",
            "regarding": {"kind": "JobSet", "name": "train", "namespace": "ml"},
            "reason": "Started",
            "note": "",
            "eventTime": f"{DAY}00:00:00.123456Z",
        },
        {
            "kind": "Event",
            "regarding": {"kind": "Workload", "name": "jobset-train-0a1b2", "namespace": "ml"},
            "reason": "Preempted",
            "note": "Preempted to accommodate a workload",
            "eventTime": f"{DAY}01:00:00.123456Z",
            "series": {"count": 2, "lastObservedTime": f"{DAY}02:00:00.000000Z"},
        },
        event("01:30:00", "JobSet", "train", "Resumed"),
    )
    assert causes(log) == ["preemption", "preemption"]


def test_a_time_without_a_zone_is_refused_with_its_line_unless_a_zone_is_given(read):
    bare = {**RUN[0], "ts": "2025-03-01T00:00:00"}
    with pytest.raises(BadInput, match=r"events\.jsonl:2: .*--timezone"):
        read("", bare, RUN[1])
    log, _ = read("", bare, RUN[1], timezone="Asia/Tokyo")
    assert seconds(log) == {"productive": 13 * 3600}


def test_packed_files_are_read(tmp_path):
    path = tmp_path / "events.jsonl.gz"
    path.write_bytes(gzip.compress(SAMPLE.read_bytes()))
    assert len(read_kubernetes(path).log) == len(read_kubernetes(SAMPLE).log)


@pytest.mark.parametrize(
    "text", ["", "hello\n", "[]", '{"time": 1, "job": "a", "event": "start"}\n', "{" * 5000, "[" * 5000]
)
def test_what_is_no_such_log_is_refused_in_one_line(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(BadInput, match=r"x\.json: must hold Kubernetes events of a job") as refused:
        read_kubernetes(tmp_path / "x.json")
    assert "\n" not in str(refused.value)


def test_it_is_recognised_where_that_is_safe():
    assert looks_like_kubernetes((CASES / "B24.events.jsonl").read_bytes())
    assert looks_like_kubernetes(SAMPLE.read_bytes()) and looks_like_kubernetes(PRETTY.encode())
    others = sorted(path for path in CASES.iterdir() if path.name != "B24.events.jsonl")
    assert [path.name for path in others if looks_like_kubernetes(path.read_bytes())] == []


# --- fuzz ----------------------------------------------------------------------------------------------------------

TEXTS = [SAMPLE.read_bytes(), (CASES / "B24.events.jsonl").read_bytes(), PRETTY.encode()]


@settings(max_examples=150)
@given(st.sampled_from(TEXTS), CHANGES)
def test_whatever_stands_in_a_log_its_sums_are_exact(tmp_path_factory, text, changes):
    path = tmp_path_factory.mktemp("fuzz") / "events.json"
    path.write_bytes(mutated(text, changes))
    try:
        log, _ = mended([read_kubernetes(path)], str(path))
    except BadInput as refused:
        assert "\n" not in str(refused)
        return
    assert_exact(log)
