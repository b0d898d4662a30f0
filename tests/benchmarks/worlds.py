"""Which jobs are timed? The baseline, the long and large, and bare SimPy to hold them against."""

import pandas as pd
import simpy

from goodput.attribution import interruptions, ledger, spans
from goodput.scenario import Scenario, load_scenario
from goodput.simulate import simulate_many

EVENTS_A_FAILURE = 8  # of the bare reference: fixed, so that a simulator which needs fewer is seen to be faster
BARE_EVENTS = 100_000  # so many are timed, whatever they are held against
SPARE_SHARE = 0.06


def play(scenario: Scenario, seeds) -> pd.DataFrame:
    """Simulate, the log as a frame, spans and ledger: all but text. Return the log."""
    log = simulate_many(scenario, seeds)
    ledger(spans(log), ["job", "category"])
    return log


def failures_of(scenario: Scenario, seeds) -> int:
    """Return how many interruptions those runs have."""
    return len(interruptions(simulate_many(scenario, seeds)))


def bare_simpy(events: int) -> None:
    """Play that many events with nothing in them: one plain loop of timeouts."""
    env = simpy.Environment()

    def tick():
        while True:
            yield env.timeout(1)

    env.process(tick())
    env.run(until=events)


def large(nodes: int, days: float = 256, mtbf_hours: float = 2400, strike: str = "running") -> Scenario:
    """Return the long and large job: 6 % spares, restart 20 min, 3-second saves every 5 min."""
    return load_scenario("baseline").but(
        {
            "job.nodes": nodes,
            "pool.spares": round(nodes * SPARE_SHARE),
            "days": days,
            "cohorts.default.mtbf_hours": mtbf_hours,
            "job.restart_minutes": 20,
            "checkpoint.blocking_minutes": 0.05,
            "checkpoint.interval_minutes": 5,
            "failures.strike": strike,
        }
    )


def saves_every(minutes: float) -> Scenario:
    """Return the baseline with saves of 3 seconds."""
    return load_scenario("baseline").but({"checkpoint.blocking_minutes": 0.05, "checkpoint.interval_minutes": minutes})
