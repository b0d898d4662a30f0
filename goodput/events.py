"""Who did what, when? The event log: one table that the simulator writes and the analysis reads.

In memory a log is one pandas frame, one row an event, any number of jobs, with the columns of `COLUMNS`;
columns of a file that are not listed there are kept behind them and ignored. A log is *ordered*: the rows of a
job stand together, by time, a cause before its effect. `data/README.md` tells what each event means.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from goodput.errors import BadInput

# Events of a job, then events of a node outside it. The order is the order of the codes of the `event` column.
JOB_EVENTS = (
    "launch",
    "start",
    "checkpoint_start",
    "checkpoint_end",
    "checkpoint_durable",
    "interrupt",
    "detected",
    "nodes_ready",
    "running",
    "resize",
    "end",
)
NODE_EVENTS = ("node_down", "repair_start", "node_repaired", "node_retired")
EVENTS = JOB_EVENTS + NODE_EVENTS
CODE = {name: code for code, name in enumerate(EVENTS)}

# Causes that somebody chose: interruptions, but no failures.
CHOSEN = ("planned", "time_limit", "user_cancel", "preemption")

COLUMNS = {
    "time": "datetime64[us, UTC]",
    "job": "category",  # null only in node events
    "event": "category",  # one of EVENTS
    "cause": "category",  # of an interrupt
    "node": "category",  # name of the node of an interrupt or a node event; several are folded, gpu[1-3]
    "nodes": "Int32",  # nodes held from now on; null: as before
    "gpus_per_node": "Int32",  # null: as before
    "node_names": "category",  # names of the nodes at a start, folded
    "joined": "category",  # names of the nodes that came with nodes_ready or running, folded
    "left": "category",  # names of those that went, folded
    "planned": "bool",
    "async": "bool",  # of a checkpoint_start: the save is durable at its checkpoint_durable, not at its end
    "after": "datetime64[us, UTC]",  # last sign of life before an interrupt whose moment is not known
    "id": "category",  # of an async save
    "resumed_from": "category",
    "outcome": "category",  # of an end
    "file": "category",  # where the row was read; null where it was not
    "line": "Int32",
}
EVENT_DTYPE = pd.CategoricalDtype(EVENTS)


class Finding(NamedTuple):
    """Something in a log that is not clean: how bad, where, and what was assumed."""

    severity: str  # note, warning or error
    code: str
    file: str | None
    line: int | None
    message: str


def make_log(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a log with all of `COLUMNS`: those given, the rest null; further ones are kept at the end.

    Category columns may be given as a Categorical, or as values; `time` and `after` as whole microseconds since
    1970 UTC (for `after`, the least int64 is null); whole numbers as values, or as (values, mask).

    >>> make_log({"time": [0], "job": ["a"], "event": ["start"], "nodes": [4]})[["job", "event", "nodes"]]
      job  event  nodes
    0   a  start      4
    """
    length = len(columns["time"])
    known = {name: _column(columns.get(name), dtype, length, name) for name, dtype in COLUMNS.items()}
    more = {name: values for name, values in columns.items() if name not in COLUMNS}
    return pd.DataFrame(known | more, copy=False)


def _column(values: Any, dtype: str, length: int, name: str):
    if dtype == "category":
        return _category(values, length, name)
    if dtype == "Int32":
        return _whole_numbers(values, length)
    if dtype == "bool":
        return np.zeros(length, bool) if values is None else np.asarray(values, bool)
    micros = np.full(length, np.iinfo("int64").min) if values is None else np.asarray(values, "int64")
    return pd.DatetimeIndex(micros.view("datetime64[us]")).tz_localize("UTC")


def _category(values: Any, length: int, name: str) -> pd.Categorical:
    if values is None:
        return pd.Categorical.from_codes(np.full(length, -1, "int8"), dtype=pd.CategoricalDtype([]))
    if isinstance(values, pd.Categorical):
        return values
    return pd.Categorical(values, dtype=EVENT_DTYPE if name == "event" else None)


def _whole_numbers(values: Any, length: int):
    if values is None:
        return pd.arrays.IntegerArray(np.zeros(length, "int32"), np.ones(length, bool))
    if isinstance(values, tuple):
        return pd.arrays.IntegerArray(np.asarray(values[0], "int32"), np.asarray(values[1], bool))
    return pd.array(values, dtype="Int32")


def micros(times) -> np.ndarray:
    """Return a column of times as whole microseconds since 1970 UTC, int64."""
    return times.array.asi8


def codes(column: pd.Series) -> np.ndarray:
    """Return the codes of a category column as int64, safe to reckon with; -1 is null."""
    return column.array.codes.astype("int64")


def concat_logs(logs: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return several logs as one, in the order given; category columns stay categories."""
    if len(logs) == 1:
        return logs[0]
    columns = {}
    for name in dict.fromkeys(name for log in logs for name in log.columns):
        parts = [log[name] for log in logs if name in log]
        if COLUMNS.get(name) == "category" and name != "event":
            columns[name] = pd.api.types.union_categoricals([part.array for part in parts])
        elif len(parts) == len(logs):
            columns[name] = pd.concat(parts, ignore_index=True).array
        else:
            columns[name] = pd.concat([log.get(name, _nulls(log)) for log in logs], ignore_index=True).array
    return pd.DataFrame(columns)


def _nulls(log: pd.DataFrame) -> pd.Series:
    return pd.Series([None] * len(log), dtype=object)


def order_log(log: pd.DataFrame) -> pd.DataFrame:
    """Return the log ordered: jobs together, by time, and lines of equal time as they came.

    One exception at equal times: a save that ends counts before the fault that strikes with it.
    """
    job, time, event = codes(log["job"]), micros(log["time"]), codes(log["event"])
    # node events have no job: behind all others
    order = np.lexsort((time, np.where(job < 0, len(log), job)))
    job, time, event = job[order], time[order], event[order]
    together = (job[1:] == job[:-1]) & (time[1:] == time[:-1])
    tied = together & (event[:-1] == CODE["interrupt"]) & (event[1:] == CODE["checkpoint_end"])
    first = np.flatnonzero(tied)
    order[first], order[first + 1] = order[first + 1], order[first]
    if (order == np.arange(len(order))).all():
        return log
    return log.take(order).reset_index(drop=True)


# What a job is doing after each event, and which events are possible then.
_TRAINING = "training"
_STATE_AFTER = {
    "launch": "starting",
    "start": _TRAINING,
    "checkpoint_start": "saving",
    "checkpoint_end": _TRAINING,
    "interrupt": "down",
    "detected": "waiting for nodes",
    "nodes_ready": "restarting",
    "running": _TRAINING,
    "end": "ended",
}
_POSSIBLE = {
    "not started": {"launch", "start"},
    "starting": {"start", "interrupt", "resize", "end"},
    _TRAINING: {"checkpoint_start", "checkpoint_end", "checkpoint_durable", "interrupt", "resize", "end"},
    "saving": {"checkpoint_start", "checkpoint_end", "checkpoint_durable", "interrupt", "resize", "end"},
    "down": {"interrupt", "detected", "nodes_ready", "running", "checkpoint_durable", "resize", "end"},
    "waiting for nodes": {"interrupt", "nodes_ready", "running", "checkpoint_durable", "resize", "end"},
    "restarting": {"interrupt", "running", "checkpoint_durable", "resize", "end"},
    "ended": set(),
}


def _tables() -> tuple[list[str], np.ndarray, np.ndarray]:
    states = list(_POSSIBLE)
    after = np.array([states.index(_STATE_AFTER[e]) if e in _STATE_AFTER else -1 for e in JOB_EVENTS])
    possible = np.array([[event in _POSSIBLE[state] for event in JOB_EVENTS] for state in states])
    return states, after, possible


def check_order(log: pd.DataFrame) -> None:
    """Raise BadInput, naming line and event, at the first event that cannot follow what came before it."""
    states, after, possible = _tables()
    rows = np.flatnonzero((codes(log["job"]) >= 0) & (codes(log["event"]) < len(JOB_EVENTS)))
    job, event = codes(log["job"])[rows], codes(log["event"])[rows]
    state = _last_before(after[event], job)
    bad = ~possible[state, event] | _ends_without_start(event, job)
    if bad.any():
        at = int(np.argmax(bad))
        row = log.iloc[rows[at]]
        doing = states[state[at]]
        may = ", ".join(e for e in JOB_EVENTS if e in _POSSIBLE[doing]) or "nothing, a job ends once"
        if possible[state[at], event[at]]:  # an end of a save, while training
            may = "a checkpoint_end only after its checkpoint_start"
        said = f"event={row['event']} must not come while job {row['job']} is {doing}; allowed then: {may}"
        raise BadInput(f"{_where(row)}: {said}")


def check_sizes(log: pd.DataFrame) -> None:
    """Raise BadInput, naming the line, for a job whose first event does not say how many GPUs it holds."""
    first = log[log["job"].notna()].drop_duplicates("job")
    for name in ("nodes", "gpus_per_node"):
        missing = first[first[name].isna()]
        if len(missing):
            row = missing.iloc[0]
            raise BadInput(f"{_where(row)}: {name} must be given at the {row['event']} of job {row['job']}")


def _where(row: pd.Series) -> str:
    return "log" if pd.isna(row["file"]) else f"{row['file']}:{row['line']}"


def _last_before(value: np.ndarray, job: np.ndarray) -> np.ndarray:
    """Return the last value that is not -1 before each row, within its job; 0 where there is none."""
    row = np.arange(len(value))
    known = np.maximum.accumulate(np.where(value >= 0, row, -1))
    before = np.concatenate(([-1], known[:-1]))
    first = np.maximum.accumulate(np.where(np.diff(job, prepend=-1) != 0, row, 0))
    return np.where(before >= first, value[before], 0)


def _ends_without_start(event: np.ndarray, job: np.ndarray) -> np.ndarray:
    start, end = event == CODE["checkpoint_start"], event == CODE["checkpoint_end"]
    begin = np.isin(event, [CODE["start"], CODE["running"]]) | (np.diff(job, prepend=-1) != 0)
    walk = np.cumsum(start.astype("int64") - end)
    since = walk - walk[np.maximum.accumulate(np.where(begin, np.arange(len(walk)), 0))]
    return end & (since < 0)
