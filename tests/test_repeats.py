"""Is that more than chance? Ratios against tables and twins, repeat offenders against dice, nothing known too early."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import events_of, frame_of, log_of
from scipy import stats

from goodput.attribution import interruptions, spans
from goodput.cohorts import by_cohort, cohorts_by_day, failures_by_node
from goodput.errors import BadInput
from goodput.repeats import evidence, rate_ratio, repeat_offenders, when_known
from goodput.scenario import load_scenario
from goodput.simulate import cohort_names, simulate, simulate_many

FIRMWARE = load_scenario("firmware-regression")
COHORTS = cohort_names(FIRMWARE)

# --- the ratio of two rates ----------------------------------------------------------------------------------------


def test_the_example_of_rs_poisson_test_comes_out_the_same():
    """R 4, ?poisson.test: counts 11 and 21, times 800 and 3,011: ratio 1.971488, 0.8584264 to 4.2772659."""
    found = rate_ratio(11, 800, 21, 3011)
    assert (found.ratio, found.low, found.high) == pytest.approx((1.971488, 0.8584264, 4.2772659), rel=1e-6)


counts = st.integers(0, 200)
exposures = st.floats(1, 1e6)


@given(counts, exposures, counts, exposures, st.sampled_from([0.8, 0.95, 0.99]))
def test_bounds_are_those_of_the_binomial_share(x, t, y, u, confidence):
    """The slow twin: scipy's Clopper-Pearson bounds of the share of failures that fell on the first group."""
    found = rate_ratio(x, t, y, u, confidence)
    if x + y == 0:
        assert math.isnan(found.ratio) and (found.low, found.high, found.p_value) == (0, math.inf, 1)
        return
    share = stats.binomtest(x, x + y).proportion_ci(confidence, "exact")
    odds = [end / (1 - end) * u / t if end < 1 else math.inf for end in share]
    assert (found.low, found.high) == pytest.approx(odds, rel=1e-6)


@given(counts, exposures, counts, exposures)
def test_turned_round_a_ratio_is_its_inverse(x, t, y, u):
    one, other = rate_ratio(x, t, y, u), rate_ratio(y, u, x, t)
    assert one.p_value == pytest.approx(other.p_value)
    if x and y:
        assert (one.ratio, one.low, one.high) == pytest.approx((1 / other.ratio, 1 / other.high, 1 / other.low))


@given(st.integers(1, 60), exposures, st.integers(1, 60), exposures)
def test_the_p_value_and_the_interval_agree(x, t, y, u):
    found = rate_ratio(x, t, y, u)
    if abs(found.p_value - 0.05) > 1e-9:
        assert (found.p_value < 0.05) == (not found.low <= 1 <= found.high)


@pytest.mark.parametrize("ratio", [0.2, 1, 5])
def test_the_interval_covers_the_true_ratio_at_least_as_often_as_it_says(ratio):
    """Exactly, summed over the Poisson chance of each pair of counts: 6 x ratio and 10 failures expected."""
    x, y = np.indices((90, 50))
    found = rate_ratio(x, 60, y, 100)
    covered = (found.low <= ratio) & (ratio <= found.high)
    chance = stats.poisson.pmf(x, 6 * ratio) * stats.poisson.pmf(y, 10)
    assert 0.95 <= chance[covered].sum() / chance.sum() < 0.999


def test_arrays_give_what_single_numbers_give():
    many = rate_ratio(np.array([3, 0, 7]), 10, np.array([4, 5, 0]), np.array([20, 30, 40]))
    ones = [rate_ratio(3, 10, 4, 20), rate_ratio(0, 10, 5, 30), rate_ratio(7, 10, 0, 40)]
    assert np.array(many).T.tolist() == np.array(ones).tolist()


def test_more_failures_of_the_suspect_move_the_whole_interval_up():
    found = rate_ratio(np.arange(1, 30), 100, 10, 300)
    assert all((np.diff(bound) > 0).all() for bound in found[:3])


# --- repeat offenders ----------------------------------------------------------------------------------------------


def test_chance_alone_gives_as_many_repeat_offenders_as_dice_do():
    """30 failures dealt 40,000 times over 50 nodes of unequal exposure, by the share of each."""
    hours = np.linspace(50, 500, 50)
    dealt = np.random.default_rng(1).multinomial(30, hours / hours.sum(), size=40_000)
    table = repeat_offenders(pd.DataFrame({"node_hours": hours, "failures": dealt[0]}))
    for least, expected in zip(table["failures_or_more"], table["expected"], strict=True):
        seen = (dealt >= least).sum(axis=1)
        assert seen.mean() == pytest.approx(expected, abs=4 * seen.std() / 200 + 1e-9)


def test_the_chance_of_rare_repeat_offenders_is_nearly_that_of_dice():
    """20 failures over 100 nodes: how often do three or more nodes fail twice or more?"""
    dealt = np.random.default_rng(2).multinomial(20, np.full(100, 0.01), size=40_000)
    often = ((dealt >= 2).sum(axis=1) >= 3).mean()
    failures = np.array([2] * 3 + [1] * 14 + [0] * 83)
    table = repeat_offenders(pd.DataFrame({"node_hours": 1.0, "failures": failures})).set_index("failures_or_more")
    assert table.loc[2, "chance"] == pytest.approx(often, abs=0.06)
    assert table.loc[2, "chance"] > often  # it errs to the side of luck


def test_within_cohorts_the_bad_one_may_have_more_of_them():
    """Two nodes with four failures and two with none: alike, each share is 1/4; by cohort the first two share four."""
    nodes = pd.DataFrame({"cohort": list("aabb"), "node_hours": 10.0, "failures": [2, 2, 0, 0]})
    alike, split = repeat_offenders(nodes), repeat_offenders(nodes, "cohort")
    two = 1 - 0.75**4 - 4 * 0.25 * 0.75**3
    assert alike["expected"].iloc[1] == pytest.approx(4 * two)
    assert split["expected"].iloc[1] == pytest.approx(2 * (1 - 5 / 16))


def test_as_many_failures_are_expected_as_there_were():
    """The nodes with 1 or more, 2 or more, ... add up to the failures, if k goes on far enough."""
    nodes = pd.DataFrame({"node_hours": [5.0, 10, 20], "failures": [9, 0, 0]})
    assert repeat_offenders(nodes)["expected"].sum() == pytest.approx(9)


def test_where_nothing_failed_nothing_is_said_against_chance():
    table = repeat_offenders(pd.DataFrame({"node_hours": [1.0, 1], "failures": [0, 0]}))
    assert table.to_numpy().tolist() == [[1, 0, 0, 1], [2, 0, 0, 1]]


def test_each_node_has_its_own_exposure_and_they_add_up_to_its_cohort():
    log = simulate(FIRMWARE, 7)
    stretches, struck = spans(log), interruptions(log)
    nodes = failures_by_node(log, stretches, struck, COHORTS)
    cohorts = by_cohort(log, stretches, struck, COHORTS).set_index("cohort")
    sums = nodes.groupby("cohort")[["node_hours", "failures"]].sum()
    assert sums["failures"].to_dict() == cohorts["failures"].to_dict()
    assert sums["node_hours"].to_dict() == pytest.approx(cohorts["node_hours"].to_dict())
    assert nodes["node"].is_unique and (nodes["failures"] == 0).any()


def test_nodes_without_a_label_are_other():
    log = log_of("0 start nodes=2 gpus_per_node=1 node_names=n[1-2]\n60 end")
    assert failures_by_node(log, spans(log), interruptions(log), {"a": "n1"})["cohort"].tolist() == ["a", "other"]


# --- day by day ----------------------------------------------------------------------------------------------------

# n1 breaks after a day and a half of running and n3 takes its place; two hours later training goes on.
SWAP = """
   0 start nodes=2 gpus_per_node=1 node_names=n[1-2]
2160 interrupt cause=host node=n1
2190 detected
2220 nodes_ready joined=n3 left=n1
2280 running
4320 end"""


def test_a_day_counts_what_had_happened_by_then():
    """Two nodes run 24 h; by 48 h they ran 36 h together, then n2 and n3 10 h; by 72 h these ran 34 h."""
    log = log_of(SWAP)
    daily = cohorts_by_day(log, spans(log), interruptions(log), {"old": "n1"}).set_index(["days", "cohort"])
    hours, failures = daily["node_hours"].unstack(), daily["failures"].unstack()
    assert hours["old"].to_dict() == {1: 24, 2: 36, 3: 36}
    assert hours["other"].to_dict() == {1: 24, 2: 46 + 10, 3: 36 + 2 * 34}
    assert failures.to_numpy().tolist() == [[0, 0], [1, 0], [1, 0]]


def test_a_failure_at_the_very_end_of_a_day_belongs_to_it():
    log = log_of("0 start nodes=1 gpus_per_node=1 node_names=n1\n1440 interrupt cause=host node=n1\n2880 end")
    daily = cohorts_by_day(log, spans(log), interruptions(log), {"old": "n1"})
    assert daily.loc[daily["cohort"] == "old", "failures"].tolist() == [1, 1]


def cut_at(log: pd.DataFrame, time: pd.Timestamp) -> pd.DataFrame:
    """Return the log as it stood at a time: what is later is not there yet, and the job ends then."""
    early = log[log["time"] <= time]
    end = log[log["event"] == "end"].assign(time=time)
    return pd.concat([early[early["event"] != "end"], end], ignore_index=True)


@pytest.mark.parametrize("seed", [2, 7])
def test_each_day_is_what_the_log_of_that_day_would_have_said(seed):
    """The slow twin: the log cut off at each day, and counted anew."""
    log = simulate(FIRMWARE, seed)
    daily = cohorts_by_day(log, spans(log), interruptions(log), COHORTS)
    for days in (1, 5, 9, 13, 21, 28):
        then = cut_at(log, log["time"].min() + pd.Timedelta(days=days))
        twin = by_cohort(then, spans(then), interruptions(then), COHORTS).set_index("cohort")
        mine = daily[daily["days"] == days].set_index("cohort").loc[twin.index]
        assert mine["failures"].tolist() == twin["failures"].tolist()
        assert mine["node_hours"].tolist() == pytest.approx(twin["node_hours"].tolist(), rel=1e-9)


def test_many_jobs_at_once_are_each_job_alone():
    both = simulate_many(FIRMWARE, [3, 4])
    together = cohorts_by_day(both, spans(both), interruptions(both), COHORTS)
    alone = [simulate(FIRMWARE, seed) for seed in (3, 4)]
    parts = [cohorts_by_day(log, spans(log), interruptions(log), COHORTS) for log in alone]
    columns = ["days", "cohort", "node_hours", "failures"]
    pd.testing.assert_frame_equal(together[columns], pd.concat(parts, ignore_index=True)[columns])


def test_a_job_that_ends_sooner_has_fewer_days():
    rows = [
        *events_of("0 start nodes=1 gpus_per_node=1 node_names=n1\n4320 end", job="long"),
        *events_of("1000 start nodes=1 gpus_per_node=1 node_names=n1\n2500 end", job="short"),
    ]
    log = frame_of(rows)
    daily = cohorts_by_day(log, spans(log), interruptions(log), {"old": "n1"})
    old = daily[daily["cohort"] == "old"]
    assert old.groupby("job", observed=True)["node_hours"].apply(list).to_dict() == {
        "long": [24, 48, 72],
        "short": [24],
    }


def daily_of(bad: list[int], good: list[int]) -> pd.DataFrame:
    """Return days of one job with so many failures until then, in equal exposure."""
    days = np.repeat(np.arange(1.0, len(bad) + 1), 2)
    failures = np.array([bad, good]).T.ravel()
    cohort = ["bad", "good"] * len(bad)
    return pd.DataFrame({"job": "j", "days": days, "cohort": cohort, "node_hours": 100.0 * days, "failures": failures})


def test_it_is_known_from_the_day_on_which_the_lower_bound_stays_above_one():
    """6 to 0 leaves 1 out (2 x 1/64 = 0.031), 6 to 2 does not (0.29), 12 to 2 does (0.013)."""
    found = evidence(daily_of([3, 6, 6, 12, 14], [0, 0, 2, 2, 2]), "bad")
    assert found["p_value"].iloc[1] == pytest.approx(2 / 64)
    assert when_known(found).loc["j"].tolist() == [2, 4]


def test_alike_cohorts_are_never_told_apart():
    assert when_known(evidence(daily_of([1, 2, 3, 9], [1, 2, 4, 9]), "bad")).isna().all(axis=None)


def test_a_stricter_interval_knows_later():
    daily = daily_of([3, 6, 9, 12, 15], [0] * 5)
    days = [when_known(evidence(daily, "bad", level)).loc["j", "first_day"] for level in (0.8, 0.95, 0.999)]
    assert days == [2, 2, 4]


def test_a_suspect_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(BadInput, match="cohorts: worse must be one of: bad, good"):
        evidence(daily_of([1], [1]), "worse")


def test_the_bad_firmware_is_found_and_a_healthy_fleet_is_left_alone():
    """28 looks at 2.5 % each are dependent and few are possible early: 40 healthy months, at most a few alarms."""
    found = {}
    for name in ("firmware-regression", "baseline"):
        log = simulate_many(load_scenario(name), range(1, 41))
        daily = cohorts_by_day(log, spans(log), interruptions(log), COHORTS)
        found[name] = when_known(evidence(daily, "batch_b"))["first_day"].notna().mean()
    assert found["firmware-regression"] == 1 and found["baseline"] <= 0.15


def test_a_job_shorter_than_a_day_has_no_days_yet():
    log = log_of("0 start nodes=1 gpus_per_node=1 node_names=n1\n900 end")
    assert cohorts_by_day(log, spans(log), interruptions(log), {"old": "n1"}).empty
    hourly = cohorts_by_day(log, spans(log), interruptions(log), {"old": "n1"}, every_hours=5)
    assert hourly["node_hours"][hourly["cohort"] == "old"].tolist() == [5, 10, 15]
    assert hourly["days"].iloc[0] == pytest.approx(5 / 24)
