"""What happened at each interruption? What the job was doing, and how long noticing, waiting and restarting took.

An episode is an interrupt and all that follows it until the next one, or until the job trains again. From the event
log alone: the same of a real job as of a simulated one.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from goodput.attribution import US_PER_HOUR
from goodput.events import CHOSEN, CODE, JOB_EVENTS, codes, micros

RUNNING, DOWN, RESTARTING = "running", "down", "restarting"  # what a job was doing when it was struck
US_PER_MINUTE = US_PER_HOUR / 60
_SAYS = [name for name in JOB_EVENTS if name not in ("checkpoint_durable", "resize")]  # what the job is doing from now
_STATE = {"launch": RESTARTING, "interrupt": DOWN, "detected": DOWN, "nodes_ready": RESTARTING}
_NO_TIME = np.iinfo("int64").min
_PARTS = ("interrupt", "detected", "nodes_ready", "running")


def stops(log: pd.DataFrame) -> pd.DataFrame:
    """Return one row an interruption, in the order of the log, with what came of it.

    Columns: `job`, `time`, `cause`, `node`, `planned` and `chosen` (a time limit, a cancel, a preemption); `was`, what
    the job was doing (`running`, `down`, `restarting`); `silent_minutes` before it, in which nobody knows when it
    struck; `detection_minutes`, `waiting_minutes`, `restart_minutes`, NaN where the log does not have both ends or
    another interruption came between; `ready`, when the job held its nodes again, and `left`, those that went.
    """
    rows = _rows(log)
    number = (rows["event"] == "interrupt").groupby(rows["job"]).cumsum()
    times = rows["us"].groupby([rows["job"], number, rows["event"]]).min().unstack()
    times = times.reindex(columns=list(_PARTS))
    left = rows["left"].groupby([rows["job"], number]).first()
    struck = rows[rows["event"] == "interrupt"]
    key = pd.MultiIndex.from_arrays([struck["job"], number[struck.index]])
    times, left = times.reindex(key), left.reindex(key)
    took = {
        name: ((times[end] - times[start]) / US_PER_MINUTE).clip(lower=0).to_numpy()
        for name, start, end in zip(("detection", "waiting", "restart"), _PARTS, _PARTS[1:], strict=False)
    }
    out = log.loc[struck["row"], ["job", "time", "cause", "node", "planned"]].reset_index(drop=True)
    out["ready"] = pd.DatetimeIndex(
        times["nodes_ready"].fillna(_NO_TIME).to_numpy("int64").view("datetime64[us]"), tz="UTC"
    )
    out["planned"] |= out["cause"].eq("planned")
    out["chosen"] = out["cause"].isin(CHOSEN) & ~out["planned"]
    out["was"] = struck["before"].map(_STATE).fillna(RUNNING).to_numpy()
    out["silent_minutes"] = _silence(log, struck).to_numpy() * (out["was"] == RUNNING)
    return out.assign(**{f"{name}_minutes": minutes for name, minutes in took.items()}, left=left.to_numpy())


def _rows(log: pd.DataFrame) -> pd.DataFrame:
    """Return the events that say what a job is doing, each with the one before it and when that was."""
    row = np.flatnonzero((codes(log["job"]) >= 0) & np.isin(codes(log["event"]), [CODE[name] for name in _SAYS]))
    some = log.iloc[row]
    rows = pd.DataFrame(
        {
            "row": some.index,
            "job": codes(some["job"]),
            "event": some["event"].astype(str).to_numpy(),
            "us": micros(some["time"]),
            "left": some["left"].astype(object).to_numpy(),
        }
    )
    by_job = rows.groupby("job")
    return rows.assign(before=by_job["event"].shift(), before_us=by_job["us"].shift())


def _silence(log: pd.DataFrame, struck: pd.DataFrame) -> pd.Series:
    """Return the minutes between the last sign of life and each interrupt; 0 where its moment is known."""
    after = log["after"].loc[struck["row"]]
    since = np.maximum(micros(after).astype(float), struck["before_us"].to_numpy(float))
    silent = (struck["us"].to_numpy() - since) / US_PER_MINUTE
    return pd.Series(np.where(after.isna(), 0, silent), index=struck.index).fillna(0).clip(lower=0)


class Saves(NamedTuple):
    """Minutes that saves took, and minutes of compute before each of them."""

    blocking_minutes: np.ndarray
    interval_minutes: np.ndarray


def saves(log: pd.DataFrame) -> Saves:
    """Return how long training stood still for each whole save, and the compute before each, in minutes.

    Compute is counted from the save before, or from where training began; a save that a fault cut is not whole.
    """
    rows = _rows(log)
    minutes = (rows["us"] - rows["before_us"]) / US_PER_MINUTE
    whole = (rows["event"] == "checkpoint_end") & (rows["before"] == "checkpoint_start")
    begins = (rows["event"] == "checkpoint_start") & rows["before"].isin(["start", "running", "checkpoint_end"])
    # the save before a planned stop comes when it is ordered
    following = rows.groupby("job")["event"].shift(-1), rows.groupby("job")["row"].shift(-2)
    planned = log["planned"].reindex(following[1]).fillna(False).to_numpy(bool) & (following[0] == "checkpoint_end")
    return Saves(minutes[whole].to_numpy(), minutes[begins & ~planned].to_numpy())
