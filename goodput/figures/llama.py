"""Does the model agree with a published run? Counts beside counts, outages that are short enough, faults left out."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from goodput.drawing import COLOURS, INK, SOFT, log_minutes, new_axes, titled, write_at_end
from goodput.text import number, percent

_READINGS = {
    "running": ("not down", COLOURS["restart"]),
    "computed": ("computes, lost work included", COLOURS["waiting"]),
    "kept": ("computes what is kept", COLOURS["checkpoint"]),
}
# where a line has its name: at which part of it, how far aside, on which side; None is at its top
_PLACES = {"running": (1, (0, 3), "right"), "computed": (0.8, (0, -17), "center"), "kept": (None, (0, 3), "center")}
_MINUTES = np.array([2, 3, 5, 10, 20, 30, 60, 120, 180])  # ticks


def draw_components(table: pd.DataFrame, ax: Axes | None = None, *, title=None):
    """Draw each published count of `by_component` with its exact 95 % interval, and a tick at our mean of a run."""
    ax = new_axes(ax, height=1.3 + 0.21 * len(table))
    rows = range(len(table))
    ax.hlines(rows, table["low"], table["high"], color=COLOURS["checkpoint"], lw=5, alpha=0.45)
    ax.plot(table["published"], rows, "o", color=COLOURS["checkpoint"], ms=6, label="published, with 95 % interval")
    ax.plot(table["ours"], rows, "|", color=INK, ms=12, mew=1.6, label="ours, mean of a run")
    ax.set(xscale="log", xlabel="Interruptions in 54 days (log scale)", ylim=(len(table) - 0.5, -0.5))
    ax.set_yticks(rows, table["component"])
    ticks = [value for value in (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200) if value > table["low"].min() / 1.5]
    ax.set_xticks(ticks, [f"{value:g}" for value in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.legend(frameon=False, fontsize=9, loc="lower right")
    few = (table["high"] > 4 * table["low"]).sum()
    finding = f"{few} of {len(table)} rates are open by a factor of 4 or more"
    return titled(ax, title or finding)


def draw_effective(limits: pd.DataFrame, share: float, played: pd.DataFrame | None = None, ax=None, *, title=None):
    """Draw `most_overhead(..., share)` over the interval; of `on_the_map`, each point's goodput, bold where it will do.

    Below a line, so much of the time is effective in one reading of the word; below the lowest line in all of them.
    """
    ax = new_axes(ax, height=4.2)
    minutes = limits.index.to_series()
    ax.fill_between(minutes, 0, limits["kept"].fillna(0), color=COLOURS["productive"], lw=0, zorder=0)
    for name, (said, colour) in _READINGS.items():
        line = limits[name].dropna()
        if line.empty:
            continue
        ax.plot(line, color=colour, lw=2, label=said)
        at, up, side = _PLACES[name]
        where = line.index[min(int(at * len(line)), len(line) - 1)] if at is not None else line.idxmax()
        style = {"ha": side, "va": "bottom", "fontsize": 9.5, "color": colour}
        ax.annotate(said, (where, line[where]), up, textcoords="offset points", **style)
    if played is not None:
        _write_played(ax, played, share)
    log_minutes(ax, _MINUTES[(minutes.min() <= _MINUTES) & (minutes.max() >= _MINUTES)])
    top = max(limits.max().max(), played["overhead_minutes"].max() if played is not None else 0)
    ax.set(ylabel="Detection + restart, minutes", ylim=(0, 1.15 * top))
    most = limits["kept"]
    if most.isna().all():
        finding = f"No outage is short enough for more than {percent(share, 0)} of kept work"
    else:
        finding = f"More than {percent(share, 0)} kept: {most.max():.1f} min of detection + restart at most,"
        finding += f" saves every {most.idxmax():.0f} min"
    return titled(ax, title or finding)


def _write_played(ax: Axes, played: pd.DataFrame, share: float) -> None:
    for row in played.itertuples():
        enough = row.goodput > share
        ax.annotate(
            f"{100 * row.goodput:.1f}",
            (row.interval_minutes, row.overhead_minutes),
            ha="center",
            va="center",
            fontsize=9,
            fontweight="bold" if enough else "normal",
            color=INK if enough else SOFT,
            bbox={"boxstyle": "square,pad=0.15", "fc": COLOURS["productive"] if enough else "white", "ec": "none"},
        )


def draw_flattery(curves: pd.DataFrame, played: pd.DataFrame | None = None, ax: Axes | None = None, *, title=None):
    """Draw `flattery`, a line an MTBI, over the length of an outage; of `flattery_played`, points with intervals."""
    ax = new_axes(ax, height=3.4)
    minutes = curves.index.to_series()
    for hours, colour in zip(curves, (COLOURS["lost_work"], COLOURS["checkpoint"], COLOURS["restart"])):
        ax.plot(curves[hours] * 100, color=colour, lw=2)
        write_at_end(ax, minutes, 100 * curves[hours], f"MTBI {number(hours)} h", colour, up=0)
        if played is not None:
            mine = played[played["mtbi_hours"] == hours]
            reach = np.abs(mine[["difference_low", "difference_high"]].to_numpy().T - mine["difference"].to_numpy())
            ax.errorbar(
                mine["overhead_minutes"],
                100 * mine["difference"],
                100 * reach,
                fmt="o",
                color=colour,
                capsize=3,
                lw=1.2,
            )
    ax.set(xlabel="Mean detection + restart, minutes", ylabel="Goodput too high by, points", xlim=(0, None))
    first, last = curves.columns[[0, -1]]
    at = minutes[(curves[first] - curves[first].iloc[-1] / 2).abs().idxmin()]
    points = [f"{100 * curves.loc[at, hours]:.1f}" for hours in (first, last)]
    says = f"{points[0]} points at an MTBI of {number(first)} h, {points[1]} at {number(last)} h"
    return titled(ax, title or f"An outage of {at:.0f} min hides {says}")
