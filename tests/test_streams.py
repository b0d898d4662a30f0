"""Whose luck is this? A stream is addressed by name: neither order, nor amount, nor process, nor hashing changes it."""

import os
import random
import subprocess
import sys
from itertools import islice, pairwise, permutations
from pathlib import Path

import numpy as np
import pytest

from goodput.cluster import failure_tape
from goodput.errors import BadInput
from goodput.scenario import load_scenario
from goodput.simulate import simulate
from goodput.streams import fates, stream

NAMES = [("default", "host"), ("default", "fabric_link"), ("batch_b", "host"), ("job", "software_crash")]


def first(seed: int, *names: str) -> float:
    return float(stream(seed, *names).random())


def test_a_stream_does_not_depend_on_the_order_of_asking():
    alone = {names: first(7, *names) for names in NAMES}
    for order in permutations(NAMES):
        assert {names: first(7, *names) for names in order} == alone


def test_a_stream_is_not_moved_by_what_others_draw():
    mine, other = stream(7, "a"), stream(7, "b")
    got = []
    for _ in range(5):
        other.random(1000)
        got.append(mine.random())
    assert got == stream(7, "a").random(5).tolist()


def test_other_names_and_other_seeds_give_other_numbers():
    drawn = [first(seed, *names) for seed in (0, 1, 2) for names in NAMES]
    assert len(set(drawn)) == len(drawn)


def test_the_order_of_names_matters_within_an_address():
    assert first(1, "a", "b") != first(1, "b", "a")


def test_no_two_tapes_of_a_scenario_share_their_luck():
    """Cohort `a/b` with cause `c` is not cohort `a` with cause `b/c`: told apart, or refused at the door."""
    cause = {"scope": "node", "share": 0.5, "detection_minutes": 1}
    cohorts = {"a": {"mtbf_hours": 100}, "a/b": {"mtbf_hours": 100, "nodes": 66}}
    changes = {"cohorts": cohorts, "causes": {"b/c": cause, "c": cause}, "job_failures.mtbi_hours": None}
    try:
        scenario = load_scenario("baseline").but(changes)
    except BadInput as refused:
        assert "/" in str(refused)
        return
    gaps = {}
    for fault in failure_tape(scenario, 1):
        gaps.setdefault((fault.cohort, fault.cause), []).append(fault.at_us)
    assert len(gaps) == 4 and len(set(map(tuple, gaps.values()))) == 4


def test_the_numbers_are_these_on_every_machine():
    """Golden: were they to change, so would every stored result."""
    assert stream(1, "default", "host").random(2).tolist() == [0.5195702061119336, 0.18784257943869676]


def test_streams_of_other_names_are_independent():
    """Of 200 pairs of neighbouring addresses the correlation over 1,000 draws is that of chance: |r| < 4 / sqrt(n)."""
    streams = np.array([stream(seed, f"cause{k}").random(1000) for seed in (1, 2) for k in range(10)])
    r = np.corrcoef(streams)[np.triu_indices(20, 1)]
    assert np.abs(r).max() < 4 / np.sqrt(1000)


def test_a_fate_does_not_depend_on_how_many_are_drawn():
    """The first block of a run that needs few is the first block of a run that needs many."""
    few, many = next(fates(stream(3, "a"))), list(islice(fates(stream(3, "a")), 4))
    for one, other in zip(few, many[0], strict=True):
        assert (one == other).all()


def test_blocks_of_fates_double_so_that_long_runs_are_cheap():
    sizes = [len(gap) for gap, _, _ in islice(fates(stream(3, "a")), 4)]
    assert [b / a for a, b in pairwise(sizes)] == [2, 2, 2]


def test_a_fate_is_two_exponentials_of_mean_one_and_a_place():
    """Over 16,000 fates, within 4 standard errors; the places fill (0, 1) evenly."""
    gap, slot, repair = (np.concatenate(part) for part in zip(*islice(fates(stream(3, "a")), 9), strict=True))
    error = 4 / np.sqrt(len(gap))
    assert len(gap) > 16_000
    for drawn in (gap, repair):
        assert drawn.mean() == pytest.approx(1, abs=error)
        assert drawn.var() == pytest.approx(1, abs=error * np.sqrt(8))
    assert slot.mean() == pytest.approx(0.5, abs=error / np.sqrt(12))
    assert slot.min() >= 0 and slot.max() < 1
    assert abs(np.corrcoef(gap, repair)[0, 1]) < error


def test_simulate_touches_no_generator_but_its_own():
    random.seed(5)
    np.random.seed(5)
    state, legacy = random.getstate(), np.random.get_state()
    simulate(load_scenario("firmware-regression"), 1)
    assert random.getstate() == state
    assert all(np.array_equal(one, other) for one, other in zip(np.random.get_state(), legacy, strict=True))


def test_what_others_drew_before_changes_no_run():
    random.seed(1)
    np.random.seed(1)
    one = simulate(load_scenario("baseline"), 1)
    random.random(), np.random.random()
    assert simulate(load_scenario("baseline"), 1).equals(one)


def test_streams_are_the_same_in_processes_that_hash_otherwise():
    code = "from goodput.streams import stream; print(stream(4, 'default', 'host').random(8).tolist())"
    said = {_output(code, hash_seed) for hash_seed in ("0", "1", "4242")}
    assert said == {f"{stream(4, 'default', 'host').random(8).tolist()}\n"}


def _output(code: str, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    ).stdout
