"""What breaks, and who mends it? A row of slots, a shelf of spares, a repair shop, and failures on tape.

Think of a theatre that must not close: each seat of the orchestra (a slot) has a player (a node), understudies
wait in the wings (spares), and a doctor (a crew) sees one patient at a time. The tape says which seat falls ill when.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, partial
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
_BLOCK = 512  # candidates that are taken off the arrays at once, and about as many as the first window has


def failure_tape(scenario: Scenario, seed: int) -> Iterator[Fault]:
    """Yield all candidate failures of a run, in the order of their clock, up to the horizon.

    One tape for each cohort and cause, at the rate (job nodes x cohort rate x share), each failure aimed at a slot
    drawn evenly. Thinned by the cohort of the slot's occupant this is exact: every node fails at its own rate.
    """
    sources = list(_sources(scenario))
    tapes = [_Tape(scenario, seed, *source) for source in sources]
    horizon, upto = scenario.days * 24, 0.0
    # a job that is mostly down meets few of them, so they are drawn as it gets there, in windows that double
    width = _BLOCK / sum(1 / gap_hours for *_, gap_hours in sources)
    while upto < horizon:
        upto, width = min(horizon, upto + width), 2 * width
        merged = [np.concatenate(column) for column in zip(*(tape.until(upto) for tape in tapes))]
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


class _Tape:
    """One endless tape of candidates, of a cohort and a cause, drawn as far as it was asked for."""

    def __init__(self, scenario: Scenario, seed: int, cohort_name: str, cohort: int, cause: int, gap_hours: float):
        self.scenario, self.cohort, self.cause, self.gap_hours = scenario, cohort, cause, gap_hours
        self.name = list(scenario.causes)[cause]
        self.stream = cache(partial(stream, seed, cohort_name, self.name))
        self.blocks = fates(self.stream())
        self.drawn = [np.array([])] * 3  # hours, slot and repair of those that no window has had yet
        self.now = 0.0  # hours of the last that was drawn

    def until(self, hours: float) -> tuple[np.ndarray, ...]:
        """Return the next candidates, up to this time: a column for each field of `Fault`."""
        while self.now <= hours:
            gap, slot, repair = next(self.blocks)
            at = self.now + np.cumsum(gap) * self.gap_hours
            self.drawn = [np.append(*column) for column in zip(self.drawn, (at, slot, repair))]
            self.now = at[-1]
        count = np.searchsorted(self.drawn[0], hours)
        at, slot, luck = (column[:count] for column in self.drawn)
        self.drawn = [column[count:] for column in self.drawn]
        mean = self.scenario.repair.mean_hours
        mending = mean.at(-np.expm1(-luck)) if isinstance(mean, Distribution) else luck * mean
        return (
            np.rint(at * US_PER_HOUR).astype("int64"),
            (slot * self.scenario.job.nodes).astype("int64"),
            np.full(count, self.cohort),
            np.full(count, self.cause),
            self._whole(mending * US_PER_HOUR),
            self._minutes(self.scenario.causes[self.name].detection_minutes, "detection", count),
            self._minutes(self.scenario.job.restart_minutes, "restart", count),
            self._failed_restarts(count),
        )

    def _minutes(self, duration: float | Distribution, what: str, count: int) -> np.ndarray:
        if isinstance(duration, Distribution):
            return self._whole(duration.at(self.stream(what).random(count)) * US_PER_MINUTE)
        return np.full(count, round(duration * US_PER_MINUTE))

    def _whole(self, us: np.ndarray) -> np.ndarray:
        """Return microseconds as whole numbers; what outlasts the run is cut, as they are int64."""
        return np.rint(np.minimum(us, (self.scenario.days + 1) * US_PER_DAY)).astype("int64")

    def _failed_restarts(self, count: int) -> np.ndarray:
        """Return how many restarts fail before one goes well: geometric, and more of them with a larger share."""
        share = self.scenario.restart.failure_share
        if not share:
            return np.zeros(count, "int64")
        return np.floor(np.log1p(-self.stream("failed restarts").random(count)) / math.log(share)).astype("int64")


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
