"""Play it once: a scenario and a seed become an event log, the same kind that a real job writes.

Times start at 2025-01-01T00:00:00Z, and are whole microseconds: nothing drifts.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

import numpy as np
import pandas as pd
import simpy

from goodput.cluster import Cluster, failure_tape
from goodput.events import CODE, EVENT_DTYPE, make_log
from goodput.scenario import Scenario
from goodput.training import Job, save_pattern

EPOCH_US = 1_735_689_600_000_000  # 2025-01-01T00:00:00Z
_NONE = -1


class Record(NamedTuple):
    """What one run leaves: its noted events, and the stretches of training that its saves are laid in."""

    time: np.ndarray
    event: np.ndarray
    cause: np.ndarray
    node: np.ndarray
    joined: np.ndarray
    left: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    groups: list[list[int]]  # several nodes that joined or left at once; `joined` and `left` hold -2, -3, ... for them


def simulate(scenario: Scenario, seed: int) -> pd.DataFrame:
    """Return the event log of one run; the same scenario and seed give the same log, everywhere."""
    return simulate_many(scenario, [seed])


def simulate_many(scenario: Scenario, seeds: Iterable[int]) -> pd.DataFrame:
    """Return the logs of several runs as one; each run is a job named as `job_name` says."""
    seeds = list(seeds)
    records = [_play(scenario, seed) for seed in seeds]
    run = np.repeat(np.arange(len(seeds)), [len(record.time) for record in records])
    noted = [np.concatenate(column) for column in list(zip(*_renumbered(records), strict=True))[:6]]
    groups = [group for record in records for group in record.groups]
    save_run, save_time, save_event = _saves(scenario, records)
    run = np.concatenate([save_run, run])
    time = np.concatenate([save_time, noted[0]])
    # saves first and a stable sort: a save that ends as a fault strikes counts before it
    order = np.lexsort((time, run))
    noted = [np.concatenate([np.full(len(save_run), _NONE), column])[order] for column in noted[1:]]
    event = np.where(
        noted[0] == _NONE,
        np.concatenate([save_event, np.zeros(len(run) - len(save_event), int)])[order],
        noted[0],
    )
    return _frame(scenario, seeds, groups, run[order], time[order], event, *noted[1:])


def _renumbered(records: list[Record]) -> Iterator[Record]:
    """Yield records whose groups are numbered through all of them."""
    before = 0
    for record in records:
        joined, left = (np.where(each < _NONE, each - before, each) for each in (record.joined, record.left))
        yield record._replace(joined=joined, left=left)
        before += len(record.groups)


def job_name(scenario: Scenario, seed: int) -> str:
    """Return the name that a run's job has in its log."""
    return f"{scenario.job.name or scenario.name}/seed-{seed}"


def node_names(scenario: Scenario, first: int, last: int) -> str:
    """Return the names of nodes `first` to `last`, folded.

    >>> from goodput.scenario import load_scenario
    >>> node_names(load_scenario("baseline"), 0, 127)
    'node[0000-0127]'
    """
    width = _width(scenario)
    return f"node{first:0{width}}" if first == last else f"node[{first:0{width}}-{last:0{width}}]"


def cohort_names(scenario: Scenario) -> dict[str, str]:
    """Return the folded names of the nodes of each cohort: what a reader of the log would have to know besides."""
    ends = np.cumsum(list(scenario.cohort_sizes.values())).tolist()
    starts = [0, *ends[:-1]]
    return {
        name: node_names(scenario, start, end - 1)
        for name, start, end in zip(scenario.cohort_sizes, starts, ends, strict=True)
        if end > start
    }


def _width(scenario: Scenario) -> int:
    return max(4, len(str(scenario.pool_nodes - 1)))


def _play(scenario: Scenario, seed: int, environment: type[simpy.Environment] = simpy.Environment) -> Record:
    env, noted = environment(), bytearray()
    write, packed = noted.extend, Struct("4q").pack  # twice as fast as to extend an array

    def note(event, node=_NONE, more=_NONE):
        """Write an event down with its node and cause, or with the nodes that joined and those that left."""
        write(packed(env.now, CODE[event], node, more))

    cluster = Cluster(env, scenario, note)
    job = Job(env, scenario, cluster, failure_tape(scenario, seed), note)
    env.run(until=job.horizon)
    if env.peek() == float("inf") and job.began is None:
        raise RuntimeError(f"the simulation is stuck at {env.now} us: job down, spares {cluster.mended}")
    job.stop()
    note("end")
    begin, end = np.array(job.stretches, "int64").reshape(-1, 2).T
    time, event, node, more = np.frombuffer(noted, "int64").reshape(-1, 4).T
    struck, ready = event == CODE["interrupt"], event == CODE["nodes_ready"]
    where = [(struck, more), (~ready, node), (ready, node), (ready, more)]
    return Record(time, event, *(np.where(here, each, _NONE) for here, each in where), begin, end, cluster.groups)


def _saves(scenario: Scenario, records: list[Record]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return run, time and event of all saves: in a stretch of training they follow a fixed pattern."""
    interval, save = save_pattern(scenario)
    period = interval + save
    begin = np.concatenate([record.begin for record in records])
    length = np.concatenate([record.end for record in records]) - begin
    # starts strictly before the stretch ends, ends by its end: start, end, start, end, ...
    rows = (length + save - 1) // period + length // period
    first = np.cumsum(rows) - rows
    turn = np.arange(rows.sum()) - np.repeat(first, rows)
    is_end = turn % 2
    time = np.repeat(begin, rows) + (turn // 2 + 1) * period - (1 - is_end) * save
    run = np.repeat(np.arange(len(records)), [len(record.begin) for record in records])
    return np.repeat(run, rows), time, CODE["checkpoint_start"] + is_end


def _frame(scenario: Scenario, seeds: list[int], groups, run, time, event, cause, node, joined, left) -> pd.DataFrame:
    start = event == CODE["start"]
    job = np.zeros(len(run), "int32") + run
    return make_log(
        {
            "time": time + EPOCH_US,
            "job": pd.Categorical.from_codes(job, [job_name(scenario, seed) for seed in seeds]),
            "event": pd.Categorical.from_codes(event, dtype=EVENT_DTYPE),
            "cause": pd.Categorical.from_codes(cause, scenario.cause_names),
            "planned": np.isin(cause, [code for code, each in enumerate(scenario.causes.values()) if each.planned]),
            "node": _named(scenario, node, groups),
            "nodes": (np.full(len(run), scenario.job.nodes), ~start),
            "gpus_per_node": (np.full(len(run), scenario.job.gpus_per_node), ~start),
            "node_names": pd.Categorical.from_codes(start - 1, [node_names(scenario, 0, scenario.job.nodes - 1)]),
            "joined": _named(scenario, joined, groups),
            "left": _named(scenario, left, groups),
        }
    )


def _named(scenario: Scenario, node: np.ndarray, groups: list[list[int]]) -> pd.Categorical:
    """Return node numbers, and those of groups, as names; only nodes that occur get one."""
    known = np.flatnonzero(node != _NONE)
    numbers, code = np.unique(node[known], return_inverse=True)
    width, alone = _width(scenario), numbers[numbers >= 0]
    names = [f"node{number:0{width}}" for number in alone.tolist()]
    folded = [",".join(f"{each:0{width}}" for each in groups[-2 - number]) for number in numbers[numbers < 0].tolist()]
    # two groups may be of the same nodes
    together, same = np.unique([f"node[{each}]" for each in folded], return_inverse=True)
    codes = np.full(len(node), -1, "int32")
    codes[known] = np.append(len(alone) + same, np.arange(len(alone)))[code]
    return pd.Categorical.from_codes(codes, names + together.tolist())
