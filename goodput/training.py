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
            try:
                yield self.env.event()  # never happens: only a fault ends training
            except simpy.Interrupt as interrupt:
                fault = interrupt.cause
            if self.ordered is not None:
                fault = yield from self.save_and_stop(fault)
            self.stop()
            while fault:
                fault = yield from self.recover(fault)

    def save_and_stop(self, plan: Fault):
        """Save, or finish the save under way; return what stops the job: the plan, or a fault that strikes first."""
        try:
            if self.closes == self.ordered + self.save_us:
                self.note("checkpoint_start")
            yield self.env.timeout(self.closes - self.ordered)
        except simpy.Interrupt as interrupt:
            return interrupt.cause  # one stop, not two
        self.note("checkpoint_end")
        self.training = self.env.event()
        return plan

    def interrupt(self, fault: Fault) -> None:
        """Strike the job with a fault; unless that is planned, it is not training from this moment."""
        # a failed restart is no cause of the scenario, and never on the tape
        if self.causes[fault.cause].planned:
            if self.began is None or self.ordered is not None:
                return  # it is down, or about to be
            self.order_stop()
        else:
            self.training = self.env.event()
        self.process.interrupt(fault)

    def order_stop(self) -> None:
        """Order the job to stop: at the end of the save under way, or of one that begins now."""
        self.ordered = self.env.now
        period = self.interval_us + self.save_us
        into = (self.ordered - self.began) % period
        self.closes = self.ordered + (period - into if into > self.interval_us else self.save_us)

    def train_until(self, ran_us: int):
        """Wait until the running clock of a job that trains shows this; a planned stop may come before."""
        due = self.began + ran_us - self.ran_us
        while self.closes is not None and due >= self.closes:
            yield self.env.timeout(self.closes - self.env.now)
            yield self.training
            due = self.began + ran_us - self.ran_us
        yield self.env.timeout(due - self.env.now)

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
            yield self.env.timeout(self.noticed - self.env.now)
            self.noticed = None
            self.note("detected")
            if self.before:
                yield from self.replace()
            else:
                self.note("nodes_ready")
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
        node = NO_NODE
        if fault.cause < len(self.causes) and self.causes[fault.cause].scope == "node":
            node = self.cluster.occupant(fault.slot)
            if self.causes[fault.cause].needs_repair:
                self.before.setdefault(fault.slot, node)
                self.cluster.broken[fault.slot] = fault.repair_us
        self.note("interrupt", cause=fault.cause, node=node)
        known = self.env.now + fault.detection_us
        # a dead job is known to be dead with the first of its faults that is noticed
        self.noticed = known if self.noticed is None else min(known, self.noticed)

    def replace(self):
        """Send broken nodes to the shop, and take a spare for each as they come."""
        self.cluster.send_to_shop()
        for slot in list(self.cluster.broken):
            asked = self.cluster.spares.get()
            try:
                yield asked
            except simpy.Interrupt:
                if asked.triggered:  # it came at this very moment
                    self.cluster.seat(slot, asked.value)
                else:
                    asked.cancel()
                raise
            self.cluster.seat(slot, asked.value)
        joined = self.cluster.number([self.cluster.occupant(slot) for slot in self.before])
        self.note("nodes_ready", joined=joined, left=self.cluster.number(list(self.before.values())))
        self.before = {}
