"""What breaks, and who mends it? A row of slots, a shelf of spares, a repair shop, and failures on tape.

Think of a theatre that must not close: each seat of the orchestra (a slot) has a player (a node), understudies
wait in the wings (spares), and a doctor (a crew) sees one patient at a time. The tape says which seat falls ill when.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import simpy

from goodput.scenario import Scenario
from goodput.streams import fates, stream

US_PER_MINUTE = 60_000_000
US_PER_HOUR = 60 * US_PER_MINUTE
US_PER_DAY = 24 * US_PER_HOUR
ANY_COHORT = -1  # of a failure that is not tied to a node
NO_NODE = -1


class Fault(NamedTuple):
    """A candidate failure with its whole fate, drawn at birth."""

    at_us: int  # on the job's running clock
    slot: int
    cohort: int  # it hits only where the slot's occupant is of this cohort, or ANY_COHORT
    cause: int  # number of the cause in the scenario
    repair_us: int


def failure_tape(scenario: Scenario, seed: int) -> list[Fault]:
    """Return all candidate failures of a run, in the order of the running clock, up to the horizon.

    One tape for each cohort and cause, at the rate (job nodes x cohort rate x share), each failure aimed at a slot
    drawn evenly. Thinned by the cohort of the slot's occupant this is exact: every node fails at its own rate.
    """
    tapes = [_tape(scenario, seed, *which) for which in _sources(scenario)]
    merged = [np.concatenate(column) for column in zip(*tapes, strict=True)]
    order = np.argsort(merged[0], kind="stable")
    return list(map(Fault._make, zip(*(column[order].tolist() for column in merged), strict=True)))


def _sources(scenario: Scenario) -> Iterator[tuple[str, int, int, float]]:
    """Yield for each tape the name of its cohort, its number, the number of the cause, and the mean gap in hours."""
    for number, cause in enumerate(scenario.causes.values()):
        if cause.share == 0:
            continue
        if cause.scope == "node":
            for cohort, (name, nodes) in enumerate(scenario.cohorts.items()):
                yield name, cohort, number, nodes.mtbf_hours / scenario.job.nodes / cause.share
        elif scenario.job_failures.mtbi_hours:
            yield "job", ANY_COHORT, number, scenario.job_failures.mtbi_hours / cause.share


def _tape(scenario: Scenario, seed: int, cohort_name: str, cohort: int, cause: int, gap_hours: float):
    horizon = scenario.days * 24
    blocks, now = [], 0.0
    for gap, slot, repair in fates(stream(seed, cohort_name, list(scenario.causes)[cause])):
        at = now + np.cumsum(gap) * gap_hours
        blocks.append((at, slot, repair))
        now = at[-1]
        if now > horizon:
            break
    at, slot, repair = (np.concatenate(column) for column in zip(*blocks, strict=True))
    count, last = np.searchsorted(at, horizon), 24 * scenario.days + 1
    return (
        np.rint(at[:count] * US_PER_HOUR).astype("int64"),
        (slot[:count] * scenario.job.nodes).astype("int64"),
        np.full(count, cohort),
        np.full(count, cause),
        # what outlasts the run is cut: microseconds are int64
        np.rint(np.minimum(repair[:count] * scenario.repair.mean_hours, last) * US_PER_HOUR).astype("int64"),
    )


class Cluster:
    """Slots, spares and the repair shop. A node is in one place: in the job, a spare, at a crew's door, or in repair.

    Nodes are numbers, 0 to pool - 1; the job starts with the first. `note(event, node=...)` writes to the log.
    """

    def __init__(self, env: simpy.Environment, scenario: Scenario, note: Callable):
        self.env, self.note = env, note
        self.moved: dict[int, int] = {}  # slot -> node, where it is not the slot's first
        self.spares = simpy.PriorityStore(env)  # the lowest number is taken first
        self.spares.items = list(range(scenario.job.nodes, scenario.pool_nodes))
        self.crews = simpy.Resource(env, capacity=scenario.repair.crews or float("inf"))
        self.cohort_ends = np.cumsum(list(scenario.cohort_sizes.values())).tolist()

    def occupant(self, slot: int) -> int:
        """Return the node in a slot."""
        return self.moved.get(slot, slot)

    def hits(self, fault: Fault) -> bool:
        """Return whether the slot's occupant is of the cohort that the fault is drawn for."""
        if fault.cohort == ANY_COHORT or len(self.cohort_ends) == 1:
            return True
        node = self.occupant(fault.slot)
        return sum(end <= node for end in self.cohort_ends) == fault.cohort

    def repair(self, node: int, repair_us: int):
        """Take a node through the shop: wait for a crew, be mended, join the spares."""
        self.note("node_down", node=node)
        with self.crews.request() as crew:
            yield crew
            self.note("repair_start", node=node)
            yield self.env.timeout(repair_us)
        self.note("node_repaired", node=node)
        yield self.spares.put(node)


def play(tape: list[Fault], cluster: Cluster, job):
    """Play the tape on the job's running clock, and interrupt the job with every failure that hits."""
    yield job.training
    for fault in tape:
        # who sits where changes only while the job is down, so this is already true when the fault is due
        if cluster.hits(fault):
            yield cluster.env.timeout(fault.at_us - job.ran_us)
            job.interrupt(fault)
            yield job.training
