"""Who did what, when? The event log: one table that the simulator writes and the analysis reads.

In memory a log is one pandas frame, one row an event, any number of jobs, with the columns of `COLUMNS`;
columns of a file that are not listed there are kept behind them and ignored. A log is *ordered*: the rows of a
job stand together, by time, a cause before its effect. `data/README.md` tells what each event means.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

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
    "pause",
    "resume",
    "gap",
    "end",
)
NODE_EVENTS = ("node_down", "repair_start", "node_repaired", "node_retired")
EVENTS = JOB_EVENTS + NODE_EVENTS
CODE = {name: code for code, name in enumerate(EVENTS)}

# Causes that somebody chose: interruptions, but no failures.
CHOSEN = ("planned", "time_limit", "user_cancel", "preemption")
UNKNOWN = "unknown"  # the cause of an interrupt that does not say

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
_NO_NAMES = pd.CategoricalDtype(pd.Index([], dtype="str"))  # all names are str: logs of any origin can be joined


class Finding(NamedTuple):
    """Something in a log that is not clean: how bad, where, and what was assumed."""

    severity: str  # note, warning or error
    code: str
    file: str | None
    line: int | None
    message: str


class Unreadable(NamedTuple):
    """A line that could not be read: where, the job that it names in full if it does, and what is wrong."""

    file: str
    line: int
    job: str | None
    why: str


class Imported(NamedTuple):
    """What a file, or a part of one, became: events (None for none), findings, and lines that could not be read."""

    log: pd.DataFrame | None
    findings: list[Finding]
    unreadable: list[Unreadable]


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
    if name == "event":
        return values if isinstance(values, pd.Categorical) else pd.Categorical(values, dtype=EVENT_DTYPE)
    if values is None:
        return pd.Categorical.from_codes(np.full(length, -1, "int8"), dtype=_NO_NAMES)
    values = values if isinstance(values, pd.Categorical) else pd.Categorical(values)
    if values.categories.dtype == _NO_NAMES.categories.dtype:
        return values
    return values.rename_categories(values.categories.astype("str"))


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
    """Return several logs as one, in the order given; category columns stay categories, in the order of names."""
    names = dict.fromkeys(name for log in logs for name in log.columns)
    return pd.DataFrame({name: _joined([log.get(name) for log in logs], logs, name) for name in names}, copy=False)


def _joined(parts: list[pd.Series | None], logs: Sequence[pd.DataFrame], name: str):
    if COLUMNS.get(name) == "category" and name != "event":
        return pd.api.types.union_categoricals([part.array for part in parts], sort_categories=True)
    filled = [_nulls(log) if part is None else part for part, log in zip(parts, logs, strict=True)]
    return pd.concat(filled, ignore_index=True).array


def _nulls(log: pd.DataFrame) -> pd.Series:
    return pd.Series([None] * len(log), dtype=object)
