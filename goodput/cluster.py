"""What breaks, and who mends it? A row of slots, a shelf of spares, a repair shop, and failures on tape.

Think of a theatre that must not close: each seat of the orchestra (a slot) has a player (a node), understudies
wait in the wings (spares), and a doctor (a crew) sees one patient at a time. The tape says which seat falls ill when.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import simpy

from goodput.parts import Distribution
from goodput.scenario import Scenario
from goodput.streams import fates, stream

US_PER_MINUTE = 60_000_000
US_PER_HOUR = 60 * US_PER_MINUTE
US_PER_DAY = 24 * US_PER_HOUR
ANY_COHORT = -1  # of a failure that is not tied to a node
NO_NODE = -1


class Fault(NamedTuple):
    """A candidate failure with its whole fate, drawn at birth."""

    at_us: int  # on the clock that the scenario's failures go by: the job's running clock, or the wall clock
    slot: int
    cohort: int  # it hits only where the slot's occupant is of this cohort, or ANY_COHORT
    cause: int  # number of the cause in the scenario
    repair_us: int
    detection_us: int
    restart_us: int
    failed_restarts: int = 0  # before one goes well


def failure_tape(scenario: Scenario, seed: int) -> list[Fault]:
    """Return all candidate failures of a run, in the order of their clock, up to the horizon.

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
    horizon, name = scenario.days * 24, list(scenario.causes)[cause]
    blocks, now = [], 0.0
    for gap, slot, repair in fates(stream(seed, cohort_name, name)):
        at = now + np.cumsum(gap) * gap_hours
        blocks.append((at, slot, repair))
        now = at[-1]
        if now > horizon:
            break
    at, slot, repair = (np.concatenate(column) for column in zip(*blocks, strict=True))
    count = np.searchsorted(at, horizon)
    mean, luck = scenario.repair.mean_hours, repair[:count]
    mending = mean.at(-np.expm1(-luck)) if isinstance(mean, Distribution) else luck * mean

    def minutes(duration: float | Distribution, what: str) -> np.ndarray:
        if isinstance(duration, Distribution):
            duration = duration.at(stream(seed, cohort_name, name, what).random(count))
            return _whole(scenario, duration * US_PER_MINUTE)
        return np.full(count, round(duration * US_PER_MINUTE))

    return (
        np.rint(at[:count] * US_PER_HOUR).astype("int64"),
        (slot[:count] * scenario.job.nodes).astype("int64"),
        np.full(count, cohort),
        np.full(count, cause),
        _whole(scenario, mending * US_PER_HOUR),
        minutes(scenario.causes[name].detection_minutes, "detection"),
        minutes(scenario.job.restart_minutes, "restart"),
        _failed_restarts(scenario.restart.failure_share, seed, cohort_name, name, count),
    )


def _whole(scenario: Scenario, us: np.ndarray) -> np.ndarray:
    """Return microseconds as whole numbers; what outlasts the run is cut, as they are int64."""
    return np.rint(np.minimum(us, (scenario.days + 1) * US_PER_DAY)).astype("int64")


def _failed_restarts(share: float, seed: int, cohort_name: str, name: str, count: int) -> np.ndarray:
    """Return how many restarts fail before one goes well: geometric, and more of them with a larger share."""
    if not share:
        return np.zeros(count, "int64")
    chance = stream(seed, cohort_name, name, "failed restarts").random(count)
    return np.floor(np.log1p(-chance) / math.log(share)).astype("int64")


class Cluster:
    """Slots, spares and the repair shop. A node is in one place: in the job, a spare, at a crew's door, or in repair.

    Nodes are numbers, 0 to pool - 1; the job starts with the first. `note(event, node=...)` writes to the log.
    """

    def __init__(self, env: simpy.Environment, scenario: Scenario, note: Callable):
        self.env, self.note = env, note
        self.moved: dict[int, int] = {}  # slot -> node, where it is not the slot's first
        # slot with a broken node -> how long that takes to mend, until it has left; None until another one sits there
        self.broken: dict[int, int | None] = {}
        self.groups: list[list[int]] = []  # nodes that joined or left together; their numbers are -2, -3, ...
        self.spares = simpy.PriorityStore(env)  # the lowest number is taken first
        self.spares.items = list(range(scenario.job.nodes, scenario.pool_nodes))
        self.crews = simpy.Resource(env, capacity=scenario.repair.crews or float("inf"))
        self.cohort_ends = np.cumsum(list(scenario.cohort_sizes.values())).tolist()

    def occupant(self, slot: int) -> int:
        """Return the node in a slot."""
        return self.moved.get(slot, slot)

    def hits(self, fault: Fault) -> bool:
        """Return whether there is a node in the slot, and of the cohort that the fault is drawn for."""
        if fault.cohort == ANY_COHORT:
            return True
        if fault.slot in self.broken:
            return False
        if len(self.cohort_ends) == 1:
            return True
        node = self.occupant(fault.slot)
        return sum(end <= node for end in self.cohort_ends) == fault.cohort

    def send_to_shop(self) -> None:
        """Let all broken nodes leave for the shop that have not left yet."""
        for slot, repair_us in self.broken.items():
            if repair_us is not None:
                self.env.process(self.repair(self.occupant(slot), repair_us))
                self.broken[slot] = None

    def seat(self, slot: int, node: int) -> None:
        """Put a healthy node into a slot that has none."""
        self.moved[slot] = node
        del self.broken[slot]

    def number(self, nodes: list[int]) -> int:
        """Return the number of the only node, or that of a new group of nodes."""
        if len(nodes) == 1:
            return nodes[0]
        self.groups.append(sorted(nodes))
        return NO_NODE - len(self.groups)

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
    for fault in tape:
        yield job.training
        if job.closes is not None:  # about to stop: who sits where may be another then
            yield from job.train_until(fault.at_us)
            if cluster.hits(fault):
                job.interrupt(fault)
        # who sits where changes only while the job is down, so this is already true when the fault is due
        elif cluster.hits(fault):
            yield cluster.env.timeout(fault.at_us - job.ran_us)
            job.interrupt(fault)


def play_always(tape: list[Fault], cluster: Cluster, job):
    """Play the tape on the wall clock: failures strike a job that is down as well."""
    for fault in tape:
        yield cluster.env.timeout(fault.at_us - cluster.env.now)
        if cluster.hits(fault):
            job.interrupt(fault)
