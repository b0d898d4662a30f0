"""How does the job live with it? It trains, is interrupted, notices, finds nodes, restarts, and trains again.

One process reads the tape of failures as it goes: it knows when the next one is due, and waits until then or until what
it is doing is done, whichever comes first.
Saves are not played: between two interruptions they follow a pattern that `simulate` writes down afterwards. Only the
save before a planned stop is.
"""

import math
from collections.abc import Callable, Iterable

import simpy

from goodput.cluster import NEVER, NO_NODE, US_PER_DAY, US_PER_MINUTE, Cluster, Fault
from goodput.scenario import Scenario


def save_pattern(scenario: Scenario) -> tuple[int, int]:
    """Return the microseconds of compute between two saves, and those of a save."""
    interval = max(1, round(scenario.interval_minutes * US_PER_MINUTE))
    return interval, max(1, round(scenario.checkpoint.blocking_minutes * US_PER_MINUTE))


class Job:
    """The training job. `stretches` holds the (begin, end) of each stretch of training, in microseconds.

    A stretch that a planned stop ends is there up to the order to stop: the save behind it is noted by the job.
    """

    def __init__(
        self, env: simpy.Environment, scenario: Scenario, cluster: Cluster, tape: Iterable[Fault], note: Callable
    ):
        self.env, self.cluster, self.tape, self.note = env, cluster, iter(tape), note
        causes = scenario.causes.values()
        self.is_planned = [cause.planned for cause in causes]
        self.strikes_node = [cause.scope == "node" for cause in causes] + [False]  # the last: a failed restart
        self.breaks_node = [cause.needs_repair for cause in causes] + [False]
        self.interval_us, self.save_us = save_pattern(scenario)
        self.notice_restart_us = round(scenario.restart.failure_detection_minutes * US_PER_MINUTE)
        self.horizon = round(scenario.days * US_PER_DAY)
        self.stretches: list[tuple[int, int]] = []
        self.fault = next(self.tape, NEVER)  # the next on the tape
        self.always = scenario.failures.strike == "always"
        # what the clock that failures go by is behind the wall clock; without end while it stands still
        self.behind: float = 0 if self.always else math.inf
        self.ran_us = 0  # the running clock, as of the last interruption
        self.began: int | None = None  # of the stretch of training that goes on
        self.ordered: int | None = None  # when a planned stop was ordered: only its save is left to do
        self.noticed: int | None = None  # when it will be known that the job is dead
        self.before: dict[int, int] = {}  # slot -> the node that sat there when the job last trained
        env.process(self.live())

    def live(self):
        """Train until a fault strikes, recover, and train on."""
        self.note("start")
        while True:
            self.began = self.env.now
            if not self.always:
                self.behind = self.began - self.ran_us
            fault = yield from self.wait(self.horizon)
            if self.is_planned[fault.cause]:
                fault = yield from self.save_and_stop(fault)
            self.stop()
            while fault:
                fault = yield from self.recover(fault)

    def wait(self, until: int):
        """Wait until a moment; return the fault that strikes the job before, if one does."""
        # what ends at the moment of a fault ends before it; who sits where does not change meanwhile
        while (due := self.fault.at_us + self.behind) < until:
            fault, self.fault = self.fault, next(self.tape, NEVER)
            if self.strikes(fault):
                yield self.env.timeout(due - self.env.now)
                return fault
        yield self.env.timeout(until - self.env.now)
        return None

    def strikes(self, fault: Fault) -> bool:
        """Return whether a fault on the tape stops the job as it is now."""
        if self.is_planned[fault.cause]:
            return self.began is not None and self.ordered is None  # not while it is down, or about to be
        return self.cluster.hits(fault)

    def save_and_stop(self, plan: Fault):
        """Save, or finish the save under way; return what stops the job: the plan, or a fault that strikes first."""
        self.ordered = self.env.now
        period = self.interval_us + self.save_us
        into = (self.ordered - self.began) % period
        if into <= self.interval_us:
            self.note("checkpoint_start")
            into = self.interval_us
        fault = yield from self.wait(self.ordered + period - into)
        if fault:
            return fault  # one stop, not two
        self.note("checkpoint_end")
        return plan

    def stop(self) -> None:
        """Close the stretch of training that goes on, if one does."""
        if self.began is not None:
            self.stretches.append((self.began, self.env.now if self.ordered is None else self.ordered))
            self.ran_us += self.env.now - self.began
            self.began = self.ordered = None
            if not self.always:
                self.behind = math.inf

    def recover(self, fault: Fault):
        """Notice the fault, replace broken nodes, and restart; return the fault that strikes meanwhile, if one does."""
        self.take_in(fault)
        if struck := (yield from self.wait(self.noticed)):
            return struck
        self.noticed = None
        self.note("detected")
        if struck := (yield from self.replace()):
            return struck
        if struck := (yield from self.wait(self.env.now + fault.restart_us)):
            return struck
        if fault.failed_restarts:
            return fault._replace(
                cause=len(self.is_planned),
                detection_us=self.notice_restart_us,
                failed_restarts=fault.failed_restarts - 1,
            )
        self.note("running")
        return None

    def take_in(self, fault: Fault) -> None:
        """Write down the fault, which node it breaks, and when it will be noticed."""
        node = self.cluster.occupant(fault.slot) if self.strikes_node[fault.cause] else NO_NODE
        if self.breaks_node[fault.cause]:
            self.before.setdefault(fault.slot, node)
            self.cluster.broken[fault.slot] = fault.repair_us
        self.note("interrupt", node, fault.cause)
        known = self.env.now + fault.detection_us
        # a dead job is known to be dead with the first of its faults that is noticed
        self.noticed = known if self.noticed is None else min(known, self.noticed)

    def replace(self):
        """Send broken nodes to the shop and take a spare for each; return the fault that strikes meanwhile, if any."""
        self.cluster.send_to_shop()
        for slot in list(self.cluster.broken):
            while not self.cluster.seat(slot):
                if struck := (yield from self.wait_for_spare()):
                    return struck
        joined, left = [self.cluster.occupant(slot) for slot in self.before], list(self.before.values())
        self.before = {}
        self.note("nodes_ready", self.cluster.number(joined), self.cluster.number(left))
        return None

    def wait_for_spare(self):
        """Wait until a node is mended; return the fault that strikes before, if one does."""
        came, due = self.cluster.next_spare(), self.fault.at_us + self.behind
        if due >= self.horizon:
            yield came
            return None
        yield came | self.env.timeout(due - self.env.now)
        if came.triggered:
            return None
        fault, self.fault = self.fault, next(self.tape, NEVER)
        return fault if self.strikes(fault) else None
