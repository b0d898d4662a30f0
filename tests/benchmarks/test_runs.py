"""What does a run cost? The log as a frame, spans and ledger are in it, text is not."""

import pytest
import simpy
from worlds import EVENTS_A_FAILURE, bare_simpy, failures_of, large, play, saves_every

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
        lambda: bare_simpy(EVENTS_A_FAILURE * failures),
        at_most=10,
        note=f"{failures:,} failures",
    )
    events = simpy_events(play_seven)
    bench.figure("7 x 20 runs: SimPy events a failure", events / failures, "events", note=f"{events:,} events")
    if events:
        bench.ratio("7 x 20 runs / bare SimPy with its own events", play_seven, lambda: bare_simpy(events))


@pytest.mark.parametrize(
    ("job", "scenario", "seeds"),
    [("128 nodes, 20 months", SCENARIOS[0], SEEDS), ("4,096 nodes, 256 days", large(4096), [1])],
)
def test_a_failure_against_a_bare_event(bench, job, scenario, seeds):
    failures, events = failures_of(scenario, seeds), 50_000
    bench.ratio(
        f"{job}: a failure / a bare SimPy event",
        lambda: play(scenario, seeds),
        lambda: bare_simpy(events),
        per=(failures, events),
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
