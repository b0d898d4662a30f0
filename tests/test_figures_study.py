"""Figures of a study: bars reach from the base to the ends, dots are the indices, titles say what holds."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from own_axes import check_own_axes

from goodput import figures
from goodput.drawing import COLOURS


def bar(parameter, from_, to, base, down, up) -> dict:
    """Return a row of `tornado` on a base of 80 %, each interval half a point to each side."""
    row = {"parameter": parameter, "from": from_, "to": to, "base": base, "swing": max(down, up, 0) - min(down, up, 0)}
    for side, change in (("from", down), ("to", up)):
        reach = 0.005 if change else 0.0
        row |= {f"goodput_{side}": 0.8 + change, f"difference_{side}": change}
        row |= {f"difference_{side}_low": change - reach, f"difference_{side}_high": change + reach}
    return row


TORNADO = pd.DataFrame(
    [
        bar("pool.spares", 2, 8, 4, -0.12, 0.01),
        bar("checkpoint.interval_minutes", 15.0, "daly", 30.0, -0.1, -0.03),
        bar("cohorts.default.mtbf_hours", 1000.0, 10_000.0, 3000.0, -0.18, 0.03),
        bar("causes.collective_hang.needs_repair", np.False_, np.True_, np.False_, 0.0, -0.02),
        bar("detection of faults", 0.17, 5.0, np.nan, 0.0, 0.0),
    ]
)
SOBOL = pd.DataFrame(
    [("b", 0.1, 0.05, 0.2, 0.4, 0.2, 0.7), ("a", 0.4, 0.2, 0.6, 0.6, 0.4, 1.1), ("c", -0.03, -0.1, 0.02, 0, 0, 0)],
    columns=["parameter", "first", "first_low", "first_high", "total", "total_low", "total_high"],
)
FIGURES = {
    "tornado": (lambda ax: figures.draw_tornado(TORNADO, ax), "%"),
    "sobol": (lambda ax: figures.draw_sobol(SOBOL, ax), "variance"),
}
ORANGE, BLUE = (matplotlib.colors.to_rgb(COLOURS[name]) for name in ("lost_work", "checkpoint"))

pytestmark = pytest.mark.usefixtures("drawn")


def title(axes) -> str:
    return axes.get_title(loc="left")


def labels(axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


@pytest.mark.parametrize("name", FIGURES)
def test_the_axis_says_what_is_measured_and_the_title_counts(name, ax):
    draw, unit = FIGURES[name]
    assert draw(ax) is ax and unit in ax.get_xlabel() and any(char.isdigit() for char in title(ax))


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_makes_its_own_axes_and_its_title_and_numbers_fit(name):
    check_own_axes(FIGURES[name][0])


def test_the_widest_swing_is_on_top_and_what_a_parameter_is_in_the_base_stands_behind_its_name(ax):
    figures.draw_tornado(TORNADO, ax)
    assert labels(ax) == [
        "cohorts.default.mtbf_hours (3,000)",
        "pool.spares (4)",
        "checkpoint.interval_minutes (30)",
        "causes.collective_hang.needs_repair (false)",
        "detection of faults",
    ]
    assert title(ax) == "cohorts.default.mtbf_hours moves goodput most by itself: 62.0 to 83.0 %"


def test_bars_reach_from_the_base_to_the_ends_and_say_which_end_they_are(ax):
    figures.draw_tornado(TORNADO, ax)
    bars = {}
    for patch in ax.patches:
        if patch.get_width():
            bars[round(patch.get_x() + patch.get_width(), 6)] = patch.get_facecolor()[:3]
    assert bars == {62: ORANGE, 83: BLUE, 68: ORANGE, 81: BLUE, 70: ORANGE, 77: BLUE, 78: BLUE}
    assert [text.get_text() for text in ax.texts] == ["1,000", "2", "15", "10,000", "8", "daly", "true"]


def test_a_bar_that_is_alone_lies_in_the_middle_of_its_row_and_two_do_not_overlap(ax):
    figures.draw_tornado(TORNADO, ax)
    middle = {round(p.get_x() + p.get_width()): p.get_y() + p.get_height() / 2 for p in ax.patches if p.get_width()}
    assert middle[78] == pytest.approx(3) and middle[70] < 2 < middle[77]
    assert middle[77] - middle[70] >= ax.patches[0].get_height()


def test_the_largest_total_is_on_top_and_nothing_is_cut_off_at_zero(ax):
    figures.draw_sobol(SOBOL, ax)
    assert labels(ax) == ["a", "b", "c"]
    first, total = (line.get_xdata().tolist() for line in ax.lines if line.get_marker() in "oD")
    assert first == [0.4, 0.1, -0.03] and total == [0.6, 0.4, 0]
    lines = np.concatenate([each.get_segments() for each in ax.collections])[:, :, 0].tolist()
    assert [-0.1, 0.02] in lines and [0.4, 1.1] in lines and ax.get_xlim()[0] < -0.1 and ax.get_xlim()[1] > 1.1
    assert title(ax) == "a has a part in 60 % of the variance (40 to 110), alone in 40 %"


def test_a_first_order_that_may_be_none_is_no_number_of_the_title(ax):
    figures.draw_sobol(SOBOL.assign(first_low=-0.1), ax)
    assert title(ax).endswith("(40 to 110), alone in none that is known")


def test_a_title_that_is_given_replaces_the_finding(ax):
    assert title(figures.draw_tornado(TORNADO, ax, title="Mine")) == "Mine"
    assert title(figures.draw_sobol(SOBOL, ax, title="Mine")) == "Mine"
