"""Which saves could be loaded again? Pairs the starts and ends of saves, also of those that overlap or are cut.

A *run* is a stretch of training, from `start` or `running` to the fault that ends it. Within a run the k-th last
end closes the k-th last start that it can: saves end in the order they began, and one that no end closes has failed.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from goodput.events import CODE


class Saves(NamedTuple):
    """What the accounting needs to know of the saves."""

    newest: np.ndarray  # of each run: index of the start of its newest durable save, or of the run itself
    still_open: np.ndarray  # indexes of the ends of saves after which another save still holds up training


def durable_saves(
    event: np.ndarray, begin: np.ndarray, stop: np.ndarray, is_async: np.ndarray, save_id: np.ndarray
) -> Saves:
    """Return the newest durable save of each run, from `begin[k]` up to, not including, `stop[k]`.

    `event` holds codes in the order of the log, `is_async` flags, `save_id` ids as codes (-1: none), all of one length.
    """
    run = np.searchsorted(begin, np.arange(len(event)), side="right") - 1
    save = np.flatnonzero((event == CODE["checkpoint_start"]) | (event == CODE["checkpoint_end"]))
    save = save[(run[save] >= 0) & (save < stop[run[save]])]
    is_start = event[save] == CODE["checkpoint_start"]
    start = save[is_start]
    end = _end_of_each_start(save, is_start, run[save])
    durable = end.copy()
    if is_async.any():
        late = is_async[start]
        durable[late] = _async_durable(event, run, stop, start[late], save_id)
    newest = begin.copy()
    good = durable >= 0
    newest[run[start[good]]] = start[good]  # starts ascend: the last one stays
    return Saves(newest, _still_open(event, run, start, end))


def _end_of_each_start(save: np.ndarray, is_start: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Return for each start the index of the end that closes it, or -1.

    Read backwards the ends queue up and each start serves one: a walk that is up for an end, down for a start, and
    may not go below its floor. Where it would, nothing was left to serve: that start has failed.
    """
    if not len(save):
        return save
    save, is_start, run = save[::-1], is_start[::-1], run[::-1]
    # Each run has a floor far below that of the run before it (read backwards), so one running minimum serves all.
    new_run = np.diff(run, prepend=-1) != 0
    walk = np.cumsum(np.where(is_start, -1, 1))
    before = np.concatenate(([0], walk[:-1]))
    floor = -np.cumsum(new_run) * (2 * len(save) + 1)
    height = walk - before[np.maximum.accumulate(np.where(new_run, np.arange(len(run)), 0))] + floor
    lowest = np.minimum(np.minimum.accumulate(height), floor)
    least_before = np.where(new_run, floor, np.concatenate(([0], lowest[:-1])))
    served = is_start & (height >= least_before)
    ends, end_run = save[~is_start], run[~is_start]
    first_end = np.searchsorted(-end_run, -run[served])
    end = np.full(len(save), -1)
    end[served] = ends[first_end + _rank_in_run(run[served])]
    return end[is_start][::-1]


def _rank_in_run(run: np.ndarray) -> np.ndarray:
    index = np.arange(len(run))
    return index - np.maximum.accumulate(np.where(np.diff(run, prepend=-1) != 0, index, 0))


def _still_open(event: np.ndarray, run: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the ends after which a save is open still; one that failed is over when the next starts."""
    change = np.zeros(len(event), "int64")
    change[start] += 1
    change[end[end >= 0]] -= 1
    failed = np.flatnonzero(end[:-1] < 0)
    failed = failed[run[start[failed]] == run[start[failed + 1]]]
    change[start[failed + 1]] -= 1
    # a save that a fault cut stays open for good: count from the beginning of each run
    level = np.cumsum(change)
    first = np.searchsorted(run, run[end])
    closes = end[end >= 0]
    return closes[(level[closes] - level[first[end >= 0]]) > 0]


def _async_durable(event, run, stop, start, save_id) -> np.ndarray:
    """Return for each async start the index of its checkpoint_durable, or -1: by id, else in the order they began."""
    durable = np.flatnonzero(event == CODE["checkpoint_durable"])
    durable = durable[(run[durable] >= 0) & (durable < stop[run[durable]])]
    sides = []
    for rows in (start, durable):
        side = pd.DataFrame({"run": run[rows], "id": save_id[rows], "row": rows})
        side["turn"] = side.groupby(["run", "id"]).cumcount()
        sides.append(side)
    both = sides[0].merge(sides[1], on=["run", "id", "turn"], how="left", suffixes=("", "_durable"))
    return both["row_durable"].fillna(-1).to_numpy("int64")
