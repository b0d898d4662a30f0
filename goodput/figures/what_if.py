"""What does moving a setting do? Both wastes, one above the other, and where both stand on their valleys."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from goodput.checkpoint import daly_interval, optimal_interval
from goodput.drawing import COLOURS, INK, SOFT, log_minutes, new_axes, signed_points, titled
from goodput.figures.scenarios import draw_waste
from goodput.scenario import Scenario
from goodput.text import between, percent
from goodput.what_if import Answer

MINUTES = np.geomspace(4, 600, 200)
TICKS = (5, 10, 20, 30, 60, 120, 240, 480)
KEY = "line: exact model, no waiting for nodes\npoint: simulated; thick: 95 % of the mean, thin: p10 to p90"


def draw_answer(answer: Answer, figure: Figure | None = None) -> list[Axes]:
    """Draw an answer of `ask`: waste of both scenarios by category, and goodput over the interval with both on it."""
    if figure is None:
        from matplotlib import pyplot as plt

        figure = plt.figure(figsize=(8, 6.4), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=[1 + 0.4 * len(answer.table), 4])
    return [_draw_both(answer, above), draw_valley(answer, below)]


def _draw_both(answer: Answer, ax: Axes) -> Axes:
    return draw_waste(answer.table, ax, title=what_changed(answer))


def what_changed(answer: Answer) -> str:
    """Return the goodput of the change and its difference to the base, each with its interval."""
    last = answer.table.iloc[-1]
    spread = between(100 * last["goodput_low"], 100 * last["goodput_high"])
    said = f"Goodput {percent(last['goodput'], 1)} ({spread})"
    if answer.is_base:
        return f"{answer.base.name}: {said[0].lower()}{said[1:]}, 95 % interval from {last['seeds']} seeds"
    shift = between(last["difference_low"], last["difference_high"], signed_points)
    return f"{said}, {signed_points(last['difference'])} points against {answer.base.name} ({shift})"


def draw_valley(answer: Answer, ax: Axes | None = None, *, title=None) -> Axes:
    """Draw goodput over the save interval by the exact model, with the simulated point and its 95 % and 80 % bands.

    The model knows no waiting for nodes: a point below its line is what waiting takes.
    """
    ax = new_axes(ax, height=3.6)
    base, changed = answer.table.iloc[0], answer.table.iloc[-1]
    if not answer.is_base:
        _draw_one(ax, answer.base, base, SOFT)
    _draw_one(ax, answer.changed, changed, COLOURS["checkpoint"])
    _mark_best(ax, answer.changed)
    log_minutes(ax, TICKS)
    ax.set(ylabel="Goodput, % of GPU-hours held", xlim=(MINUTES[0], MINUTES[-1]), ylim=(0, 102))
    ax.annotate(KEY, (0, 0), (6, 6), xycoords="axes fraction", textcoords="offset points", fontsize=8.5, color=SOFT)
    return titled(ax, title or _how_far(answer.changed))


def _draw_one(ax: Axes, scenario: Scenario, row, colour: str) -> None:
    ax.plot(MINUTES, 100 * scenario.expected_goodput(MINUTES), color=colour, lw=1.6)
    at, mean = scenario.interval_minutes, 100 * row["goodput"]
    ax.plot([at, at], [100 * row["goodput_p10"], 100 * row["goodput_p90"]], color=colour, lw=1.2)
    reach = [[mean - 100 * row["goodput_low"]], [100 * row["goodput_high"] - mean]]
    ax.errorbar([at], [mean], reach, fmt="o", color=colour, mec="white", ms=7, elinewidth=3.5)
    where = {"textcoords": "offset points", "fontsize": 9.5, "color": colour, "ha": "center", "va": "top"}
    where |= {"bbox": {"facecolor": "white", "linewidth": 0, "pad": 1}}
    ax.annotate(row["scenario"], (at, 100 * row["goodput_p10"]), (0, -8), **where)


def _mark_best(ax: Axes, scenario: Scenario) -> None:
    mtbi, save = scenario.nominal_mtbi_hours * 60, scenario.checkpoint.blocking_minutes
    daly, best = daly_interval(mtbi, save), optimal_interval(mtbi, save)
    ax.axvline(best, color=SOFT, lw=1, ls="--", zorder=0)
    where = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": 9, "color": INK}
    ax.annotate(f"Daly {daly:.1f} min\nexact {best:.1f} min", (best, 0), (5, 5), **where)


def _how_far(scenario: Scenario) -> str:
    mtbi, save = scenario.nominal_mtbi_hours * 60, scenario.checkpoint.blocking_minutes
    best, here = optimal_interval(mtbi, save), scenario.interval_minutes
    lost = 100 * (scenario.expected_goodput(best) - scenario.expected_goodput())
    if lost < 0.05:
        return f"A save every {here:.3g} minutes of compute is as good as the best, {best:.3g} minutes"
    return f"A save every {here:.3g} minutes of compute gives away {lost:.1f} points; the best is {best:.3g} minutes"
