"""How fast is the budget burning? Thresholds of the workbook, alerts by hand, a slow twin, and what they catch."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import log_of
from test_slo import rows_of_spans, spans_of

from goodput.attribution import interruptions, spans
from goodput.burn import (
    WORKBOOK,
    Rule,
    alert_rules,
    budget_use,
    burn_alerts,
    burn_levels,
    burn_threshold,
    catches,
    firing_runs,
    firings,
    firings_by_job,
    largest_burn,
    outages,
)
from goodput.errors import BadInput
from goodput.scenario import load_scenario
from goodput.simulate import simulate, simulate_many
from goodput.slo import slo_windows, targets_met, windows_by_job

MONTH = 28 * 24
PAGE = Rule(0.025, 6)
BASE = load_scenario("baseline")

# --- thresholds ----------------------------------------------------------------------------------------------------


def test_the_workbooks_thresholds_come_out():
    """What it recommends for 30 days: 14.4, 6 and 1."""
    assert [round(burn_threshold(rule, 30 * 24), 9) for rule in WORKBOOK] == [14.4, 6, 1]


def test_at_eighty_per_cent_the_workbooks_pages_can_never_fire():
    """A complete stop burns 1 / 0.2 = 5, below 13.44 and 5.6; at 99.9 % it burns 1,000."""
    assert largest_burn(0.8) == pytest.approx(5)
    assert alert_rules(WORKBOOK, 0.8, MONTH)["can_fire"].tolist() == [False, False, True]
    assert alert_rules(WORKBOOK, 0.999, MONTH)["can_fire"].all()


def test_a_complete_stop_fires_when_the_table_says_so():
    """All is kept for a day and then nothing: 2.5 % in 6 h of a target of 75 % is 2.8 of 4, so after 4.2 h."""
    assert alert_rules([PAGE], 0.75, MONTH)["fires_after_hours"].tolist() == pytest.approx([4.2])
    stop = spans_of([(0, 1440, "productive"), (1440, 2880, "waiting")])
    alerts = burn_alerts(stop, 0.75, MONTH, PAGE, every_minutes=1)
    fired = alerts.loc[alerts["firing"], "time"].min() - alerts["time"].iloc[0]
    assert fired == pd.Timedelta(hours=24 + 4.2, minutes=1)  # just after: it must be above


@pytest.mark.parametrize("target", [0, 1, 1.5, -1, math.nan])
def test_a_target_is_between_none_and_all(target):
    with pytest.raises(BadInput, match=r"slo: target=.* must be above 0 and below 1"):
        largest_burn(target)


@pytest.mark.parametrize("minutes", [0, -5, math.nan, math.inf])
def test_points_are_some_time_apart(minutes):
    with pytest.raises(BadInput, match=r"burn: every_minutes=.* must be above 0 and finite"):
        burn_alerts(spans_of([(0, 60, "productive")]), 0.8, MONTH, PAGE, minutes)


# --- alerts --------------------------------------------------------------------------------------------------------


def test_routine_checkpoints_never_fire_and_a_long_wait_does():
    """Saves of 5 minutes in 35 burn 4/7 of a budget of 25 %; then the job waits six hours."""
    turn = [(30, "productive"), (5, "checkpoint")] * 60
    ends = np.cumsum([length for length, _ in turn]).tolist()
    routine = [(end - length, end, category) for end, (length, category) in zip(ends, turn, strict=True)]
    alerts = burn_alerts(spans_of(routine), 0.75, MONTH, PAGE)
    assert not alerts["firing"].any() and alerts["long_burn"].max() < 0.65
    waits = burn_alerts(spans_of([*routine, (2100, 2460, "waiting")]), 0.75, MONTH, PAGE)
    first = waits.loc[waits["firing"], "time"].min() - waits["time"].iloc[0]
    assert pd.Timedelta(minutes=2100) < first < pd.Timedelta(minutes=2100 + 252)


def test_a_single_short_stop_is_no_page():
    """An hour and twenty minutes, as a routine interruption takes, is 22 % of six hours: a burn of 0.89 of 2.8."""
    stop = spans_of([(0, 720, "productive"), (720, 800, "restart"), (800, 2000, "productive")])
    alerts = burn_alerts(stop, 0.75, MONTH, PAGE)
    assert not alerts["firing"].any() and alerts["long_burn"].max() == pytest.approx(80 / 360 / 0.25)


def test_the_alert_ends_with_the_short_window_and_not_with_the_long_one():
    """Six hours of waiting; the long window stays above its threshold for 1.8 h, the short one under 10 min."""
    stop = spans_of([(0, 720, "productive"), (720, 1080, "waiting"), (1080, 2000, "productive")])
    alerts = burn_alerts(stop, 0.75, MONTH, PAGE)
    minutes = (alerts["time"] - alerts["time"].iloc[0]) / pd.Timedelta(minutes=1)
    assert minutes[alerts["firing"]].max() == 1085
    assert minutes[alerts["long_burn"] > 2.8].max() == 1185


def test_a_window_that_begins_before_the_log_has_no_burn():
    alerts = burn_alerts(spans_of([(0, 720, "waiting")]), 0.75, MONTH, PAGE)
    known = alerts["long_burn"].notna()
    assert (alerts["time"][known].min() - alerts["time"].iloc[0]) == pd.Timedelta(hours=6)
    assert not alerts.loc[~known, "firing"].any()


def test_silence_does_not_fire():
    """A day without any job between two stops: nothing is held, so there is no burn."""
    gap = spans_of([(0, 600, "waiting"), (2040, 2640, "waiting")])
    alerts = burn_alerts(gap, 0.75, MONTH, PAGE)
    silent = alerts["time"].between(alerts["time"].iloc[0] + pd.Timedelta(hours=16.1), alerts["time"].iloc[408])
    assert (
        silent.sum() > 200 and alerts.loc[silent, "long_burn"].isna().all() and not alerts.loc[silent, "firing"].any()
    )


def test_jobs_are_pooled_by_their_gpus():
    """Nine GPUs that train and one that waits: a tenth is wasted, 0.4 of the largest burn."""
    both = pd.concat([spans_of([(0, 720, "productive")], gpus=9), spans_of([(0, 720, "waiting")])], ignore_index=True)
    alerts = burn_alerts(both, 0.75, MONTH, PAGE)
    assert alerts["long_burn"].dropna().to_numpy() == pytest.approx(0.4)


@given(rows_of_spans(), st.integers(1, 6), st.integers(1, 40), st.sampled_from([0.5, 0.8, 0.95]))
def test_burns_are_those_of_a_slow_twin(rows, gpus, twelfths, target):
    """Every minute of the log looked at one by one: held or not, productive or not."""
    rule = Rule(0.3, 12 * twelfths / 60)
    alerts = burn_alerts(spans_of(rows, gpus), target, 10, rule, every_minutes=1)
    origin, end = rows[0][0], max(row[1] for row in rows)
    held, kept = np.zeros(end), np.zeros(end)
    for first, last, category in rows:
        held[first:last] += gpus
        kept[first:last] += gpus * (category == "productive")
    for minute, row in zip(range(origin, end + 1), alerts.itertuples(), strict=True):
        burns = []
        for length, found in ((12 * twelfths, row.long_burn), (twelfths, row.short_burn)):
            some = held[max(minute - length, 0) : minute].sum()
            known = minute - length >= origin and some > 0
            burn = (1 - kept[minute - length : minute].sum() / some) / (1 - target) if known else math.nan
            assert found == pytest.approx(burn, abs=1e-9, nan_ok=True)
            burns.append(burn)
        if all(abs(burn - burn_threshold(rule, 10)) > 1e-6 for burn in burns):
            assert row.firing == all(burn > burn_threshold(rule, 10) for burn in burns)


def test_no_burn_is_larger_than_the_largest():
    alerts = burn_alerts(spans(simulate(load_scenario("no-spares"), 1)), 0.8, MONTH, PAGE)
    assert alerts["long_burn"].max() == pytest.approx(5) and alerts["short_burn"].max() <= 5 + 1e-9


# --- what they catch -----------------------------------------------------------------------------------------------

# Ten hours of waiting behind a fault, after a short stop that nobody needs to know of.
OUTAGE = log_of("""
   0 start nodes=1 gpus_per_node=4
 600 checkpoint_start
 600 checkpoint_end
 600 interrupt cause=software_crash
 601 detected
 601 nodes_ready
 621 running
 900 checkpoint_start
 900 checkpoint_end
 900 interrupt cause=host node=n1
 905 detected
1505 nodes_ready
1525 running
4320 end""")


def test_a_firing_names_the_interruption_that_burned_most():
    """The wait is 10 h; the 625 minutes of the outage took 41.7 GPU-hours on 4 GPUs. One firing, of a burn of 4."""
    table = spans(OUTAGE)
    found = firings(burn_alerts(table, 0.75, MONTH, PAGE), table, PAGE.long_hours)
    assert found[["interruption", "cause", "waiting_hours"]].to_numpy().tolist() == [[1, "host", 10]]
    assert found["gpu_hours"].tolist() == pytest.approx([4 * 625 / 60])
    assert found["peak_burn"].tolist() == pytest.approx([4])


def test_a_firing_without_an_interruption_names_none():
    """A save of ten hours is no interruption."""
    log = log_of("0 start nodes=1 gpus_per_node=1\n600 checkpoint_start\n1200 checkpoint_end\n2000 end")
    found = firings(burn_alerts(spans(log), 0.75, MONTH, PAGE), spans(log), 6)
    assert found[["interruption", "gpu_hours"]].to_numpy().tolist() == [[-1, 0]] and found["cause"].isna().all()


def test_where_nothing_fires_the_table_is_empty():
    log = log_of("0 start nodes=1 gpus_per_node=1\n2000 end")
    assert len(firings(burn_alerts(spans(log), 0.75, MONTH, PAGE), spans(log), 6)) == 0


def test_what_fires_again_soon_is_the_same_firing():
    times = pd.date_range("2025-01-01", periods=200, freq="30min", tz="UTC")
    on = np.isin(np.arange(200), [10, 11, 20, 60])  # 4.5 h apart, then 20 h
    alerts = pd.DataFrame({"time": times, "long_burn": 1.0 + np.arange(200), "firing": on})
    assert firing_runs(alerts)["peak_burn"].tolist() == [21, 61]
    assert len(firing_runs(alerts, apart_hours=0)) == 4
    assert len(firing_runs(alerts, apart_hours=4)) == 3


def test_outages_are_charged_with_all_that_they_took():
    table = spans(simulate(BASE, 7))
    found = outages(table)
    assert found["gpu_hours"].sum() == pytest.approx(table.loc[table["interruption"] >= 0, "gpu_hours"].sum())
    assert len(found) == len(interruptions(simulate(BASE, 7))) + 1  # and "none"


def test_a_long_wait_is_caught_by_a_rule_that_can_fire_and_by_no_other():
    """The 10 h of the log above: one page, for a wait. 5 % in 6 h is 5.6, which no burn of at most 4 reaches."""
    found = catches(spans(OUTAGE), 0.75, MONTH, [PAGE, Rule(0.05, 6)])
    assert found[["firings", "without_wait", "long_waits", "caught"]].to_numpy().tolist() == [
        [1, 0, 1, 1],
        [0, 0, 1, 0],
    ]
    assert catches(spans(OUTAGE), 0.75, MONTH, [PAGE], long_wait_hours=11)["long_waits"].tolist() == [0]


def test_two_waits_in_one_firing_are_both_caught():
    """Five hours, an hour of training, and five hours again: one firing, as the second follows within six hours."""
    wait = "{0} interrupt cause=host node=n{1}\n{0} detected\n{2} nodes_ready\n{2} running\n"
    head = "0 start nodes=1 gpus_per_node=1\n600 checkpoint_start\n600 checkpoint_end\n"
    log = log_of(head + wait.format(600, 1, 900) + wait.format(960, 2, 1260) + "3000 end")
    found = catches(spans(log), 0.75, MONTH, [PAGE])
    assert found[["firings", "long_waits", "caught"]].to_numpy().tolist() == [[1, 2, 2]]


def test_a_lower_threshold_fires_at_least_for_the_same_waits():
    many = spans(simulate_many(load_scenario("firmware-regression"), [1, 2, 3]))
    found = catches(many, 0.75, MONTH, [Rule(share, 6) for share in (0.02, 0.025, 0.03)])
    assert found["caught"].is_monotonic_decreasing and (found["caught"] <= found["long_waits"]).all()
    assert found["without_wait"].is_monotonic_decreasing and found["caught"].iloc[0] > 5


def test_a_fault_is_where_the_lost_work_ends():
    """In the log above nothing was lost; here half an hour was, and the fault is after it."""
    log = log_of("0 start nodes=1 gpus_per_node=1\n30 interrupt cause=host\n40 detected\n50 running\n99 end")
    table = spans(log)
    assert outages(table).loc[0, "fault"] - table["start"].min() == pd.Timedelta(minutes=30)


def test_each_job_is_alone_with_each_rule():
    many = spans(simulate_many(BASE, [5, 7]))
    found = firings_by_job(many, 0.75, MONTH, [PAGE, (0.15, 72)])
    alone = spans(simulate(BASE, 7))
    mine = found[(found["job"] == "baseline/seed-7") & (found["long_hours"] == 6)]
    assert mine["start"].tolist() == firings(burn_alerts(alone, 0.75, MONTH, PAGE), alone, 6)["start"].tolist()
    assert found["cause"].notna().all()


def test_the_wait_of_eleven_hours_fires_and_nothing_else_does():
    """Seed 7 of the baseline has 42 interruptions and one long wait, 10.7 h on 11 January."""
    table = spans(simulate(BASE, 7))
    found = firings(burn_alerts(table, 0.75, MONTH, PAGE), table, 6)
    assert found["cause"].tolist() == ["gpu_xid79"] and found["waiting_hours"].tolist() == pytest.approx(
        [10.75], abs=0.01
    )


def test_levels_of_burn_are_quantiles_of_all_moments():
    """A day of which a quarter is wasted, at its end, burns 4 there, and 0 before; six-hour windows from 6 h on."""
    day = spans_of([(0, 1080, "productive"), (1080, 1440, "waiting")]).assign(job="a")
    found = burn_levels(day, 0.75, [1, 6], every_minutes=60)
    assert found.loc[1, 0.5] == 0 and found.loc[1, 1] == pytest.approx(4)
    assert found.loc[6].tolist() == pytest.approx(
        np.quantile([0] * 13 + [4 * k / 6 for k in range(1, 7)], [0.5, 0.95, 0.99, 1])
    )


# --- the budget over time, and targets -----------------------------------------------------------------------------


def test_the_budget_used_is_waste_over_the_budget_of_the_whole_window():
    """Of 48 h a quarter is 12 h of budget. Trains 12 h, waits 6: half of it is used after 18 h of 48 (37.5 %)."""
    use = budget_use(spans_of([(0, 720, "productive"), (720, 1080, "waiting")]).assign(job="a"), 0.75, 48)
    last = use.iloc[-1]
    assert (last["used_share"], last["even_share"], last["days"]) == pytest.approx((0.5, 0.375, 0.75))
    assert use["used_share"].iloc[:13].tolist() == [0] * 13 and use["used_share"].is_monotonic_increasing


def test_at_the_end_of_the_window_the_budget_used_is_its_burn():
    table = spans(simulate_many(BASE, [1, 2]))
    ends = budget_use(table, 0.8, MONTH).groupby("job", observed=True)["used_share"].last()
    whole = windows_by_job(table, 0.8, MONTH).set_index("job")["burn"]
    assert ends.to_numpy() == pytest.approx(whole.to_numpy())


def test_windows_of_each_job_are_its_own():
    table = spans(simulate_many(BASE, [1, 2]))
    alone = [slo_windows(spans(simulate(BASE, seed)), 0.8, 168)["goodput"].tolist() for seed in (1, 2)]
    found = windows_by_job(table, 0.8, 168)
    assert found["goodput"].tolist() == alone[0] + alone[1]


def test_a_higher_target_is_met_less_often_and_silence_is_left_out():
    windows = pd.DataFrame({"job": list("aabb"), "goodput": [0.9, np.nan, 0.8, 0.7]})
    table = targets_met(windows, [0.6, 0.7, 0.75, 0.85, 0.95])
    assert table["windows"].eq(3).all()
    assert table["met_share"].tolist() == pytest.approx([1, 1, 2 / 3, 1 / 3, 0])
    assert ((table["low"] <= table["met_share"] + 0.2) & (table["high"] <= 1) & (table["low"] >= 0)).all()


def test_an_interval_of_targets_is_that_of_the_jobs_and_not_of_the_windows():
    """Ten jobs of which each keeps all or nothing: five and five. Twice as many windows a job tell nothing more."""
    few = pd.DataFrame({"job": np.repeat(np.arange(10), 4), "goodput": np.repeat([0.9, 0.5] * 5, 4)})
    many = pd.DataFrame({"job": np.repeat(np.arange(10), 8), "goodput": np.repeat([0.9, 0.5] * 5, 8)})
    one, two = (targets_met(table, [0.8]).iloc[0] for table in (few, many))
    assert (one["low"], one["high"]) == pytest.approx((two["low"], two["high"]))
    assert one["high"] - one["low"] > 0.6


def test_an_alert_window_of_no_length_is_refused():
    with pytest.raises(BadInput, match="burn: long_hours=0 must be above 0"):
        burn_threshold(Rule(0.02, 0), 672)
