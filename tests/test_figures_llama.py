"""Figures beside a published run: what is drawn is in the frame, and the title says it."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from goodput import figures
from goodput.drawing import COLOURS

pytestmark = pytest.mark.usefixtures("drawn")

COUNTS = pd.DataFrame(
    {
        "component": ["Faulty GPU", "SSD", "CPU"],
        "group": ["GPU", "Host", "Host"],
        "published": [148, 3, 2],
        "low": [125.1, 0.6, 0.2],
        "high": [173.9, 8.8, 7.2],
        "ours": [144.8, 2.6, 2.5],
    }
)
LIMITS = pd.DataFrame(
    {"kept": [np.nan, 8.0, np.nan], "computed": [1.0, 14.0, 17.0], "running": [17.6, 17.6, 17.6]},
    index=pd.Index([2.0, 10.0, 60.0], name="interval_minutes"),
)
PLAYED = pd.DataFrame({"overhead_minutes": [5.0, 12.0], "interval_minutes": [10.0, 10.0], "goodput": [0.9234, 0.8765]})
CURVES = pd.DataFrame({1.4: [0.0, 0.01, 0.04], 2.8: [0.0, 0.003, 0.01]}, index=[0.0, 10.0, 20.0])
HIDDEN = pd.DataFrame(
    {
        "overhead_minutes": [10.0, 10.0],
        "mtbi_hours": [1.4, 2.8],
        "difference": [0.011, 0.004],
        "difference_low": [0.009, 0.001],
        "difference_high": [0.013, 0.007],
    }
)


def title(ax) -> str:
    return ax.get_title(loc="left")


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def lines(ax) -> dict[str, list[float]]:
    """Return the heights of each line that has a name."""
    return {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in ax.lines}


# --- counts --------------------------------------------------------------------------------------------------------


def test_each_count_has_its_interval_its_own_mark_and_ours(ax):
    figures.draw_components(COUNTS, ax)
    bars = [segment[:, 0].tolist() for segment in ax.collections[0].get_segments()]
    assert bars == [[125.1, 173.9], [0.6, 8.8], [0.2, 7.2]]
    published, ours = ax.lines
    assert list(published.get_xdata()) == [148, 3, 2] and list(ours.get_xdata()) == [144.8, 2.6, 2.5]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["Faulty GPU", "SSD", "CPU"]
    assert "54 days" in ax.get_xlabel() and ax.get_xscale() == "log"


def test_the_title_counts_the_rates_that_are_open_by_a_factor_of_four(ax):
    assert title(figures.draw_components(COUNTS, ax)) == "2 of 3 rates are open by a factor of 4 or more"


# --- outages that are short enough ---------------------------------------------------------------------------------


def test_each_reading_is_a_line_where_it_allows_an_outage(ax):
    figures.draw_effective(LIMITS, 0.9, ax=ax)
    found = lines(ax)
    assert found["computes what is kept"] == [8.0]
    assert found["computes, lost work included"] == [1.0, 14.0, 17.0]
    assert found["not down"] == [17.6] * 3
    assert set(found) <= set(texts(ax))
    assert ax.get_xscale() == "log" and "minutes" in ax.get_xlabel() and "minutes" in ax.get_ylabel()


def test_what_was_played_stands_where_it_was_played_bold_where_it_is_enough(ax):
    figures.draw_effective(LIMITS, 0.9, PLAYED, ax)
    enough, short = (next(text for text in ax.texts if text.get_text() == said) for said in ("92.3", "87.6"))
    assert (enough.xy, enough.get_fontweight()) == ((10, 5), "bold")
    assert (short.xy, short.get_fontweight()) == ((10, 12), "normal")


def test_the_title_of_the_map_says_the_longest_outage_and_its_interval(ax):
    said = "More than 90 % kept: 8.0 min of detection + restart at most, saves every 10 min"
    assert title(figures.draw_effective(LIMITS, 0.9, ax=ax)) == said


def test_the_title_says_so_where_no_outage_is_short_enough(ax):
    ax = figures.draw_effective(LIMITS.assign(kept=np.nan), 0.95, ax=ax)
    assert title(ax) == "No outage is short enough for more than 95 % of kept work"


# --- faults left out -----------------------------------------------------------------------------------------------


def test_each_mtbi_is_a_curve_in_points_with_its_name(ax):
    figures.draw_flattery(CURVES, ax=ax)
    assert [line.get_ydata().tolist() for line in ax.lines] == [[0, 1, 4], pytest.approx([0, 0.3, 1])]
    assert texts(ax) == ["MTBI 1.4 h", "MTBI 2.8 h"]
    assert "points" in ax.get_ylabel() and "minutes" in ax.get_xlabel()


def test_what_was_played_has_its_interval_and_the_colour_of_its_curve(ax):
    figures.draw_flattery(CURVES, HIDDEN, ax)
    first, second = ax.containers
    assert first.lines[0].get_ydata().tolist() == pytest.approx([1.1])
    assert first.lines[2][0].get_segments()[0][:, 1].tolist() == pytest.approx([0.9, 1.3])
    assert to_hex(second.lines[0].get_color()) == to_hex(COLOURS["checkpoint"])


def test_the_title_takes_the_outage_where_the_first_curve_is_half_as_high_as_at_its_end(ax):
    said = "An outage of 10 min hides 1.0 points at an MTBI of 1.4 h, 0.3 at 2.8 h"
    assert title(figures.draw_flattery(CURVES, ax=ax)) == said


@pytest.mark.parametrize(
    "draw",
    [
        lambda **kw: figures.draw_components(COUNTS, **kw),
        lambda **kw: figures.draw_effective(LIMITS, 0.9, PLAYED, **kw),
        lambda **kw: figures.draw_flattery(CURVES, HIDDEN, **kw),
    ],
)
def test_a_title_of_ones_own_replaces_the_finding(draw):
    ax = draw(title="Mine")
    assert title(ax) == "Mine"
    ax.figure.canvas.draw()
