"""How long does a reader wait for the what-if? A move of a dial against bare simulation of as many runs."""

from itertools import cycle

from goodput.panel import Panel
from goodput.scenario import load_scenario
from goodput.simulate import simulate_many

MOVES = 9


def mover(seeds: int):
    """Return a move: each is a scenario not played before, another number of spares, and at times another restart."""
    panel = Panel(seeds=seeds)
    spares, restarts, turn = cycle((5, 6, 7, 8, 9)), cycle((15, 10, 30, 45)), cycle(range(5))

    def move() -> None:
        dial, value = ("job.restart_minutes", next(restarts)) if next(turn) == 4 else ("pool.spares", next(spares))
        panel.dials[dial].value = value

    return move


def test_a_move_of_a_dial(bench):
    def runs(seeds: int) -> None:
        simulate_many(load_scenario("baseline"), range(1, seeds + 1))

    bench.ratio("a move of a dial, 20 seeds / its bare runs", mover(20), lambda: runs(20), at_most=30)
    bench.ratio("a move of a dial, 100 seeds / its bare runs", mover(100), lambda: runs(100), at_most=15)
