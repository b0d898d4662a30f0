"""Figures of size: each point where its number is, rings and crosses where they belong, titles that are found."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

from goodput import drawing, figures
from goodput.dials import dials_by_size
from goodput.scale import published_by_size
from goodput.scenario import load_scenario

pytestmark = pytest.mark.usefixtures("drawn")

SIZES = pd.DataFrame(
    {
        "gpus": [1024, 8192, 131_072],
        "law_hours": [14.8, 1.85, 0.1156],
        "as_given_hours": [14.8, 2.7, 0.18],
        "mtbi_hours": [15.0, 1.8, 0.12],
        "mtbi_hours_low": [14.0, 1.7, 0.11],
        "mtbi_hours_high": [16.0, 1.9, 0.13],
        "per_interval": [0.1, 0.3, 1.5],
        "foreseen": [0.86, 0.56, 0.04],
        "goodput": [0.87, 0.55, 0.038],
        "goodput_low": [0.86, 0.54, 0.036],
        "goodput_high": [0.88, 0.56, 0.04],
    }
)
OTHERS = published_by_size()
DIALS = dials_by_size(load_scenario("baseline"), [256, 1024, 8192], 0.9)
KEPT = pd.DataFrame(
    {"step": ["today", "fast saves", "all"], "kept_up_to": [604.9, 2714.0, 148_031.1], "foreseen": [0.04, 0.16, 0.909]}
)
FIGURES = {
    "mtbi": lambda ax, **more: figures.draw_mtbi_by_size(SIZES, OTHERS, ax, **more),
    "goodput": lambda ax, **more: figures.draw_goodput_by_size({"30 min": SIZES, "best": SIZES}, 0.9, ax, **more),
    "dials": lambda ax, **more: figures.draw_dials(DIALS, 0.9, ax, **more),
    "kept": lambda ax, **more: figures.draw_kept(KEPT, 131_072, 0.9, ax, **more),
}


def points(axes, marker: str) -> list[tuple[float, float]]:
    """Return the points of all lines of a marker."""
    return [
        tuple(map(float, xy)) for line in axes.get_lines() if line.get_marker() == marker for xy in line.get_xydata()
    ]


def title(axes) -> str:
    return axes.get_title(loc="left")


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_a_figure_fits_its_axes_takes_a_title_and_leaves_matplotlibs_settings_alone(draw):
    before = dict(matplotlib.rcParams)
    axes = draw(None)
    axes.figure.canvas.draw()
    assert axes.figure.axes == [axes] and dict(matplotlib.rcParams) == before
    assert "GPUs" in axes.get_xlabel() and axes._left_title.get_window_extent().x1 <= axes.figure.bbox.x1
    assert all(text.get_window_extent().x1 <= axes.figure.bbox.x1 for text in axes.texts)
    assert title(draw(drawing.plt.figure().add_subplot(), title="mine")) == "mine"


def test_published_times_are_hollow_where_second_hand_and_triangles_where_projected(ax):
    FIGURES["mtbi"](ax)
    assert sorted(points(ax, "^")) == [(16_384, 1.8), (131_072, 0.23)]
    assert sorted(points(ax, "s")) == [(1024, 7.9), (4096, 10.0), (16_384, pytest.approx(3.093, abs=0.001))]
    hollow = [line.get_label() for line in ax.get_lines() if line.get_markerfacecolor() == "white"]
    assert sorted(hollow) == ["published, measured, second hand", "published, projected, second hand"]


def test_published_sizes_beyond_the_job_are_left_out(ax):
    figures.draw_mtbi_by_size(SIZES.iloc[:2], OTHERS, ax)
    assert points(ax, "^") == [] and sorted(points(ax, "s")) == [(1024, 7.9), (4096, 10.0)]


def test_the_title_of_the_mtbi_has_its_ends_in_units_one_reads(ax):
    assert title(FIGURES["mtbi"](ax)) == "128 times the GPUs: 14.8 hours between interruptions become 6.9 minutes"


def test_rings_are_where_more_than_one_failure_strikes_an_interval(ax):
    FIGURES["goodput"](ax)
    rings = [xy for line in ax.get_lines() if line.get_markersize() == 11 for xy in line.get_xydata().tolist()]
    assert rings == [[131_072, 3.8]] * 2
    assert title(ax) == "Goodput at 131,072 GPUs: 30 min 3.8 %, best 3.8 %"


def test_no_ring_is_explained_where_there_is_none(ax):
    figures.draw_goodput_by_size({"best": SIZES.iloc[:2]}, 0.9, ax)
    assert not any("more than one" in text.get_text() for text in ax.get_legend().get_texts())


def test_a_dials_line_ends_with_a_cross_where_no_value_is_enough(ax):
    FIGURES["dials"](ax)
    needed = DIALS.set_index(["dial", "gpus"])["times"]
    assert set(points(ax, "X")) == {
        (1024, needed["save", 1024]),
        (1024, needed["node MTBF", 1024]),
        (256, needed["restart", 256]),
        (256, needed["detection", 256]),
    }
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names[-1] == "save, detection and restart; or all failures" and len(names) == 5  # one line, two names


def test_the_title_of_the_dials_says_from_where_none_alone_is_enough(ax):
    times = DIALS.set_index(["dial", "gpus"])["times"]["all failures", 8192]
    assert title(FIGURES["dials"](ax)) == (
        f"From 8,192 GPUs no dial alone keeps 90 %; at 8,192 all times must be {times:.3g} times shorter"
    )
    small = figures.draw_dials(DIALS[DIALS["gpus"] < 8192], 0.9)
    assert title(small).startswith("Up to 1,024 GPUs one dial can keep 90 %")


def test_a_step_is_drawn_where_it_is_kept_and_says_what_it_gives_at_the_size_asked_for(ax):
    FIGURES["kept"](ax)
    assert points(ax, "o") == [(x, row) for row, x in enumerate(KEPT["kept_up_to"])]
    assert [label.get_text() for label in ax.get_yticklabels()] == KEPT["step"].tolist()
    assert "148,000  (90.9 % at 131,072)" in [text.get_text() for text in ax.texts]
    assert title(ax) == "90 % is kept up to 605 GPUs today, up to 148,000 with all 2 steps"


def test_intervals_are_drawn(ax):
    FIGURES["mtbi"](ax)
    (bars,) = ax.containers[0].lines[2]
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    assert ends == pytest.approx(SIZES[["mtbi_hours_low", "mtbi_hours_high"]].to_numpy())
