"""How often to save? A sweep of the interval beside its models, the two sides of its cost, and both in steps."""

from itertools import cycle
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from goodput.checkpoint import (
    daly_interval,
    expected_costs,
    expected_goodput,
    first_order_goodput,
    optimal_interval,
    young_interval,
)
from goodput.drawing import (
    COLOURS,
    INK,
    SOFT,
    draw_dots,
    log_minutes,
    new_axes,
    titled,
    write_at_end,
)
from goodput.scenario import Scenario

_ROUND = np.array([1, 2, 5, 10, 20, 30, 60, 90, 120, 180, 300, 600, 1200])  # ticks of an axis of minutes


def draw_intervals(table: pd.DataFrame, scenario: Scenario, ax: Axes | None = None, *, title=None):
    """Draw goodput over the save interval: a sweep's points, the exact and the first-order model, three formulas.

    `table` is `sweep(scenario, "checkpoint.interval_minutes", ...)`; the models take the scenario's nominal MTBI.
    """
    job = scenario.nominal_mtbi_hours * 60, scenario.checkpoint.blocking_minutes
    minutes = np.geomspace(table["value"].min(), table["value"].max(), 500)
    exact = expected_goodput(minutes, *job, scenario.overhead_minutes)
    first = first_order_goodput(minutes, *job, scenario.overhead_minutes)
    ax = new_axes(ax, height=4.3)
    ax.plot(minutes, 100 * exact, color=COLOURS["checkpoint"], lw=1.8, label="exact model")
    ax.plot(minutes, 100 * first, color=COLOURS["lost_work"], lw=1.5, ls="--", label="first-order model")
    draw_dots(ax, table, f"simulated, {table['seeds'].iloc[0]} seeds, with 95 % interval")
    ax.set(ylabel="Goodput, % of GPU-hours held", ylim=(100 * min(exact.min(), table["goodput_low"].min()) - 3, None))
    _mark_formulas(ax, *job)
    log_minutes(ax, table["value"])
    ax.legend(frameon=False, fontsize=9, loc="lower center", bbox_to_anchor=(0.37, 0.12))
    near = minutes[exact > exact.max() - 0.01]
    finding = f"From {near.min():.0f} to {near.max():.0f} minutes, the exact model is within one point of its best"
    return titled(ax, title or finding)


def draw_two_sides(table: pd.DataFrame, ax: Axes | None = None, *, title=None):
    """Draw what each interval of a sweep costs: in saves, in lost work, and in both, in % of the GPU-hours held."""
    value, saves, lost = table["value"], 100 * table["share_checkpoint"], 100 * table["share_lost_work"]
    ax = new_axes(ax, height=3.5)
    for cost, name, colour in (
        (saves + lost, "both", INK),
        (saves, "saves", COLOURS["checkpoint"]),
        (lost, "lost work", COLOURS["lost_work"]),
    ):
        ax.plot(value, cost, "o-", color=colour, ms=4, lw=1.6, label=name)
        write_at_end(ax, value, cost, name, colour, up=5 if name == "both" else -5 if name == "lost work" else 0)
    ax.set(ylabel="Cost, % of GPU-hours held", ylim=(0, None))
    log_minutes(ax, value)
    best = (saves + lost).idxmin()
    finding = f"Saves and lost work together cost least, {saves[best] + lost[best]:.1f} %, at {value[best]:g} minutes"
    return titled(ax, title or finding)


def draw_build_up(table: pd.DataFrame, scenario: Scenario, steps: int = 4, ax: Axes | None = None, *, title=None):
    """Draw what an interval costs, in `steps`: 1 saves, 2 lost work too, 3 the sum with the overhead, 4 the answers.

    The curves are the exact model's, as `expected_costs` has them; the fourth step adds the three formulas and the
    points of a sweep. The axes keep their limits from step to step, so that slides can be laid over each other.
    """
    minutes = np.geomspace(table["value"].min(), table["value"].max(), 500)
    costs = 100 * pd.DataFrame(expected_costs(minutes, *_job(scenario), scenario.overhead_minutes), index=minutes)
    most = max(costs["all"].max(), 100 - 100 * table["goodput_low"].min())
    ax = new_axes(ax, height=4)
    _draw_costs(ax, costs, steps)
    if steps >= 4:
        _draw_played(ax, table)
        _mark_formulas(ax, *_job(scenario), top=True)
    ax.set(ylabel="Cost, % of GPU-hours held", ylim=(0, 1.06 * most))
    log_minutes(ax, table["value"])
    ax.set_xlim(0.92 * minutes[0], 1.8 * minutes[-1])
    return titled(ax, title or _finding(costs, table, steps))


def draw_valleys(curves: pd.DataFrame, ax: Axes | None = None, *, title=None):
    """Draw goodput (0 to 1) over the interval, a column a curve: thick within one point of its best, a dot at the best.

    The index is the interval in minutes. The title compares the first curve with the last.
    """
    ax = new_axes(ax, height=3.6)
    minutes, colours = curves.index.to_series(), (INK, COLOURS["checkpoint"], COLOURS["restart"], COLOURS["waiting"])
    for (name, curve), colour in zip(curves.items(), cycle(colours)):
        found = valley_of(curve)
        ax.plot(minutes, 100 * curve, color=colour, lw=1.3, label=f"_{name}")
        near = minutes.between(found.low, found.high)
        said = f"{name}: best at {found.best:.0f} min, within a point from {found.low:.0f} to {found.high:.0f}"
        ax.plot(minutes[near], 100 * curve[near], color=colour, lw=5, solid_capstyle="butt", label=said)
        ax.plot(found.best, 100 * curve.max(), "o", color=colour, mec="white", ms=9)
    ax.set(ylabel="Goodput, % of GPU-hours held")
    log_minutes(ax, _ROUND[np.searchsorted(_ROUND, minutes.min()) : np.searchsorted(_ROUND, minutes.max(), "right")])
    ax.legend(frameon=False, fontsize=9, loc="lower right", bbox_to_anchor=(1, 0.02))
    first, last = (valley_of(curves[name]) for name in curves.columns[[0, -1]])
    change = "widens" if last.width > first.width else "narrows"
    finding = f"The valley moves from {first.best:.0f} to {last.best:.0f} minutes and {change}"
    return titled(ax, title or f"{finding} from a factor of {first.width:.1f} to {last.width:.1f}")


class Valley(NamedTuple):
    """Where a curve of goodput is best, where it is within one point of that, and how wide: `high` over `low`."""

    best: float
    low: float
    high: float
    width: float


def valley_of(curve: pd.Series) -> Valley:
    """Return the valley of a curve of goodput over the interval, in the unit of its index.

    >>> valley_of(pd.Series([0.80, 0.895, 0.90, 0.891, 0.7], index=[10, 20, 40, 80, 160]))
    Valley(best=40.0, low=20.0, high=80.0, width=4.0)
    """
    near = curve.index[curve > curve.max() - 0.01]
    low, high = float(near.min()), float(near.max())
    return Valley(float(curve.idxmax()), low, high, high / low)


def _job(scenario: Scenario) -> tuple[float, float]:
    """Return the nominal MTBI and the time of a save, in minutes."""
    return scenario.nominal_mtbi_hours * 60, scenario.checkpoint.blocking_minutes


def _draw_played(ax: Axes, table: pd.DataFrame) -> None:
    """Draw what a sweep cost as points, and say beside one of them what they are."""
    waste = 1 - table[["goodput", "goodput_low", "goodput_high"]]
    draw_dots(ax, waste.assign(value=table["value"]), "simulated")
    beside = table["value"].iloc[len(table) // 4], 100 * waste["goodput"].iloc[len(table) // 4]
    said = f"simulated, {table['seeds'].iloc[0]} seeds,\nwith 95 % interval"
    ax.annotate(said, beside, (10, 4), textcoords="offset points", fontsize=9, color=INK)


def _draw_costs(ax: Axes, costs: pd.DataFrame, steps: int) -> None:
    """Draw the curves of the first steps, each with its name at its right end."""
    drawn = [("saves", COLOURS["checkpoint"], 1), ("lost work", COLOURS["lost_work"], 2)]
    drawn += [("overhead", COLOURS["restart"], 3), ("all", INK, 3)]
    minutes = costs.index.to_series()
    for name, colour, step in drawn:
        if step <= steps:
            ax.plot(minutes, costs[name], color=colour, lw=2.4 if name == "all" else 1.8, label=name)
            write_at_end(ax, minutes, costs[name], name, colour, up=4 if name == "overhead" else 0)


def _finding(costs: pd.DataFrame, table: pd.DataFrame, steps: int) -> str:
    """Return the title of one step: what it adds."""
    minutes, best = costs.index, costs["all"].idxmin()
    if steps == 1:
        ends = costs["saves"].iloc[[0, -1]]
        says = (
            f"{minutes[0]:g} minutes they cost {ends.iloc[0]:.0f} %, every {minutes[-1]:g} minutes {ends.iloc[1]:.1f} %"
        )
        return f"Saves alone: every {says}"
    if steps == 2:
        even = (costs["saves"] - costs["lost work"]).abs().idxmin()
        return f"Lost work grows as saves shrink: from {even:.0f} minutes on it costs more than they do"
    if steps == 3:
        least = f"{costs['all'].min():.1f} %, at {best:.0f} minutes"
        return f"The sum is least, {least}; the overhead moves it up, not sideways"
    played = table["value"][table["goodput"].idxmax()]
    return f"The formulas say {best:.0f} minutes; of the intervals played, {played:g} minutes cost least"


def _mark_formulas(ax: Axes, mtbi: float, save: float, top: bool = False) -> None:
    """Mark the three intervals by lines, named below or at the top; a line carries its formula's name as its label."""
    found = {
        "Young": young_interval(mtbi, save),
        "Daly": daly_interval(mtbi, save),
        "optimum": optimal_interval(mtbi, save),
    }
    for name, minutes in found.items():
        ax.axvline(minutes, color=SOFT, lw=1, ls=":" if name == "Young" else "-", zorder=0).set_label(f"_{name}")
    where = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": 9, "color": SOFT}
    left = f"Daly {found['Daly']:.1f} min\nexact optimum {found['optimum']:.1f} min"
    at, up, where["va"] = (1, -5, "top") if top else (0, 5, "bottom")
    ax.annotate(left, (found["Daly"], at), (-5, up), ha="right", **where)
    ax.annotate(f"Young {found['Young']:.1f} min", (found["Young"], at), (5, up), **where)
