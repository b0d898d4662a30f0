"""What cannot be as it is written? A log is set right, event by event, and each change is said.

Clean jobs pass untouched, whatever the number of their events. Only a job with an event that cannot follow what came
before it is walked through one by one (`walk.py`). Nothing is guessed in silence: what was assumed is in the finding.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from goodput.errors import NothingHappened
from goodput.events import CODE, COLUMNS, JOB_EVENTS, UNKNOWN, Finding, Unreadable, codes, concat_logs, make_log, micros
from goodput.order import impossible_rows, order_log, starts_within_saves
from goodput.walk import walk

_CONTENT = [name for name in COLUMNS if name not in ("file", "line")]


def mend(
    log: pd.DataFrame,
    unreadable: Sequence[Unreadable] = (),
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    as_of: int | None = None,
) -> tuple[pd.DataFrame, list[Finding]]:
    """Return a log that is ordered and possible, and what had to be set right for it.

    Duplicates are dropped; the order is restored by time and, at equal times, by cause and effect; lines that could
    not be read leave a `gap`; events that cannot follow are moved, completed or dropped as `walk` says; interrupts
    without a cause get `unknown`; a job's unknown size is `nodes` x `gpus_per_node`, or 1; a job without an end is
    closed at its last event, or at `as_of` (microseconds since 1970 UTC).
    """
    findings: list[Finding] = []
    tails = _cut_tails(log, unreadable)
    log = order_log(log)
    log, found = _drop_duplicates(log)
    findings += found
    # the life of nodes says nothing of what a job is doing: it is set aside, and joined again at the end
    of_node = codes(log["event"]) >= len(JOB_EVENTS)
    log, of_nodes = log[~of_node].reset_index(drop=True), log[of_node]
    if not len(log):
        raise NothingHappened("log: must hold at least one event of a job, not only of nodes")
    for step in (lambda log: _leave_gaps(log, unreadable, tails), _walk_bad_jobs, _count_overlaps, _name_causes):
        log, found = step(log)
        findings += found
    log, found = _give_sizes(log, nodes, gpus_per_node)
    log, more = _close_jobs(log, as_of)
    return concat_logs([log, of_nodes]) if len(of_nodes) else log, findings + found + more


def _place(row: Any) -> dict[str, Any]:
    file = None if pd.isna(row.file) else str(row.file)
    return {"file": file, "line": None if pd.isna(row.line) else int(row.line)}


def _drop_duplicates(log: pd.DataFrame) -> tuple[pd.DataFrame, list[Finding]]:
    job, time, event = codes(log["job"]), micros(log["time"]), codes(log["event"])
    together = np.append(False, (job[1:] == job[:-1]) & (time[1:] == time[:-1]))
    same = together & np.append(False, event[1:] == event[:-1])
    # in a job with gaps lines of one time stand as they came, and a double need not be next to its like
    near = same | together & np.isin(job, job[event == CODE["gap"]])
    if not near.any():
        return log, []
    # only lines of one job, time and event can be doubles; the rest of them decides
    tied = np.flatnonzero(near | np.append(near[1:], False))
    content = log.iloc[tied].drop(columns=["file", "line"])
    content = content.assign(**{name: content[name].astype(str) for name in content if name not in _CONTENT})
    double = tied[content.duplicated().to_numpy()]
    findings = []
    for file, lines in log.iloc[double].groupby("file", observed=True)["line"]:
        said = f"{len(lines)} duplicated lines dropped, the first at line {int(lines.min())}"
        findings.append(Finding("note", "duplicates", str(file), int(lines.min()), said))
    kept = np.delete(np.arange(len(log)), double)
    # what is left of a tie stands in the order of names, not of the file
    tie = np.cumsum(~same)[kept]
    order = np.lexsort((codes(log["node"])[kept], codes(log["cause"])[kept], tie))
    return log.take(kept[order]).reset_index(drop=True), findings


def _leave_gaps(
    log: pd.DataFrame, unreadable: Sequence[Unreadable], tails: set[Unreadable]
) -> tuple[pd.DataFrame, list[Finding]]:
    """Insert a `gap` behind the event before each unreadable line, in every job that it may have told of."""
    if not unreadable:
        return log, []
    findings, gaps = [], []
    events = log[["job", "event", "file", "line"]].assign(time=micros(log["time"]), row=np.arange(len(log)))
    for bad in unreadable:
        mine = events if bad.job is None else events[events["job"] == bad.job]
        open_jobs = _open_at(mine, bad)
        if bad in tails and not any(more for _, _, more in open_jobs):
            said = f"the last line is cut off, as by a writer that was stopped: left out ({bad.why})"
            findings.append(Finding("note", "cut-tail", bad.file, bad.line, said))
            continue
        gaps += [(row, bad.file, bad.line) for _, row, _ in open_jobs]
        which = ", ".join(job for job, _, _ in open_jobs[:3]) + (", ..." if len(open_jobs) > 3 else "")
        said = f"line could not be read ({bad.why}); time around it is unattributed, numbers incomplete for job {which}"
        if not open_jobs:
            said = f"line could not be read ({bad.why}); no job was open then"
        findings.append(Finding("warning", "unreadable", bad.file, bad.line, said))
    if not gaps:
        return log, findings
    row, file, line = map(list, zip(*sorted(gaps), strict=True))
    before = log.iloc[row]
    rows = make_log(
        {"time": micros(before["time"]), "job": before["job"], "event": ["gap"] * len(row), "file": file, "line": line}
    )
    place = np.append(np.arange(len(log)), np.array(row) + 0.5)  # right behind the event before
    return concat_logs([log, rows]).take(np.argsort(place, kind="stable")).reset_index(drop=True), findings


def _cut_tails(log: pd.DataFrame, unreadable: Sequence[Unreadable]) -> set[Unreadable]:
    """Return the unreadable lines that are the last of their file."""
    last_read = log.groupby("file", observed=True)["line"].max().to_dict()
    torn = [bad for bad in unreadable if "whole JSON" in bad.why]  # what is whole, but wrong, was not cut off
    last_bad = {bad.file: bad for bad in sorted(torn, key=lambda bad: bad.line)}
    return {bad for file, bad in last_bad.items() if bad.line > last_read.get(file, 0)}


def _open_at(events: pd.DataFrame, bad: Unreadable) -> list[tuple[str, int, bool]]:
    """Return each job that was open at an unreadable line: its name, the row of its last event, if it goes on."""
    in_file = events[events["file"] == bad.file]
    before = in_file[in_file["line"] < bad.line].sort_values("line").drop_duplicates("job", keep="last")
    after = in_file[in_file["line"] > bad.line].sort_values("line").drop_duplicates("job")
    # the first line of a part: what came before stands in another file
    elsewhere = after[~after["job"].isin(before["job"])]
    for row in elsewhere.itertuples():
        earlier = events[(events["job"] == row.job) & (events["time"] <= row.time) & (events["file"] != bad.file)]
        before = pd.concat([before, earlier.tail(1)])
    last = events.groupby("job", observed=True)["row"].max()
    still = before[before["event"] != "end"]
    return [(str(each.job), each.row, last[each.job] > each.row) for each in still.itertuples()]


def _walk_bad_jobs(log: pd.DataFrame) -> tuple[pd.DataFrame, list[Finding]]:
    bad = impossible_rows(log)
    if not bad.any():
        return log, []
    job = codes(log["job"])
    walked = np.isin(job, np.unique(job[bad]))
    findings, parts = [], [log[~walked]]
    for code in np.unique(job[bad]):
        part, found = walk(log[job == code].reset_index(drop=True))
        parts.append(part)
        findings += found
    return _together(concat_logs([part for part in parts if len(part)])), findings


def _together(log: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each job together, each job's in the order that they have."""
    job = codes(log["job"])
    job[job < 0] = len(log)
    return log.take(np.argsort(job, kind="stable")).reset_index(drop=True)


def _count_overlaps(log: pd.DataFrame) -> tuple[pd.DataFrame, list[Finding]]:
    within = log[starts_within_saves(log)]
    findings = []
    for job, rows in within.groupby("job", observed=True):
        said = (
            f"job {job}: {len(rows)} saves start while another is open: they overlap, or failed; time is counted once"
        )
        findings.append(Finding("warning", "overlapping-saves", **_place(next(rows.itertuples())), message=said))
    return log, findings


def _name_causes(log: pd.DataFrame) -> tuple[pd.DataFrame, list[Finding]]:
    nameless = (codes(log["event"]) == CODE["interrupt"]) & (codes(log["cause"]) < 0)
    if not nameless.any():
        return log, []
    cause = log["cause"]
    if UNKNOWN not in cause.cat.categories:
        cause = cause.cat.set_categories(sorted([*cause.cat.categories, UNKNOWN]))
    said = f"interrupt has no cause: charged to {UNKNOWN}"
    findings = [
        Finding("warning", "no-cause", **_place(row), message=f"job {row.job}: {said}")
        for row in log[nameless].itertuples()
    ]
    return log.assign(cause=cause.mask(nameless, UNKNOWN)), findings


def _give_sizes(log: pd.DataFrame, nodes: int | None, gpus: int | None) -> tuple[pd.DataFrame, list[Finding]]:
    """Give each run's first event a size where it has none."""
    event, job = codes(log["event"]), codes(log["job"])
    first = np.append(True, (job[1:] != job[:-1]) | (event[:-1] == CODE["end"])) & (job >= 0)
    findings = []
    for name, given in (("nodes", nodes), ("gpus_per_node", gpus)):
        lacking = first & log[name].isna().to_numpy()
        if not lacking.any():
            continue
        log = log.assign(**{name: log[name].mask(lacking, given or 1)})
        if given is None:
            unit = "its hours are job-hours" if name == "nodes" else "its hours are node-hours"
            option = f"--{name.replace('_', '-')}"
            for row in log[lacking].itertuples():
                said = f"job {row.job}: {name} is not known: counted as 1, so {unit} (give {option})"
                findings.append(Finding("warning", "no-size", **_place(row), message=said))
    return log, findings


def _close_jobs(log: pd.DataFrame, as_of: int | None) -> tuple[pd.DataFrame, list[Finding]]:
    """Note each job without an end, and close it at `as_of` where that is later than its last event."""
    job, time = codes(log["job"]), micros(log["time"])
    last = np.append(job[1:] != job[:-1], True) & (job >= 0) & (codes(log["event"]) != CODE["end"])
    rows = log[last]
    findings, late = [], np.zeros(len(rows), bool) if as_of is None else time[last] < as_of
    for row, closed_later in zip(rows.itertuples(), late, strict=True):
        where = "as of the time given" if closed_later else f"at its last event, {row.time:%Y-%m-%dT%H:%M:%SZ}"
        said = f"job {row.job} has no end event: closed {where}"
        findings.append(Finding("note", "no-end", **_place(row), message=said))
    if not late.any():
        return log, findings
    ends = make_log(
        {"time": [as_of] * int(late.sum()), "job": rows["job"][late].to_numpy(), "event": ["end"] * int(late.sum())}
    )
    return _together(concat_logs([log, ends])), findings
