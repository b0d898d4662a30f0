"""Llama 3's 54 days as a scenario: its counts are the published ones, and what is played follows their law."""

import numpy as np
import pandas as pd
import pytest

from goodput.experiment import experiment, wide_runs
from goodput.llama import (
    HANGS,
    OF_THE_JOB,
    PLANNED,
    against,
    assumed,
    by_component,
    changes,
    components,
    llama_3,
    poisson_band,
)
from goodput.published import figure, published
from goodput.scenario import SEVEN, load_scenario

PAPER = published("llama3_interruptions")
LLAMA = llama_3()
TABLE = components()
HOURS = 54 * 24


@pytest.fixture(scope="module")
def runs():
    return experiment([LLAMA], 40, jobs=1)


# --- the scenario --------------------------------------------------------------------------------------------------


def test_the_18_components_add_up_to_419_and_the_planned_stops_are_47():
    unexpected = TABLE[TABLE["component"] != PLANNED]
    assert (len(unexpected), unexpected["interruptions"].sum()) == (18, 419)
    assert TABLE.set_index("component").loc[PLANNED, "interruptions"] == 47
    theirs = PAPER[PAPER["quantity"] == "interruptions"].set_index("what")["value"]
    assert unexpected.set_index("component")["interruptions"].to_dict() == theirs.to_dict()


def test_every_component_that_is_named_is_one_of_the_paper():
    assert set(OF_THE_JOB) | set(HANGS) <= set(TABLE["component"])


def test_321_interruptions_are_of_nodes_and_145_of_the_job():
    """Of the job: 54 bugs, 35 of the network, 7 timeouts, 2 dependencies, 47 planned; all else sits in a node."""
    of = TABLE.groupby("scope")["interruptions"].sum()
    assert (of["node"], of["job"]) == (419 - 54 - 35 - 7 - 2, 54 + 35 + 7 + 2 + 47) == (321, 145)
    assert LLAMA.cohorts["default"].mtbf_hours == pytest.approx(2048 * HOURS / 321, rel=1e-12)
    assert LLAMA.job_failures.mtbi_hours == pytest.approx(HOURS / 145, rel=1e-12)


def test_each_cause_strikes_as_often_as_it_was_counted():
    per_hour = {"node": LLAMA.node_failures_per_hour, "job": LLAMA.job_failures_per_hour}
    expected = {name: HOURS * per_hour[cause.scope] * cause.share for name, cause in LLAMA.causes.items()}
    assert expected == pytest.approx(TABLE.set_index("cause")["interruptions"].to_dict(), rel=1e-12)
    assert LLAMA.nominal_mtbi_hours == pytest.approx(HOURS / 466, rel=1e-12)


def test_its_size_and_length_are_those_of_the_paper():
    assert LLAMA.job.nodes * LLAMA.job.gpus_per_node == figure(PAPER, "gpus")
    assert LLAMA.days == figure(PAPER, "days") and LLAMA.failures.strike == "always"


def test_only_planned_stops_are_planned_and_what_breaks_a_node_sends_it_to_repair():
    assert [name for name, cause in LLAMA.causes.items() if cause.planned] == ["planned_stop"]
    assert all(cause.needs_repair == (cause.scope == "node") for cause in LLAMA.causes.values())


def test_it_is_none_of_the_seven_and_cannot_be_mistaken_for_one():
    assert LLAMA.name not in SEVEN


# --- what the paper does not give ----------------------------------------------------------------------------------


def test_what_is_taken_is_what_the_scenario_has_and_lies_in_the_published_range():
    """But for repairs, which are taken to last longer than any that were published, and spares, the least share."""
    table = assumed().set_index("value")
    taken = table["taken"]
    job, checkpoint = LLAMA.job, LLAMA.checkpoint
    assert (taken["restart"], taken["compute between saves"]) == (job.restart_minutes, checkpoint.interval_minutes)
    assert (taken["save, training waits"], taken["repair"]) == (checkpoint.blocking_minutes, LLAMA.repair.mean_hours)
    assert taken["spares"] == LLAMA.pool.spares
    inside = (table["low"] <= taken) & (taken <= table["high"])
    assert inside.drop("repair").all() and not inside["repair"]


def test_each_range_names_its_sources_and_says_what_is_second_hand():
    table = assumed().set_index("value")
    assert table["sources"].str.contains("arXiv|SemiAnalysis").all()
    assert "second hand" in table.loc["repair", "sources"] and "second hand" not in table.loc["restart", "sources"]


# --- what is played ------------------------------------------------------------------------------------------------


def test_unexpected_interruptions_follow_the_poisson_law_of_419(runs):
    """Mean and variance of 40 runs within 4 standard errors. That a broken node cannot break again is less than one
    in a hundred runs."""
    count = wide_runs(runs)["failures"]
    assert count.mean() == pytest.approx(419, abs=4 * np.sqrt(419 / 40))
    assert count.var(ddof=1) / 419 == pytest.approx(1, abs=4 * np.sqrt(2 / 39))


def test_each_component_comes_as_often_as_it_was_counted(runs):
    table = by_component(runs)
    error = np.sqrt(table["published"] / 40)
    unexpected = table["component"] != PLANNED
    assert ((table["ours"] - table["published"]).abs() < 4 * error)[unexpected].all()
    assert table["published"].between(table["low"], table["high"]).all()


def test_planned_stops_are_fewer_than_47_by_the_time_that_the_job_is_down(runs):
    """One that is ordered while the job is down stops nothing."""
    wide = wide_runs(runs)
    up = wide["running_hours"].mean() / HOURS
    planned = (wide["interruptions"] - wide["failures"]).mean()
    assert planned == pytest.approx(47 * up, abs=4 * np.sqrt(47 / 40)) and 0.9 < up < 1


def test_against_the_paper_the_ratio_is_ours_over_theirs(runs):
    table = against(runs).set_index("quantity")
    assert (table["ratio"] == table["ours"] / table["theirs"]).all()
    theirs = table["theirs"].round(2).to_dict()
    assert theirs == {
        "unexpected interruptions": 419,
        "planned stops": 47,
        "elapsed hours per unexpected interruption": 3.09,
        "GPU causes, % of unexpected": 63.96,
        "effective training time, %": 90,
    }
    assert table["source"].str.contains("arXiv 2407.21783").all()
    assert table.loc["unexpected interruptions", "ratio"] == pytest.approx(1, abs=4 / np.sqrt(419 * 40))


def test_gpu_causes_are_counted_by_hand():
    """Two runs with 10 failures each; of GPUs 4 and 6: 50 % on average."""
    rows = [(seed, "failures", None, 10.0) for seed in (1, 2)]
    rows += [(seed, "interruptions", None, 11.0) for seed in (1, 2)] + [(seed, "goodput", None, 0.9) for seed in (1, 2)]
    rows += [(1, "cause_count", "faulty_gpu", 4.0), (2, "cause_count", "faulty_gpu", 6.0)]
    rows += [(seed, "cause_count", "nic", 5.0) for seed in (1, 2)]
    frame = pd.DataFrame(rows, columns=["seed", "metric", "cause", "value"]).assign(scenario="llama-3")
    ours = against(frame.astype({"scenario": "category"})).set_index("quantity")["ours"]
    assert ours.to_dict() == pytest.approx(
        {
            "unexpected interruptions": 10,
            "planned stops": 1,
            "elapsed hours per unexpected interruption": 129.6,
            "GPU causes, % of unexpected": 50,
            "effective training time, %": 90,
        }
    )


@pytest.mark.parametrize(("mean", "band"), [(419, (379, 460)), (47, (34, 61)), (2, (0, 5))])
def test_the_band_of_a_poisson_count(mean, band):
    from scipy.stats import poisson

    assert poisson_band(mean) == band
    assert poisson.cdf(band[1], mean) - poisson.cdf(band[0] - 1, mean) >= 0.95


# --- the six changes -----------------------------------------------------------------------------------------------


def test_the_changes_have_the_names_and_the_paths_of_the_six_files():
    changed = changes(LLAMA)
    assert [scenario.name for scenario in changed] == list(SEVEN[1:])
    by_name = {scenario.name: scenario for scenario in changed}
    assert by_name["daly-interval"].checkpoint.interval_minutes == "daly"
    assert by_name["no-spares"].pool.spares == 0
    assert by_name["combined"].pool.spares == 2 * LLAMA.pool.spares
    for name in ("async-checkpoint", "combined"):
        assert by_name[name].checkpoint.interval_minutes == load_scenario(name).checkpoint.interval_minutes
        assert by_name[name].checkpoint.blocking_minutes < LLAMA.checkpoint.blocking_minutes


def test_the_bad_firmware_is_as_large_and_as_bad_as_in_its_file():
    """A quarter of the fleet, five failures where a good node has one."""
    theirs, ours = load_scenario("firmware-regression"), changes(LLAMA)[4]
    for scenario in (theirs, ours):
        good, bad = scenario.cohorts["default"], scenario.cohorts["batch_b"]
        assert good.mtbf_hours / bad.mtbf_hours == pytest.approx(5)
        assert bad.nodes / scenario.pool_nodes == pytest.approx(0.25, abs=0.01)


def test_fast_detection_makes_a_hang_as_soon_known_as_all_else():
    fast = next(scenario for scenario in changes(LLAMA) if scenario.name == "fast-hang-detection")
    assert {cause.detection_minutes for cause in fast.causes.values()} == {0, 1}
    assert LLAMA.overhead_minutes - fast.overhead_minutes == pytest.approx(9 * (35 + 7 + 7 + 6) / 466)
