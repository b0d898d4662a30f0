"""Speed as ratios: both sides are timed in turn in one run, on processor time, and the median ratio counts.

`make bench` prints each with its spread. Never part of the unit tests: absolute times mean nothing on a noisy machine.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

import simpy

from goodput.attribution import ledger, spans
from goodput.scenario import SEVEN, load_scenario
from goodput.simulate import _play, simulate_many

ROUNDS = 9


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def ratio(name: str, ours: Callable, other: Callable, at_most: float) -> float:
    """Return the median of ours / other over rounds in turn, and print it with its spread."""
    ours(), other()  # warm caches
    ratios = sorted(seconds(ours) / seconds(other) for _ in range(ROUNDS))
    print(f"\n{name}: {median(ratios):.2f} (from {ratios[0]:.2f} to {ratios[-1]:.2f}; at most {at_most:g})")
    return median(ratios)


def play_and_attribute(scenario, seeds) -> None:
    """Simulate, the log as a frame, spans and ledger: all but text."""
    ledger(spans(simulate_many(scenario, seeds)), ["job", "category"])


class Counting(simpy.Environment):
    """Counts the events that it plays."""

    played = 0

    def step(self) -> None:
        Counting.played += 1
        super().step()


def bare_simpy(events: int) -> None:
    """Play that many events with nothing in them."""
    env = simpy.Environment()

    def tick():
        while True:
            yield env.timeout(1)

    env.process(tick())
    env.run(until=events)


def test_seven_scenarios_cost_at_most_ten_times_bare_simpy_with_as_many_events():
    scenarios = [load_scenario(name) for name in SEVEN]
    for scenario in scenarios:
        for seed in range(1, 21):
            _play(scenario, seed, Counting)
    events = Counting.played

    def ours():
        for scenario in scenarios:
            play_and_attribute(scenario, range(1, 21))

    found = ratio(f"7 x 20 runs, {events:,} SimPy events / bare SimPy", ours, lambda: bare_simpy(events), at_most=10)
    assert found <= 10


def test_saves_each_minute_cost_at_most_six_times_saves_each_half_hour():
    often, seldom = (
        load_scenario("baseline").but({"checkpoint.blocking_minutes": 0.05, "checkpoint.interval_minutes": minutes})
        for minutes in (1, 30)
    )
    rows = [len(simulate_many(scenario, [1])) for scenario in (often, seldom)]
    name = f"3-second saves each minute / each 30 minutes ({rows[0] / rows[1]:.0f} times the rows)"
    found = ratio(
        name,
        lambda: [play_and_attribute(often, [seed]) for seed in range(1, 11)],
        lambda: [play_and_attribute(seldom, [seed]) for seed in range(1, 11)],
        at_most=6,
    )
    assert found <= 6


def test_nodes_that_never_failed_cost_nothing():
    few = load_scenario("baseline")
    many = few.but({"job.nodes": 131_072, "cohorts.default.mtbf_hours": 3000 * 131_072 / 128})
    found = ratio(
        "131,072 nodes / 128 nodes at the same rate of failures",
        lambda: [play_and_attribute(many, [seed]) for seed in range(1, 21)],
        lambda: [play_and_attribute(few, [seed]) for seed in range(1, 21)],
        at_most=2,
    )
    assert found <= 2


def test_compare_as_a_whole_process_is_a_figure_to_report():
    used = []
    for _ in range(3):
        before = getrusage(RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "goodput", "compare", "--seeds", "20"], check=True, capture_output=True)
        after = getrusage(RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    print(
        f"\ngoodput compare --seeds 20, whole process: {median(used):.2f} s of CPU ({min(used):.2f} to {max(used):.2f})"
    )
