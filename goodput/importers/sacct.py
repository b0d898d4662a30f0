"""Slurm's accounting: the text of `sacct -P` with any set of columns, `-D` or not, or the JSON of `sacct --json`.

Raw columns of the text, in any order: `JobID` or `JobIDRaw`, `State`, `Start`, `End` or `Elapsed` (or `ElapsedRaw`),
a count of nodes (`NNodes`, `AllocNodes`, `AllocTRES` or `NodeList`); and where they are given `Submit`, `JobName`,
`ExitCode`, `DerivedExitCode`, `Suspended`, `Restarts`, `FailedNode`, `Cluster`, `ReqTRES`, `AllocGRES`, `ReqGRES`. Raw
fields of the JSON, Slurm 21.08 and later: `jobs`, of each those that `rows_of_json` maps to these columns, and `steps`.

| raw | ours |
|---|---|
| the records of a JobID, by Start (components `123+0`, `123+1` added up) | one job; a record is an attempt |
| Start, of the first attempt or after COMPLETED | `start`, `name` (JobName), `queued_seconds` (since Submit) |
| Start, later | `nodes_ready` and `running`; `resize` where the attempt before ended as RESIZING |
| AllocTRES (else AllocGRES, ReqTRES, ReqGRES) and NNodes | `nodes` and `gpus_per_node` |
| NodeList | `node_names` at a start, `joined` and `left` later |
| End, by a state that is not COMPLETED | `gap` and `interrupt`, cause as in `KINDS`; then it holds 0 nodes |
| a step that ended worse than its COMPLETED or FAILED job (.extern aside) | the same, with the step's cause |
| DerivedExitCode of a COMPLETED job, where there are no steps | the same, `program_error` |
| FailedNode, or the only node of a NODE_FAIL | `node` of the interrupt |
| End - Start - Elapsed: it was suspended, when is not told | `interrupt`, `preemption`, right at the begin |
| End, the last | `end`, outcome `completed` or `interrupted` |
| Start + Elapsed of a job that goes on | `resize` to the size that it has: the last that is known of it |
| a job without Start, or without GPUs | a count in a finding |

`attempt`, `state` (as it is written) and `signal` (of ExitCode) are further columns. When saves were made is not told;
the `gap` before an interrupt says so: compute of the attempt up to it is unattributed, it may have been saved or lost.
"""

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from goodput.events import Imported, make_log
from goodput.importers.sacct_attempts import TOGETHER, Attempt, attempt_of, life, timed
from goodput.importers.sacct_fields import Record
from goodput.importers.sacct_file import Found, looks_like_sacct, read_records
from goodput.importers.sacct_nodes import expand_nodes
from goodput.importers.sacct_words import ACTIVE, kind_of, seconds_of

__all__ = ["expand_nodes", "kind_of", "looks_like_sacct", "read_sacct", "seconds_of"]


def read_sacct(path: str | Path | Sequence[str | Path], timezone: str | None = None) -> Imported:
    """Return the events of a file of sacct, what in it was not clean, and lines that could not be read.

    Several files are read as one, so that a job that is in two of them counts once. Times without a zone are read in
    `timezone` (an IANA name), else as UTC. Raises BadInput for a file that is not of sacct, or lacks columns.
    """
    found = Found(timezone)
    for each in [path] if isinstance(path, str | Path) else path:
        read_records(Path(each), found)
    unread = {bad.job for bad in found.unreadable}
    rows = []
    for job, records in _by_job(found.records).items():
        rows += [row | {"job": job} for row in _rows_of(job, records, job in unread, found)]
    _say_of_all(rows, found)
    return Imported(_log(rows) if rows else None, found.findings, found.unreadable)


def _by_job(records: list[Record]) -> dict[str, list[Record]]:
    """Return the records of each job; where they are of several clusters, their ids are told apart by its name."""
    clusters = {record.cluster for record in records} - {""}
    jobs: dict[str, list[Record]] = {}
    for record in records:
        name = f"{record.cluster}/{record.job}" if len(clusters) > 1 else record.job
        jobs.setdefault(name, []).append(record)
    return jobs


def _rows_of(job: str, records: list[Record], is_open: bool, found: Found) -> list[dict[str, Any]]:
    """Return a job's events; it is open where something of it could not be read."""
    own = _newest([record for record in records if record.step is None], found)
    ran = [record for record in own if record.ran]
    if not ran:
        _count_idle(job, own, records, found)
        return []
    if all(record.gpus == 0 for record in ran):
        found.count("no-gpus", job)
        return []
    stays = _stays(ran)
    attempts = [attempt_of(stay, steps, found) for stay, steps in zip(stays, _steps_of(stays, records), strict=True)]
    attempts = timed(attempts, found)
    # behind the last attempt: it waits again, or was cancelled in the queue
    later = [each for each in own if not each.ran and (each.submit or each.end or ran[-1].start) >= ran[-1].start]
    _say_of_job(job, attempts, later, found)
    rows = list(life(attempts, is_open or bool(later)))
    if later and later[-1].end and later[-1].kind != ACTIVE and rows[-1]["event"] != "end":
        told = {"time": max(later[-1].end[0], rows[-1]["time"]), "event": "end", "outcome": "interrupted"}
        rows.append(told | {"state": later[-1].state, "file": later[-1].file, "line": later[-1].line})
    return rows


def _newest(records: list[Record], found: Found) -> list[Record]:
    """Return the records of a job by start, each attempt once: reports of two days may both hold it, or one of them
    while it still went on."""
    going: dict[tuple, Record] = {}
    ended: dict[tuple, Record] = {}
    for record in records:
        key = (record.offset, record.submit, record.start)
        if record.kind == ACTIVE:
            going[key] = max(record, going.get(key, record), key=lambda each: each.run or 0)
        else:
            ended[(*key, record.state, record.end, record.run)] = record
    over = {key[:3] for key in ended}
    kept = [*ended.values(), *(record for key, record in going.items() if key not in over)]
    for record in records[len(kept) :]:
        found.count("duplicates", record.job)
    # one without a start stands where it was submitted; without that too, last
    return sorted(kept, key=lambda each: (each.start or each.submit or (1 << 62,), each.submit, each.end, each.line))


def _count_idle(job: str, own: list[Record], records: list[Record], found: Found) -> None:
    if not own:
        found.say("warning", "steps-alone", records[0], f"job {job}: steps without the line of their job: left out")
    elif own[-1].kind == ACTIVE or (own[-1].kind == "requeue" and not own[-1].end):
        found.count("still-waiting", job)
    else:
        found.count("never-ran", job)


def _stays(ran: list[Record]) -> list[list[Record]]:
    """Return the records of each attempt: one, or one of each component of a heterogeneous job."""
    stays: list[dict[int | None, Record]] = []
    begin = 0
    for record in ran:
        is_apart = not stays or record.offset is None or record.offset in stays[-1]
        if is_apart or record.start[0] - begin > TOGETHER:
            stays.append({})
            begin = record.start[0]
        stays[-1][record.offset] = record
    return [list(stay.values()) for stay in stays]


def _steps_of(stays: list[list[Record]], records: list[Record]) -> list[list[Record]]:
    """Return the steps of each attempt: the one that had begun last when the step began."""
    begins = [stay[0].start[0] for stay in stays]
    steps: list[list[Record]] = [[] for _ in stays]
    for record in records:
        if record.step is not None and record.step != "extern":
            at = max(0, bisect_right(begins, record.start[0]) - 1) if record.start else -1
            steps[at].append(record)
    return steps


def _say_of_job(job: str, attempts: list[Attempt], later: list[Record], found: Found) -> None:
    record = attempts[-1].record
    before = sum(attempt.kind != ACTIVE for attempt in attempts[:-1]) + bool(later)
    if (record.restarts or 0) > before:
        text = f"job {job} was restarted {record.restarts} times, {before} of the attempts before are here"
        found.say("warning", "earlier-attempts", record, f"{text}: earlier ones are missing (give sacct -D)")
    found.tells_attempts |= record.restarts is not None or len(attempts) > 1 or bool(later)
    for attempt in attempts:
        if attempt.suspended:
            text = f"suspended for {attempt.suspended / 1e6:g} s, when is not told: waiting with 0 GPU-hours"
            found.say("note", "suspended", attempt.record, f"job {job} was {text}")
    if attempts[-1].kind == ACTIVE:
        found.say("note", "still-running", record, f"job {job} is {record.state}: counted until Start + Elapsed")
    if later and later[-1].kind == ACTIVE:
        found.count("still-waiting", job)


def _say_of_all(rows: list[dict[str, Any]], found: Found) -> None:
    if any(row["event"] == "interrupt" and "state" in row for row in rows):
        text = "when saves were made is not told: compute of an attempt that was interrupted is unattributed"
        found.say_of_file("no-save-time", text)
    if rows and not found.tells_attempts:
        text = "no job has more than one record: without -D sacct shows only the last attempt of a requeued job"
        found.say_of_file("earlier-attempts", f"{text}, so earlier ones may be missing")
    found.say_counts()


def _log(rows: list[dict[str, Any]]) -> pd.DataFrame:
    names = ("time", "job", "event", "cause", "node", "nodes", "gpus_per_node", "node_names", "joined", "left")
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in (*names, "outcome", "file", "line")}
    further = {"attempt": "Int64", "name": object, "state": object, "signal": "Int64", "queued_seconds": "Float64"}
    for name, dtype in further.items():
        columns[name] = pd.Series([row.get(name) for row in rows], dtype=dtype).array
    return make_log(columns)
