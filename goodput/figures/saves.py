"""How often to save? A sweep of the interval beside its models, and the two sides of its cost."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from goodput.checkpoint import daly_interval, expected_goodput, first_order_goodput, optimal_interval, young_interval
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


def _mark_formulas(ax: Axes, mtbi: float, save: float) -> None:
    """Mark the three intervals by lines; each line carries its formula's name as its label."""
    found = {
        "Young": young_interval(mtbi, save),
        "Daly": daly_interval(mtbi, save),
        "optimum": optimal_interval(mtbi, save),
    }
    for name, minutes in found.items():
        ax.axvline(minutes, color=SOFT, lw=1, ls=":" if name == "Young" else "-", zorder=0).set_label(f"_{name}")
    where = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": 9, "color": SOFT}
    left = f"Daly {found['Daly']:.1f} min\nexact optimum {found['optimum']:.1f} min"
    ax.annotate(left, (found["Daly"], 0), (-5, 5), ha="right", **where)
    ax.annotate(f"Young {found['Young']:.1f} min", (found["Young"], 0), (5, 5), **where)
