"""Figures of nodes, spares and crews: points where the frame says, laws where the formulas say, titles that count."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

from goodput import drawing, figures
from goodput.experiment import sweep
from goodput.queueing import crew_wait, erlang_b, mean_wait, monthly_bias, poisson_tail, repair_load, waiting_share
from goodput.scenario import load_scenario

BASE = load_scenario("baseline")
LOAD = repair_load(BASE)
SPARES = [0, 2, 4]
SWEEP = sweep(BASE, "pool.spares", SPARES, seeds=3)


def with_ends(**means: list) -> pd.DataFrame:
    """Return means with `_low` a tenth below and `_high` a fifth above."""
    table = pd.DataFrame(means)
    return table.join((0.9 * table).add_suffix("_low")).join((1.2 * table).add_suffix("_high"))


def mean_low_high(mean: list, index: list) -> pd.DataFrame:
    return pd.DataFrame({"mean": mean, "low": 0.5 * np.array(mean), "high": 1.5 * np.array(mean)}, index=index)


SIZES = with_ends(mtbi_hours=[32.0, 9.0], node_mtbf_hours=[2900.0, 3100.0], other_hours=[41.0, 39.0])
SIZES = SIZES.assign(nodes=[16, 256])
MONTHS = with_ends(pooled=[2950.0, 3010.0], monthly=[3900.0, 3100.0]).assign(events=[3.5, 20.0])
WAITS = mean_low_high([0.6, 0.1, 0.01, 0.0], [0, 2, 4, 8])
GAINS = mean_low_high([100_000.0, 20_000.0, 5_000.0, 1_000.0], [1, 2, 3, 4])
CREWS = mean_low_high([90.0, 16.0, 3.0, 0.0], [1, 2, 3, 5])
GRID = pd.DataFrame([[0.5, 0.6, 0.7], [0.7, 0.76, 0.74]], index=[1, "unlimited"], columns=[2, 4, 8])

FIGURES = {
    "sizes": (lambda ax: figures.draw_sizes(SIZES, BASE, ax), "Nodes", "hours"),
    "months": (lambda ax: figures.draw_monthly_means(MONTHS, 3000, ax), "Failures in a month", "hours"),
    "spares": (lambda ax: figures.draw_spares(SWEEP, BASE, ax), "Spare nodes", "% of GPU-hours"),
    "waiting": (lambda ax: figures.draw_waiting(WAITS, BASE, ax), "Spare nodes", "%"),
    "gains": (lambda ax: figures.draw_spare_gains(GAINS, 5376, ax), "Spare nodes", "GPU-hours"),
    "crews": (lambda ax: figures.draw_crew_waits(CREWS, BASE, ax), "Repair crews", "hours"),
    "grid": (lambda ax: figures.draw_grid(GRID, ax), "%", "Repair crews"),
}


pytestmark = pytest.mark.usefixtures("drawn")


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def title(axes) -> str:
    return axes.get_title(loc="left")


def bars(axes) -> list[np.ndarray]:
    """Return the ends of all error bars, a (points, 2) array a series."""
    return [np.array([segment[:, 1] for segment in bar.get_segments()]) for bar in axes.collections]


def line(axes, label: str):
    return next(line for line in axes.lines if line.get_label() == label)


@pytest.mark.parametrize("name", FIGURES)
def test_units_stand_on_the_axes_and_the_title_says_something(name, ax):
    draw, x_unit, y_unit = FIGURES[name]
    assert draw(ax) is ax
    assert x_unit in ax.get_xlabel() and y_unit in ax.get_ylabel()
    assert any(char.isdigit() for char in title(ax))


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_makes_its_own_axes_and_leaves_matplotlibs_settings_alone(name):
    before = dict(matplotlib.rcParams)
    axes = FIGURES[name][0](None)
    assert axes.figure.axes == [axes]
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", FIGURES)
def test_a_title_fits_its_figure(name):
    axes = FIGURES[name][0](None)
    axes.figure.canvas.draw()
    drawn = axes._left_title.get_window_extent()
    assert drawn.x1 <= axes.figure.bbox.x1


def test_sizes_lie_on_the_law_with_their_intervals(ax):
    figures.draw_sizes(SIZES, BASE, ax)
    all_failures = ax.lines[0]
    nodes, hours = all_failures.get_data()
    assert hours == pytest.approx(1 / (nodes / 3000 + 1 / 40))
    assert bars(ax)[0] == pytest.approx(SIZES[["mtbi_hours_low", "mtbi_hours_high"]].to_numpy())
    # 2,900 hours of a node are 2,900 / 16 between any two failures of 16
    assert bars(ax)[1][0] == pytest.approx(np.array([0.9, 1.2]) * 2900 / 16)
    assert title(ax).startswith("16 times the nodes, 3.6 times the interruptions")


def test_without_failures_of_the_job_itself_there_is_no_line_of_them(ax):
    figures.draw_sizes(SIZES, BASE.but({"job_failures": {}}), ax)
    assert "of no node" not in texts(ax)


def test_the_mean_of_months_is_drawn_with_the_bias_that_theory_gives_it(ax):
    figures.draw_monthly_means(MONTHS, 3000, ax)
    events, hours = line(ax, "expected of a mean of months").get_data()
    assert hours == pytest.approx(3000 * monthly_bias(events))
    assert title(ax) == "With 3.5 failures a month a mean of months is 30 % off, the pooled MTBF 2 %"


def test_goodput_over_spares_is_drawn_with_its_law_and_the_best_of_spares_counted(ax):
    figures.draw_spares(SWEEP, BASE, ax)
    spares, law = ax.lines[0].get_data()
    waits = [waiting_share(n, LOAD, run=14) for n in (0, 4)]
    assert spares.tolist() == [0, 1, 2, 3, 4]
    assert law[0] / law[4] == pytest.approx((1 - waits[0]) / (1 - waits[1]))
    counted = 100 * SWEEP["goodput"] * 128 / (128 + SWEEP["value"])
    assert any(np.allclose(each.get_ydata(), counted) for each in ax.lines if len(each.get_ydata()) == 3)
    assert title(ax).endswith(f"best with {SPARES[counted.argmax()]} of them: {counted.max():.1f} %")


def test_waiting_has_three_laws_and_the_points_above_the_axis(ax):
    figures.draw_waiting(WAITS, BASE, ax)
    spares = np.arange(9)
    laws = [line(ax, text.get_text()).get_ydata() for text in ax.get_legend().get_texts()[:3]]
    fresh = np.array([waiting_share(n, LOAD, run=14) for n in range(9)])
    for drawn, law in zip(laws, (poisson_tail(spares, LOAD), erlang_b(spares + 1, LOAD), fresh)):
        assert drawn == pytest.approx(100 * law)
    assert bars(ax)[0] == pytest.approx(100 * WAITS[["low", "high"]].to_numpy()[:3])  # a share of 0 has no logarithm
    assert title(ax).startswith("With 4 spares the job waits 1.0 %")


def test_spares_that_pay_for_sure_are_counted_and_the_open_one_is_named(ax):
    """Lows of 50,000 and 10,000 are above 5,376; the third lies on both sides; the fourth ends at 1,500."""
    figures.draw_spare_gains(GAINS, 5376, ax)
    assert title(ax) == "2 spares gain more than the 5,376 GPU-hours each holds; number 3 is open"
    colours = [bar.get_color()[0] for bar in ax.collections]
    names = ("restart", "lost_work")
    green, red = (matplotlib.colors.to_rgba(drawing.COLOURS[name]) for name in names)
    assert np.allclose(colours, [green, matplotlib.colors.to_rgba(drawing.INK), red])


def test_where_no_spare_pays_the_title_says_so(ax):
    assert title(figures.draw_spare_gains(GAINS, 1e6, ax)).startswith("0 spares gain more than the 1,000,000")


def test_waits_for_a_crew_stand_beside_both_laws(ax):
    figures.draw_crew_waits(CREWS, BASE, ax)
    crews = CREWS.index.to_numpy()
    assert line(ax, "Erlang C: spares without end").get_ydata() == pytest.approx(mean_wait(crews, LOAD, 48))
    own = [crew_wait(4, LOAD, int(count), 48, run=14) for count in crews]
    assert line(ax, "4 spares, 28 days from a fresh start").get_ydata() == pytest.approx(own)
    assert len(bars(ax)[0]) == 3  # a wait of 0 has no logarithm
    assert title(ax) == "A broken node waits for a crew 90 hours with 1, 16 hours with 2, 3 hours with 3"


def test_the_best_of_each_row_of_a_grid_is_framed_and_each_cell_has_its_number(ax):
    figures.draw_grid(GRID, ax)
    assert texts(ax) == ["50.0", "60.0", "70.0", "70.0", "76.0", "74.0"]
    middles = [(frame.get_x() + frame.get_width() / 2, frame.get_y() + frame.get_height() / 2) for frame in ax.patches]
    assert middles == [pytest.approx((2, 0)), pytest.approx((1, 1))]
    assert title(ax) == "Best number of spares with 1, unlimited crews: 8, 4"


NOBODY = mean_low_high([0.0, 0.0], [8, 9])


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: figures.draw_waiting(NOBODY, BASE, ax),
        lambda ax: figures.draw_spare_gains(NOBODY, 5376, ax),
        lambda ax: figures.draw_crew_waits(NOBODY, BASE, ax),
    ],
)
def test_where_nobody_ever_waits_the_laws_are_drawn_all_the_same(draw, ax):
    draw(ax).figure.canvas.draw()
    assert len(ax.lines) >= 1 and np.isfinite([*ax.get_xlim(), *ax.get_ylim()]).all()


def test_a_single_run_has_no_interval_but_a_figure(ax):
    alone = GAINS.assign(low=np.nan, high=np.nan)
    assert title(figures.draw_spare_gains(alone, 5376, ax)).endswith("number 1 is open")
