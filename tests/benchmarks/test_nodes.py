"""Does a failure cost more in a larger job? With as many failures, and with nodes that fail as often."""

import pytest
from worlds import SPARE_SHARE, failures_of, play

from goodput.scenario import load_scenario

FEW, MTBF_HOURS = 128, 3000
SIZES = [1_024, 8_192, 131_072, 1_048_576]
SEEDS = range(1, 21)
OUTAGE_HOURS = 0.6  # of a failure, about: detection and restart
FAILURES = 1_000


@pytest.mark.parametrize("nodes", SIZES)
def test_nodes_that_never_failed_cost_nothing(bench, nodes):
    few = load_scenario("baseline")
    many = few.but({"job.nodes": nodes, "cohorts.default.mtbf_hours": MTBF_HOURS * nodes / FEW})
    bench.ratio(
        f"{nodes:,} nodes / 128 nodes, same failures",
        lambda: [play(many, [seed]) for seed in SEEDS],
        lambda: [play(few, [seed]) for seed in SEEDS],
        at_most=1.5,
    )


def long_enough(nodes: int):
    """Return the baseline at that size, its spares in proportion, for about a thousand failures."""
    days = FAILURES * (MTBF_HOURS / nodes + OUTAGE_HOURS) / 24
    return load_scenario("baseline").but(
        {"job.nodes": nodes, "pool.spares": round(nodes * SPARE_SHARE), "days": round(days, 1)}
    )


@pytest.mark.parametrize("nodes", SIZES)
def test_a_failure_of_a_larger_job_costs_no_more(bench, nodes):
    many, few = long_enough(nodes), long_enough(FEW)
    failures = failures_of(many, [1]), failures_of(few, [1])
    bench.ratio(
        f"{nodes:,} nodes / 128 nodes, a failure, same node MTBF",
        lambda: play(many, [1]),
        lambda: play(few, [1]),
        at_most=1.1,
        per=failures,
        note=f"{failures[0]:,} / {failures[1]:,} failures in {many.days:g} / {few.days:g} days",
    )
