"""How does the job live with it? It trains, is interrupted, notices, finds nodes, restarts, and trains again.

Saves are not played: between two interruptions they follow a pattern that `simulate` writes down afterwards.
"""

from collections.abc import Callable

import simpy

from goodput.cluster import NO_NODE, US_PER_MINUTE, Cluster, Fault
from goodput.scenario import Scenario


class Job:
    """The training job. `stretches` holds the (begin, end) of each stretch of training, in microseconds."""

    def __init__(self, env: simpy.Environment, scenario: Scenario, cluster: Cluster, note: Callable):
        self.env, self.cluster, self.note = env, cluster, note
        self.causes = list(scenario.causes.values())
        self.restart_us = round(scenario.job.restart_minutes * US_PER_MINUTE)
        self.detection_us = [round(cause.detection_minutes * US_PER_MINUTE) for cause in self.causes]
        self.stretches: list[tuple[int, int]] = []
        self.ran_us = 0  # the running clock, as of the last interruption
        self.began: int | None = None  # of the stretch of training that goes on
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
                self.stop()
                yield from self.recover(interrupt.cause)

    def interrupt(self, fault: Fault) -> None:
        """Strike the job with a fault; it is not training from this moment."""
        self.training = self.env.event()
        self.process.interrupt(fault)

    def stop(self) -> None:
        """Close the stretch of training that goes on, if one does."""
        if self.began is not None:
            self.stretches.append((self.began, self.env.now))
            self.ran_us += self.env.now - self.began
            self.began = None

    def recover(self, fault: Fault):
        """Notice the fault, replace the node where it must be mended, and restart from the newest save."""
        node = self.cluster.occupant(fault.slot) if self.causes[fault.cause].scope == "node" else NO_NODE
        self.note("interrupt", cause=fault.cause, node=node)
        yield self.env.timeout(self.detection_us[fault.cause])
        self.note("detected")
        if self.causes[fault.cause].needs_repair:
            joined = yield from self.replace(node, fault)
            self.note("nodes_ready", joined=joined, left=node)
        else:
            self.note("nodes_ready")
        yield self.env.timeout(self.restart_us)
        self.note("running")

    def replace(self, node: int, fault: Fault):
        """Send a broken node to the shop, wait for a spare, and return it."""
        self.env.process(self.cluster.repair(node, fault.repair_us))
        spare = yield self.cluster.spares.get()
        self.cluster.moved[fault.slot] = spare
        return spare
