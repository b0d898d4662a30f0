"""What if? The same answer however the work is cut, differences paired by seed, and doors for seeds and names."""

import numpy as np
import pandas as pd
import pytest
from naive import failures

from goodput import workers
from goodput.attribution import CATEGORIES, interruptions, spans
from goodput.errors import BadInput
from goodput.experiment import (
    cause_means,
    check_seeds,
    compare,
    experiment,
    sweep,
    sweep_scenarios,
    wide_runs,
)
from goodput.kept import COUNTS
from goodput.metrics import by_cause, mean_time, per_job
from goodput.scenario import load_scenario
from goodput.simulate import simulate, simulate_many
from goodput.text import comparison_json, to_json

BASELINE = load_scenario("baseline").but({"days": 7})
NO_SPARES = load_scenario("no-spares").but({"days": 7})
PAIR = [BASELINE, NO_SPARES]


def as_bytes(runs: pd.DataFrame) -> tuple[str, str, str]:
    """Return what a reader gets: the tidy frame and the comparison as CSV, and the comparison as JSON."""
    table = compare(runs)
    return runs.to_csv(), table.to_csv(), to_json(comparison_json(table, cause_means(runs)))


# --- one answer ----------------------------------------------------------------------------------------------------


def test_results_are_byte_identical_for_any_number_of_processes():
    """45 seeds: chunks of 20, 20 and 5, in this process and in two."""
    assert as_bytes(experiment(PAIR, 45, jobs=1)) == as_bytes(experiment(PAIR, 45, jobs=2))


@pytest.mark.parametrize("chunk", [1, 3])
def test_results_do_not_depend_on_how_runs_are_batched(monkeypatch, chunk):
    whole = experiment(PAIR, 7, jobs=1)
    monkeypatch.setattr(workers, "batch_size", lambda scenario: chunk)
    assert as_bytes(experiment(PAIR, 7, jobs=1)) == as_bytes(whole)


def test_a_replication_alone_is_that_of_a_batch():
    alone = wide_runs(experiment([BASELINE], [5]))
    assert alone.loc["baseline"].loc[5].equals(wide_runs(experiment([BASELINE], 10)).loc["baseline"].loc[5])


def test_the_order_of_seeds_and_scenarios_does_not_change_a_run():
    one = wide_runs(experiment(PAIR, [1, 2, 3]))
    other = wide_runs(experiment(PAIR[::-1], [3, 1, 2]))
    for scenario in ("baseline", "no-spares"):
        assert one.loc[scenario].equals(other.loc[scenario])


def test_metrics_are_those_of_the_log():
    """What an experiment keeps of a run is what the analysis of that run's log says."""
    log = simulate(BASELINE, 3)
    expected = per_job(spans(log), interruptions(log)).iloc[0]
    runs = experiment([BASELINE], [3])
    row = wide_runs(runs).loc[("baseline", 3)]
    assert row[expected.index].tolist() == expected.tolist()
    causes = by_cause(spans(log), interruptions(log)).set_index("cause")
    mine = cause_means(runs).set_index("cause")
    mine = mine[mine["count"] > 0].loc[list(causes.index), ["count", "gpu_hours"]]
    assert mine.to_numpy() == pytest.approx(causes.to_numpy(float))


def test_a_cause_that_never_struck_counts_as_zero_and_not_as_missing():
    """Over one day most causes have no failure: the mean over seeds is over all of them."""
    day = BASELINE.but({"days": 1})
    log = simulate_many(day, range(1, 6))
    table = cause_means(experiment([day], 5)).set_index("cause")
    assert set(table.index) == set(day.causes)
    struck = [cause for run in failures(log) for _, cause in run]
    assert table["count"].to_dict() == {cause: struck.count(cause) / 5 for cause in day.causes}


# --- comparison ----------------------------------------------------------------------------------------------------


def runs_of(goodput: dict[str, list[float]], **counts: list[float]) -> pd.DataFrame:
    """Return a frame as of `experiment`, of runs that hold 100 GPU-hours each and waste the rest by waiting."""
    rows = []
    for scenario, values in goodput.items():
        for seed, share in enumerate(values, 1):
            run = dict.fromkeys(CATEGORIES, 0.0) | {"productive": 100 * share, "waiting": 100 * (1 - share)}
            run |= {"held_gpu_hours": 100.0, "goodput": share}
            run |= {name: counts.get(name, [1.0] * len(values))[seed - 1] for name in COUNTS}
            rows += [(scenario, seed, metric, None, value) for metric, value in run.items()]
    runs = pd.DataFrame(rows, columns=["scenario", "seed", "metric", "cause", "value"])
    return runs.astype({"scenario": pd.CategoricalDtype(list(goodput)), "metric": "category", "cause": "category"})


def test_differences_are_paired_by_seed():
    """Seeds differ by 0.1 to 0.9, the two scenarios by 0.01, 0.02 and 0.03: mean 0.02, and t(0.975, 2) x 0.01 / sqrt 3
    = 4.3027 x 0.0057735 = 0.024842 to each side. Unpaired, the spread of the seeds would drown it."""
    table = compare(runs_of({"base": [0.1, 0.5, 0.9], "other": [0.11, 0.52, 0.93]})).set_index("scenario")
    row = table.loc["other"]
    assert row["difference"] == pytest.approx(0.02)
    assert (row["difference_low"], row["difference_high"]) == pytest.approx(
        (0.02 - 0.024842, 0.02 + 0.024842), abs=1e-6
    )


def test_the_baseline_differs_from_itself_by_nothing():
    row = compare(runs_of({"base": [0.1, 0.5], "other": [0.2, 0.4]})).iloc[0]
    assert row[["difference", "difference_low", "difference_high"]].tolist() == [0, 0, 0]


def test_the_baseline_is_the_first_scenario_or_the_one_named():
    runs = runs_of({"base": [0.1, 0.5], "other": [0.2, 0.7]})
    assert compare(runs)["difference"].tolist() == pytest.approx([0, 0.15])
    assert compare(runs, baseline="other")["difference"].tolist() == pytest.approx([-0.15, 0])


def test_means_intervals_and_deciles_are_worked_out_by_hand():
    """0.1, 0.5, 0.9: mean 0.5, t(0.975, 2) x 0.4 / sqrt 3 = 0.99366 to each side, deciles 0.18 and 0.82."""
    row = compare(runs_of({"base": [0.1, 0.5, 0.9]})).iloc[0]
    assert row["goodput"] == pytest.approx(0.5)
    assert (row["goodput_low"], row["goodput_high"]) == pytest.approx((0.5 - 0.993655, 0.5 + 0.993655), abs=1e-5)
    assert (row["goodput_p10"], row["goodput_p90"]) == pytest.approx((0.18, 0.82))
    assert row["seeds"] == 3


def test_rates_are_pooled_over_runs_each_with_its_exact_interval():
    """Running 10 and 90 h, struck 1 and 3 times: 25 h, where the mean of the runs' own rates would be 20."""
    runs = runs_of({"base": [0.5, 0.5]}, running_hours=[10, 90], interruptions=[1, 3])
    row = compare(runs).iloc[0]
    rate = mean_time(100, 4)
    assert row[["mtbi_hours", "mtbi_hours_low", "mtbi_hours_high"]].tolist() == [rate.hours, rate.low, rate.high]
    assert row["interruptions_per_run"] == 2


def test_shares_add_up_to_one():
    table = compare(experiment(PAIR, 3))
    shares = table[[f"share_{category}" for category in CATEGORIES]].sum(axis=1)
    assert shares.to_numpy() == pytest.approx(1, abs=1e-12)
    assert table["share_productive"].to_numpy() == pytest.approx(table["goodput"].to_numpy())


def test_a_single_seed_has_no_interval():
    row = compare(experiment(PAIR, [4])).iloc[1]
    assert row[["goodput_low", "goodput_high", "difference_low", "difference_high"]].isna().all()
    assert np.isfinite(row[["goodput", "difference"]].astype(float)).all()


# --- sweeps --------------------------------------------------------------------------------------------------------


def test_a_sweep_compares_each_value_with_the_scenario_as_it_is():
    """The value that the scenario has differs from it by nothing, in every seed."""
    table = sweep(BASELINE, "pool.spares", [0, 4, 8], seeds=5)
    assert table["value"].tolist() == [0, 4, 8]
    same = table.loc[table["value"] == 4].iloc[0]
    assert same[["difference", "difference_low", "difference_high"]].tolist() == [0, 0, 0]
    assert table["difference"].iloc[0] < 0 <= table["difference"].iloc[2]


def test_a_sweep_may_mix_numbers_and_formulas():
    table = sweep(BASELINE, "checkpoint.interval_minutes", [30, "daly", 300], seeds=3)
    assert table["value"].tolist() == [30, "daly", 300]
    assert table["goodput"].idxmax() == 1


def test_the_scenarios_of_a_sweep_are_named_by_path_and_value():
    assert [s.name for s in sweep_scenarios(BASELINE, "days", [1, 2])] == ["baseline", "days=1", "days=2"]


def test_a_value_given_twice_is_refused():
    with pytest.raises(BadInput, match="names must differ"):
        sweep(BASELINE, "pool.spares", [4, 4], seeds=2)


def test_a_sweep_over_an_unknown_path_or_a_bad_value_is_refused_before_anything_runs():
    with pytest.raises(BadInput, match=r"pool\.sparse must be a known key; did you mean 'spares'\?"):
        sweep(BASELINE, "pool.sparse", [4], seeds=2)
    with pytest.raises(BadInput, match=r"pool\.spares=-1 must be"):
        sweep(BASELINE, "pool.spares", [4, -1], seeds=2)


# --- doors ---------------------------------------------------------------------------------------------------------


def test_a_number_of_seeds_means_one_to_that_number():
    assert check_seeds(3) == [1, 2, 3]
    assert check_seeds([7, 3]) == [7, 3]
    assert check_seeds(range(2, 4)) == [2, 3]


@pytest.mark.parametrize("seeds", [0, -1, [], [3, -1]])
def test_seeds_are_one_or_more(seeds):
    with pytest.raises(BadInput, match=r"seeds=.* must be 1 or more"):
        experiment([BASELINE], seeds)


@pytest.mark.parametrize("seeds", [10**7 // 2 + 1, 10**11, 10**30])
def test_more_runs_than_a_table_can_hold_are_refused_with_how_many_are_allowed(seeds):
    with pytest.raises(BadInput, match=r"seeds=\d+ must be at most 5,000,000 for 2 scenarios"):
        experiment([BASELINE, BASELINE.but({}, name="again")], seeds)


def test_a_seed_given_twice_is_refused():
    """Twice the same run is no more evidence, and would make the interval too narrow."""
    with pytest.raises(BadInput, match="seeds"):
        experiment([BASELINE], [1, 2, 2])


def test_two_scenarios_of_one_name_are_refused():
    with pytest.raises(BadInput, match="names must differ"):
        experiment([BASELINE, BASELINE], 2)


def test_no_scenario_at_all_is_refused():
    with pytest.raises(BadInput, match="scenario"):
        experiment([], 2)


def test_nothing_is_printed_where_output_is_not_a_terminal(capfd):
    experiment([BASELINE], 2, jobs=1)
    assert capfd.readouterr() == ("", "")


def test_small_work_starts_no_processes(monkeypatch):
    """Starting workers would take longer than the work."""
    monkeypatch.setattr("joblib.Parallel", None)
    assert len(wide_runs(experiment([BASELINE], 3))) == 3
