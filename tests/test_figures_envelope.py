"""Maps of the envelope: a cell a point, its colour the class of its error, hatched where noise may move it."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from goodput import figures
from goodput.figures.envelope import CLASSES

pytestmark = pytest.mark.usefixtures("drawn")

# Errors of the first order: 0.05, 0.5, 3 and 30 points; noise blurs the second.
TABLE = pd.DataFrame(
    {
        "interval": [0.1, 1.0, 0.1, 1.0],
        "overhead": [0.01, 0.01, 0.1, 0.1],
        "ours": 0.6,
        "error": [0.0001, 0.003, 0.001, 0.001],
        "first order": [0.6005, 0.595, 0.57, 0.3],
        "exact": 0.6,
    }
)
SHOPS = pd.DataFrame(
    {
        "run": [14, 200, 14, 200],
        "outage": [0.01, 0.01, 0.5, 0.5],
        "job_waits": [0.1, 0.12, 0.03, 0.04],
        "job_waits_error": 0.0001,
        "job_waits_erlang": [0.12, 0.1205, 0.06, 0.06],
        "job_waits_chain": [0.1, 0.12, 0.05, 0.06],
    }
)
FIGURES = {
    "first order": lambda ax: figures.draw_envelope(TABLE, "first order", ax),
    "exact": lambda ax: figures.draw_envelope(TABLE, "exact", ax),
    "erlang": lambda ax: figures.draw_shop_envelope(SHOPS, "erlang", ax),
    "chain": lambda ax: figures.draw_shop_envelope(SHOPS, "chain", ax),
}


def title(axes) -> str:
    return axes.get_title(loc="left")


def cells(axes) -> list:
    """Return the cells of a map, without those out of sight that make the row of colours."""
    return [patch for patch in axes.patches if patch.get_x() > -1]


@pytest.mark.parametrize("name", FIGURES)
def test_a_map_has_ratios_on_its_axes_and_fits(name):
    before = dict(matplotlib.rcParams)
    axes = FIGURES[name](None)
    axes.figure.canvas.draw()
    assert axes.figure.axes == [axes] and dict(matplotlib.rcParams) == before
    assert " / M" in axes.get_xlabel() or " / mean repair" in axes.get_xlabel()
    assert axes._left_title.get_window_extent().x1 <= axes.figure.bbox.x1
    inside = axes.get_window_extent()
    assert all(inside.contains(*text.get_window_extent().get_points().mean(axis=0)) for text in axes.texts)


def test_each_cell_has_the_colour_of_its_class_and_is_hatched_where_noise_may_move_it(ax):
    found = cells(figures.draw_envelope(TABLE, "first order", ax))
    levels = [0.001, 0.01, 0.05, np.inf]
    assert [to_hex(cell.get_facecolor()) for cell in found] == [to_hex(CLASSES[level]) for level in levels]
    assert [bool(cell.get_hatch()) for cell in found] == [False, True, False, False]


def test_cells_lie_in_the_order_of_their_ratios_and_say_their_error_with_two_standard_errors(ax):
    figures.draw_envelope(TABLE, "first order", ax)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0.1", "1"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0.01", "0.1"]
    said = {text.get_position(): text.get_text() for text in ax.texts}
    assert said[(0, 0)] == "+0.05\n± 0.02" and said[(1, 1)] == "−30\n± 0.20"


def test_the_colours_are_named_once(ax):
    figures.draw_envelope(TABLE, "exact", ax)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names[:4] == ["within 0.1 points", "within 1", "within 5", "further off"] and len(names) == 5


def test_the_title_says_how_far_a_formula_holds(ax):
    far = TABLE.assign(**{"first order": 0.1})
    assert "up to overhead + interval / 2 = 0.06 MTBI" in title(figures.draw_envelope(TABLE, "first order", ax))
    assert "everywhere" in title(figures.draw_envelope(TABLE, "exact", ax))
    assert "at worst 50 points" in title(figures.draw_envelope(far, "first order", ax))


def test_the_title_of_a_shop_names_its_worst_case(ax):
    says = title(figures.draw_shop_envelope(SHOPS, "erlang", ax))
    assert "up to 3.0 points off, where it says 6.0 % for 3.0 %" in says


def test_a_title_may_be_given(ax):
    assert title(figures.draw_shop_envelope(SHOPS, "chain", ax, title="mine")) == "mine"
