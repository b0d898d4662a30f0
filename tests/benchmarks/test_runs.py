"""What does a run cost? The log as a frame, spans and ledger are in it, text is not."""

import pytest
import simpy
from worlds import BARE_EVENTS, EVENTS_A_FAILURE, bare_simpy, failures_of, play, saves_every

from goodput.scenario import SEVEN, load_scenario

SEEDS = range(1, 21)
SCENARIOS = [load_scenario(name) for name in SEVEN]


def play_seven() -> None:
    for scenario in SCENARIOS:
        play(scenario, SEEDS)


def simpy_events(work) -> int:
    """Return how many SimPy events work plays."""
    played, step = 0, simpy.Environment.step

    def counted(env):
        nonlocal played
        played += 1
        step(env)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simpy.Environment, "step", counted)
        work()
    return played


def test_seven_scenarios_against_bare_simpy(bench):
    failures = sum(failures_of(scenario, SEEDS) for scenario in SCENARIOS)
    bench.ratio(
        "7 x 20 runs / bare SimPy with 8 events a failure",
        play_seven,
        lambda: bare_simpy(BARE_EVENTS),
        at_most=10,
        per=(EVENTS_A_FAILURE * failures, BARE_EVENTS),
        note=f"{failures:,} failures",
    )
    events = simpy_events(play_seven)
    bench.figure("7 x 20 runs: SimPy events a failure", events / failures, "events", note=f"{events:,} events")
    if events:
        bench.ratio(
            "7 x 20 runs / bare SimPy with its own events",
            play_seven,
            lambda: bare_simpy(BARE_EVENTS),
            per=(events, BARE_EVENTS),
        )


def test_a_failure_of_a_small_job_against_a_bare_event(bench):
    failures = failures_of(SCENARIOS[0], SEEDS)
    bench.ratio(
        "128 nodes, 20 months: a failure / a bare SimPy event",
        lambda: play(SCENARIOS[0], SEEDS),
        lambda: bare_simpy(BARE_EVENTS),
        per=(failures, BARE_EVENTS),
        note=f"{failures:,} failures",
    )


def test_a_longer_run_costs_no_more_a_failure(bench):
    month, longer = load_scenario("baseline"), load_scenario("baseline").but({"days": 280})
    failures = failures_of(longer, [1, 2]), failures_of(month, SEEDS)
    bench.ratio(
        "280 days / 28 days, a failure",
        lambda: play(longer, [1, 2]),
        lambda: play(month, SEEDS),
        at_most=1.1,
        per=failures,
        note=f"{failures[0]:,} / {failures[1]:,} failures",
    )


def test_saves_cost_no_python(bench):
    often, seldom = saves_every(1), saves_every(30)
    bench.ratio(
        "saves every minute / every 30 minutes",
        lambda: [play(often, [seed]) for seed in range(1, 11)],
        lambda: [play(seldom, [seed]) for seed in range(1, 11)],
        at_most=6,
        note="3-second saves; 27 times the rows",
    )
