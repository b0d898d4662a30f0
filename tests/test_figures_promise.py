"""Figures of the promise: bars are burns, intervals reach from low to high, and titles say what the frame says."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

from goodput import figures
from goodput.attribution import interruptions, spans
from goodput.burn import Rule, budget_use, burn_alerts, burn_threshold, firing_runs
from goodput.cohorts import by_cohort, cohorts_by_day
from goodput.repeats import evidence, when_known
from goodput.scenario import load_scenario
from goodput.simulate import cohort_names, simulate, simulate_many
from goodput.slo import slo_windows, targets_met, windows_by_job

PAGE = Rule(0.025, 6)
FIRMWARE = load_scenario("firmware-regression")
COHORTS = cohort_names(FIRMWARE)
LOG = simulate_many(FIRMWARE, [7, 1, 2])
MANY, STRUCK = spans(LOG), interruptions(LOG)
MONTH = spans(ONE := simulate(FIRMWARE, 7))
HEALTHY = spans(simulate(load_scenario("baseline"), 7))
TABLE = by_cohort(ONE, MONTH, interruptions(ONE), COHORTS)
FOUND = evidence(cohorts_by_day(LOG, MANY, STRUCK, COHORTS), "batch_b")
SEVEN = FOUND[FOUND["job"] == "firmware-regression/seed-7"]
KNOWN = when_known(FOUND)
WEEKS = {"firmware-regression": slo_windows(MONTH, 0.75, 168), "baseline": slo_windows(HEALTHY, 0.75, 168)}
USE = budget_use(MANY, 0.75, 672)
TARGETS = targets_met(windows_by_job(MANY, 0.75, 168), np.arange(60, 87) / 100)
ALERTS = burn_alerts(MONTH, 0.75, 672, PAGE)

FIGURES = {
    "burns": (lambda ax: figures.draw_burns(WEEKS, ax), "UTC", "waste / budget"),
    "cohorts": (lambda ax: figures.draw_cohorts(TABLE, ax), "hours", None),
    "evidence": (lambda ax: figures.draw_evidence(SEVEN, ax, assumed=5), "Days", "Ratio"),
    "known": (lambda ax: figures.draw_known({"a": KNOWN["first_day"], "b": KNOWN["stays_from"]}, ax), "Days", "%"),
    "budget": (lambda ax: figures.draw_budget(USE, ax), "Days", "%"),
    "targets": (lambda ax: figures.draw_targets({"bad": TARGETS}, ax, marked=[0.75]), "%", "%"),
    "alerts": (lambda ax: figures.draw_alerts(ALERTS, burn_threshold(PAGE, 672), ax), "Days", "waste / budget"),
}


pytestmark = pytest.mark.usefixtures("drawn")


def title(axes) -> str:
    return axes.get_title(loc="left")


@pytest.mark.parametrize("name", FIGURES)
def test_units_stand_on_the_axes_and_the_title_says_something(name, ax):
    draw, x_unit, y_unit = FIGURES[name]
    assert draw(ax) is ax
    assert x_unit in ax.get_xlabel() and (y_unit is None or y_unit in ax.get_ylabel())
    assert any(char.isdigit() for char in title(ax))


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_makes_its_own_axes_and_its_title_fits(name):
    before = dict(matplotlib.rcParams)
    axes = FIGURES[name][0](None)
    axes.figure.canvas.draw()
    assert axes.figure.axes == [axes] and dict(matplotlib.rcParams) == before
    assert axes._left_title.get_window_extent().x1 <= axes.figure.bbox.x1


def test_bars_are_burns_and_the_title_counts_what_was_missed(ax):
    figures.draw_burns(WEEKS, ax)
    assert [bar.get_height() for bar in ax.patches] == [
        *WEEKS["firmware-regression"]["burn"],
        *WEEKS["baseline"]["burn"],
    ]
    assert title(ax).startswith("3 of 4 windows missed") and "in baseline 1 " in title(ax)


def test_no_number_on_a_bar_is_crossed_by_the_line_of_the_budget(ax):
    """A number begins at its bar's top; that of a burn just below 1 would be crossed, so it begins at the line."""
    weeks = WEEKS["baseline"].assign(burn=[0.5, 0.8, 0.97, 1.02])
    figures.draw_burns({"a": weeks}, ax)
    assert [text.xy[1] for text in ax.texts[:4]] == [0.5, 0.8, 1, 1.02]
    ax.figure.canvas.draw()
    line = ax.transData.transform((0, 1))[1]
    boxes = [text.get_window_extent() for text in ax.texts[:4]]
    assert not any(box.y0 < line < box.y1 for box in boxes)


def test_bars_of_cohorts_reach_from_low_to_high_and_the_worst_is_on_top(ax):
    figures.draw_cohorts(TABLE, ax)
    worst_first = TABLE.sort_values("mtbf_hours")
    ends = [segment[:, 0].tolist() for segment in ax.collections[0].get_segments()]
    assert ends == worst_first[["low", "high"]].to_numpy().tolist()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["batch_b", "default"]
    assert "batch_b fails 4.9 times as often" in title(ax)


def test_a_cohort_that_never_failed_has_a_bar_without_an_end(ax):
    never = TABLE.assign(failures=[0, 25], mtbf_hours=[np.inf, 600.0], high=[np.inf, 900.0])
    figures.draw_cohorts(never, ax)
    assert any("at least" in text.get_text() for text in ax.texts)


def test_the_band_of_the_evidence_is_its_interval_and_the_day_is_marked(ax):
    figures.draw_evidence(SEVEN, ax)
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(SEVEN["high"].max())
    assert "day 8" in [text.get_text() for text in ax.texts]
    assert "From day 8 on" in title(ax)


def test_evidence_that_never_holds_is_said_so(ax):
    assert "never" in title(figures.draw_evidence(SEVEN.assign(low=SEVEN["low"] / 10), ax))


def test_what_is_known_by_a_day_is_a_share_of_all_months(ax):
    days = pd.Series([2.0, 4.0, np.nan, 6.0])
    figures.draw_known({"a": days, "never": days * np.nan}, ax)
    x, y = ax.lines[0].get_data()
    assert (list(x), list(y)) == ([0, 2, 4, 6, 28], [0, 25, 50, 75, 75])
    assert "by day 4; never: 0.0 %" in title(ax)


def test_the_budget_says_when_it_was_gone(ax):
    figures.draw_budget(USE, ax)
    mine = USE[USE["job"] == USE["job"].iloc[0]]
    assert f"day {mine.loc[mine['used_share'] > 1, 'days'].min():.1f}" in title(ax)
    assert "of 2 other months" in title(ax)
    assert "never" in title(figures.draw_budget(USE.assign(used_share=USE["used_share"] / 10), ax))


def test_targets_that_are_marked_stand_in_the_title(ax):
    figures.draw_targets({"bad": TARGETS}, ax, marked=[0.75])
    share = TARGETS.set_index(TARGETS["target"].round(2)).loc[0.75, "met_share"]
    assert f"75 % is met in {100 * share:.0f} %" in title(ax)


def test_the_title_of_alerts_counts_firings(ax):
    figures.draw_alerts(ALERTS, burn_threshold(PAGE, 672), ax)
    assert f"Fired {len(firing_runs(ALERTS))} times in 28 days" in title(ax)
