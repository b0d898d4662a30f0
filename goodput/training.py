"""How does the job live with it? It trains, is interrupted, notices, finds nodes, restarts, and trains again.

Saves are not played: between two interruptions they follow a pattern that `simulate` writes down afterwards. Only the
save before a planned stop is.
"""

from collections.abc import Callable

import simpy

from goodput.cluster import NO_NODE, US_PER_MINUTE, Cluster, Fault
from goodput.scenario import Scenario


def save_pattern(scenario: Scenario) -> tuple[int, int]:
    """Return the microseconds of compute between two saves, and those of a save."""
    interval = max(1, round(scenario.interval_minutes * US_PER_MINUTE))
    return interval, max(1, round(scenario.checkpoint.blocking_minutes * US_PER_MINUTE))


class Job:
    """The training job. `stretches` holds the (begin, end) of each stretch of training, in microseconds.

    A stretch that a planned stop ends is there up to the order to stop: the save behind it is noted by the job.
    """

    def __init__(self, env: simpy.Environment, scenario: Scenario, cluster: Cluster, note: Callable):
        self.env, self.cluster, self.note = env, cluster, note
        self.causes = list(scenario.causes.values())
        self.interval_us, self.save_us = save_pattern(scenario)
        self.notice_restart_us = round(scenario.restart.failure_detection_minutes * US_PER_MINUTE)
        self.stretches: list[tuple[int, int]] = []
        self.ran_us = 0  # the running clock, as of the last interruption
        self.began: int | None = None  # of the stretch of training that goes on
        self.ordered: int | None = None  # when a planned stop was ordered: only its save is left to do
        self.closes: int | None = None  # when that save ends
        self.noticed: int | None = None  # when it will be known that the job is dead
        self.before: dict[int, int] = {}  # slot -> the node that sat there when the job last trained
        self.training = env.event()  # has happened while the job trains
        self.process = env.process(self.train())

    def train(self):
        """Train until a fault strikes, recover, and train on."""
        self.note("start")
        while True:
            self.began = self.env.now
            self.training.succeed()
            fault = yield from self.be_struck()
            self.stop()
            while fault:
                fault = yield from self.recover(fault)

    def be_struck(self):
        """Train on for ever, or save and stop where that was ordered; return the fault that ends it."""
        try:
            yield self.env.event()  # never happens: only a fault ends training
        except simpy.Interrupt as interrupt:
            fault = interrupt.cause
        if self.ordered is None:
            return fault
        try:
            if self.closes == self.ordered + self.save_us:
                self.note("checkpoint_start")
            yield self.env.timeout(self.closes - self.ordered)
            self.note("checkpoint_end")
        except simpy.Interrupt as interrupt:
            return interrupt.cause  # the fault stops the job as well: the plan is no stop of its own
        self.training = self.env.event()
        return fault

    def interrupt(self, fault: Fault) -> None:
        """Strike the job with a fault; unless that is planned, it is not training from this moment."""
        if self.is_planned(fault):
            if self.began is None or self.ordered is not None:
                return  # it is down, or about to be
            self.order_stop()
        else:
            self.training = self.env.event()
        self.process.interrupt(fault)

    def is_planned(self, fault: Fault) -> bool:
        """Return whether somebody chose this stop."""
        return fault.cause < len(self.causes) and self.causes[fault.cause].planned

    def order_stop(self) -> None:
        """Order the job to stop: at the end of the save under way, or of one that begins now."""
        self.ordered = self.env.now
        period = self.interval_us + self.save_us
        into = (self.ordered - self.began) % period
        self.closes = self.ordered + (period - into if into > self.interval_us else self.save_us)

    def train_until(self, ran_us: int):
        """Wait until the running clock shows this: a planned stop may come before."""
        while True:
            yield self.training
            due = self.env.now + ran_us - self.ran_us - (self.env.now - self.began)
            if self.closes is None or due < self.closes:
                yield self.env.timeout(due - self.env.now)
                return
            yield self.env.timeout(self.closes - self.env.now)

    def stop(self) -> None:
        """Close the stretch of training that goes on, if one does."""
        if self.began is not None:
            self.stretches.append((self.began, self.env.now if self.ordered is None else self.ordered))
            self.ran_us += self.env.now - self.began
            self.began = self.ordered = self.closes = None

    def recover(self, fault: Fault):
        """Notice the fault, replace broken nodes, and restart; return the fault that strikes meanwhile, if one does."""
        self.take_in(fault)
        try:
            yield from self.notice()
            yield from self.replace()
            yield self.env.timeout(fault.restart_us)
        except simpy.Interrupt as interrupt:
            return interrupt.cause
        if fault.failed_restarts:
            return fault._replace(
                cause=len(self.causes),
                detection_us=self.notice_restart_us,
                failed_restarts=fault.failed_restarts - 1,
            )
        self.note("running")
        return None

    def take_in(self, fault: Fault) -> None:
        """Write down the fault, which node it breaks, and when it will be noticed."""
        of_node = fault.cause < len(self.causes) and self.causes[fault.cause].scope == "node"
        node = self.cluster.occupant(fault.slot) if of_node else NO_NODE
        self.note("interrupt", cause=fault.cause, node=node)
        if of_node and self.causes[fault.cause].needs_repair:
            self.before.setdefault(fault.slot, node)
            self.cluster.broken[fault.slot] = fault.repair_us
        known = self.env.now + fault.detection_us
        # a dead job is known to be dead with the first of its faults that is noticed
        self.noticed = known if self.noticed is None else min(known, self.noticed)

    def notice(self):
        """Wait until the job is known to be dead; all its nodes are looked at then, and broken ones leave."""
        yield self.env.timeout(self.noticed - self.env.now)
        self.noticed = None
        self.note("detected")
        self.cluster.send_to_shop()

    def replace(self):
        """Take a spare for each broken node, as they come."""
        for slot in list(self.cluster.broken):
            asked = self.cluster.spares.get()
            try:
                yield asked
            except simpy.Interrupt:
                if not asked.triggered:
                    asked.cancel()
                else:  # it came at this very moment
                    self.cluster.seat(slot, asked.value)
                raise
            self.cluster.seat(slot, asked.value)
        joined = [self.cluster.occupant(slot) for slot in self.before]
        self.note("nodes_ready", joined=joined, left=list(self.before.values()))
        self.before = {}
