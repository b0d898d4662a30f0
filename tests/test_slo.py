"""Is the promise kept? Windows that clip, silence that is no miss, a budget that adds up, and a slow twin."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import MINUTE, OUR_DAY, events_of, frame_of, log_of

from goodput.attribution import CATEGORIES, spans
from goodput.errors import BadInput
from goodput.events import codes, micros
from goodput.scenario import load_scenario
from goodput.simulate import simulate
from goodput.slo import error_budget, slo_windows

HOUR = 60 * MINUTE


def spans_of(rows: list[tuple[int, int, str]], gpus: int = 1) -> pd.DataFrame:
    """Return spans of one job from (first minute, last minute, category)."""
    times = [[OUR_DAY + row[side] * MINUTE for row in rows] for side in (0, 1)]
    start, end = (pd.to_datetime(np.array(side), unit="us", utc=True).as_unit("us") for side in times)
    category = pd.Categorical([row[2] for row in rows], CATEGORIES)
    return pd.DataFrame({"start": start, "end": end, "category": category, "nodes": gpus, "gpus_per_node": 1})


# --- worked out by hand --------------------------------------------------------------------------------------------

# An outage from 22:00 to 02:00: two of its four hours belong to each day.
OUTAGE = log_of("""
   0 start nodes=2 gpus_per_node=4
1320 checkpoint_start
1320 checkpoint_end
1320 interrupt cause=link
1350 detected
1530 nodes_ready
1560 running
2160 end""")


def test_an_outage_is_clipped_to_the_windows_it_lies_in():
    """First day: 22 of 24 h kept, half an hour of detection and one and a half of waiting. The second is cut at 36 h:
    an hour and a half of waiting, half an hour of restart, 10 h of compute."""
    table = slo_windows(spans(OUTAGE), target=0.9, window_hours=24)
    assert table["held_gpu_hours"].tolist() == pytest.approx([24 * 8, 12 * 8])
    assert table["goodput"].tolist() == pytest.approx([22 / 24, 10 / 12])
    assert table["met"].tolist() == [True, False]
    assert table["worst"].tolist() == ["waiting", "waiting"]
    assert table["worst_gpu_hours"].tolist() == pytest.approx([1.5 * 8, 1.5 * 8])


def test_the_budget_is_what_the_target_leaves_of_what_was_held():
    """10 % of 192 and of 96 GPU-hours; used 16 and 16: burn 16 / 19.2 and 16 / 9.6."""
    table = slo_windows(spans(OUTAGE), target=0.9, window_hours=24)
    assert table["budget_gpu_hours"].tolist() == pytest.approx([19.2, 9.6])
    assert table["used_gpu_hours"].tolist() == pytest.approx([16, 16])
    assert table["burn"].tolist() == pytest.approx([16 / 19.2, 16 / 9.6])


def test_the_whole_budget_is_used_over_budget_and_not_the_mean_of_burns():
    """32 used of 28.8, burn 1.11; the mean of 0.83 and 1.67 would be 1.25."""
    budget = error_budget(slo_windows(spans(OUTAGE), target=0.9, window_hours=24), 0.9)
    assert budget["burn"] == pytest.approx(32 / 28.8)
    assert (budget["windows"], budget["met"], budget["missed"], budget["no_data"]) == (2, 1, 1, 0)
    assert (budget["budget_gpu_hours"], budget["used_gpu_hours"]) == pytest.approx((28.8, 32))


def test_windows_begin_with_the_log_and_the_last_ends_with_it():
    table = slo_windows(spans(OUTAGE), target=0.9, window_hours=24)
    hours = [(micros(table[side]) - OUR_DAY) / HOUR for side in ("start", "end")]
    assert [list(side) for side in hours] == [[0, 24], [24, 36]]


def test_a_window_without_data_is_not_missed():
    """Two jobs with a day between: goodput is unknown there, no budget, nothing used, and no category is to blame."""
    one = events_of("0 start nodes=1 gpus_per_node=1\n1440 end", "a")
    two = events_of("2880 start nodes=1 gpus_per_node=1\n4320 end", "b")
    table = slo_windows(spans(frame_of([*one, *two])), target=0.9, window_hours=24)
    assert table["met"].tolist() == [True, None, True]
    silent = table.iloc[1]
    assert math.isnan(silent["goodput"]) and math.isnan(silent["burn"]) and silent["worst"] is None
    assert silent[["held_gpu_hours", "budget_gpu_hours", "used_gpu_hours"]].tolist() == [0, 0, 0]
    budget = error_budget(table, 0.9)
    assert (budget["met"], budget["missed"], budget["no_data"], budget["burn"]) == (2, 0, 1, 0)


def test_a_window_in_which_all_was_kept_has_no_worst_category():
    table = slo_windows(spans_of([(0, 60, "productive")]), target=0.9, window_hours=1)
    assert table["worst"].tolist() == [None] and table["burn"].tolist() == [0]


def test_a_window_in_which_nothing_was_kept_burns_its_budget_many_times():
    table = slo_windows(spans_of([(0, 60, "waiting")]), target=0.9, window_hours=1)
    assert table["burn"].tolist() == pytest.approx([10]) and table["met"].tolist() == [False]


def test_unattributed_time_is_not_goodput():
    table = slo_windows(spans_of([(0, 30, "productive"), (30, 60, "unattributed")]), target=0.9, window_hours=1)
    assert table["goodput"].tolist() == [0.5] and table["worst"].tolist() == ["unattributed"]


def test_a_span_that_ends_at_an_edge_adds_no_window():
    assert len(slo_windows(spans_of([(0, 120, "productive")]), target=0.9, window_hours=1)) == 2


def test_jobs_of_other_sizes_count_by_their_gpus():
    """Nine GPUs that train and one that waits: 0.9, not the mean 0.5 of the two jobs."""
    both = pd.concat([spans_of([(0, 60, "productive")], gpus=9), spans_of([(0, 60, "waiting")])], ignore_index=True)
    assert slo_windows(both, target=0.8, window_hours=1)["goodput"].tolist() == pytest.approx([0.9])


@pytest.mark.parametrize("pieces", [1, 2, 3, 7])
@pytest.mark.parametrize("target", [0.7, 0.8, 0.85, 0.9, 0.95])
def test_a_window_exactly_at_its_target_is_met(target, pieces):
    """A day of 3 x 7 GPUs with exactly the target's share of it kept, in one piece or in several: a promise of 90 %
    is kept by 90 %. Floats that are added up must not say otherwise."""
    kept = round(target * 1440)
    cuts = [kept * k // pieces for k in range(pieces + 1)]
    rows, now = [], 0
    for k, length in enumerate(np.diff(cuts).tolist()):
        rest = (1440 - kept) // pieces if k < pieces - 1 else 1440 - now - length
        rows += [(now, now + length, "productive"), (now + length, now + length + rest, "waiting")]
        now += length + rest
    assert slo_windows(spans_of(rows, gpus=21), target, 24)["met"].tolist() == [True]


# --- the slow twin -------------------------------------------------------------------------------------------------


def naive_windows(rows: list[tuple[int, int, str]], gpus: int, width: int) -> list[dict]:
    """Return GPU-minutes by category of each window: every minute of every span looked at, one by one."""
    origin = min(row[0] for row in rows)
    windows = [dict.fromkeys(CATEGORIES, 0) for _ in range((max(row[1] for row in rows) - origin - 1) // width + 1)]
    for start, end, category in rows:
        for minute in range(start, end):
            windows[(minute - origin) // width][category] += gpus
    return windows


@st.composite
def rows_of_spans(draw) -> list[tuple[int, int, str]]:
    rows, now = [], draw(st.integers(0, 50))
    for _ in range(draw(st.integers(1, 12))):
        now += draw(st.sampled_from([0, 0, 0, 1, 40, 200]))
        length = draw(st.integers(1, 90))
        rows.append((now, now + length, draw(st.sampled_from(CATEGORIES))))
        now += length
    return rows


@given(rows_of_spans(), st.integers(1, 70), st.integers(1, 9), st.sampled_from([0.5, 0.85, 0.999]))
def test_windows_are_those_of_a_slow_twin(rows, width, gpus, target):
    table = slo_windows(spans_of(rows, gpus), target, width / 60)
    twin = naive_windows(rows, gpus, width)
    assert len(table) == len(twin)
    for row, window in zip(table.itertuples(), twin, strict=True):
        held, kept = sum(window.values()), window["productive"]
        assert row.held_gpu_hours * 60 == pytest.approx(held)
        assert row.used_gpu_hours * 60 == pytest.approx(held - kept, abs=1e-9)
        if held == 0:
            assert row.met is None and row.worst is None
            continue
        assert row.goodput == pytest.approx(kept / held)
        assert row.burn == pytest.approx((1 - kept / held) / (1 - target))
        if abs(Fraction(kept, held) - Fraction(target)) > Fraction(1, 10**9):
            assert row.met == (Fraction(kept, held) > Fraction(target))
        worst = max(window[category] for category in CATEGORIES[1:])
        assert row.worst_gpu_hours * 60 == pytest.approx(worst)
        assert (window[row.worst] == worst) if worst else (row.worst is None)


@pytest.mark.parametrize("hours", [1, 24, 168, 672, 10_000])
def test_windows_of_any_length_hold_the_same_hours_in_all(hours):
    table = spans(simulate(load_scenario("baseline"), 1))
    windows = slo_windows(table, 0.85, hours)
    assert windows["held_gpu_hours"].sum() == pytest.approx(688_128, rel=1e-12)
    kept = table["gpu_hours"][codes(table["category"]) == 0].sum()
    assert windows["held_gpu_hours"].sum() - windows["used_gpu_hours"].sum() == pytest.approx(kept, rel=1e-12)
    assert len(windows) == math.ceil(672 / hours)


def test_cost_grows_with_spans_and_windows_and_not_with_their_product():
    """20,000 spans in 20,000 windows, of which each span touches one or two: a product would need 3 GB for a table."""
    rows = [(2 * k, 2 * k + 2, "productive" if k % 2 else "waiting") for k in range(20_000)]
    assert len(slo_windows(spans_of(rows), 0.85, 2 / 60)) == 20_000


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [0, 1, -0.5, 1.5, 85, math.nan, math.inf])
def test_a_target_is_between_none_and_all(target):
    with pytest.raises(BadInput, match=r"slo: target=.* must be above 0 and below 1"):
        slo_windows(spans(OUTAGE), target, 24)


@pytest.mark.parametrize("hours", [0, -24, math.nan, math.inf])
def test_a_window_lasts_some_time(hours):
    with pytest.raises(BadInput, match=r"slo: window_hours=.* must be above 0 and finite"):
        slo_windows(spans(OUTAGE), 0.9, hours)
