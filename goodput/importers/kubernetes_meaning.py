"""What a Kubernetes event says of a training job: that it comes up, runs, fails and why, is over."""

import re
from typing import NamedTuple

from goodput.events import CHOSEN

_EXIT_CODE = re.compile(r"exit(?:ed)?(?: with)?(?: code|Code)?[ :=]+(\d{1,3})\b", re.IGNORECASE)
_LOW_ON = re.compile(r"low on resource: ([\w-]+)")
# What a reason says: (signal, cause). Of a job, of a Workload, of a Pod, of a Node.
UP, READY, RUN, FAULT, KNOWN, OVER, DONE = "up", "ready", "run", "fault", "known", "over", "done"
OF_JOB = {
    **dict.fromkeys(("Started", "Resumed", "ResumeJobs"), (READY, None)),
    "Running": (RUN, None),
    **dict.fromkeys(("Suspended", "SuspendedJobs", "Stopped", "Preempted"), (FAULT, "preemption")),
    "Restarting": (KNOWN, None),
    **dict.fromkeys(("Failed", "BackoffLimitExceeded", "FailedJobs", "PodFailurePolicy"), (OVER, "pod_failed")),
    **dict.fromkeys(("FailedIndexes", "MaxFailedIndexesExceeded", "ReachedMaxRestarts"), (OVER, "pod_failed")),
    "DeadlineExceeded": (OVER, "time_limit"),
    **dict.fromkeys(("Completed", "Complete", "AllJobsCompleted", "Succeeded"), (DONE, None)),
}
_EVICTED = {
    r"preempt": "preemption",
    r"maximum ?execution ?time|deadline": "time_limit",
    r"node ?fail": "node_lost",
    r"pods ?ready": "pods_not_ready",
    r"deactivated": "user_cancel",
    r"queue ?(?:is )?stopped|admission ?check": "planned",
}
_POD = {
    "Scheduled": (UP, None),
    "Started": (READY, None),
    **dict.fromkeys(("Preempted", "Preempting", "PreemptionByScheduler"), (FAULT, "preemption")),
    "EvictionByEvictionAPI": (FAULT, "planned"),  # a drain
    **dict.fromkeys(("Failed", "Error", "BackOff"), (FAULT, "pod_failed")),
    **dict.fromkeys(("OOMKilled", "OOMKilling"), (FAULT, "out_of_memory")),
    **dict.fromkeys(("NodeNotReady", "NodeLost", "NodeShutdown", "Shutdown"), (FAULT, "node_lost")),
    **dict.fromkeys(("TaintManagerEviction", "DeletionByTaintManager", "DeletionByPodGC"), (FAULT, "node_lost")),
    **dict.fromkeys(("Evicted", "TerminationByKubelet"), (FAULT, "evicted")),
}


class Row(NamedTuple):
    """One thing that happened to one object; time in microseconds since 1970 UTC."""

    time: int
    line: int
    kind: str
    namespace: str | None
    name: str
    reason: str
    message: str
    node: str | None = None


def meaning_of(row: Row) -> tuple[str | None, str | None]:
    """Return what a row says of its job, and the cause that it gives."""
    if row.kind == "Pod":
        return _meaning_of_pod(row)
    if row.kind == "Workload":
        return _meaning_of_workload(row)
    reason = row.reason.removeprefix(row.kind)  # PyTorchJobRunning
    if reason in ("Suspended", "SuspendedJobs", "Stopped") and not re.search("preempt", row.message, re.IGNORECASE):
        return FAULT, None
    if reason in OF_JOB and OF_JOB[reason][1] == "pod_failed":
        return OVER, _by_exit_code(row.message, "pod_failed")
    return (KNOWN, None) if reason.startswith("Restart") else OF_JOB.get(reason, (None, None))


def _meaning_of_pod(row: Row) -> tuple[str | None, str | None]:
    signal, cause = _POD.get(row.reason, (None, None))
    if cause == "evicted" and (found := _LOW_ON.search(row.message)):
        return FAULT, f"evicted_{found[1].replace('-', '_')}"
    if row.message.startswith(("Cancelling deletion", "Back-off pulling")):
        return None, None
    return signal, _by_exit_code(row.message, cause) if cause == "pod_failed" else cause


def _meaning_of_workload(row: Row) -> tuple[str | None, str | None]:
    if row.reason in ("Admitted", "PodsReady"):
        return UP if row.reason == "Admitted" else RUN, None
    if row.reason.startswith("Finished"):
        return (OVER, "pod_failed") if "Failed" in row.reason else (DONE, None)
    if row.reason == "Preempted":  # the preemptor is told of it, too
        return (None, None) if row.message.startswith("Preempted workload") else (FAULT, "preemption")
    if not row.reason.startswith(("Evicted", "Deactivated")):
        return None, None
    for said in (row.reason, row.message):
        for pattern, cause in _EVICTED.items():
            if re.search(pattern, said, re.IGNORECASE):
                return FAULT, cause
    return FAULT, "evicted"


def _by_exit_code(message: str, cause: str) -> str:
    found = _EXIT_CODE.search(message)
    return f"pod_exit_{int(found[1])}" if found and int(found[1]) else cause


def rank_of(row: Row) -> int:
    """Return the place of a row among those of one second: what ends a state before what opens one."""
    signal, cause = meaning_of(row)
    order = {FAULT: 0 if cause in CHOSEN else 1, OVER: 2, KNOWN: 3, UP: 4, READY: 5, RUN: 6, DONE: 7}
    return order.get(signal, 8)
