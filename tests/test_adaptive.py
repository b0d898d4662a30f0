"""Enough seeds: until the interval is as narrow as asked, in order, no more than allowed, and it is said."""

import pytest

from goodput.adaptive import parse_width, runs_until, what_was_needed
from goodput.errors import BadInput
from goodput.experiment import compare, experiment, half_widths
from goodput.scenario import load_scenario

BASE, ASYNC, NONE = (load_scenario(name) for name in ("baseline", "async-checkpoint", "no-spares"))


def test_a_paired_difference_needs_far_fewer_seeds_than_the_level():
    """The luck of a month moves both scenarios: the spread of the difference is a sixth of that of the level."""
    paired = runs_until([BASE, ASYNC], 0.002, least=10)
    alone = runs_until([BASE], 0.002, least=10)
    assert half_widths(paired).max() <= 0.002 and half_widths(alone).max() <= 0.002
    assert 10 * paired["seed"].nunique() < alone["seed"].nunique()


def test_the_seeds_are_1_to_n_and_the_runs_are_those_of_an_experiment_with_as_many():
    runs = runs_until([BASE, ASYNC], 0.001, least=5)
    seeds = runs["seed"].nunique()
    assert seeds > 5 and sorted(runs["seed"].unique()) == list(range(1, seeds + 1))
    assert compare(runs).equals(compare(experiment([BASE, ASYNC], seeds)))


def test_a_narrower_interval_never_needs_fewer_seeds():
    needed = [runs_until([BASE, ASYNC], width, least=5)["seed"].nunique() for width in (0.004, 0.002, 0.001)]
    assert needed == sorted(needed) and needed[0] < needed[-1]


def test_what_is_narrow_enough_at_once_takes_the_least():
    assert runs_until([BASE, ASYNC], 0.5, least=3)["seed"].nunique() == 3


def test_no_more_than_allowed_and_it_is_said():
    runs = runs_until([BASE, NONE], 0.0001, least=5, most=12)
    assert runs["seed"].nunique() == 12
    assert what_was_needed(runs, 0.0001).startswith("12 seeds were not enough")
    assert what_was_needed(runs, 0.9).startswith("12 seeds were needed for every 95 % interval of the difference")


def test_the_baseline_itself_has_no_difference_to_narrow():
    assert list(half_widths(experiment([BASE, ASYNC], 3)).index) == ["async-checkpoint"]


@pytest.mark.parametrize("text", ["0.1", "0.1%", "0pp", "-1pp", "pp", "nanpp"])
def test_a_width_is_percentage_points_above_0(text):
    with pytest.raises(BadInput, match=r"must be percentage points above 0 with their unit, as 0\.1pp"):
        parse_width(text)


@pytest.mark.parametrize(("least", "most"), [(1, 10), (20, 10)])
def test_numbers_of_seeds_that_cannot_be_are_refused(least, most):
    with pytest.raises(BadInput, match="seeds from 2 to at least as many"):
        runs_until([BASE], 0.01, least, most)
