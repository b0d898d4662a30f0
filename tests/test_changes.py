"""Changes to a fit say what they set, cost what they hold, rest on what was assumed; more log means less doubt."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from goodput.bootstrap import draws
from goodput.calibrate import calibrate
from goodput.changes import as_if_longer, usual_changes, worth
from goodput.errors import BadInput
from goodput.fitted import counted, share
from goodput.importers import read_any
from goodput.scenario import load_scenario
from goodput.simulate import simulate
from goodput.truth import beside_truth, true_gains

BASE = load_scenario("baseline")
LOG = simulate(BASE, 7)
FIT = calibrate(LOG)
CHANGES = usual_changes(FIT)
NATIVE, _ = read_any([Path(__file__).parents[1] / "data" / "logs" / "one_month.jsonl.gz"])


def fit_of(scenario, seed=7):
    return calibrate(simulate(scenario, seed))


def test_the_committed_month_is_baseline_with_seed_7():
    columns = ["time", "event", "cause", "node", "nodes", "joined", "left"]
    read, made = (log[columns].astype(str).sort_values(columns, ignore_index=True) for log in (NATIVE, LOG))
    assert read.equals(made)
    assert calibrate(NATIVE).scenario == FIT.scenario


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_a_scenario_that_differs_from_the_fit(name):
    assert FIT.scenario.but(CHANGES[name]) != FIT.scenario


def test_targets_are_numbers_worked_out_from_the_fit():
    """Saves of 5 min, restarts of 20, hangs noticed after 30, 4 spares: a tenth, half, a tenth, 4 and 8 more."""
    assert CHANGES["saves block 0.5 min"] == {"checkpoint.blocking_minutes": 0.5}
    assert CHANGES["restarts take 10 min"] == {"job.restart_minutes": 10}
    assert CHANGES["collective_hang noticed in 3 min"] == {"causes.collective_hang.detection_minutes": 3}
    assert [CHANGES[name] for name in ("4 more spares (8)", "8 more spares (12)")] == [
        {"pool.spares": 8},
        {"pool.spares": 12},
    ]
    daly = FIT.scenario.but({"checkpoint.interval_minutes": "daly"}).interval_minutes
    assert CHANGES[f"save every {daly:.3g} min (Daly)"]["checkpoint.interval_minutes"] == pytest.approx(daly, rel=0.005)


def test_an_interval_that_is_daly_s_already_is_no_change():
    assert not any("Daly" in name for name in usual_changes(fit_of(load_scenario("daly-interval"))))


def test_a_cheap_save_goes_with_an_interval_of_its_own():
    """From an interval of 90 min: saves of 0.5 min are worth doing every half an hour."""
    both = next(each for name, each in usual_changes(fit_of(load_scenario("daly-interval"))).items() if "every" in name)
    assert both["checkpoint.blocking_minutes"] == 0.5 and 25 < both["checkpoint.interval_minutes"] < 35


def test_crews_are_added_only_where_they_are_limited():
    limited = usual_changes(fit_of(BASE.but({"repair.crews": 2})))
    assert limited["one more crew"] == {"repair.crews": 3} and "one more crew" not in CHANGES


def test_restarts_that_fail_could_fail_no_more():
    failing = usual_changes(fit_of(BASE.but({"restart.failure_share": 0.3})))
    assert failing["no restart fails"] == {"restart.failure_share": 0.0} and "no restart fails" not in CHANGES


def test_where_no_node_leaves_the_job_neither_spares_nor_repairs_are_asked_for():
    stays = {f"causes.{name}.needs_repair": False for name, cause in BASE.causes.items() if cause.scope == "node"}
    staying = usual_changes(FIT._replace(scenario=FIT.scenario.but(stays)))
    assert set(CHANGES) - set(staying) == {"repairs take 32.3 h", "4 more spares (8)", "8 more spares (12)"}


def test_where_saves_and_restarts_take_no_time_none_is_made_shorter():
    none = {"checkpoint.blocking_minutes": 0.00001, "job.restart_minutes": 0.00001}
    silent = FIT._replace(scenario=FIT.scenario.but(none))
    assert not any("save" in name or "restart" in name for name in usual_changes(silent))


def test_more_spares_fit_in_where_each_cohort_has_its_number_of_nodes():
    both = {"old": {"mtbf_hours": 2000.0, "nodes": 64}, "new": {"mtbf_hours": 4000.0, "nodes": 68}}
    counted_out = FIT._replace(scenario=FIT.scenario.but({"cohorts": both}))
    sizes = counted_out.scenario.but(usual_changes(counted_out)["8 more spares (12)"]).cohort_sizes
    assert sizes == {"old": 64, "new": 76}


def gains_of(names, hours):
    hours = np.array(hours)
    return pd.DataFrame({"change": names, "gpu_hours": hours, "low": hours - 100, "high": hours + 100})


def test_spares_cost_what_they_hold():
    """Four nodes of 8 GPUs for 28 days hold 4 x 8 x 672 = 21,504 GPU-hours, at 2 dollars 43,008."""
    table = worth(gains_of(["4 more spares (8)", "restarts take 10 min"], [30_000.0, 5000.0]), CHANGES, FIT, 2.0)
    assert table["spare_gpu_hours"].tolist() == [21_504, 0]
    assert table[["net_low", "net_high"]].to_numpy().tolist() == [[8396, 8596], [4900, 5100]]
    assert table["net_gpu_hours"].tolist() == [8496, 5000] and table["money"].tolist() == [16_992, 10_000]


def test_a_change_says_which_of_its_values_were_assumed():
    """Without node events neither spares, repairs nor crews are in a log; a restart is."""
    blind = calibrate(LOG[~LOG["event"].isin(["node_down", "repair_start", "node_repaired"])])
    names = ["4 more spares (8)", "restarts take 10 min"]
    table = worth(gains_of(names, [1.0, 1.0]), usual_changes(blind), blind, 2.0)
    assert table["assumed"].tolist() == ["pool.spares, repair.mean_hours, repair.crews", ""]
    nobody_left = calibrate(LOG.assign(joined=None, left=None)[LOG["event"] != "node_down"])
    said = worth(gains_of(names, [1.0, 1.0]), usual_changes(nobody_left), nobody_left, 2.0)["assumed"].iloc[0]
    assert "causes.host.needs_repair" in said
    unsaved = calibrate(LOG[~LOG["event"].isin(["checkpoint_start", "checkpoint_end"])])
    name = next(name for name in usual_changes(unsaved) if "Daly" in name)
    said = worth(gains_of([name], [1.0]), usual_changes(unsaved), unsaved, 2.0)["assumed"].iloc[0]
    assert said == "checkpoint.interval_minutes, checkpoint.blocking_minutes"
    assert worth(gains_of(names, [1.0, 1.0]), CHANGES, FIT, 2.0)["assumed"].tolist() == ["", ""]


def test_twice_the_log_narrows_a_rate_to_the_interval_of_twice_the_events():
    """29 failures in 81,500 node-hours: twice that is what a fit of 58 in 163,000 would say."""
    from goodput.metrics import mean_time

    row, now = as_if_longer(FIT, 2).row("cohorts.default.mtbf_hours"), FIT.row("cohorts.default.mtbf_hours")
    exact = mean_time(2 * now.exposure, 2 * now.events, 0.9)
    assert (row.value, row.events) == (now.value, 58) and (row.low, row.high) == (exact.low, exact.high)


@pytest.mark.parametrize("path", ["cohorts.default.mtbf_hours", "job_failures.mtbi_hours", "repair.mean_hours"])
def test_draws_of_a_log_four_times_as_long_lie_half_as_far_apart(path):
    def spread(fit):
        values = [each.model_dump() for each in draws(fit, 400)]
        for key in path.split("."):
            values = [value[key] for value in values]
        return np.log(values).std()

    assert spread(FIT) / spread(as_if_longer(FIT, 4)) == pytest.approx(2, rel=0.12)


def test_a_log_as_long_as_it_is_says_the_same():
    again = as_if_longer(FIT, 1)
    pd.testing.assert_frame_equal(again.table(), FIT.table(), rtol=1e-5)
    assert again.scenario == FIT.scenario and again.causes.equals(FIT.causes)


def test_shares_and_means_narrow_by_the_root_and_what_was_counted_stays():
    """3 of 4 restarts that failed, seen twice as often: 6 of 8, so the beta distribution of 6.5 and 2.5."""
    rows = [share("restart.failure_share", 3, 4), counted("job.nodes", 128, events=3)]
    failed, nodes = as_if_longer(FIT._replace(rows=rows), 2).rows
    assert (failed.events, failed.shape, failed.exposure, failed.value) == (6, 6.5, 2.5, 0.75)
    assert failed.high - failed.low == pytest.approx((rows[0].high - rows[0].low) / math.sqrt(2))
    assert nodes == rows[1]


def test_no_log_is_shorter_than_itself():
    with pytest.raises(BadInput, match="times=0 must be 1 or more"):
        as_if_longer(FIT, 0)


def test_a_fit_beside_itself_is_right_everywhere():
    table = beside_truth(FIT, FIT.scenario)
    assert (table["ratio"] == 1).all() and table["inside"].all() and len(table) > 10


def test_a_fit_beside_another_truth_says_where_it_is_wrong():
    """Nodes that fail ten times less often than fitted, and restarts of half the time; the rest is as fitted."""
    other = FIT.scenario.but({"cohorts.default.mtbf_hours": 28_103.6, "job.restart_minutes": 10.0})
    table = beside_truth(FIT, other)
    assert table.index[~table["inside"]].tolist() == [
        "MTBI, hours",
        "cohorts.default.mtbf_hours",
        "job.restart_minutes",
    ]
    assert table.loc["job.restart_minutes", "ratio"] == 2
    assert table.loc["cohorts.default.mtbf_hours", "ratio"] == pytest.approx(0.1)


def test_a_distribution_is_held_against_the_mean_of_the_truth():
    fit = fit_of(BASE.but({"job.restart_minutes": {"distribution": "exponential", "mean": 20.0}}))
    row = beside_truth(fit, BASE).loc["job.restart_minutes"]
    assert row["theirs"] == 20 and row["low"] < row["ours"] < row["high"]


def test_true_gains_are_differences_paired_by_seed():
    """A change that changes nothing gains nothing in any seed; saves ten times as short gain what compare says."""
    from goodput.experiment import compare, experiment

    same, shorter = {"job.restart_minutes": 20.0}, {"checkpoint.blocking_minutes": 0.5}
    table = true_gains(BASE, {"same": same, "shorter": shorter}, seeds=3)
    assert table.loc["same"].tolist() == [0, 0, 0]
    points = compare(experiment([BASE, BASE.but(shorter, "shorter")], 3))["difference"].iloc[1]
    assert table.loc["shorter", "gpu_hours"] == pytest.approx(points * 28 * 24 * 1024)
