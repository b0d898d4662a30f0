"""How long does a reader wait for the what-if? A move of a dial against bare simulation of as many runs."""

import time
from itertools import cycle
from statistics import median

import pytest

from goodput.panel import Panel
from goodput.scenario import load_scenario
from goodput.simulate import simulate_many

MOVES = 20


@pytest.mark.parametrize(("seeds", "at_most"), [(20, 30), (100, 15)])
def test_a_move_costs_a_few_times_the_bare_runs(seeds, at_most):
    """Each move is a scenario not played before: another number of spares, and each time another restart."""
    panel = Panel(seeds=seeds)
    spares, restarts = cycle((5, 6, 7, 8, 9)), cycle((15, 10, 30, 45))
    moves, runs = [], []
    for move in range(MOVES):
        dial, value = ("job.restart_minutes", next(restarts)) if move % 5 == 4 else ("pool.spares", next(spares))
        began = time.perf_counter()
        panel.dials[dial].value = value
        moves.append(time.perf_counter() - began)
        began = time.perf_counter()
        simulate_many(load_scenario("baseline"), range(1, seeds + 1))
        runs.append(time.perf_counter() - began)
    spread = f"{min(moves):.2f} to {max(moves):.2f} s"
    print(f"\nredraw at {seeds} seeds: median {median(moves):.2f} s of {MOVES} ({spread}), ", end="")
    print(f"{median(moves) / median(runs):.1f} times the bare runs (at most {at_most})")
    assert median(moves) <= at_most * median(runs)
