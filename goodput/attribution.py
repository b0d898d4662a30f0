"""Where did the hours go? Events become spans, which tile each job's life; spans add up to the ledger.

The rules are numbered in `data/README.md`. Everything is arrays over all events of all jobs at once: a cost
that grows with events, whatever the number of jobs, faults and saves.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from goodput.events import CODE, JOB_EVENTS, codes, micros
from goodput.saves import durable_saves

CATEGORIES = ("productive", "checkpoint", "lost_work", "detection", "waiting", "restart", "unattributed")
PRODUCTIVE, CHECKPOINT, LOST_WORK, DETECTION, WAITING, RESTART, UNATTRIBUTED = range(7)
FIRST_START = "first_start"  # what `launch` to `start` is charged to
US_PER_HOUR = 3_600_000_000

# The category of the time that follows an event; -1: that of before goes on.
_PHASE = {
    "launch": RESTART,
    "start": PRODUCTIVE,
    "checkpoint_start": CHECKPOINT,
    "checkpoint_end": PRODUCTIVE,
    "interrupt": DETECTION,
    "detected": WAITING,
    "nodes_ready": RESTART,
    "running": PRODUCTIVE,
    "pause": UNATTRIBUTED,  # charged to its own cause; nothing is lost
    "resume": PRODUCTIVE,
    "gap": UNATTRIBUTED,  # until the next event, whatever it was doing
    "end": UNATTRIBUTED,  # nothing follows within a job
}
# One more event than a log has: the last sign of life before a fault whose moment is not known.
SILENCE = len(JOB_EVENTS)
_PHASE_AFTER = np.array([_PHASE.get(event, -1) for event in JOB_EVENTS] + [UNATTRIBUTED])
_BEGINS = np.isin([*JOB_EVENTS, "silence"], ["start", "running"])
_TRAINS = np.isin(_PHASE_AFTER, [PRODUCTIVE, CHECKPOINT])
_IS_DOWN = np.isin([*JOB_EVENTS, "silence"], ["launch", "interrupt", "detected", "nodes_ready"])
# What is missing where one of these is followed by one of those: the stretch between cannot be placed.
_SKIPS = np.zeros((SILENCE + 1, SILENCE + 1), bool)
_SKIPS[CODE["interrupt"], [CODE["nodes_ready"], CODE["running"]]] = True
_SKIPS[CODE["detected"], CODE["running"]] = True


class Rows(NamedTuple):
    """The events of jobs as arrays, ordered; every index below is one into these."""

    log_row: np.ndarray  # which row of the log it is
    time: np.ndarray  # microseconds
    job: np.ndarray  # code of the job
    event: np.ndarray  # code of the event, or SILENCE
    first: np.ndarray  # index of the first event of the job, or of its run where it ended and started again
    closing: np.ndarray  # time of the next event of the job


def spans(log: pd.DataFrame) -> pd.DataFrame:
    """Return one row a stretch of time, by job and time; the rows of a job tile its life exactly.

    Columns: `job`, `start`, `end` (times), `category`, `cause` and `node` (what it is charged to; null for
    productive and checkpoint time), `interruption` (row of `interruptions(log)`, -1 for none), `nodes` and
    `gpus_per_node` held, `running` (the job ran: what MTBI and MTBF are reckoned from), and `gpu_hours`, float64, made
    from whole microseconds. The log must be ordered.
    """
    rows = _rows_of_jobs(log)
    category, fault, running, starting = _attribute(rows, log)
    nodes, gpus = (_held(log[name], rows) for name in ("nodes", "gpus_per_node"))
    keep, end = _stretches(rows, category, fault, running, nodes, gpus)
    columns = (category, fault, running, starting, rows.time, nodes, gpus)
    category, fault, running, starting, start, nodes, gpus = (each[keep] for each in columns)
    blamed = np.where(fault >= 0, rows.log_row[fault], -1)
    is_fault = rows.event == CODE["interrupt"]
    number = np.where(is_fault, np.cumsum(is_fault) - 1, -1)  # a pause is no interruption
    return pd.DataFrame(
        {
            "job": log["job"].array.take(rows.log_row[keep]),
            "start": _times(start),
            "end": _times(end),
            "category": pd.Categorical.from_codes(category, CATEGORIES),
            "cause": _charged_cause(log, blamed, starting & (category == RESTART)),
            "node": log["node"].array.take(blamed, allow_fill=True),
            "interruption": np.where(fault >= 0, number[fault], -1),
            "nodes": nodes,
            "gpus_per_node": gpus,
            "running": running,
            "gpu_hours": (end - start) / US_PER_HOUR * nodes * gpus,
        },
        copy=False,
    )


def _stretches(rows: Rows, *alike: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row and the end of each stretch of time: what lasts no time is none, and neighbours that are
    alike (an event changed nothing) are one."""
    lasting = np.flatnonzero(rows.closing > rows.time)
    changes = [
        np.append(True, each[lasting][1:] != each[lasting][:-1])[: len(lasting)] for each in (rows.first, *alike)
    ]
    first = np.flatnonzero(np.logical_or.reduce(changes))
    last = np.append(first[1:], len(lasting))[: len(first)] - 1
    return lasting[first], rows.closing[lasting[last]]


def interruptions(log: pd.DataFrame) -> pd.DataFrame:
    """Return one row an interruption, in the order of the log: `job`, `time`, `cause`, `node`, `planned`."""
    found = log[(codes(log["event"]) == CODE["interrupt"]) & (codes(log["job"]) >= 0)]
    return found[["job", "time", "cause", "node", "planned"]].reset_index(drop=True)


def ledger(spans: pd.DataFrame, by: str | list[str] = "category") -> pd.Series:
    """Return the GPU-hours of each `category`, `cause`, `node`, `job`, or of each pair of them."""
    return spans.groupby(by, observed=False, sort=True)["gpu_hours"].sum()


def _rows_of_jobs(log: pd.DataFrame) -> Rows:
    job, event = codes(log["job"]), codes(log["event"])
    log_row = np.flatnonzero((job >= 0) & (event < len(JOB_EVENTS)))
    job, event, time = job[log_row], event[log_row], micros(log["time"])[log_row]
    silent, since = _silences(job, event, time, micros(log["after"])[log_row])
    if len(silent):
        log_row, job = np.insert(log_row, silent, log_row[silent]), np.insert(job, silent, job[silent])
        time, event = np.insert(time, silent, since), np.insert(event, silent, SILENCE)
    # a job that starts again after its end holds nothing in between
    begins = (np.diff(job, prepend=-1) != 0) | (np.append(-1, event[:-1]) == CODE["end"])
    first = np.maximum.accumulate(np.where(begins, np.arange(len(job)), 0))
    last = np.append(begins[1:], True)[: len(job)]
    return Rows(log_row, time, job, event, first, np.where(last, time, np.append(time[1:], 0)))


def _silences(job, event, time, after) -> tuple[np.ndarray, np.ndarray]:
    """Return the interrupts before which a training job was silent, and since when: any event is a sign of life."""
    known = (event == CODE["interrupt"]) & (after != np.iinfo("int64").min) & (after < time)
    index = np.flatnonzero(known)
    index = index[(index > 0) & (job[index] == job[index - 1])]
    # only a job that trains can be silent: the last event that says what it was doing decides
    phase = _PHASE_AFTER[event]
    known = np.maximum.accumulate(np.where(phase >= 0, np.arange(len(phase)), 0))
    index = index[np.isin(phase[known[index - 1]], [PRODUCTIVE, CHECKPOINT])]
    return index, np.maximum(after[index], time[index - 1])


def _attribute(rows: Rows, log: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return for the stretch after each row its category, the index of the interrupt it is charged to (or -1), whether
    the job ran, and whether it was launched and had not started."""
    index = np.arange(len(rows.time))
    begin = _begins_of_runs(rows)
    stop, struck = _ends_of_runs(rows, begin)
    is_async, save_id = log["async"].to_numpy()[rows.log_row], codes(log["id"])[rows.log_row]
    run = np.cumsum(np.bincount(begin, minlength=len(index))) - 1  # that each row is in or behind; -1 before the first
    saves = durable_saves(rows.event, begin, stop, run, is_async, save_id)
    phase = _PHASE_AFTER[rows.event]
    phase[saves.still_open] = CHECKPOINT
    setters = np.flatnonzero(phase >= 0)
    phase[_skipping(rows, setters)] = UNATTRIBUTED
    setter = np.maximum.accumulate(np.where(phase >= 0, index, -1))
    # where a job is first seen by an event that does not say what it is doing, nobody knows
    category = np.where(setter >= rows.first, phase[setter], UNATTRIBUTED)
    fault = np.maximum.accumulate(np.where(rows.event == CODE["interrupt"], index, -1))
    # a fault is over once training goes on: what a gap hides later is not charged to it
    recovered = np.append(begin, -1)[run]
    fault[(fault < rows.first) | (category < LOST_WORK) | (fault < recovered)] = -1
    silent = rows.event[setter] == SILENCE
    fault[silent] = setter[silent] + 1
    paused = (rows.event[setter] == CODE["pause"]) & (setter >= rows.first)
    fault[paused] = setter[paused]
    running = category <= CHECKPOINT
    _lose_work(rows, category, fault, run, stop, struck, saves.newest)
    return category, fault, running, rows.event[setter] == CODE["launch"]


def _last_known(rows: Rows) -> np.ndarray:
    """Return for each row the last one up to it that says what the job is doing, gaps and pauses aside; -1 for none."""
    says = (_PHASE_AFTER[rows.event] >= 0) & (rows.event != CODE["gap"]) & (rows.event != CODE["pause"])
    known = np.maximum.accumulate(np.where(says, np.arange(len(says)), -1))
    return np.where(known >= rows.first, known, -1)


def _begins_of_runs(rows: Rows) -> np.ndarray:
    """Return where training begins: at start and running, and where a log that lost those is seen training."""
    before = np.append(-1, _last_known(rows)[:-1])
    before[before < rows.first] = -1
    was_training = (before >= 0) & _TRAINS[rows.event[before]]
    return np.flatnonzero(_BEGINS[rows.event] | (_TRAINS[rows.event] & ~was_training))


def _ends_of_runs(rows: Rows, begin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where each stretch of training ends (index of what ends it, or behind the job), and whether by a fault.

    Behind a gap it may end in something that has no fault before it: then what became of its work is not known.
    """
    ends_job = np.append(rows.first[1:] != rows.first[:-1], True)[: len(rows.first)]
    breaks = _IS_DOWN[rows.event]
    breaks[begin] = True
    stops = np.flatnonzero(breaks | ends_job)
    at = np.searchsorted(stops, begin)
    at += (stops[at] == begin) & ~ends_job[begin]  # its own beginning ends no run
    stop = stops[at]
    broken = breaks[stop] & (stop != begin)
    return stop + ~broken, rows.event[stop] == CODE["interrupt"]


def _skipping(rows: Rows, setters: np.ndarray) -> np.ndarray:
    """Return the rows that a later phase follows although one between is missing."""
    now, following = setters[:-1], setters[1:]
    skips = _SKIPS[rows.event[now], rows.event[following]] & (rows.first[now] == rows.first[following])
    return now[skips]


def _lose_work(rows, category, fault, run, stop, struck, newest) -> None:
    """Turn compute since the newest durable save, up to a fault, into lost work charged to it, in place.

    Compute before a gap may have been saved in it: it is unattributed. So it is where a run ends without a fault.
    """
    index = np.flatnonzero(category == PRODUCTIVE)
    index = index[run[index] >= 0]
    run = run[index]
    ends_well = ~struck & ((stop >= len(category)) | (rows.first[np.minimum(stop, len(category) - 1)] == stop))
    at_risk = ~ends_well[run] & (index >= newest[run]) & (index < stop[run])
    index, run = index[at_risk], run[at_risk]
    gap = np.maximum.accumulate(np.where(rows.event == CODE["gap"], np.arange(len(category)), -1))
    unsure = (gap[stop[run] - 1] > index) | ~struck[run]
    category[index] = np.where(unsure, UNATTRIBUTED, LOST_WORK)
    fault[index] = np.where(struck[run], stop[run], -1)


def _held(column: pd.Series, rows: Rows) -> np.ndarray:
    """Return the size that holds after each row: the last one given, within the job; 0 where none was."""
    values = column.array._data[rows.log_row].astype("int64")
    given = np.flatnonzero(~column.array._mask[rows.log_row])
    last = np.maximum.accumulate(np.bincount(given, given, len(values)).astype("int64"))
    return np.where(last >= rows.first, values[last], 0)


def _times(micros: np.ndarray) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(micros.view("datetime64[us]")).tz_localize("UTC")


def _charged_cause(log: pd.DataFrame, log_row: np.ndarray, starting: np.ndarray) -> pd.Categorical:
    cause = log["cause"].array
    taken = cause.take(log_row, allow_fill=True)
    first = starting & (log_row < 0)
    if not first.any():
        return taken
    if FIRST_START not in taken.categories:
        taken = taken.add_categories([FIRST_START])
    return pd.Categorical.from_codes(
        np.where(first, taken.categories.get_loc(FIRST_START), taken.codes), dtype=taken.dtype
    )
