"""Which saves could be loaded again? Pairs the starts and ends of saves, also of those that overlap or are cut.

A *run* is a stretch of training, from `start` or `running` to the fault that ends it. Within a run the k-th last
end closes the k-th last start that it can: saves end in the order they began, and one that no end closes has failed.
"""

from typing import NamedTuple

import numpy as np

from goodput.events import CODE


class Saves(NamedTuple):
    """What the accounting needs to know of the saves."""

    newest: np.ndarray  # of each run: index of the start of its newest durable save, or of the run itself
    still_open: np.ndarray  # indexes of the ends of saves after which another save still holds up training


def durable_saves(
    event: np.ndarray,
    begin: np.ndarray,
    stop: np.ndarray,
    run: np.ndarray,
    is_async: np.ndarray,
    save_id: np.ndarray,
) -> Saves:
    """Return the newest durable save of each run, from `begin[k]` up to, not including, `stop[k]`.

    `event` holds codes in the order of the log, `run` the last run that has begun by then (-1: none), `is_async` flags,
    `save_id` ids as codes (-1: none), all of one length.
    """
    save = np.flatnonzero((event == CODE["checkpoint_start"]) | (event == CODE["checkpoint_end"]))
    save = _in_a_run(save, run, stop)
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
    return Saves(newest, _still_open(begin, run, start, end))


def _in_a_run(rows: np.ndarray, run: np.ndarray, stop: np.ndarray) -> np.ndarray:
    rows = rows[run[rows] >= 0]
    return rows[rows < stop[run[rows]]]


def _end_of_each_start(save: np.ndarray, is_start: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Return for each start the index of the end that closes it, or -1: read backwards, each start serves one end."""
    same_run = run[1:] == run[:-1]
    if not (~is_start[1:] & ~is_start[:-1] & same_run).any():  # no two ends in a row: each closes the start before it
        end = np.full(len(save), -1)
        end[:-1] = np.where(~is_start[1:] & same_run, save[1:], -1)
        return end[is_start]
    return _served(save[::-1], ~is_start[::-1], run[::-1])[::-1]


def _served(rows: np.ndarray, is_item: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return for each row that is no item the item that it serves, or -1: in each group first come, first served.

    A walk goes up for an item, down for what serves one, and may not go below its floor. Where it would, nothing was
    waiting: that row serves none. The rows of a group stand together.
    """
    if not len(rows):
        return rows
    # Each group has a floor far below that of the group before, so one running minimum serves all.
    new_group = np.append(True, group[1:] != group[:-1])
    walk = np.cumsum(np.where(is_item, 1, -1))
    before = np.concatenate(([0], walk[:-1]))
    floor = -np.cumsum(new_group) * (2 * len(rows) + 1)
    height = walk - before[np.maximum.accumulate(np.where(new_group, np.arange(len(rows)), 0))] + floor
    lowest = np.minimum(np.minimum.accumulate(height), floor)
    least_before = np.where(new_group, floor, np.concatenate(([0], lowest[:-1])))
    serves = ~is_item & (height >= least_before)
    number = np.cumsum(new_group)
    items = np.bincount(number[is_item], minlength=number[-1] + 1)
    first_item = np.cumsum(items) - items
    item = np.full(len(rows), -1)
    item[serves] = rows[is_item][first_item[number[serves]] + _rank_in_group(number[serves])]
    return item[~is_item]


def _rank_in_group(group: np.ndarray) -> np.ndarray:
    index = np.arange(len(group))
    return index - np.maximum.accumulate(np.where(np.diff(group, prepend=-1) != 0, index, 0))


def _still_open(begin: np.ndarray, run: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the ends after which a save is open still; one that failed is over when the next starts."""
    change = np.zeros(len(run), "int64")
    change[start] += 1
    change[end[end >= 0]] -= 1
    failed = np.flatnonzero(end[:-1] < 0)
    failed = failed[run[start[failed]] == run[start[failed + 1]]]
    change[start[failed + 1]] -= 1
    # a save that a fault cut stays open for good: count from before the first event of each run
    before = np.cumsum(change) - change
    closes = end[end >= 0]
    return closes[before[closes] + change[closes] > before[begin[run[closes]]]]


def _async_durable(event, run, stop, start, save_id) -> np.ndarray:
    """Return for each async start the index of its checkpoint_durable, or -1: by id, else in the order they began."""
    durable = _in_a_run(np.flatnonzero(event == CODE["checkpoint_durable"]), run, stop)
    rows = np.sort(np.concatenate([start, durable]))
    rows = rows[np.lexsort((rows, save_id[rows], run[rows]))]  # those of one run and one id together
    group = np.cumsum(np.append(True, (np.diff(run[rows]) != 0) | (np.diff(save_id[rows]) != 0))) if len(rows) else rows
    is_start = event[rows] == CODE["checkpoint_start"]
    of_start = np.full(len(event), -1)
    served = _served(rows, is_start, group)
    of_start[served[served >= 0]] = rows[~is_start][served >= 0]
    return of_start[start]
