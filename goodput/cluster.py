"""What breaks, and who mends it? A row of slots, a shelf of spares, a repair shop, and failures on tape.

Think of a theatre that must not close: each seat of the orchestra (a slot) has a player (a node), understudies
wait in the wings (spares), and a doctor (a crew) sees one patient at a time. The tape says which seat falls ill when.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
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


NEVER = Fault(math.inf, -1, ANY_COHORT, -1, 0, 0, 0)  # what stands behind the last failure of a tape
_BLOCK = 512  # candidates that are taken off the arrays at once: a job that is mostly down needs few of them


def failure_tape(scenario: Scenario, seed: int) -> Iterator[Fault]:
    """Yield all candidate failures of a run, in the order of their clock, up to the horizon.

    One tape for each cohort and cause, at the rate (job nodes x cohort rate x share), each failure aimed at a slot
    drawn evenly. Thinned by the cohort of the slot's occupant this is exact: every node fails at its own rate.
    """
    tapes = [_tape(scenario, seed, *which) for which in _sources(scenario)]
    merged = [np.concatenate(column) for column in zip(*tapes, strict=True)]
    order = np.argsort(merged[0], kind="stable")
    for block in np.split(order, range(_BLOCK, len(order), _BLOCK)):
        yield from map(Fault._make, zip(*(column[block].tolist() for column in merged)))


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

    Nodes are numbers, 0 to pool - 1; the job starts with the first. One that never failed has no object: only those
    that moved are written down. `note(event, node)` writes to the log.
    """

    def __init__(self, env: simpy.Environment, scenario: Scenario, note: Callable):
        self.env, self.note = env, note
        self.moved: dict[int, int] = {}  # slot -> node, where it is not the slot's first
        # slot with a broken node -> how long that takes to mend, until it has left; None until another one sits there
        self.broken: dict[int, int | None] = {}
        self.groups: list[list[int]] = []  # nodes that joined or left together; their numbers are -2, -3, ...
        self.untouched, self.pool = scenario.job.nodes, scenario.pool_nodes  # from the one to the other: never used
        self.mended: list[int] = []  # a heap: the lowest number is taken first
        self.came: simpy.Event | None = None  # happens when a node is mended, where somebody waits for it
        self.free_crews = scenario.repair.crews or math.inf
        self.door: deque[tuple[int, int]] = deque()  # who waits for a crew, and how long it takes to mend
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

    def seat(self, slot: int) -> bool:
        """Put the spare of the lowest number into a slot that has no healthy node; return whether there was one."""
        if self.mended and (self.mended[0] < self.untouched or self.untouched == self.pool):
            self.moved[slot] = heappop(self.mended)
        elif self.untouched < self.pool:
            self.moved[slot] = self.untouched
            self.untouched += 1
        else:
            return False
        del self.broken[slot]
        return True

    def next_spare(self) -> simpy.Event:
        """Return what happens when the next node is mended."""
        self.came = self.came or self.env.event()
        return self.came

    def number(self, nodes: list[int]) -> int:
        """Return the number of the only node, that of a new group of nodes, or NO_NODE for none."""
        if len(nodes) < 2:
            return nodes[0] if nodes else NO_NODE
        self.groups.append(sorted(nodes))
        return NO_NODE - len(self.groups)

    def send_to_shop(self) -> None:
        """Let all broken nodes leave for the shop that have not left yet."""
        for slot, repair_us in self.broken.items():
            if repair_us is not None:
                self.note("node_down", self.occupant(slot))
                self.door.append((self.occupant(slot), repair_us))
                self.broken[slot] = None
        self.open_door()

    def open_door(self) -> None:
        """Give each free crew the node that has waited longest."""
        while self.door and self.free_crews:
            node, repair_us = self.door.popleft()
            self.free_crews -= 1
            self.note("repair_start", node)
            # an event with a callback, not a process: a trip through the shop has no other moment
            self.env.timeout(repair_us, node).callbacks.append(self.mend)

    def mend(self, repair: simpy.Event) -> None:
        """Put the node whose repair is over on the shelf; its crew takes the next."""
        self.note("node_repaired", repair.value)
        heappush(self.mended, repair.value)
        self.free_crews += 1
        self.open_door()
        if self.came:
            self.came.succeed()
            self.came = None
