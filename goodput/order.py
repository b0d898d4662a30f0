"""Which event can follow which? The order of a log, and what a job is doing after each event."""

import numpy as np
import pandas as pd

from goodput.events import CODE, EVENTS, JOB_EVENTS, codes, micros

# At equal times: what ends a save before what strikes, a cause before its effect.
_TIES = (
    "launch",
    "start",
    "checkpoint_end",
    "checkpoint_durable",
    "resume",
    "checkpoint_start",
    "pause",
    "interrupt",
    "detected",
    "nodes_ready",
    "running",
    "resize",
    "gap",
    "end",
)
RANK = np.array([_TIES.index(event) if event in _TIES else len(_TIES) for event in EVENTS])

TRAINING, SAVING, DOWN, WAITING, RESTARTING = "training", "saving", "down", "waiting for nodes", "restarting"
NEW, STARTING, PAUSED, ENDED, ANYTHING = "not started", "starting", "paused", "ended", "unknown"
STATE_AFTER = {
    "launch": STARTING,
    "start": TRAINING,
    "checkpoint_start": SAVING,
    "checkpoint_end": TRAINING,
    "interrupt": DOWN,
    "detected": WAITING,
    "nodes_ready": RESTARTING,
    "running": TRAINING,
    "pause": PAUSED,
    "resume": TRAINING,
    "gap": ANYTHING,
    "end": ENDED,
}
_SAVES = {"checkpoint_start", "checkpoint_end", "checkpoint_durable"}
_ALWAYS = {"interrupt", "resize", "gap", "end"}
POSSIBLE = {
    NEW: {"launch", "start"},
    STARTING: _ALWAYS | {"start", "checkpoint_durable"},
    TRAINING: _ALWAYS | _SAVES | {"pause"},
    SAVING: _ALWAYS | _SAVES | {"pause"},
    PAUSED: _ALWAYS | _SAVES | {"resume"},
    DOWN: _ALWAYS | {"detected", "nodes_ready", "running", "checkpoint_durable"},
    WAITING: _ALWAYS | {"nodes_ready", "running", "checkpoint_durable"},
    RESTARTING: _ALWAYS | {"running", "checkpoint_durable"},
    ANYTHING: set(JOB_EVENTS) - {"launch"},
    ENDED: {"launch", "start"},
}


def order_log(log: pd.DataFrame) -> pd.DataFrame:
    """Return the log ordered: the rows of a job together, by time, at equal times a cause before its effect.

    Node events stand behind all others. Jobs are in the order of their codes. A job with gaps keeps the order of its
    lines at equal times: what a gap comes after is known from nothing else.
    """
    job, time, event = codes(log["job"]), micros(log["time"]), codes(log["event"])
    rank = RANK[event]
    job[(job < 0) | (event >= len(JOB_EVENTS))] = len(log)
    gaps = event == CODE["gap"]
    if gaps.any():
        rank[np.isin(job, job[gaps])] = 0
    order = np.arange(len(log)) if _is_sorted(job, time, rank) else np.lexsort((rank, time, job))
    order = _short_saves_whole(order, job[order], time[order], event[order])
    return log if (order == np.arange(len(order))).all() else log.take(order).reset_index(drop=True)


def _is_sorted(job: np.ndarray, time: np.ndarray, rank: np.ndarray) -> bool:
    """Return whether rows are in order already, as those of most logs are: a look is cheaper than a sort."""
    same_time = (time[1:] == time[:-1]) & (rank[1:] >= rank[:-1])
    same_job = (job[1:] == job[:-1]) & ((time[1:] > time[:-1]) | same_time)
    return bool(((job[1:] > job[:-1]) | same_job).all())


def _short_saves_whole(order: np.ndarray, job: np.ndarray, time: np.ndarray, event: np.ndarray) -> np.ndarray:
    """Return the order with the start of a save that takes no time before its end, not behind it."""
    alone = np.flatnonzero(_ends_without_start(event, job))
    alone = alone[alone + 1 < len(order)]
    after = alone + 1
    alone = alone[
        (event[after] == CODE["checkpoint_start"]) & (job[after] == job[alone]) & (time[after] == time[alone])
    ]
    order = order.copy()
    order[alone], order[alone + 1] = order[alone + 1], order[alone]
    return order


def _tables() -> tuple[np.ndarray, np.ndarray]:
    states = list(POSSIBLE)
    after = np.array([states.index(STATE_AFTER[e]) if e in STATE_AFTER else -1 for e in JOB_EVENTS])
    possible = np.array([[event in POSSIBLE[state] for event in JOB_EVENTS] for state in states])
    return after, possible


def impossible_rows(log: pd.DataFrame) -> np.ndarray:
    """Return which rows of an ordered log cannot follow what came before them."""
    after, possible = _tables()
    job, event = codes(log["job"]), codes(log["event"])
    rows = np.flatnonzero((job >= 0) & (event < len(JOB_EVENTS)))
    job, event = job[rows], event[rows]
    state = _last_before(after[event], job)
    bad = np.zeros(len(log), bool)
    bad[rows] = ~possible[state, event] | _ends_without_start(event, job)
    return bad


def _last_before(value: np.ndarray, job: np.ndarray) -> np.ndarray:
    """Return the last value that is not -1 before each row, within its job; 0 where there is none."""
    row = np.arange(len(value))
    known = np.maximum.accumulate(np.where(value >= 0, row, -1))
    before = np.concatenate(([-1], known[:-1]))
    first = np.maximum.accumulate(np.where(np.diff(job, prepend=-1) != 0, row, 0))
    return np.where(before >= first, value[before], 0)


_BEGIN = (CODE["start"], CODE["running"])


def starts_within_saves(log: pd.DataFrame) -> np.ndarray:
    """Return which rows start a save while another is open, in jobs without gaps: saves overlap, or one has failed."""
    job, event = codes(log["job"]), codes(log["event"])
    gaps = event == CODE["gap"]
    within = (event == CODE["checkpoint_start"]) & (_open_saves(event, job) > 1)
    return within & ~np.isin(job, job[gaps]) if gaps.any() else within


def _ends_without_start(event: np.ndarray, job: np.ndarray) -> np.ndarray:
    return (event == CODE["checkpoint_end"]) & (_open_saves(event, job) < 0)


def _open_saves(event: np.ndarray, job: np.ndarray) -> np.ndarray:
    """Return starts less ends of saves since training began; a gap may hide any number of starts."""
    start, end = event == CODE["checkpoint_start"], event == CODE["checkpoint_end"]
    begin = np.isin(event, _BEGIN) | (np.diff(job, prepend=-1) != 0)
    walk = np.cumsum(start - end.astype("int64") + (event == CODE["gap"]) * len(event))
    return walk - walk[np.maximum.accumulate(np.where(begin, np.arange(len(walk)), 0))]
