"""Figures of a fit: dots lie in their band as the numbers do, bars reach from low to high, titles say what holds."""

import numpy as np
import pandas as pd
import pytest
from own_axes import check_own_axes

from goodput import figures
from goodput.drawing import COLOURS

REPLAY = pd.DataFrame(
    [
        ("goodput", 0.795, 0.70, 0.80, 0.82, True),
        ("checkpoint", 0.133, 0.12, 0.132, 0.14, True),
        ("waiting", 0.2, 0.0, 0.02, 0.1, False),
        ("unattributed", 0.0, 0.0, 0.0, 0.0, True),
        ("interruptions", 30.0, 33.0, 41.0, 52.0, False),
        ("mtbi_hours", 15.2, 12.0, 15.0, 20.0, True),
    ],
    columns=["what", "log", "p5", "median", "p95", "inside"],
)
GAINS = pd.DataFrame(
    [("shorter saves", 79_657.0, 72_730.0, 83_892.0), ("spares", 26_000.0, 3500.0, 70_000.0), ("hope", 10, -90, 95.0)],
    columns=["change", "gpu_hours", "low", "high"],
)
TRUTH = {"shorter saves": 82_841.0, "spares": 4631.0, "hope": 100.0}

FIGURES = {
    "replay": (lambda ax: figures.draw_replay(REPLAY, ax), "runs"),
    "gains": (lambda ax: figures.draw_gains(GAINS, ax), "GPU-hours"),
    "truth": (lambda ax: figures.draw_gains(GAINS, ax, truth=TRUTH), "GPU-hours"),
}

pytestmark = pytest.mark.usefixtures("drawn")


def title(axes) -> str:
    return axes.get_title(loc="left")


def dots(axes, marker) -> list[tuple[float, float]]:
    return [point for line in axes.lines if line.get_marker() == marker for point in line.get_xydata().tolist()]


@pytest.mark.parametrize("name", FIGURES)
def test_the_axis_says_what_is_measured_and_the_title_counts(name, ax):
    draw, unit = FIGURES[name]
    assert draw(ax) is ax and unit in ax.get_xlabel() and any(char.isdigit() for char in title(ax))


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_makes_its_own_axes_and_its_title_and_numbers_fit(name):
    check_own_axes(FIGURES[name][0])


@pytest.mark.parametrize("name", FIGURES)
def test_a_title_that_is_given_is_taken(name, ax):
    figure = (
        figures.draw_replay(REPLAY, ax, title="mine")
        if name == "replay"
        else figures.draw_gains(GAINS, ax, title="mine")
    )
    assert title(figure) == "mine"


def test_a_measure_inside_stands_where_its_number_does_in_the_band(ax):
    """Goodput 79.5 in 70 to 82: 9.5/12; checkpoint 13.3 in 12 to 14: 1.3/2; MTBI 15.2 in 12 to 20: 3.2/8."""
    figures.draw_replay(REPLAY, ax)
    assert np.allclose(dots(ax, "o"), [[9.5 / 12, 0], [0.65, 1], [0.4, 4]])


def test_a_measure_outside_is_red_and_on_its_side_whatever_the_distance(ax):
    figures.draw_replay(REPLAY, ax)
    red = next(line for line in ax.lines if line.get_marker() == "D")
    assert red.get_color() == COLOURS["lost_work"] and np.allclose(red.get_xydata(), [[1.2, 2], [-0.2, 3]])
    assert title(ax) == "2 of 5 measures lie outside the simulated runs: waiting, interruptions"


def test_what_is_nothing_everywhere_is_left_out_and_numbers_have_their_units(ax):
    figures.draw_replay(REPLAY, ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "goodput  79.5 %",
        "checkpoint  13.3 %",
        "waiting  20.0 %",
        "interruptions  30",
        "MTBI  15.2 h",
    ]
    assert [text.get_text() for text in ax.texts][-1] == "12 h to 20 h"


def test_where_all_runs_agree_a_log_that_does_not_stands_outside_all_the_same(ax):
    """A wait of 49.8 % where no run has any: the band has no width, and the log lies beyond it."""
    figures.draw_replay(pd.DataFrame([("waiting", 0.498, 0.0, 0.0, 0.0, False)], columns=REPLAY.columns), ax)
    assert dots(ax, "D") == [[1.2, 0]]


def test_a_share_too_small_to_be_read_is_left_out(ax):
    tiny = pd.DataFrame([("checkpoint", 1e-6, 1e-6, 2e-6, 3e-6, True)], columns=REPLAY.columns)
    figures.draw_replay(pd.concat([REPLAY, tiny], ignore_index=True), ax)
    assert len(ax.get_yticklabels()) == 5


def test_a_log_that_is_inside_everywhere_says_so(ax):
    figures.draw_replay(REPLAY[REPLAY["inside"]], ax)
    assert title(ax) == "All 3 measures of the log lie where 90 % of the simulated runs do"


def test_a_measure_that_is_the_same_in_all_runs_and_the_log_stands_in_the_middle(ax):
    figures.draw_replay(pd.DataFrame([("goodput", 0.5, 0.5, 0.5, 0.5, True)], columns=REPLAY.columns), ax)
    assert dots(ax, "o") == [[0.5, 0]]


def test_bars_reach_from_low_to_high_in_the_order_given(ax):
    figures.draw_gains(GAINS, ax)
    bars = next(each for each in ax.collections if len(each.get_segments()) == 3)
    assert [segment[:, 0].tolist() for segment in bars.get_segments()] == GAINS[["low", "high"]].to_numpy().tolist()
    assert [label.get_text() for label in ax.get_yticklabels()] == GAINS["change"].tolist()
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_a_gain_that_may_be_none_is_grey(ax):
    figures.draw_gains(GAINS, ax)
    bars = next(each for each in ax.collections if len(each.get_segments()) == 3)
    assert (bars.get_colors()[0] != bars.get_colors()[2]).any() and (bars.get_colors()[0] == bars.get_colors()[1]).all()
    assert title(ax) == "shorter saves gains most: 79,657 GPU-hours (72,730 to 83,892)"
    assert ax.texts[2].get_text() == "10  (−90 to 95)"


def test_the_truth_is_a_diamond_and_the_title_counts_the_intervals_that_hold_it(ax):
    """82,841 and 4,631 lie in their intervals, 100 does not lie in -90 to 95."""
    figures.draw_gains(GAINS, ax, truth=TRUTH)
    assert dots(ax, "D") == [[82_841, 0], [4631, 1], [100, 2]]
    assert title(ax) == "2 of 3 intervals hold the true gain"


def test_a_change_that_rests_on_something_assumed_has_a_star(ax):
    figures.draw_gains(GAINS.assign(assumed=["", "pool.spares", ""]), ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["shorter saves", "spares *", "hope"]
    assert "*: rests on a value assumed" in ax.get_xlabel()
