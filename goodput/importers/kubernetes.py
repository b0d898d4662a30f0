"""Kubernetes events as JSON: of Jobs, JobSets and other training jobs, their Pods, Nodes, and Kueue's Workloads.

Raw: Events of core/v1 or events.k8s.io/v1, one a line, in a List (`kubectl get events -o json`), or as a watch prints
them; Job, JobSet, Workload, Pod and Node objects, of which conditions and sizes are read; or short lines with `ts`,
`kind`, `name`, `reason`, `message`. An Event that came `count` times is read at its first and at its last time.

| raw | ours |
|---|---|
| Workload `Admitted`, Pod `Scheduled`, Job `Started`, `Resumed` | `launch`; while it is down `nodes_ready` |
| Pod `Started` (the last one), Job `Started`, `Resumed`, `Running`, Workload `PodsReady` | `start`, later `running` |
| Workload `Preempted`, `EvictedDueTo...`, Pod `Preempted` | `interrupt`: `preemption`, or why; `detected` |
| Job `Suspended`, `Stopped` | the same; where nobody says why, `preemption` |
| Job `Failed`, `BackoffLimitExceeded`; Pod `Failed`, `BackOff` | `interrupt`: `pod_failed`, or `pod_exit_N` |
| Pod `OOMKilled`; `NodeNotReady`, `NodeShutdown`, `TaintManagerEviction` | `interrupt`: `out_of_memory`; `node_lost` |
| Pod `Evicted`; Job `DeadlineExceeded` | `interrupt`: `evicted_memory` or the like; `time_limit` |
| JobSet `Restarting`, a Job that fails after its Pod | `detected` |
| Job `Completed`, `AllJobsCompleted`; `Failed`, `ReachedMaxRestarts` | `end` |
| Node `NodeNotReady`, `NodeReady` | `node_down`, `node_repaired`; shortly before a failure, its cause `node_lost` |

A Pod is counted as a node, as training jobs place them; a job is named by its JobSet, or else by its Job. Saves are in
no event: the `gap` before an interrupt says so, compute up to it since the last start is unattributed.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from goodput.errors import BadInput, printable
from goodput.events import Imported, make_log
from goodput.importers.kubernetes_meaning import Row, rank_of
from goodput.importers.kubernetes_rows import Reader
from goodput.importers.kubernetes_story import Story
from goodput.line import zone_of


def looks_like_kubernetes(head: bytes) -> bool:
    """Return whether the first bytes are surely Kubernetes events: those of the API, or short lines of its kinds."""
    api = re.search(rb'"(?:involvedObject|regarding)"\s*:\s*\{', head) and re.search(rb'"reason"\s*:', head)
    short = re.search(rb'\{[^{}\n]*"kind"\s*:\s*"(?:\w*Job|JobSet|Workload|Pod|Node)"[^{}\n]*"reason"\s*:\s*"', head)
    return bool(api or short)


def read_kubernetes(path: str | Path, timezone: str | None = None) -> Imported:
    """Return the events of the jobs in a file, what it leaves open, and lines that could not be read.

    Raises BadInput for a file that tells of no job, and for a time without a zone where `timezone` gives none.
    """
    path = Path(path)
    reader = Reader(path, zone_of(timezone))
    reader.read()
    owners = Owners(reader.rows, reader.sizes)
    by_job: dict[tuple, list[Row]] = defaultdict(list)
    for row in sorted(reader.rows, key=lambda row: (row.time, rank_of(row), row.line)):
        if row.kind != "Node" and (job := owners.of(row.kind, row.namespace, row.name)):
            by_job[job].append(row)
    nodes = sorted({row for row in reader.rows if row.kind == "Node"}, key=lambda row: row.time)
    stories = [
        Story(owners.label(job), rows, nodes, reader.sizes.get(job), owners.kind(job)) for job, rows in by_job.items()
    ]
    told = [row for story in stories for row in story.tell()]
    if not told:
        why = f"; line {reader.unreadable[0].line}: {reader.unreadable[0].why}" if reader.unreadable else ""
        raise BadInput(f"{path}: must hold Kubernetes events of a job, as JSON{why}")
    findings = [finding._replace(file=printable(path)) for story in stories for finding in story.findings]
    named = [bad._replace(job=owners.guess(bad.job)) for bad in reader.unreadable]
    return Imported(_log([*told, *_lives_of_nodes(nodes)], path), reader.findings + findings, named)


class Owners:
    """Which job an object belongs to: names of children begin with the name of their owner."""

    def __init__(self, rows: list[Row], sizes: dict[tuple, tuple[int, int]]):
        kinds: dict[tuple, set[str]] = defaultdict(set)
        for row in rows:
            kinds[row.namespace, row.name].add(row.kind)
        is_job = {key: {kind for kind in of if _is_job(kind)} for key, of in kinds.items()}
        self.roots = {key for key, of in is_job.items() if of - {"Job"}}
        # the Jobs of a JobSet have an index at their end
        has_index = {key for key in is_job if re.search(r"-\d+$", key[1])}
        self.roots |= {key for key, of in is_job.items() if of and not (key in has_index and self._prefix(*key))}
        self.kinds = {key: sorted(is_job.get(key, ()), key=lambda kind: (kind == "Job", kind)) for key in self.roots}
        names = Counter(name for _, name in self.roots)
        self.is_alone = {name for name, count in names.items() if count == 1}

    def of(self, kind: str, namespace: str | None, name: str) -> tuple | None:
        """Return the job that an object belongs to; None for one of something else."""
        if _is_job(kind):
            return self._prefix(namespace, name)
        if kind == "Workload":
            name = re.sub(r"^[a-z]+-", "", name) if self._prefix(namespace, name) is None else name
        if kind not in ("Workload", "Pod"):
            return None
        found = self._prefix(namespace, name)
        if found is None and not self.roots:  # only Pods: what their names have in common
            return namespace, re.sub(r"(-\d+)?-[a-z0-9]+$", "", name)
        if found is None and kind == "Workload" and len(self.roots) == 1:
            return next(iter(self.roots))
        return found

    def _prefix(self, namespace: str | None, name: str) -> tuple | None:
        parts = name.split("-")
        for count in range(len(parts), 0, -1):
            prefix = "-".join(parts[:count])
            for key in ((namespace, prefix), (None, prefix)):
                if key in self.roots:
                    return key
        return None

    def kind(self, job: tuple) -> str:
        """Return what kind a job is of."""
        return next(iter(self.kinds.get(job, [])), "Pod")

    def label(self, job: tuple) -> str:
        """Return the name of a job, with its namespace where two have the same."""
        namespace, name = job
        return name if namespace is None or name in self.is_alone or not self.roots else f"{namespace}/{name}"

    def guess(self, name: str | None) -> str | None:
        """Return the job that a torn line is most likely of, by the name in it."""
        for namespace in {namespace for namespace, _ in self.roots} if name else ():
            if found := self.of("Pod", namespace, name):
                return self.label(found)
        return None


def _is_job(kind: str) -> bool:
    return kind != "CronJob" and (kind.endswith("Job") or kind == "JobSet")


def _lives_of_nodes(nodes: list[Row]) -> Iterator[dict[str, Any]]:
    down: set[str] = set()
    for row in nodes:
        if row.reason == "NodeNotReady" and row.name not in down:
            down.add(row.name)
            yield {"time": row.time, "event": "node_down", "node": row.name, "line": row.line}
        elif row.reason == "NodeReady" and row.name in down:
            down.discard(row.name)
            yield {"time": row.time, "event": "node_repaired", "node": row.name, "line": row.line}


def _log(rows: list[dict[str, Any]], path: Path) -> pd.DataFrame:
    texts = ("job", "event", "cause", "node", "node_names", "joined", "left", "outcome")
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in ("time", "line", *texts)}
    columns |= {name: pd.array([row.get(name) for row in rows], "Int32") for name in ("nodes", "gpus_per_node")}
    columns["file"] = pd.Categorical.from_codes([0] * len(rows), [printable(path)])
    return make_log(columns)
