"""A million nodes, failures by the minute: sums stay exact, failures Poisson, and memory follows failures."""

import tracemalloc

import numpy as np
import pytest

from goodput.attribution import CATEGORIES, interruptions, spans
from goodput.experiment import experiment, wide_runs
from goodput.metrics import per_job
from goodput.scenario import load_scenario
from goodput.simulate import simulate_many

# A failure each minute while the job runs, or by the wall clock; 6 % spares.
MILLION = load_scenario("baseline").but(
    {
        "job.nodes": 1_048_576,
        "pool.spares": 62_915,
        "cohorts.default.mtbf_hours": 1_048_576 / 60,
        "checkpoint": {"interval_minutes": 5.0, "blocking_minutes": 0.05},
    }
)


def scaled(nodes: int):
    """Return a job of so many nodes that fails as often as the million does each 30 hours."""
    return MILLION.but(
        {"job.nodes": nodes, "pool.spares": nodes // 16, "cohorts.default.mtbf_hours": nodes * 30.0, "days": 280}
    )


@pytest.mark.parametrize("strike", ["running", "always"])
def test_gpu_microseconds_beyond_64_bits_still_add_up(strike):
    """8,388,608 GPUs x 28 days are 2.0e19 GPU-microseconds; an int64 ends at 9.2e18."""
    held = 8_388_608 * 28 * 24
    assert held * 3_600_000_000 > np.iinfo("int64").max
    runs = wide_runs(experiment([MILLION.but({"failures.strike": strike})], 3, jobs=1))
    assert runs["held_gpu_hours"].tolist() == [held] * 3
    assert runs[list(CATEGORIES)].sum(axis=1).to_numpy() == pytest.approx([held] * 3, rel=1e-14)


def test_many_runs_of_one_log_hold_each_what_they_hold():
    """Ten runs of thirty years: together more microseconds than a float64 counts one by one, 9.0e15 (285 years)."""
    seldom = {"cohorts.default.mtbf_hours": 1_048_576 * 8_760.0, "checkpoint.interval_minutes": 14_400.0}
    scenario = MILLION.but({"days": 10_950, **seldom})
    log = simulate_many(scenario, range(1, 11))
    jobs = per_job(spans(log), interruptions(log))
    assert (jobs["held_gpu_hours"] == 8_388_608 * 10_950 * 24).all()
    assert jobs["productive"].sum() < jobs["held_gpu_hours"].sum()


def test_a_failure_a_minute_by_the_wall_clock_is_a_failure_a_minute():
    """Poisson: 40,320 failures of nodes in 28 days, less those that aim at a seat that is empty; 4 standard errors."""
    log = simulate_many(MILLION.but({"failures.strike": "always", "job_failures.mtbi_hours": None}), [1])
    assert len(interruptions(log)) == pytest.approx(40_320, abs=4 * np.sqrt(40_320) + 1)


def test_memory_follows_failures_and_not_nodes():
    peaks = []
    for nodes in (128, 128, 1_048_576):  # the first warms caches
        tracemalloc.start()
        simulate_many(scaled(nodes), [1])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] == pytest.approx(peaks[1], rel=0.2)
